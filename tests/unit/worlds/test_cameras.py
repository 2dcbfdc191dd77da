import importlib.util
import multiprocessing
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from trialplate.errors import HarnessFault, SensorInvalid, Unavailable
from trialplate.worlds import drawing
from trialplate.worlds.cameras import CameraRig, check_frames
from trialplate.worlds.drawing import RenderSettings, people_settings
from trialplate.worlds.panda import HOME_JOINT_RAD
from trialplate.worlds.simulation import model_digest

pytestmark = pytest.mark.gl


@pytest.fixture
def make_rig():
    rigs = []

    def make(scene, *names, **options):
        rigs.append(CameraRig(scene.world.model, names=names, **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


def test_pictures_have_the_declared_size_and_show_the_block(scene, make_rig):
    rig = make_rig(scene, "primary", scene.names.wrist_camera)
    frames = rig.capture(scene.world.data, step=0)
    assert list(frames) == ["primary", "panda_wrist"]
    for frame in frames.values():
        assert frame.shape == (256, 256, 3)
        assert frame.dtype == np.uint8
    red = (frames["primary"][..., 0] > 90) & (frames["primary"][..., 1] < 40)
    shown = rig.geom_ids(scene.world.data, name="primary") == scene.world.model.geom("block").id
    assert 40 < shown.sum() < 2000
    assert red[shown].mean() > 0.9
    assert not red[~shown].any()


def test_the_top_row_of_a_picture_is_the_top_of_the_view(scene, make_rig):
    rig = make_rig(scene, "primary")
    shown = rig.geom_ids(scene.world.data, name="primary")
    rows = np.argwhere(shown == scene.world.model.geom("table").id)[:, 0]
    assert rows.min() > 20
    assert rows.max() > 240


def test_pictures_are_the_same_bytes_from_one_rig_to_the_next(make_scene, make_rig):
    pictures = []
    for _ in range(3):
        scene = make_scene()
        rig = make_rig(scene, "primary", scene.names.wrist_camera)
        pictures.append(b"".join(frame.tobytes() for frame in rig.capture(scene.world.data, step=0).values()))
    assert pictures[0] == pictures[1] == pictures[2]


def test_drawing_never_changes_the_state(scene, make_rig):
    rig = make_rig(scene, "primary")
    scene.act((0.02, 0.0, 0.0), gripper="open")
    before = scene.world.state_digest()
    rig.capture(scene.world.data, step=1)
    assert scene.world.state_digest() == before


def test_a_blank_picture_is_refused_by_name_and_step(make_scene, make_rig):
    scene = make_scene()
    scene.world.model.camera("away").quat[:] = [1, 0, 0, 0]
    scene.world.model.camera("away").pos[:] = [0, 0, -5]
    scene.world.reset()
    rig = make_rig(scene, "primary", "away")
    with pytest.raises(SensorInvalid, match=r"step 7: camera 'away' is blank") as caught:
        rig.capture(scene.world.data, step=7)
    assert caught.value.code == "observation_unhealthy"


def test_two_cameras_with_one_picture_are_refused(scene, make_rig):
    rig = make_rig(scene, "primary", "primary_twin")
    with pytest.raises(SensorInvalid, match=r"step 3: cameras 'primary' and 'primary_twin' show the same picture"):
        rig.capture(scene.world.data, step=3)


def test_one_differing_pixel_is_enough_to_be_healthy():
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    other = frame.copy()
    other[13, 29, 1] ^= 1
    check_frames({"a": frame, "b": other}, step=0)
    almost_blank = np.zeros((64, 64, 3), dtype=np.uint8)
    almost_blank[5, 5, 2] = 1
    check_frames({"a": almost_blank}, step=0)


def test_a_still_scene_may_repeat_its_picture(scene, make_rig):
    rig = make_rig(scene, "primary", watch_site=scene.names.ee_site)
    for step in range(3):
        rig.capture(scene.world.data, step=step)


def test_a_picture_frozen_while_the_arm_moves_through_it_is_stale(scene, make_rig, monkeypatch):
    rig = make_rig(scene, "primary", watch_site=scene.names.ee_site)
    frozen = rig.capture(scene.world.data, step=0)["primary"]
    for _ in range(3):
        scene.act((0.0, 0.04, 0.0), gripper="open")
    monkeypatch.setattr(rig._surface, "draw", lambda *_, **__: frozen.copy())
    with pytest.raises(SensorInvalid, match=r"step 3: camera 'primary' repeats its last picture"):
        rig.capture(scene.world.data, step=3)


def test_a_new_episode_is_not_compared_with_the_one_before(scene, make_rig, monkeypatch):
    rig = make_rig(scene, "primary", watch_site=scene.names.ee_site)
    frozen = rig.capture(scene.world.data, step=0)["primary"]
    for _ in range(3):
        scene.act((0.0, 0.04, 0.0), gripper="open")
    rig.reset()
    monkeypatch.setattr(rig._surface, "draw", lambda *_, **__: frozen.copy())
    rig.capture(scene.world.data, step=0)


def test_the_watched_point_is_where_the_picture_shows_the_gripper(scene, make_rig):
    rig = make_rig(scene, "primary", watch_site=scene.names.ee_site)
    scene.move_to((0.5, 0.1, 0.1), gripper="open")
    column, row = rig._watched_px(scene.world.data, rig._ids["primary"])
    shown = rig.geom_ids(scene.world.data, name="primary")
    model = scene.world.model
    fingers = [g for g in range(model.ngeom) if model.body(model.geom_bodyid[g]).name in scene.names.finger_bodies]
    pixels = np.argwhere(np.isin(shown, fingers))
    assert np.abs(pixels.mean(axis=0) - [row, column]).max() < 8


def test_turning_the_hand_turns_the_wrist_picture(scene, make_rig):
    rig = make_rig(scene, scene.names.wrist_camera)
    before = rig.capture(scene.world.data, step=0)["panda_wrist"]
    for _ in range(4):
        scene.act((0, 0, 0), rotation_rad=(0, 0, 0.3), gripper="open")
    scene.wait(3, gripper="open")
    after = rig.capture(scene.world.data, step=7)["panda_wrist"]
    assert (before != after).mean() > 0.05


def test_a_dark_scene_renders_darker(make_scene, make_rig):
    lit, dark = make_scene(), make_scene(lit=False)
    means = [make_rig(scene, "primary").capture(scene.world.data, step=0)["primary"].mean() for scene in (lit, dark)]
    assert means[1] < 0.8 * means[0]


def test_an_unknown_camera_is_refused_with_the_known_names(scene):
    with pytest.raises(HarnessFault, match=r"'primry'.*did you mean 'primary'"):
        CameraRig(scene.world.model, names=["primry"])


def test_a_camera_outside_the_rig_is_refused(scene, make_rig):
    rig = make_rig(scene, "primary")
    with pytest.raises(HarnessFault, match="'away'"):
        rig.capture(scene.world.data, step=0, names=["away"])


def test_a_closed_rig_draws_no_more(scene):
    rig = CameraRig(scene.world.model, names=["primary"])
    rig.close()
    with pytest.raises(HarnessFault, match="closed"):
        rig.capture(scene.world.data, step=0)


def test_another_size_needs_no_other_model(scene, make_rig):
    rig = make_rig(scene, "primary", settings=RenderSettings(width_px=640, height_px=480))
    assert rig.capture(scene.world.data, step=0)["primary"].shape == (480, 640, 3)


def test_people_see_smooth_edges_and_the_model_stays_as_it_was_compiled(scene, make_rig):
    before = model_digest(scene.world.model)
    size = {"height_px": 128, "width_px": 128}
    plain = make_rig(scene, "primary", settings=RenderSettings(**size)).capture(scene.world.data, step=0)["primary"]
    smooth = make_rig(scene, "primary", settings=people_settings(**size)).capture(scene.world.data, step=0)["primary"]
    assert len(np.unique(smooth.reshape(-1, 3), axis=0)) > 1.2 * len(np.unique(plain.reshape(-1, 3), axis=0))
    assert model_digest(scene.world.model) == before


def test_drawing_from_another_thread_is_refused_not_hung(scene, make_rig):
    rig = make_rig(scene, "primary")
    rig.capture(scene.world.data, step=0)
    caught = []

    def draw():
        try:
            rig.capture(scene.world.data, step=1)
        except HarnessFault as error:
            caught.append(str(error))

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join(20)
    assert caught
    assert "another thread" in caught[0]


def _draw_in_spawned_child(queue):
    place = Path(__file__).with_name("conftest.py")  # by its file: other folders have a module of that name, too
    found = importlib.util.spec_from_file_location("conftest_of_worlds", place)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # its dataclasses look themselves up
    found.loader.exec_module(module)
    scene = module.build_scene()
    rig = CameraRig(scene.world.model, names=["primary"])
    queue.put(rig.capture(scene.world.data, step=0)["primary"].tobytes())


def test_a_context_of_another_process_is_refused(scene, make_rig, monkeypatch):
    rig = make_rig(scene, "primary")
    rig.capture(scene.world.data, step=0)
    monkeypatch.setattr(drawing.os, "getpid", lambda: -1)
    with pytest.raises(HarnessFault, match="by spawn, not by fork"):
        rig.capture(scene.world.data, step=1)


def test_a_spawned_process_draws_the_same_bytes(scene, make_rig):
    here = make_rig(scene, "primary").capture(scene.world.data, step=0)["primary"].tobytes()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_draw_in_spawned_child, args=(queue,))
    child.start()
    there = queue.get(timeout=60)
    child.join(20)
    assert there == here


def test_a_machine_without_opengl_says_what_to_install(monkeypatch, scene):
    monkeypatch.setattr(drawing, "_owner", None)
    monkeypatch.setattr(drawing, "choose_gl_backend", lambda: "disable")
    with pytest.raises(Unavailable, match="libegl1 libgl1-mesa-dri libegl-mesa0"):
        CameraRig(scene.world.model, names=["primary"])


def test_a_back_end_that_does_not_start_says_so(monkeypatch, scene):
    from mujoco.rendering.classic import gl_context

    def broken(*_):
        raise ImportError("Cannot initialize a EGL device display")

    monkeypatch.setattr(drawing, "_owner", None)
    monkeypatch.setattr(gl_context, "GLContext", broken)
    with pytest.raises(Unavailable, match=r"does not start: Cannot initialize.*MUJOCO_GL=egl"):
        CameraRig(scene.world.model, names=["primary"])


def test_the_home_pose_is_in_the_picture(scene, make_rig):
    rig = make_rig(scene, "primary")
    assert np.allclose(scene.world.data.qpos[:7], HOME_JOINT_RAD)
    shown = np.unique(rig.geom_ids(scene.world.data, name="primary"))
    assert len(shown) > 15
