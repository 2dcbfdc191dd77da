"""Every representation of a rotation, by golden numbers, against another implementation, and round trips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from trialplate.policies.adapters import rotations

HALF = np.sqrt(0.5)
ABOUT_Z = np.array([HALF, 0.0, 0.0, HALF])
ABOUT_X = np.array([HALF, HALF, 0.0, 0.0])
unit = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1)


def _unit(values: list[float]) -> np.ndarray:
    return np.array(values) / np.linalg.norm(values)


def _scipy(wxyz: np.ndarray) -> Rotation:
    return Rotation.from_quat(np.roll(wxyz, -1))


def test_the_same_four_numbers_are_another_rotation_under_the_other_order() -> None:
    state = np.array([0.7071, 0.0, 0.0, 0.7071])
    as_wxyz = rotations.convert(state, "quat_wxyz", to="axis_angle_pi")
    as_xyzw = rotations.convert(state, "quat_xyzw", to="axis_angle_pi")
    np.testing.assert_allclose(as_wxyz, [0, 0, np.pi / 2], atol=1e-12)
    np.testing.assert_allclose(as_xyzw, [np.pi / 2, 0, 0], atol=1e-12)


def test_the_golden_quaternion_gives_both_axis_angles() -> None:
    golden = np.array([-0.5, 0.8660254, 0.0, 0.0])
    np.testing.assert_allclose(
        rotations.convert(golden, "quat_wxyz", to="axis_angle_2pi"), [4.18879, 0, 0], atol=1e-5
    )
    np.testing.assert_allclose(
        rotations.convert(golden, "quat_wxyz", to="axis_angle_pi"), [-2.094395, 0, 0], atol=1e-6
    )


def test_a_quarter_turn_about_z_tells_the_rot6d_layouts_apart_and_one_about_x_does_not() -> None:
    columns = rotations.convert(ABOUT_Z, "quat_wxyz", to="rot6d_columns")
    interleaved = rotations.convert(ABOUT_Z, "quat_wxyz", to="rot6d_interleaved")
    np.testing.assert_allclose(columns, [0, 1, 0, -1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(interleaved, [0, -1, 1, 0, 0, 0], atol=1e-12)
    for layout in ("rot6d_columns", "rot6d_interleaved"):
        np.testing.assert_allclose(rotations.convert(ABOUT_X, "quat_wxyz", to=layout), [1, 0, 0, 0, 0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("rot6d_columns", [1e200, 0, 0, 0, 1, 0]),
        ("rot6d_columns", [1, 0, 0, 1e200, 1e200, 0]),
        ("rot6d_interleaved", [0, 0, 0, 0, 0, -1e308]),
        ("axis_angle_pi", [1e200, 0, 0]),
        ("quat_wxyz", [1e200, 0, 0, 0]),
        ("quat_xyzw", [0, 0, 0, np.nan]),
        ("euler_xyz_intrinsic", [np.inf, 0, 0]),
    ],
)
def test_numbers_whose_length_no_number_can_hold_are_no_rotation(source: str, values: list[float]) -> None:
    with pytest.raises(ValueError, match="expected finite numbers below"):
        rotations.to_quaternion(np.array(values), source)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_reordering_keeps_every_number_and_the_sign_as_given(sign: float) -> None:
    wxyz = sign * np.array([-0.1, 0.0, 0.0, 0.995])
    xyzw = rotations.convert(wxyz, "quat_wxyz", to="quat_xyzw")
    assert xyzw.tolist() == [wxyz[1], wxyz[2], wxyz[3], wxyz[0]]
    assert rotations.convert(xyzw, "quat_xyzw", to="quat_wxyz").tolist() == wxyz.tolist()


def test_the_two_signs_of_a_quaternion_are_one_rotation_and_two_axis_angles_up_to_two_pi() -> None:
    quaternion = _unit([-0.1, 0.0, 0.0, 0.995])
    assert float(rotations.angle_between_rad(quaternion, -quaternion)) < 1e-12
    one, other = (rotations.convert(q, "quat_wxyz", to="axis_angle_2pi") for q in (quaternion, -quaternion))
    assert np.linalg.norm(one) > np.pi > np.linalg.norm(other)
    np.testing.assert_allclose(
        rotations.convert(quaternion, "quat_wxyz", to="axis_angle_pi"),
        rotations.convert(-quaternion, "quat_wxyz", to="axis_angle_pi"),
    )


@given(unit)
def test_all_representations_agree_with_an_independent_implementation(values: list[float]) -> None:
    wxyz = _unit(values)
    oracle = _scipy(wxyz)
    np.testing.assert_allclose(rotations.matrix(wxyz), oracle.as_matrix(), atol=1e-12)
    written = {name: rotations.from_quaternion(wxyz, name) for name in rotations.DIMS}
    readings = {
        "axis_angle_pi": Rotation.from_rotvec(written["axis_angle_pi"]),
        "axis_angle_2pi": Rotation.from_rotvec(written["axis_angle_2pi"]),
        "euler_xyz_intrinsic": Rotation.from_euler("XYZ", written["euler_xyz_intrinsic"]),
        "euler_xyz_extrinsic": Rotation.from_euler("xyz", written["euler_xyz_extrinsic"]),
        "quat_xyzw": Rotation.from_quat(written["quat_xyzw"]),
    }
    for name, reading in readings.items():
        assert (reading.inv() * oracle).magnitude() < 1e-7, name
    matrix = oracle.as_matrix()
    np.testing.assert_allclose(written["rot6d_columns"], matrix[:, :2].T.ravel(), atol=1e-12)
    np.testing.assert_allclose(written["rot6d_interleaved"], matrix[:, :2].ravel(), atol=1e-12)


@given(unit, st.sampled_from(sorted(rotations.DIMS)), st.sampled_from(sorted(rotations.DIMS)))
def test_there_and_back_is_the_same_rotation(values: list[float], source: str, to: str) -> None:
    given_numbers = rotations.from_quaternion(_unit(values), source)
    there = rotations.convert(given_numbers, source, to=to)
    back = rotations.convert(there, to, to=source)
    assert there.shape == (rotations.DIMS[to],)
    turned = rotations.angle_between_rad(
        rotations.to_quaternion(given_numbers, source), rotations.to_quaternion(back, source)
    )
    assert float(turned) < 1e-6


@given(unit)
def test_an_axis_angle_up_to_two_pi_brings_the_sign_of_the_quaternion_back(values: list[float]) -> None:
    wxyz = _unit(values)
    back = rotations.to_quaternion(rotations.from_quaternion(wxyz, "axis_angle_2pi"), "axis_angle_2pi")
    if np.linalg.norm(wxyz[1:]) > 1e-6:  # a whole turn has no axis left to tell
        np.testing.assert_allclose(back, wxyz, atol=1e-9)


@pytest.mark.parametrize("middle_rad", [np.pi / 2, -np.pi / 2])
@pytest.mark.parametrize("order", ["euler_xyz_intrinsic", "euler_xyz_extrinsic"])
def test_where_two_axes_of_euler_angles_fall_together_the_rotation_is_still_told(
    order: str, middle_rad: float
) -> None:
    locked = rotations.to_quaternion(np.array([0.3, middle_rad, -0.4]), order)
    told = rotations.from_quaternion(locked, order)
    assert told[2] == 0.0
    assert float(rotations.angle_between_rad(rotations.to_quaternion(told, order), locked)) < 1e-7


def test_a_whole_batch_is_converted_row_by_row() -> None:
    batch = np.stack([ABOUT_X, ABOUT_Z, -ABOUT_Z]).reshape(3, 1, 4)
    for name, dim in rotations.DIMS.items():
        converted = rotations.convert(batch, "quat_wxyz", to=name)
        assert converted.shape == (3, 1, dim)
        for row, single in zip(converted, batch, strict=True):
            np.testing.assert_array_equal(row[0], rotations.convert(single[0], "quat_wxyz", to=name))


@pytest.mark.parametrize(
    ("values", "source", "said"),
    [
        ([0.9, 0.0, 0.0, 0.0], "quat_wxyz", "unit quaternion"),
        ([0.0, 0.0, 0.0, 0.0], "quat_xyzw", "unit quaternion"),
        ([4.2, 0.0, 0.0], "axis_angle_pi", "at most 3.14159"),
        ([6.3, 0.0, 0.0], "axis_angle_2pi", "at most 6.28319"),
        ([0.0, 0.0, 0.0, 1.0, 0.0, 0.0], "rot6d_columns", "first column"),
        ([1.0, 0.0, 0.0, 2.0, 0.0, 0.0], "rot6d_columns", "parallel"),
        ([1.0, 2.0, 0.0, 0.0, 0.0, 0.0], "rot6d_interleaved", "parallel"),
        ([np.nan, 0.0, 0.0], "axis_angle_pi", "finite"),
        ([1.0, 0.0, 0.0], "quat_wxyz", "expected 4 numbers"),
        ([1.0, 0.0, 0.0], "rotvec", "unknown rotation"),
    ],
)
def test_numbers_that_are_no_such_rotation_are_refused_and_not_repaired(
    values: list[float], source: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        rotations.convert(np.array(values), source, to="rot6d_columns" if "rot6d" not in source else "quat_wxyz")


def test_only_a_pair_of_orders_is_reordered() -> None:
    with pytest.raises(ValueError, match="expected quat_wxyz to quat_xyzw or back"):
        rotations.reorder_quaternion(ABOUT_Z, "quat_wxyz", to="axis_angle_pi")
    with pytest.raises(ValueError, match="expected rot6d_columns"):
        rotations.relayout_rot6d(np.zeros(6), "rot6d_columns", to="rot6d_columns")
