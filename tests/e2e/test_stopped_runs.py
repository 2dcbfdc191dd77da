"""A run with a registered stopping rule ends where the rule says; every reader applies the rule again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toy_protocol import TOY_PROTOCOL
from trialplate import api
from trialplate.cli import main
from trialplate.errors import ProtocolError, UsageError
from trialplate.run.campaign import Progress, run_campaign
from trialplate.store.amending import amend
from trialplate.store.view import read_campaign

RULE = """
[analysis]
comparisons = [["scripted", "null"]]

[stopping]
kind = "e_process"
arms = ["scripted", "null"]
looks = "each"
alternative = "two-sided"
"""


def _protocol(folder: Path, rule: str = RULE, *, order: str = "blocks") -> Path:
    text = TOY_PROTOCOL.replace('interrupted = "replace"', f'interrupted = "replace"\norder = "{order}"')
    path = folder / "protocol.toml"
    path.write_text(text.replace("repeats = 2", "repeats = 5") + rule, encoding="utf-8")
    return path


def _locked(folder: Path, rule: str = RULE) -> Any:
    return api.lock(api.load_protocol(_protocol(folder, rule)), into=folder / "campaign")


def _codes(folder: Path) -> list[str]:
    return [item.code for item in api.verify(folder).findings]


def test_a_run_stops_at_the_look_that_decides_and_is_complete(tmp_path: Path) -> None:
    campaign = api.run(_locked(tmp_path))
    assert campaign.report is not None
    assert campaign.report.complete
    assert campaign.report.stopped_by == "registered_stop"
    view = read_campaign(campaign.folder)
    assert len(view.rows) % 3 == 0
    assert len(view.rows) < len(view.lock_document["schedule"]) == 90
    [said] = view.amendments
    assert said.kind == "stop"
    assert "e_process, rejected at the look after" in said.text
    assert _codes(campaign.folder) == []
    analysis = api.analyse(api.score(campaign), campaign.folder / "lock.json")
    assert {arm.counts.planned for arm in analysis.arms} == {len(view.rows) // 3}
    assert {arm.state for arm in analysis.arms} == {"COMPLETE"}
    assert "unregistered_stop" not in api.judge(analysis, campaign.folder / "lock.json")[0].reasons


def test_one_worker_and_two_stop_at_the_same_trial_with_the_same_results(tmp_path: Path) -> None:
    results = []
    lock = _locked(tmp_path)
    for workers in (1, 2):
        campaign = api.run(lock, into=tmp_path / f"run-{workers}", workers=workers, executor="processes")
        assert campaign.report is not None
        assert campaign.report.complete
        api.score(campaign)
        results.append((campaign.folder / "results.jsonl").read_bytes())
    assert results[0] == results[1]


def test_a_run_that_was_interrupted_before_the_look_stops_at_the_same_trial(tmp_path: Path) -> None:
    lock = _locked(tmp_path)
    whole = api.run(lock, into=tmp_path / "whole")

    def interrupting(now: Progress) -> None:
        if now.done == 5:
            raise KeyboardInterrupt

    cut = api.run(lock, into=tmp_path / "cut", progress=interrupting)
    assert cut.report is not None
    assert not cut.report.complete
    again = api.run(lock, into=tmp_path / "cut", resume=True)
    assert again.report is not None
    assert again.report.complete
    counted = {row.trial_id for row in read_campaign(cut.folder).rows}
    assert counted == {row.trial_id for row in read_campaign(whole.folder).rows}
    assert _codes(cut.folder) == []


def test_a_stopped_run_runs_nothing_more(tmp_path: Path) -> None:
    campaign = api.run(_locked(tmp_path))
    before = len(read_campaign(campaign.folder).rows)
    again = api.run(campaign.folder / "lock.json", resume=True)
    assert again.report is not None
    assert (again.report.complete, again.report.stopped_by) == (True, "registered_stop")
    view = read_campaign(campaign.folder)
    assert (len(view.rows), len(view.amendments)) == (before, 1)


def test_a_rule_that_never_rejects_runs_every_trial(tmp_path: Path) -> None:
    rule = RULE.replace('"each"', "[3]")
    campaign = api.run(_locked(tmp_path, rule))
    view = read_campaign(campaign.folder)
    assert len(view.rows) == 90
    assert view.amendments == ()
    assert _codes(campaign.folder) == []


def test_a_run_that_goes_on_behind_the_stop_is_found_and_licenses_nothing(tmp_path: Path) -> None:
    lock = _locked(tmp_path)
    run_campaign(lock, lock.path.parent)  # nobody applies the rule
    assert len(read_campaign(lock.path.parent).rows) == 90
    [found] = [item for item in api.verify(lock.path.parent).findings if item.code == "stop_rule"]
    assert "66 attempts behind it" in found.found
    analysis = api.analyse(api.score(lock.path.parent), lock)
    assert "unregistered_stop" in api.judge(analysis, lock)[0].reasons


def test_a_stop_that_somebody_says_by_hand_is_found_and_blocks_claims(tmp_path: Path) -> None:
    lock = _locked(tmp_path)

    def interrupting(now: Progress) -> None:
        if now.done == 3:
            raise KeyboardInterrupt

    campaign = api.run(lock, progress=interrupting)
    amend(campaign.folder, kind="stop", reason="enough", text="it looks good")
    again = api.run(lock, resume=True)
    assert again.report is not None
    assert (again.report.complete, again.report.stopped_by) == (False, "unregistered_stop")
    assert len(read_campaign(campaign.folder).rows) == 3
    assert "stop_rule" in _codes(campaign.folder)


def test_a_stop_without_a_registered_rule_is_refused(tmp_path: Path) -> None:
    lock = _locked(tmp_path, "")
    with pytest.raises(UsageError, match="registers"):
        amend(lock.path.parent, kind="stop", reason="enough", text="it looks good")


@pytest.mark.parametrize(
    ("rule", "order", "place"),
    [
        (RULE, "shuffled", "stopping: a stopping rule compares blocks"),
        (RULE.replace("[[", '[["oracle", "null"]]\n#'), "blocks", "stopping.arms"),
        (RULE.replace('"each"', "[10, 31]"), "blocks", "only 30 are planned"),
        (
            RULE.replace('"e_process"', '"group_sequential"').replace('"each"', "[10, 20]").replace(
                'alternative = "two-sided"', 'spending = "pocock"'
            ), "blocks", "behind the last block",
        ),
        (RULE.replace("looks", "lokos"), "blocks", "did you mean 'looks'"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_followed_is_refused_before_anything_runs(
    tmp_path: Path, rule: str, order: str, place: str
) -> None:
    with pytest.raises(ProtocolError) as refused:
        api.load_protocol(_protocol(tmp_path, rule, order=order))
    assert place in str(refused.value)


def test_the_command_line_says_that_the_rule_stopped_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = _locked(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(lock.path)])
    assert ended.value.code == 0
    assert "stopped by the registered rule; nothing is missing" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(lock.path.parent)])
    assert ended.value.code == 0
