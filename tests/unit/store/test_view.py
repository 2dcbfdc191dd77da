"""Reading a campaign: whole, open, incomplete, and with the first thing that is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from golden import COLUMNS, again, begin, build, build_torn, finish, lock_bytes, make_trace, run_trial
from trialplate.canonical import sha256_hex
from trialplate.errors import EvidenceError, UsageError
from trialplate.store.campaign import write_lock
from trialplate.store.verify import check
from trialplate.store.view import read_campaign


def _code(folder: Path) -> str:
    with pytest.raises(EvidenceError) as caught:
        read_campaign(folder)
    return caught.value.code


def test_a_whole_campaign_is_read_with_rows_in_schedule_order(tmp_path: Path) -> None:
    view = read_campaign(build(tmp_path / "c"))
    assert view.lock_sha256 == sha256_hex(lock_bytes())
    assert [row.ordinal for row in view.rows] == list(range(12)) == [trial.ordinal for trial in view.schedule]
    assert (view.complete, view.reason, view.interrupted) == (True, None, ())
    assert view.head.count == len(view.records)
    assert [record["seq"] for record in view.records] == list(range(len(view.records)))


def test_every_trace_is_loaded_with_its_declared_columns(tmp_path: Path) -> None:
    view = read_campaign(build(tmp_path / "c"))
    for row in view.rows:
        trace = view.load_trace(row)
        assert trace.content_sha256() == make_trace(row.ordinal * 100).content_sha256()
        assert list(trace.measured) == [column.name for column in COLUMNS]


def test_a_row_without_a_trace_says_so(tmp_path: Path) -> None:
    view = read_campaign(build_torn(tmp_path / "c"))
    row = next(row for row in view.rows if row.termination == "interrupted")
    with pytest.raises(EvidenceError, match="has no trace") as caught:
        view.load_trace(row)
    assert caught.value.code == "no_trace"


def test_a_changed_trace_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    view = read_campaign(folder)
    path = folder / "episodes/000003-0/trace.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"2")
    with pytest.raises(EvidenceError, match=r"000003-0/trace\.parquet") as caught:
        view.load_trace(view.rows[3])
    assert caught.value.code == "hash_mismatch"
    other = view.rows[4].trace
    with pytest.raises(EvidenceError, match=r"000004-0/row\.json") as caught:
        assert other is not None
        view.load_trace(replace(view.rows[4], trace=replace(other, content_sha256="0" * 64)))
    assert caught.value.code == "rows_digest_mismatch"


def test_a_trace_with_other_columns_than_the_lock_declares_is_malformed(tmp_path: Path) -> None:
    lock = lock_bytes(suite={"columns": [{"name": "block_position_m", "dim": 3, "unit": "m"}]})
    folder = build(tmp_path / "c", lock=lock)
    view = read_campaign(folder)
    with pytest.raises(EvidenceError) as caught:
        view.load_trace(view.rows[0])
    assert caught.value.code == "trace_malformed"
    assert {item.code for item in check(folder).findings} == {"trace_malformed"}


@pytest.mark.parametrize("columns", [[{"name": "a"}], [1], ["a"]])
def test_columns_of_another_form_in_the_lock_are_refused(tmp_path: Path, columns: list[object]) -> None:
    folder = build(tmp_path / "c", lock=lock_bytes(suite={"columns": columns}))
    findings = check(folder).findings
    assert [(item.code, item.pointer) for item in findings] == [("schema_mismatch", "/suite/columns")]


def test_a_campaign_that_was_only_locked_has_no_rows_and_is_incomplete(tmp_path: Path) -> None:
    write_lock(tmp_path / "c", lock_bytes())
    view = read_campaign(tmp_path / "c")
    assert (view.rows, view.complete, view.reason) == ((), None, "the run has not ended")
    result = check(tmp_path / "c")
    assert {item.code for item in result.findings} == {"coverage_incomplete"}
    assert result.exit_code == 3


def test_a_campaign_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        writer.open_run({})
        run_trial(writer, writer.plan.trials[0])
        writer.start_attempt("000001", ordinal=1, arm="hasty")
        view = read_campaign(tmp_path / "c")
    assert [row.trial_id for row in view.rows] == ["000000"]
    assert view.started == (("000000", 0), ("000001", 0))
    assert view.interrupted == (("000001", 0),)
    assert view.complete is None


def test_a_torn_journal_is_not_read_until_the_run_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"half')
    with pytest.raises(EvidenceError, match="--resume"):
        read_campaign(folder)
    result = check(folder)
    assert result.exit_code == 1
    assert [item.code for item in result.findings] == ["journal_broken"]
    with again(folder) as writer:
        finish(writer)
    assert read_campaign(folder).complete is True
    assert check(folder).findings == ()


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    row = folder / "episodes/000007-0/row.json"
    row.write_bytes(row.read_bytes().replace(b'"calls":1', b'"calls":2'))
    with pytest.raises(EvidenceError, match=r"hash_mismatch: episodes/000007-0/row\.json"):
        read_campaign(folder)
    row.unlink()
    assert _code(folder) == "file_missing"
    (folder / "journal.jsonl").write_bytes(b"")
    assert _code(folder) == "journal_broken"
    (folder / "head.json").write_bytes(b"{}")
    assert _code(folder) == "schema_mismatch"
    (folder / "lock.json").unlink()
    assert _code(folder) == "file_missing"


def test_where_no_campaign_is_it_is_a_wrong_argument_and_no_damage(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="no campaign at") as caught:
            read_campaign(folder)
        assert caught.value.code == "no_campaign"


def test_a_blocked_campaign_can_still_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        writer.open_run({})
        writer.inputs_checked({"careful": "a"})
        for trial in writer.unstarted:
            run_trial(writer, trial)
        writer.inputs_checked({"careful": "b"})
        writer.close_run(complete=False, reason="inputs_changed")
    view = read_campaign(folder)
    assert (len(view.rows), view.complete, view.reason) == (12, False, "inputs_changed")


def test_reading_rows_and_checking_chains_does_not_load_pyarrow() -> None:
    program = "import sys; import trialplate.store.campaign, trialplate.store.verify; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
