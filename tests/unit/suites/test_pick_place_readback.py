"""The applied scene is read from the simulator, and one binary32 ulp of difference is found."""

import copy

import numpy as np
import pytest

from trialplate.canonical import canonical_json, document_sha256, parse_strict
from trialplate.errors import CanonicalError, SceneMismatch
from trialplate.interfaces import Scenario
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.expected_scene import expected_scene, verify_scene
from trialplate.suites.pick_place.scene_spec import walk
from trialplate.suites.pick_place.world import readback


def test_every_scenario_is_applied_as_promised(world):
    for scenario in SUITE.scenarios():
        evidence = world.reset(scenario, seed=0)
        assert verify_scene(scenario.document(), evidence.applied_scene) == []
        assert evidence.applied_scene == expected_scene(scenario.parameters)
        assert evidence.applied_scene_sha256 == document_sha256(dict(evidence.applied_scene))


def test_a_readback_that_went_through_a_file_still_verifies(world):
    scenario = SUITE.scenarios()[0]
    stored = parse_strict(canonical_json(dict(world.reset(scenario, seed=0).applied_scene)))
    assert verify_scene(parse_strict(canonical_json(scenario.document())), stored) == []


def _numbers(document):
    return [pointer for pointer, _ in walk(document, "")]


def _nudge(document, pointer):
    *parents, last = [int(part) if part.isdigit() else part for part in pointer.split("/")[1:]]
    place = document
    for part in parents:
        place = place[part]
    value = place[last]
    if isinstance(value, int):
        place[last] = value + 1
    elif "orientation" in pointer:
        place[last] = float(np.nextafter(value, 2.0))
    else:
        place[last] = float(np.nextafter(np.float32(value), np.float32(np.inf)))


@pytest.mark.parametrize("name", ["pp-001", "pp-030", "pp-040", "pp-044", "pp-056"])
def test_one_ulp_anywhere_in_a_readback_is_found_and_named(name):
    scenario = next(scenario for scenario in SUITE.scenarios() if scenario.id == name)
    honest = expected_scene(scenario.parameters)
    pointers = _numbers(honest)
    assert len(pointers) > 100
    for pointer in pointers:
        forged = copy.deepcopy(honest)
        _nudge(forged, pointer)
        assert [found for found, _, _ in verify_scene(scenario.document(), forged)] == [pointer]


@pytest.mark.parametrize(
    ("pointer", "change"),
    [
        ("/goal", lambda scene: scene.pop("goal")),
        ("/extra", lambda scene: scene.__setitem__("extra", 1)),
        ("/obstacles", lambda scene: scene["obstacles"].append({})),
        ("/goal/collides", lambda scene: scene["goal"].__setitem__("collides", 0)),
        ("/block/mass_kg", lambda scene: scene["block"].__setitem__("mass_kg", None)),
        ("/block/pos_m/1", lambda scene: scene["block"]["pos_m"].__setitem__(1, "0")),
        ("/bodies/0", lambda scene: scene["bodies"].__setitem__(0, "ground")),
    ],
)
def test_a_readback_of_another_structure_or_type_is_found(pointer, change):
    scenario = SUITE.scenarios()[0]
    forged = expected_scene(scenario.parameters)
    change(forged)
    assert pointer in [found for found, _, _ in verify_scene(scenario.document(), forged)]


def test_a_world_that_differs_from_its_scenario_is_a_scene_mismatch(world):
    scenario = SUITE.scenarios()[0]
    world.reset(scenario, seed=0)
    model, data = world.world.model, world.world.data
    body = model.body("block").id
    kept = float(model.body_mass[body])
    model.body_mass[body] = float(np.nextafter(np.float32(kept), np.float32(1.0)))
    robot = world.robot
    applied = readback.read_applied_scene(model, data, robot=robot, schema="1.1.0")
    model.body_mass[body] = kept
    with pytest.raises(SceneMismatch, match=r"pp-001.*/block/mass_kg: expected 0\.1000000014"):
        readback.check_applied_scene(scenario, applied, expected=expected_scene(scenario.parameters))


def test_a_swapped_scenario_is_a_scene_mismatch(world):
    first, second = SUITE.scenarios()[:2]
    applied = dict(world.reset(first, seed=0).applied_scene)
    with pytest.raises(SceneMismatch, match="pp-002"):
        readback.check_applied_scene(second, applied, expected=expected_scene(second.parameters))


def test_a_number_that_is_not_finite_cannot_be_read_back(world):
    world.reset(SUITE.scenarios()[0], seed=0)
    model, data = world.world.model, world.world.data
    geom = model.geom("block").id
    kept = model.geom_rgba[geom].copy()
    model.geom_rgba[geom, 0] = np.nan
    with pytest.raises(CanonicalError, match="non_finite"):
        readback.read_applied_scene(model, data, robot=world.robot, schema="1.1.0")
    model.geom_rgba[geom] = kept


def test_what_is_applied_comes_from_the_model_and_not_from_the_request(world):
    scenario = SUITE.scenarios()[0]
    world.reset(scenario, seed=0)
    model = world.world.model
    model.light_diffuse[0] *= 0.5
    applied = readback.read_applied_scene(model, world.world.data, robot=world.robot, schema="1.1.0")
    model.light_diffuse[0] *= 2.0
    assert [pointer for pointer, _, _ in verify_scene(scenario.document(), applied)] == [
        f"/lights/0/diffuse/{n}" for n in range(3)
    ]


def test_the_same_scene_under_two_ids_reads_back_the_same(world):
    scenario = SUITE.scenarios()[0]
    other = Scenario("pp-002", "pp-002", scenario.domain, scenario.variant, scenario.parameters)
    assert world.reset(scenario, seed=0) == world.reset(other, seed=0)
