"""From a Cartesian command to joint targets: one small inverse kinematics with limits, and nothing hidden.

The controller keeps the *commanded* pose. An action moves the command, not the measured pose, so that the droop of a
loaded arm never adds up. A pose that cannot be reached is a result, not a silent hold and not a clipped move.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault
from trialplate.worlds.panda import (
    ARM_JOINTS,
    HOME_JOINT_RAD,
    JOINT_LOWER_RAD,
    JOINT_UPPER_RAD,
    kinematic_model,
)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IkSettings:
    """Every number of the solver; part of the suite's digest.

    The search ends early once both ``converged`` bounds hold; at the end of the iterations a pose inside the
    ``accepted`` bounds counts as reached.
    """

    converged_m: float = 5e-5
    converged_rad: float = 5e-4
    accepted_m: float = 1e-3
    accepted_rad: float = 1e-2
    max_iterations: int = 40
    position_cost: float = 1.0  # per metre
    rotation_cost: float = 0.3  # per radian
    posture_cost: float = 1e-3  # pull of the spare joint towards the home pose, per radian
    damping: float = 1e-6
    iteration_step_rad: float = 0.35  # most that one iteration turns a joint
    limit_margin_rad: float = 1e-3
    jump_rad: float = 1.2  # a larger joint move in one command is another arm configuration: refused

    def document(self) -> dict[str, Any]:
        """Return the settings as a plain JSON object for a digest."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Pose:
    """A pose in the world frame: ``position_m`` (3,), unit quaternion ``wxyz`` (4,)."""

    position_m: FloatArray
    wxyz: FloatArray


@dataclass(frozen=True, slots=True)
class JointTarget:
    """Joint positions that reach the commanded pose, with the residuals of the solution."""

    joint_rad: FloatArray  # (7,)
    position_error_m: float
    rotation_error_rad: float
    iterations: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A legal command whose pose the arm cannot take; the command before it stays."""

    reason: str
    position_error_m: float
    rotation_error_rad: float
    iterations: int


class CartesianController:
    """Commanded tool-centre pose of one Panda, and the joint targets that follow it.

    ``reset`` before each episode; afterwards the outcome depends on nothing but the commands since.
    """

    def __init__(
        self, *, base_position_m: tuple[float, float, float] = (0.0, 0.0, 0.0), settings: IkSettings | None = None
    ) -> None:
        self.settings = settings if settings is not None else IkSettings()
        self._solver = _Solver(base_position_m, settings=self.settings)
        self._joint_rad = np.array(HOME_JOINT_RAD)
        self._pose = self._solver.forward(self._joint_rad)

    def reset(self, joint_rad: FloatArray | tuple[float, ...] = HOME_JOINT_RAD) -> Pose:
        """Start from joint positions (7,) and return the commanded pose they make."""
        start = np.array(joint_rad, dtype=np.float64)
        if start.shape != (ARM_JOINTS,) or not np.isfinite(start).all():
            raise HarnessFault(
                f"expected 7 finite joint positions to start from, got {joint_rad!r}", code="reset_failed"
            )
        self._joint_rad = start
        self._pose = self._solver.forward(start)
        return self._pose

    @property
    def commanded_pose(self) -> Pose:
        """The pose that the last accepted command asked for."""
        return self._pose

    @property
    def joint_target_rad(self) -> FloatArray:
        """The joint target of the last accepted command, a copy (7,)."""
        return self._joint_rad.copy()

    def command(self, delta_position_m: FloatArray, delta_rotation_rad: FloatArray) -> JointTarget | Unreachable:
        """Move the command by a world-frame translation (3,) and a world-frame axis-angle rotation (3,).

        Returns the joint target, or :class:`Unreachable` with the command unchanged. A failing solver raises
        :class:`HarnessFault` with code ``solver_failure``. Source: fair pick-and-place protocol, section 4.
        """
        turn_wxyz = np.empty(4)
        angle_rad = float(np.sqrt(delta_rotation_rad @ delta_rotation_rad))
        if angle_rad > 0.0:
            mujoco.mju_axisAngle2Quat(turn_wxyz, delta_rotation_rad / angle_rad, angle_rad)
        else:
            turn_wxyz[:] = (1.0, 0.0, 0.0, 0.0)
        wxyz = np.empty(4)
        mujoco.mju_mulQuat(wxyz, turn_wxyz, self._pose.wxyz)
        mujoco.mju_normalize4(wxyz)
        return self.command_pose(Pose(self._pose.position_m + delta_position_m, wxyz))

    def command_pose(self, pose: Pose) -> JointTarget | Unreachable:
        """Command an absolute pose in the world frame; as :meth:`command` otherwise."""
        if not (np.isfinite(pose.position_m).all() and np.isfinite(pose.wxyz).all()):
            raise HarnessFault(
                f"the commanded pose is not finite: position {pose.position_m}, quaternion {pose.wxyz}; "
                "actions are checked before they come here",
                code="solver_failure",
            )
        result = self._solver.solve(pose, start_rad=self._joint_rad)
        if isinstance(result, JointTarget):
            self._joint_rad = result.joint_rad
            self._pose = pose
        return result


class _Solver:
    """Iterated quadratic programs over one kinematic model; buffers are kept, results are not."""

    def __init__(self, base_position_m: tuple[float, float, float], *, settings: IkSettings) -> None:
        try:
            import daqp
            import mink
        except ImportError as error:
            raise HarnessFault(
                f"inverse kinematics needs the packages mink and daqp, and one does not import: {error}; "
                "install the versions of the lock",
                code="solver_failure",
            ) from error
        self._se3 = mink.SE3
        self._qp = daqp.solve
        self._settings = settings
        self._configuration = mink.Configuration(kinematic_model(base_position_m), q=np.array(HOME_JOINT_RAD))
        self._task = mink.FrameTask(
            "ee", "site", position_cost=settings.position_cost, orientation_cost=settings.rotation_cost
        )
        self._lower_rad = np.array(JOINT_LOWER_RAD) + settings.limit_margin_rad
        self._upper_rad = np.array(JOINT_UPPER_RAD) - settings.limit_margin_rad
        self._home_rad = np.array(HOME_JOINT_RAD)
        self._no_rows = np.zeros((0, ARM_JOINTS))
        self._sense = np.zeros(ARM_JOINTS, dtype=np.intc)
        self._site = mujoco.mj_name2id(self._configuration.model, mujoco.mjtObj.mjOBJ_SITE, "ee")

    def forward(self, joint_rad: FloatArray) -> Pose:
        configuration = self._configuration
        configuration.update(joint_rad)
        wxyz = np.empty(4)
        mujoco.mju_mat2Quat(wxyz, configuration.data.site_xmat[self._site])
        return Pose(configuration.data.site_xpos[self._site].copy(), wxyz)

    def solve(self, pose: Pose, *, start_rad: FloatArray) -> JointTarget | Unreachable:
        settings, configuration = self._settings, self._configuration
        self._task.set_target(self._se3(np.concatenate((pose.wxyz, pose.position_m))))
        q = start_rad.copy()
        position_error_m = rotation_error_rad = np.inf
        iterations = 0
        for iterations in range(settings.max_iterations + 1):
            configuration.update(q)
            jacobian, error, _ = self._task.compute_qp_residual(configuration)
            position_error_m = float(np.sqrt(error[:3] @ error[:3])) / settings.position_cost
            rotation_error_rad = float(np.sqrt(error[3:] @ error[3:])) / settings.rotation_cost
            if position_error_m <= settings.converged_m and rotation_error_rad <= settings.converged_rad:
                break
            if iterations < settings.max_iterations:
                q += self._iterate(q, jacobian=jacobian, error=error)
        return self._judge(
            q,
            start_rad=start_rad,
            position_error_m=position_error_m,
            rotation_error_rad=rotation_error_rad,
            iterations=iterations,
        )

    def _iterate(self, q: FloatArray, *, jacobian: FloatArray, error: FloatArray) -> FloatArray:
        settings = self._settings
        posture = settings.posture_cost**2
        hessian = jacobian.T @ jacobian
        hessian.flat[:: ARM_JOINTS + 1] += settings.damping + posture
        gradient = -(error @ jacobian) + posture * (q - self._home_rad)
        step = settings.iteration_step_rad
        upper = np.minimum(self._upper_rad - q, step)
        lower = np.maximum(self._lower_rad - q, -step)
        move, _, flag, _ = self._qp(hessian, gradient, self._no_rows, upper, lower, self._sense)
        if flag != 1:
            raise HarnessFault(
                f"the quadratic program of the inverse kinematics ended with flag {flag}, expected 1 (optimal)",
                code="solver_failure",
            )
        solved: FloatArray = move
        return solved

    def _judge(
        self,
        q: FloatArray,
        *,
        start_rad: FloatArray,
        position_error_m: float,
        rotation_error_rad: float,
        iterations: int,
    ) -> JointTarget | Unreachable:
        settings = self._settings
        if not np.isfinite(q).all():
            raise HarnessFault("the inverse kinematics returned joints that are not finite", code="solver_failure")
        reason = None
        jump_rad = float(np.abs(q - start_rad).max())
        if position_error_m > settings.accepted_m or rotation_error_rad > settings.accepted_rad:
            reason = (
                f"nearest joint pose misses by {position_error_m * 1e3:.2f} mm and {rotation_error_rad:.4f} rad "
                f"after {iterations} iterations; accepted are {settings.accepted_m * 1e3:g} mm and "
                f"{settings.accepted_rad:g} rad"
            )
        elif jump_rad > settings.jump_rad:
            reason = f"a joint would move {jump_rad:.3f} rad in one command; at most {settings.jump_rad:g} rad"
        if reason is not None:
            return Unreachable(reason, position_error_m, rotation_error_rad, iterations)
        return JointTarget(q, position_error_m, rotation_error_rad, iterations)
