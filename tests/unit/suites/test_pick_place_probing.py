"""The world of the suite in known states: what it sends is what it declares, and a lie would be seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trialplate.interfaces import ProbeableEnvironment, Scenario, Sensed
from trialplate.policies.probing import CARD, POSES, probe_environment
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.world.environment import PickPlace

STANDARD = SUITE.profiles["standard"]
OfVariant = Callable[[str], list[Scenario]]


class Lying(PickPlace):
    """The same world with a wire crossed."""

    lie = ""

    def sense(self, cameras, *, proprio):  # type: ignore[no-untyped-def]
        honest = super().sense(cameras, proprio=proprio)
        images, numbers = dict(honest.images), dict(honest.proprio)
        if self.lie == "order" and "ee_quat" in numbers:
            numbers["ee_quat"] = np.roll(numbers["ee_quat"], -1)
        if self.lie == "conjugate" and "ee_quat" in numbers:
            numbers["ee_quat"] = numbers["ee_quat"] * (1.0, -1.0, -1.0, -1.0)
        if self.lie == "upside down" and "wrist" in images:
            images["wrist"] = images["wrist"][::-1]
        if self.lie == "bgr" and "primary" in images:
            images["primary"] = images["primary"][..., ::-1]
        return Sensed(images, numbers)


@pytest.fixture(scope="module")
def lying():  # type: ignore[no-untyped-def]
    environment = Lying()
    yield environment
    environment.close()


def test_the_world_can_be_probed(world: PickPlace) -> None:
    assert isinstance(world, ProbeableEnvironment)


@pytest.mark.gl
@pytest.mark.parametrize("variant", ["standard_objects", "low_lighting", "occluded_objects", "camera"])
def test_what_is_sent_is_what_is_declared_in_every_light(
    world: PickPlace, of_variant: OfVariant, variant: str
) -> None:
    world.reset(of_variant(variant)[0], seed=0)
    findings = {finding.channel: finding for finding in probe_environment(world, STANDARD)}
    assert set(findings) == {"proprio:ee_quat", "camera:primary", "camera:wrist"}
    assert {finding.verdict for finding in findings.values()} == {"agrees"}, findings


@pytest.mark.gl
@pytest.mark.parametrize(
    ("lie", "channel", "seen"),
    [
        ("order", "proprio:ee_quat", "all of them fit quat_xyzw"),
        ("conjugate", "proprio:ee_quat", "quat_wxyz of the inverse rotation"),
        ("upside down", "camera:wrist", "what is sent is flip_v, rgb"),
        ("bgr", "camera:primary", "what is sent is upright, bgr"),
    ],
)
def test_a_crossed_wire_is_seen_and_nothing_else_is_blamed(lying: Lying, lie: str, channel: str, seen: str) -> None:
    lying.lie = lie
    lying.reset(SUITE.scenarios()[0], seed=0)
    findings = {finding.channel: finding for finding in probe_environment(lying, STANDARD)}
    assert findings[channel].verdict == "contradicts"
    assert seen in findings[channel].detail
    assert {f.verdict for name, f in findings.items() if name != channel} == {"agrees"}


def test_the_hand_is_turned_by_its_joints_within_their_ranges(world: PickPlace) -> None:
    world.reset(SUITE.scenarios()[0], seed=0)
    model, data = world.world.model, world.world.data
    ranges = np.array([model.joint(name).range for name in world.robot.joints])
    for wxyz in POSES.values():
        assert world.pose_for_probe(wxyz) == ("ee_quat",)
        joint_rad = world.sense((), proprio=("joint_pos",)).proprio["joint_pos"]
        assert ((ranges[:, 0] <= joint_rad) & (joint_rad <= ranges[:, 1])).all()
        w, x, y, z = wxyz
        first_column = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
        np.testing.assert_allclose(data.body(world.robot.hand_body).xmat[::3], first_column, atol=1e-5)


def test_the_fingers_reach_both_ends(world: PickPlace) -> None:
    world.reset(SUITE.scenarios()[0], seed=0)
    for opening, expected_m in (("closed", 0.0), ("open", 0.04)):
        assert world.gripper_for_probe(opening) == ("finger_pos",)
        np.testing.assert_allclose(world.sense((), proprio=("finger_pos",)).proprio["finger_pos"], expected_m)


@pytest.mark.gl
def test_a_reset_puts_back_whatever_a_probe_did(world: PickPlace) -> None:
    scenario = SUITE.scenarios()[0]
    before = world.reset(scenario, seed=0)
    shown = world.sense(("primary", "wrist"), proprio=()).images
    world.pose_for_probe(POSES["90 deg about x"])
    world.gripper_for_probe("closed")
    world.colour_card(CARD)
    probed = world.sense(("primary", "wrist"), proprio=()).images
    assert all((probed[name] != shown[name]).any() for name in shown)
    again = world.reset(scenario, seed=0)
    assert again == before
    after = world.sense(("primary", "wrist"), proprio=()).images
    assert all(np.array_equal(after[name], shown[name]) for name in shown)
