"""A replayed plan as samples: what the criteria of all skills read, and nothing else.

Sample -1 is the world before the first waypoint, sample i the end of waypoint i, counted on through the settle.
Source: atomic skills, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import CaseFault, EvidenceError, nearest
from trialplate.record import StagePart, Trace
from trialplate.spec.skills import RESET, SETTLE, SETUP, WAYPOINT, SkillCase
from trialplate.suites.atomic_skills.tolerances import Scoring

Floats = NDArray[np.float64]
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Readings:
    """What a trial of a skill left. ``start``: the row of sample -1. ``segments``: name -> slice of waypoints."""

    case: SkillCase
    trace: Trace
    limits: Scoring
    start: int
    waypoints: int
    segments: Mapping[str, slice]

    @property
    def samples(self) -> int:
        """How many samples there are, sample -1 left out."""
        return self.trace.steps - self.start

    @property
    def settled(self) -> int:
        """The last sample of the settle."""
        return self.samples - 1

    def instant(self, segment: str) -> int:
        """Return the sample at which a stage of a segment is read: the end of its last waypoint."""
        return int(self.segments[segment].stop) - 1

    def before(self, segment: str) -> int:
        """Return the sample before the first waypoint of a segment, -1 when that is the first of all."""
        return int(self.segments[segment].start) - 1

    def inside(self, segment: str) -> range:
        """Return the samples of a segment."""
        part = self.segments[segment]
        return range(int(part.start), int(part.stop))

    def column(self, name: str) -> Floats:
        """Return the values (samples + 1, dim) of a column from sample -1 on. Raises EvidenceError."""
        return _column(self.trace, name)[self.start :]

    def at(self, name: str, sample: int) -> Floats:
        """Return one row (dim,) of a column."""
        row: Floats = self.column(name)[sample + 1]
        return row

    def object_pose(self, name: str, sample: int) -> Floats:
        """Return the pose (7,) of an object of the case at a sample."""
        index = self._object(name)
        return self.at("obj_pose", sample)[7 * index : 7 * index + 7]

    def object_poses(self, name: str) -> Floats:
        """Return the poses (samples + 1, 7) of an object from sample -1 on."""
        index = self._object(name)
        return self.column("obj_pose")[:, 7 * index : 7 * index + 7]

    def hand_pose(self, arm: int, sample: int) -> Floats:
        """Return the pose (7,) of the tool frame of an arm."""
        return self.at("ee_pose", sample)[7 * arm : 7 * arm + 7]

    def pads_n(self, arm: int, sample: int) -> tuple[float, float]:
        """Return the normal forces of left and right finger of a hand on its target."""
        left, right = self.at("pad_force_n", sample)[2 * arm : 2 * arm + 2]
        return float(left), float(right)

    def joint(self, sample: int) -> float:
        """Return the joint of the articulated part, rad or m."""
        return float(self.at("asset_joint", sample)[0])

    def commanded(self, column: int, sample: int) -> float:
        """Return what was commanded before a sample; at sample -1 without a set-up, what was there."""
        row = self.start + sample  # action row t - 1 led to row t of the trace
        if row < 0:
            return float(self.at("q", -1)[column])
        return float(self.trace.action[row, column])

    def _object(self, name: str) -> int:
        names = [str(item["name"]) for item in self.case.world.get("objects", ())]
        if name not in names:
            raise EvidenceError(f"case {self.case.case_id}: no object {name!r} in its world{nearest(name, names)}")
        return names.index(name)


def start_row(trace: Trace) -> int:
    """Return the row of sample -1: the last of reset and set-up."""
    kinds = _column(trace, "sample_kind")[:, 0]
    commanded = np.flatnonzero(kinds >= WAYPOINT)
    return (int(commanded[0]) if commanded.size else len(kinds)) - 1


def before_plan(trace: Trace, case: SkillCase, limits: Scoring) -> Readings:
    """Return what can be read before anything was planned: sample -1."""
    return Readings(case, trace, limits, start_row(trace), 0, {})


def replayed(trace: Trace, case: SkillCase, limits: Scoring) -> Readings:
    """Return the readings of a whole replay.

    Raises CaseFault ``trace_incomplete`` where waypoints or settle are not all there, in order.
    """
    start = start_row(trace)
    call = trace.calls[0] if trace.calls else {}
    waypoints = call.get("proposed")
    kinds = _column(trace, "sample_kind")[:, 0].tolist()
    if type(waypoints) is not int or type(call.get("segments")) is not str:
        raise CaseFault("the trace records no plan", detail="trace_incomplete")
    wanted = [RESET, *[SETUP] * start, *[WAYPOINT] * waypoints, *[SETTLE] * limits.settle_rows]
    if kinds != wanted:
        found = {name: kinds.count(kind) for name, kind in (("waypoints", WAYPOINT), ("settle rows", SETTLE))}
        raise CaseFault(
            f"expected {waypoints} waypoints, then {limits.settle_rows} settle rows, found {found}",
            detail="trace_incomplete",
        )
    return Readings(case, trace, limits, start, waypoints, plan_segments(call))


def plan_segments(call: Mapping[str, object]) -> dict[str, slice]:
    """Return the segments that a call of the trace records."""
    listed = json.loads(str(call["segments"]))
    return {name: slice(start, stop) for name, (start, stop) in listed.items()}


def _column(trace: Trace, name: str) -> Floats:
    if name not in trace.measured:
        raise EvidenceError(f"the trace has no column {name!r} that the skill reads{nearest(name, trace.measured)}")
    return trace.measured[name]


def at_most(name: str, value: float, threshold: float, unit: str) -> StagePart:
    """Return a part that holds while a value is at most a threshold."""
    return _part(name, value, "le", threshold, unit)


def at_least(name: str, value: float, threshold: float, unit: str) -> StagePart:
    """Return a part that holds while a value is at least a threshold."""
    return _part(name, value, "ge", threshold, unit)


def below(name: str, value: float, threshold: float, unit: str) -> StagePart:
    """Return a part that holds while a value is below a threshold."""
    return _part(name, value, "lt", threshold, unit)


def above(name: str, value: float, threshold: float, unit: str) -> StagePart:
    """Return a part that holds while a value is above a threshold."""
    return _part(name, value, "gt", threshold, unit)


def _part(name: str, value: float, op: Literal["le", "ge", "lt", "gt"], threshold: float, unit: str) -> StagePart:
    return StagePart(name, round(float(value), _DECIMALS), op, round(threshold, _DECIMALS), unit)
