"""From a recorded attempt to an outcome: the one place that applies the fault table and the stage chain.

Source: fair pick-and-place protocol, sections 4 to 6; statistics, section 2. Nothing here sees a world or a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest
from trialplate.errors import EvidenceError, nearest
from trialplate.record import Conduct, Outcome, Row, StageResult, Status, Trace
from trialplate.scoring.ladder import Ladder, climb
from trialplate.scoring.own import OwnScorer
from trialplate.spec.stages import StageChain

TERMINATIONS = ("policy_stop", "step_limit", "control_rejected", "plan_replayed", "fault", "interrupted")
START_INVALID_FAULT = "scene_mismatch"
"""Fault code of an attempt whose recording starts in success: the world was not a fair scene at reset."""


def score_rows(
    rows: Iterable[Row],
    *,
    load_trace: Callable[[Row], Trace | None],
    chain: StageChain,
    fault_table: Mapping[str, str],
    interrupted: Literal["error", "replace"] = "error",
) -> tuple[Outcome, ...]:
    """Return one outcome per trial, in the order of the schedule (``ordinal``).

    ``load_trace`` returns the trace that a row names, or None where it names none; one trace is held at a time.
    A trial has one attempt. Only with ``interrupted="replace"``, which the protocol registers, may it have more:
    all but the last must have been interrupted, and the last one counts. Its outcome is that of an undisturbed run;
    the interrupted attempts stay visible as rows. Raises
    EvidenceError for a repeated attempt otherwise, and for whatever :func:`score_attempt` refuses.
    """
    scored = ((row, score_attempt(row, load_trace(row), chain=chain, fault_table=fault_table)) for row in rows)
    return counted_outcomes(scored, interrupted=interrupted)


def counted_outcomes(
    attempts: Iterable[tuple[Row, Outcome]], *, interrupted: Literal["error", "replace"] = "error"
) -> tuple[Outcome, ...]:
    """Return the one outcome that counts of each trial, from the outcomes of all its attempts: see ``score_rows``."""
    scored: dict[str, list[tuple[Row, Outcome]]] = {}
    for row, outcome in attempts:
        scored.setdefault(row.trial_id, []).append((row, outcome))
    counted = [_counted(tries, interrupted=interrupted) for tries in scored.values()]
    return tuple(outcome for _, outcome in sorted(counted, key=lambda pair: pair[0].ordinal))


def score_attempt(
    row: Row,
    trace: Trace | None,
    *,
    chain: StageChain | None,
    fault_table: Mapping[str, str],
    own: OwnScorer | None = None,
    compared: bool = False,
) -> Outcome:
    """Return what one recorded attempt is worth.

    A fault has the status that ``fault_table`` (code -> ``FAIL``, ``ERROR`` or ``EXCLUDED``) gives its code.
    ``control_rejected`` is FAIL, ``interrupted`` is ERROR; otherwise the chain decides: PASS exactly when it is
    complete and still true at the end. ERROR and EXCLUDED have no stages: they say nothing about the arm. ``own``:
    the scorer of a suite without a chain, which is asked instead. ``compared``: the content of the trace was found to
    be the one that the row names when it was read, and is not digested a second time.

    Raises EvidenceError when a code is not in the table, the row contradicts itself or its trace, or the trace
    of an attempt that must have one is missing.
    """
    _refuse_contradiction(row, trace, compared=compared)
    if own is not None:  # each scenario has columns of its own: no range holds over a run
        conduct = replace(_conduct(row, trace), action_low=None, action_high=None)
        return replace(own(row, trace), conduct=conduct)
    if chain is not None:
        outcome = outcome_of(row, trace, chain=chain, fault_table=fault_table)
        return replace(outcome, conduct=_conduct(row, trace))
    raise EvidenceError("the suite has neither a chain nor a scorer of its own", code="no_scorer")


def outcome_of(row: Row, trace: Trace | None, *, chain: StageChain, fault_table: Mapping[str, str]) -> Outcome:
    """Return what :func:`score_attempt` does, without comparing row and trace, and without the conduct on the wire.

    For measurements that are not those of the row: what the same attempt is worth when it is simulated again.
    """
    if row.termination == "interrupted":
        return _outcome(row, Status.ERROR, reason="interrupted")
    if row.fault_code is not None:
        return _faulted(row, trace, row.fault_code, chain=chain, fault_table=fault_table)
    if trace is None:
        raise EvidenceError(
            f"trial {row.trial_id}: it ended by {row.termination!r} and has no trace; only a fault or an interruption"
            " may leave none",
            code="trace_missing",
        )
    ladder = climb(trace, chain)
    if ladder.start_invalid is not None:
        return _faulted(row, trace, START_INVALID_FAULT, chain=chain, fault_table=fault_table, ladder=ladder)
    if row.termination == "control_rejected":
        lost = ladder.forfeited("the attempt ended with an action that the arm's controller refused")
        return _outcome(row, Status.FAIL, reason="control_rejected", ladder=lost)
    if ladder.success_final:
        return _outcome(row, Status.PASS, reason="chain_complete", ladder=ladder)
    return _outcome(row, Status.FAIL, reason="stage_not_passed", ladder=ladder)


def _conduct(row: Row, trace: Trace | None) -> Conduct:
    """Return what the recording says about the calls of an attempt."""
    moved = trace.action if trace is not None and trace.steps else None
    repeated_rows, repeated_sha256 = _repeated(moved) if moved is not None else (0, None)
    return Conduct(
        calls=row.calls,
        calls_executed=sum(bool(call.get("executed")) for call in trace.calls) if trace is not None else 0,
        calls_rejected=row.calls_rejected,
        short_chunks=row.short_chunks,
        rows_proposed=row.rows_proposed,
        rows_executed=row.rows_executed,
        rows_dropped=row.rows_dropped,
        rows_discarded=row.rows_discarded,
        usage=row.usage,
        usage_reason=row.usage_reason,
        echo=row.echo,
        action_low=tuple(moved.min(axis=0).tolist()) if moved is not None else None,
        action_high=tuple(moved.max(axis=0).tolist()) if moved is not None else None,
        repeated_rows=repeated_rows,
        repeated_sha256=repeated_sha256,
    )


def _repeated(moved: NDArray[np.float64]) -> tuple[int, str]:
    """Return how often one row was executed without another between, and its digest. ``moved``: (T, dim), T > 0."""
    other = np.flatnonzero((moved[1:] != moved[:-1]).any(axis=1)) + 1  # rows that are not the one before
    starts = np.concatenate(([0], other))
    lengths = np.diff(starts, append=len(moved))
    longest = int(lengths.argmax())
    first = int(starts[longest])
    return int(lengths[longest]), array_digest(moved[first : first + 1])


def _refuse_contradiction(row: Row, trace: Trace | None, *, compared: bool) -> None:
    where = f"trial {row.trial_id}"
    if row.termination not in TERMINATIONS:
        raise EvidenceError(
            f"{where}: unknown termination {row.termination!r}{nearest(row.termination, TERMINATIONS)}"
        )
    if row.termination == "fault" and row.fault_code is None:
        raise EvidenceError(f"{where}: it ended by a fault and names none")
    if row.termination not in ("fault", "interrupted") and row.fault_code is not None:
        raise EvidenceError(f"{where}: it ended by {row.termination!r} and names the fault {row.fault_code!r}")
    if (row.trace is None) != (trace is None):
        named, handed = ("no trace", "one") if row.trace is None else ("a trace", "none")
        raise EvidenceError(f"{where}: the row names {named}, {handed} was handed over", code="trace_missing")
    if row.trace is None or trace is None:
        return
    if trace.steps != row.control_steps:
        raise EvidenceError(f"{where}: the row has {row.control_steps} control steps, its trace {trace.steps}")
    if row.initial_state_sha256 != trace.state_sha256[0]:
        raise EvidenceError(f"{where}: the state after reset in the row is not the first state of the trace")
    if trace.steps and row.actions_sha256 != array_digest(trace.action):
        raise EvidenceError(f"{where}: the digest of the executed actions in the row is not that of the trace")
    if compared:
        return
    found = trace.content_sha256()
    if found != row.trace.content_sha256:
        raise EvidenceError(
            f"{where}: expected a trace with content {row.trace.content_sha256[:12]}, got {found[:12]}",
            code="hash_mismatch",
        )


def _faulted(
    row: Row,
    trace: Trace | None,
    code: str,
    *,
    chain: StageChain,
    fault_table: Mapping[str, str],
    ladder: Ladder | None = None,
) -> Outcome:
    status = _status(row, code, fault_table)
    notes = tuple(
        note for note in (row.fault_message, ladder.start_invalid if ladder is not None else None) if note is not None
    )
    if status is not Status.FAIL:
        return _outcome(row, status, reason=code, notes=notes)
    if ladder is None:
        ladder = climb(trace, chain) if trace is not None else _never_started(chain)
    lost = ladder.forfeited("the attempt ended by a fault that is charged to the arm")
    return _outcome(row, status, reason=code, ladder=lost, notes=notes)


def _status(row: Row, code: str, fault_table: Mapping[str, str]) -> Status:
    if code not in fault_table:
        raise EvidenceError(
            f"trial {row.trial_id}: the fault table has no status for {code!r}{nearest(code, fault_table)}",
            code="fault_unknown",
        )
    status = Status(fault_table[code])
    if status is Status.PASS:
        raise EvidenceError(f"the fault table maps {code!r} to PASS; a fault cannot pass", code="fault_table")
    return status


def _never_started(chain: StageChain) -> Ladder:
    stages = tuple(StageResult(name=name, passed=False, step=None) for name in chain.names)
    return Ladder(stages=stages, success_once=False, success_final=False, first_failed_stage=chain.names[0])


def _outcome(
    row: Row,
    status: Status,
    *,
    reason: str,
    ladder: Ladder | None = None,
    notes: Sequence[str] = (),
) -> Outcome:
    return Outcome(
        trial_id=row.trial_id,
        arm=row.arm,
        scenario=row.scenario,
        family=row.family,
        domain=row.domain,
        variant=row.variant,
        repeat=row.repeat,
        status=status,
        reason=reason,
        stages=ladder.stages if ladder else (),
        success_once=ladder.success_once if ladder else None,
        success_final=ladder.success_final if ladder else None,
        first_failed_stage=ladder.first_failed_stage if ladder else None,
        termination=row.termination,
        control_steps=row.control_steps,
        trace_content_sha256=row.trace.content_sha256 if row.trace else None,
        initial_state_sha256=row.initial_state_sha256,
        notes=(*(ladder.notes if ladder else ()), *notes),
    )


def _counted(tries: Sequence[tuple[Row, Outcome]], *, interrupted: str) -> tuple[Row, Outcome]:
    ordered = sorted(tries, key=lambda pair: pair[0].attempt)
    *earlier, last = ordered
    if not earlier:
        return last
    row, outcome = last
    numbers = [attempt.attempt for attempt, _ in ordered]
    if interrupted != "replace" or len(set(numbers)) != len(numbers):
        raise EvidenceError(
            f"trial {row.trial_id} was attempted {len(ordered)} times (attempts {numbers}); the protocol registers"
            " one attempt per trial",
            code="attempt_repeated",
        )
    for attempt, _ in earlier:
        if attempt.termination != "interrupted":
            raise EvidenceError(
                f"trial {row.trial_id}: attempt {attempt.attempt} ended by {attempt.termination!r} and was run again;"
                " only an interrupted attempt is replaced",
                code="attempt_repeated",
            )
    return row, outcome
