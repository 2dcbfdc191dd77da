"""Recordings of skills made by hand: a few waypoints in each segment, everything still unless a test moves it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from trialplate.interfaces import Scenario
from trialplate.record import Event, Outcome, Row, Status, Trace, TraceRef
from trialplate.spec.skills import FAULT_TABLE, case_sha256
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.scoring import score
from trialplate.suites.atomic_skills.tolerances import SCORING

LENGTH = 4
ARM = [f"joint_{number}" for number in range(1, 7)]
IDENTITY = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
SETTINGS = {"scoring": SCORING.model_dump(mode="json")}
TWO_ARMS = ("coordinated_pickment", "coordinated_placement", "hand_over")
JOINTED = ("press", "slide", "open_door", "twist")
COMMANDS: dict[str, dict[str, Any]] = {
    "move_joints": {"q_target": [0.5] * 6},
    "move_end_effector": {"pose": [0.4, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]},
    "pick_up": {"object": "can", "grasp": "top", "lift_m": 0.1},
    "axis_align": {"object": "can", "object_axis": [0.0, 0.0, 1.0], "world_axis": [1.0, 0.0, 0.0], "angle_rad": 0.0},
    "move_held_object": {"object": "can", "pose": [0.3, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]},
    "place": {"object": "can", "pose": [0.3, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]},
    "pour": {"object": "can", "axis": [0.0, 1.0, 0.0], "angle_rad": math.radians(45)},
    "push_object": {"object": "can", "pose": [0.2, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]},
    "press": {"travel_m": 0.02, "stroke_m": 0.02},
    "slide": {"travel_m": 0.18, "direction": "pull"},
    "open_door": {"angle_rad": math.radians(60)},
    "twist": {"angle_rad": 0.7854, "axis": [0.0, 0.0, 1.0]},
    "coordinated_pickment": {"object": "can", "pose": [0.0, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0], "lift_m": 0.1},
    "coordinated_placement": {
        "object": "can",
        "support": "tray",
        "placing_arm": 0,
        "support_arm": 1,
        "relative_pose": [0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0],
    },
    "hand_over": {"object": "can", "source_arm": 0, "destination_arm": 1, "target_m": [0.0, 0.5, 0.2]},
}


def case_document(skill: str, **changes: Any) -> dict[str, Any]:
    """Return a whole case document of a skill."""
    arms = 2 if skill in TWO_ARMS else 1
    dof = []
    for arm in range(arms):
        dof += [{"name": f"arm{arm}_{name}", "unit": "rad", "low": -2.0, "high": 2.0} for name in ARM]
        dof.append({"name": f"arm{arm}_gripper", "unit": "1", "low": 0.0, "high": 1.0})
    command = COMMANDS[skill]
    names = [command[key] for key in ("object", "support") if key in command]
    document: dict[str, Any] = {
        "case_id": f"{skill}-1",
        "skill": skill,
        "set": "nominal",
        "domain": None,
        "axis": None,
        "difficulty": "simple",
        "scene": "table",
        "model_path": "made/by/hand",
        "q_start": [0.0] * len(dof),
        "dof": dof,
        "poses": dict.fromkeys(names, IDENTITY),
        "command": command,
        "segments": list(SKILLS[skill].segments[0]),
        "required_capabilities": ["single_arm"],
        "grasp_seed": 7,
        "plan_timeout_s": 60.0,
        "world": {"support_height_m": 0.0, "objects": [{"name": name} for name in names]},
        "screen": None,
        **changes,
    }
    return {**document, "case_sha256": case_sha256(document)}


def quaternion(axis: list[float], angle_rad: float) -> list[float]:
    """Return a unit quaternion wxyz."""
    half = angle_rad / 2
    return [math.cos(half), *(math.sin(half) * part for part in axis)]


class Made:
    """A replay of a skill in which everything stands still. Samples are those of the suite: -1 is the start."""

    def __init__(self, skill: str, *, length: int = LENGTH, **changes: Any) -> None:
        self.document = case_document(skill, **changes)
        self.skill = skill
        self.setup = 12 if SKILLS[skill].starts_held else 0
        names = list(self.document["segments"])
        self.segments = {name: (length * n, length * (n + 1)) for n, name in enumerate(names)}
        self.waypoints = length * len(names)
        self.arms = 2 if skill in TWO_ARMS else 1
        self.rows = 1 + self.setup + self.waypoints + SCORING.settle_rows
        dof, objects = len(self.document["dof"]), len(self.document["world"]["objects"])
        kinds = [0, *[1] * self.setup, *[2] * self.waypoints, *[3] * SCORING.settle_rows]
        self.columns: dict[str, np.ndarray] = {
            "sample_kind": np.array(kinds, dtype=np.float64)[:, None],
            "q": np.zeros((self.rows, dof)),
            "ee_pose": np.tile(IDENTITY * self.arms, (self.rows, 1)),
        }
        if objects:
            self.columns["obj_pose"] = np.tile(IDENTITY * objects, (self.rows, 1))
        if skill in JOINTED:
            self.columns["asset_joint"] = np.zeros((self.rows, 1))
        for name, dim in (("pad_force_n", 2 * self.arms), ("hand_force_n", self.arms)):
            self.columns[name] = np.zeros((self.rows, dim))
        for name in ("min_obj_z_m", "unintended_n"):
            self.columns[name] = np.zeros((self.rows, 1))
        if self.setup:
            self.columns["pad_force_n"][:] = 5.0
        self.action = np.zeros((self.rows - 1, dof))
        self.belief: dict[str, bool] | None = None
        self.events: tuple[Event, ...] = ()
        self.call: dict[str, Any] = {}

    def row(self, sample: int) -> int:
        """Return the row of a sample."""
        return self.setup + 1 + sample

    def end(self, segment: str) -> int:
        """Return the sample at the end of a segment."""
        return self.segments[segment][1] - 1

    def put(self, name: str, value: Any, *, since: int = -1, until: int | None = None, at: int | None = None) -> Made:
        """Set a column (or element ``at``) from one sample through another (to the end without ``until``)."""
        last = self.rows if until is None else self.row(until) + 1
        rows = slice(self.row(since), last)
        if at is None:
            self.columns[name][rows] = value
        else:
            self.columns[name][rows, at] = value
        return self

    def command(self, column: int, value: float, *, since: int, until: int | None = None) -> Made:
        """Command a column, which follows at once."""
        last = len(self.action) if until is None else self.row(until)
        self.action[self.row(since) - 1 : last, column] = value
        self.columns["q"][self.row(since) : last + 1, column] = value
        return self

    def place(self, pose: list[float], *, since: int, until: int | None = None, thing: int = 0) -> Made:
        """Put an object somewhere; position alone keeps its rotation."""
        for offset, number in enumerate(pose):
            self.put("obj_pose", number, since=since, until=until, at=7 * thing + offset)
        return self

    def press(self, newton: float, *, since: int, until: int | None = None, arm: int = 0, pads: int = 2) -> Made:
        """Press with one or both fingers of a hand."""
        for pad in range(pads):
            self.put("pad_force_n", newton, since=since, until=until, at=2 * arm + pad)
        return self

    def trace(self) -> Trace:
        """Return the recording."""
        call = {
            "index": 0,
            "step": self.setup,
            "kind": "plan",
            "latency_us": 1000,
            "proposed": self.waypoints,
            "segments": json.dumps({name: list(part) for name, part in self.segments.items()}),
            "belief": json.dumps(self.belief) if self.belief is not None else None,
            **self.call,
        }
        digests = tuple(f"{row:064x}" for row in range(self.rows))
        return Trace(self.action, self.columns, digests, np.zeros(self.rows, dtype=np.int64), (call,))

    def outcome(self) -> Outcome:
        """Score it."""
        return scored(self.document, self.trace(), events=self.events)

    def scenario(self) -> Scenario:
        """Return the scenario."""
        return scenario_of(self.document)


def scenario_of(document: dict[str, Any]) -> Scenario:
    """Return the scenario of a case."""
    return Scenario(document["case_id"], document["case_id"], document["skill"], str(document["set"]), document)


def row_of(document: dict[str, Any], trace: Trace | None, **changes: Any) -> Row:
    """Return the row of a trial."""
    reference = None
    if trace is not None:
        reference = TraceRef("t", "0" * 64, trace.content_sha256(), 1, trace.steps)
    row = Row(
        trial_id="000001", ordinal=1, attempt=1, arm="mine", scenario=document["case_id"], family=document["case_id"],
        domain=document["skill"], variant="nominal", repeat=0, env_seed=1, termination="plan_replayed",
        fault_code=None, fault_message=None, control_steps=trace.steps if trace else 0, calls=1, rows_proposed=0,
        rows_executed=0, rows_dropped=0, initial_state_sha256=None, applied_scene_sha256=None,
        scenario_sha256="0" * 64, registration_sha256="0" * 64, actions_sha256=None, trace=reference,
    )  # fmt: skip
    return replace(row, **changes)


def scored(document: dict[str, Any], trace: Trace | None, **changes: Any) -> Outcome:
    """Score a recording, or what is left of a trial without one."""
    row = row_of(document, trace, **changes)
    return score(row, trace, scenario=scenario_of(document), settings=SETTINGS, fault_table=TABLE)


TABLE = {**FAULT_TABLE, "simulator_crash": "ERROR"}


def failed_at(outcome: Outcome) -> tuple[Status, str | None, str]:
    """Return status, first failed stage and reason."""
    return outcome.status, outcome.first_failed_stage, outcome.reason


# -- a good recording of every skill ---------------------------------------------------------------------------


def good(skill: str) -> Made:
    """Return a recording that passes every stage of a skill."""
    made = Made(skill)
    _GOOD[skill](made)
    return made


def _move_joints(m: Made) -> None:
    for column in range(6):
        m.command(column, 0.5, since=2)


def _move_end_effector(m: Made) -> None:
    for at, number in enumerate(COMMANDS["move_end_effector"]["pose"]):
        m.put("ee_pose", number, since=2, at=at)


def _pick_up(m: Made) -> None:
    m.press(5.0, since=m.end("close"))
    for at in (2,):
        m.put("obj_pose", 0.1, since=m.end("lift"), at=at)
        m.put("ee_pose", 0.1, since=m.end("lift"), at=at)


def _axis_align(m: Made) -> None:
    m.press(5.0, since=m.end("close"))
    m.place([0.0, 0.0, 0.05, *quaternion([0.0, 1.0, 0.0], math.pi / 2)], since=m.end("manipulate"))


def _move_held_object(m: Made) -> None:
    m.place([0.3], since=m.end("transport"))


def _open(m: Made, segment: str, *, column: int = 6, arm: int = 0) -> None:
    m.command(column, 1.0, since=m.segments[segment][0])
    m.press(0.0, since=m.segments[segment][0], arm=arm)


def _place(m: Made) -> None:
    m.place([0.3], since=m.end("approach"))
    _open(m, "release")


def _pour(m: Made) -> None:
    m.place([0.0, 0.0, 0.0, *quaternion([0.0, 1.0, 0.0], math.radians(45))], since=2)


def _push_object(m: Made) -> None:
    m.put("hand_force_n", 3.0, since=m.segments["contact"][0], until=m.end("push") - 1)
    m.place([0.2], since=m.end("push"))


def _press(m: Made) -> None:
    m.put("asset_joint", 0.019, since=m.segments["press"][0] + 1, until=m.end("press") - 1)


def _handle(m: Made, moving: str, opening: str, amount: float) -> None:
    m.press(5.0, since=m.end("close"))
    m.put("asset_joint", amount, since=m.end(moving))
    _open(m, opening)


def _slide(m: Made) -> None:
    _handle(m, "pull", "open", 0.18)


def _open_door(m: Made) -> None:
    _handle(m, "open", "release", math.radians(60))


def _twist(m: Made) -> None:
    _handle(m, "twist", "open", 0.7854)
    for at, number in enumerate(quaternion([0.0, 0.0, 1.0], 0.7854), start=3):
        m.put("ee_pose", number, since=m.end("twist"), at=at)


def _coordinated_pickment(m: Made) -> None:
    for arm in (0, 1):
        m.press(5.0, since=m.end("close"), arm=arm, pads=1)
    m.place([0.0, 0.0, 0.1], since=m.end("lift"))
    m.place([0.0, 0.0, 0.2], since=m.end("move"))


def _coordinated_placement(m: Made) -> None:
    m.place([0.0, 0.0, 0.05], since=m.end("hold"))
    _open(m, "release")


def _hand_over(m: Made) -> None:
    m.press(5.0, since=m.end("pickup_close"))
    m.place([0.0, 0.3, 0.2], since=m.end("pickup_transport"))
    m.press(5.0, since=m.end("receive_close"), arm=1)
    _open(m, "handover_release")
    m.place([0.0, 0.5, 0.2], since=m.end("place"))
    _open(m, "receive_release", column=13, arm=1)


_GOOD = {
    "move_joints": _move_joints, "move_end_effector": _move_end_effector, "pick_up": _pick_up,
    "axis_align": _axis_align, "move_held_object": _move_held_object, "place": _place, "pour": _pour,
    "push_object": _push_object, "press": _press, "slide": _slide, "open_door": _open_door, "twist": _twist,
    "coordinated_pickment": _coordinated_pickment, "coordinated_placement": _coordinated_placement,
    "hand_over": _hand_over,
}  # fmt: skip
