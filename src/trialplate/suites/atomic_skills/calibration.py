"""How far the drive of this simulator is from the tolerances: arithmetic over scored trials of a calibration run.

A tolerance is never changed by it. Source: atomic skills, section 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from trialplate.record import Outcome, StageRecord
from trialplate.suites.atomic_skills.tolerances import CALIBRATED_SKILLS, PRIMITIVE_SKILLS, Scoring, SetName

FACTOR = 1.8
LEAST_MARGIN = Fraction(7, 4)
"""A margin below 1.8 after rounding to one decimal is one below 1.75."""
UNREACHABLE = "tolerance unreachable here"
_READ = {
    "move_joints": "reached", "move_end_effector": "reached", "slide": "slid", "open_door": "opened",
    "axis_align": "aligned", "pour": "poured", "twist": "twisted", "move_held_object": "transported",
}  # fmt: skip
"""Skill -> the stage whose error is looked at: the arm still controls the quantity at its instant."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One error: of a set, in ``unit`` (``m`` or ``rad``), at a case and repeat."""

    set_name: SetName
    unit: str
    error: float
    case: str
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """What one set and unit needs here. ``calibrated`` = 1.8 x worst; ``margin`` = tolerance / worst.

    All but ``n`` and ``tolerance`` are None without a sample (``no_samples``); ``margin`` also when nothing was ever
    off (``zero_error``). ``reachable``: the margin is at least 1.75.
    """

    set_name: SetName
    unit: str
    n: int
    tolerance: float
    worst: float | None
    worst_case: str | None
    worst_repeat: int | None
    calibrated: float | None
    margin: float | None
    reachable: bool | None
    reason: str | None

    @property
    def note(self) -> str | None:
        """What a report prints beside a set that cannot be reached here."""
        return UNREACHABLE if self.reachable is False else None


def samples(outcomes: Iterable[Outcome]) -> tuple[Sample, ...]:
    """Return the errors of a calibration run: of every trial whose earlier stages passed, whatever their size."""
    return tuple(
        sample
        for outcome in outcomes
        if outcome.skill is not None
        for sample in trial_samples(
            outcome.skill.skill, outcome.skill.stages, case=outcome.scenario, repeat=outcome.repeat
        )
    )


def trial_samples(skill: str, stages: Iterable[StageRecord], *, case: str, repeat: int) -> tuple[Sample, ...]:
    """Return the errors of one trial, none where its skill is not looked at or an earlier stage failed."""
    stage = next((item for item in stages if item.stage == _READ.get(skill) and item.reached), None)
    name: SetName = "PRIMITIVE" if skill in PRIMITIVE_SKILLS else "TASK"
    return tuple(
        Sample(name, part.unit, part.value, case, repeat)
        for part in (stage.parts if stage is not None else ())
        if part.op == "le" and part.unit in ("m", "rad") and part.name != "fall"
    )


def margins(found: Iterable[Sample], limits: Scoring) -> tuple[Margin, ...]:
    """Return one margin for each set and unit."""
    listed = tuple(found)
    sets: tuple[tuple[SetName, str, float], ...] = (
        ("PRIMITIVE", "m", limits.primitive.position_m),
        ("PRIMITIVE", "rad", limits.primitive.rotation_rad),
        ("TASK", "m", limits.task.position_m),
        ("TASK", "rad", limits.task.rotation_rad),
    )
    return tuple(
        margin(
            [item for item in listed if (item.set_name, item.unit) == (name, unit)], name, unit, tolerance=tolerance
        )
        for name, unit, tolerance in sets
    )


def margin(found: Iterable[Sample], set_name: SetName, unit: str, *, tolerance: float) -> Margin:
    """Return the margin of one set and unit."""
    listed = list(found)
    if not listed:
        return _margin(set_name, unit, tolerance, 0, None, reason="no_samples")
    worst = max(listed, key=lambda item: (item.error, item.case, item.repeat))
    return _margin(set_name, unit, tolerance, len(listed), worst, reason="zero_error" if worst.error == 0 else None)


def _margin(
    set_name: SetName, unit: str, tolerance: float, n: int, worst: Sample | None, *, reason: str | None
) -> Margin:
    error = worst.error if worst is not None else None
    ratio = Fraction(tolerance) / Fraction(error) if error else None
    return Margin(
        set_name=set_name,
        unit=unit,
        n=n,
        tolerance=tolerance,
        worst=error,
        worst_case=worst.case if worst is not None else None,
        worst_repeat=worst.repeat if worst is not None else None,
        calibrated=FACTOR * error if error is not None else None,
        margin=float(ratio) if ratio is not None else None,
        reachable=ratio >= LEAST_MARGIN if ratio is not None else None if error is None else True,
        reason=reason,
    )


def calibrated_skills() -> tuple[str, ...]:
    """Return the skills that a calibration run plans for."""
    return (*PRIMITIVE_SKILLS, *CALIBRATED_SKILLS)
