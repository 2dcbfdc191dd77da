"""Leaks and cutovers: appended to the journal, beside the run, never a reason to drop or repeat an attempt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from golden import StepClock, again, begin, build, interrupted_row, lock_bytes, run_trial
from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import EvidenceError, StorageFailure, TrialplateError, UsageError
from trialplate.store.campaign import CampaignWriter
from trialplate.store.disclosures import Cutover, Leak, cutover_misfit, leak_data, leak_misfit, parse_attempt
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.store.view import read_campaign

FOUND = "2026-11-29T12:00:00.000000Z"


def _code(error: type[TrialplateError], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.code


def _told(writer: CampaignWriter, key: tuple[str, int] = ("000003", 0), **changes: Any) -> None:
    said = {"what": "the task's name stood in the label", "channel": "label", "found_by": "reviewer", **changes}
    writer.disclose_leak(key, **said)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[CampaignWriter]:
    """A run in mid-campaign: trial 0 has ended, trial 1 was interrupted."""
    with begin(tmp_path / "c", lock=lock_bytes(interrupted="replace")) as opened:
        opened.open_run({"host": "golden"})
        run_trial(opened, opened.plan.trials[0])
        opened.start_attempt("000001", ordinal=1, arm=opened.plan.trials[1].arm)
        opened.interrupt_attempt(interrupted_row(opened.plan.trials[1]))
        yield opened


def test_a_leak_is_told_after_the_run_was_closed_and_the_campaign_still_verifies(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    before = {name: (folder / name).read_bytes() for name in ("lock.json", "rows.jsonl", "completion.json")}
    with again(folder) as writer:
        _told(writer)
    view = read_campaign(folder)
    assert [(leak.attempt, leak.what, leak.channel, leak.found_by) for leak in view.leaks] == [
        (("000003", 0), "the task's name stood in the label", "label", "reviewer")
    ]
    assert view.records[-1]["data"]["kept"] is True
    assert view.compromised == {("000003", 0)}
    assert view.complete is True
    assert len(view.rows) == 12  # counted as before
    assert check(folder).findings == ()
    assert {name: (folder / name).read_bytes() for name in before} == before
    head = read_stored((folder / "head.json").read_bytes())
    assert head["count"] == len(view.records)


def test_what_is_not_known_of_a_leak_is_null_with_a_reason(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with again(folder) as writer:
        _told(writer, channel=None, found_by=None)
    data = read_campaign(folder).records[-1]["data"]
    assert (data["channel"], data["channel_reason"]) == (None, "not_reported")
    assert (data["found_by"], data["found_by_reason"]) == (None, "not_reported")
    assert read_campaign(folder).leaks[0] == Leak(
        ("000003", 0), data["found_at"], "the task's name stood in the label", None, None
    )


def test_a_cutover_stands_beside_the_lock_and_may_lie_ahead(writer: CampaignWriter) -> None:
    lock = (writer.folder / "lock.json").read_bytes()
    writer.record_cutover(("000007", 0), change="labels are random from here on")
    writer.close()
    view = read_campaign(writer.folder)
    assert [(c.first_attempt, c.change) for c in view.cutovers] == [(("000007", 0), "labels are random from here on")]
    assert isinstance(view.cutovers[0], Cutover)
    assert (writer.folder / "lock.json").read_bytes() == lock


def test_an_interrupted_attempt_with_a_leak_is_not_run_again(writer: CampaignWriter) -> None:
    assert [(trial.trial_id, n) for trial, n in writer.replaceable] == [("000001", 1)]
    _told(writer, ("000001", 0))
    assert writer.replaceable == ()
    arm = writer.plan.trials[1].arm
    repeat = lambda: writer.start_attempt("000001", ordinal=1, arm=arm, attempt=1)  # noqa: E731
    assert _code(UsageError, repeat) == "attempt_repeated"


def test_the_check_finds_a_retry_that_a_patched_writer_made_after_a_leak(writer: CampaignWriter) -> None:
    _told(writer, ("000001", 0))
    writer._ledger.leaks.clear()
    run_trial(writer, writer.plan.trials[1], attempt=1)
    writer.close()
    found = [item.code for item in check(writer.folder).findings]
    assert "attempt_repeated" in found


@pytest.mark.parametrize("key", [("000099", 0), ("000004", 0), ("000000", 1)])
def test_a_leak_on_an_attempt_that_never_started_is_refused(writer: CampaignWriter, key: tuple[str, int]) -> None:
    before = len(writer.records)
    assert _code(UsageError, lambda: _told(writer, key)) == "row_unplanned"
    assert len(writer.records) == before


def test_nothing_can_be_told_of_a_campaign_that_never_opened(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        assert _code(UsageError, lambda: writer.record_cutover(("000000", 0), change="x")) == "journal_broken"


def test_a_run_goes_on_after_a_disclosure_by_another_process(writer: CampaignWriter) -> None:
    writer.close()
    lock = lock_bytes(interrupted="replace")
    with again(writer.folder, lock=lock) as other:
        _told(other, ("000000", 0))
    with again(writer.folder, lock=lock) as third:
        third.open_run({"host": "golden"})
        run_trial(third, third.plan.trials[1], attempt=1)
        run_trial(third, third.plan.trials[2])
    codes = {item.code for item in check(writer.folder).findings}
    assert codes == {"coverage_incomplete"}  # only because the rest was not run


def test_an_earlier_clock_of_the_telling_process_is_no_reversed_clock(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with begin_late(folder) as writer:
        _told(writer)
    assert check(folder).findings == ()


def begin_late(folder: Path) -> CampaignWriter:
    """A writer whose monotonic clock has started anew, as after a reboot."""
    digest = sha256_hex((folder / "lock.json").read_bytes())
    return CampaignWriter.resume(
        folder, lock_sha256=digest, disk=Disk(durability="process"), clock=StepClock(start_s=35_000)
    )


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"kept": False}, "/kept"),
        ({"kept": 1}, "/kept"),
        ({"attempt": "3"}, "/attempt"),
        ({"attempt": "000003-00"}, "/attempt"),
        ({"what": ""}, "/what"),
        ({"what": "  "}, "/what"),
        ({"what": "x" * 2001}, "/what"),
        ({"found_at": "yesterday"}, "/found_at"),
        ({"channel": None}, "/channel_reason"),
        ({"channel_reason": "not_reported"}, "/channel"),
        ({"score": 1}, ""),
    ],
)
def test_a_leak_of_another_form_is_a_finding(change: dict[str, Any], pointer: str) -> None:
    good = leak_data(("000003", 0), found_at=FOUND, what="a name", channel="label", found_by="reviewer")
    assert leak_misfit(good) is None
    wrong = leak_misfit({**good, **change})
    assert wrong is not None
    assert wrong[0] == pointer


@pytest.mark.parametrize("change", [{"change": None}, {"at": 3}, {"first_attempt": None}, {"kept": True}])
def test_a_cutover_of_another_form_is_a_finding(change: dict[str, Any]) -> None:
    good = {"first_attempt": "000003-0", "at": FOUND, "change": "random labels"}
    assert cutover_misfit(good) is None
    assert cutover_misfit({**good, **change}) is not None


@pytest.mark.parametrize("text", ["000003", "3-0", "000003-00", "000003-0 ", "", None, 3, "000003-٣"])
def test_only_an_exact_name_names_an_attempt(text: object) -> None:
    assert parse_attempt("000003-0") == ("000003", 0)
    assert parse_attempt(text) is None


def test_a_leak_that_was_edited_or_cut_off_is_found(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with again(folder) as writer:
        _told(writer)
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"stood in the label", b"stood nowhere, pal"))
    assert "journal_broken" in {item.code for item in check(folder).findings}
    journal.write_bytes(b"".join(line + b"\n" for line in whole.splitlines()[:-1]))
    assert "journal_broken" in {item.code for item in check(folder).findings}


def test_a_leak_of_a_wrong_form_that_is_chained_well_does_not_pass_the_check(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with again(folder) as writer:
        writer._journal.append("leak.disclosed", {"attempt": "000003-0", "kept": False})
    assert {item.code for item in check(folder).findings} == {"schema_mismatch"}
    assert _code(EvidenceError, lambda: read_campaign(folder)) == "schema_mismatch"


def test_a_disclosure_on_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    whole = (folder / "journal.jsonl").read_bytes()

    class Full(Disk):
        def write_all(self, descriptor: int, data: bytes) -> None:
            raise StorageFailure("no space left")

    with again(folder) as writer:
        writer._journal._disk = Full(durability="process")  # type: ignore[attr-defined]
        writer._journal._disk._paths = {writer._journal._descriptor: folder / "journal.jsonl"}
        assert _code(StorageFailure, lambda: _told(writer)) == "storage_failure"
    assert (folder / "journal.jsonl").read_bytes() == whole
    assert check(folder).findings == ()


def test_a_disclosure_is_canonical_in_the_journal(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with again(folder) as writer:
        _told(writer, what="der Name der Aufgabe: größer")
    line = (folder / "journal.jsonl").read_bytes().splitlines()[-1]
    assert canonical_json(json.loads(line)) == line
