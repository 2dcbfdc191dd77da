"""A small table scene with a Panda and one block, shared by the tests of the worlds package."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from trialplate.worlds.gl import gl_report

mujoco = pytest.importorskip("mujoco")

from trialplate.worlds.arm_control import CartesianController, JointTarget  # noqa: E402
from trialplate.worlds.attachment import GraspAttachment, add_attachment  # noqa: E402
from trialplate.worlds.drawing import RenderSettings, apply_rendering  # noqa: E402
from trialplate.worlds.panda import FINGER_TRAVEL_M, HOME_JOINT_RAD, PandaNames, add_panda  # noqa: E402
from trialplate.worlds.simulation import (  # noqa: E402
    InitialState,
    PhysicsSettings,
    World,
    apply_physics,
    joint_qpos_address,
)


@pytest.fixture(scope="session", autouse=False)
def _gl():
    info = gl_report()
    if info.renderer is None:
        pytest.skip(info.reason)


@pytest.fixture(autouse=True)
def _skip_without_gl(request):
    if request.node.get_closest_marker("gl"):
        request.getfixturevalue("_gl")


@dataclass
class TableScene:
    world: World
    names: PandaNames
    attachment: GraspAttachment
    controller: CartesianController
    changes: list[tuple[int, str]]

    @property
    def ee_m(self):
        return self.world.data.site(self.names.ee_site).xpos

    @property
    def block_m(self):
        return self.world.data.body("block").xpos

    def reset(self) -> str:
        self.changes.clear()
        self.controller.reset()
        return self.world.reset()

    def act(self, delta_m, *, gripper: str, rotation_rad=(0.0, 0.0, 0.0)) -> None:
        target = self.controller.command(np.array(delta_m, dtype=float), np.array(rotation_rad, dtype=float))
        assert isinstance(target, JointTarget), target

        def attach(_: int) -> None:
            change = self.attachment.update(self.world.model, self.world.data, command=gripper)
            if change is not None:
                self.changes.append((self.world.control_step, change))

        ctrl = np.append(target.joint_rad, FINGER_TRAVEL_M if gripper == "open" else 0.0)
        self.world.step(ctrl, after_interface_step=attach)

    def move_to(self, target_m, *, gripper: str, pace_m: float = 0.03) -> None:
        while True:
            rest = np.asarray(target_m) - self.controller.commanded_pose.position_m
            distance = float(np.linalg.norm(rest))
            if distance < 1e-9:
                return
            self.act(rest * min(1.0, pace_m / distance), gripper=gripper)

    def wait(self, steps: int, *, gripper: str) -> None:
        for _ in range(steps):
            self.act((0, 0, 0), gripper=gripper)


def build_scene(*, mass_kg: float = 0.1, edge_m: float = 0.04, block_xy_m=(0.5, 0.1), lit: bool = True) -> TableScene:
    spec = mujoco.MjSpec()
    apply_physics(spec, PhysicsSettings())
    apply_rendering(spec, RenderSettings())
    names = add_panda(spec, wrist_camera="wrist")
    box = mujoco.mjtGeom.mjGEOM_BOX
    ground = spec.worldbody
    ground.add_geom(name="table", type=box, size=[0.5, 0.6, 0.02], pos=[0.4, 0, -0.02], rgba=[0.7, 0.6, 0.5, 1])
    block = ground.add_body(name="block", pos=[*block_xy_m, edge_m / 2])
    block.add_freejoint(name="block")
    block.add_geom(name="block", type=box, size=[edge_m / 2] * 3, mass=mass_kg, rgba=[0.85, 0.1, 0.1, 1])
    ground.add_camera(name="primary", pos=[1.6, 0, 0.9], xyaxes=[0, 1, 0, -0.5, 0, 0.87], fovy=50)
    ground.add_camera(name="primary_twin", pos=[1.6, 0, 0.9], xyaxes=[0, 1, 0, -0.5, 0, 0.87], fovy=50)
    ground.add_camera(name="away", pos=[0, 0, 3], xyaxes=[1, 0, 0, 0, -1, 0], fovy=40)
    if lit:
        ground.add_light(pos=[0.5, 0, 2], dir=[0, 0, -1], diffuse=[0.7, 0.7, 0.7], castshadow=False)
    add_attachment(spec, name="grasp", hand_body=names.hand_body, object_body="block")
    model = spec.compile()
    initial = InitialState(
        qpos=(
            (joint_qpos_address(model, names.joints[0]), HOME_JOINT_RAD),
            (joint_qpos_address(model, names.finger_joints[0]), (FINGER_TRAVEL_M, FINGER_TRAVEL_M)),
        ),
        ctrl=(*HOME_JOINT_RAD, FINGER_TRAVEL_M),
    )
    world = World(model, initial=initial)
    attachment = GraspAttachment(model, name="grasp", pads=names.pads)
    scene = TableScene(world, names, attachment, CartesianController(), [])
    scene.reset()
    return scene


@pytest.fixture
def make_scene() -> Callable[..., TableScene]:
    return build_scene


@pytest.fixture
def scene() -> TableScene:
    return build_scene()
