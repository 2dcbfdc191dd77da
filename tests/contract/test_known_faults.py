"""Faults that people have met in harnesses of robot policies, tried on this one: one row, one test.

Of the kinds rotation, gripper, images, action vector, chunks, transport, policy identity, shared policy state and
parallel slots; rows that another test already proves stand there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rollout import play
from toy_campaigns import SCRIPTED, cli, counting

from trialplate import api, exam
from trialplate.comparison import compare_campaigns
from trialplate.errors import PolicyFault, UsageError
from trialplate.policies.adapters.rotations import convert
from trialplate.policies.validation import validate_chunk
from trialplate.record import ActionChunk
from trialplate.run.campaign import _refuse_shared
from trialplate.run.frames import frames_digest
from trialplate.spec.channels import ActionComponent, GripperRange, ProprioSpec
from trialplate.spec.registration import NormalizationIdentity
from trialplate.store.view import read_campaign
from trialplate.testing.reach import REACH
from trialplate.verification import score_view

FAULTY = 'name = "toy-faults"\nversion = "1"\nscenarios = [%s]'
IN_ORDER = {"seed = 1": 'order = "manifest"'}


def faults(*kinds: str) -> dict[str, str]:
    """Edits of the protocol: suite toy-faults with these of its scenarios, in the order of its manifest."""
    return IN_ORDER | {'name = "toy"\nversion = "1"': FAULTY % ", ".join(f'"fault-{kind}"' for kind in kinds)}


def reach(*scenarios: str, profile: str = "standard", more: str = "") -> dict[str, str]:
    """Edits of the protocol: suite toy-reach with these scenarios and this profile."""
    listed = ", ".join(f'"{name}"' for name in scenarios)
    return IN_ORDER | {
        'name = "toy"\nversion = "1"': f'name = "toy-reach"\nversion = "1"\nscenarios = [{listed}]',
        'policy = "mine.py:Arm"': f'policy = "mine.py:Arm"\nprofile = "{profile}"\n{more}',
    }


# -- rotation --------------------------------------------------------------------------------------------------


def test_the_same_state_vector_is_another_rotation_under_the_other_declaration_and_the_lock_says_which(
    campaign: Callable[..., Path],
) -> None:
    vector = np.array([[0.7071, 0.0, 0.0, 0.7071]])
    turns = {form: convert(vector, form, to="axis_angle_pi").round(3).tolist() for form in ("quat_wxyz", "quat_xyzw")}
    assert turns == {"quat_wxyz": [[0.0, 0.0, 1.571]], "quat_xyzw": [[1.571, 0.0, 0.0]]}
    for profile, order in (("state", "quat_wxyz"), ("state-xyzw", "quat_xyzw")):
        folder = campaign(profile, STATE.replace("WHICH", profile), edits=reach("reach-001", profile=profile))
        (arm,) = json.loads((folder / "lock.json").read_bytes())["arms"]
        named = {channel["name"]: channel["rotation"] for channel in arm["declares"]["expects"]["proprio"]}
        assert named["ee_quat"] == order


STATE = """
from trialplate import PolicySpec
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_controls import Scripted


class Arm(Scripted):
    def spec(self):
        return PolicySpec(expects=PROFILES["WHICH"].only("ee_pos", "ee_quat"), emits=super().spec().emits)
"""


# -- gripper ---------------------------------------------------------------------------------------------------


def test_a_gripper_command_of_128_in_a_range_up_to_1_is_rejected_with_row_and_value_and_never_clipped() -> None:
    rows = np.zeros((3, 7))
    rows[1, 6] = 128.0
    with pytest.raises(PolicyFault, match=r"row 1, gripper\[0\]: expected in \[0.0, 1.0\], got 128.0") as caught:
        validate_chunk(rows, REACH.action, max_rows=8)
    assert (caught.value.code, caught.value.row, caught.value.component) == ("invalid_action", 1, "gripper[0]")
    assert rows[1, 6] == 128.0


COMPONENT: Mapping[str, Any] = {
    "name": "gripper", "dim": 1, "kind": "gripper", "mode": "absolute", "delta_base": None, "unit": "1",
    "frame": None, "rotation": None, "gripper": GripperRange(closed=0.0, open=1.0), "low": (0.0,), "high": (1.0,),
}  # fmt: skip


@pytest.mark.parametrize(
    "missing", ["unit", "low", "high", "gripper", "mode", "kind", "delta_base", "frame", "rotation"]
)
def test_a_named_component_without_unit_range_or_meaning_is_no_declaration(missing: str) -> None:
    ActionComponent(**COMPONENT)
    with pytest.raises(ValidationError, match=missing):
        ActionComponent(**{key: value for key, value in COMPONENT.items() if key != missing})


@pytest.mark.parametrize("missing", ["unit", "frame", "rotation", "gripper"])
def test_a_named_state_channel_without_unit_or_meaning_is_no_declaration(missing: str) -> None:
    channel = {"name": "x", "dim": 1, "unit": "m", "frame": "base", "rotation": None, "gripper": None}
    ProprioSpec(**channel)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=missing):
        ProprioSpec(**{key: value for key, value in channel.items() if key != missing})  # type: ignore[arg-type]


# -- images ----------------------------------------------------------------------------------------------------

LOOKS = """
from pathlib import Path

import numpy as np

from trialplate import PolicySpec
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_controls import Scripted

SEEN = Path(__file__).with_name("seen.npy")


class Arm(Scripted):
    def spec(self):
        turned = PROFILES["front"].only("front", "ee_pos")
        camera = turned.cameras[0].model_copy(update={"orientation": "rot180"})
        return PolicySpec(expects=turned.model_copy(update={"cameras": (camera,)}), emits=super().spec().emits)

    def act(self, observation):
        if observation.step_index == 0:
            np.save(SEEN, observation.images["front"])
        return super().act(observation)
"""


def test_the_digest_of_the_first_picture_is_that_of_the_picture_behind_the_adapter(
    campaign: Callable[..., Path],
) -> None:
    turn = (
        '\n[[arms.adapters]]\nname = "image_orient"\ntarget = "camera:front"\n'
        'params = { from = "upright", to = "rot180" }\n'
    )
    folder = campaign("turned", LOOKS, edits=reach("reach-001", profile="front", more=turn))
    view = read_campaign(folder)
    first = view.load_trace(view.rows[0]).calls[0]
    seen = np.load(folder.parent / "study" / "seen.npy")
    assert first["frames_sha256"] == frames_digest({"front": seen})
    assert first["frames_sha256"] != frames_digest({"front": seen[::-1, ::-1]})  # what the camera sent


BEFORE = ("none", "reset-fault", "reset-raises", "step-fault", "step-raises", "step-refused")


def test_a_renderer_that_takes_its_worker_down_at_episode_7_costs_that_episode_and_no_other(
    campaign: Callable[..., Path],
) -> None:
    kinds = (*BEFORE, "step-aborts", "quat-order", "image-bgr")
    folder = campaign("workers", REACHES, edits=faults(*kinds), workers=2, executor="processes")
    view = read_campaign(folder)
    assert view.complete and [row.scenario for row in view.rows if row.fault_code == "worker_lost"] == [
        "fault-step-aborts"
    ]
    outcomes = {outcome.scenario: str(outcome.status) for outcome in score_view(view)}
    assert len(outcomes) == 9 and outcomes["fault-step-aborts"] == "ERROR"
    assert {outcomes[f"fault-{kind}"] for kind in ("none", "quat-order", "image-bgr")} == {"PASS"}


def test_a_renderer_that_takes_the_whole_run_down_at_episode_7_leaves_six_on_disk_and_a_run_that_goes_on(
    campaign: Callable[..., Path], tmp_path: Path
) -> None:
    kinds = (*BEFORE, "step-aborts", "quat-order")
    lock = campaign("locked", REACHES, edits=faults(*kinds), lock_only=True)
    died = cli("run", lock, "--executor", "serial")
    assert died.returncode < 0, died.stderr
    view = read_campaign(lock)
    assert [row.ordinal for row in view.rows] == list(range(6)) and len(view.interrupted) == 1
    went_on = cli("run", lock, "--resume")
    assert went_on.returncode == 1, went_on.stderr  # complete, with errors
    rows = read_campaign(lock).rows
    assert [(row.ordinal, row.termination) for row in rows[6:]] == [(6, "interrupted"), (7, "policy_stop")]
    assert api.verify(lock).findings == ()


REACHES = "from trialplate.testing.reach_controls import Scripted\n\n\nclass Arm(Scripted):\n    pass\n"


def declared_by_hand(**identity: str) -> dict[str, str]:
    """Edits of the protocol: a mailbox arm whose identity is told."""
    told = "".join(f"{key} = {value}\n" for key, value in identity.items())
    arm = f'policy = "mailbox"\nas_suite = {{ channels = ["hand"] }}\n\n[arms.identity]\nkind = "model"\n{told}'
    return {'policy = "mine.py:Arm"': arm}


def identities_that_differ(
    campaign: Callable[..., Path], one: Mapping[str, str], other: Mapping[str, str]
) -> set[str]:
    views = [
        read_campaign(campaign(name, "", edits=declared_by_hand(**told), lock_only=True))
        for name, told in (("one", one), ("other", other))
    ]
    (found,) = compare_campaigns(views[0], views[1:])
    (pair,) = found.arms
    assert found.comparable and pair.repetition is None
    return {difference.path for difference in pair.identity}


def test_two_runs_under_another_preprocessing_are_not_one_arm(campaign: Callable[..., Path]) -> None:
    one, other = ({"preprocess_sha256": f'"{digit * 64}"'} for digit in "12")
    assert identities_that_differ(campaign, one, other) == {"registration.preprocess_sha256"}


# -- action vector ---------------------------------------------------------------------------------------------


def test_a_scalar_without_a_bound_is_refused_unless_it_is_called_unlimited() -> None:
    open_ended = {**COMPONENT, "low": (None,)}
    with pytest.raises(ValidationError, match="unlimited"):
        ActionComponent(**open_ended)
    assert ActionComponent(**open_ended, bounds_reason="unlimited").low == (None,)
    with pytest.raises(ValidationError, match="bounds_reason"):
        ActionComponent(**COMPONENT, bounds_reason="unlimited")


def test_three_delta_rows_add_up_step_by_step_and_a_delta_that_does_not_say_its_base_is_no_declaration() -> None:
    rows = np.zeros((3, 7))
    rows[:, 0], rows[:, 6] = (0.01, 0.02, 0.03), 1.0
    trace = play(lambda observation: ActionChunk(rows), replan_interval=3, max_steps=3).attempt.recorder.trace()
    assert trace is not None
    moved_m = trace.measured["ee_pos_m"][-1, 0] - trace.measured["ee_pos_m"][0, 0]
    assert np.isclose(moved_m, 0.06)  # from the start of the chunk it would be 0.03
    delta = {**COMPONENT, "kind": "ee_position", "gripper": None, "mode": "delta", "unit": "m", "frame": "base"}
    with pytest.raises(ValidationError, match="delta_base is required for a delta"):
        ActionComponent(**delta)
    assert ActionComponent(**{**delta, "delta_base": "step"}) != ActionComponent(
        **{**delta, "delta_base": "chunk_start"}
    )


def test_normalisation_is_its_statistics_and_its_mode_and_another_mode_is_another_arm(
    campaign: Callable[..., Path],
) -> None:
    for alone in ({"stats_sha256": "1" * 64}, {"mode": "quantile"}):
        with pytest.raises(ValidationError):
            NormalizationIdentity.model_validate(alone)
    one, other = (
        {"normalization": f'{{ stats_sha256 = "{"1" * 64}", mode = "{mode}" }}'} for mode in ("quantile", "z_score")
    )
    assert identities_that_differ(campaign, one, other) == {"registration.normalization.mode"}


WRONG_DIM = counting(
    "trialplate.testing.reach_controls",
    "ActionChunk([[0.0] * 8]) if self.episodes == 1 else super().act(observation)",
)


def test_eight_numbers_of_seven_are_the_policys_error_a_world_that_breaks_is_ours_and_the_run_goes_on(
    campaign: Callable[..., Path],
) -> None:
    folder = campaign("typed", WRONG_DIM, edits=faults("none", "step-raises", "quat-order"))
    found = {outcome.scenario: (str(outcome.status), outcome.reason) for outcome in score_view(read_campaign(folder))}
    assert found == {
        "fault-none": ("FAIL", "invalid_action"),
        "fault-step-raises": ("ERROR", "simulator_crash"),
        "fault-quat-order": ("PASS", "chain_complete"),
    }
    message = str(read_campaign(folder).rows[0].fault_message)
    assert "expected 7 values, got 8" in message


# -- policy identity -------------------------------------------------------------------------------------------


def test_the_versions_below_two_runs_are_recorded_and_what_differs_is_listed(campaign: Callable[..., Path]) -> None:
    first, second = (read_campaign(campaign(name, SCRIPTED)) for name in ("first", "second"))
    other = json.loads(json.dumps(second.lock_document))
    assert "numpy" in other["distributions"] and "python" in other["machine"]
    other["distributions"]["numpy"]["version"] = "1.26.4"
    other["machine"]["processor"] = "another"
    (found,) = compare_campaigns(first, [replace(second, lock_document=other)])
    assert found.comparable and [d.path for d in found.environment] == [
        "distributions.numpy.version", "machine.processor",
    ]  # fmt: skip
    assert found.environment[0].b == "1.26.4"


# -- shared policy state and parallel slots --------------------------------------------------------------------


def test_several_workers_never_share_one_instance_behind_a_server() -> None:
    def lock(state: str) -> Any:
        arm = {"name": "a", "policy": "ws://127.0.0.1:9", "declares": {"state": state}}
        return SimpleNamespace(document={"arms": [arm]})

    with pytest.raises(UsageError, match="Run with 1 worker, not 4") as caught:
        _refuse_shared(lock("instance"), {"a"}, workers=4)
    assert caught.value.code == "instance_shared"
    _refuse_shared(lock("instance"), {"a"}, workers=1)
    _refuse_shared(lock("episode_keyed"), {"a"}, workers=4)


SLOW_TO_FAIL = """
import time

from trialplate import ActionChunk
from trialplate.testing.reach_controls import Scripted


class Arm(Scripted):
    def act(self, observation):
        if observation.proprio["ee_pos"][1] > 0:
            time.sleep(0.002)
            return ActionChunk([[0.0] * 6 + [1.0]])
        return super().act(observation)
"""


def test_slots_that_finish_early_take_the_next_planned_trial_and_no_failure_is_left_out(
    campaign: Callable[..., Path],
) -> None:
    every = tuple(f"reach-{number:03d}" for number in range(1, 11))
    folder = campaign("slots", SLOW_TO_FAIL, edits=reach(*every), workers=3, executor="processes")
    view = read_campaign(folder)
    assert [row.scenario for row in view.rows] == [trial.scenario for trial in view.schedule] and len(view.rows) == 10
    starts = [record["data"]["ordinal"] for record in view.records if record["type"] == "attempt.start"]
    assert starts == list(range(10))
    arm = exam.analyse_campaign(folder).arm("mine")
    assert (arm.counts.passed, arm.counts.failed, arm.counts.initiated) == (5, 5, 10)


def test_the_first_half_of_a_run_that_was_cut_off_has_no_rate(campaign: Callable[..., Path]) -> None:
    lock = campaign("cut", REACHES, edits=faults("none", "quat-order", "step-aborts", "image-bgr"), lock_only=True)
    assert cli("run", lock, "--executor", "serial").returncode < 0
    arm = exam.analyse_campaign(lock).arm("mine")
    assert arm.rate.rate is None and arm.state_reasons == ("incomplete_coverage",)
