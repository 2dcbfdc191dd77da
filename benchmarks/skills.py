"""What a scored replay of a skill costs against the bare simulator.

Ours is the world of suite atomic-skills: command one waypoint, 16 physics steps with a look at contacts after each,
forces of fingers and hand, poses, the digest of the state; then the settle. Bare is MuJoCo alone on the same compiled
scene: the same commands, the same steps, in one call for each row. Both must end in the same state, bit for bit, else
nothing is compared. Both compute in one thread and wait for nothing, so time of the processor is compared: other
programs cost neither any.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import mujoco
import numpy as np
from figures import Figure, Turns, main
from numpy.typing import NDArray

from trialplate.spec.skills import skill_case
from trialplate.suites.atomic_skills.cases import nominal_cases, scenario_of
from trialplate.suites.atomic_skills.planners.baseline import Baseline
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world.environment import AtomicSkills

SKILLS = ("move_joints", "pick_up", "open_door", "hand_over")
AT_MOST = 1.25
REPLAY = world_settings().replay
Rows = NDArray[np.float64]


def contenders(skill: str) -> tuple[Callable[[], str], Callable[[], str]]:
    """Return our replay of the smoke case of a skill and the bare one; each returns the digest of its last state."""
    case = nominal_cases()[skill][0]
    world = AtomicSkills()
    scenario = scenario_of(case)
    world.reset(scenario, seed=0)
    plan = Baseline().plan(skill_case(world.present_case())).trajectory
    settle = np.repeat(plan[-1:], REPLAY.settle_rows, axis=0)
    ctrl = [_commands(world, rows) for rows in (plan, settle)]

    def ours() -> str:
        world.reset(scenario, seed=0)
        digest = world.state_sha256()
        for phase, rows in (("waypoint", plan), ("settle", settle)):
            world.phase(phase)  # type: ignore[arg-type]
            for row in rows:
                world.step(row)
                world.measure()
                digest = world.state_sha256()
        return digest

    def bare() -> str:
        world.reset(scenario, seed=0)
        model, data = world.model, world.data
        for rows, steps in zip(ctrl, (REPLAY.waypoint_steps, REPLAY.settle_steps), strict=True):
            for row in rows:
                data.ctrl[:] = row
                mujoco.mj_step(model, data, nstep=steps)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return world.state_sha256()

    return ours, bare


def _commands(world: AtomicSkills, rows: Rows) -> Rows:
    """Return the control values of command rows, learnt from the world itself."""
    values = []
    for row in rows:
        world.step(row)
        values.append(world.data.ctrl.copy())
    return np.array(values)


def spent(ours: Callable[[], str], bare: Callable[[], str], *, rounds: int) -> Turns:
    """Return processor seconds of both, round by round, either first in turn."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for n in range(rounds):
        for which in (0, 1) if n % 2 == 0 else (1, 0):
            start_s = process_time()
            (ours, bare)[which]()
            seconds[which].append(process_time() - start_s)
    return Turns(tuple(seconds[0]), tuple(seconds[1]))


def measure(quick: bool) -> list[Figure]:
    """Return one figure for each skill."""
    figures = []
    for skill in SKILLS[:2] if quick else SKILLS:
        ours, bare = contenders(skill)
        name = f"replay of {skill}, time of ours against MuJoCo alone"
        if ours() != bare():
            figures.append(Figure(name, None, "<=", AT_MOST, "", "the two do not end in the same state"))
            continue
        turns = spent(ours, bare, rounds=2 if quick else 9)
        note = "contacts after every step, forces, poses and digest after every row"
        figures.append(Figure(name, 1.0 / turns.speed_ratio, "<=", AT_MOST, "", note))
    return figures


if __name__ == "__main__":
    main(measure, __doc__ or "")
