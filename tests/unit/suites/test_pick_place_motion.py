"""Motion and sight of the scripted arms: pure numbers against geometry that is known."""

import math

import numpy as np
import pytest

from trialplate.suites.pick_place import geometry
from trialplate.suites.pick_place.draw import Draw
from trialplate.suites.pick_place.motion import TOP_SPEED_M, quarter_turn_rad, straight, yaw_rad
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.sight import Eye, carried_eye, find, on_plane

SCALE = suite_settings().action
TABLE_RGB = (150, 137, 118)
FIXED_DRAWS = [0.544409749, 0.868092693, 0.518057284]


def test_a_straight_line_adds_up_to_the_offset_and_keeps_its_direction_and_speed():
    offset = np.array([0.3, -0.2, 0.1])
    rows = straight(offset, gripper=-1.0, scale=SCALE, rows=200)
    steps = rows[:, :3] * SCALE.translation_m
    assert steps.sum(axis=0) == pytest.approx(offset, abs=1e-3)
    speeds = np.linalg.norm(steps, axis=1)
    assert speeds.max() <= TOP_SPEED_M + 1e-12 and np.diff(speeds).max() <= 0.008 + 1e-12
    assert np.abs(rows).max() <= 1.0
    assert (rows[:, 6] == -1.0).all()


def test_a_line_that_is_already_there_has_no_rows():
    assert straight(np.zeros(3), gripper=1.0, scale=SCALE, rows=8).shape == (0, 7)


def test_a_turn_adds_up_to_the_angle():
    rows = straight(np.zeros(3), gripper=1.0, scale=SCALE, rows=50, turn_rad=-0.4)
    assert rows[:, 5].sum() * SCALE.rotation_rad == pytest.approx(-0.4, abs=0.005)


def test_a_square_is_the_same_after_a_quarter_turn():
    assert quarter_turn_rad(math.radians(80)) == pytest.approx(math.radians(-10))
    assert quarter_turn_rad(math.radians(-170)) == pytest.approx(math.radians(10))


def test_the_yaw_of_a_turned_frame_is_its_turn():
    assert yaw_rad(geometry.about_z(0.7)) == pytest.approx(0.7)


def test_the_quaternion_of_axes_turns_the_axes_into_place():
    for quat in (geometry.from_axis_angle((1, 2, 3), angle) for angle in (0.3, 1.7, 2.9, 3.1)):
        x, y, z = (geometry.rotate(quat, axis) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
        again = geometry.from_axes(x, y, z=z)
        assert abs(sum(a * b for a, b in zip(quat, again, strict=True))) == pytest.approx(1.0)


def test_a_lamp_turned_by_its_quaternion_shines_where_it_is_aimed():
    aim = geometry.unit((0.3, -0.5, -1.1))
    assert geometry.rotate(geometry.shining(aim), (0.0, 0.0, -1.0)) == pytest.approx(aim)


def test_streams_of_random_numbers_are_portable_and_independent():
    draw = Draw("fixed")
    assert [draw.uniform(0.0, 1.0, digits=9) for _ in range(3)] == FIXED_DRAWS
    assert Draw("other").unit() != Draw("fixed").unit()
    assert {Draw("dice").integer(1, 3)} | {draw.integer(1, 3) for _ in range(60)} == {1, 2, 3}


def test_the_ray_of_a_projected_point_comes_back_to_it():
    eye = Eye((1.2, 0.4, 0.7), geometry.looking((1.2, 0.4, 0.7), (0.4, 0.0, 0.15)), 50.0)
    point = np.array([0.5, -0.1, 0.02])
    axes = [np.array(geometry.rotate(eye.quat_wxyz, axis)) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
    x, y, z = (axis @ (point - eye.pos_m) for axis in axes)
    focal = 128 / math.tan(math.radians(25.0))
    pixel = (128 - focal * x / z - 0.5, 128 + focal * y / z - 0.5)
    assert on_plane(eye, pixel, size_px=(256, 256), height_m=0.02) == pytest.approx(tuple(point))


def test_a_ray_above_the_horizon_meets_no_table():
    eye = Eye((0.0, 0.0, 0.5), geometry.looking((0.0, 0.0, 0.5), (1.0, 0.0, 0.5)), 50.0)
    assert on_plane(eye, (128.0, 10.0), size_px=(256, 256), height_m=0.0) is None


def test_an_eye_on_a_hand_moves_and_turns_with_it():
    mount = Eye((0.05, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), 75.0)
    eye = carried_eye((0.5, 0.0, 0.3), geometry.about_z(math.pi / 2), mount=mount)
    assert eye.pos_m == pytest.approx((0.5, 0.05, 0.3))
    assert eye.quat_wxyz == pytest.approx(geometry.about_z(math.pi / 2))


def _picture(rgb, rows=slice(100, 110), columns=slice(50, 70)):
    picture = np.full((256, 256, 3), TABLE_RGB, dtype=np.uint8)
    picture[rows, columns] = rgb
    return picture


@pytest.mark.parametrize("rgb", [(220, 25, 20), (120, 30, 10), (15, 2, 2), (200, 110, 95)])
def test_a_bright_a_dark_and_a_pale_red_patch_are_found_where_they_are(rgb):
    blob = find(_picture(rgb), "red")
    assert blob is not None
    assert (blob.column_px, blob.row_px) == (59.5, 104.5)
    assert (blob.width_px, blob.height_px, blob.cut) == (20.0, 10.0, False)


@pytest.mark.parametrize("rgb", [TABLE_RGB, (40, 60, 220), (230, 200, 30), (30, 160, 45)])
def test_the_table_and_other_colours_are_no_red(rgb):
    assert find(_picture(rgb), "red") is None


def test_a_patch_at_the_border_is_marked_as_cut():
    blob = find(_picture((220, 25, 20), rows=slice(0, 10)), "red")
    assert blob is not None and blob.cut


def test_green_is_found_as_green():
    assert find(_picture((30, 160, 45)), "green") is not None
    assert find(_picture((220, 25, 20)), "green") is None
