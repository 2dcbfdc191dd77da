"""What a replay costs against the bare simulator, and what a second worker brings.

Ours is `verify --replay`, attempt by attempt: read the recording, compile the scene, reset and read back the world,
execute the recorded actions, digest the state and measure after every control step, compare, score both. Recordings
are the oracle's over every scenario of pick-place. Bare is MuJoCo alone in the same process, on scenes that were
compiled before: the same actions through the same inverse kinematics, the same pushes, the grasp switched at the
instants known from ours. Each bare episode must end in the recorded state, bit for bit, else nothing is compared.
What is paid once for a whole replay stands in the note: to find out whether this machine may compare at all.

A second worker is measured from the first attempt that is finished to the last, so that the start of the workers is
left out; it stands in the note as well. A round counts only while other programs left both cores to it.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import mujoco
import numpy as np
from figures import Figure, main, take_turns
from numpy.typing import NDArray
from workers import OTHERS_AT_MOST_CORES, busy_s, own_s

from trialplate import api
from trialplate.interfaces import Scenario
from trialplate.record import Row, Trace
from trialplate.registry import load_suite
from trialplate.replaying import comparability, repeat_rows
from trialplate.resimulation import Repeater
from trialplate.store.view import CampaignView, read_campaign
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.suites.pick_place.world.scene import ATTACHMENT
from trialplate.worlds.arm_control import CartesianController, IkSettings, JointTarget
from trialplate.worlds.attachment import GripperCommand
from trialplate.worlds.simulation import actuator_ids, state_digest

SUITE = load_suite("pick-place")
SETTINGS = suite_settings()
STATE = mujoco.mjtState.mjSTATE_INTEGRATION
SUBSTEPS = SETTINGS.physics.substeps
CONTROL_STEP = SUBSTEPS * SETTINGS.physics.interface_steps
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "oracle"
question = "What does a replay cost?"
run_class = "calibration"
suite = {{ name = "pick-place", version = "{version}" }}
schedule = {{ order = "manifest" }}
[[arms]]
name = "oracle"
policy = "control:oracle"
"""


@dataclass(frozen=True, slots=True)
class Switch:
    """The grasp switched on or off in a control step, after so many of its physics steps, holding this pose."""

    step: int
    after: int
    active: bool
    eq_data: NDArray[np.float64]


class Taped(PickPlace):
    """The world of the suite, which notes when its grasp is switched."""

    switches: list[Switch]

    def watch(self, scenario: Scenario, trace: Trace, *, seed: int) -> list[Switch]:
        """Return every switch of one recorded attempt."""
        self.switches, self._looks = [], (0, 0)
        self.reset(scenario, seed=seed)
        for action in trace.action:
            self.step(action)
        return self.switches

    def _attach(self, number: int, command: GripperCommand) -> None:
        step, looks = self._looks
        self._looks = (number, looks + 1 if step == number else 1)
        before = len(self._events)
        super()._attach(number, command)
        if len(self._events) > before:
            model, data = self.world.model, self.world.data
            weld = model.equality(ATTACHMENT).id
            after = 0 if command == "open" else SUBSTEPS * self._looks[1]
            active = bool(data.eq_active[weld])
            self.switches.append(Switch(number, after, active, model.eq_data[weld].copy()))


class Bare:
    """MuJoCo and the inverse kinematics alone: no check, no reading, no record."""

    def __init__(self, world: Taped, row: Row, trace: Trace) -> None:
        scenario = next(item for item in SUITE.scenarios() if item.id == row.scenario)
        switches = world.watch(scenario, trace, seed=row.env_seed)
        self._switches: dict[int, list[Switch]] = {}
        for switch in switches:
            self._switches.setdefault(switch.step, []).append(switch)
        world.reset(scenario, seed=row.env_seed)
        self.model = copy.copy(world.world.model)
        self.data = mujoco.MjData(self.model)
        self._actions, self._controller = trace.action, CONTROLLER
        self._start = np.empty(mujoco.mj_stateSize(self.model, STATE))
        mujoco.mj_getState(world.world.model, world.world.data, self._start, STATE)
        robot = world.robot
        self._arm = actuator_ids(self.model, robot.actuators)
        self._gripper = int(actuator_ids(self.model, (robot.gripper_actuator,))[0])
        self._weld = int(self.model.equality(ATTACHMENT).id)
        self._block = int(self.model.body("block").id)
        self._pushes = pushes(scenario, steps=trace.steps)
        self.run()
        if state_digest(self.model, self.data) != trace.state_sha256[-1]:
            raise SystemExit(f"scenario {row.scenario}: the bare loop does not end in the recorded state")

    def run(self) -> None:
        """Step through every action, 27 physics steps each."""
        model, data, scale, robot = self.model, self.data, SETTINGS.action, SETTINGS.robot
        mujoco.mj_setState(model, data, self._start, STATE)
        self._controller.reset(robot.home_joint_pos_rad)
        for number, action in enumerate(self._actions, start=1):
            target = self._controller.command(action[:3] * scale.translation_m, action[3:6] * scale.rotation_rad)
            assert isinstance(target, JointTarget)
            data.ctrl[self._arm] = target.joint_rad
            data.ctrl[self._gripper] = robot.open_m if action[6] < 0.0 else robot.closed_m
            if number in self._pushes:
                data.xfrc_applied[self._block, :3] = self._pushes[number]
            done = 0
            for switch in self._switches.get(number, ()):
                if switch.after > done:
                    mujoco.mj_step(model, data, nstep=switch.after - done)
                    done = switch.after
                model.eq_data[self._weld] = switch.eq_data
                data.eq_active[self._weld] = switch.active
            if done < CONTROL_STEP:
                mujoco.mj_step(model, data, nstep=CONTROL_STEP - done)


CONTROLLER = CartesianController(settings=IkSettings(**SETTINGS.inverse_kinematics))


def pushes(scenario: Scenario, *, steps: int) -> dict[int, NDArray[np.float64]]:
    """Return control step -> force on the block (3,) from it on, in newtons; steps without a change are left out."""
    force_n = np.zeros((steps + 2, 3))
    for push in scenario.parameters["disturbances"]:
        force_n[push["start_step"] : push["start_step"] + push["duration_steps"]] += push["force_n"]
    changes = np.flatnonzero((force_n[1:] != force_n[:-1]).any(axis=1)) + 1
    return {int(step): force_n[step] for step in changes if step <= steps}


def recorded(folder: Path) -> CampaignView:
    """Run the oracle over every scenario and return what it left."""
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL.format(version=SUITE.version), encoding="utf-8")
    view = read_campaign(api.run(api.lock(api.load_protocol(path), into=folder / "c"), recording="minimal").folder)
    for row in view.rows:
        if row.termination != "policy_stop":
            raise SystemExit(f"scenario {row.scenario} ended by {row.termination}: {row.fault_message}")
    return view


def against_bare(view: CampaignView, rows: list[Row], *, rounds: int) -> Figure:
    """Take turns with the bare simulator on the same episodes."""
    start_s = perf_counter()
    if comparability(view.lock_document):
        raise SystemExit("what was recorded a moment ago is not comparable here")
    once_s = perf_counter() - start_s
    world = Taped()
    bare = [Bare(world, row, view.load_trace(row)) for row in rows]
    repeater = Repeater(view.folder, view.lock_document)

    def ours() -> None:
        if any(repeat.findings for repeat in repeater.repeat_all(rows)):
            raise SystemExit("a replay differs from what was recorded a moment ago")

    turns = take_turns(ours, lambda: [episode.run() for episode in bare], rounds=rounds)
    steps = sum(row.control_steps for row in rows)
    note = (
        f"{steps} control steps of {len(rows)} episodes, {rounds} rounds, recordings read and every scene compiled in"
        f" ours alone; {steps / median(turns.ours_s):.0f} control steps/s replayed; once before: {once_s:.2f} s"
    )
    return Figure("replay, over the time of bare MuJoCo", 1.0 / turns.speed_ratio, "<=", 1.15, "", note)


@dataclass(frozen=True, slots=True)
class Pace:
    """One replay: attempts per second from the first finished one to the last, seconds until the first, and the
    cores that other programs kept busy meanwhile."""

    per_s: float
    until_first_s: float
    others_cores: float


def pace(view: CampaignView, rows: list[Row], *, workers: int) -> Pace:
    """Replay once."""
    seen: list[tuple[float, int]] = []
    start_s, others_s = perf_counter(), busy_s() - own_s()
    repeat_rows(view, rows, workers=workers, progress=lambda done, total: seen.append((perf_counter(), done)))
    others_cores = (busy_s() - own_s() - others_s) / (perf_counter() - start_s)
    (first_s, first), (last_s, last) = seen[1], seen[-1]
    return Pace((last - first) / (last_s - first_s), first_s - start_s, others_cores)


def two_workers(view: CampaignView, rows: list[Row], *, rounds: int) -> Figure:
    """Compare two workers with one, in turns; the ratio is the median over the rounds that count."""
    name, cores = "replay, two workers over one", len(os.sched_getaffinity(0))
    if cores < 2:
        return Figure(name, None, ">=", 1.8, "", "one core")
    paces: list[dict[int, Pace]] = []
    for n in range(rounds):
        order = (1, 2) if n % 2 == 0 else (2, 1)
        paces.append({workers: pace(view, rows, workers=workers) for workers in order})
    most = cores - 2 + OTHERS_AT_MOST_CORES
    alone = [p for p in paces if max(p[1].others_cores, p[2].others_cores) <= most]
    if not alone:
        busiest = median(max(p[1].others_cores, p[2].others_cores) for p in paces)
        note = f"other programs kept {busiest:.1f} of {cores} cores busy in each of {rounds} rounds"
        return Figure(name, None, ">=", 1.8, "", note)
    note = (
        f"{len(rows)} episodes, {len(alone)} of {rounds} rounds undisturbed; {median(p[2].per_s for p in alone):.1f}"
        f" episodes/s with two workers, the first after {median(p[2].until_first_s for p in alone):.1f} s"
    )
    return Figure(name, median(p[2].per_s / p[1].per_s for p in alone), ">=", 1.8, "", note)


def measure(quick: bool) -> list[Figure]:
    """Replay what the oracle left on every scenario."""
    with TemporaryDirectory() as folder:
        view = recorded(Path(folder))
        rows = list(view.rows[:: 8 if quick else 1])
        bare = against_bare(view, rows, rounds=3 if quick else 7)
        return [bare, two_workers(view, rows, rounds=1 if quick else 5)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
