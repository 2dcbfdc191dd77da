"""Acceptance cases of the policy contract that are read off the evidence; the row's number is in each name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_campaigns import SCRIPTED, cli, counting

from trialplate import api, exam
from trialplate.cli.rates import rate_cells
from trialplate.errors import SensorInvalid
from trialplate.picture_book import latencies
from trialplate.record import Outcome, StageResult, Status
from trialplate.run.health import check_frames
from trialplate.scoring.analysis import ArmAnalysis
from trialplate.scoring.summary import analyse_outcomes
from trialplate.store.disclosures import Leak
from trialplate.store.view import read_campaign
from trialplate.verification import score_view


def arm_of(folder: Path) -> ArmAnalysis:
    return exam.analyse_campaign(folder).arm("mine")


def made(number: int, status: str) -> Outcome:
    measured = status in ("PASS", "FAIL")
    return Outcome(
        trial_id=f"{number:06d}", arm="mine", scenario=f"s-{number}", family=f"s-{number}", domain="d", variant="v",
        repeat=0, status=Status(status), reason="made",
        stages=(StageResult("done", status == "PASS", None),) if measured else (), success_once=None,
        success_final=None, first_failed_stage=None, termination="step_limit", control_steps=9,
        trace_content_sha256=None, initial_state_sha256=None,
    )  # fmt: skip


def test_golden_ten_attempts_five_passed_two_failed_three_errored() -> None:
    statuses = ["PASS"] * 5 + ["FAIL"] * 2 + ["ERROR"] * 3
    analysis = analyse_outcomes([made(n, s) for n, s in enumerate(statuses)], planned={"mine": 10}, stages=["done"])
    arm = analysis.arms[0]
    assert (arm.counts.measured, arm.counts.valid) == (10, 7)
    assert f"{arm.rate.rate:.4f}" == "0.5000" and f"{arm.other_rates[0].rate:.4f}" == "0.7143"
    assert (arm.bounds.error_low, arm.bounds.error_high) == (0.50, 0.80)
    cells = rate_cells(analysis.document()["arms"][0])
    assert cells[:2] == ("5/10", "50") and cells[3:5] == ("valid 71.4", "50.0–80.0")


FAULT_TABLE = '[fault_table]\nobservation_unhealthy = "EXCLUDED"\n\n'
FAULTS = (
    "none", "quat-order", "gripper-sign", "image-flipped", "image-bgr",
    "step-refused", "camera-frozen",
    "reset-fault", "step-fault", "not-finite",
)  # fmt: skip
GIVES_UP = counting("trialplate.testing.reach_controls", "Stop() if self.episodes == 7 else super().act(observation)")


def on_faults(*kinds: str) -> dict[str, str]:
    """Edits that make the protocol one of suite toy-faults, with these of its scenarios in this order."""
    listed = ", ".join(f'"fault-{kind}"' for kind in kinds)
    return {
        'name = "toy"\nversion = "1"': f'name = "toy-faults"\nversion = "1"\nscenarios = [{listed}]',
        "seed = 1": 'order = "manifest"',
    }


def test_golden_the_same_ten_attempts_as_a_campaign(campaign: Callable[..., Path]) -> None:
    folder = campaign("golden", GIVES_UP, edits=on_faults(*FAULTS))
    done = cli("analyse", folder, "--json")
    (arm,) = json.loads(done.stdout)["arms"]
    counts = {name: arm["counts"][name] for name in ("passed", "failed", "errored", "measured", "valid")}
    assert counts == {"passed": 5, "failed": 2, "errored": 3, "measured": 10, "valid": 7}
    assert (arm["rate"]["denominator"], f"{arm['rate']['rate']:.4f}") == ("measured", "0.5000")
    assert f"{arm['other_rates'][0]['rate']:.4f}" == "0.7143"
    assert (arm["bounds"]["error_low"], arm["bounds"]["error_high"]) == (0.5, 0.8)
    assert done.returncode == 1 and cli("score", folder).returncode == 1
    printed = " ".join(cli("analyse", folder).stdout.split())
    assert all(number in printed for number in (" 50 ", "valid 71.4", "50.0–80.0"))
    registered = on_faults(*FAULTS) | {"[[claims]]": '[analysis]\ndenominator = "valid"\n\n[[claims]]'}
    (valid,) = json.loads(cli("analyse", campaign("valid", GIVES_UP, edits=registered), "--json").stdout)["arms"]
    assert f"{valid['rate']['rate']:.4f}" == "0.7143" and f"{valid['other_rates'][0]['rate']:.4f}" == "0.5000"


def test_row_24_a_stop_at_the_first_call_is_a_failure_by_the_scorer(campaign: Callable[..., Path]) -> None:
    source = (
        "from trialplate import Stop\nfrom trialplate.testing.toy import Scripted\n\n\n"
        "class Arm(Scripted):\n    def act(self, observation):\n        return Stop('done, success')\n"
    )
    outcomes = score_view(read_campaign(campaign("stops", source)))
    assert {(o.status, o.reason, o.termination) for o in outcomes} == {("FAIL", "stage_not_passed", "policy_stop")}
    assert {o.success_once for o in outcomes} == {False}
    conducts = [o.conduct for o in outcomes]
    assert all(c is not None and (c.calls, c.calls_executed, c.rows_executed) == (1, 0, 0) for c in conducts)


RAISES = (
    "from trialplate.testing.toy import Scripted\n\n\n"
    "class Arm(Scripted):\n    def act(self, observation):\n        raise RuntimeError('no such layer: head')\n"
)


def test_row_34_three_equal_early_faults_halt_the_run_and_leave_no_headline(campaign: Callable[..., Path]) -> None:
    folder = campaign("raises", RAISES)
    view = read_campaign(folder)
    assert view.complete is False and len(view.rows) == 3
    claims = exam.judge_campaign(folder)
    assert "systematic_error" in claims[0].reasons and claims[0].verdict == "ineligible"
    arm = arm_of(folder)
    assert arm.rate.rate is None and arm.rate.reason == "systematic_error"
    assert arm.counts.failed == 3 and arm.reasons == {"policy_exception": 3}  # kept and counted
    report = api.report(folder, claims, to=folder.parent / "r.html").read_text(encoding="utf-8")
    assert "no such layer: head" in report and "systematic_error" in report
    assert cli("analyse", folder).returncode == 1


def test_row_34_where_the_suite_says_that_the_same_fault_is_an_error_it_halts_as_well(
    campaign: Callable[..., Path],
) -> None:
    edits = {"[schedule]": '[fault_table]\npolicy_exception = "ERROR"\n\n[schedule]'}
    arm = arm_of(campaign("errors", RAISES, edits=edits))
    assert arm.counts.errored == 3 and arm.rate.reason == "systematic_error"


def test_row_26_a_changed_identity_leaves_the_evidence_and_no_headline() -> None:
    outcomes = [made(n, "PASS") for n in range(9)]
    outcomes.append(replace(made(9, "ERROR"), reason="identity_changed", termination="fault", control_steps=12))
    arm = analyse_outcomes(outcomes, planned={"mine": 10}, stages=["done"]).arms[0]
    assert arm.rate.rate is None and arm.rate.reason == "identity_changed" and arm.counts.passed == 9


def test_row_46_a_leak_marks_the_attempt_and_takes_nothing_away(campaign: Callable[..., Path]) -> None:
    view = read_campaign(campaign("leaks", SCRIPTED))
    leak = Leak(("000002", 0), "2026-01-01T00:00:00.000000Z", "the task name stood in the label", "label", None)
    before, after = score_view(view), score_view(replace(view, leaks=(leak,)))
    assert [o.status for o in before] == [o.status for o in after]
    assert [o.blinding for o in after] == [None, None, "compromised", None, None, None]
    assert after[2].notes[-1].startswith("blinding: compromised") and "task name" in after[2].notes[-1]
    analysis = api.analyse(after, view.folder / "lock.json").arm("mine")
    assert analysis.conduct is not None and analysis.conduct.compromised == 1 and analysis.counts.initiated == 6


def test_row_46_a_leak_on_an_attempt_that_was_replaced_marks_no_other(campaign: Callable[..., Path]) -> None:
    view = read_campaign(campaign("leaks", SCRIPTED))
    leak = Leak(("000002", 7), "2026-01-01T00:00:00.000000Z", "x", None, None)
    assert {o.blinding for o in score_view(replace(view, leaks=(leak,)))} == {None}


def test_row_47_usage_that_no_provider_reports_is_null_and_the_run_stays_valid(campaign: Callable[..., Path]) -> None:
    arm = arm_of(campaign("unmetered", SCRIPTED))
    assert arm.state == "COMPLETE" and arm.rate.rate is not None and arm.conduct is not None
    assert {(m.value, m.reason) for m in arm.conduct.usage.values()} == {(None, "not_metered")}


METERED = """
from trialplate.record import PolicyDecision, Usage
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def act(self, observation):
        usage = Usage(requests=1, input_tokens=10, output_tokens=0, cost=None)
        known = WHEN
        return PolicyDecision(super().act(observation), usage=usage if known else None)
"""


def test_row_47_what_is_reported_is_summed_and_one_silent_call_makes_the_sum_unknown(
    campaign: Callable[..., Path],
) -> None:
    every = arm_of(campaign("metered", METERED.replace("WHEN", "True"))).conduct
    assert every is not None and every.calls > 6
    assert every.usage["requests"].value == every.calls and every.usage["input_tokens"].value == 10 * every.calls
    assert every.usage["output_tokens"].value == 0 and every.usage["output_tokens"].reason is None
    assert (every.usage["cost"].value, every.usage["cost"].reason) == (None, "not_reported")
    once = arm_of(campaign("once", METERED.replace("WHEN", "observation.call_index != 3"))).conduct
    assert once is not None
    assert {(m.value, m.reason) for m in once.usage.values()} == {(None, "not_metered")}


def test_row_49_a_camera_that_is_constant_from_step_20_is_named_with_the_step() -> None:
    stream = np.random.default_rng(0)
    for step in range(20):
        frames = {name: stream.integers(0, 255, (64, 64, 3), dtype=np.uint8) for name in ("front", "wrist")}
        check_frames(frames, step)
    with pytest.raises(SensorInvalid, match="step 20: camera 'wrist'") as caught:
        check_frames(frames | {"wrist": np.full((64, 64, 3), 17, dtype=np.uint8)}, 20)
    assert caught.value.code == "observation_unhealthy"


SEES = """
from trialplate import PolicySpec
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_controls import Scripted


class Arm(Scripted):
    def __init__(self):
        super().__init__(stride_m=0.01)

    def spec(self):
        return PolicySpec(expects=PROFILES["standard"].only("front", "wrist", "ee_pos"), emits=super().spec().emits)
"""


def test_row_49_an_unhealthy_camera_errors_its_attempt_and_is_named(campaign: Callable[..., Path]) -> None:
    folder = campaign("blank", SEES, edits=on_faults("none", "camera-blank", "cameras-equal", "not-finite"))
    rows, outcomes = read_campaign(folder).rows, score_view(read_campaign(folder))
    assert [row.fault_code for row in rows] == [None, *["observation_unhealthy"] * 3]
    assert [row.control_steps for row in rows][1:] == [20, 3, 3]
    told = [str(row.fault_message) for row in rows[1:]]
    assert told[0].startswith("step 20: camera 'front'") and told[1].startswith("step 3: cameras 'front' and 'wrist'")
    assert told[2].startswith("step 3: channel 'ee_pos'")
    assert [outcome.status for outcome in outcomes] == ["PASS", "ERROR", "ERROR", "ERROR"]
    assert {outcome.reason for outcome in outcomes[1:]} == {"observation_unhealthy"}
    assert api.verify(folder).findings == ()
    claims = exam.judge_campaign(folder)
    report = api.report(folder, claims, to=folder.parent / "r.html").read_text(encoding="utf-8")
    assert "step 20: camera &#39;front&#39; sent one colour in every pixel" in report


def test_row_49_it_has_the_status_that_the_protocol_maps_it_to(campaign: Callable[..., Path]) -> None:
    mapped = on_faults("none", "camera-blank") | {"[[claims]]": FAULT_TABLE + "[[claims]]"}
    arm = arm_of(campaign("mapped", SEES, edits=mapped))
    assert (arm.counts.excluded, arm.counts.errored, arm.counts.n) == (1, 0, 1)
    assert arm.reasons == {"observation_unhealthy": 1} and arm.rate.rate == 1.0


def test_row_50_a_minimal_recording_gives_the_same_results_analysis_and_report(campaign: Callable[..., Path]) -> None:
    minimal = campaign("minimal", METERED.replace("WHEN", "True"), recording="minimal")
    detailed = minimal.parent / "detailed"
    api.run(minimal / "lock.json", into=detailed, recording="detailed")
    reports = []
    for folder in (minimal, detailed):
        claims = exam.judge_campaign(folder)
        text = api.report(folder, claims, to=folder.parent / "r.html").read_text(encoding="utf-8")
        section = text[text.index("<h3>What it took") : text.index('<section id="failures"')]
        identity = text[text.index('<section id="identity"') :]
        reports.append(text.replace(section, "").replace(identity, ""))  # wall clock, and which run it was
    for name in ("results.jsonl", "analysis.json", "claims.json"):
        assert (minimal / name).read_bytes() == (detailed / name).read_bytes()
    assert reports[0] == reports[1]


def test_the_time_of_every_call_is_read_from_the_traces(campaign: Callable[..., Path]) -> None:
    view = read_campaign(campaign("timed", SCRIPTED))
    times_us = sorted(int(call["latency_us"] or 0) for row in view.rows for call in view.load_trace(row).calls)
    found = latencies(view)["mine"]
    assert found.p50_us == times_us[(len(times_us) + 1) // 2 - 1] and found.p95_us in times_us
