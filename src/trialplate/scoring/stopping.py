"""A registered stopping rule, applied to outcomes in the order of the schedule: the one place that says stop.

The run asks it after every registered look, and every reader asks it again of the same evidence. A pair counts when
both arms were measured, PASS or FAIL. Source: statistics specification, section 8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trialplate import stats
from trialplate.record import Outcome, Status
from trialplate.spec.stopping import StoppingPlan

Side = Literal["a", "b"]
Pair = tuple[bool, bool]
"""Whether A and whether B passed."""

Seen = tuple[float | None, float | None, Side | None]
"""Statistic, bound, and the side in whose favour the rule rejects at a look, None where it does not."""

MEASURED = (Status.PASS, Status.FAIL)


@dataclass(frozen=True, slots=True)
class Block:
    """One scenario and repeat under every arm. ``ended``: every trial of it has; ``pair``: None unless measured."""

    ended: bool
    pair: Pair | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen after ``blocks`` blocks, in which ``pairs`` were measured.

    ``statistic`` and ``bound``: natural logarithms of the e-value and of 1/alpha, or z and its Lan-DeMets bound. Null
    where no pair is discordant, or where the look may not spend anything yet.
    """

    blocks: int
    pairs: int
    only_a: int
    only_b: int
    statistic: float | None
    bound: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Where a rule ends a run. ``planned``: blocks; ``stopped_after``: blocks until the rule stopped, None if not.

    ``why``: ``rejected`` (that the arms do not differ) or ``out_of_reach``. ``favours``: whom the rejection favours.
    ``p_value``: of the e-process, valid at any look; None for group-sequential looks.
    """

    kind: str
    a: str
    b: str
    planned: int
    looks: tuple[Look, ...]
    stopped_after: int | None
    why: Literal["rejected", "out_of_reach"] | None
    favours: Side | None
    p_value: float | None

    def document(self) -> dict[str, Any]:
        """Return the plain document that stands in ``analysis.json``."""
        return asdict(self) | {"looks": [asdict(look) for look in self.looks]}

    def sentence(self) -> str:
        """Return in one line why and where the run stopped; raises ValueError when it did not."""
        if self.stopped_after is None or self.why is None:
            raise ValueError("the rule did not stop")
        last = self.looks[-1]
        seen = f"{last.only_a} of {last.pairs} pairs passed by {self.a} alone, {last.only_b} by {self.b} alone"
        return f"{self.kind}, {self.why} at the look after {self.stopped_after} of {self.planned} blocks: {seen}"


def stopping_of(lock_document: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Stopping | None:
    """Return where the rule of a lock ends its run, judged by outcomes; None where none is registered."""
    registered = lock_document["protocol"].get("stopping")
    if registered is None:
        return None
    plan = StoppingPlan.model_validate_json(json.dumps(registered))
    return apply_rule(plan, blocks_of(plan, lock_document["schedule"], outcomes))


def trials_until(stopping: Stopping | None, lock_document: Mapping[str, Any]) -> int:
    """Return how many trials of the schedule are to be run: all of them, or those before the stop."""
    planned = len(lock_document["schedule"])
    if stopping is None or stopping.stopped_after is None:
        return planned
    return planned // stopping.planned * stopping.stopped_after


def blocks_of(plan: StoppingPlan, schedule: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]) -> list[Block]:
    """Return the blocks of a schedule in their order, with what the outcomes say of each.

    ``schedule``: the trials of the lock; those of a block stand together (``schedule.order = "blocks"``).
    """
    by_trial = {outcome.trial_id: outcome for outcome in outcomes}
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for trial in schedule:
        grouped.setdefault((trial["scenario"], trial["repeat"]), []).append(trial)
    found = []
    for trials in grouped.values():
        known = {trial["arm"]: by_trial.get(trial["trial_id"]) for trial in trials}
        sides = [known.get(arm) for arm in plan.arms]
        passed = [side.status is Status.PASS for side in sides if side is not None and side.status in MEASURED]
        pair = (passed[0], passed[1]) if len(passed) == 2 else None
        found.append(Block(all(outcome is not None for outcome in known.values()), pair))
    return found


def apply_rule(plan: StoppingPlan, blocks: Sequence[Block]) -> Stopping:
    """Apply a rule at its registered looks, as far as every block before them has ended."""
    looks: list[Look] = []
    why: Literal["rejected", "out_of_reach"] | None = None
    favours: Side | None = None
    due = _due(plan, blocks)
    for n, (statistic, bound, side) in zip(due, _at_looks(plan, blocks), strict=True):
        pairs = _pairs(blocks[:n])
        only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
        looks.append(Look(blocks=n, pairs=len(pairs), only_a=only_a, only_b=only_b, statistic=statistic, bound=bound))
        if side is not None:
            why, favours = "rejected", side
        elif plan.futility == "out_of_reach" and n < len(blocks) and not _in_reach(plan, blocks, n):
            why = "out_of_reach"
        if why is not None:
            break
    seen = _discordant(_pairs(blocks[: looks[-1].blocks])) if looks else []
    return Stopping(
        kind=plan.kind,
        a=plan.arms[0],
        b=plan.arms[1],
        planned=len(blocks),
        looks=tuple(looks),
        stopped_after=looks[-1].blocks if why is not None else None,
        why=why,
        favours=favours,
        p_value=_process(plan, seen).p_value if plan.kind == "e_process" else None,
    )


def _due(plan: StoppingPlan, blocks: Sequence[Block]) -> list[int]:
    """Return the looks that may be taken: those before which every block has ended."""
    ended = next((n for n, block in enumerate(blocks) if not block.ended), len(blocks))
    return [n for n in plan.looks_within(len(blocks)) if n <= ended]


def _pairs(blocks: Sequence[Block]) -> list[Pair]:
    return [block.pair for block in blocks if block.pair is not None]


def _at_looks(plan: StoppingPlan, blocks: Sequence[Block]) -> list[Seen]:
    """Return what the rule sees at each look that may be taken, whatever it saw before."""
    looks = [_pairs(blocks[:n]) for n in _due(plan, blocks)]
    return _e_process(plan, looks) if plan.kind == "e_process" else _group_sequential(plan, looks, len(blocks))


def _e_process(plan: StoppingPlan, looks: Sequence[Sequence[Pair]]) -> list[Seen]:
    """Return e and 1/alpha, as logarithms, at each look; it rejects where e has reached 1/alpha by then."""
    bound = -math.log(plan.alpha)
    if not looks:
        return []
    whole = _process(plan, _discordant(looks[-1]))
    found: list[Seen] = []
    for pairs in looks:
        flags = _discordant(pairs)
        decided = whole.rejected and whole.decided_after <= len(flags)
        won = flags[: whole.decided_after]
        side: Side = "a" if 2 * sum(won) > len(won) else "b"
        log_e = stats.paired_e_value(
            sum(flags), len(flags) - sum(flags), alternative=plan.alternative or "two-sided"
        ).log_e_value
        found.append((log_e if flags else None, bound, side if decided else None))
    return found


def _group_sequential(plan: StoppingPlan, looks: Sequence[Sequence[Pair]], planned: int) -> list[Seen]:
    """Return z and its bound at each look. A look at which no further pair was measured is not taken."""
    taken: list[Sequence[Pair]] = []
    for pairs in looks:
        if len(pairs) > (len(taken[-1]) if taken else 0):
            taken.append(pairs)
    test = stats.group_sequential_test(
        [pairs.count((True, False)) for pairs in taken],
        [pairs.count((False, True)) for pairs in taken],
        pairs=[len(pairs) for pairs in taken],
        n_max=planned,
        alpha=plan.alpha,
        spending=plan.spending or "obrien-fleming",
    )
    at = {len(pairs): n for n, pairs in enumerate(taken)}
    found: list[Seen] = []
    for pairs in looks:
        n = at.get(len(pairs))
        z, bound = (None, None) if n is None else (test.statistics[n], test.bounds[n])
        crossed = z is not None and bound is not None and abs(z) >= bound
        found.append((z, bound, ("a" if z > 0 else "b") if z is not None and crossed else None))
    return found


def _in_reach(plan: StoppingPlan, blocks: Sequence[Block], seen: int) -> bool:
    """Return whether some outcome of the blocks behind ``seen`` could make the rule reject at a later look."""
    winners = [(True, False)] if plan.alternative == "greater" else [(True, False), (False, True)]
    for pair in winners:
        future = [*blocks[:seen], *[Block(True, pair)] * (len(blocks) - seen)]
        if any(side is not None for _, _, side in _at_looks(plan, future)):
            return True
    return False


def _process(plan: StoppingPlan, flags: Sequence[int]) -> stats.EProcess:
    return stats.paired_e_process(flags, alpha=plan.alpha, alternative=plan.alternative or "two-sided")


def _discordant(pairs: Sequence[Pair]) -> list[int]:
    """Return the discordant pairs in their order: 1 where A alone passed, 0 where B alone did."""
    return [int(a) for a, b in pairs if a != b]
