"""From a recorded trial of a skill to its outcome: pure, without simulator, clock or randomness.

Source: atomic skills, sections 4, 5, 7 and 9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trialplate.canonical import canonical_json
from trialplate.errors import CaseFault, EvidenceError, nearest
from trialplate.interfaces import Scenario
from trialplate.record import Outcome, Row, SkillFacts, StageResult, Status, Trace
from trialplate.record.plan_check import check_segments
from trialplate.spec.skills import RESET, SkillCase, skill_case
from trialplate.suites.atomic_skills.climbing import PLANNER_REASONS, Climb
from trialplate.suites.atomic_skills.diagnostics import diagnostics
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.readings import Readings, at_most, before_plan, replayed
from trialplate.suites.atomic_skills.stages import GOALS, READERS
from trialplate.suites.atomic_skills.tolerances import Scoring
from trialplate.suites.atomic_skills.trust import judge_motion

PASSED, FAULT_DETAIL = "chain_complete", "fault_detail"
"""Reason of a PASS, and the kind of the event that holds the detail of a fault."""


def score(
    row: Row, trace: Trace | None, *, scenario: Scenario, settings: Mapping[str, Any], fault_table: Mapping[str, str]
) -> Outcome:
    """Return what one recorded trial of a skill is worth.

    ``settings``: those of the suite in the lock. Raises EvidenceError for a reason that the fault table does not
    have, a case that is malformed, or a trial that ended without fault and has no trace.
    """
    case, limits = skill_case(scenario.parameters), scoring_settings(settings)
    if case.skill not in SKILLS:
        raise EvidenceError(f"case {case.case_id}: unknown skill {case.skill!r}{nearest(case.skill, SKILLS)}")
    facts = _facts(case, row, trace)
    if row.termination == "interrupted":
        return _errored(row, facts, "invalid_case", "interrupted", fault_table=fault_table)
    if row.fault_code is not None:
        return _faulted(row, facts, fault_table=fault_table)
    if trace is None:
        raise EvidenceError(f"trial {row.trial_id}: it was replayed and has no trace", code="trace_missing")
    try:
        refuse_start(trace, case, limits)
        readings = replayed(trace, case, limits)
        check_segments(readings.segments, case.segments, waypoints=readings.waypoints)
    except CaseFault as fault:
        told = _errored(row, facts, fault.code, fault.detail, fault_table=fault_table)
        return replace(told, notes=(fault.message,))
    return _climbed(row, facts, readings, fault_table=fault_table)


def scoring_settings(settings: Mapping[str, Any]) -> Scoring:
    """Return the scoring numbers of a suite's settings, as locked."""
    return Scoring.model_validate_json(json.dumps(settings["scoring"]))


def refuse_start(trace: Trace, case: SkillCase, limits: Scoring) -> None:
    """Raise CaseFault where a recording up to sample -1 is no fair start of a case.

    ``setup_failed``: a hand does not hold what the set-up was to grasp, through all of its last rows.
    ``initial_contact``: something touches that should not. ``vacuous_at_start``: the goal is already true.
    """
    r = before_plan(trace, case, limits)
    if SKILLS[case.skill].starts_held:
        _refuse_dropped_setup(r)
    contact_n = float(r.at("unintended_n", -1)[0])
    if contact_n > limits.unintended_n:
        raise CaseFault(
            f"case {case.case_id}: an unintended contact of {contact_n:.3f} N before the first waypoint",
            detail="initial_contact",
        )
    goal = GOALS.get(case.skill)
    if goal is not None and all(part.holds for part in goal(r)):
        raise CaseFault(
            f"case {case.case_id}: the goal of {case.skill} is true before the first waypoint; nothing can be won",
            detail="vacuous_at_start",
        )


def check_start(trace: Trace, scenario: Scenario, settings: Mapping[str, Any]) -> None:
    """Do what :func:`refuse_start` does, from documents: what a run asks before anything is planned."""
    refuse_start(trace, skill_case(scenario.parameters), scoring_settings(settings))


def _refuse_dropped_setup(r: Readings) -> None:
    rows = r.limits.setup_hold_rows
    kinds = r.trace.measured["sample_kind"][:, 0]
    pads = r.trace.measured["pad_force_n"]
    first = r.start - rows + 1
    if first < 1 or (kinds[first : r.start + 1] == RESET).any():
        raise CaseFault(f"case {r.case.case_id}: the set-up has no {rows} rows of holding", detail="setup_failed")
    holding = pads[first : r.start + 1] >= r.limits.pad_force_n
    arms = range(pads.shape[1] // 2) if "support" in r.case.command else (0,)
    for arm in arms:
        lost = [row for row in range(rows) if not holding[row, 2 * arm : 2 * arm + 2].all()]
        if lost:
            raise CaseFault(
                f"case {r.case.case_id}: hand {arm} does not hold its object in {len(lost)} of the last {rows} rows"
                " of the set-up",
                detail="setup_failed",
            )


# -- the ladder ------------------------------------------------------------------------------------------------


def climb(r: Readings) -> Climb:
    """Return how far a whole replay climbs the ladder of its skill."""
    readers = READERS[r.case.skill]
    ladder = Climb(tuple(readers))
    fell = _fell(r) if SKILLS[r.case.skill].holds_object else None
    for stage, read in readers.items():
        reading = read(r)
        if fell is not None and fell[0] <= reading.sample:
            part = at_most("fall", fell[1], r.limits.drop_m, "m")
            ladder.failed(stage, reason="object_dropped", sample=fell[0], parts=(part,))
        elif reading.passed:
            ladder.passed(stage, sample=reading.sample, parts=reading.parts)
        else:
            ladder.failed(stage, reason=reading.reason, sample=reading.sample, parts=reading.parts)
        if ladder.ended:
            break
    return ladder


def _fell(r: Readings) -> tuple[int, float] | None:
    """Return the first sample at which an object was too far below its support, and how far; None when never."""
    support_m = float(r.case.world["support_height_m"])
    for sample, lowest in enumerate(r.column("min_obj_z_m")[1:, 0].tolist()):
        if not at_most("fall", support_m - lowest, r.limits.drop_m, "m").holds:
            return sample, support_m - lowest
    return None


def _climbed(row: Row, facts: SkillFacts, r: Readings, *, fault_table: Mapping[str, str]) -> Outcome:
    ladder, motion = climb(r), judge_motion(r, row)
    stages = ladder.stages()
    first = stages[0]
    told = replace(
        facts,
        stages=stages,
        measured={first.stage: bool(first.passed)},
        trusted=motion.trusted,
        motion_valid=motion.valid,
        motion_detail=motion.detail,
        max_tracking_error_rad=motion.max_tracking_error_rad,
        max_tracking_error_rad_reason=None,
        unintended_n=motion.unintended_n,
        collisions=motion.collisions,
        diagnostics=diagnostics(r),
    )
    if ladder.failure_reason is None:
        return _outcome(row, Status.PASS, PASSED, told)
    return _outcome(row, _status(row, ladder.failure_reason, fault_table), ladder.failure_reason, told)


# -- attempts without a whole replay ---------------------------------------------------------------------------


def _faulted(row: Row, facts: SkillFacts, *, fault_table: Mapping[str, str]) -> Outcome:
    code = str(row.fault_code)
    detail = next((event.detail for event in row.events if event.kind == FAULT_DETAIL), None)
    status = _status(row, code, fault_table)
    if status is not Status.FAIL:
        return _errored(row, facts, code, detail, fault_table=fault_table)
    if code not in PLANNER_REASONS:
        raise EvidenceError(f"trial {row.trial_id}: {code!r} cannot be a failure of the planner", code="fault_table")
    ladder = Climb(tuple(READERS[facts.skill]))
    ladder.failed(next(iter(READERS[facts.skill])), reason=code, sample=None)
    told = replace(facts, stages=ladder.stages(), failure_detail=detail)
    return replace(_outcome(row, status, code, told), notes=(row.fault_message,) if row.fault_message else ())


def _errored(
    row: Row, facts: SkillFacts, code: str, detail: str | None, *, fault_table: Mapping[str, str]
) -> Outcome:
    told = replace(facts, failure_detail=detail)
    outcome = _outcome(row, _status(row, code, fault_table), code, told)
    return replace(outcome, notes=(row.fault_message,) if row.fault_message else ())


def _status(row: Row, code: str, fault_table: Mapping[str, str]) -> Status:
    if code not in fault_table:
        raise EvidenceError(
            f"trial {row.trial_id}: the fault table has no status for {code!r}{nearest(code, fault_table)}",
            code="fault_unknown",
        )
    status = Status(fault_table[code])
    if status is Status.PASS or (status is Status.FAIL and code == "invalid_case"):
        raise EvidenceError(f"the fault table maps {code!r} to {status.value}", code="fault_table")
    return status


def _facts(case: SkillCase, row: Row, trace: Trace | None) -> SkillFacts:
    call: Mapping[str, Any] = trace.calls[0] if trace is not None and trace.calls else {}
    belief = call.get("belief")
    return SkillFacts(
        skill=case.skill,
        case_set=str(case.set),
        case_domain=case.domain,
        axis=case.axis,
        difficulty=case.difficulty,
        stages=(),
        believed=json.loads(belief) if isinstance(belief, str) else {},
        plan_time_us=call.get("latency_us"),
    )


def _outcome(row: Row, status: Status, reason: str, facts: SkillFacts) -> Outcome:
    told = facts.stages
    done = bool(told) and all(stage.passed for stage in told)
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
        stages=tuple(
            StageResult(name=stage.stage, passed=bool(stage.passed), step=stage.sample if stage.passed else None)
            for stage in told
        ),
        success_once=done if told else None,
        success_final=done if told else None,
        first_failed_stage=next((stage.stage for stage in told if not stage.passed), None),
        termination=row.termination,
        control_steps=row.control_steps,
        trace_content_sha256=row.trace.content_sha256 if row.trace else None,
        initial_state_sha256=row.initial_state_sha256,
        skill=facts,
    )


def outcome_line(outcome: Outcome) -> bytes:
    """Return the canonical line of an outcome: equal for equal recordings."""
    return canonical_json(outcome.document())
