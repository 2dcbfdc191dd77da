"""The live world of the suite: one command row, some physics steps, one sample. Nothing is ever teleported.

A row of a set-up or a waypoint is held for 16 physics steps of 2 ms, an iteration of the settle for 2. Contacts are
looked at after every physics step; forces in a sample are those of the last of them, poses are those after it.
Source: atomic-skills specification, sections 3, 6 and 7.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import document_sha256
from trialplate.errors import CaseFault, HarnessFault, PolicyFault, Unavailable, UsageError, nearest
from trialplate.interfaces import ResetEvidence, Scenario, Sensed
from trialplate.record import Event, Measurement
from trialplate.spec.skills import Phase
from trialplate.suites.atomic_skills.channels import ARM_DOF, KINDS, RESET, case_columns, case_slices
from trialplate.suites.atomic_skills.expected_scene import expected_scene
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world.contacts import ContactWatch, Touch, read_touch
from trialplate.suites.atomic_skills.world.parts import JOINT
from trialplate.suites.atomic_skills.world.readback import (
    check_applied_scene,
    read_applied_scene,
    refuse_constraints,
    refuse_initial_contact,
)
from trialplate.suites.atomic_skills.world.robot import ArmNames
from trialplate.suites.atomic_skills.world.scene import compose
from trialplate.worlds.drawing import RenderSettings, Surface, people_settings
from trialplate.worlds.simulation import StateDigest

FloatArray = NDArray[np.float64]

BODIES = ("own",)
PROFILES = ("state",)
_KEPT_MODELS = 6
_DIVERGED = {f"mjWARN_BAD{part}" for part in ("QPOS", "QVEL", "QACC")}
"""Warnings of MuJoCo about a state that is not finite, or far too large."""


@dataclass(frozen=True, slots=True)
class _Built:
    """A compiled scene, never changed after, and where its parts lie."""

    model: mujoco.MjModel
    arms: tuple[ArmNames, ...]
    touch: Touch
    ctrl: NDArray[np.intp]  # (dof,) actuator of each column of a command
    ctrl_per_unit: FloatArray  # (dof,) control value = per_unit * command + at_zero
    ctrl_at_zero: FloatArray
    qpos: NDArray[np.intp]  # (dof,) coordinate of each column; of a gripper its driver joint
    q_per_unit: FloatArray  # (dof,) column = per_unit * coordinate + at_zero
    q_at_zero: FloatArray
    hands: tuple[int, ...]  # (arms,) the gripper columns
    tool_site: tuple[int, ...]  # (arms,)
    object_qpos: NDArray[np.intp]  # (objects * 7,)
    object_height: tuple[int, ...]  # (objects,) coordinate of each object's height
    asset_qpos: int | None


class AtomicSkills:
    """One world of the suite; implements :class:`trialplate.interfaces.Environment`, and ``phase`` beside it.

    ``body`` is ``own``, ``profile`` is ``state``: nothing is drawn for a planner. Compiled scenes are kept, and every
    reset makes new data from an unchanged model.
    """

    def __init__(self, *, body: str = "own", profile: str = "state") -> None:
        _known("body", body, known=BODIES)
        _known("profile", profile, known=PROFILES)
        self._settings = world_settings()
        self._models: OrderedDict[str, _Built] = OrderedDict()
        self._surface: tuple[str, RenderSettings, Surface] | None = None
        self._scene: str | None = None
        self._events: list[Event] = []
        self._kind: Phase = "setup"
        self._row = 0

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Build or reuse the scenario's world at rest, and read back what it is. ``seed`` changes nothing here.

        Raises SceneMismatch; HarnessFault ``reset_failed``, its message beginning with ``initial_contact``,
        ``equality_constraint``, ``perturbation_not_applied`` or ``asset_missing`` where it is one of them.
        """
        case = scenario.parameters
        self._case = case
        self._scene = document_sha256({name: case[name] for name in ("scene", "world", "poses", "command", "skill")})
        self._built = built = self._fresh_or_kept(self._scene, case)
        self.model, self.data = built.model, mujoco.MjData(built.model)
        self._digest = StateDigest(built.model)
        limits = self._settings.contact
        self._watch = ContactWatch(built.model, built.touch, threshold_n=limits.unintended_n)
        self._place(case)
        refuse_constraints(built.model, case=case, arms=built.arms)
        applied = read_applied_scene(built.model, self.data, case=case, arms=built.arms)
        check_applied_scene(case, applied, expected=expected_scene(case))
        refuse_initial_contact(built.model, self.data, case=case, touch=built.touch, threshold_n=limits.initial_n)
        self._values = np.zeros(sum(column.dim for column in case_columns(case)))
        self._parts = {name: self._values[where] for name, where in case_slices(case).items()}
        self._events.clear()
        self._told_n: dict[tuple[str, str], float] = {}
        self._kind, self._row = "setup", 0
        self._look(RESET, lowest_m=self._object_height_m())
        return ResetEvidence(applied, document_sha256(applied), self.state_sha256())

    def phase(self, name: Phase) -> None:
        """Say what the next rows are: part of a ``setup``, a ``waypoint`` of the plan, or of the ``settle``."""
        _known("kind of row", name, known=tuple(KINDS))
        self._kind = name

    def step(self, action: FloatArray) -> Event | None:
        """Hold one command row (dof,) for the physics steps of its kind. Returns None: no row is refused here.

        Raises PolicyFault ``invalid_action`` for a row of another shape, a number that is not finite or an opening
        fraction outside [0, 1]; CaseFault ``replay_diverged`` when the state is not finite or grows without bound;
        HarnessFault ``simulator_crash`` for any other warning of the simulator.
        """
        self._command(action)
        self._row += 1
        replay = self._settings.replay
        steps = {"setup": replay.setup_steps, "waypoint": replay.waypoint_steps, "settle": replay.settle_steps}
        model, data, watch = self.model, self.data, self._watch
        watch.begin()
        lowest_m = self._advance(steps[self._kind])
        self._check_warnings()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        if watch.pairs:
            self._tell(watch.pairs)
        self._look(KINDS[self._kind], lowest_m=lowest_m)
        return None

    def setup_actions(self) -> FloatArray:
        """Return the suite's own grasp before the plan, (n, dof), for a skill that starts with a held object.

        Called after reset; shape (0, dof) where nothing is held. Its last ``setup_hold_rows`` rows hold still: both
        fingers must touch in each of them.
        """
        from trialplate.suites.atomic_skills.planners.setup import setup_rows

        return setup_rows(self._case)

    def present_case(self) -> dict[str, Any]:
        """Return the case as a planner may see it: start joints and poses as they are now, no set, domain or axis."""
        case = {**self._case, "set": None, "domain": None, "axis": None}
        case["q_start"] = self._parts["q"].tolist()
        poses = dict(case["poses"])
        for index, thing in enumerate(case["world"]["objects"]):
            poses[thing["name"]] = self._parts["obj_pose"][7 * index : 7 * index + 7].tolist()
        case["poses"] = poses
        return case

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """A planner is shown its case, no channel. Raises UsageError for any name."""
        if cameras or proprio:
            raise UsageError(f"suite atomic-skills has no channels, asked for {[*cameras, *proprio]}")
        return Sensed({}, {})

    def measure(self) -> Measurement:
        """Return the sample taken after the last row, in the order of ``channels.case_columns``."""
        return Measurement(self._values.copy())

    def state_sha256(self) -> str:
        """Digest of the full simulator state. Raises HarnessFault when it is not finite."""
        return self._digest(self.model, self.data)

    def drain_events(self) -> tuple[Event, ...]:
        """Return and forget contacts that may not be: each pair at first, and again when its force has doubled."""
        drained = tuple(self._events)
        self._events.clear()
        return drained

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Render pictures for people, (height_px, width_px, 3), with the robots' own meshes; the state stays."""
        surface = self._people_surface(height_px=height_px, width_px=width_px)
        drawn, data = self._drawn, mujoco.MjData(self._drawn)
        data.qpos[:] = self.data.qpos
        mujoco.mj_forward(drawn, data)
        return {name: surface.draw(data, camera_id=drawn.camera(name).id) for name in cameras}

    def close(self) -> None:
        """Release the drawing buffers."""
        if self._surface is not None:
            self._surface[2].close()
        self._surface = None

    # -- inside ------------------------------------------------------------------------------------------------

    def _fresh_or_kept(self, key: str, case: Mapping[str, Any]) -> _Built:
        built = self._models.pop(key, None)
        if built is None:
            try:
                built = _build(case)
            except Unavailable as missing:  # a held-out robot; the nominal ones were looked for when this was locked
                raise HarnessFault(missing.message, code="reset_failed") from None
        self._models[key] = built
        while len(self._models) > _KEPT_MODELS:
            self._models.popitem(last=False)
        return built

    def _place(self, case: Mapping[str, Any]) -> None:
        """Put arms, objects and the articulated part where the case says, at rest, driven where they are."""
        built, data = self._built, self.data
        row = np.array(case["q_start"], dtype=np.float64)
        if row.shape != built.qpos.shape or (row[list(built.hands)] != 1.0).any():
            raise HarnessFault(
                f"case {case['case_id']}: q_start needs {ARM_DOF} numbers for each of {len(built.arms)} arms and "
                f"open grippers (1.0), got {case['q_start']}",
                code="reset_failed",
            )
        data.qpos[built.qpos] = (row - built.q_at_zero) / built.q_per_unit
        for index, thing in enumerate(case["world"]["objects"]):
            data.qpos[built.object_qpos[7 * index : 7 * index + 7]] = case["poses"][thing["name"]]
        if built.asset_qpos is not None:
            data.qpos[built.asset_qpos] = case["world"]["asset"]["start"]
        self._command(row)
        mujoco.mj_forward(self.model, data)

    def _command(self, action: FloatArray) -> None:
        built = self._built
        if action.shape != built.ctrl.shape:
            raise PolicyFault(
                f"row {self._row + 1} has shape {action.shape}, expected {built.ctrl.shape}", code="invalid_action"
            )
        opening_legal = all(0.0 <= action[column] <= 1.0 for column in built.hands)
        if not (opening_legal and math.isfinite(float(action @ action))):
            raise PolicyFault(
                f"row {self._row + 1}: joints must be finite and opening fractions in [0, 1], got {action.tolist()}; "
                "nothing is clipped",
                code="invalid_action",
            )
        self.data.ctrl[built.ctrl] = built.ctrl_per_unit * action + built.ctrl_at_zero

    def _advance(self, steps: int) -> float:
        """Run physics steps with a look at contacts and object heights after each; return the lowest height."""
        model, data, look, harmless = self.model, self.data, self._watch.look, self._watch.harmless
        heights = self._built.object_height
        qpos = data.qpos
        lowest_m = float("inf")
        step = mujoco.mj_step
        for _ in range(steps):
            step(model, data)
            if data.ncon and data.contact.geom.tobytes() not in harmless:
                look(data)
            for address in heights:
                if qpos[address] < lowest_m:
                    lowest_m = qpos[address]
        return float(lowest_m)

    def _tell(self, pairs: Mapping[tuple[str, str], float]) -> None:
        """Add an event for each pair that is new, or twice as hard as when it was told."""
        for pair, force_n in sorted(pairs.items()):
            if force_n > 2.0 * self._told_n.get(pair, 0.0):
                self._told_n[pair] = force_n
                self._events.append(Event(self._row, "unintended_contact", f"{pair[0]} {pair[1]} {force_n:.6g} N"))

    def _object_height_m(self) -> float:
        return min((float(self.data.qpos[address]) for address in self._built.object_height), default=float("inf"))

    def _look(self, kind: int, *, lowest_m: float) -> None:
        """Take the sample."""
        built, data = self._built, self.data
        parts = self._parts
        parts["sample_kind"][0] = kind
        parts["q"][:] = built.q_per_unit * data.qpos[built.qpos] + built.q_at_zero
        ee = parts["ee_pose"]
        for index, site in enumerate(built.tool_site):
            ee[7 * index : 7 * index + 3] = data.site_xpos[site]
            mujoco.mju_mat2Quat(ee[7 * index + 3 : 7 * index + 7], data.site_xmat[site])
        if data.ncon:
            parts["pad_force_n"][:], parts["hand_force_n"][:] = self._watch.forces(data)
        else:
            parts["pad_force_n"][:] = parts["hand_force_n"][:] = 0.0
        parts["unintended_n"][0] = self._watch.worst_n
        if built.object_height:
            parts["obj_pose"][:] = data.qpos[built.object_qpos]
            parts["min_obj_z_m"][:] = lowest_m
        if built.asset_qpos is not None:
            parts["asset_joint"][:] = data.qpos[built.asset_qpos]

    def _check_warnings(self) -> None:
        counts = self.data.warning.number
        if counts.tobytes().strip(b"\0"):
            raised = [mujoco.mjtWarning(kind).name for kind in np.flatnonzero(counts)]
            message = (
                f"MuJoCo reported {', '.join(raised)} in row {self._row} (t = {self.data.time:.3f} s); the trial is "
                "no evidence"
            )
            if _DIVERGED & set(raised):
                raise CaseFault(message, detail="replay_diverged")
            raise HarnessFault(message, code="simulator_crash")

    def _people_surface(self, *, height_px: int, width_px: int) -> Surface:
        if self._scene is None:
            raise HarnessFault("no scenario was reset yet; call reset first", code="reset_failed")
        wanted = people_settings(height_px=height_px, width_px=width_px)
        if self._surface is None or self._surface[:2] != (self._scene, wanted):
            self.close()
            self._drawn = compose(self._case, pictures=True).spec.compile()
            self._surface = (self._scene, wanted, Surface(self._drawn, settings=wanted))
        return self._surface[2]


def _build(case: Mapping[str, Any]) -> _Built:
    composed = compose(case)
    model = composed.spec.compile()
    arms = composed.arms
    things = [thing["name"] for thing in case["world"]["objects"]]
    first = [int(model.joint(f"{name}_joint").qposadr[0]) for name in things]
    count = len(arms)
    ctrl = [model.actuator(name).id for arm in arms for name in (*arm.actuators, arm.hand_actuator)]
    qpos = [_address(model, name) for arm in arms for name in (*arm.joints, arm.driver_joint)]
    return _Built(
        model=model,
        arms=arms,
        touch=read_touch(model, case, arms),
        ctrl=np.array(ctrl, dtype=np.intp),
        ctrl_per_unit=np.array([value for arm in arms for value in (*[1.0] * 6, -arm.closed_ctrl)]),
        ctrl_at_zero=np.array([value for arm in arms for value in (*[0.0] * 6, arm.closed_ctrl)]),
        qpos=np.array(qpos, dtype=np.intp),
        q_per_unit=np.array([value for arm in arms for value in (*[1.0] * 6, -1.0 / arm.closed_rad)]),
        q_at_zero=np.tile([*[0.0] * 6, 1.0], count),
        hands=tuple(range(ARM_DOF - 1, ARM_DOF * count, ARM_DOF)),
        tool_site=tuple(int(model.site(arm.tool_site).id) for arm in arms),
        object_qpos=np.array([start + offset for start in first for offset in range(7)], dtype=np.intp),
        object_height=tuple(start + 2 for start in first),
        asset_qpos=None if case["world"]["asset"] is None else _address(model, JOINT),
    )


def _address(model: mujoco.MjModel, joint: str) -> int:
    return int(model.joint(joint).qposadr[0])


def _known(what: str, name: str, *, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UsageError(f"suite atomic-skills has no {what} {name!r}{nearest(name, known)}", code="unknown_name")
