"""What the harness costs per control step, against a bare loop of the same physics.

Ours is one attempt as every campaign runs it: reset of a kept world, observation with the robot's own state, chunk
validation, execution, measurement, digest and record of every step, and the encoded trace. The arm replays actions
recorded from the oracle, so that no policy is timed. Bare is MuJoCo alone in the same process: the same model, 27
physics steps per control step, the same inverse kinematics for the same actions, and the grasp switched at the
instants known from ours. Both must end in the same state, bit for bit, else the comparison is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import mujoco
import numpy as np
from figures import Figure, main, take_turns
from numpy.typing import NDArray

from trialplate.interfaces import Scenario
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, Stop
from trialplate.registry import load_suite
from trialplate.run.attempt import Attempt, Limits, Seat, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import PolicySpec
from trialplate.store.traces import trace_bytes
from trialplate.suites.pick_place.oracle import Oracle
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.suites.pick_place.world.scene import ATTACHMENT
from trialplate.worlds.arm_control import CartesianController, IkSettings, JointTarget
from trialplate.worlds.simulation import actuator_ids, state_digest

REPLAN_INTERVAL = 8
SUITE = load_suite("pick-place")
SETTINGS = suite_settings()
LIMITS = Limits(
    max_steps=SUITE.max_steps,
    max_chunk_length=64,
    replan_interval=REPLAN_INTERVAL,
    call_timeout_s=60.0,
    first_call_timeout_s=60.0,
)
INFO = EpisodeInfo("0" * 32, SUITE.instruction, SUITE.action.control_hz, REPLAN_INTERVAL, SUITE.max_steps, 0)
STATE = mujoco.mjtState.mjSTATE_INTEGRATION
ARM = tuple(f"actuator{n}" for n in range(1, 8))


class Replay:
    """Sends recorded actions; is shown the robot's own state."""

    def __init__(self, actions: NDArray[np.float64]) -> None:
        self._actions = actions

    def spec(self) -> PolicySpec:
        """Every proprioceptive channel, no camera."""
        channels = ("joint_pos", "finger_pos", "ee_pos", "ee_quat")
        expects = SUITE.profiles[SUITE.default_profile].only(*channels)
        return PolicySpec(expects=expects, emits=SUITE.action, chunk_length=REPLAN_INTERVAL)

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation) -> Decision:
        """Return the next recorded rows."""
        rows = self._actions[observation.step_index : observation.step_index + REPLAN_INTERVAL]
        return ActionChunk(rows) if len(rows) else Stop("the recording ends")

    def close(self) -> None:
        """Nothing to release."""


def attempt(environment: PickPlace, seat: Seat, *, scenario: Scenario) -> Attempt:
    """Run one attempt as a campaign does, to the bytes of its trace."""
    done = run_attempt(seat, environment, Setting(SUITE, scenario, INFO, 1, LIMITS))
    trace = done.recorder.trace()
    if done.fault is not None or trace is None:
        raise SystemExit(f"scenario {scenario.id}: the attempt ended with {done.fault}")
    trace_bytes(trace, columns=SUITE.columns)
    done.exchanges.finish()
    trace.content_sha256()
    return done


@dataclass(frozen=True, slots=True)
class Grasp:
    """When the weld was switched in the recorded attempt, and the pose it holds."""

    attached: int  # control step, from 1
    interface_step: int
    released: int
    eq_data: NDArray[np.float64]


class Bare:
    """MuJoCo and the inverse kinematics alone: no check, no reading, no record."""

    def __init__(self, environment: PickPlace, actions: NDArray[np.float64]) -> None:
        self.model = copy.copy(environment.world.model)
        self.data = mujoco.MjData(self.model)
        self._actions = actions
        self._start = np.empty(mujoco.mj_stateSize(self.model, STATE))
        mujoco.mj_getState(environment.world.model, environment.world.data, self._start, STATE)
        self._controller = CartesianController(settings=IkSettings(**SETTINGS.inverse_kinematics))
        prefix = next(self.model.actuator(n).name for n in range(self.model.nu)).removesuffix("actuator1")
        self._arm = actuator_ids(self.model, tuple(prefix + name for name in ARM))
        self._gripper = int(actuator_ids(self.model, (prefix + "gripper",))[0])
        self._weld = int(self.model.equality(ATTACHMENT).id)
        self.grasp: Grasp | None = None

    def run(self) -> None:
        """Step through every action, 27 physics steps each."""
        model, data, grasp, scale, robot = self.model, self.data, self.grasp, SETTINGS.action, SETTINGS.robot
        substeps = SETTINGS.physics.substeps
        nstep = substeps * SETTINGS.physics.interface_steps
        assert grasp is not None
        mujoco.mj_setState(model, data, self._start, STATE)
        self._controller.reset(SETTINGS.robot.home_joint_pos_rad)
        for number, action in enumerate(self._actions, start=1):
            target = self._controller.command(action[:3] * scale.translation_m, action[3:6] * scale.rotation_rad)
            assert isinstance(target, JointTarget)
            data.ctrl[self._arm] = target.joint_rad
            data.ctrl[self._gripper] = robot.open_m if action[6] < 0.0 else robot.closed_m
            if number == grasp.released:
                data.eq_active[self._weld] = 0
            if number == grasp.attached:
                before = substeps * (grasp.interface_step + 1)
                mujoco.mj_step(model, data, nstep=before)
                model.eq_data[self._weld] = grasp.eq_data
                data.eq_active[self._weld] = 1
                if before < nstep:
                    mujoco.mj_step(model, data, nstep=nstep - before)
            else:
                mujoco.mj_step(model, data, nstep=nstep)


def pairs(environment: PickPlace, scenario: Scenario) -> tuple[Seat, Bare, int]:
    """Record the oracle once and return the replaying arm, the bare loop that ends in the same state, and steps."""
    oracle = Oracle()
    done = attempt(environment, seat_policy(oracle, SUITE, privileged=True), scenario=scenario)
    trace = done.recorder.trace()
    assert trace is not None
    at = {event.kind: event.step for event in done.events}
    eq_data = environment.world.model.eq_data[environment.world.model.equality(ATTACHMENT).id].copy()
    environment.reset(scenario, seed=1)
    bare = Bare(environment, trace.action)
    for grasp in grasps(at, eq_data):
        bare.grasp = grasp
        bare.run()
        if state_digest(bare.model, bare.data) == trace.state_sha256[-1]:
            replay = Replay(trace.action)
            return seat_policy(replay, SUITE), bare, trace.steps
    raise SystemExit(f"scenario {scenario.id}: the bare loop does not end in the recorded state; compare nothing")


def grasps(at: dict[str, int], eq_data: NDArray[np.float64]) -> Iterator[Grasp]:
    """Events name the control step of the grasp; the interface step within it is one of three."""
    for n in range(SETTINGS.physics.interface_steps):
        yield Grasp(at["attached"], n, at["released"], eq_data)


def compare(environment: PickPlace, scenario: Scenario, *, rounds: int) -> tuple[float, float, int]:
    """Return the speed ratio, our control steps per second, and the control steps of one round."""
    seat, bare, steps = pairs(environment, scenario)
    turns = take_turns(lambda: attempt(environment, seat, scenario=scenario), bare.run, rounds=rounds)
    return turns.speed_ratio, steps / median(turns.ours_s), steps


def measure(quick: bool) -> list[Figure]:
    """Compare on undisturbed scenarios, in which the oracle grasps once."""
    environment = PickPlace()
    scenarios = SUITE.scenarios()[: 1 if quick else 3]
    found = [compare(environment, scenario, rounds=3 if quick else 15) for scenario in scenarios]
    ratios, rates, steps = zip(*found, strict=True)
    note = (
        f"{sum(steps)} control steps of {len(steps)} attempts, reset and encoded trace included; "
        f"{median(rates):.0f} control steps/s with the harness"
    )
    return [Figure("control loop, harness over bare MuJoCo", median(ratios), ">=", 0.80, "", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
