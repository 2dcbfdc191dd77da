import numpy as np
import pytest

from trialplate.errors import HarnessFault
from trialplate.worlds.attachment import GraspAttachment


def _grasp(scene, *, edge_m, block_xy_m=(0.5, 0.1)):
    scene.move_to((*block_xy_m, 0.15), gripper="open")
    scene.move_to((*block_xy_m, edge_m / 2 + 0.004), gripper="open")
    scene.wait(4, gripper="open")
    scene.wait(8, gripper="close")


@pytest.mark.parametrize(("mass_kg", "edge_m"), [(0.1, 0.04), (0.02, 0.02), (2.0, 0.05)])
def test_a_block_is_lifted_carried_and_put_down(make_scene, mass_kg, edge_m):
    scene = make_scene(mass_kg=mass_kg, edge_m=edge_m)
    _grasp(scene, edge_m=edge_m)
    assert [change for _, change in scene.changes] == ["attached"]
    scene.move_to((0.5, 0.1, 0.2), gripper="close")
    scene.move_to((0.55, -0.2, 0.2), gripper="close", pace_m=0.05)
    scene.wait(5, gripper="close")
    assert np.abs(scene.ee_m - scene.controller.commanded_pose.position_m).max() < 1.2e-3
    assert scene.block_m[2] > 0.18
    scene.move_to((0.55, -0.2, edge_m / 2 + 0.005), gripper="close")
    scene.wait(3, gripper="close")
    scene.wait(6, gripper="open")
    assert [change for _, change in scene.changes] == ["attached", "released"]
    assert np.abs(scene.block_m - [0.55, -0.2, edge_m / 2]).max() < 2e-3
    assert np.abs(scene.world.data.joint("block").qvel).max() < 1e-3


def test_the_object_does_not_jump_when_the_weld_becomes_active(make_scene):
    scene = make_scene(mass_kg=2.0, edge_m=0.05, block_xy_m=(0.5, 0.104))
    scene.move_to((0.5, 0.1, 0.15), gripper="open")
    scene.move_to((0.5, 0.1, 0.03), gripper="open")
    scene.wait(4, gripper="open")
    before = scene.block_m.copy()
    while not scene.changes:
        before = scene.block_m.copy()
        scene.act((0, 0, 0), gripper="close")
        assert scene.world.control_step < 100
    scene.act((0, 0, 0), gripper="close")
    assert np.abs(scene.block_m - before).max() < 5e-3  # the pads centre the block before they hold it
    held = scene.block_m.copy()
    scene.wait(10, gripper="close")
    assert np.abs(scene.block_m - held).max() < 5e-4


def test_activation_itself_moves_the_object_by_less_than_half_a_millimetre(scene):
    _grasp(scene, edge_m=0.04)
    scene.move_to((0.5, 0.1, 0.2), gripper="close")
    scene.wait(4, gripper="close")
    data, attachment = scene.world.data, scene.attachment
    for _ in range(3):  # switch off and on in the air, with the block turned in the hand's frame
        data.eq_active[attachment._weld] = 0
        before = scene.block_m.copy()
        assert attachment.update(scene.world.model, data, command="close") == "attached"
        scene.wait(3, gripper="close")
        assert np.abs(scene.block_m - before).max() < 5e-4


def test_a_hand_that_closes_in_the_air_attaches_nothing(scene):
    scene.wait(10, gripper="close")
    assert scene.changes == []
    assert not scene.attachment.is_active(scene.world.data)


def test_closed_fingers_resting_on_top_of_the_block_do_not_grasp_it(scene):
    scene.move_to((0.5, 0.1, 0.15), gripper="close")
    scene.move_to((0.5, 0.1, 0.042), gripper="close", pace_m=0.005)
    scene.wait(10, gripper="close")
    touching = scene.world.data.contact.geom
    pad = scene.world.model.geom(scene.names.pads[0]).id
    block = scene.world.model.geom("block").id
    assert any(set(pair) == {pad, block} for pair in touching.tolist())
    assert scene.changes == []


def test_an_open_command_around_the_block_attaches_nothing(scene):
    scene.move_to((0.5, 0.1, 0.15), gripper="open")
    scene.move_to((0.5, 0.1, 0.024), gripper="open")
    scene.wait(10, gripper="open")
    assert scene.changes == []


def test_reset_puts_the_models_weld_pose_back(scene):
    pristine = scene.world.model.eq_data.copy()
    _grasp(scene, edge_m=0.04)
    assert not np.array_equal(scene.world.model.eq_data, pristine)
    scene.reset()
    assert np.array_equal(scene.world.model.eq_data, pristine)
    assert not scene.attachment.is_active(scene.world.data)


def test_a_scene_without_the_weld_is_refused(scene):
    with pytest.raises(HarnessFault, match="add_attachment"):
        GraspAttachment(scene.world.model, name="no_such_weld", pads=scene.names.pads)
