"""What commands print about findings: the same in many files once, folded where the width is known, nothing raw."""

from __future__ import annotations

import pytest

from trialplate.cli import app
from trialplate.cli.output import BAD_INPUT, finding_lines, guarded, say


def finding(path: str, **changes: str) -> dict[str, str]:
    return {"code": "hash_mismatch", "path": path, "pointer": "", "expected": "aa", "found": "bb", **changes}


def test_a_finding_is_a_place_with_what_was_expected_and_what_is_there() -> None:
    assert list(finding_lines([finding("lock.json", pointer="/harness/sha256", found="")])) == [
        "hash_mismatch: lock.json#/harness/sha256",
        "  expected aa",
        "  found    nothing",
    ]


def test_the_same_in_many_files_is_told_once_and_another_one_by_itself() -> None:
    same = [finding(f"{name}/lock.json") for name in "abcd"]
    lines = list(finding_lines([*same, finding("e/lock.json", found="cc"), *same[:1]]))
    assert lines[0] == "hash_mismatch: a/lock.json (and 4 more files: b/lock.json, c/lock.json, ...)"
    assert lines[3] == "hash_mismatch: e/lock.json" and len(lines) == 6
    assert next(finding_lines(same[:2])) == "hash_mismatch: a/lock.json (and 1 more file: b/lock.json)"


def test_nothing_in_a_finding_steers_a_terminal() -> None:
    assert "\x1b" not in "".join(finding_lines([finding("a\x1b[31m", found="\u202ex")]))


def test_a_line_is_folded_between_words_where_the_width_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    say("  expected " + "a" * 64 + " (changed scoring/ladder.py)")
    say("CLAIMS none")
    assert capsys.readouterr().out.splitlines() == [
        "  expected",
        "    " + "a" * 64,
        "    (changed scoring/ladder.py)",
        "CLAIMS none",
    ]


def test_a_line_stays_whole_where_nobody_knows_the_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    say("word " * 100)
    assert capsys.readouterr().out == "word " * 100 + "\n"


def test_an_unknown_option_beside_a_missing_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(app, ["lock", "protocol.toml", "--into", "folder"]) == BAD_INPUT
    told = " ".join(capsys.readouterr().err.split())
    assert "--out" in told and "unknown here: --into" in told
