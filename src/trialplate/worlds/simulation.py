"""A world: one compiled model with its data, stepped in fixed control steps, checked and digested after each.

MuJoCo is silent where a benchmark may not be: it clips control values, and after a bad state it resets itself. Both
are errors here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import file_sha256
from trialplate.errors import HarnessFault

FloatArray = NDArray[np.float64]
AfterInterfaceStep = Callable[[int], None]

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_WARNING_NAMES = ("inertia", "contact_full", "constraint_full", "bad_qpos", "bad_qvel", "bad_qacc", "bad_ctrl")
_WARNING_KINDS = tuple(
    int(kind)
    for kind in (
        mujoco.mjtWarning.mjWARN_INERTIA,
        mujoco.mjtWarning.mjWARN_CONTACTFULL,
        mujoco.mjtWarning.mjWARN_CNSTRFULL,
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
        mujoco.mjtWarning.mjWARN_BADCTRL,
    )
)


@dataclass(frozen=True, slots=True)
class PhysicsSettings:
    """Time and solver settings of every world; part of the suite's digest.

    One control step is ``interface_steps`` steps of 1/60 s, each of ``substeps`` physics steps. Source: fair
    pick-and-place protocol, section 4 (control 20 Hz, three interface steps, a fixed internal substep).
    """

    physics_rate_hz: int = 540
    substeps: int = 9
    interface_steps: int = 3
    integrator: str = "implicitfast"
    cone: str = "elliptic"
    impratio: float = 10.0

    @property
    def control_rate_hz(self) -> float:
        """Control steps per simulated second."""
        return self.physics_rate_hz / (self.substeps * self.interface_steps)

    def document(self) -> dict[str, Any]:
        """Return the settings as a plain JSON object for a digest."""
        return asdict(self)


def apply_physics(spec: mujoco.MjSpec, settings: PhysicsSettings) -> None:
    """Write the settings into a scene before it is compiled."""
    option = spec.option
    option.timestep = 1.0 / settings.physics_rate_hz
    option.integrator = {
        "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
        "euler": mujoco.mjtIntegrator.mjINT_EULER,
    }[settings.integrator]
    option.cone = {
        "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC,
        "pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL,
    }[settings.cone]
    option.impratio = settings.impratio
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)


@dataclass(frozen=True, slots=True)
class InitialState:
    """What a world is reset to; entries that are not listed keep the model's own values."""

    qpos: tuple[tuple[int, tuple[float, ...]], ...] = ()  # (address, values)
    ctrl: tuple[float, ...] | None = None  # (nu,)


class StateDigest:
    """Digest of a world's whole integration state, with its buffers kept: about 10 us a call.

    Equal to ``canonical.array_digest([state], dtype="f64")`` of ``mjSTATE_INTEGRATION``: positions, velocities,
    control, warm start, time, active constraints, applied forces.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        size = int(mujoco.mj_stateSize(model, _STATE))
        self._state = np.empty(size, dtype="<f8")
        self._header = hashlib.sha256(f"f64|1|{size}\n".encode())

    def __call__(self, model: mujoco.MjModel, data: mujoco.MjData) -> str:
        """Return 64 hex digits; a non-finite state is a :class:`HarnessFault` ``simulator_crash``."""
        state = self._state
        mujoco.mj_getState(model, data, state, _STATE)
        if not np.isfinite(state).all():
            raise HarnessFault(
                f"the simulation state is not finite at t = {data.time:.3f} s: element "
                f"{int(np.flatnonzero(~np.isfinite(state))[0])} of {state.size}; look at forces and control values",
                code="simulator_crash",
            )
        np.add(state, 0.0, out=state)  # -0 is written as +0
        digest = self._header.copy()
        digest.update(state.data)
        return digest.hexdigest()


def state_digest(model: mujoco.MjModel, data: mujoco.MjData) -> str:
    """Return the digest of one state; a world that digests every step keeps a :class:`StateDigest`."""
    return StateDigest(model)(model, data)


def model_digest(model: mujoco.MjModel) -> str:
    """Return the SHA-256 of the compiled model: every array, option and name, as MuJoCo serialises it."""
    buffer = np.zeros(mujoco.mj_sizeModel(model), dtype=np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.data).hexdigest()


def library_sha256() -> str | None:
    """Return the SHA-256 of MuJoCo's own shared library, None where there is not exactly one beside its package."""
    folder = Path(mujoco.__file__).parent
    found = [*folder.glob("libmujoco*"), *folder.glob("mujoco.dll")]
    return file_sha256(found[0]) if len(found) == 1 else None


class World:
    """A compiled model and its data. ``reset`` first, then ``step`` once per control step."""

    def __init__(
        self, model: mujoco.MjModel, *, initial: InitialState, settings: PhysicsSettings | None = None
    ) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        self.settings = settings if settings is not None else PhysicsSettings()
        self._initial = initial
        self._digest = StateDigest(model)
        self._pristine_eq_data = model.eq_data.copy()
        self._ctrl_lower = model.actuator_ctrlrange[:, 0].copy()
        self._ctrl_upper = model.actuator_ctrlrange[:, 1].copy()
        self.control_step = 0
        expected_s = 1.0 / self.settings.physics_rate_hz
        if model.opt.timestep != expected_s:
            raise HarnessFault(
                f"the model was compiled with a timestep of {model.opt.timestep!r} s, expected {expected_s!r}; "
                "call apply_physics on the scene before compiling it",
                code="reset_failed",
            )

    def reset(self) -> str:
        """Put the world into its initial state, at rest, and return that state's digest.

        Everything an episode may have changed is put back: data, active constraints, and the relative poses that a
        grasp attachment wrote into the model.
        """
        model, data = self.model, self.data
        model.eq_data[:] = self._pristine_eq_data
        mujoco.mj_resetData(model, data)
        for address, values in self._initial.qpos:
            data.qpos[address : address + len(values)] = values
        if self._initial.ctrl is not None:
            self._check_ctrl(np.asarray(self._initial.ctrl, dtype=np.float64))
            data.ctrl[:] = self._initial.ctrl
        mujoco.mj_forward(model, data)
        self.control_step = 0
        self._check_warnings()
        return self.state_digest()

    def step(self, ctrl: FloatArray, *, after_interface_step: AfterInterfaceStep | None = None) -> None:
        """Advance one control step under constant ``ctrl`` (nu,), in the actuators' own units.

        ``after_interface_step(n)`` is called after each of the interface steps, n = 0, 1, 2, with positions up to
        date; without it the world takes the same steps in one go. Raises :class:`HarnessFault`: ``solver_failure``
        for control values out of range (never clipped), ``simulator_crash`` for a MuJoCo warning or a state that is
        not finite.
        """
        self._check_ctrl(ctrl)
        model, data = self.model, self.data
        data.ctrl[:] = ctrl
        if after_interface_step is None:
            self._advance(self.settings.substeps * self.settings.interface_steps)
        else:
            for n in range(self.settings.interface_steps):
                self._advance(self.settings.substeps)
                after_interface_step(n)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        self.control_step += 1

    def _advance(self, steps: int) -> None:
        mujoco.mj_step(self.model, self.data, nstep=steps)
        self._check_warnings()
        mujoco.mj_kinematics(self.model, self.data)

    def push(self, body: str, *, force_n: Sequence[float]) -> None:
        """Apply a world-frame force (3,) at a body's centre of mass from now on; zeros end it, and so does reset."""
        force = np.asarray(force_n, dtype=np.float64)
        if force.shape != (3,) or not np.isfinite(force).all():
            raise HarnessFault(
                f"a push on body {body!r} needs 3 finite force components, got {force_n!r}", code="simulator_crash"
            )
        self.data.xfrc_applied[self.model.body(body).id, :3] = force

    def state_digest(self) -> str:
        """Return the digest of the present integration state."""
        return self._digest(self.model, self.data)

    def _check_ctrl(self, ctrl: FloatArray) -> None:
        if ctrl.shape != self._ctrl_lower.shape:
            raise HarnessFault(
                f"control vector has shape {ctrl.shape}, this world has {self._ctrl_lower.size} actuators",
                code="solver_failure",
            )
        good = (ctrl >= self._ctrl_lower) & (ctrl <= self._ctrl_upper)
        if not good.all():
            n = int(np.flatnonzero(~good)[0])
            raise HarnessFault(
                f"control step {self.control_step}: actuator {self.model.actuator(n).name!r} got {float(ctrl[n])!r}, "
                f"its range is [{self._ctrl_lower[n]:g}, {self._ctrl_upper[n]:g}]; nothing is clipped",
                code="solver_failure",
            )

    def _check_warnings(self) -> None:
        counts = self.data.warning.number
        if not counts.any():
            return
        raised = [name for name, kind in zip(_WARNING_NAMES, _WARNING_KINDS, strict=True) if counts[kind]]
        raise HarnessFault(
            f"MuJoCo reported {', '.join(raised)} in control step {self.control_step} "
            f"(t = {self.data.time:.3f} s); the episode is not evidence",
            code="simulator_crash",
        )


def joint_qpos_address(model: mujoco.MjModel, joint: str) -> int:
    """Return where a named joint's coordinates start in ``qpos``."""
    return int(model.joint(joint).qposadr[0])


def actuator_ids(model: mujoco.MjModel, names: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the indices of named actuators in ``ctrl``."""
    return np.array([model.actuator(name).id for name in names], dtype=np.intp)
