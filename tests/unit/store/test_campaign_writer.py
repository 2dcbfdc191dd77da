"""The campaign writer: what it lays down, in which order, and everything it refuses."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden import (
    StepClock,
    again,
    begin,
    build,
    build_torn,
    finish,
    interrupted_row,
    lock_bytes,
    lock_document,
    make_row,
    run_trial,
    snapshot,
)
from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import EvidenceError, LockError, StorageFailure, TrialplateError, UsageError
from trialplate.store.campaign import CampaignWriter, write_lock
from trialplate.store.derived import write_derived
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.store.view import read_campaign

LOCK = lock_bytes()
REPLACING = lock_bytes(interrupted="replace")


def _code(error: type[TrialplateError], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.code


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[CampaignWriter]:
    """An opened run that has not attempted anything."""
    with begin(tmp_path / "c") as opened:
        opened.open_run({"host": "golden"})
        yield opened


def test_a_whole_campaign_has_every_file_in_its_place(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    names = set(snapshot(folder))
    episodes = {f"episodes/{n:06d}-0/{name}" for n in range(12) for name in ("row.json", "trace.parquet")}
    assert names == {"lock.json", "journal.jsonl", "head.json", "rows.jsonl", "completion.json"} | episodes
    assert (folder / "lock.json").read_bytes() == LOCK
    assert stat.S_IMODE((folder / "lock.json").stat().st_mode) == 0o444
    rows = (folder / "rows.jsonl").read_bytes().splitlines()
    assert rows == [(folder / f"episodes/{n:06d}-0/row.json").read_bytes() for n in range(12)]
    completion = read_stored((folder / "completion.json").read_bytes())
    assert completion["schema"] == "trialplate.completion/1"
    assert completion["complete"] is True
    assert completion["terminations"] == {"policy_stop": 12}
    assert completion["journal"] == read_stored((folder / "head.json").read_bytes())


def test_every_document_is_stored_in_canonical_form(tmp_path: Path) -> None:
    for name, data in snapshot(build(tmp_path / "c")).items():
        if name.endswith(".json"):
            read_stored(data)
        elif name.endswith(".jsonl"):
            assert data.endswith(b"\n")
            assert [canonical_json(read_stored(line)) for line in data.splitlines()] == data.splitlines()


def test_the_same_attempts_of_a_run_of_the_same_name_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trialplate.store.campaign.secrets.token_hex", lambda size: "5a" * size)
    one, other = (snapshot(build(tmp_path / name)) for name in ("one", "other"))
    assert one == other


def test_a_row_names_the_run_that_it_was_recorded_in(tmp_path: Path) -> None:
    view = read_campaign(build(tmp_path / "c"))
    assert {row.run_id for row in view.rows} == {view.run_id}
    assert view.run_id not in {row.run_id for row in read_campaign(build(tmp_path / "other")).rows}


def test_a_start_is_durable_before_it_returns_and_evidence_before_its_end(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watching(Disk):
        def fsync(self, descriptor: int) -> None:
            synced.append(self._paths[descriptor].name)

        def fsync_dir(self, folder: Path) -> None:
            synced.append(f"{folder.name}/")

    with begin(tmp_path / "c", disk=Watching()) as writer:
        writer.open_run({})
        synced.clear()
        writer.start_attempt("000000", ordinal=0, arm="careful")
        assert synced == ["journal.jsonl"]
        synced.clear()
        row, trace = make_row(writer.plan.trials[0])
        writer.end_attempt(row, trace=trace)
    assert synced == [
        *["c/", "episodes/"],  # the new folders' names
        *["trace.parquet", "row.json", "000000-0/"],
        "journal.jsonl",
        *[".head.json.tmp", "c/"],
    ]


def test_how_durable_a_run_was_is_recorded(writer: CampaignWriter) -> None:
    data = writer.records[0]["data"]
    assert data["durability"] == "process"
    assert data["host"] == "golden"
    assert len(data["run_id"]) == 32


@pytest.mark.parametrize(
    ("start", "code"),
    [
        ({"trial_id": "000099", "ordinal": 99, "arm": "careful"}, "row_unplanned"),
        ({"trial_id": "0", "ordinal": 0, "arm": "careful"}, "row_unplanned"),
        ({"trial_id": "000000", "ordinal": 1, "arm": "careful"}, "row_unplanned"),
        ({"trial_id": "000000", "ordinal": 0, "arm": "hasty"}, "row_unplanned"),
        ({"trial_id": "000002", "ordinal": 2, "arm": "careful"}, "row_order"),
        ({"trial_id": "000003", "ordinal": 3, "arm": "hasty"}, "row_order"),
        ({"trial_id": "000000", "ordinal": 0, "arm": "careful", "attempt": 1}, "attempt_repeated"),
        ({"trial_id": "000000", "ordinal": False, "arm": "careful"}, "schema_mismatch"),
    ],
)
def test_only_the_next_planned_trial_of_an_arm_may_start(
    writer: CampaignWriter, start: dict[str, Any], code: str
) -> None:
    before = len(writer.records)
    assert _code(UsageError, lambda: writer.start_attempt(start.pop("trial_id"), **start)) == code
    assert len(writer.records) == before
    writer.start_attempt("000000", ordinal=0, arm="careful")
    assert _code(UsageError, lambda: writer.start_attempt("000000", ordinal=0, arm="careful")) == "row_duplicated"


def test_in_one_run_the_schedule_holds_across_arms_and_another_run_may_be_of_another_arm(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        writer.open_run({})
        for trial in writer.plan.trials[1:4:2]:  # an arm that comes by itself has a run of its own
            run_trial(writer, trial)
        back = {"ordinal": 0, "arm": "careful"}
        assert _code(UsageError, lambda: writer.start_attempt("000000", **back)) == "row_order"
    with again(tmp_path / "c") as writer:
        writer.open_run({})
        run_trial(writer, writer.plan.trials[0])
    assert [row.ordinal for row in read_campaign(tmp_path / "c").rows] == [0, 1, 3]


def test_a_failed_attempt_is_never_run_again(writer: CampaignWriter) -> None:
    run_trial(writer, writer.plan.trials[0], termination="fault", fault_code="simulator_crash")
    again_ = lambda: writer.start_attempt("000000", ordinal=0, arm="careful", attempt=1)  # noqa: E731
    assert _code(UsageError, again_) == "attempt_repeated"
    assert writer.replaceable == ()


def test_attempts_may_overlap_and_end_in_any_order(writer: CampaignWriter) -> None:
    trials = writer.plan.trials
    for trial in trials[:3]:
        writer.start_attempt(trial.trial_id, ordinal=trial.ordinal, arm=trial.arm)
    assert [attempt.trial for attempt in writer.open_attempts] == list(trials[:3])
    for trial in (trials[2], trials[0], trials[1]):
        row, trace = make_row(trial)
        writer.end_attempt(row, trace=trace)
    assert [attempt.trial for attempt in writer.ended_attempts] == list(trials[:3])
    finish_from = writer.unstarted
    assert finish_from == trials[3:]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"trial_id": "000001"}, "end_without_start"),
        ({"attempt": 1}, "end_without_start"),
        ({"arm": "hasty"}, "row_unplanned"),
        ({"scenario": "far"}, "row_unplanned"),
        ({"repeat": 1}, "row_unplanned"),
        ({"ordinal": 3}, "row_unplanned"),
        ({"trace": None}, "rows_digest_mismatch"),
    ],
)
def test_a_result_for_another_trial_is_refused_and_nothing_is_written(
    writer: CampaignWriter, change: dict[str, Any], code: str
) -> None:
    writer.start_attempt("000000", ordinal=0, arm="careful")
    row, trace = make_row(writer.plan.trials[0])
    before = snapshot(writer.folder)
    assert _code(UsageError, lambda: writer.end_attempt(replace(row, **change), trace=trace)) == code
    assert snapshot(writer.folder) == before
    writer.end_attempt(row, trace=trace)
    assert _code(UsageError, lambda: writer.end_attempt(row, trace=trace)) == "row_duplicated"


def test_a_row_that_refers_to_another_trace_is_refused(writer: CampaignWriter) -> None:
    writer.start_attempt("000000", ordinal=0, arm="careful")
    row, trace = make_row(writer.plan.trials[0])
    _, other = make_row(writer.plan.trials[1])
    assert _code(UsageError, lambda: writer.end_attempt(row, trace=other)) == "rows_digest_mismatch"
    assert _code(UsageError, lambda: writer.end_attempt(row, trace=None)) == "rows_digest_mismatch"
    writer.end_attempt(row, trace=trace)


def test_further_artifacts_are_listed_and_their_names_are_plain(writer: CampaignWriter) -> None:
    writer.start_attempt("000000", ordinal=0, arm="careful")
    row, trace = make_row(writer.plan.trials[0])
    for name in ("../lock.json", "a/b", ".hidden", "", "row.json", "end."):
        bad_end = lambda name=name: writer.end_attempt(row, trace=trace, artifacts={name: b"x"})  # noqa: E731
        assert _code(UsageError, bad_end) == "path_unsafe"
    record = writer.end_attempt(row, trace=trace, artifacts={"requests.jsonl": b"[1]\n"})
    listed = {item["path"].rpartition("/")[2]: item for item in record["data"]["artifacts"]}
    assert set(listed) == {"requests.jsonl", "trace.parquet"}
    assert listed["requests.jsonl"]["sha256"] == sha256_hex(b"[1]\n")


def test_nothing_is_recorded_before_the_run_is_opened_or_after_it_closed(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        start = lambda: writer.start_attempt("000000", ordinal=0, arm="careful")  # noqa: E731
        assert _code(UsageError, start) == "journal_broken"
        writer.open_run({})
        writer.close_run(complete=False, reason="stopped by hand")
        assert _code(UsageError, start) == "writer_closed"


def test_a_run_with_missing_trials_cannot_be_called_complete(writer: CampaignWriter) -> None:
    assert _code(UsageError, lambda: writer.close_run(complete=True)) == "not_complete"
    writer.start_attempt("000000", ordinal=0, arm="careful")
    assert _code(UsageError, lambda: writer.close_run(complete=True)) == "not_complete"


def test_a_run_that_was_closed_incomplete_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
        run_trial(writer, writer.plan.trials[0])
        writer.close_run(complete=False, reason="stopped by hand")
    first = check(folder)
    assert [item.code for item in first.findings] == ["coverage_incomplete"] * 2
    assert first.survey is not None and (first.survey.complete, first.survey.reason) == (False, "stopped by hand")
    with again(folder) as writer:
        run_id = writer.open_run({})["data"]["run_id"]
        assert run_id == writer.records[0]["data"]["run_id"]
        stale = check(folder)  # the indexes are those of the last close, and that is what they must be
        assert {item.code for item in stale.findings} == {"coverage_incomplete"}
        run_trial(writer, writer.plan.trials[1])
    with again(folder) as writer:
        finish(writer)
    assert check(folder).findings == ()


def test_an_interrupted_attempt_ends_visibly_and_what_it_had_written_is_kept(tmp_path: Path) -> None:
    folder = build_torn(tmp_path / "c")
    view = read_campaign(folder)
    assert [row.termination for row in view.rows[:3]] == ["policy_stop", "interrupted", "policy_stop"]
    place = folder / "episodes/000001-0"
    assert sorted(path.name for path in place.iterdir()) == ["row.json", "trace.parquet.partial"]
    assert check(folder).findings == ()


def test_an_interrupted_trial_is_run_again_only_when_the_lock_says_so(tmp_path: Path) -> None:
    once = read_campaign(build_torn(tmp_path / "once"))
    assert len(once.rows) == 12
    twice = read_campaign(build_torn(tmp_path / "twice", lock=REPLACING))
    assert len(twice.rows) == 13
    assert [(row.trial_id, row.attempt, row.termination) for row in twice.rows[:3]] == [
        ("000000", 0, "policy_stop"),
        ("000001", 0, "interrupted"),
        ("000001", 1, "policy_stop"),
    ]


def test_replacements_end_at_the_registered_number(tmp_path: Path) -> None:
    with begin(tmp_path / "c", lock=REPLACING) as writer:
        writer.open_run({})
        trial = writer.plan.trials[0]
        for attempt in range(3):
            assert writer.replaceable == (((trial, attempt),) if attempt else ())
            writer.start_attempt(trial.trial_id, ordinal=0, arm=trial.arm, attempt=attempt)
            writer.end_attempt(interrupted_row(trial, attempt=attempt), trace=None)
        assert writer.replaceable == ()
        more = lambda: writer.start_attempt(trial.trial_id, ordinal=0, arm=trial.arm, attempt=3)  # noqa: E731
        assert _code(UsageError, more) == "attempt_repeated"


def test_an_interrupted_row_has_no_trace_and_says_so(writer: CampaignWriter) -> None:
    writer.start_attempt("000000", ordinal=0, arm="careful")
    row, _ = make_row(writer.plan.trials[0])
    with pytest.raises(UsageError, match="without a trace"):
        writer.interrupt_attempt(row)
    with pytest.raises(UsageError, match="without a trace"):
        writer.interrupt_attempt(replace(row, trace=None))
    writer.interrupt_attempt(interrupted_row(writer.plan.trials[0]))


def test_a_lock_is_written_once_and_stays_what_it_is(tmp_path: Path) -> None:
    digest = write_lock(tmp_path / "new" / "c", LOCK)
    assert digest == sha256_hex(LOCK)
    assert write_lock(tmp_path / "new" / "c", LOCK) == digest
    assert (tmp_path / "new" / "c" / "lock.json").read_bytes() == LOCK


def test_a_folder_of_another_lock_is_refused_and_both_digests_are_named(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    for call in (
        lambda: write_lock(folder, REPLACING),
        lambda: begin(folder, lock=REPLACING),
        lambda: again(folder, lock=REPLACING),
    ):
        with pytest.raises(LockError) as caught:
            call()
        assert caught.value.code == "other_campaign"
        assert sha256_hex(LOCK) in caught.value.message and sha256_hex(REPLACING) in caught.value.message


def test_a_lock_that_comes_after_the_first_attempt_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    (folder / "lock.json").unlink()
    assert _code(LockError, lambda: write_lock(folder, LOCK)) == "late_lock"
    assert _code(UsageError, lambda: again(folder)) == "no_campaign"


def test_half_a_lock_is_told_from_another_lock(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_bytes(LOCK[:100])
    assert _code(LockError, lambda: begin(tmp_path)) == "lock_incomplete"


def test_a_failed_write_of_the_lock_leaves_no_half_of_it(tmp_path: Path) -> None:
    class Full(Disk):
        def write_all(self, descriptor: int, data: bytes) -> None:
            super().write_all(descriptor, data[:10])
            raise StorageFailure("could not write: No space left on device (ENOSPC)")

    with pytest.raises(StorageFailure):
        write_lock(tmp_path / "c", LOCK, disk=Full())
    assert list((tmp_path / "c").iterdir()) == []
    write_lock(tmp_path / "c", LOCK)


@pytest.mark.parametrize("name", ["notes.txt", ".DS_Store", "amended.json"])
def test_a_folder_with_foreign_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=name) as caught:
        begin(tmp_path)
    assert caught.value.code == "folder_not_empty"
    folder = build(tmp_path / "c")
    (folder / name).touch()
    with pytest.raises(UsageError, match=name) as caught:
        again(folder)
    assert caught.value.code == "folder_not_empty"


def test_a_link_or_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    (folder / "summary.json").mkdir()
    assert _code(UsageError, lambda: again(folder)) == "folder_not_empty"


def test_a_campaign_that_was_started_is_resumed_and_not_created(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    assert _code(UsageError, lambda: begin(folder)) == "campaign_exists"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        assert _code(UsageError, lambda: begin(tmp_path / "c")) == "campaign_busy"
        writer.open_run({})
        assert _code(UsageError, lambda: again(tmp_path / "c")) == "campaign_busy"
    again(tmp_path / "c").close()


def test_a_broken_journal_stops_a_resume_and_nothing_changes(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"policy_stop", b"policy_stOp", 1))
    before = snapshot(folder)
    assert _code(EvidenceError, lambda: again(folder)) == "journal_broken"
    assert snapshot(folder) == before


def test_a_row_that_was_changed_between_two_runs_stops_the_close(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
        run_trial(writer, writer.plan.trials[0])
    row = folder / "episodes/000000-0/row.json"
    row.write_bytes(row.read_bytes().replace(b"policy_stop", b"step_limit!"))
    with again(folder) as writer, pytest.raises(EvidenceError, match=r"hash_mismatch.*000000-0/row\.json"):
        finish(writer)


def test_a_close_that_was_cut_short_is_finished_on_resume(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    whole = snapshot(folder)
    for name in ("completion.json", "rows.jsonl"):
        (folder / name).unlink()
        assert any(item.path == name for item in check(folder).findings)
    again(folder).close()
    assert snapshot(folder) == whole


def test_changed_inputs_are_recorded_and_block_the_campaign(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
        writer.inputs_checked({"careful": "a", "hasty": "b"})
        for trial in writer.unstarted:
            run_trial(writer, trial)
        writer.inputs_checked({"careful": "a", "hasty": "c"})
        writer.close_run(complete=True)
    result = check(folder)
    assert [item.code for item in result.findings] == ["inputs_changed_during_run"]
    assert "hasty" in result.findings[0].found and "careful" not in result.findings[0].found
    assert result.exit_code == 3


def test_events_of_the_run_are_recorded(writer: CampaignWriter) -> None:
    record = writer.note("clock_step", {"by_us": 3_600_000_000})
    assert (record["type"], record["data"]) == ("event", {"kind": "clock_step", "by_us": 3_600_000_000})


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"schedule": None}, "/schedule"),
        ({"schema": "trialplate.lock/9"}, "/schema"),
        ({"schema": "something"}, "/schema"),
        ({"schedule": [{"trial_id": "000000", "ordinal": 0, "arm": "a", "scenario": "s"}]}, "/schedule/0"),
        (
            {"schedule": [{"trial_id": "000001", "ordinal": 1, "arm": "a", "scenario": "s", "repeat": 0}]},
            "/schedule/0/ordinal",
        ),
        (
            {"schedule": [{"trial_id": "1", "ordinal": 0, "arm": "a", "scenario": "s", "repeat": 0}]},
            "/schedule/0/trial_id",
        ),
        (
            {"protocol": {"schedule": {"interrupted": "replace", "max_replacements": True}}},
            "/protocol/schedule/max_replacements",
        ),
    ],
)
def test_a_lock_without_a_dense_schedule_is_refused(tmp_path: Path, change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        write_lock(tmp_path / "c", canonical_json(lock_document() | change))
    assert pointer in caught.value.message
    assert not (tmp_path / "c").exists()


def test_a_lock_that_is_not_canonical_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        write_lock(tmp_path / "c", json.dumps(lock_document()).encode())
    assert caught.value.code == "malformed"


def test_derived_files_are_replaced_and_no_other_name_is_accepted(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    write_derived(folder, "results.jsonl", b"old\n")
    write_derived(folder, "results.jsonl", b"new\n")
    assert (folder / "results.jsonl").read_bytes() == b"new\n"
    with pytest.raises(UsageError, match=r"results\.jsonl"):
        write_derived(folder, "result.jsonl", b"")
    again(folder).close()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"this user may not mount a tmpfs: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_stops_the_run_and_after_room_is_made_it_resumes(mounted: Path) -> None:
    folder = mounted / "c"
    with begin(folder) as writer:
        writer.open_run({})
        run_trial(writer, writer.plan.trials[0])
        (mounted / "ballast").write_bytes(b"\0" * 800_000)
        writer.start_attempt("000001", ordinal=1, arm="hasty")
        row, trace = make_row(writer.plan.trials[1])
        with pytest.raises(StorageFailure, match=r"No space left.*ENOSPC.*free space"):
            writer.end_attempt(row, trace=trace, artifacts={"requests.bin": b"\1" * 400_000})
        with pytest.raises(StorageFailure, match="accepts nothing more"):
            writer.end_attempt(row, trace=trace)
    (mounted / "ballast").unlink()
    with again(folder) as writer:
        finish(writer)
    assert check(folder).findings == ()
    assert [row.termination for row in read_campaign(folder).rows[:2]] == ["policy_stop", "interrupted"]


def test_a_read_only_folder_is_refused_with_the_reason(mounted: Path) -> None:
    folder = build(mounted / "c")
    before = snapshot(folder)
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    for call in (lambda: begin(mounted / "new"), lambda: again(folder)):
        with pytest.raises(StorageFailure, match=r"Read-only file system.*EROFS.*remount"):
            call()
    assert check(folder).findings == ()
    assert snapshot(folder) == before


def test_a_clock_that_restarts_with_the_machine_is_accepted_only_at_a_resume(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
    clock = StepClock(start_s=10)
    disk = Disk(durability="process")
    with CampaignWriter.resume(folder, lock_sha256=sha256_hex(LOCK), disk=disk, clock=clock) as writer:
        writer.open_run({})
        clock._now_s = 5
        writer.note("clock_step", {})
    codes = [item.code for item in check(folder).findings]
    assert codes.count("clock_reversed") == 1
