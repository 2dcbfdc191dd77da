"""The live world of the suite: 20 Hz Cartesian actions, physical pushes, two cameras, one grasp for everybody.

Source: fair pick-and-place protocol, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import document_sha256
from trialplate.errors import HarnessFault, PolicyFault, SensorInvalid, UsageError, nearest
from trialplate.interfaces import ResetEvidence, Scenario, Sensed
from trialplate.record import Event, Measurement
from trialplate.suites.pick_place.channels import OBJECT_ESTIMATE, action_spec, profiles
from trialplate.suites.pick_place.expected_scene import expected_scene
from trialplate.suites.pick_place.scenarios import scenarios
from trialplate.suites.pick_place.scene_spec import read_scene
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.readback import check_applied_scene, read_applied_scene, read_disturbances
from trialplate.suites.pick_place.world.scene import (
    ATTACHMENT,
    PRIMARY,
    WRIST,
    attachment_settings,
    compose,
    physics_settings,
    render_settings,
)
from trialplate.suites.pick_place.world.sensing import Proprio, Reader, Views
from trialplate.worlds.arm_control import CartesianController, IkSettings, Unreachable
from trialplate.worlds.attachment import GraspAttachment, GripperCommand
from trialplate.worlds.cameras import CameraRig
from trialplate.worlds.drawing import RenderSettings, Surface, people_settings
from trialplate.worlds.known_states import turn_body
from trialplate.worlds.model_cache import WorldCache
from trialplate.worlds.panda import PandaNames
from trialplate.worlds.simulation import (
    InitialState,
    World,
    actuator_ids,
    joint_qpos_address,
    library_sha256,
    model_digest,
)

FloatArray = NDArray[np.float64]

BODIES = ("own",)
OPEN_BEFORE_FIRST_COMMAND = -1.0


@dataclass(frozen=True, slots=True)
class _Expected:
    scene: Mapping[str, Any]
    sha256: str


class PickPlace:
    """One world of the suite; implements :class:`trialplate.interfaces.ProbeableEnvironment`.

    ``body`` is ``own``, the Panda of our own shapes; ``profile`` is ``standard`` or ``object-estimate``. Compiled
    worlds are kept and reused, and every reuse proves that it equals a fresh world.
    """

    robot: PandaNames  # names of the robot's parts, the same in every world

    def __init__(self, *, body: str = "own", profile: str = "standard") -> None:
        self._settings = suite_settings()
        _known("body", body, known=BODIES)
        _known("profile", profile, known=tuple(profiles(self._settings)))
        self._profile = profile
        self._action = action_spec(self._settings)
        self._low, self._high = np.array(self._action.low), np.array(self._action.high)
        self._cache = WorldCache()
        self._expected: dict[str, _Expected] = {}
        self._controller = CartesianController(settings=IkSettings(**self._settings.inverse_kinematics))
        self._scene_sha256: str | None = None
        self._rig: tuple[str, CameraRig] | None = None
        self._surface: tuple[str, RenderSettings, Surface] | None = None
        self._events: list[Event] = []

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Build or reuse the scenario's world at rest, and read back what it is.

        ``seed`` feeds the state-estimate channel and nothing else. Raises SceneMismatch, or HarnessFault
        ``reset_failed``.
        """
        settings = self._settings
        scene_sha256 = document_sha256(dict(scenario.parameters))
        self._world, initial_sha256 = self._cache.fresh_or_reused(scene_sha256, lambda: self._build(scenario))
        self._scene_sha256 = scene_sha256
        model, data = self._world.model, self._world.data
        robot = self.robot
        applied = read_applied_scene(model, data, robot=robot, schema=settings.readback_schema)
        expected = self._expected_scene(scenario, scene_sha256)
        if document_sha256(applied) != expected.sha256:
            check_applied_scene(scenario, applied, expected=expected.scene)
        self._controller.reset(settings.robot.home_joint_pos_rad)
        self._grasp = GraspAttachment(model, name=ATTACHMENT, pads=robot.pads, settings=attachment_settings(settings))
        self._ctrl = data.ctrl.copy()
        self._arm = actuator_ids(model, robot.actuators)
        self._gripper = int(actuator_ids(model, (robot.gripper_actuator,))[0])
        self._views = Views(model, data, robot=robot)
        self._reader = Reader(self._views)
        estimates = self._profile == OBJECT_ESTIMATE
        self._proprio = Proprio(self._views, noise=settings.estimate, seed=seed, estimates=estimates)
        self._pushes = read_disturbances(model)
        self._gripper_command = OPEN_BEFORE_FIRST_COMMAND
        self._events.clear()
        if self._rig is not None:
            self._rig[1].reset()
        return ResetEvidence(applied, expected.sha256, initial_sha256)

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Read the named channels; nothing else is rendered. Raises SensorInvalid."""
        values = self._proprio.read(tuple(proprio))
        for name, reading in values.items():
            if not np.isfinite(reading).all():
                raise SensorInvalid(f"step {self._world.control_step}: channel {name!r} is not finite: {reading}")
        if not cameras:
            return Sensed({}, values)
        images = self._cameras().capture(self._world.data, step=self._world.control_step, names=cameras)
        return Sensed(images, values)

    def step(self, action: FloatArray) -> Event | None:
        """Run one control step with ``action`` (7,), each number in [-1, 1].

        Returns None when it ran, or ``control_rejected`` when the arm cannot reach the commanded pose: then nothing
        moved. Raises PolicyFault ``invalid_action``; HarnessFault ``solver_failure`` or ``simulator_crash``.
        """
        self._check(action)
        number = self._world.control_step + 1
        scale = self._settings.action
        target = self._controller.command(action[:3] * scale.translation_m, action[3:6] * scale.rotation_rad)
        if isinstance(target, Unreachable):
            return Event(number, "control_rejected", target.reason)
        command: GripperCommand = "open" if action[6] < 0.0 else "close"
        robot = self._settings.robot
        self._ctrl[self._arm] = target.joint_rad
        self._ctrl[self._gripper] = robot.open_m if command == "open" else robot.closed_m
        self._push(number)
        if command == "open":
            self._attach(number, command)  # lets go before anything moves
            self._world.step(self._ctrl)
        elif self._grasp.is_active(self._world.data):
            self._world.step(self._ctrl)
        else:
            self._world.step(self._ctrl, after_interface_step=lambda _: self._attach(number, command))
        self._gripper_command = float(action[6])
        return None

    def measure(self) -> Measurement:
        """Read the privileged columns, in the order of ``channels.COLUMNS``."""
        values = self._reader.read(
            attached=self._grasp.is_active(self._world.data),
            gripper_command=self._gripper_command,
            commanded=self._controller.commanded_pose,
        )
        return Measurement(values)

    def state_sha256(self) -> str:
        """Digest of the full simulator state. Raises HarnessFault when it is not finite."""
        return self._world.state_digest()

    def drain_events(self) -> tuple[Event, ...]:
        """Return and forget what happened since the last call: pushes, attachment, release."""
        drained = tuple(self._events)
        self._events.clear()
        return drained

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Render pictures for people, (height_px, width_px, 3); without effect on the state."""
        surface = self._people_surface(height_px=height_px, width_px=width_px)
        model, data = self._world.model, self._world.data
        return {name: surface.draw(data, camera_id=model.camera(name).id) for name in cameras}

    def geom_ids(self, camera: str) -> NDArray[np.int32]:
        """Return the geom that each pixel of a camera shows (H, W), -1 for none; for tests of the scenes."""
        return self._cameras().geom_ids(self._world.data, name=camera)

    def pose_for_probe(self, wxyz: tuple[float, float, float, float]) -> tuple[str, ...]:
        """Turn the hand; see :class:`trialplate.interfaces.ProbeableEnvironment`."""
        self._present_scene()
        world, robot = self._world, self.robot
        reached = turn_body(world.model, world.data, joints=robot.joints, body=robot.hand_body, wxyz=wxyz)
        return ("ee_quat",) if reached else ()

    def gripper_for_probe(self, opening: Literal["closed", "open"]) -> tuple[str, ...]:
        """Move both fingers to an end of their travel; no channel of this suite declares a gripper's range."""
        self._present_scene()
        robot = self._settings.robot
        self._views.fingers_m[:] = robot.open_m if opening == "open" else robot.closed_m
        mujoco.mj_kinematics(self._world.model, self._world.data)
        return ("finger_pos",)

    def colour_card(self, corners: Mapping[str, tuple[int, int, int]]) -> tuple[str, ...]:
        """Hold a card before both cameras."""
        self._cameras().hold_card(corners)
        return (PRIMARY, WRIST)

    def close(self) -> None:
        """Release the drawing buffers."""
        if self._rig is not None:
            self._rig[1].close()
        if self._surface is not None:
            self._surface[2].close()
        self._rig = self._surface = None

    @property
    def world(self) -> World:
        """The compiled world of the present episode; for tests and measurements of the harness."""
        return self._world

    def _expected_scene(self, scenario: Scenario, scene_sha256: str) -> _Expected:
        """Return what the scenario promises, rebuilt from it once; an equal readback has the same digest."""
        if scene_sha256 not in self._expected:
            scene = expected_scene(scenario.parameters)
            self._expected[scene_sha256] = _Expected(scene, document_sha256(scene))
        return self._expected[scene_sha256]

    def _build(self, scenario: Scenario) -> World:
        settings = self._settings
        composed = compose(read_scene(scenario.parameters), settings)
        self.robot = composed.robot
        model = composed.spec.compile()
        ctrl = np.zeros(model.nu)
        ctrl[actuator_ids(model, composed.robot.actuators)] = settings.robot.home_joint_pos_rad
        ctrl[actuator_ids(model, (composed.robot.gripper_actuator,))] = settings.robot.open_m
        joints = (*composed.robot.joints, *composed.robot.finger_joints)
        home = (*settings.robot.home_joint_pos_rad, *settings.robot.home_finger_pos_m)
        qpos = tuple((joint_qpos_address(model, name), (value,)) for name, value in zip(joints, home, strict=True))
        initial = InitialState(qpos=qpos, ctrl=tuple(ctrl.tolist()))
        return World(model, initial=initial, settings=physics_settings(settings))

    def _check(self, action: FloatArray) -> None:
        if action.shape != self._low.shape:
            raise PolicyFault(f"action has shape {action.shape}, expected {self._low.shape}", code="invalid_action")
        good = (action >= self._low) & (action <= self._high)  # false for NaN
        if not good.all():
            n = int(np.flatnonzero(~good)[0])
            raise PolicyFault(
                f"step {self._world.control_step + 1}: {self._action.scalar_name(n)} is {float(action[n])!r}, "
                f"expected a finite number in [{self._low[n]:g}, {self._high[n]:g}]; nothing is clipped",
                code="invalid_action",
            )

    def _push(self, number: int) -> None:
        force_n = self._views.block_force_n
        force_n[:] = 0.0
        for push in self._pushes:
            first, last = push["start_step"], push["start_step"] + push["duration_steps"] - 1
            if first <= number <= last:
                force_n += push["force_n"]
                if number == first:
                    detail = f"{push['force_n']} N on the block for {push['duration_steps']} steps"
                    self._events.append(Event(number, "disturbance", detail))

    def _attach(self, number: int, command: GripperCommand) -> None:
        change = self._grasp.update(self._world.model, self._world.data, command=command)
        if change is not None:
            self._events.append(Event(number, change, "block"))

    def _cameras(self) -> CameraRig:
        scene_sha256 = self._present_scene()
        if self._rig is None or self._rig[0] != scene_sha256:
            if self._rig is not None:
                self._rig[1].close()
            rig = CameraRig(
                self._world.model,
                names=(PRIMARY, WRIST),
                settings=render_settings(self._settings),
                watch_site=self.robot.ee_site,
            )
            self._rig = (scene_sha256, rig)
        return self._rig[1]

    def _people_surface(self, *, height_px: int, width_px: int) -> Surface:
        scene_sha256 = self._present_scene()
        wanted = people_settings(height_px=height_px, width_px=width_px)
        if self._surface is None or self._surface[:2] != (scene_sha256, wanted):
            if self._surface is not None:
                self._surface[2].close()
            self._surface = (scene_sha256, wanted, Surface(self._world.model, settings=wanted))
        return self._surface[2]

    def _present_scene(self) -> str:
        if self._scene_sha256 is None:
            raise HarnessFault("no scenario was reset yet; call reset first", code="reset_failed")
        return self._scene_sha256


def _known(what: str, name: str, *, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UsageError(f"suite pick-place has no {what} {name!r}{nearest(name, known)}", code=f"unknown_{what}")


@cache
def _compiled_models_sha256() -> str:
    """Return one digest over the compiled model of every scenario: what a replay must find again, bit for bit."""
    world = PickPlace()
    built = {scenario.id: model_digest(world._build(scenario).model) for scenario in scenarios()}
    return document_sha256(built)


def simulator_identity() -> dict[str, Any]:
    """Return what simulates and what draws here, for the lock. Compiles every scenario once."""
    from importlib.metadata import version

    from trialplate.worlds.gl import gl_report

    report = gl_report()
    return {
        "simulator": "mujoco",
        "version": mujoco.__version__,
        "library_sha256": library_sha256(),
        "models_sha256": _compiled_models_sha256(),
        "inverse_kinematics": {"mink": version("mink"), "daqp": version("daqp")},
        "rendering": {
            "backend": report.backend,
            "renderer": report.renderer,
            "version": report.version,
            "reason": report.reason,
        },
    }
