"""The adapters that a check offers: pasted into a protocol they do what is said of them, and no other is offered."""

from __future__ import annotations

import json
import math
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.policies.adapters import rotations
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.bridging import bridge, one_line, table
from trialplate.policies.matching import Match, compare
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.protocol import AdapterChoice
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras

STANDARD = PROFILES["standard"]
ANGLES = ("axis_angle_pi", "axis_angle_2pi", "euler_xyz_intrinsic", "euler_xyz_extrinsic")
GRIPPERS = st.sampled_from([(0.0, 1.0), (1.0, 0.0), (1.0, -1.0), (-1.0, 1.0), (0.0, 0.08)])


def changed(channel: Any, **changes: Any) -> Any:
    return type(channel).model_validate({**dict(channel), **changes})


@st.composite
def turned(draw: st.DrawFn, *, action: bool) -> dict[str, Any]:
    """Return the fields of a rotation under another convention."""
    rotation = draw(st.sampled_from(sorted(rotations.DIMS)))
    unit = draw(st.sampled_from(["rad", "deg"])) if rotation in ANGLES else "1"
    fields: dict[str, Any] = {"rotation": rotation, "dim": rotations.DIMS[rotation], "unit": unit}
    if not action:
        return fields
    limit = 0.5 if unit == "rad" else math.degrees(0.5)
    if rotation != "axis_angle_pi" and draw(st.booleans()):
        none = (None,) * fields["dim"]
        return {**fields, "low": none, "high": none, "bounds_reason": "unlimited"}
    return {**fields, "low": (-limit,) * fields["dim"], "high": (limit,) * fields["dim"]}


@st.composite
def declarations(draw: st.DrawFn) -> PolicySpec:
    """Return a policy that means the same things as toy-reach and writes all of them down otherwise."""
    front = changed(
        cameras()[0],
        height=draw(st.sampled_from([64, 32, 96])), width=draw(st.sampled_from([64, 32])),
        layout=draw(st.sampled_from(["hwc", "chw"])), color=draw(st.sampled_from(["rgb", "bgr"])),
        orientation=draw(st.sampled_from(["upright", "flip_v", "flip_h", "rot180"])),
    )  # fmt: skip
    position = changed(PROPRIO[0], unit=draw(st.sampled_from(["m", "cm", "mm"])))
    quat = changed(PROPRIO[1], **draw(turned(action=False)))
    opening = [GripperRange(closed=c, open=o) for c, o in (draw(GRIPPERS), draw(GRIPPERS))]
    low, high = sorted((opening[1].closed, opening[1].open))
    emits = ActionSpec(
        control_hz=20.0,
        dim=4 + (turn := changed(ACTION.components[1], **draw(turned(action=True)))).dim,
        components=(
            ACTION.components[0], turn, changed(ACTION.components[2], gripper=opening[1], low=(low,), high=(high,)),
        ),
    )  # fmt: skip
    expects = ObservationSpec(cameras=(front,), proprio=(position, quat, changed(PROPRIO[2], gripper=opening[0])))
    return PolicySpec(expects=expects, emits=emits)


def pasted(match: Match, existing: tuple[AdapterChoice, ...] = ()) -> list[AdapterChoice]:
    """Return the adapters as they come out of a protocol that they were pasted into."""
    text = "\n\n".join(["[[arms]]\nname = 'a'", *(table(choice) for choice in match.bridged(existing))])
    (arm,) = tomllib.loads(text)["arms"]
    return [AdapterChoice.model_validate_json(json.dumps(item)) for item in arm.get("adapters", [])]


@settings(max_examples=300, deadline=None)
@given(declarations())
def test_pasting_what_a_check_offers_makes_the_policy_fit(declared: PolicySpec) -> None:
    match = compare(STANDARD, ACTION, declared, replan_interval=1)
    chain = AdapterChain(pasted(match), STANDARD, ACTION)
    behind = compare(chain.observation, chain.action, declared, replan_interval=1)
    assert behind.problems == ()
    assert behind.adapters == ()
    assert match.fits == (match.adapters == ())


@settings(max_examples=60, deadline=None)
@given(declarations(), declarations())
def test_adapters_are_added_on_the_policys_side_of_those_that_are_there(
    first: PolicySpec, declared: PolicySpec
) -> None:
    """An arm has the adapters for another policy already; what is offered leads from those to this one."""
    existing = tuple(pasted(compare(STANDARD, ACTION, first, replan_interval=1)))
    chain = AdapterChain(existing, STANDARD, ACTION)
    match = compare(chain.observation, chain.action, declared, replan_interval=1)
    whole = AdapterChain(pasted(match, existing), STANDARD, ACTION)
    left = compare(whole.observation, whole.action, declared, replan_interval=1)
    ranges = (".low", ".high")  # the first policy's may be unlimited: no adapter knows the second's
    assert [item.path for item in left.problems if not item.path.endswith(ranges)] == []


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({"frame": "world"}, []),
        ({"mode": "absolute", "delta_base": None}, []),
        ({"scale": 0.05}, []),
        ({"unit": "deg"}, []),  # of metres
        ({"frame": "world", "rotation": "quat_wxyz"}, []),  # of what is no rotation
    ],
)
def test_nothing_is_offered_that_could_not_be_built(changes: dict[str, Any], offered: list[str]) -> None:
    component: ActionComponent = ACTION.components[0]
    across = bridge(component, changed(component, **changes), target="action:ee_delta_pos")
    assert [choice.name for choice in across.adapters] == offered
    assert dict(across.settles) == {}


def test_scaled_numbers_are_in_no_unit_so_no_conversion_is_offered() -> None:
    component = changed(ACTION.components[1], scale=0.5)
    for wanted in ({"unit": "deg"}, {"rotation": "euler_xyz_intrinsic"}):
        assert bridge(component, changed(component, **wanted), target="action:ee_delta_rot").adapters == ()


def test_what_a_policy_leaves_undeclared_is_bridged_by_nothing() -> None:
    assert bridge(PROPRIO[1], changed(PROPRIO[1], rotation=None), target="proprio:ee_quat").adapters == ()


def test_angles_in_degrees_are_turned_into_radians_before_they_are_read_as_a_rotation() -> None:
    sent = changed(PROPRIO[1], rotation="euler_xyz_extrinsic", dim=3, unit="deg")
    across = bridge(sent, PROPRIO[1], target="proprio:ee_quat")
    assert [choice.name for choice in across.adapters] == ["unit_convert", "rotation_convert"]
    assert {field: choice.name for field, choice in across.settles.items()} == dict.fromkeys(
        ("dim", "unit", "rotation"), "rotation_convert"
    )
    assert across.about(across.settles["unit"]) == "rotation"


def test_the_size_that_differs_is_what_a_resize_is_about() -> None:
    camera: CameraSpec = cameras()[0]
    wider = bridge(camera, changed(camera, width=32, resize="bilinear"), target="camera:front")
    assert wider.adapters[0].params["method"] == "bilinear"
    assert wider.about(wider.adapters[0]) == "width"


def test_an_adapter_is_written_as_an_element_and_as_a_table_of_a_protocol() -> None:
    choice = AdapterChoice(name="rotate-180", target="camera:*")
    assert one_line(choice) == '{name = "rotate-180", target = "camera:*"}'
    assert table(choice) == '[[arms.adapters]]\nname = "rotate-180"\ntarget = "camera:*"'
    gripper = bridge(
        PROPRIO[2], changed(PROPRIO[2], gripper=GripperRange(closed=1.0, open=-1.0)), target="proprio:gripper"
    ).adapters[0]
    written = tomllib.loads(f"adapters = [{one_line(gripper)}]")["adapters"][0]
    assert AdapterChoice.model_validate_json(json.dumps(written)) == gripper


def test_a_channel_under_another_name_is_offered_only_where_one_alone_says_the_same() -> None:
    hand: ProprioSpec = changed(PROPRIO[0], name="eef_position")
    (difference,) = compare(
        STANDARD, ACTION, PolicySpec(expects=ObservationSpec(instruction=False, proprio=(hand,)), emits=ACTION),
        replan_interval=1,
    ).differences  # fmt: skip
    assert '{name = "rename", target = "proprio:ee_pos", params = {to = "eef_position"}}' in difference.remedy
    picture = changed(cameras()[0], name="base")
    (difference,) = compare(
        STANDARD, ACTION, PolicySpec(expects=ObservationSpec(instruction=False, cameras=(picture,)), emits=ACTION),
        replan_interval=1,
    ).differences  # fmt: skip
    assert "params" not in difference.remedy  # front and wrist say the same of themselves
