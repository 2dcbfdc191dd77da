"""Heads of the journal that a run prints: whoever keeps one can hold the campaign against it later."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from trialplate import api
from trialplate.cli import main
from trialplate.store import witness
from trialplate.store.witness import read_witness, witness_findings


def test_a_run_prints_a_head_now_and_then_and_at_its_end_and_each_is_in_its_journal(
    toy_protocol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(witness, "HEADS_EVERY", 10)
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    with pytest.raises(SystemExit):
        main(["run", str(lock.path)])
    heads = re.findall(r"journal head (\d+:[0-9a-f]{64})", capsys.readouterr().out)
    assert len(heads) == 4  # after 10, 20 and 30 of 36 attempts, and at the end
    journal = (tmp_path / "c" / "journal.jsonl").read_bytes()
    assert witness_findings(journal, map(read_witness, heads)) == []
    counts = [read_witness(head).count for head in heads]
    assert counts == sorted(set(counts)) and counts[-1] == journal.count(b"\n")


def test_a_run_for_a_program_puts_its_head_into_the_document_and_others_on_standard_error(
    toy_protocol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(witness, "HEADS_EVERY", 30)
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    with pytest.raises(SystemExit):
        main(["run", str(lock.path), "--json"])
    told = capsys.readouterr()
    journal = (tmp_path / "c" / "journal.jsonl").read_bytes()
    heads = [json.loads(told.out)["journal_head"], *re.findall(r"journal head (\S+) after 30", told.err)]
    assert len(heads) == 2
    assert witness_findings(journal, map(read_witness, heads)) == []
