"""A harness qualifies only when attempts of its raw controls that nobody picked repeat, and every reader can tell."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forger import Forger
from trialplate import api, exam, fingerprint, replaying
from trialplate.canonical import canonical_json, document_sha256, read_stored
from trialplate.registry import load_suite
from trialplate.resimulation import Repeat, Repeater
from trialplate.store import merkle
from trialplate.store.chain import system_clock
from trialplate.store.view import read_campaign
from trialplate.verification.qualification import (
    Check,
    audit_again,
    exam_runs,
    examine,
    qualification_findings,
    stored_audit,
)
from trialplate.verification.replay_audit import AUDITED, ReplayAudit, audit_controls, audit_result

BEACON = bytes(range(32))
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "leans"
question = "Does the arm carry the block?"
run_class = "confirmatory"
suite = { name = "toy", version = "1", scenarios = ["toy-001"] }
[[arms]]
name = "scripted"
policy = "control:scripted"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    exam.qualify("toy", into=folder / "q", beacon=BEACON)
    return folder / "q"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "q"))


def of_audit(checks: tuple[Check, ...]) -> Check:
    return next(check for check in checks if check.name == "replay audit")


def rewrite_audit(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit the audit in a summary, and give the summary its new id."""
    path = folder / "qualification.json"
    document = read_stored(path.read_bytes())
    edit(document["replay_audit"])
    document.pop("qualification_id")
    path.unlink()
    path.write_bytes(canonical_json({**document, "qualification_id": document_sha256(document)}))


def test_root_and_beacon_pick_the_attempts_of_all_runs_together(made: Path) -> None:
    lines = [
        (run, line)
        for run in exam_runs(load_suite("toy"))
        for line in (made / run / "rows.jsonl").read_bytes().splitlines()
    ]
    audit = stored_audit(made)
    assert audit is not None
    root = merkle.root([line for _, line in lines])
    picked = merkle.audit_sample(root, BEACON, n=len(lines), k=AUDITED)
    assert (audit.root, audit.beacon) == (root, BEACON.hex())
    assert [(item.run, item.trial_id) for item in audit.episodes] == [
        (lines[index][0], read_stored(lines[index][1])["trial_id"]) for index in picked
    ]
    assert all(item.reason is None for item in audit.episodes)


def test_an_honest_harness_holds_the_audit_and_a_reader_computes_it_again(made: Path) -> None:
    result = examine(made, "toy")
    assert of_audit(result.checks) == Check(
        "replay audit", True, "29 of 36 attempts repeat", "29 of 36 attempts repeat"
    )
    assert result.passed
    assert read_stored((made / "qualification.json").read_bytes()) == result.document()


def test_a_reader_needs_no_simulator_to_compute_it_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a world was stepped")

    monkeypatch.setattr("trialplate.testing.toy.ToyWorld.__init__", never)
    assert of_audit(examine(made, "toy").checks).passed


def test_a_harness_one_of_whose_attempts_does_not_repeat_is_not_qualified(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {name: read_campaign(made / name) for name in exam_runs(load_suite("toy"))}
    honest = Repeater.repeat

    def drifting(self: Repeater, row: Any) -> Repeat:
        done = honest(self, row)
        return replace(done, last_state_sha256="0" * 64) if row.trial_id == "000002" else done

    monkeypatch.setattr(Repeater, "repeat", drifting)
    audit = audit_controls(views, beacon=BEACON)
    result = examine(made, "toy", audit=audit)
    check = of_audit(result.checks)
    assert not result.passed and not check.passed
    assert "do not, first " in check.found and "000002-0: another state at its end" in check.found


def test_on_another_machine_nothing_is_audited_and_nothing_qualifies(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {name: read_campaign(made / name) for name in exam_runs(load_suite("toy"))}
    here = fingerprint.machine()
    monkeypatch.setattr(fingerprint, "machine", lambda: {**here, "libc": "musl 1.2"})
    holds, _, found = audit_result(audit_controls(views, beacon=BEACON), views)
    assert not holds
    assert found.startswith("29 do not, first ") and "not_comparable_here" in found


def _other_beacon(audit: dict[str, Any]) -> None:
    audit["beacon"] = "1" * 64


def _fewer(audit: dict[str, Any]) -> None:
    audit["episodes"] = audit["episodes"][:-1]


def _another_attempt(audit: dict[str, Any]) -> None:
    audit["episodes"][0] = {**audit["episodes"][0], "trial_id": "000099"}


def _another_root(audit: dict[str, Any]) -> None:
    audit["root"] = "2" * 64


def _another_end(audit: dict[str, Any]) -> None:
    audit["episodes"][3]["last_state_sha256"] = "3" * 64


def _not_simulated(audit: dict[str, Any]) -> None:
    audit["episodes"][3]["last_state_sha256"] = None


def _unknown_member(audit: dict[str, Any]) -> None:
    audit["note"] = "trust me"


def _no_hex(audit: dict[str, Any]) -> None:
    audit["beacon"] = "z" * 64


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (_other_beacon, "an audit of other attempts"),
        (_fewer, "an audit of other attempts"),
        (_another_attempt, "an audit of other attempts"),
        (_another_root, "an audit of other attempts"),
        (_another_end, "1 do not, first "),
        (_not_simulated, "1 do not, first "),
        (_unknown_member, "no audit"),
        (_no_hex, "no audit"),
    ],
)
def test_an_edited_audit_qualifies_nothing(folder: Path, edit: Callable[[dict[str, Any]], Any], found: str) -> None:
    rewrite_audit(folder, edit)
    lock = read_campaign(folder / "null").lock_document
    codes = {(item.code, item.pointer) for item in qualification_findings(folder, lock)}
    assert ("qualification_failed", "replay audit") in codes
    assert of_audit(examine(folder, "toy").checks).found.startswith(found)
    assert audit_again(folder, "toy") == (0, ())


def test_a_qualification_without_an_audit_qualifies_nothing(folder: Path) -> None:
    (folder / "qualification.json").unlink()
    assert of_audit(examine(folder, "toy").checks).found == "no audit"


def test_a_control_that_was_doctored_with_its_audit_is_found_where_it_is_simulated_again(folder: Path) -> None:
    """The forger rewrites a random run and says that the replay agreed; only a simulator can tell."""
    views = {name: read_campaign(folder / name) for name in exam_runs(load_suite("toy"))}
    forger = Forger(folder / "random", clock=system_clock)
    for row in views["random"].rows:
        forger.edit_trace(
            f"{row.trial_id}-0",
            lambda trace: replace(trace, state_sha256=(*trace.state_sha256[:-1], "4" * 64)),
        )
    forger.seal()
    api.score(folder / "random")
    forged = {name: read_campaign(folder / name) for name in views}
    honest = audit_controls(forged, beacon=BEACON)
    said = [
        item.model_copy(update={"last_state_sha256": "4" * 64, "reason": None}) if item.run == "random" else item
        for item in honest.episodes
    ]
    audit = ReplayAudit(root=honest.root, beacon=honest.beacon, episodes=tuple(said))
    result = examine(folder, "toy", audit=audit)
    assert result.passed  # no digest and no recomputation can tell
    (folder / "qualification.json").unlink()
    (folder / "qualification.json").write_bytes(canonical_json(result.document()))
    simulated, wrong = audit_again(folder, "toy")
    assert simulated == AUDITED
    assert {item.code for item in wrong} == {"replay_mismatch"}
    assert len(wrong) == sum(item.run == "random" for item in honest.episodes) > 0
    assert all("random/" in item.expected for item in wrong)


def test_verify_with_replay_simulates_the_audit_of_the_controls_too(made: Path, tmp_path: Path) -> None:
    (tmp_path / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    api.run(api.lock(api.load_protocol(tmp_path / "protocol.toml"), into=tmp_path / "c"))
    verdict = exam.verify(tmp_path / "c", qualification=made, replay="all")
    assert verdict.replay is not None and verdict.exit_code == 0
    assert (verdict.replay.simulated, verdict.replay.controls) == (1, AUDITED)
    assert "29 attempts of the raw controls replayed as well" in verdict.replay.line()
    assert exam.verify(tmp_path / "c", qualification=made).replay is None


def test_an_attempt_without_a_recording_has_nothing_to_repeat_and_no_state_may_be_said_of_it(made: Path) -> None:
    views = {name: read_campaign(made / name) for name in exam_runs(load_suite("toy"))}
    lost = {
        name: replace(view, rows=tuple(replace(row, trace=None, termination="interrupted") for row in view.rows))
        for name, view in views.items()
    }
    audit = audit_controls(lost, beacon=BEACON)
    assert {item.reason for item in audit.episodes} == {"nothing was recorded: interrupted"}
    assert audit_result(audit, lost)[0]
    first = audit.episodes[0].model_copy(update={"last_state_sha256": "5" * 64})
    lied = audit.model_copy(update={"episodes": (first, *audit.episodes[1:])})
    assert not audit_result(lied, lost)[0]


def test_the_root_is_the_one_of_a_bundle(made: Path) -> None:
    view = read_campaign(made / "null")
    assert replaying.rows_root(view.rows) == merkle.root((made / "null" / "rows.jsonl").read_bytes().splitlines())
