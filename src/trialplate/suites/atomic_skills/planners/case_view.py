"""What a planner reads off its case: arms, objects, frames; and how it looks for a plan that an arm can follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from trialplate.canonical import canonical_json
from trialplate.errors import PlanningFailed
from trialplate.spec.skills import SkillCase
from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.clearance import Clearance
from trialplate.suites.atomic_skills.planners.kinematics import ArmKinematics
from trialplate.suites.atomic_skills.planners.path import Path, Unreachable
from trialplate.suites.atomic_skills.rigid import FloatArray, transform
from trialplate.suites.atomic_skills.world_spec import ObjectSpec, WorldSpec

Build = Callable[[Path], None]
"""Adds a whole plan to a path. Raises Unreachable."""
GraspBuild = Callable[[Path, FloatArray, FloatArray], None]
"""The same for one grasp: joints (6,) before it, and its tool frame (4, 4)."""

SEEDS = 24
SEED_SPREAD_RAD = 1.3
LATER_PAIR_RAD = 0.15
OVER_M = 0.16


class CaseView:
    """A case with its world checked and its arms' kinematics."""

    def __init__(self, case: SkillCase) -> None:
        self.case = case
        self.world = WorldSpec.model_validate_json(canonical_json(case.world))
        self.arms = tuple(
            ArmKinematics(arm, arm_model=self.world.arm_model, hand_model=self.world.hand_model)
            for arm in self.world.arms
        )
        stream = np.random.Generator(np.random.PCG64(0))
        self._spread = stream.uniform(-SEED_SPREAD_RAD, SEED_SPREAD_RAD, (SEEDS, 6))
        self.random = np.random.Generator(np.random.PCG64(case.grasp_seed))

    def thing(self, name: str) -> ObjectSpec:
        """Return an object by its name. Raises PlanningFailed."""
        for listed in self.world.objects:
            if listed.name == name:
                return listed
        raise PlanningFailed(f"case {self.case.case_id} has no object {name!r}")

    def frame(self, name: str) -> FloatArray:
        """Return a pose of the case as a transform (4, 4)."""
        return transform(self.case.poses[name])

    def path(self) -> Path:
        """Return an empty plan at the start joints."""
        return Path(self.arms, self.case.q_start)

    def joints_for(self, target: FloatArray, *, near_rad: FloatArray, arm: int = 0) -> list[FloatArray]:
        """Return the joint solutions (6,) of a tool frame, those that move least first."""
        seeds = (near_rad, *(near_rad + spread for spread in self._spread))
        return self.arms[arm].solutions(target, seeds, near_rad=near_rad)


def first_that_works(view: CaseView, builds: Iterable[Build], *, what: str) -> Path:
    """Return the first plan that the arms can follow without touching what they may not, else the first at all.

    Raises PlanningFailed where there is none.
    """
    last = "there is no candidate"
    touching: Path | None = None
    clearance = Clearance(view.case)
    for build in builds:
        path = view.path()
        try:
            build(path)
        except Unreachable as reason:
            last = str(reason)
            continue
        if clearance.clear(path.rows, before_grasp=path.before_grasp):
            return path
        touching = touching or path
    if touching is not None:
        return touching
    raise PlanningFailed(f"no {what} that the arm can follow: {last}")


def go_over(
    view: CaseView, path: Path, frame: FloatArray, *, distance_m: float = grasps.BACK_M, arm: int = 0
) -> None:
    """Move in joint space to a tool frame that stands back from ``frame``. Raises Unreachable."""
    found = view.joints_for(grasps.backed(frame, distance_m), near_rad=path.joints(arm), arm=arm)
    if not found:
        raise Unreachable("the frame before it has no joint solution")
    path.to_joints(found[0], arm=arm)
    path.mark_grasp()


def reach(path: Path, before_rad: FloatArray, grasp: FloatArray, *, arm: int = 0) -> None:
    """Move over the place before a grasp, down to it, and along the hand to the grasp. Raises Unreachable."""
    path.to_joints(before_rad, arm=arm)
    path.line(grasps.backed(grasp), arm=arm)
    path.mark_grasp()
    path.line(grasp, arm=arm)


def over_before(grasp: FloatArray) -> FloatArray:
    """Return the tool frame from which a grasp is approached: back along the hand, and higher when it looks level."""
    level = 1.0 - abs(float(grasp[2, 2]))
    return grasps.raised(grasps.backed(grasp), OVER_M * level)


def grasp_builds(view: CaseView, frames: Iterable[FloatArray], build: GraspBuild) -> Iterator[Build]:
    """Yield a plan for each grasp and each joint solution before it.

    Those that move the arm least come first; a later pair of frames counts as a little more motion. A grasp seed
    other than 0 shifts every grasp a little.
    """
    near = np.array(view.case.q_start[:6])
    choices = []
    for number, frame in enumerate(frames):
        grasp = grasps.jittered(frame, view.random) if view.case.grasp_seed else frame
        for solved in view.joints_for(over_before(grasp), near_rad=near)[:3]:
            cost = float(np.abs(solved - near).max()) + LATER_PAIR_RAD * (number // 2)
            choices.append((cost, number, solved, grasp))
    for _, _, solved, grasp in sorted(choices, key=lambda choice: choice[:2]):
        yield _bound(build, solved, grasp)


def _bound(build: GraspBuild, before_rad: FloatArray, grasp: FloatArray) -> Build:
    return lambda path: build(path, before_rad, grasp)


def command_vector(case: SkillCase, name: str) -> FloatArray:
    """Return a list of the command as a vector."""
    values: Sequence[float] = case.command[name]
    return np.asarray(values, dtype=np.float64)
