"""Every label of a variant is applied: read back from the compiled model, rendered, or felt by the block."""

import colorsys
import copy
import math

import numpy as np
import pytest

from trialplate.canonical import binary32
from trialplate.interfaces import Scenario
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.placing import CENTRE_M, WORK_X_M, WORK_Y_M
from trialplate.suites.pick_place.staging import LAMPS, PRIMARY_EYE_M, PRIMARY_TARGET_M

OPEN_STILL = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])


def _changed(scenario: Scenario, change) -> Scenario:
    parameters = copy.deepcopy(dict(scenario.parameters))
    change(parameters)
    return Scenario(scenario.id, scenario.family, scenario.domain, scenario.variant, parameters)


def _applied(world, scenario):
    return world.reset(scenario, seed=0).applied_scene


def _picture(world, scenario, camera="primary"):
    world.reset(scenario, seed=0)
    return world.sense((camera,), proprio=()).images[camera].astype(int)


def _pixels(world, camera, geom):
    return world.geom_ids(camera) == world.world.model.geom(geom).id


def _edge_m(scene):
    return 2 * scene["block"]["half_size_m"][0]


def test_standard_objects_differ_in_size_by_at_most_a_tenth(world, of_variant):
    edges = [_edge_m(_applied(world, scenario)) for scenario in of_variant("standard_objects")]
    assert all(0.036 - 1e-6 <= edge <= 0.044 + 1e-6 for edge in edges)
    assert len(set(edges)) == 7
    assert {_applied(world, s)["block"]["mass_kg"] for s in of_variant("standard_objects")} == {binary32(0.1)}


def test_standard_lighting_differs_in_intensity_by_at_most_a_tenth(world, of_variant):
    for scenario in of_variant("standard_lighting"):
        lights = _applied(world, scenario)["lights"]
        assert len({light["intensity"] for light in lights} | {1.0}) > 1
        for light, lamp in zip(lights, LAMPS, strict=True):
            assert 0.9 <= light["intensity"] <= 1.1 + 1e-6
            assert light["diffuse"][0] == pytest.approx(lamp.diffuse * light["intensity"], abs=1e-6)


def test_centred_blocks_start_near_the_middle(world, of_variant):
    for scenario in of_variant("centered_placement"):
        assert math.dist(_applied(world, scenario)["block"]["pos_m"][:2], CENTRE_M) <= 0.03


@pytest.mark.gl
def test_a_small_block_is_small_light_and_covers_fewer_pixels(world, of_variant):
    small, nominal = of_variant("small_objects")[0], of_variant("centered_placement")[0]
    for scenario in of_variant("small_objects"):
        scene = _applied(world, scenario)
        assert _edge_m(scene) == pytest.approx(0.02) and scene["block"]["mass_kg"] == binary32(0.02)
    counts = []
    for scenario in (small, nominal):
        world.reset(scenario, seed=0)
        counts.append(int(_pixels(world, "wrist", "block").sum()))
    assert 0 < counts[0] < 0.5 * counts[1]


def test_a_heavy_block_weighs_twenty_times_the_nominal_one_and_feels_it(world, of_variant, read):
    for scenario in of_variant("heavy_objects"):
        scene = _applied(world, scenario)
        assert scene["block"]["mass_kg"] == 2.0 and _edge_m(scene) == pytest.approx(0.05)
    push = {"start_step": 1, "duration_steps": 6, "force_n": [0.5, 0.0, 0.0]}
    travelled = []
    for variant in ("heavy_objects", "centered_placement"):
        pushed = _changed(of_variant(variant)[0], lambda p: p["disturbances"].append(push))
        travelled.append(_travel_m(world, pushed, read, steps=20))
    assert travelled[0] < 0.001 < travelled[1]


def _travel_m(world, scenario, read, *, steps):
    world.reset(scenario, seed=0)
    start = read("object_pos_m")
    for _ in range(steps):
        world.step(OPEN_STILL)
    return float(np.hypot(*(read("object_pos_m") - start)[:2]))


def test_edge_placements_start_farther_out_than_every_nominal_block(world, of_variant):
    def outward(scenario):
        return math.dist(_applied(world, scenario)["block"]["pos_m"][:2], CENTRE_M)

    nominal = [outward(scenario) for scenario in SUITE.scenarios() if scenario.domain == "nominal"]
    assert min(outward(scenario) for scenario in of_variant("edge_placement")) > max(nominal)


@pytest.mark.gl
def test_an_occluder_hides_every_pixel_of_the_block_from_the_primary_camera_only(world, of_variant):
    for scenario in of_variant("occluded_objects"):
        world.reset(_changed(scenario, lambda p: p.__setitem__("occluder", None)), seed=0)
        assert _pixels(world, "primary", "block").sum() > 50
        world.reset(scenario, seed=0)
        assert _pixels(world, "primary", "block").sum() == 0
        assert _pixels(world, "primary", "occluder").sum() > 50
        assert _pixels(world, "wrist", "block").sum() > 50


@pytest.mark.gl
def test_a_transparent_block_blends_with_the_table(world, of_variant):
    for scenario in of_variant("transparent_objects"):
        assert _applied(world, scenario)["block"]["rgba"][3] == 0.25
        opaque = _picture(world, _changed(scenario, lambda p: p["block"]["rgba"].__setitem__(3, 1.0)))
        block = _pixels(world, "primary", "block")
        clear = _picture(world, scenario)
        bare = _picture(world, _changed(scenario, lambda p: p["block"]["rgba"].__setitem__(3, 0.0)))
        share = np.abs(clear[block] - bare[block]).sum() / np.abs(opaque[block] - bare[block]).sum()
        assert 0.2 < share < 0.5  # one or two faces of alpha 0.25 lie over the table


@pytest.mark.gl
def test_a_dark_scene_renders_darker_and_still_not_blank(world, of_variant):
    nominal = _picture(world, of_variant("centered_placement")[0]).mean()
    for scenario in of_variant("low_lighting"):
        lights = _applied(world, scenario)["lights"]
        assert {light["intensity"] for light in lights} == {binary32(0.08)}
        picture = _picture(world, scenario)
        assert 0.0 < picture.mean() < 0.15 * nominal
        assert len(np.unique(picture)) > 5


@pytest.mark.gl
def test_obstacles_collide_and_are_seen(world, of_variant):
    for scenario, count in zip(of_variant("cluttered_scene"), (3, 5, 6), strict=True):
        scene = _applied(world, scenario)
        assert len(scene["obstacles"]) == count
        assert all(obstacle["collides"] for obstacle in scene["obstacles"])
        for n in range(count):
            assert _pixels(world, "primary", f"obstacle_{n}").sum() > 10


def test_on_a_slippery_surface_a_push_moves_what_it_does_not_move_elsewhere(world, of_variant, read):
    push = {"start_step": 1, "duration_steps": 6, "force_n": [0.25, 0.0, 0.0]}
    for scenario in of_variant("slippery_surface"):
        scene = _applied(world, scenario)
        assert scene["table"]["friction"][0] == scene["block"]["friction"][0] == binary32(0.1)
        assert _travel_m(world, _changed(scenario, lambda p: p["disturbances"].append(push)), read, steps=20) > 0.03
    nominal = _changed(of_variant("centered_placement")[0], lambda p: p["disturbances"].append(push))
    assert _travel_m(world, nominal, read, steps=20) < 0.002


def test_a_disturbance_pushes_the_block_at_its_locked_steps_and_stays_bounded(world, of_variant, read):
    for scenario in of_variant("moving_disturbance"):
        pushes = _applied(world, scenario)["disturbances"]
        locked = {p["start_step"] + n: p["force_n"] for p in pushes for n in range(p["duration_steps"])}
        start = read("object_pos_m")
        for step in range(1, 41):
            world.step(OPEN_STILL)
            force_n = read("push_n")
            assert force_n.tolist() == locked.get(step, [0.0, 0.0, 0.0])
            assert np.linalg.norm(force_n) <= 0.5
        moved_m = np.hypot(*(read("object_pos_m") - start)[:2])
        assert 0.005 < moved_m < 0.2
        assert read("object_speed_m_s")[0] < 1e-3
        assert read("goal_offset_m")[0] > 0.05
        assert [event.step for event in world.drain_events()] == [push["start_step"] for push in pushes]
    assert _travel_m(world, of_variant("centered_placement")[0], read, steps=40) < 1e-5


@pytest.mark.gl
def test_drawn_lights_differ_in_place_colour_and_intensity(world, of_variant):
    brightness = []
    for scenario in of_variant("lighting"):
        for light, lamp in zip(_applied(world, scenario)["lights"], LAMPS, strict=True):
            assert 0.3 <= light["intensity"] <= 1.5
            assert light["pos_m"] != [binary32(value) for value in lamp.pos_m]
            assert len(set(light["diffuse"])) > 1
        brightness.append(_picture(world, scenario).mean())
    assert max(brightness) > 1.3 * min(brightness)


@pytest.mark.gl
def test_drawn_colours_stay_red_and_distractors_are_of_another_colour(world, of_variant):
    for scenario in of_variant("object_colour"):
        scene = _applied(world, scenario)
        assert abs(_hue_deg(scene["block"]["rgba"])) <= 15.1
        assert len(scene["distractors"]) in (2, 3)
        for n, thing in enumerate(scene["distractors"]):
            assert min(abs(_hue_deg(thing["rgba"])), abs(_hue_deg(thing["rgba"]) - 120)) > 30
            assert _pixels(world, "primary", f"distractor_{n}").sum() > 10


def _hue_deg(rgba):
    hue = 360 * colorsys.rgb_to_hsv(*rgba[:3])[0]
    return hue - 360 if hue > 180 else hue


def test_drawn_positions_cover_the_work_area_and_turn_the_block(world, of_variant):
    scenes = [_applied(world, scenario) for scenario in of_variant("position")]
    places = np.array([scene[thing]["pos_m"][:2] for scene in scenes for thing in ("block", "goal")])
    assert (places[:, 0] >= WORK_X_M[0]).all() and (places[:, 0] <= WORK_X_M[1]).all()
    assert (np.abs(places[:, 1]) <= WORK_Y_M[1]).all()
    assert np.ptp(places[:, 0]) > 0.2 and np.ptp(places[:, 1]) > 0.35
    assert all(scene["block"]["quat_wxyz"][3] != 0.0 for scene in scenes)


@pytest.mark.gl
def test_a_moved_camera_sees_the_same_scene_from_elsewhere(world, of_variant):
    nominal = _applied(world, of_variant("centered_placement")[0])["cameras"]["primary"]
    for scenario in of_variant("camera"):
        camera = _applied(world, scenario)["cameras"]["primary"]
        assert 0.0 < np.abs(np.subtract(camera["pos_m"], PRIMARY_EYE_M)).max() <= 0.03 + 1e-6
        turned_deg = 2 * np.degrees(np.arccos(min(1.0, abs(np.dot(camera["quat_wxyz"], nominal["quat_wxyz"])))))
        assert 0.1 < turned_deg <= 3.01
        here = _centre_px(_pixels(world, "primary", "goal"))
        back = _changed(scenario, lambda p: p["cameras"].__setitem__("primary", _nominal_primary()))
        world.reset(back, seed=0)
        assert math.dist(here, _centre_px(_pixels(world, "primary", "goal"))) > 1.0


def _nominal_primary():
    return copy.deepcopy(dict(SUITE.scenarios()[0].parameters["cameras"]["primary"]))


def _centre_px(mask):
    rows, columns = np.nonzero(mask)
    return (float(rows.mean()), float(columns.mean()))


@pytest.mark.gl
def test_the_nominal_primary_camera_looks_at_its_documented_target(world):
    world.reset(SUITE.scenarios()[0], seed=0)
    rotation = world.world.data.camera("primary").xmat.reshape(3, 3)
    towards = np.subtract(PRIMARY_TARGET_M, PRIMARY_EYE_M)
    assert -rotation[:, 2] @ (towards / np.linalg.norm(towards)) == pytest.approx(1.0, abs=1e-6)
    assert rotation[2, 1] > 0.5  # upright
