"""A check reads every recording once, and finds the same with any number of workers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.store import traces
from trialplate.verification import recordings, verify_campaign


@pytest.fixture
def campaign(toy_protocol: Path, tmp_path: Path) -> Path:
    """A finished toy campaign with its results."""
    folder = tmp_path / "c"
    api.run(api.lock(api.load_protocol(toy_protocol), into=folder))
    api.score(folder)
    return folder


def test_a_check_reads_every_recording_once(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[bytes] = Counter()
    inner = traces.read_trace

    def counted(data: bytes, **limits: Any) -> Any:
        read[data] += 1
        return inner(data, **limits)

    monkeypatch.setattr(traces, "read_trace", counted)
    verdict = verify_campaign(campaign)
    assert (verdict.exit_code, verdict.attempts) == (0, sum(read.values()))


def test_two_workers_find_what_one_finds(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "GROUP", 1)
    episodes = sorted((campaign / "episodes").iterdir())
    trace, row = episodes[3] / "trace.parquet", episodes[5] / "row.json"
    trace.write_bytes(trace.read_bytes()[:-1])
    row.write_bytes(row.read_bytes().replace(b'"attempt":0', b'"attempt":1'))
    (episodes[7] / "more").write_bytes(b"x")
    one, two = verify_campaign(campaign), verify_campaign(campaign, workers=2)
    assert {finding.code for finding in one.findings} >= {"size_mismatch", "hash_mismatch", "file_extra"}
    assert (two.findings, two.exit_code, two.attempts) == (one.findings, one.exit_code, one.attempts)


def test_two_workers_score_what_one_scores(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "GROUP", 1)
    results = campaign / "results.jsonl"
    assert verify_campaign(campaign, workers=2).findings == ()
    results.write_bytes(results.read_bytes().replace(b'"FAIL"', b'"PASS"', 1))
    assert [finding.code for finding in verify_campaign(campaign, workers=2).findings] == ["grades_not_reproduced"]
