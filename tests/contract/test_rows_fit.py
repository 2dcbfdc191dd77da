"""Acceptance cases of the policy contract on what fits together: rows 1 to 7, 15, 28 and 52."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trialplate import api, registry
from trialplate.cli import app, output
from trialplate.errors import LockError
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.matching import compare, refuse_mismatch
from trialplate.record import Row
from trialplate.spec.channels import CameraSpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import AdapterChoice
from trialplate.store.view import read_campaign
from trialplate.testing.reach import ReachWorld
from trialplate.testing.reach_channels import ACTION, PROPRIO

HEAD = """
schema = "trialplate.protocol/1"
name = "fit"
question = "does it fit?"
run_class = "development"
"""
SUITE = '[suite]\nname = "{suite}"\nversion = "1"\nscenarios = ["{scenario}"]\n'


class Desk:
    """A folder with a protocol and its policies, and the command line over it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.protocol, self._capsys = folder, folder / "protocol.toml", capsys
        shutil.copy(Path(__file__).parent / "fitting_policies.py", folder / "fitting_policies.py")

    def write(self, arms: str, *, suite: str = "toy-reach", scenario: str = "reach-001") -> None:
        self.protocol.write_text(HEAD + SUITE.format(suite=suite, scenario=scenario) + arms, encoding="utf-8")

    def arm(self, policy: str, *lines: str) -> None:
        self.write(f'[[arms]]\nname = "candidate"\npolicy = "fitting_policies.py:{policy}"\n' + "\n".join(lines))

    def call(self, *words: str, expect: int) -> dict[str, Any]:
        """Return what a command prints with ``--json``; its exit code must be as expected."""
        code = output.guarded(app, [*words, "--json"])
        printed = self._capsys.readouterr()
        assert code == expect, printed.out + printed.err
        document: dict[str, Any] = json.loads(printed.out)
        return document

    def read(self, *words: str, expect: int) -> str:
        """Return what a command prints for people."""
        code = output.guarded(app, [*words])
        printed = self._capsys.readouterr()
        assert code == expect, printed.out + printed.err
        return printed.out

    def lock(self, *, expect: int = 0) -> dict[str, Any]:
        return self.call("lock", str(self.protocol), "--out", str(self.folder / "study"), expect=expect)

    def refused(self, code: str) -> str:
        """Return the message of a refused lock, which must leave nothing behind."""
        document = self.lock(expect=2)
        assert document["error"] == code
        assert not (self.folder / "study").exists()
        message: str = document["message"]
        return message

    def run(self) -> Row:
        """Lock and run the one trial of the protocol; return its row."""
        self.lock()
        api.run(self.folder / "study" / "lock.json", workers=1, executor="serial")
        (row,) = read_campaign(self.folder / "study").rows
        return row

    def probe(self, *, scenario: str, expect: int) -> dict[str, dict[str, str]]:
        """Return the findings of ``probe env`` on a world that lies in one way, by channel."""
        self.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n', suite="toy-faults", scenario=scenario)
        document = self.call("probe", "env", str(self.protocol), expect=expect)
        return {finding["channel"]: finding for finding in document["profiles"]["standard"]}


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


REORDER = 'adapters = [{name = "quat_reorder", target = "proprio:ee_quat", params = {from = "%s", to = "%s"}}]'
GRIPPER = (
    'adapters = [{name = "gripper_affine", target = "action:gripper",'
    " params = {from_closed = 1, from_open = -1, to_closed = 0, to_open = 1}}]"
)


def test_row_01_a_state_in_another_order_is_refused_naming_both_and_nothing_is_attempted(desk: Desk) -> None:
    desk.arm("Fitting", 'profile = "state-xyzw"')
    message = desk.refused("contract_mismatch")
    assert "proprio.ee_quat.rotation: environment quat_xyzw, policy quat_wxyz" in message
    assert message.endswith("`trialplate policy check` prints the adapters as lines to paste.")
    document = desk.call("policy", "check", str(desk.protocol), expect=1)
    (difference,) = document["arms"]["candidate"]["differences"]
    assert (difference["environment"], difference["policy"]) == ("quat_xyzw", "quat_wxyz")


@pytest.mark.parametrize(
    ("policy", "profile", "orders"),
    [("Fitting", "state-xyzw", ("quat_xyzw", "quat_wxyz")), ("Xyzw", "state", ("quat_wxyz", "quat_xyzw"))],
)
def test_row_02_the_adapter_of_the_protocol_makes_it_run_and_stands_in_lock_and_result(
    desk: Desk, policy: str, profile: str, orders: tuple[str, str]
) -> None:
    desk.arm(policy, f'profile = "{profile}"', REORDER % orders)
    assert desk.call("policy", "check", str(desk.protocol), expect=0)["fits"]
    row = desk.run()
    assert (row.fault_code, row.control_steps > 3) == (None, True)
    (outcome,) = api.score(desk.folder / "study")
    assert outcome.status == "PASS"
    (arm,) = json.loads((desk.folder / "study" / "lock.json").read_text())["arms"]
    (adapter,) = arm["registration"]["adapters"]
    assert adapter["name"] == "quat_reorder"
    assert adapter["params"] == {"target": "proprio:ee_quat", "from": orders[0], "to": orders[1]}
    assert row.registration_sha256 == arm["registration_sha256"]


def test_row_02_converting_twice_shows_as_two_adapters(desk: Desk) -> None:
    there, back = REORDER % ("quat_wxyz", "quat_xyzw"), REORDER % ("quat_xyzw", "quat_wxyz")
    desk.arm("Fitting", 'profile = "state"', there.removesuffix("]") + "," + back.removeprefix("adapters = ["))
    desk.run()
    (arm,) = json.loads((desk.folder / "study" / "lock.json").read_text())["arms"]
    assert [item["params"]["to"] for item in arm["registration"]["adapters"]] == ["quat_xyzw", "quat_wxyz"]


def test_row_03_numbers_sent_in_another_order_than_declared_are_flagged_by_the_known_poses(desk: Desk) -> None:
    findings = desk.probe(scenario="fault-quat-order", expect=1)
    assert findings["proprio:ee_quat"]["verdict"] == "contradicts"
    assert findings["proprio:ee_quat"]["declared"] == "quat_wxyz"
    assert "all of them fit quat_xyzw" in findings["proprio:ee_quat"]["detail"]
    assert {f["verdict"] for name, f in findings.items() if name != "proprio:ee_quat"} == {"agrees"}


def test_row_03_a_contradiction_is_told_with_the_channel_and_what_to_do(desk: Desk) -> None:
    desk.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n', suite="toy-faults", scenario="fault-quat-order")
    told = desk.read("probe", "env", str(desk.protocol), expect=1)
    assert "NOT AS DECLARED: proprio:ee_quat." in told
    assert "correct the declaration in the suite's profile" in told
    desk.write('[[arms]]\nname = "a"\npolicy = "control:null"\n', suite="toy", scenario="toy-001")
    assert "NOT PROBED: world. Nothing is known" in desk.read("probe", "env", str(desk.protocol), expect=1)
    desk.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n')
    assert "what is sent is what is declared" in desk.read("probe", "env", str(desk.protocol), expect=0)


@pytest.mark.parametrize(
    ("scenario", "code", "said"),
    [
        ("fault-reset-fault", "reset_failed", "does not come to rest"),
        (
            "fault-reset-raises",
            "simulator_crash",
            "failed while it was probed: RuntimeError: this world cannot be built",
        ),
    ],
)
def test_row_03_a_world_that_fails_is_told_and_not_called_right(
    desk: Desk, scenario: str, code: str, said: str
) -> None:
    desk.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n', suite="toy-faults", scenario=scenario)
    document = desk.call("probe", "env", str(desk.protocol), expect=2)
    assert document["error"] == code
    assert said in document["message"]


def test_row_03_a_world_that_sends_what_it_declares_agrees_under_every_profile(desk: Desk) -> None:
    desk.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n')
    for profile in ("standard", "state", "state-xyzw", "front", "history"):
        document = desk.call("probe", "env", str(desk.protocol), "--profile", profile, expect=0)
        assert {finding["verdict"] for finding in document["profiles"][profile]} == {"agrees"}


def test_row_03_a_world_that_cannot_be_put_into_known_states_is_never_called_right(desk: Desk) -> None:
    desk.write('[[arms]]\nname = "a"\npolicy = "control:null"\n', suite="toy", scenario="toy-001")
    document = desk.call("probe", "env", str(desk.protocol), expect=1)
    assert not document["agrees"]
    (finding,) = document["profiles"]["standard"]
    assert finding["verdict"] == "not probed"
    assert "cannot be put into known states" in finding["detail"]


def test_row_04_a_gripper_of_other_polarity_and_range_is_refused(desk: Desk) -> None:
    desk.arm("Fitting", 'profile = "state"', "options = {closed = 1.0, open_ = -1.0}")
    message = desk.refused("contract_mismatch")
    assert "action.gripper.gripper: environment {closed 0, open 1}, policy {closed 1, open -1}" in message
    assert 'name = "gripper_affine"' in message


def test_row_04_with_gripper_affine_it_closes_where_the_other_opens(desk: Desk) -> None:
    desk.arm("Fitting", 'profile = "state"', "options = {closed = 1.0, open_ = -1.0}", GRIPPER)
    row = desk.run()
    (outcome,) = api.score(desk.folder / "study")
    assert (row.fault_code, outcome.status) == (None, "PASS")


def test_row_04_a_gripper_that_reports_the_other_way_round_is_flagged(desk: Desk) -> None:
    finding = desk.probe(scenario="fault-gripper-sign", expect=1)["proprio:gripper"]
    assert finding["verdict"] == "contradicts"
    assert "sent 1 closed, 0 open: the other way round" in finding["detail"]


def test_row_04_the_lines_that_a_check_prints_make_the_policy_fit_when_they_are_pasted(desk: Desk) -> None:
    desk.arm("Fitting", 'profile = "state-xyzw"', "options = {closed = 1.0, open_ = -1.0}")
    told = desk.read("policy", "check", str(desk.protocol), expect=1)
    assert "arm candidate: DOES NOT FIT" in told
    assert "* action.gripper.gripper: the adapter gripper_affine below" in told
    assert "behind them it fits:" in told
    lines = told[told.index("[[arms.adapters]]") :]
    assert lines.count("[[arms.adapters]]") == 2
    desk.protocol.write_text(desk.protocol.read_text(encoding="utf-8") + "\n" + lines, encoding="utf-8")
    told = desk.read("policy", "check", str(desk.protocol), expect=0)
    assert "arm candidate: fits" in told
    assert "[[arms.adapters]]" not in told
    assert desk.run().fault_code is None


def test_row_04_an_arm_that_has_adapters_is_shown_its_whole_list_and_what_no_adapter_bridges(desk: Desk) -> None:
    desk.arm(
        "Fitting",
        'profile = "state"',
        "options = {closed = 1.0, open_ = -1.0, chunk_length = 4}",
        "replan_interval = 8",
        "adapters = [{name = 'unit_convert', target = 'proprio:ee_pos', params = {from = 'm', to = 'mm'}}]",
    )
    told = desk.read("policy", "check", str(desk.protocol), expect=1)
    assert "register at most replan_interval = 4" in told
    assert "in place of its adapters; behind them these still stand: replan_interval" in told
    assert told.count("[[arms.adapters]]") == 3


def test_row_05_a_needed_state_that_is_not_sent_is_refused_and_not_zero_filled(desk: Desk) -> None:
    desk.arm("NeedsState")
    message = desk.refused("contract_mismatch")
    assert "proprio.state: environment nothing, policy expected" in message
    assert "Nothing is zero-filled" in message


def test_row_06_a_policy_with_two_cameras_is_refused_where_there_is_one(desk: Desk) -> None:
    desk.arm("TwoCameras", 'profile = "front"')
    assert "cameras.wrist: environment nothing" in desk.refused("contract_mismatch")
    desk.arm("TwoCameras", 'profile = "standard"')
    desk.lock()


def test_row_06_a_check_names_the_profiles_that_have_what_is_lacking(desk: Desk) -> None:
    desk.arm("TwoCameras", 'profile = "front"')
    told = desk.read("policy", "check", str(desk.protocol), expect=1)
    assert 'profile = "standard"' in told
    desk.arm("NeedsState", 'profile = "front"')
    assert "profile =" not in desk.read("policy", "check", str(desk.protocol), expect=1)


def test_row_06_one_camera_cannot_feed_both_of_a_policy(desk: Desk) -> None:
    desk.arm(
        "TwoCameras",
        'profile = "front"',
        'options = {first = "base", second = "left"}',
        "adapters = [{name = 'rename', target = 'camera:front', params = {to = 'base'}},"
        " {name = 'rename', target = 'camera:front', params = {to = 'left'}}]",
    )
    assert "adapters[1]: duplicate_camera_mapping" in desk.refused("duplicate_camera_mapping")


def test_row_06_the_camera_that_is_not_used_is_recorded(desk: Desk) -> None:
    desk.write('[[arms]]\nname = "a"\npolicy = "control:scripted"\n')
    desk.lock()
    (arm,) = json.loads((desk.folder / "study" / "lock.json").read_text())["arms"]
    assert {"camera:front", "camera:wrist", "proprio:gripper"} <= set(arm["contract"]["unused_channels"])


@pytest.mark.parametrize(
    ("scenario", "seen"), [("fault-image-flipped", "flip_v, rgb"), ("fault-image-bgr", "upright, bgr")]
)
def test_row_07_a_picture_that_is_not_sent_as_declared_is_flagged_by_the_colour_card(
    desk: Desk, scenario: str, seen: str
) -> None:
    findings = desk.probe(scenario=scenario, expect=1)
    assert findings["camera:front"]["verdict"] == "contradicts"
    assert findings["camera:front"]["detail"] == f"what is sent is {seen}"
    assert findings["camera:wrist"]["verdict"] == "agrees"


def test_row_15_a_replan_interval_beyond_the_declared_chunk_is_refused(desk: Desk) -> None:
    desk.arm("Fitting", 'profile = "state"', "options = {chunk_length = 4}", "replan_interval = 8")
    assert "replan_interval: environment 8, policy 4" in desk.refused("replan_exceeds_chunk")


def _many_cameras(count: int) -> ObservationSpec:
    return ObservationSpec(
        instruction=False,
        cameras=tuple(
            CameraSpec(
                name=f"camera-{number}", height=720, width=1280, layout="hwc", color="rgb", orientation="upright"
            )
            for number in range(count)
        ),
    )


@pytest.mark.parametrize("count", [3, 24])
def test_row_28_large_observations_that_fit_pass(count: int) -> None:
    spec = _many_cameras(count)
    assert spec.size_bytes == count * 2764800
    declared = PolicySpec(expects=spec, emits=ACTION)
    assert compare(spec, ACTION, declared, replan_interval=1, max_message_bytes=2**26).fits


def test_row_28_one_camera_too_many_is_refused_naming_both_sizes() -> None:
    spec = _many_cameras(25)
    match = compare(spec, ACTION, PolicySpec(expects=spec, emits=ACTION), replan_interval=1, max_message_bytes=2**26)
    with pytest.raises(LockError) as caught:
        refuse_mismatch("candidate", match)
    assert caught.value.code == "message_too_large"
    assert str(25 * 2764800 + 65536) in caught.value.message
    assert "67108864" in caught.value.message


@pytest.mark.parametrize(
    "name", ["object_pose", "object-poses", "object.pos", "env_seed", "dense-reward", "rewards", "front_segmentation",
             "is_success", "task_ordinal", "oracle_plan", "sim-state", "scores", "goal_pose"],
)  # fmt: skip
def test_row_52_a_privileged_name_is_refused_however_it_is_spelt(name: str) -> None:
    channel = PROPRIO[0].model_copy(update={"name": name})
    with pytest.raises(ValueError, match=f"privileged_channel: '{name}'"):
        ObservationSpec(proprio=(channel,))


@pytest.mark.parametrize(
    "name", ["object_estimate", "robot0_gripper_qpos", "ee_pos", "seedling", "joint_pos", "state"]
)
def test_row_52_a_name_that_only_looks_like_one_is_not(name: str) -> None:
    assert ObservationSpec(proprio=(PROPRIO[0].model_copy(update={"name": name}),)).names == (name,)


def test_row_52_a_policy_that_declares_a_privileged_channel_is_refused(desk: Desk) -> None:
    policy = (desk.folder / "fitting_policies.py").read_text(encoding="utf-8")
    (desk.folder / "fitting_policies.py").write_text(policy.replace('"state"', '"object_pose"'), encoding="utf-8")
    desk.arm("NeedsState")
    document = desk.lock(expect=2)
    assert "privileged_channel: 'object_pose'" in document["message"]


def test_row_52_a_suite_that_would_send_a_privileged_channel_is_refused(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaking_suite.py").write_text(
        "from trialplate.spec.channels import ObservationSpec, ProprioSpec\n"
        "from trialplate.testing.reach import reach_suite\n"
        "pose = ProprioSpec(name='object_pose', dim=7, unit='1', frame='world', rotation=None, gripper=None)\n"
        "SUITE = reach_suite('leaking', profiles={'standard': ObservationSpec(proprio=(pose,))})\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("leaking", "leaking_suite:SUITE", registry.SUITES)
    monkeypatch.setattr(registry, "_suite_points", lambda: {"leaking": point})
    desk.write('[[arms]]\nname = "a"\npolicy = "control:null"\n', suite="leaking")
    document = desk.lock(expect=2)
    assert "privileged_channel: 'object_pose' would show the policy what only scorers see" in document["message"]
    assert not (tmp_path / "study").exists()


def test_deltas_from_the_start_of_a_chunk_are_refused_although_suite_and_policy_agree_on_them(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chunky_suite.py").write_text(
        "from dataclasses import replace\nfrom trialplate.testing.reach import REACH\n"
        "first, *rest = REACH.action.components\n"
        "action = REACH.action.model_copy(\n"
        "    update={'components': (first.model_copy(update={'delta_base': 'chunk_start'}), *rest)}\n)\n"
        "SUITE = replace(REACH, name='chunky', action=action)\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("chunky", "chunky_suite:SUITE", registry.SUITES)
    monkeypatch.setattr(registry, "_suite_points", lambda: {"chunky": point})
    agrees = 'as_suite = {channels = ["ee_pos"]}\nidentity = {kind = "fixed_program"}\n'
    desk.write(f'[[arms]]\nname = "a"\npolicy = "served"\n{agrees}', suite="chunky")
    document = desk.lock(expect=2)
    assert "'ee_delta_pos' is a delta from the start of its chunk" in document["message"]
    assert "expected 'step'" in document["message"] and not (tmp_path / "study").exists()


def test_a_picture_reaches_the_policy_as_its_adapter_turns_it() -> None:
    world = ReachWorld(body="own", profile="standard")
    suite = registry.load_suite("toy-reach")
    world.reset(suite.scenarios()[0], seed=0)
    world.colour_card({"top_left": (255, 0, 0), "top_right": (0, 255, 0), "bottom_left": (0, 0, 255),
                       "bottom_right": (255, 255, 0)})  # fmt: skip
    chain = AdapterChain(
        [AdapterChoice(name="rotate-180", target="camera:front")], suite.profiles["standard"], suite.action
    )
    seen = chain.observe(dict(world.sense(("front",), proprio=()).images), {})[0]["front"]
    corners = [tuple(int(v) for v in seen[corner]) for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1))]
    assert corners == [(255, 255, 0), (0, 0, 255), (0, 255, 0), (255, 0, 0)]
    assert np.asarray(seen).dtype == np.uint8
