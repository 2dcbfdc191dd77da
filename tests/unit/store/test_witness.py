"""Heads that somebody kept: a journal must still begin with what they saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from forger import Forger
from golden import build, lock_bytes
from trialplate.canonical import read_stored
from trialplate.errors import UsageError
from trialplate.store.witness import Witness, read_witness, witness_findings


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a small campaign."""
    folder = build(tmp_path_factory.mktemp("witness") / "c", lock=lock_bytes(repeats=1))
    return (folder / "journal.jsonl").read_bytes()


def heads(journal: bytes) -> list[Witness]:
    lines = journal.split(b"\n")[:-1]
    return [Witness(count, read_stored(line)["sha256"]) for count, line in enumerate(lines, 1)]


def test_every_head_of_a_journal_is_found_in_it_however_much_it_grew(journal: bytes) -> None:
    assert witness_findings(journal, heads(journal)) == []


def test_row_29_two_heads_of_the_same_count_cannot_both_be_of_one_journal(journal: bytes, tmp_path: Path) -> None:
    folder = build(tmp_path / "c", lock=lock_bytes(repeats=1))
    forger = Forger(folder)
    forger.edit_row("000000-0", lambda row: row.update(termination="horizon"))
    forger.seal()
    forged = (folder / "journal.jsonl").read_bytes()
    seen, other = heads(journal), heads(forged)
    differing = [mine for mine, theirs in zip(seen, other, strict=True) if mine != theirs]
    assert differing and all(mine.count == theirs.count for mine, theirs in zip(seen, other, strict=True))
    wrong = witness_findings(forged, differing)
    assert {(item.code, item.exit_code) for item in wrong} == {("expected_mismatch", 1)}
    assert len(wrong) == len(differing)
    assert witness_findings(journal, differing) == []


def test_a_journal_that_is_shorter_than_what_somebody_saw_is_told(journal: bytes) -> None:
    last = heads(journal)[-1]
    cut = journal[: journal.rindex(b"\n", 0, -1) + 1]
    (wrong,) = witness_findings(cut, [last])
    assert (wrong.expected, wrong.found) == (str(last), f"{last.count - 1} records")


def test_a_line_that_is_damaged_is_no_head(journal: bytes) -> None:
    first = heads(journal)[0]
    (wrong,) = witness_findings(b"not json\n" + journal.partition(b"\n")[2], [first])
    assert wrong.expected == str(first)


def test_what_was_printed_is_read_back(journal: bytes) -> None:
    for head in heads(journal):
        assert read_witness(str(head)) == head
    for text in ("", "3", f"0:{'a' * 64}", f"3:{'A' * 64}", f"3:{'a' * 63}", f"03:{'a' * 64}"):
        with pytest.raises(UsageError, match="COUNT:DIGEST"):
            read_witness(text)
