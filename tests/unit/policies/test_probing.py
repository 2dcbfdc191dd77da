"""Known states against what is sent: every lie of a world is flagged at its channel, and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from trialplate.errors import Unavailable
from trialplate.interfaces import Sensed
from trialplate.policies.adapters import rotations
from trialplate.policies.probing import CARD, POSES, Finding, probe_environment
from trialplate.spec.channels import CameraSpec, ObservationSpec, ProprioSpec
from trialplate.testing.reach import PROFILES, ReachWorld, scenarios
from trialplate.testing.toy import STANDARD, ToyWorld

SPEC = PROFILES["standard"]


class Lying(ReachWorld):
    """Sends what a function makes of what is right."""

    lie: Callable[[str, np.ndarray], Any] = staticmethod(lambda name, values: values)  # type: ignore[assignment]

    def sense(self, cameras: Any, *, proprio: Any) -> Any:
        sensed = super().sense(cameras, proprio=proprio)
        images, numbers = sensed.images, sensed.proprio
        return type(sensed)(
            {name: self.lie(name, values) for name, values in images.items()},
            {name: self.lie(name, values) for name, values in numbers.items()},
        )


class Shy:
    """The same world without the second interface."""

    def __init__(self) -> None:
        self._world = ReachWorld(body="own", profile="standard")
        self._world.reset(scenarios()[0], seed=0)
        self.sense = self._world.sense


def probed(lie: Callable[[str, Any], Any], spec: ObservationSpec = SPEC) -> Mapping[str, Finding]:
    world = Lying(body="own", profile="standard")
    world.reset(scenarios()[0], seed=0)
    world.lie = lie  # type: ignore[method-assign]
    return {finding.channel: finding for finding in probe_environment(world, spec)}


def only(channel: str, change: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, values: change(values) if name == channel else values


def test_a_world_that_tells_the_truth_agrees_everywhere() -> None:
    found = probed(lambda name, values: values)
    assert set(found) == {"proprio:ee_quat", "proprio:gripper", "camera:front", "camera:wrist"}
    assert {finding.verdict for finding in found.values()} == {"agrees"}


@pytest.mark.parametrize("sent", sorted(rotations.DIMS))
@pytest.mark.parametrize("declared", sorted(rotations.DIMS))
def test_the_known_poses_tell_every_representation_from_every_other(sent: str, declared: str) -> None:
    channel = SPEC.proprio[1].model_copy(update={"rotation": declared, "dim": rotations.DIMS[declared]})
    spec = ObservationSpec(proprio=(ProprioSpec.model_validate(dict(channel)),))
    found = probed(only("ee_quat", lambda wxyz: rotations.from_quaternion(wxyz, sent)), spec)["proprio:ee_quat"]
    same = {sent, declared} == {"axis_angle_pi", "axis_angle_2pi"}  # alike up to half a turn, and no pose goes beyond
    assert (found.verdict == "agrees") == (sent == declared or same)
    if found.verdict != "agrees":
        named = {"axis_angle_pi", "axis_angle_2pi"} if sent.startswith("axis_angle") else {sent}
        assert found.probe == "form" or any(f"all of them fit {name}" in found.detail for name in named)


def test_the_inverse_rotation_is_flagged_and_named() -> None:
    found = probed(only("ee_quat", lambda wxyz: wxyz * np.array([1.0, -1.0, -1.0, -1.0])))["proprio:ee_quat"]
    assert found.verdict == "contradicts"
    assert "quat_wxyz of the inverse rotation" in found.detail


def test_the_other_sign_of_a_quaternion_is_the_same_rotation() -> None:
    assert probed(only("ee_quat", lambda wxyz: -wxyz))["proprio:ee_quat"].verdict == "agrees"


def test_numbers_that_are_no_rotation_are_flagged_without_an_explanation() -> None:
    found = probed(only("ee_quat", lambda wxyz: np.full(4, 0.1)))["proprio:ee_quat"]
    assert found.verdict == "contradicts"
    assert "fit" not in found.detail


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda picture: picture[::-1], "what is sent is flip_v, rgb"),
        (lambda picture: picture[:, ::-1], "what is sent is flip_h, rgb"),
        (lambda picture: picture[::-1, ::-1], "what is sent is rot180, rgb"),
        (lambda picture: picture[..., ::-1], "what is sent is upright, bgr"),
        (lambda picture: picture[::-1, :, ::-1], "what is sent is flip_v, bgr"),
        (lambda picture: picture.transpose(1, 0, 2), "rows and columns are exchanged"),
        (lambda picture: picture // 8, "no view of the card"),
        (lambda picture: np.roll(picture, 16, axis=1), "no view of the card"),
    ],
)
def test_each_way_of_turning_a_picture_is_told_from_the_others(change: Callable[[Any], Any], detail: str) -> None:
    found = probed(only("wrist", change))
    assert found["camera:wrist"].verdict == "contradicts"
    assert detail in found["camera:wrist"].detail
    assert found["camera:front"].verdict == "agrees"


def test_a_card_in_dim_light_is_still_read() -> None:
    assert probed(only("front", lambda picture: picture // 3))["camera:front"].verdict == "agrees"


@pytest.mark.parametrize(("orientation", "color"), [("flip_h", "rgb"), ("rot180", "bgr")])
def test_what_is_declared_turned_has_to_be_sent_turned(orientation: str, color: str) -> None:
    camera = CameraSpec.model_validate({**dict(SPEC.cameras[0]), "orientation": orientation, "color": color})
    spec = ObservationSpec(cameras=(camera,))
    turn = {"flip_h": lambda p: p[:, ::-1], "rot180": lambda p: p[::-1, ::-1, ::-1]}[orientation]
    assert probed(only("front", turn), spec)["camera:front"].verdict == "agrees"
    assert probed(lambda name, values: values, spec)["camera:front"].verdict == "contradicts"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda opening: 1 - opening, "the other way round"),
        (lambda opening: 0.08 * opening, "sent 0 closed, 0.08 open"),
        (lambda opening: 0 * opening, "sent 0 closed, 0 open"),
    ],
)
def test_a_gripper_of_another_sign_or_range_is_flagged(change: Callable[[Any], Any], detail: str) -> None:
    found = probed(only("gripper", change))["proprio:gripper"]
    assert found.verdict == "contradicts"
    assert detail in found.detail


@pytest.mark.parametrize(
    ("channel", "change"),
    [
        ("camera:front", lambda picture: picture.transpose(2, 0, 1)),
        ("camera:front", lambda picture: picture.astype(np.float32)),
        ("proprio:ee_quat", lambda values: values[:3]),
        ("proprio:ee_pos", lambda values: values.astype(np.float32)),
    ],
)
def test_a_channel_of_another_form_is_flagged_before_anything_is_read_from_it(
    channel: str, change: Callable[[Any], Any]
) -> None:
    found = probed(only(channel.partition(":")[2], change))[channel]
    assert (found.verdict, found.probe) == ("contradicts", "form")


def test_a_world_without_known_states_is_reported_channel_by_channel_as_not_probed() -> None:
    findings = probe_environment(Shy(), SPEC)  # type: ignore[arg-type]
    assert [finding.verdict for finding in findings] == ["not probed"] * 4
    toy = ToyWorld(body="own", profile="standard")
    (finding,) = probe_environment(toy, STANDARD)
    assert (finding.channel, finding.verdict) == ("world", "not probed")


def test_a_pose_or_card_that_was_not_reached_leaves_the_channel_unprobed() -> None:
    class Stiff(ReachWorld):
        def pose_for_probe(self, wxyz: tuple[float, float, float, float]) -> tuple[str, ...]:
            return super().pose_for_probe(wxyz) if wxyz == POSES["identity"] else ()

        def gripper_for_probe(self, opening: Any) -> tuple[str, ...]:
            return ()

        def colour_card(self, corners: Mapping[str, tuple[int, int, int]]) -> tuple[str, ...]:
            super().colour_card(corners)
            return ("front",)

    world = Stiff(body="own", profile="standard")
    world.reset(scenarios()[0], seed=0)
    found = {finding.channel: finding for finding in probe_environment(world, SPEC)}
    assert "90 deg about z" in found["proprio:ee_quat"].detail
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert verdicts == {
        "proprio:ee_quat": "not probed",
        "proprio:gripper": "not probed",
        "camera:front": "agrees",
        "camera:wrist": "not probed",
    }


def test_no_turn_flip_or_swap_brings_the_colours_of_the_card_back_into_their_places() -> None:
    assert len({CARD[name][::-1] for name in CARD} - set(CARD.values())) == 1  # the fourth shows that channels swap
    assert len(set(CARD.values())) == 4


def test_where_nothing_can_draw_the_numbers_are_probed_all_the_same() -> None:
    class Blind(ReachWorld):
        def sense(self, cameras: Any, *, proprio: Any) -> Sensed:
            if cameras:
                raise Unavailable("cameras need OpenGL, and this process has none")
            return super().sense((), proprio=proprio)

    world = Blind(body="own", profile="standard")
    world.reset(scenarios()[0], seed=0)
    findings = {finding.channel: finding for finding in probe_environment(world, PROFILES["standard"])}
    assert findings["proprio:ee_quat"].verdict == findings["proprio:gripper"].verdict == "agrees"
    for name in ("camera:front", "camera:wrist"):
        assert (findings[name].verdict, findings[name].probe) == ("not probed", "colour card")
        assert "OpenGL" in findings[name].detail
