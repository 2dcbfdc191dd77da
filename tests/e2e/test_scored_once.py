"""A program that scores a campaign and then reports it reads recordings once, and sees every one that was touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trialplate import api
from trialplate.errors import EvidenceError
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification import recordings, score_and_time


@pytest.fixture
def view(toy_protocol: Path, tmp_path: Path) -> CampaignView:
    folder = tmp_path / "c"
    api.run(api.lock(api.load_protocol(toy_protocol), into=folder))
    return read_campaign(folder)


def test_recordings_that_nobody_touched_are_read_once(view: CampaignView, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = api.score(view.folder)
    monkeypatch.setattr(recordings, "_score_and_time", lambda _: pytest.fail("read again"))
    again, timed = score_and_time(read_campaign(view.folder))
    assert again == outcomes
    assert len(timed(view.rows[0])) == view.rows[0].calls


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_a_recording_that_changed_is_read_again_and_refused(view: CampaignView, how: str) -> None:
    api.score(view.folder)
    reference = next(row.trace for row in view.rows if row.trace is not None)
    path = view.folder / reference.path
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    if how == "replaced":
        path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nothing had happened
    with pytest.raises(EvidenceError, match=r"hash_mismatch|expected"):
        api.score(view.folder)


def test_a_recording_that_is_gone_is_told(view: CampaignView) -> None:
    api.score(view.folder)
    (view.folder / next(row.trace for row in view.rows if row.trace is not None).path).unlink()
    with pytest.raises(EvidenceError):
        api.score(view.folder)
