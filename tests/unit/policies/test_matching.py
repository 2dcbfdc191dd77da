"""Does a policy fit: every field that changes the meaning of a number is held against the environment's."""

from __future__ import annotations

from typing import Any

import pytest

from trialplate.errors import ContractFault, LockError
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.matching import Match, as_suite, compare, needed_bytes, parse_declaration, refuse_mismatch
from trialplate.spec.channels import (
    ActionSpec,
    CameraSpec,
    GripperRange,
    HistorySpec,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.protocol import AdapterChoice, AsTheSuite
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras

STANDARD = PROFILES["standard"]


def match(expects: ObservationSpec | None = None, emits: ActionSpec = ACTION, **terms: Any) -> Match:
    environment = terms.pop("environment", STANDARD)
    declared = PolicySpec(
        expects=expects if expects is not None else STANDARD,
        emits=emits,
        chunk_length=terms.pop("chunk_length", None),
    )
    return compare(environment, ACTION, declared, replan_interval=terms.pop("replan_interval", 1), **terms)


def observation(**changes: Any) -> ObservationSpec:
    return ObservationSpec.model_validate({**dict(STANDARD), **changes})


def changed_action(index: int, **changes: Any) -> ActionSpec:
    components = list(ACTION.components)
    components[index] = type(components[index]).model_validate({**dict(components[index]), **changes})
    return ActionSpec(control_hz=ACTION.control_hz, dim=sum(c.dim for c in components), components=tuple(components))


def test_a_policy_that_declares_what_is_sent_and_taken_fits() -> None:
    found = match()
    assert found.fits
    assert found.unused_channels == ()
    refuse_mismatch("arm", found)


def test_channels_that_a_policy_does_not_use_are_listed() -> None:
    found = match(ObservationSpec(instruction=False, cameras=cameras()[1:], meta=("step_index",)))
    assert found.fits
    assert found.unused_channels == (
        "camera:front", "proprio:ee_pos", "proprio:ee_quat", "proprio:gripper", "instruction",
        "meta:sim_time_s", "meta:control_hz", "meta:remaining_steps", "meta:remaining_calls",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("height", 32, "image_resize"),
        ("width", 32, "image_resize"),
        ("layout", "chw", "layout_swap"),
        ("color", "bgr", "color_swap"),
        ("orientation", "flip_v", "image_orient"),
        ("resize", "area", "declare what is sent"),
    ],
)
def test_a_camera_declared_otherwise_is_a_difference(field: str, value: Any, remedy: str) -> None:
    camera = CameraSpec.model_validate({**dict(cameras()[0]), field: value})
    (difference,) = match(observation(cameras=(camera, cameras()[1]))).differences
    assert difference.path == f"cameras.front.{field}"
    assert (difference.environment, difference.policy) == (getattr(cameras()[0], field), value)
    assert remedy in difference.remedy


@pytest.mark.parametrize(
    ("index", "field", "value", "remedy"),
    [
        (0, "dim", 2, "no adapter changes it"),
        (0, "unit", "mm", "unit_convert"),
        (0, "frame", "world", "module:attr"),
        (1, "rotation", "quat_xyzw", "quat_reorder"),
        (1, "rotation", "axis_angle_pi", "rotation_convert"),
        (2, "gripper", GripperRange(closed=1.0, open=-1.0), "gripper_affine"),
        (0, "rotation", "axis_angle_pi", "only one side"),
        (0, "gripper", GripperRange(closed=1.0, open=-1.0), "only one side"),
        (0, "low", (0.0, 0.0, 0.0), "leave it null"),
    ],
)
def test_a_vector_of_numbers_declared_otherwise_is_a_difference(
    index: int, field: str, value: Any, remedy: str
) -> None:
    proprio = list(PROPRIO)
    proprio[index] = ProprioSpec.model_validate({**dict(PROPRIO[index]), field: value})
    (difference,) = match(observation(proprio=tuple(proprio))).differences
    assert difference.path == f"proprio.{PROPRIO[index].name}.{field}"
    assert remedy in difference.remedy


@pytest.mark.parametrize(
    ("index", "changes", "path"),
    [
        (0, {"mode": "absolute", "delta_base": None}, "ee_delta_pos.mode"),
        (0, {"delta_base": "chunk_start"}, "ee_delta_pos.delta_base"),
        (0, {"kind": "other"}, "ee_delta_pos.kind"),
        (0, {"frame": "world"}, "ee_delta_pos.frame"),
        (0, {"scale": 0.05}, "ee_delta_pos.scale"),
        (0, {"high": (0.05, 0.05, 0.06)}, "ee_delta_pos.high"),
        (0, {"low": (-0.05, -0.05, None), "bounds_reason": "unlimited"}, "ee_delta_pos.low"),
        (1, {"unit": "deg"}, "ee_delta_rot.unit"),
        (1, {"rotation": "euler_xyz_intrinsic"}, "ee_delta_rot.rotation"),
        (2, {"gripper": GripperRange(closed=1.0, open=0.0)}, "gripper.gripper"),
    ],
)
def test_an_action_declared_otherwise_is_a_difference(index: int, changes: dict[str, Any], path: str) -> None:
    paths = [difference.path for difference in match(emits=changed_action(index, **changes)).differences]
    assert paths[0] == f"action.{path}"
    assert all(found.startswith(f"action.{path.partition('.')[0]}.") for found in paths)


def test_a_bound_that_is_off_by_the_rounding_of_a_conversion_is_no_difference() -> None:
    rounded = changed_action(0, high=(0.05, 0.05, 0.05 * (1 + 1e-12)))
    assert match(emits=rounded).fits
    assert not match(emits=changed_action(0, high=(0.05, 0.05, 0.0500001))).fits


def test_another_control_rate_or_width_is_a_difference() -> None:
    faster = ACTION.model_copy(update={"control_hz": 50.0})
    (difference,) = match(emits=faster).differences
    assert (difference.path, difference.environment, difference.policy) == ("action.control_hz", 20.0, 50.0)
    narrow = ActionSpec(control_hz=20.0, dim=6, components=ACTION.components[:2])
    paths = [difference.path for difference in match(emits=narrow).differences]
    assert paths == ["action.dim", "action.components[2].name"]


def test_one_name_of_the_action_that_differs_is_named_with_the_nearest() -> None:
    (difference,) = match(emits=changed_action(2, name="griper")).differences
    assert difference.path == "action.components[2].name"
    assert (difference.environment, difference.policy) == ("gripper", "griper")
    assert "rename" in difference.remedy
    assert "did you mean 'gripper'" in difference.remedy


def test_the_same_components_in_another_order_are_a_difference() -> None:
    swapped = ActionSpec(control_hz=20.0, dim=7, components=(ACTION.components[1], ACTION.components[0],
                                                             ACTION.components[2]))  # fmt: skip
    (difference,) = match(emits=swapped).differences
    assert difference.path == "action.components"
    assert "order" in difference.remedy


def test_a_channel_that_is_not_sent_is_never_zero_filled() -> None:
    state = ProprioSpec(name="state", dim=8, unit="1", frame=None, rotation=None, gripper=None)
    (difference,) = match(observation(proprio=(state,))).differences
    assert (difference.path, difference.environment) == ("proprio.state", None)
    assert "Nothing is zero-filled" in difference.remedy
    third = CameraSpec.model_validate({**dict(cameras()[0]), "name": "frond"})
    (difference,) = match(observation(cameras=(*cameras(), third))).differences
    assert difference.path == "cameras.frond"
    assert "did you mean 'front'" in difference.remedy


def test_a_camera_is_not_found_among_the_numbers_nor_the_other_way_round() -> None:
    numbers = ProprioSpec(name="front", dim=3, unit="m", frame="base", rotation=None, gripper=None)
    (difference,) = match(ObservationSpec(proprio=(numbers,))).differences
    assert (difference.path, difference.environment) == ("proprio.front", None)


def test_task_text_past_and_facts_that_are_not_sent_are_differences() -> None:
    silent = ObservationSpec(instruction=False, meta=("step_index",))
    wanted = ObservationSpec(history=HistorySpec(frames=1, actions=0), meta=("step_index", "control_hz"))
    paths = [difference.path for difference in match(wanted, environment=silent).differences]
    assert paths == ["instruction", "history", "meta.control_hz"]


def test_a_past_of_another_length_is_a_difference() -> None:
    longer = PROFILES["history"].model_copy(update={"history": HistorySpec(frames=2, actions=4)})
    (difference,) = match(longer, environment=PROFILES["history"]).differences
    assert difference.path == "history"
    assert difference.environment == {"frames": 2, "actions": 3}
    assert match(PROFILES["history"], environment=PROFILES["history"]).fits
    assert match(environment=PROFILES["history"]).unused_channels == ("history",)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (PROPRIO[0].model_copy(update={"frame": None}), "proprio.ee_pos.frame"),
        (PROPRIO[1].model_copy(update={"rotation": None}), "proprio.ee_quat.rotation"),
        (PROPRIO[2].model_copy(update={"gripper": None}), "proprio.gripper.gripper"),
    ],
)
def test_what_a_policy_leaves_open_where_the_environment_says_something_is_undeclared(
    spec: ProprioSpec, path: str
) -> None:
    found = match(ObservationSpec(proprio=(spec,)))
    assert found.differences == ()
    assert [item.path for item in found.undeclared] == [path]
    with pytest.raises(LockError, match="declare it") as caught:
        refuse_mismatch("arm", found)
    assert caught.value.code == "contract_undeclared"


def test_a_replan_interval_beyond_the_declared_chunk_is_refused() -> None:
    assert match(chunk_length=8, replan_interval=8).fits
    assert match(chunk_length=None, replan_interval=8).fits
    with pytest.raises(LockError) as caught:
        refuse_mismatch("arm", match(chunk_length=4, replan_interval=8))
    assert caught.value.code == "replan_exceeds_chunk"


def test_a_message_that_would_not_fit_is_refused_with_both_sizes() -> None:
    needed = needed_bytes(STANDARD)
    assert match(max_message_bytes=needed).fits
    with pytest.raises(LockError, match=f"{needed} bytes and {needed - 1} are allowed") as caught:
        refuse_mismatch("arm", match(max_message_bytes=needed - 1))
    assert caught.value.code == "message_too_large"
    assert match(ObservationSpec(instruction=False), max_message_bytes=70_000).fits  # only what it takes is sent


def test_one_camera_mapped_to_two_keys_is_refused() -> None:
    twice = {"observation/image": "camera:front", "observation/wrist_image": ("camera:front",)}
    takes = ObservationSpec(instruction=False, cameras=STANDARD.cameras[:1])
    with pytest.raises(LockError, match="one and the same picture") as caught:
        refuse_mismatch("arm", match(takes, mapping=twice))
    assert caught.value.code == "duplicate_camera_mapping"
    assert match(takes, mapping={"observation/image": "camera:front"}).fits


def test_what_a_policy_uses_and_no_key_of_its_dialect_carries_is_refused() -> None:
    takes = ObservationSpec(instruction=True, cameras=STANDARD.cameras[:1], proprio=PROPRIO[:2])
    whole = {
        "observation/image": "camera:front",
        "observation/state": tuple(f"proprio:{channel.name}" for channel in PROPRIO[:2]),
        "prompt": "instruction",
    }
    assert match(takes, mapping=whole).fits
    for left_out, source in (
        ("observation/image", "camera:front"), ("prompt", "instruction"),
        ("observation/state", f"proprio:{PROPRIO[1].name}"),
    ):  # fmt: skip
        part = {key: value for key, value in whole.items() if key != left_out}
        assert f"mapping: {source}" in [item.path for item in match(takes, mapping=part).differences]
    first = {**whole, "observation/state": f"proprio:{PROPRIO[0].name}"}
    (one,) = match(takes, mapping=first).differences
    assert (one.path, one.code) == (f"mapping: proprio:{PROPRIO[1].name}", "contract_mismatch")


def test_history_and_meta_are_refused_where_the_dialect_has_keys_to_map() -> None:
    takes = ObservationSpec(instruction=False, cameras=STANDARD.cameras[:1], meta=("step_index",))
    assert match(takes).fits
    (one,) = match(takes, mapping={"observation/image": "camera:front"}).differences
    assert "history and meta" in one.path


def test_a_refusal_lists_every_line_with_both_values_and_what_to_do() -> None:
    proprio = (PROPRIO[1].model_copy(update={"rotation": "quat_xyzw"}), PROPRIO[0].model_copy(update={"frame": None}))
    found = match(ObservationSpec(proprio=proprio), emits=ACTION.model_copy(update={"control_hz": 50.0}))
    with pytest.raises(LockError) as caught:
        refuse_mismatch("candidate", found)
    text = caught.value.message
    assert text.startswith("arm 'candidate' does not fit the suite:")
    assert "proprio.ee_pos.frame: environment base, policy nothing" in text
    assert "proprio.ee_quat.rotation: environment quat_wxyz, policy quat_xyzw" in text
    assert 'params = {from = "quat_wxyz", to = "quat_xyzw"}' in text
    assert "action.control_hz: environment 20.0, policy 50.0" in text
    assert len(text.splitlines()) == 5
    assert len(found.document()["differences"]) == 2


def _toml_remedy(text: str) -> AdapterChoice:
    import json
    import re
    import tomllib

    written = re.search(r"name an adapter: (\{.*\})", text)
    assert written is not None
    return AdapterChoice.model_validate_json(json.dumps(tomllib.loads(f"a = {written.group(1)}")["a"]))


@pytest.mark.parametrize(
    ("expects", "emits"),
    [
        (ObservationSpec(proprio=(PROPRIO[1].model_copy(update={"rotation": "quat_xyzw"}),)), ACTION),
        (ObservationSpec(proprio=(PROPRIO[0].model_copy(update={"unit": "mm"}),)), ACTION),
        (ObservationSpec(proprio=(PROPRIO[2].model_copy(update={"gripper": GripperRange(closed=1.0, open=-1.0)}),)),
         ACTION),
        (ObservationSpec(cameras=(cameras()[0].model_copy(update={"orientation": "rot180"}),)), ACTION),
        (ObservationSpec(cameras=(cameras()[0].model_copy(update={"color": "bgr"}),)), ACTION),
        (ObservationSpec(cameras=(cameras()[0].model_copy(update={"layout": "chw"}),)), ACTION),
        (ObservationSpec(cameras=(cameras()[0].model_copy(update={"height": 32}),)), ACTION),
        (STANDARD, changed_action(2, gripper=GripperRange(closed=1.0, open=-1.0), low=(-1.0,))),
        (STANDARD, changed_action(1, unit="deg", low=(-28.64788975654116,) * 3, high=(28.64788975654116,) * 3)),
    ],
)  # fmt: skip
def test_the_adapter_that_a_refusal_offers_makes_the_policy_fit(expects: ObservationSpec, emits: ActionSpec) -> None:
    refused = match(expects, emits)
    assert not refused.fits
    choice = _toml_remedy(refused.differences[0].remedy)
    chain = AdapterChain([choice], STANDARD, ACTION)
    declared = PolicySpec(expects=expects, emits=emits)
    assert compare(chain.observation, chain.action, declared, replan_interval=1).differences == ()


def _document(**changes: Any) -> dict[str, Any]:
    declared = PolicySpec(expects=STANDARD, emits=ACTION, chunk_length=8).model_dump(mode="json")
    return {**declared, **changes}


def test_a_declaration_from_a_wire_is_the_policys_word_whatever_it_says() -> None:
    parsed = parse_declaration(_document(declared_by="operator"))
    assert parsed.declared_by == "policy"
    assert (parsed.expects, parsed.emits, parsed.chunk_length) == (STANDARD, ACTION, 8)
    assert parse_declaration(_document(), declared_by="operator").declared_by == "operator"


MEANINGFUL = (
    "expects", "emits", "expects.instruction", "expects.cameras[1].orientation", "expects.cameras[0].color",
    "expects.cameras[0].layout", "expects.cameras[0].dtype", "expects.proprio[0].unit",
    "expects.proprio[2].gripper.open", "emits.control_hz", "emits.components[0].mode", "emits.components[1].high",
    "emits.components[2].gripper.closed",
)  # fmt: skip
MAY_BE_NULL = (
    "expects.proprio[0].frame", "expects.proprio[1].rotation", "expects.proprio[2].gripper",
    "emits.components[0].delta_base",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "how"),
    [*((path, "missing") for path in MEANINGFUL + MAY_BE_NULL), *((path, "null") for path in MEANINGFUL)],
)
def test_a_field_that_gives_numbers_their_meaning_and_is_missing_is_undeclared(path: str, how: str) -> None:
    document = _document()
    *way, last = path.replace("[", ".").replace("]", "").split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    if how == "missing":
        del place[last]
    else:
        place[last] = None
    with pytest.raises(ContractFault) as caught:
        parse_declaration(document)
    assert caught.value.code == "contract_undeclared"
    assert f"{path}: missing" in caught.value.message


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("text", "a declaration is a map"),
        (_document(chunk_length=0), "chunk_length"),
        (_document(chunk_length="8"), "chunk_length"),
        (_document(colour="red"), "colour: unknown name"),
        (_document(state="sometimes"), "state"),
        (_document(chunk_length=float("nan")), "no place in a declaration"),
        (_document(emits={**ACTION.model_dump(mode="json"), "dim": 8}), "7 scalars, dim says 8"),
        (_document(version=2), "version"),
    ],
)
def test_everything_else_that_is_wrong_with_a_declaration_is_a_mismatch(document: Any, said: str) -> None:
    with pytest.raises(ContractFault) as caught:
        parse_declaration(document)
    assert caught.value.code == "contract_mismatch"
    assert said in caught.value.message


def test_an_operators_short_word_takes_the_channels_as_they_are_sent() -> None:
    choice = AsTheSuite(channels=("front", "ee_pos"), instruction=True, chunk_length=4, state="none")
    spec = as_suite(choice, STANDARD, ACTION)
    assert spec.expects == ObservationSpec(cameras=cameras()[:1], proprio=PROPRIO[:1])
    assert (spec.emits, spec.chunk_length, spec.state, spec.declared_by) == (ACTION, 4, "none", "operator")
    assert compare(STANDARD, ACTION, spec, replan_interval=4).fits


def test_an_operator_cannot_name_a_channel_that_is_not_sent() -> None:
    with pytest.raises(LockError, match="did you mean 'front'") as caught:
        as_suite(AsTheSuite(channels=("frnt",)), STANDARD, ACTION)
    assert caught.value.code == "contract_mismatch"
