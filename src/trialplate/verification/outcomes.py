"""From evidence to numbers: outcomes, the registered analysis, and what stands against any claim."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trialplate.coherence import declared_registrations
from trialplate.inputs import changed_arms
from trialplate.lock import CONFIRMATORY, run_class, spent_packs
from trialplate.record import Outcome, Row, Status, Trace
from trialplate.registry import load_suite
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.own import own_scorer
from trialplate.scoring.score import counted_outcomes, score_attempt
from trialplate.scoring.skills import SkillReport, Stratum, skill_report
from trialplate.scoring.stopping import stopping_of, trials_until
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.channels import ActionSpec
from trialplate.spec.plan import AnalysisPlan
from trialplate.spec.stages import StageChain
from trialplate.store.amendments import amendment_path
from trialplate.store.chain import JOURNAL
from trialplate.store.disclosures import COMPROMISED
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView
from trialplate.verification.clocks import sync_blockers

Scored = Callable[[Row], Outcome]


class Scorer:
    """Scores single attempts with the chain and the fault table of a lock."""

    def __init__(self, lock_document: Mapping[str, Any]) -> None:
        suite = lock_document["suite"]
        self._own = own_scorer(lock_document)
        self._chain = StageChain.model_validate_json(json.dumps(suite["chain"])) if self._own is None else None
        self._fault_table = suite["fault_table"]

    def score(self, row: Row, trace: Trace | None) -> Outcome:
        """Return what an attempt is worth; ``trace`` as the store read it, compared with its row.

        Raises EvidenceError, see ``trialplate.scoring.score.score_attempt``.
        """
        return score_attempt(
            row, trace, chain=self._chain, fault_table=self._fault_table, own=self._own, compared=True
        )  # fmt: skip


def score_view(view: CampaignView, *, scored: Scored | None = None) -> tuple[Outcome, ...]:
    """Score every attempt of a campaign with the chain and fault table of its lock.

    An arm whose code or weights changed during the run has no scorable attempt: all of them are ERROR. An attempt on
    which a leak was disclosed keeps its outcome, and is marked; so is every attempt of an arm of which a run declared
    another identity than the locked one. ``scored``: gives the outcomes of attempts whose traces were read before.
    """
    scorer = Scorer(view.lock_document)

    def from_recording(row: Row) -> Outcome:
        return scorer.score(row, view.load_trace(row) if row.trace is not None else None)

    outcomes = counted_outcomes(
        ((row, (scored or from_recording)(row)) for row in view.rows),
        interrupted=view.lock_document["protocol"]["schedule"]["interrupted"],
    )
    changed = changed_inputs(view)
    leaked, exploratory = _leaked(view), declared_registrations(view)
    return tuple(
        replace(
            _voided(outcome) if outcome.arm in changed else outcome,
            blinding="compromised" if outcome.trial_id in leaked else None,
            identity="exploratory" if outcome.arm in exploratory else None,
            notes=(*outcome.notes, *leaked.get(outcome.trial_id, ())),
        )
        for outcome in outcomes
    )


def _leaked(view: CampaignView) -> dict[str, tuple[str, ...]]:
    """Return trial id -> what was disclosed about the attempt that counts for it."""
    counted = {row.trial_id: row.attempt for row in view.rows}  # rows come in order: the last attempt counts
    found: dict[str, tuple[str, ...]] = {}
    for leak in view.leaks:
        trial, attempt = leak.attempt
        if counted.get(trial) == attempt:
            found[trial] = (*found.get(trial, ()), f"{COMPROMISED}; {leak.what}")
    return found


def changed_inputs(view: CampaignView) -> frozenset[str]:
    """Return the arms whose code or weights were, at any check of the run, not those of the lock."""
    return frozenset(
        name
        for record in view.records
        if record["type"] == "inputs.checked"
        for name in changed_arms(view.lock_document, record["data"])
    )


def _voided(outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        status=Status.ERROR,
        reason="inputs_changed",
        stages=(),
        success_once=None,
        success_final=None,
        first_failed_stage=None,
    )


def analyse_document(outcomes: Sequence[Outcome], lock_document: Mapping[str, Any]) -> Analysis:
    """Carry out the analysis plan of a lock."""
    plan, suite = lock_document["protocol"]["analysis"], lock_document["suite"]
    planned: dict[str, int] = {arm["name"]: 0 for arm in lock_document["arms"]}
    stopping = stopping_of(lock_document, outcomes)
    listed = lock_document["schedule"][: trials_until(stopping, lock_document)]
    for trial in listed:
        planned[trial["arm"]] += 1
    ladders, chain = ladders_of(suite), suite["chain"]
    analysis = analyse_outcomes(
        outcomes,
        planned=planned,
        stages=[stage["name"] for stage in chain["stages"]] if chain is not None else (),
        ladders=ladders,
        plan=AnalysisPlan.model_validate_json(json.dumps(plan)),
        errors_rule=suite["errors_rule"],
        tested=[arm["name"] for arm in lock_document["arms"] if arm["role"] == "arm"],
        profiles={arm["name"]: arm["profile"] for arm in lock_document["arms"]},
        stopping=stopping,
        action=ActionSpec.model_validate_json(json.dumps(suite["action"])) if chain is not None else None,
    )
    if ladders is None:
        return analysis
    return replace(analysis, skills=_skills(outcomes, lock_document, listed, confidence=analysis.confidence))


def ladders_of(suite: Mapping[str, Any]) -> dict[str, tuple[str, ...]] | None:
    """Return skill -> names of its stages, in order, of the suite in a lock; None for a suite with one chain."""
    if "ladders" not in suite:
        return None
    return {part["skill"]: tuple(stage["name"] for stage in part["stages"]) for part in suite["ladders"]}


def _skills(
    outcomes: Sequence[Outcome],
    lock_document: Mapping[str, Any],
    listed: Sequence[Mapping[str, Any]],
    *,
    confidence: float,
) -> SkillReport:
    """Return what a campaign of skills says of each of them. ``listed``: the trials that were to be run."""
    suite = lock_document["suite"]
    strata = {item.id: Stratum.of(item.domain, item.variant) for item in load_suite(suite["name"]).scenarios()}
    return skill_report(
        outcomes,
        planned=[(trial["arm"], trial["scenario"]) for trial in listed],
        strata=strata,
        ladders=ladders_of(suite) or {},
        confidence=confidence,
    )


def claim_blockers(
    analysis: Analysis, lock_document: Mapping[str, Any], *, view: CampaignView | None = None
) -> list[str]:
    """Return what stands against any claim on this evidence, whatever its numbers say.

    ``not_qualified`` is among them: only raw control campaigns can take it away (``trialplate.exam``). ``view``: the
    evidence itself, which tells whether an arm was run under another identity than the locked one, or by a clock that
    nobody knows.
    """
    blockers = ["not_qualified"]
    if view is not None and declared_registrations(view):
        blockers.append("exploratory_registration")
    if view is not None:
        blockers += sync_blockers(view)
    if run_class(lock_document) != CONFIRMATORY:
        blockers.append("not_confirmatory")
    if spent_packs(lock_document):
        blockers.append("holdout_spent")
    if any(arm.counts.initiated < (arm.counts.planned or 0) for arm in analysis.arms):
        blockers.append("incomplete_coverage")
    if _stopped_elsewhere(analysis, lock_document, view):
        blockers.append("unregistered_stop")
    return sorted(blockers)


def _stopped_elsewhere(analysis: Analysis, lock_document: Mapping[str, Any], view: CampaignView | None) -> bool:
    """Return whether trials were run behind the stop of the registered rule, or a stop was said not of its making."""
    counts = [arm.counts for arm in analysis.arms]
    to_be_run = sum(count.planned or 0 for count in counts)
    said = view is not None and any(amendment.kind == "stop" for amendment in view.amendments)
    return any(count.initiated > (count.planned or 0) for count in counts) or (
        said and to_be_run == len(lock_document["schedule"])
    )


def stop_findings(view: CampaignView) -> list[Finding]:
    """Apply the registered stopping rule to the outcomes again, and compare with where the run ended."""
    outcomes = score_view(view) if view.lock_document["protocol"].get("stopping") is not None else ()
    stopping = stopping_of(view.lock_document, outcomes)
    said = next((amendment for amendment in view.amendments if amendment.kind == "stop"), None)
    if stopping is None:
        return []  # no rule: that a stop was said is a finding of the journal
    if stopping.stopped_after is None:
        if said is None:
            return []
        return [_stop(said.n, f"no stop in {len(stopping.looks)} looks at {stopping.planned} blocks", said.text)]
    until = trials_until(stopping, view.lock_document)
    behind = [outcome.trial_id for outcome in outcomes if int(outcome.trial_id) >= until]
    if behind:
        text = f"{len(behind)} attempts behind it, the first of trial {behind[0]}"
        return [_stop(said.n if said else 0, stopping.sentence(), text)]
    if said is None:
        return [_stop(0, stopping.sentence(), "no amendment of the kind 'stop'")]
    return []


def _stop(n: int, expected: str, found: str) -> Finding:
    path = amendment_path(n) if n else JOURNAL
    return finding("stop_rule", path, expected=expected, found=found[:200])


def exclusion_findings(view: CampaignView) -> list[Finding]:
    """Find attempts that nobody may leave out: of a code that the lock does not register, or without evidence for it.

    The evidence of an exclusion is what was seen, in words, and the recording of an attempt that had begun.
    """
    table = view.lock_document["suite"]["fault_table"]
    found = []
    for row in view.rows:
        if row.fault_code is None:
            continue
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        if row.fault_code not in table:
            registered = "a code of the locked fault table"
            found.append(_exclusion(path, "/fault_code", registered, row.fault_code))
        elif table[row.fault_code] == Status.EXCLUDED.value:
            if not (row.fault_message or "").strip():
                found.append(_exclusion(path, "/fault_message", "what was seen", row.fault_message))
            begun = row.calls or row.control_steps or row.initial_state_sha256 is not None
            if begun and row.trace is None:
                asked = f"a recording of {row.calls} calls and {row.control_steps} control steps"
                found.append(_exclusion(path, "/trace", asked, None))
    return found


def _exclusion(path: str, pointer: str, expected: str, found: object) -> Finding:
    return finding("exclusion_unregistered", path, pointer=pointer, expected=expected, found=found)
