"""Suite ``toy-skills``: a hand on a vertical rail that picks up a block, without physics.

Like the suite ``toy`` it measures nothing about robots: it exists so that plans, replay, stages and rates of skills
can be tested in milliseconds. Its recordings have the columns of ``atomic-skills`` and are scored by that scorer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, document_sha256
from trialplate.errors import PlanningFailed, SceneMismatch
from trialplate.interfaces import Control, ResetEvidence, Scenario, Sensed, Suite
from trialplate.record import Column, Event, Measurement, SkillPlan
from trialplate.spec.channels import ActionComponent, ActionSpec, GripperRange, ObservationSpec
from trialplate.spec.skills import (
    FAULT_TABLE,
    REMAPPABLE,
    RESET,
    SETTLE,
    SETUP,
    WAYPOINT,
    Phase,
    SkillCase,
    case_sha256,
)

_PACKAGE = "trialplate.testing.toy_skills"
_KINDS: Mapping[Phase, int] = {"setup": SETUP, "waypoint": WAYPOINT, "settle": SETTLE}
_STEPS: Mapping[Phase, int] = {"setup": 16, "waypoint": 16, "settle": 2}
LAG = 0.7
"""What is left of the way to a target after one step."""
GRIP_N, CLOSED, REACH_M = 5.0, 0.3, 0.02
SETTLE_ROWS = 80
DOF = (
    {"name": "rail", "unit": "rad", "low": -0.5, "high": 1.0},
    {"name": "gripper", "unit": "1", "low": 0.0, "high": 1.0},
)
LADDERS: Mapping[str, Mapping[str, str]] = {
    "pick_up": {
        "grasped": "both fingers press, and the block moves",
        "lifted": "the block is at least 0.04 m higher",
        "held": "still between both fingers after the settle",
    },
    "move_joints": {"reached": "the rail is at its target after the settle"},
}
COLUMNS = (
    Column("sample_kind", 1, "1"),
    Column("q", 2, "1"),
    Column("ee_pose", 7, "1"),
    Column("obj_pose", 7, "1"),
    Column("pad_force_n", 2, "N"),
    Column("hand_force_n", 1, "N"),
    Column("min_obj_z_m", 1, "m"),
    Column("unintended_n", 1, "N"),
)


def _component(name: str, **rest: Any) -> ActionComponent:
    return ActionComponent(
        name=name, dim=1, mode="absolute", delta_base=None, frame=None, rotation=None, low=(0.0,), high=(1.0,), **rest
    )


ACTION = ActionSpec(
    control_hz=31.25,
    dim=2,
    components=(
        _component("rail", kind="other", unit="m", gripper=None),
        _component("gripper", kind="gripper", unit="1", gripper=GripperRange(closed=0.0, open=1.0)),
    ),
)


def _case(name: str, skill: str, command: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    lifts = skill == "pick_up"
    document = {
        "case_id": name,
        "skill": skill,
        "set": "nominal",
        "domain": None,
        "axis": None,
        "difficulty": "simple",
        "scene": "rail",
        "model_path": "toy",
        "q_start": [0.3, 1.0],
        "dof": list(DOF),
        "poses": {"block": [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]},
        "command": dict(command),
        "segments": ["approach", "close", "lift"] if lifts else ["move"],
        "required_capabilities": ["single_arm"],
        "grasp_seed": 5,
        "plan_timeout_s": 20.0,
        "world": {"support_height_m": 0.0, "objects": [{"name": "block"}]},
        "screen": {"attainable": True, "grasp": 0} if lifts else None,
        **changes,
    }
    return {**document, "case_sha256": case_sha256(document)}


def cases() -> tuple[dict[str, Any], ...]:
    """Return seven cases: of both skills, one perturbed, one held out, one unattainable, one in a hurry."""
    lift = {"object": "block", "grasp": "top", "lift_m": 0.1}
    unattainable = {"attainable": False, "grasp": None}
    return (
        _case("pick_up-1", "pick_up", lift),
        _case("pick_up-2", "pick_up", {**lift, "lift_m": 0.2}),
        _case("pick_up-3", "pick_up", lift, screen=unattainable),
        _case("pick_up-fast", "pick_up", lift, set="robustness", axis="command", plan_timeout_s=2.0),
        _case("move_joints-1", "move_joints", {"q_target": [0.6]}),
        _case("pick_up-low", "pick_up", lift, set="robustness", axis="initial_pose", q_start=[0.2, 1.0]),
        _case("pick_up-held-out", "pick_up", lift, set="adaptability", domain="high_start", q_start=[0.5, 1.0]),
    )


def scenarios() -> tuple[Scenario, ...]:
    """Return the cases as scenarios: the domain is the skill, the variant the set with its axis or domain."""
    return tuple(
        Scenario(
            case["case_id"], case["case_id"], case["skill"],
            "/".join(part for part in (case["set"], case["axis"] or case["domain"]) if part), case,
        )
        for case in cases()
    )  # fmt: skip


def verify_scene(scenario: Mapping[str, Any], applied: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (pointer, expected, found) for every difference between a case and what was applied."""
    expected = {name: scenario["parameters"][name] for name in ("q_start", "poses")}
    return [
        (f"/{key}", expected.get(key), applied.get(key))
        for key in sorted({*expected, *applied})
        if expected.get(key) != applied.get(key)
    ]


def identity() -> dict[str, Any]:
    """Return the simulator's identity: there is none but numpy."""
    return {"name": "toy-skills", "numpy": np.__version__, "rendering": None, "rendering_reason": "no cameras"}


class ToyRail:
    """State: rail, gripper, height of the block; every target is approached by a fixed share in each step."""

    def __init__(self, *, body: str, profile: str) -> None:
        self.body, self.profile = body, profile
        self._q, self._block_m, self._kind = np.zeros(2), 0.0, RESET
        self._phase: Phase = "setup"
        self._case: Mapping[str, Any] = {}

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Put the rail where the case starts."""
        self._case = scenario.parameters
        self._q, self._block_m, self._kind = np.array(self._case["q_start"], dtype=np.float64), 0.0, RESET
        applied = {"q_start": self._q.tolist(), "poses": {"block": [0.0, 0.0, self._block_m, 1.0, 0.0, 0.0, 0.0]}}
        if found := verify_scene(scenario.document(), applied):
            raise SceneMismatch(f"scene differs: {found}")
        return ResetEvidence(applied, document_sha256(applied), self.state_sha256())

    def phase(self, name: Phase) -> None:
        """Say what the next steps are."""
        self._phase = name

    def setup_actions(self) -> NDArray[np.float64]:
        """Return no rows: every case starts where it is reset to."""
        return np.zeros((0, 2))

    def present_case(self) -> Mapping[str, Any]:
        """Return the case as it is now."""
        return {**self._case, "q_start": self._q.tolist()}

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Move towards the targets; a block between the fingers comes along, any other lies on the table."""
        for _ in range(_STEPS[self._phase]):
            held = self._holds()
            self._q += (1.0 - LAG) * (action - self._q)
            self._block_m = float(self._q[0]) if held and self._holds(grip_only=True) else 0.0
        self._kind = _KINDS[self._phase]
        return None

    def _holds(self, *, grip_only: bool = False) -> bool:
        return bool(self._q[1] < CLOSED and (grip_only or abs(self._q[0] - self._block_m) <= REACH_M))

    def measure(self) -> Measurement:
        """Read the columns of the suite."""
        pads = [GRIP_N] * 2 if self._holds() else [0.0] * 2
        hand, block = ([0.0, 0.0, z, 1.0, 0.0, 0.0, 0.0] for z in (float(self._q[0]), self._block_m))
        return Measurement(np.array([self._kind, *self._q, *hand, *block, *pads, 0.0, self._block_m, 0.0]))

    def state_sha256(self) -> str:
        """Digest of the whole state."""
        return array_digest(np.array([[*self._q, self._block_m]]))

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Show nothing: a planner is handed the case."""
        return Sensed({}, {})

    def drain_events(self) -> tuple[Event, ...]:
        """The toy world does nothing by itself."""
        return ()

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Draw the hand as a bar on the rail, for people."""
        picture = np.full((height_px, width_px, 3), 40, dtype=np.uint8)
        row = int((1.0 - float(self._q[0])) / 1.5 * (height_px - 1))
        picture[row - 1 : row + 2] = 200
        return dict.fromkeys(cameras, picture)

    def close(self) -> None:
        """Nothing is held."""


class Baseline:
    """Goes down, closes, lifts; or goes where it should."""

    id, version = "toy-baseline", "1"
    capabilities = frozenset({"single_arm", "parallel_gripper"})

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return straight ways with a pause at the end of each segment. Raises PlanningFailed."""
        if case.skill == "move_joints":
            ways = {"move": [(float(case.command["q_target"][0]), 1.0)]}
        elif case.skill == "pick_up":
            lift_m = float(case.command["lift_m"])
            ways = {"approach": [(0.0, 1.0)], "close": [(0.0, 0.0)], "lift": [(lift_m, 0.0)]}
        else:
            raise PlanningFailed(f"no idea how to {case.skill}")
        return straight(case, ways, belief={"grasped": True})


class Null(Baseline):
    """Holds the start."""

    id = "toy-null"

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return the start, twice in each segment."""
        start = (case.q_start[0], case.q_start[1])
        return straight(case, {name: [start] for name in case.segments})


class Negative(Baseline):
    """Lifts too little; stops half way."""

    id = "toy-negative"

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return the plan of the baseline for less than what is asked. Raises PlanningFailed."""
        less = {"lift_m": 0.02} if case.skill == "pick_up" else {"q_target": [case.command["q_target"][0] / 2]}
        return super().plan(case.model_copy(update={"command": {**case.command, **less}}))


def straight(
    case: SkillCase, ways: Mapping[str, Sequence[tuple[float, float]]], *, belief: Mapping[str, bool] | None = None
) -> SkillPlan:
    """Return a plan that goes straight from target to target, and waits at each."""
    rows: list[NDArray[np.float64]] = []
    segments: dict[str, slice] = {}
    here = np.array(case.q_start)
    for name, targets in ways.items():
        first = len(rows)
        for target in targets:
            rows += list(np.linspace(here, target, 10))
            rows += [np.array(target)] * 5
            here = np.array(target)
        segments[name] = slice(first, len(rows))
    return SkillPlan(np.array(rows), 0.032, segments, belief)


_SCORER = "trialplate.suites.atomic_skills.scoring"
_TASK = {"position_m": 0.01, "rotation_rad": 0.08726646259971647}
_SCORING = {
    "version": "1", "primitive": {"position_m": 0.003, "rotation_rad": 0.005235987755982988}, "task": _TASK,
    "lift_m": 0.04, "press_fraction": 0.8, "drop_m": 0.15, "engaged": 0.001, "pad_force_n": 0.1,
    "hand_over_phases": 3, "tracking_error_rad": 0.1, "limit_margin": 0.001, "unintended_n": 1.0,
    "settle_rows": SETTLE_ROWS, "setup_hold_rows": 10,
}  # fmt: skip

TOY_SKILLS = Suite(
    name="toy-skills",
    version="1",
    summary="A hand on a rail for tests of plans and their replay; it measures nothing about robots.",
    instruction="plan the skill of the case",
    scope_note="The suite toy-skills measures nothing about robots.",
    scenarios=scenarios,
    environment=f"{_PACKAGE}:ToyRail",
    identity=f"{_PACKAGE}:identity",
    verify_scene=f"{_PACKAGE}:verify_scene",
    controls={
        "null": Control(f"{_PACKAGE}:Null", "null", "holds the start; must pass nothing"),
        "baseline": Control(f"{_PACKAGE}:Baseline", "baseline", "down, close, up"),
        "negative": Control(
            f"{_PACKAGE}:Negative", "exploit", "less than what is asked; must fail at the stated stage of each skill",
            fails_at={"pick_up": "lifted", "move_joints": "reached"},
        ),
        "oracle": Control(f"{_PACKAGE}:Baseline", "oracle", "the same; must pass one case of each skill"),
    },
    profiles={"state": ObservationSpec(instruction=False)},
    default_profile="state",
    action=ACTION,
    columns=COLUMNS,
    chain=None,
    fault_table=FAULT_TABLE,
    max_steps=20_000 + SETTLE_ROWS,
    bodies=("own",),
    sources=(Path(__file__),),
    camera_for_people="front",
    settings={"scoring": _SCORING},
    exam=lambda: tuple(item for item in scenarios() if item.id in ("pick_up-1", "move_joints-1")),
    kind="skill",
    scorer=f"{_SCORER}:score",
    start_check=f"{_SCORER}:check_start",
    settle_rows=SETTLE_ROWS,
    ladders=LADDERS,
    remappable=REMAPPABLE,
)  # fmt: skip
