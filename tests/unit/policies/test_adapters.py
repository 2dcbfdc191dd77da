"""The adapters of a protocol: what each makes of specs and numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import LockError, PolicyFault, SensorInvalid
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.adapters.links import link_actions, link_observation
from trialplate.policies.adapters.pictures import RESIZE_METHODS, resize
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    ObservationSpec,
    ProprioSpec,
    Rotation,
)
from trialplate.spec.protocol import AdapterChoice
from trialplate.suites.pick_place.channels import standard_profile
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras

OBSERVATION = ObservationSpec(cameras=cameras(), proprio=PROPRIO)
PICTURES = {
    name: np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for seed, name in enumerate(("front", "wrist"))
}
NUMBERS = {
    "ee_pos": np.array([0.1, 0.2, 0.3]),
    "ee_quat": np.array([0.7071, 0.0, 0.0, 0.7071]),
    "gripper": np.array([0.25]),
}
FLIP = {"from_closed": 0.0, "from_open": 1.0, "to_closed": 1.0, "to_open": -1.0}


def adapter(name: str, target: str, **params: Any) -> AdapterChoice:
    renamed = {key.rstrip("_"): value for key, value in params.items()}
    return AdapterChoice(name=name, target=target, params=renamed)


def chain(*choices: AdapterChoice, action: ActionSpec = ACTION) -> AdapterChain:
    return AdapterChain(choices, OBSERVATION, action)


def row(*, position: float = 0.0, rotation: float = 0.0, gripper: float = 0.0) -> np.ndarray:
    return np.array([[position] * 3 + [rotation] * 3 + [gripper]])


def faults(*choices: AdapterChoice) -> list[tuple[int, str]]:
    return sorted(link_observation(choices, OBSERVATION)[2] + link_actions(choices, ACTION)[2])


def test_no_adapters_change_nothing() -> None:
    plain = chain()
    images, proprio = plain.observe(PICTURES, NUMBERS)
    assert (plain.observation, plain.action, plain.identities()) == (OBSERVATION, ACTION, ())
    assert all(images[name] is PICTURES[name] for name in PICTURES)
    assert proprio == NUMBERS
    np.testing.assert_array_equal(plain.act(row(gripper=0.3)), row(gripper=0.3))


def test_a_gripper_of_one_polarity_and_range_becomes_another() -> None:
    observed = chain(adapter("gripper_affine", "proprio:gripper", **FLIP))
    assert observed.observation.proprio[2].gripper == GripperRange(closed=1.0, open=-1.0)
    assert observed.observe({}, NUMBERS)[1]["gripper"].tolist() == [0.5]
    acting = chain(
        adapter("gripper_affine", "action:gripper", from_closed=1.0, from_open=-1.0, to_closed=0.0, to_open=1.0)
    )
    component = acting.action.components[2]
    assert (component.gripper, component.low, component.high) == (
        GripperRange(closed=1.0, open=-1.0),
        (-1.0,),
        (1.0,),
    )
    sent = np.concatenate([row(gripper=value) for value in (1.0, -1.0, 0.5)])
    assert acting.act(sent)[:, 6].tolist() == [0.0, 1.0, 0.25]


@given(st.floats(-3, 3), st.floats(0.1, 3), st.floats(-3, 3), st.floats(0.1, 3), st.booleans())
def test_both_ends_of_a_gripper_are_met_exactly_and_its_bounds_convert_to_legal_numbers(
    closed: float, span: float, to_closed: float, to_span: float, falling: bool
) -> None:
    theirs = GripperRange(closed=to_closed, open=to_closed + (-to_span if falling else to_span))
    low, high = sorted((theirs.closed, theirs.open))
    component = ACTION.components[2].model_copy(update={"gripper": theirs, "low": (low,), "high": (high,)})
    action = ActionSpec(control_hz=20.0, dim=1, components=(component,))
    ours = {"from_closed": closed, "from_open": closed + span}
    if (closed, closed + span) == (theirs.closed, theirs.open):
        return
    made = AdapterChain(
        [adapter("gripper_affine", "action:gripper", **ours, to_closed=theirs.closed, to_open=theirs.open)],
        OBSERVATION, action,
    )  # fmt: skip
    assert made.act(np.array([[closed], [closed + span]])).ravel().tolist() == [theirs.closed, theirs.open]
    ends = made.act(np.array([made.action.low, made.action.high])).ravel()
    assert ((low <= ends) & (ends <= high)).all()
    np.testing.assert_allclose(sorted((*made.action.low, *made.action.high)), sorted(ours.values()), atol=1e-9)


def test_the_bound_of_a_policy_in_degrees_converts_to_the_bound_in_radians() -> None:
    converted = chain(adapter("unit_convert", "action:ee_delta_rot", from_="deg", to="rad"))
    assert converted.action.components[1].unit == "deg"
    assert converted.action.high[3] == pytest.approx(np.degrees(0.5))
    at_bound = converted.act(np.array([converted.action.high]))[0]
    assert at_bound[3] <= 0.5
    assert at_bound[3] == pytest.approx(0.5)
    assert converted.act(row(rotation=90.0))[0, 3] == pytest.approx(np.pi / 2)  # far outside: never clipped


def test_bounds_that_no_number_of_the_policy_meets_are_refused_and_not_sought_for_ever() -> None:
    turn = ACTION.components[1].model_copy(update={"low": (-1e308,) * 3, "high": (1e308,) * 3})
    action = ACTION.model_copy(update={"components": (ACTION.components[0], turn, ACTION.components[2])})
    with pytest.raises(LockError, match="cannot be converted: they are too large or too close"):
        chain(adapter("unit_convert", "action:ee_delta_rot", from_="deg", to="rad"), action=action)


def test_a_number_that_no_conversion_can_hold_is_refused_later_and_no_warning() -> None:
    ends = {"from_closed": 1e-10, "from_open": 0.0, "to_closed": 0.0, "to_open": 1.0}
    made = chain(adapter("gripper_affine", "action:gripper", **ends))
    assert not np.isfinite(made.act(row(gripper=1.7e308))).all()


def test_units_of_what_is_observed_are_converted_with_their_range() -> None:
    position = PROPRIO[0].model_copy(update={"low": (0.0, -1.0, 0.0), "high": (1.0, 1.0, 2.0)})
    observation = ObservationSpec(proprio=(position,))
    made = AdapterChain([adapter("unit_convert", "proprio:ee_pos", from_="m", to="mm")], observation, ACTION)
    assert made.observation.proprio[0].unit == "mm"
    assert made.observation.proprio[0].low == pytest.approx((0.0, -1000.0, 0.0))
    np.testing.assert_allclose(made.observe({}, NUMBERS)[1]["ee_pos"], [100.0, 200.0, 300.0])


def test_a_quaternion_is_reordered_and_a_rotation_converted() -> None:
    reordered = chain(adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="quat_xyzw"))
    assert reordered.observation.proprio[1].rotation == "quat_xyzw"
    assert reordered.observe({}, NUMBERS)[1]["ee_quat"].tolist() == [0.0, 0.0, 0.7071, 0.7071]
    converted = chain(adapter("rotation_convert", "proprio:ee_quat", from_="quat_wxyz", to="rot6d_columns"))
    channel = converted.observation.proprio[1]
    assert (channel.rotation, channel.dim, channel.unit) == ("rot6d_columns", 6, "1")
    np.testing.assert_allclose(converted.observe({}, NUMBERS)[1]["ee_quat"], [0, 1, 0, -1, 0, 0], atol=1e-9)


def test_adapters_are_applied_in_the_order_of_the_list() -> None:
    made = chain(
        adapter("rotation_convert", "proprio:ee_quat", from_="quat_wxyz", to="rot6d_columns"),
        adapter("rot6d_layout", "proprio:ee_quat", from_="rot6d_columns", to="rot6d_interleaved"),
        adapter("rename", "proprio:ee_quat", to="turn"),
    )
    assert made.observation.proprio_names == ("ee_pos", "turn", "gripper")
    np.testing.assert_allclose(made.observe({}, NUMBERS)[1]["turn"], [0, -1, 1, 0, 0, 0], atol=1e-9)
    assert [identity.name for identity in made.identities()] == ["rotation_convert", "rot6d_layout", "rename"]


def test_adapters_of_actions_run_from_the_policy_to_the_environment() -> None:
    made = chain(
        adapter("rotation_convert", "action:turn", from_="euler_xyz_extrinsic", to="axis_angle_pi", low=(-1.0,) * 3,
                high=(1.0,) * 3),
        adapter("rename", "action:turn", to="ee_delta_rot"),
    )  # fmt: skip
    component = made.action.components[1]
    assert (component.name, component.rotation, component.low) == ("turn", "euler_xyz_extrinsic", (-1.0,) * 3)
    sent = np.array([[0.01, 0.02, 0.03, 0.0, 0.0, 0.4, 1.0]])
    np.testing.assert_allclose(made.act(sent), [[0.01, 0.02, 0.03, 0.0, 0.0, 0.4, 1.0]], atol=1e-12)


def test_a_policy_that_sends_more_numbers_per_rotation_has_longer_rows() -> None:
    made = chain(adapter("rotation_convert", "action:ee_delta_rot", from_="rot6d_columns", to="axis_angle_pi"))
    component = made.action.components[1]
    assert (made.action.dim, component.dim, component.unit) == (10, 6, "1")
    assert (component.low, component.bounds_reason) == ((None,) * 6, "unlimited")
    sent = np.array([[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 1.0]])
    np.testing.assert_allclose(made.act(sent), [[0, 0, 0, 0, 0, np.pi / 2, 1]], atol=1e-12)


def test_a_row_that_is_no_rotation_is_an_invalid_action_that_names_row_and_component() -> None:
    made = chain(adapter("rotation_convert", "action:ee_delta_rot", from_="rot6d_columns", to="axis_angle_pi"))
    rows = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]] * 3)
    rows[2, 3:9] = 0.0
    with pytest.raises(PolicyFault, match="row 2, ee_delta_rot: the first column") as caught:
        made.act(rows)
    assert (caught.value.code, caught.value.row, caught.value.component) == ("invalid_action", 2, "ee_delta_rot")


def test_numbers_of_the_environment_that_are_not_what_it_declares_are_its_fault() -> None:
    made = chain(adapter("rotation_convert", "proprio:ee_quat", from_="quat_wxyz", to="axis_angle_pi"))
    with pytest.raises(SensorInvalid, match="ee_quat: expected a unit quaternion"):
        made.observe({}, {**NUMBERS, "ee_quat": np.zeros(4)})


@pytest.mark.parametrize(
    ("to", "corner"),
    [("flip_v", (63, 0)), ("flip_h", (0, 63)), ("rot180", (63, 63))],
)
def test_a_picture_is_turned_about_the_named_axis(to: str, corner: tuple[int, int]) -> None:
    made = chain(adapter("image_orient", "camera:front", from_="upright", to=to))
    assert made.observation.cameras[0].orientation == to
    picture = made.observe(PICTURES, NUMBERS)[0]["front"]
    np.testing.assert_array_equal(picture[corner], PICTURES["front"][0, 0])
    assert picture.flags["C_CONTIGUOUS"]


def test_colours_layout_and_orientation_are_converted_on_a_channels_first_picture_too() -> None:
    made = chain(
        adapter("layout_swap", "camera:front", from_="hwc", to="chw"),
        adapter("color_swap", "camera:front", from_="rgb", to="bgr"),
        adapter("image_orient", "camera:front", from_="upright", to="flip_h"),
    )
    camera = made.observation.cameras[0]
    assert (camera.layout, camera.color, camera.orientation, camera.shape) == ("chw", "bgr", "flip_h", (3, 64, 64))
    picture = made.observe(PICTURES, NUMBERS)[0]["front"]
    np.testing.assert_array_equal(picture, PICTURES["front"][:, ::-1, ::-1].transpose(2, 0, 1))


def test_both_pictures_are_turned_by_half_a_turn_for_policies_trained_on_libero() -> None:
    made = chain(adapter("rotate-180", "camera:*"))
    assert {camera.orientation for camera in made.observation.cameras} == {"rot180"}
    pictures = made.observe(PICTURES, NUMBERS)[0]
    for name in ("front", "wrist"):
        np.testing.assert_array_equal(pictures[name], PICTURES[name][::-1, ::-1])
    assert len(made.identities()) == 1


def _naive_area(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Integrate the picture over each target pixel by sampling it very finely."""
    rows = np.arange(height * picture.shape[0]) // height
    columns = np.arange(width * picture.shape[1]) // width
    fine = picture[rows][:, columns].astype(np.int64)
    summed = fine.reshape(height, picture.shape[0], width, picture.shape[1], 3).sum(axis=(1, 3))
    total = picture.shape[0] * picture.shape[1]
    return ((2 * summed + total) // (2 * total)).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (48, 20), (64, 100), (7, 3), (1, 1)])
def test_resizing_by_area_is_the_mean_over_the_area_of_each_pixel(height: int, width: int) -> None:
    source = PICTURES["front"]
    made = resize(source, height=height, width=width, method="area", layout="hwc")
    np.testing.assert_array_equal(made, _naive_area(source, height, width))


@pytest.mark.parametrize("method", RESIZE_METHODS)
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_a_picture_of_one_colour_keeps_it_at_every_size(method: str, layout: str) -> None:
    plain = np.full((64, 48, 3) if layout == "hwc" else (3, 64, 48), 201, dtype=np.uint8)
    for height, width in ((64, 48), (31, 77), (128, 1)):
        made = resize(plain, height=height, width=width, method=method, layout=layout)
        assert made.shape == ((height, width, 3) if layout == "hwc" else (3, height, width))
        assert (made == 201).all()


def test_between_two_pixels_the_value_is_between_and_at_the_edge_it_is_the_edge() -> None:
    two = np.zeros((1, 2, 3), dtype=np.uint8)
    two[0, 1] = 100
    made = resize(two, height=1, width=4, method="bilinear", layout="hwc")
    assert made[0, :, 0].tolist() == [0, 25, 75, 100]
    assert resize(two, height=1, width=4, method="nearest", layout="hwc")[0, :, 0].tolist() == [0, 0, 100, 100]


def test_a_resized_camera_says_its_size_and_method() -> None:
    size = {"from_height": 64, "from_width": 64, "to_height": 32, "to_width": 48}
    made = chain(adapter("image_resize", "camera:wrist", **size, method="area"))
    camera = made.observation.cameras[1]
    assert (camera.height, camera.width, camera.resize) == (32, 48, "area")
    assert made.observe(PICTURES, NUMBERS)[0]["wrist"].shape == (32, 48, 3)


def test_the_libero_state_is_position_axis_angle_and_two_signed_fingers() -> None:
    suite = standard_profile()
    choice = adapter(
        "libero-state-8d", "proprio:*", position="ee_pos", rotation="ee_quat", fingers="finger_pos", to="state"
    )
    made = AdapterChain([choice], suite, ACTION)
    channel = made.observation.proprio[-1]
    assert (channel.name, channel.dim, channel.rotation, channel.unit) == ("state", 8, "axis_angle_2pi", "m,rad,m")
    numbers = {
        "ee_pos": np.array([0.4, -0.1, 0.2]),
        "ee_quat": np.array([-0.5, 0.8660254037844386, 0.0, 0.0]),
        "finger_pos": np.array([0.04, 0.03]),
    }
    state = made.observe({}, numbers)[1]["state"]
    np.testing.assert_allclose(state, [0.4, -0.1, 0.2, 4 * np.pi / 3, 0.0, 0.0, 0.04, -0.03], atol=1e-9)
    wanted = ObservationSpec(proprio=(channel,))
    assert made.sources(wanted) == ((), ("finger_pos", "ee_pos", "ee_quat"))


def test_only_the_channels_that_a_policy_needs_are_read() -> None:
    made = chain(
        adapter("rename", "camera:front", to="agent"),
        adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="quat_xyzw"),
        adapter("rename", "proprio:ee_quat", to="turn"),
    )
    expects = made.observation.only("agent", "turn")
    assert made.sources(expects) == (("front",), ("ee_quat",))
    images, proprio = made.observe({"front": PICTURES["front"]}, {"ee_quat": NUMBERS["ee_quat"]})
    assert (list(images), list(proprio)) == (["agent"], ["turn"])
    with pytest.raises(KeyError):
        made.sources(OBSERVATION.only("front"))


def test_converting_twice_is_two_identities_with_parameters_and_one_digest() -> None:
    there = adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="quat_xyzw")
    back = adapter("quat_reorder", "proprio:ee_quat", from_="quat_xyzw", to="quat_wxyz")
    first, second = chain(there, back).identities()
    assert first.params == {"target": "proprio:ee_quat", "from": "quat_wxyz", "to": "quat_xyzw"}
    assert second.params["from"] == "quat_xyzw"
    assert len(first.source_sha256) == 64
    assert first.source_sha256 == second.source_sha256


OWN = "arm_adapters"


def test_the_digest_of_an_adapter_of_the_arms_own_is_that_of_its_code_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(__file__).with_name("arm_adapters.py").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for text in (here, here + "\n# another one\n"):
        (tmp_path / "edited_adapters.py").write_text(text, encoding="utf-8")
        (identity,) = chain(adapter("edited_adapters:Smooth", "proprio:ee_pos", weight=0.5)).identities()
        found.append(identity.source_sha256)
    assert found[0] != found[1]


def test_an_adapter_of_the_arms_own_is_applied_named_and_reset_for_each_episode() -> None:
    made = chain(adapter(f"{OWN}:Smooth", "proprio:ee_pos", weight=0.5))
    assert made.observe({}, NUMBERS)[1]["ee_pos"].tolist() == [0.1, 0.2, 0.3]
    later = {**NUMBERS, "ee_pos": np.array([0.3, 0.2, 0.3])}
    np.testing.assert_allclose(made.observe({}, later)[1]["ee_pos"], [0.2, 0.2, 0.3])
    made.reset()
    assert made.observe({}, later)[1]["ee_pos"].tolist() == [0.3, 0.2, 0.3]
    (identity,) = made.identities()
    assert (identity.version, identity.params) == ("3", {"target": "proprio:ee_pos", "weight": 0.5})


def test_an_adapter_of_the_arms_own_cannot_write_into_what_the_environment_holds() -> None:
    before = NUMBERS["ee_pos"].copy()
    chain(adapter(f"{OWN}:Scribbler", "proprio:ee_pos", weight=0.5)).observe({}, NUMBERS)
    np.testing.assert_array_equal(NUMBERS["ee_pos"], before)
    rows = row(position=0.02)
    acted = chain(adapter(f"{OWN}:Scribbler", "action:ee_delta_pos", weight=0.5)).act(rows)
    assert acted[0, :3].tolist() == [0.0, 0.0, 0.0]
    assert rows[0, :3].tolist() == [0.02, 0.02, 0.02]


@pytest.mark.parametrize("name", ["Raiser", "Shortener"])
def test_whatever_goes_wrong_in_an_adapter_of_the_arms_own_is_charged_to_the_arm(name: str) -> None:
    with pytest.raises(PolicyFault) as observing:
        chain(adapter(f"{OWN}:{name}", "proprio:ee_pos", weight=0.5)).observe({}, NUMBERS)
    with pytest.raises(PolicyFault) as acting:
        chain(adapter(f"{OWN}:{name}", "action:ee_delta_pos", weight=0.5)).act(row())
    assert {observing.value.code, acting.value.code} == {"policy_exception"}


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (adapter("quat_reordr", "proprio:ee_quat"), "did you mean 'quat_reorder'"),
        (adapter("quat_reorder", "proprio:ee_quat"), "parameter 'from' is missing"),
        (adapter("quat_reorder", "proprio:ee_qat", from_="quat_wxyz", to="quat_xyzw"), "did you mean 'ee_quat'"),
        (adapter("quat_reorder", "ee_quat", from_="quat_wxyz", to="quat_xyzw"), "expected camera:NAME"),
        (adapter("quat_reorder", "proprio:ee_quat", from_="quat_xyzw", to="quat_wxyz"), "there it is 'quat_wxyz'"),
        (adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="quat_wxyz"), "converts nothing"),
        (adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="xyzw"), "expected one of quat_wxyz"),
        (adapter("quat_reorder", "proprio:ee_quat", from_="quat_wxyz", to="quat_xyzw", sign=1), "unknown parameter"),
        (adapter("quat_reorder", "camera:front", from_="quat_wxyz", to="quat_xyzw"), "not for a camera"),
        (adapter("image_orient", "proprio:ee_pos", from_="upright", to="flip_v"), "not for a proprio"),
        (adapter("rotation_convert", "proprio:ee_quat", from_="quat_wxyz", to="rot6d_columns", low=(0.0,)),
         "belong to actions"),
        (adapter("rotation_convert", "proprio:ee_pos", from_="quat_wxyz", to="rot6d_columns"), "there it is None"),
        (adapter("rotation_convert", "action:ee_delta_rot", from_="rot6d_columns", to="axis_angle_pi", low=(0.0,)),
         "together"),
        (adapter("unit_convert", "proprio:ee_pos", from_="m", to="rad"), "different things"),
        (adapter("unit_convert", "proprio:ee_pos", from_="m", to="furlong"), "expected one of"),
        (adapter("gripper_affine", "proprio:gripper", **{**FLIP, "to_open": 1.0}), "both 1"),
        (adapter("gripper_affine", "proprio:gripper", **{**FLIP, "from_open": 2.0}), "from says gripper"),
        (adapter("gripper_affine", "proprio:gripper", **{**FLIP, "from_open": True}), "a finite number"),
        (adapter("gripper_affine", "proprio:gripper", from_closed=0.0, from_open=1.0, to_closed=0.0, to_open=1.0),
         "converts nothing"),
        (adapter("image_resize", "camera:front", from_height=32, from_width=64, to_height=8, to_width=8,
                 method="area"), "there it is 64x64"),
        (adapter("image_resize", "camera:front", from_height=64, from_width=64, to_height=8.5, to_width=8,
                 method="area"), "whole number"),
        (adapter("image_resize", "camera:front", from_height=64, from_width=64, to_height=64, to_width=64,
                 method="area"), "converts nothing"),
        (adapter("image_resize", "camera:front", from_height=64, from_width=64, to_height=8, to_width=8,
                 method="lanczos"), "expected one of area"),
        (adapter("color_swap", "camera:front", from_="bgr", to="rgb"), "there it is 'rgb'"),
        (adapter("layout_swap", "camera:front", from_="chw", to="hwc"), "there it is 'hwc'"),
        (adapter("rotate-180", "camera:front", angle=180), "unknown parameter 'angle'; expected none"),
        (adapter("rename", "camera:front", to="wrist"), "repeat"),
        (adapter("rename", "camera:front", to="front"), "converts nothing"),
        (adapter("rename", "camera:front", to="object_pose"), "privileged_channel"),
        (adapter("rename", "camera:*", to="all"), "no camera '*'"),
        (adapter("rename", "action:grip", to="grippr"), "did you mean 'gripper'"),
        (adapter("gripper_affine", "action:grip", **FLIP), "no action component 'grip'"),
        (adapter("libero-state-8d", "proprio:ee_pos"), "its target is 'proprio:*'"),
        (adapter("libero-state-8d", "proprio:*", position="ee_pos", rotation="ee_pos", fingers="gripper", to="s"),
         "rotation: 'ee_pos' has 3 numbers"),
        (adapter("libero-state-8d", "proprio:*", position="ee_pos", rotation="ee_quat", fingers="hand", to="s"),
         "no proprio 'hand'"),
        (adapter("no.such.module:thing", "proprio:ee_pos"), "no module named"),
        (adapter(f"{OWN}:Smoth", "proprio:ee_pos"), "did you mean 'Smooth'"),
        (adapter(f"{OWN}:Smooth", "proprio:ee_pos"), "TypeError"),
        (adapter(f"{OWN}:Half", "proprio:ee_pos"), "no version, policy_side, convert and reset"),
        (adapter(f"{OWN}:Refuser", "proprio:ee_pos", weight=1.0), "only for joints"),
        (adapter(f"{OWN}:Careless", "proprio:ee_pos", weight=1.0), "greater than or equal to 1"),
        (adapter(f"{OWN}:Turncoat", "camera:front", weight=1.0), "expected a CameraSpec"),
    ],
)  # fmt: skip
def test_an_adapter_that_cannot_do_what_it_says_is_refused(choice: AdapterChoice, said: str) -> None:
    ((index, message),) = faults(choice)
    assert index == 0
    assert said in message
    with pytest.raises(LockError) as caught:
        chain(choice)
    assert caught.value.code == "adapter_refused"


def test_one_camera_cannot_feed_two_of_the_policy() -> None:
    twice = (adapter("rename", "camera:front", to="base"), adapter("rename", "camera:front", to="left"))
    ((index, message),) = faults(*twice)
    assert index == 1
    assert message.startswith("duplicate_camera_mapping")
    with pytest.raises(LockError) as caught:
        chain(*twice)
    assert caught.value.code == "duplicate_camera_mapping"


def test_every_wrong_adapter_is_listed_with_its_place() -> None:
    found = faults(
        adapter("rename", "camera:front", to="agent"),
        adapter("color_swap", "camera:front", from_="rgb", to="bgr"),
        adapter("unit_convert", "action:gripper", from_="deg", to="rad"),
    )
    assert [index for index, _ in found] == [1, 2]
    assert "it is called 'agent' behind 'rename'" in found[0][1]


def test_scaled_numbers_are_in_no_unit_and_no_rotation_yet() -> None:
    scaled = [c.model_copy(update={"scale": 0.05}) for c in ACTION.components]
    action = ActionSpec(control_hz=20.0, dim=7, components=tuple(scaled))
    for choice in (
        adapter("unit_convert", "action:ee_delta_rot", from_="deg", to="rad"),
        adapter("rotation_convert", "action:ee_delta_rot", from_="euler_xyz_extrinsic", to="axis_angle_pi"),
    ):
        ((_, message),) = link_actions([choice], action)[2]
        assert "scaled by 0.05" in message


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(PolicyFault, match="expected rows of shape"):
        chain().act(np.zeros((1, 6)))


def test_bounds_follow_the_numbers_when_a_quaternion_is_reordered() -> None:
    component = ActionComponent(
        name="turn", dim=4, kind="ee_rotation", mode="absolute", delta_base=None, unit="1", frame="base",
        rotation="quat_wxyz", gripper=None, low=(0.0, -1.0, -2.0, -3.0), high=(1.0, 2.0, 3.0, 4.0),
    )  # fmt: skip
    action = ActionSpec(control_hz=20.0, dim=4, components=(component,))
    choice = adapter("quat_reorder", "action:turn", from_="quat_xyzw", to="quat_wxyz")
    made = AdapterChain([choice], OBSERVATION, action)
    assert made.action.low == (-1.0, -2.0, -3.0, 0.0)
    assert made.act(np.array([[1.0, 2.0, 3.0, 0.0]])).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_a_camera_that_is_turned_twice_by_half_a_turn_is_as_before() -> None:
    camera = CameraSpec(name="top", height=4, width=6, layout="chw", color="rgb", orientation="flip_h")
    made = AdapterChain(
        [adapter("rotate-180", "camera:top"), adapter("rotate-180", "camera:top")],
        ObservationSpec(cameras=(camera,)), ACTION,
    )  # fmt: skip
    picture = np.arange(72, dtype=np.uint8).reshape(3, 4, 6)
    assert made.observation.cameras == (camera,)
    np.testing.assert_array_equal(made.observe({"top": picture}, {})[0]["top"], picture)


@pytest.mark.parametrize("rotation", ["axis_angle_2pi", "quat_xyzw", "euler_xyz_intrinsic"])
def test_a_rotation_is_read_only_with_the_dimension_and_unit_of_its_representation(rotation: Rotation) -> None:
    channel = ProprioSpec(name="turn", dim=5, unit="deg", frame="base", rotation=rotation, gripper=None)
    choice = adapter("rotation_convert", "proprio:turn", from_=rotation, to="rot6d_columns")
    ((_, message),) = link_observation([choice], ObservationSpec(proprio=(channel,)))[2]
    assert "numbers, but there 5 stand" in message
