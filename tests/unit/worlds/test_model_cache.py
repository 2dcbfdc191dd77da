import numpy as np
import pytest

from trialplate.errors import HarnessFault
from trialplate.worlds.model_cache import WorldCache, trajectory_digests


def _grasp_episode(scene):
    scene.reset()
    scene.move_to((0.5, 0.1, 0.15), gripper="open")
    scene.move_to((0.5, 0.1, 0.024), gripper="open")
    scene.wait(8, gripper="close")
    scene.move_to((0.45, 0.0, 0.2), gripper="close")
    assert scene.changes


def test_a_reused_world_equals_a_fresh_one_by_fifty_steps_of_digests(make_scene):
    used, fresh = make_scene(), make_scene()
    cache = WorldCache()
    world, first = cache.fresh_or_reused("a" * 64, lambda: used.world)
    _grasp_episode(used)
    again, initial = cache.fresh_or_reused("a" * 64, lambda: pytest.fail("built twice"))
    assert again is world
    assert initial == first == fresh.world.reset()
    rng = np.random.default_rng(0)
    controls = np.tile(fresh.world.data.ctrl, (50, 1))
    controls[:, :7] += np.cumsum(rng.uniform(-0.01, 0.01, (50, 7)), axis=0)
    controls[:, 7] = 0.0
    reused = trajectory_digests(world, controls)
    assert reused == trajectory_digests(fresh.world, controls)
    assert len(set(reused)) == 51


def test_a_model_that_an_episode_changed_is_refused_and_thrown_away(make_scene):
    scene = make_scene()
    cache = WorldCache()
    cache.fresh_or_reused("b" * 64, lambda: scene.world)
    scene.world.model.geom("block").friction[0] = 0.05
    with pytest.raises(HarnessFault, match="initial model") as caught:
        cache.fresh_or_reused("b" * 64, lambda: scene.world)
    assert caught.value.code == "reset_failed"
    assert len(cache) == 0


def test_an_initial_state_that_differs_is_refused(make_scene, monkeypatch):
    scene = make_scene()
    cache = WorldCache()
    cache.fresh_or_reused("c" * 64, lambda: scene.world)
    monkeypatch.setattr(scene.world, "reset", lambda: "0" * 64)
    with pytest.raises(HarnessFault, match="initial state"):
        cache.fresh_or_reused("c" * 64, lambda: scene.world)


def test_the_least_recently_used_world_leaves_first(make_scene):
    worlds = {key: make_scene().world for key in "xyz"}
    built = []

    def build(key):
        def make():
            built.append(key)
            return worlds[key]

        return make

    cache = WorldCache(capacity=2)
    for key in ("x", "y", "x", "z", "x", "y"):
        cache.fresh_or_reused(key, build(key))
    assert built == ["x", "y", "z", "y"]
    assert len(cache) == 2


def test_a_cache_without_room_is_refused():
    with pytest.raises(HarnessFault, match="at least 1"):
        WorldCache(capacity=0)
