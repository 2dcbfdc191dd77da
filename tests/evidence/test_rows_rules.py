"""Rows 15, 16 and 18 of the evidence specification, section 13: rules changed after the lock, or not kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from forger import Forger, patient_forger, writable
from sealed import Golden, reseal, sha256
from trialplate import api, exam, sealing
from trialplate.canonical import canonical_json
from trialplate.errors import UsageError
from trialplate.run.campaign import Progress, run_campaign
from trialplate.standalone import verify_bundle as second
from trialplate.store.amending import amend
from trialplate.store.amendments import AmendmentChain
from trialplate.store.view import read_campaign

Told = tuple[int, set[str]]


def told(folder: Path) -> Told:
    """Return exit code and codes of the package's verifier."""
    verdict = exam.verify(folder)
    return verdict.exit_code, {item.code for item in verdict.findings}


def told_by_second(bundle: Path) -> Told:
    """Return exit code and codes of the second verifier."""
    said = second.verify(str(bundle))
    return said["exit_code"], {item["code"] for item in said["findings"]}


def sealed_as_it_is(campaign: Path, into: Path) -> Path:
    """Seal a campaign with the verifier of this process, whatever blocks it."""

    def checked(folder: Path) -> sealing.FreshVerdict:
        verdict = exam.verify(folder)
        return sealing.FreshVerdict(verdict.exit_code, verdict.document())

    return sealing.seal(campaign, into, verifier=checked).path


# -- row 15: amendments --------------------------------------------------------------------------------------------


def _amended(forger: Forger, kind: str, text: str) -> None:
    """Append an amendment to a journal, and lay its document beside it, as a patched writer would."""
    lock_sha256 = sha256((forger.folder / "lock.json").read_bytes())
    attempts = sum(record["type"] == "attempt.start" for record in forger.records)
    last = forger.records[-1]
    document = AmendmentChain(lock_sha256, stop_registered=True).next(
        kind, reason="as agreed", text=text, created_utc=last["utc"], attempts_seen=attempts
    )
    forger.records.append({**last, "type": "amendment.added", "data": {"amendment": document}})
    (forger.folder / "amendments").mkdir(exist_ok=True)
    (forger.folder / "amendments/0001.json").write_bytes(canonical_json(document))


@pytest.mark.parametrize("kind", ["tolerance", "rule", "seed", "schedule", "denominator", "analysis"])
def test_row_15_an_amendment_that_changes_a_rule_blocks_the_bundle_though_every_digest_holds(
    lean: Path, kind: str
) -> None:
    forger = patient_forger(writable(lean))
    _amended(forger, kind, "2 cm is 5 cm from here on")
    forger.seal()
    bundle = reseal(lean)
    exit_code, codes = told(bundle)
    assert exit_code == 3 and "amendment_changes_rule" in codes
    exit_code, codes = told_by_second(bundle)
    assert exit_code == 3 and "amendment_changes_rule" in codes


@pytest.mark.parametrize("folder_too", [False, True])
def test_row_15_an_amendment_that_was_removed_breaks_their_chain(
    golden: Golden, tmp_path: Path, folder_too: bool
) -> None:
    campaign = writable(Path(shutil.copytree(golden.campaign, tmp_path / "campaign")))
    amend(campaign, kind="disclosure", reason="a lamp", text="a lamp was replaced on the second day")
    bundle = writable(sealed_as_it_is(campaign, tmp_path / "bundles"))
    assert told(bundle)[0] == told_by_second(bundle)[0] == 0
    (bundle / "amendments/0001.json").unlink()
    if folder_too:
        (bundle / "amendments").rmdir()
    bundle = reseal(bundle)
    exit_code, codes = told(bundle)
    assert exit_code == 1 and "amendment_chain" in codes
    exit_code, codes = told_by_second(bundle)
    assert exit_code == 1 and "amendment_chain" in codes


# -- row 16: the stopping rule -------------------------------------------------------------------------------------

RULE = """
schema = "trialplate.protocol/1"
name = "stopped"
question = "Does the scripted arm carry the block more often than one that does nothing?"
run_class = "confirmatory"

[suite]
name = "toy"
version = "1"
repeats = 5

[[arms]]
name = "null"
policy = "control:null"

[[arms]]
name = "scripted"
policy = "control:scripted"

[schedule]
order = "blocks"

[analysis]
comparisons = [["scripted", "null"]]

[stopping]
kind = "group_sequential"
arms = ["scripted", "null"]
looks = [10, 20, 30]
spending = "obrien-fleming"
"""
PLANNED = 60


def _locked(folder: Path, *, more: str = "") -> Any:
    path = folder / "protocol.toml"
    path.write_text(RULE + more, encoding="utf-8")
    return api.lock(api.load_protocol(path), into=folder / "campaign")


def test_row_16_trials_behind_the_stop_that_the_rule_gives_are_found_in_campaign_and_bundle(tmp_path: Path) -> None:
    lock = _locked(tmp_path)
    run_campaign(lock, lock.path.parent)  # a runner that does not apply the rule
    assert len(read_campaign(lock.path.parent).rows) == PLANNED
    verdict = exam.verify(lock.path.parent)
    (found,) = verdict.findings
    assert (verdict.exit_code, found.code, found.exit_code) == (3, "stop_rule", 3)
    assert "20 attempts behind it, the first of trial 000040" in found.found
    bundle = sealed_as_it_is(lock.path.parent, tmp_path / "bundles")
    exit_code, codes = told(bundle)
    assert exit_code == 3 and "stop_rule" in codes


def test_row_16_trials_behind_a_stop_that_was_said_are_found_by_both_verifiers(tmp_path: Path) -> None:
    campaign = api.run(_locked(tmp_path)).folder
    said = len(read_campaign(campaign).rows)
    assert said == 40 and told(campaign)[0] == 0
    forger = patient_forger(writable(campaign))
    place = next(n for n, record in enumerate(forger.records) if record["type"] == "amendment.added")
    start = next(n for n, record in enumerate(forger.records) if record["type"] == "attempt.start")
    stop = forger.records.pop(place)
    stop["data"]["amendment"]["attempts_seen"] = 38
    forger.records.insert(start + 2 * 38, stop)  # before the last block, of which nothing is changed
    (campaign / "amendments/0001.json").write_bytes(canonical_json(stop["data"]["amendment"]))
    forger.seal()
    assert "stop_rule" in told(campaign)[1]
    bundle = sealed_as_it_is(campaign, tmp_path / "bundles")
    assert told(bundle)[0] == told_by_second(bundle)[0] == 3
    assert "stop_rule" in told(bundle)[1] & told_by_second(bundle)[1]


def test_row_16_a_trial_beyond_the_registered_maximum_is_not_planned(tmp_path: Path) -> None:
    campaign = api.run(_locked(tmp_path)).folder
    forger = patient_forger(writable(campaign))
    for kind in ("attempt.start", "attempt.end"):
        record = next(record for record in reversed(forger.records) if record["type"] == kind)
        record["data"]["trial_id"] = f"{PLANNED:06d}"
    forger.seal()
    exit_code, codes = told(campaign)
    assert exit_code == 1 and "row_unplanned" in codes


def test_row_16_a_stop_at_a_look_that_was_not_registered_is_found(tmp_path: Path) -> None:
    lock = _locked(tmp_path)

    def interrupting(now: Progress) -> None:
        if now.done == 6:  # three blocks; the first registered look is after ten
            raise KeyboardInterrupt

    campaign = api.run(lock, progress=interrupting)
    amend(campaign.folder, kind="stop", reason="enough", text="group_sequential, rejected after 3 blocks")
    again = api.run(lock, resume=True)
    assert again.report is not None and again.report.stopped_by == "unregistered_stop"
    verdict = exam.verify(campaign.folder)
    assert "stop_rule" in {item.code for item in verdict.findings} and verdict.exit_code == 3
    (claim,) = exam.judge_campaign(campaign.folder) or (None,)
    assert claim is None or "unregistered_stop" in claim.reasons
    bundle = sealed_as_it_is(campaign.folder, tmp_path / "bundles")
    assert told(bundle)[0] == 3 and "stop_rule" in told(bundle)[1]


def test_row_16_a_stop_is_not_said_where_none_is_registered(golden: Golden, tmp_path: Path) -> None:
    campaign = writable(Path(shutil.copytree(golden.campaign, tmp_path / "campaign")))
    with pytest.raises(UsageError) as refused:
        amend(campaign, kind="stop", reason="enough", text="it looks good")
    assert refused.value.code == "stop_rule"
    forger = patient_forger(campaign)
    _amended(forger, "stop", "it looks good")
    forger.seal()
    assert told(campaign) == (3, {"stop_rule"})
    bundle = sealed_as_it_is(campaign, tmp_path / "bundles")
    assert told(bundle)[0] == told_by_second(bundle)[0] == 3
    assert "stop_rule" in told_by_second(bundle)[1]
    assert json.loads((bundle / "journal.jsonl").read_bytes().splitlines()[-1])["type"] == "amendment.added"


# -- row 18: exclusions --------------------------------------------------------------------------------------------


def _excluded(campaign: Path) -> str:
    """Return the attempt of a golden campaign that its lock excludes: an exception of the policy."""
    (row,) = [row for row in read_campaign(campaign).rows if row.fault_code == "policy_exception"][:1]
    assert row.fault_message and row.calls and row.trace is not None
    return f"{row.trial_id}-{row.attempt}"


def _forge_exclusion(campaign: Path, **changes: Any) -> None:
    forger = patient_forger(campaign)
    forger.edit_row(_excluded(campaign), lambda row: row.update(changes))
    forger.seal()


@pytest.fixture
def campaign(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the golden campaign, of which nothing was scored yet, to be forged."""
    folder = writable(Path(shutil.copytree(golden.campaign, tmp_path / "campaign")))
    for name in ("results.jsonl", "summary.json", "analysis.json", "claims.json", "report.html"):
        (folder / name).unlink(missing_ok=True)
    assert {outcome.status.value for outcome in api.score(folder)} == {"PASS", "ERROR", "EXCLUDED"}
    (folder / "results.jsonl").unlink()
    return folder


def test_row_18_an_attempt_excluded_for_what_was_not_registered_is_found(campaign: Path) -> None:
    key = _excluded(campaign)

    def excused(trace: Any) -> Any:
        *calls, last = trace.calls
        return type(trace)(
            action=trace.action, measured=trace.measured, state_sha256=trace.state_sha256,
            step_wall_us=trace.step_wall_us, calls=(*calls, {**last, "issue": "bad_lighting"}),
        )  # fmt: skip

    forger = patient_forger(campaign)
    forger.edit_trace(key, excused)
    forger.edit_row(key, lambda row: row.update(fault_code="bad_lighting", fault_message="the sun was low"))
    forger.seal()
    verdict = exam.verify(campaign)
    (found,) = verdict.findings
    assert (verdict.exit_code, found.code, found.pointer) == (3, "exclusion_unregistered", "/fault_code")
    assert found.path == f"episodes/{key}/row.json" and found.found == "bad_lighting"


def test_row_18_an_attempt_excluded_without_a_word_of_what_was_seen_is_found(campaign: Path, tmp_path: Path) -> None:
    _forge_exclusion(campaign, fault_message=" ")
    assert told(campaign) == (3, {"exclusion_unregistered"})
    bundle = sealed_as_it_is(campaign, tmp_path / "bundles")
    assert told(bundle)[0] == 3 and "exclusion_unregistered" in told(bundle)[1]
    assert told_by_second(bundle) == (0, set())  # it neither reads recordings nor applies the fault table


def test_row_18_an_attempt_excluded_without_its_recording_is_found(campaign: Path) -> None:
    key = _excluded(campaign)
    forger = patient_forger(campaign)
    end = forger.end_of(key)
    end["artifacts"] = [item for item in end["artifacts"] if not item["path"].endswith("trace.parquet")]
    (campaign / f"episodes/{key}/trace.parquet").unlink()
    forger.edit_row(key, lambda row: row.update(trace=None))
    forger.seal()
    exit_code, codes = told(campaign)
    assert exit_code == 3 and "exclusion_unregistered" in codes


def test_row_18_a_failure_of_which_only_the_result_says_excluded_is_not_reproduced(lean: Path) -> None:
    path = writable(lean) / "results.jsonl"
    lines = path.read_bytes()
    assert b'"status":"ERROR"' in lines
    path.write_bytes(lines.replace(b'"status":"ERROR"', b'"status":"EXCLUDED"'))
    exit_code, codes = told(reseal(lean))
    assert exit_code == 1 and "grades_not_reproduced" in codes
