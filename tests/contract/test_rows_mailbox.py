"""Rows 18, 38, 43, 44, 45 and 46 of the policy contract, over a file mailbox, from lock to score."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_campaign import opaque_root
from mailbox_threads import NAME, deciding, events, first_look, lock_toy, put, run_threads, scripted
from trialplate import api
from trialplate.canonical import env_seed, policy_seed
from trialplate.errors import LockError, UsageError
from trialplate.examples.clients.mailbox_actor import answer
from trialplate.policies.mailbox.instructions import examples_in
from trialplate.policies.wire import strict_json
from trialplate.run.mailbox_launch import actor_text, run_mailboxes
from trialplate.store.view import read_campaign
from trialplate.testing.toy import TOY


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty folder whose path says nothing."""
    with opaque_root() as place:
        yield place


# -- row 18 ----------------------------------------------------------------------------------------------------------


def test_row_18_three_invalid_answers_use_up_three_calls_on_one_look(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c", budgets='invalid_action_handling = "feedback"\nmax_calls = 3\n')
    seen: list[Any] = []

    def wrong(observation: Any, pictures: Path) -> dict[str, Any]:
        seen.append(observation)
        return {"chunk": {"vectors": [[0.0, 7.0]]}}

    rows, _ = run_threads(lock, root, deciding(wrong))
    for row in rows:
        assert (row.fault_code, row.control_steps, row.calls) == ("call_budget_exhausted", 0, 3)
    first = seen[:3]
    assert [look["call_index"] for look in first] == [0, 1, 2]
    assert len({look["observation_id"] for look in first}) == 1
    assert [(look["issue"] or {}).get("code") for look in first] == [None, "invalid_action", "invalid_action"]
    assert first[1]["issue"]["component"] == "gripper[0]"
    same = ("proprio", "step_index", "instruction", "meta", "history", "images")
    assert all(look[key] == first[0][key] for look in first for key in same)
    assert [look["remaining"]["calls"] for look in first] == [3, 2, 1]
    assert {outcome.status for outcome in api.score(lock.path.parent)} == {"FAIL"}


# -- row 38 ----------------------------------------------------------------------------------------------------------


def test_row_38_a_mailbox_gives_the_actions_and_results_of_the_same_policy_in_process(
    tmp_path: Path, root: Path
) -> None:
    lock = lock_toy(tmp_path / "c")
    api.run(lock)
    rows, _ = run_threads(lock, root, scripted, resume=True)
    rows.sort(key=lambda row: row.scenario)
    by_arm = {arm: [row for row in rows if row.arm == arm] for arm in ("quiet-arm", "same-here")}
    pairs = list(zip(by_arm["quiet-arm"], by_arm["same-here"], strict=True))
    assert len(pairs) == 2
    for mailbox, here in pairs:
        assert mailbox.scenario == here.scenario
        assert mailbox.actions_sha256 == here.actions_sha256 is not None
        assert (mailbox.calls, mailbox.rows_executed, mailbox.termination) == (
            here.calls,
            here.rows_executed,
            here.termination,
        )
        assert (mailbox.echo, mailbox.usage, mailbox.usage_reason) == ("policy", None, "not_metered")
    outcomes = api.score(lock.path.parent)
    assert {outcome.status for outcome in outcomes} == {"PASS"}
    assert api.verify(lock.path.parent).exit_code == 0


# -- row 43 ----------------------------------------------------------------------------------------------------------


def test_row_43_a_file_that_is_never_renamed_is_ignored_and_a_late_one_is_recorded(
    tmp_path: Path, root: Path
) -> None:
    lock = lock_toy(tmp_path / "c", **{"call_timeout_s = 5": "call_timeout_s = 0.3"})

    def late(mailbox: Path) -> None:
        observation = first_look(mailbox)
        good = answer(observation, {"chunk": {"vectors": [[1.0, 1.0]]}})
        (mailbox / "act" / "00000.json.tmp").write_text(json.dumps(good), encoding="utf-8")
        while not (mailbox / "done.json").exists():
            time.sleep(0.002)
        put(mailbox, "00000.json", good)

    rows, actors = run_threads(lock, root, late)
    for row in rows:
        assert (row.fault_code, row.control_steps) == ("policy_timeout", 0)
        (event,) = events(row, "late_response")
        assert event["file"] == "act/00000.json"
        assert len(event["sha256"]) == 64
    assert [json.loads((item.folder / "done.json").read_bytes()) for item in actors.opened] == [
        {"reason": "error"}
    ] * 2


@pytest.mark.parametrize("handling", ["terminal", "feedback"])
def test_row_43_a_link_is_refused_by_mode(tmp_path: Path, root: Path, handling: str) -> None:
    lock = lock_toy(tmp_path / "c", budgets=f'invalid_action_handling = "{handling}"\nmax_calls = 2\n')

    def link(mailbox: Path) -> None:
        observation = first_look(mailbox)
        good = mailbox / "scratch.json"
        good.write_text(json.dumps(answer(observation, {"chunk": {"vectors": [[1.0, 1.0]]}})), encoding="utf-8")
        (mailbox / "act" / "00000.json").symlink_to(good)

    if handling == "feedback":
        lock = lock_toy(
            tmp_path / "d",
            budgets='invalid_action_handling = "feedback"\nmax_calls = 2\n',
            **{"call_timeout_s = 5": "call_timeout_s = 0.3"},
        )
    rows, _ = run_threads(lock, root, link)
    for row in rows:
        assert row.control_steps == 0
        assert events(row, "response_refused")[0]["refusal"] == "a symbolic link"
        expected = ("invalid_response_schema", 1) if handling == "terminal" else ("policy_timeout", 2)
        assert (row.fault_code, row.calls) == expected


@pytest.mark.parametrize("handling", ["terminal", "feedback"])
def test_row_43_a_wrong_number_is_recorded_by_mode(tmp_path: Path, root: Path, handling: str) -> None:
    lock = lock_toy(tmp_path / "c", budgets=f'invalid_action_handling = "{handling}"\nmax_calls = 4\n')

    def skip(mailbox: Path) -> None:
        first = first_look(mailbox)
        put(mailbox, "00000.json", answer(first, {"chunk": {"vectors": [[0.5, -1.0]]}}))
        second = mailbox / "obs" / "00001.json"
        while not second.exists():
            time.sleep(0.002)
        look = json.loads(second.read_text(encoding="utf-8"))
        put(mailbox, "00002.json", {**answer(look, {"chunk": {"vectors": [[1.0, 1.0]]}}), "call_index": 2})
        if handling == "feedback":
            third = mailbox / "obs" / "00002.json"
            while not third.exists():
                time.sleep(0.002)
            told = json.loads(third.read_text(encoding="utf-8"))
            assert told["issue"]["code"] == "invalid_response_schema"
            assert told["observation_id"] == look["observation_id"]
            put(mailbox, "00002.json", answer(told, {"stop": {"reason": None}}))

    rows, _ = run_threads(lock, root, skip)
    for row in rows:
        (event,) = events(row, "wrong_index")
        assert (event["file"], event["due"]) == ("act/00002.json", 1)
        assert row.control_steps == 1  # nothing but the first answer moved anything
        expected = ("fault", "invalid_response_schema") if handling == "terminal" else ("policy_stop", None)
        assert (row.termination, row.fault_code) == expected


# -- row 44 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "toy-agent"},
        {"name": "agent-2026-11-29"},
        {"name": "quiet-arm"},
        {"name": "toy-001"},
        {"name": "actor-7"},
        {"host": "toy-host"},
        {"host": "seed-box"},
        {"under": "toy"},
        {"under": "2026-11-29"},
        {"under": "night_study"},
        {"under": "scores"},
        {"under": "link"},
    ],
)
def test_row_44_a_launch_that_tells_the_actor_anything_is_refused(
    tmp_path: Path, root: Path, changed: dict[str, str]
) -> None:
    lock = lock_toy(tmp_path / "c")
    place = root / changed.pop("under", "q")
    if place.name == "link":  # the link says nothing, where it leads does
        (root / "toy").mkdir(parents=True)
        place.symlink_to(root / "toy")
    launch: dict[str, Any] = {"root": place, "name": NAME, **changed}
    with pytest.raises(UsageError) as caught:
        run_mailboxes(lock, tmp_path / "c", **launch)
    assert caught.value.code == "actor_label_leak"
    assert not (tmp_path / "c" / "journal.jsonl").exists()  # nothing was started
    assert not place.exists() or list(place.iterdir()) == []


def test_row_44_the_command_refuses_with_exit_code_2(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    command = ["mailbox", "run", str(lock.path), "--root", str(root / "toy"), "--out", str(tmp_path / "c"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "actor_label_leak"


def test_row_44_a_root_that_was_used_is_refused(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    (root / NAME).mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        run_mailboxes(lock, tmp_path / "c", root=root, name=NAME)
    assert caught.value.code == "mailbox_root_used"
    (root / "notes.txt").touch()
    with pytest.raises(UsageError):
        run_mailboxes(lock, tmp_path / "c", root=root, name=NAME, resume=True)


def test_nothing_that_an_actor_can_read_tells_what_it_is_part_of(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    _, actors = run_threads(lock, root, scripted)
    assert len(actors.opened) == 2
    forbidden = {"toy", "night", "quiet", "same-here", "scripted", "trial_", lock.sha256}
    forbidden |= {item.id for item in TOY.scenarios()} | {item.variant for item in TOY.scenarios()}
    forbidden |= {"seed", "score", "success", "reward", "passed", "failed", "benchmark", "suite", "scenario"}
    for trial in lock.document["schedule"]:
        forbidden.add(str(env_seed(lock.sha256, "toy", scenario=trial["scenario"], repeat=trial["repeat"])))
        forbidden.add(str(policy_seed(lock.sha256, trial["ordinal"])))
    forbidden.add(str(lock.protocol["schedule"]["seed"]))
    read = [item.instructions.text for item in actors.opened]
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) > 20
    read += [path.read_text(encoding="utf-8") for path in files]
    read += [str(path.relative_to(root.parent)) for path in root.rglob("*")]
    for text in read:
        plain = text.casefold()
        assert [word for word in sorted(forbidden) if word.casefold() in plain] == []
        opaque = re.sub(r"[0-9a-f]{32,}", "", plain)
        assert re.findall(r"(?<![\d.])20[23]\d-?[01]\d|\bpass\b|\bfail\b", opaque) == []


# -- row 45 ----------------------------------------------------------------------------------------------------------


def test_row_45_the_examples_that_an_actor_is_given_are_taken_by_a_real_run(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    text = actor_text(lock, host="localhost", mailbox=str(root / NAME)).text
    chunk, stop = (json.loads(block) for block in examples_in(text))

    def copy(observation: Any, pictures: Path) -> dict[str, Any]:
        example = chunk if observation["call_index"] == 0 else stop
        return {key: example[key] for key in ("chunk", "stop") if key in example}

    rows, _ = run_threads(lock, root, deciding(copy))
    assert [(row.termination, row.control_steps, row.calls) for row in rows] == [("policy_stop", 1, 2)] * 2


def test_row_45_an_example_with_action_in_the_place_of_vectors_stops_every_launch(
    tmp_path: Path, root: Path, monkeypatch: Any
) -> None:
    from trialplate.policies.mailbox import instructions

    lock = lock_toy(tmp_path / "c")
    good = instructions.example_chunk
    monkeypatch.setattr(
        instructions, "example_chunk", lambda action: {**good(action), "chunk": {"action": [[0.0, 0.0]]}}
    )
    with pytest.raises(UsageError) as caught:
        run_mailboxes(lock, tmp_path / "c", root=root, name=NAME)
    assert caught.value.code == "actor_example_refused"
    assert "invalid_response_schema" in caught.value.message
    assert not (tmp_path / "c" / "journal.jsonl").exists()


# -- row 46 ----------------------------------------------------------------------------------------------------------


def _cli(*arguments: str | Path, expect: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *map(str, arguments), "--json"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_row_46_a_leak_is_kept_counted_marked_and_never_run_again(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "c"
    lock = lock_toy(folder)
    api.run(lock)
    rows, actors = run_threads(lock, root, scripted, resume=True)
    before = [(outcome.trial_id, outcome.status) for outcome in api.score(folder)]
    leaked = next(row for row in rows if row.arm == "quiet-arm")
    (opened,) = events(leaked, "mailbox_opened")
    record = _cli("disclose", folder, "--attempt", opened["mailbox"], "--what", "the task's name stood in the label")
    assert record["attempt"] == f"{leaked.trial_id}-0"
    assert record["kept"] is True
    assert (record["channel"], record["channel_reason"]) == (None, "not_reported")
    after = api.score(folder)
    assert [(outcome.trial_id, outcome.status) for outcome in after] == before
    marked = {outcome.trial_id for outcome in after if any("blinding: compromised" in note for note in outcome.notes)}
    assert marked == {leaked.trial_id} == {item.trial_id for item in after if item.blinding == "compromised"}
    assert api.verify(folder).exit_code == 0
    assert read_campaign(folder).compromised == {(leaked.trial_id, 0)}
    assert opened["mailbox"] in {item.folder.name for item in actors.opened}
    started = len(read_campaign(folder).started)
    run_mailboxes(lock, folder, root=root, name=NAME, resume=True)
    assert len(read_campaign(folder).started) == started


def test_row_46_a_correction_is_recorded_beside_the_lock_and_not_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    lock = lock_toy(folder)
    api.run(lock)
    whole = lock.path.read_bytes()
    record = _cli("cutover", folder, "--first-attempt", "000003", "--change", "labels are random from here on")
    assert (record["first_attempt"], record["change"]) == ("000003-0", "labels are random from here on")
    assert record["at"].endswith("Z")
    assert lock.path.read_bytes() == whole
    assert len(read_campaign(folder).cutovers) == 1


@pytest.mark.parametrize("attempt", ["000099-0", "000099", "3", "f" * 32, "../lock.json"])
def test_row_46_a_leak_on_an_attempt_that_is_not_there_is_refused(tmp_path: Path, attempt: str) -> None:
    folder = tmp_path / "c"
    api.run(lock_toy(folder))
    before = (folder / "journal.jsonl").read_bytes()
    _cli("disclose", folder, "--attempt", attempt, "--what", "x", expect=2)
    assert (folder / "journal.jsonl").read_bytes() == before


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_the_text_once_and_then_only_folders(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    command = ["mailbox", "run", str(tmp_path / "c"), "--root", str(root), "--out", str(tmp_path / "c")]
    command += ["--recording", "minimal", "--name", NAME]
    with subprocess.Popen(
        [sys.executable, "-m", "trialplate.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        served: list[str] = []
        printed = ""
        for line in running.stdout:
            printed += line
            name = line.strip().rpartition("/")[2]
            if re.fullmatch(r"[0-9a-f]{32}", name) and line.startswith(str(root)):
                scripted(root / name)
                served.append(line.strip())
    assert len(served) == 2
    text = actor_text(lock, host="localhost", mailbox=served[0])
    identity = f"template {text.template} {text.template_sha256}\nrendered {text.rendered_sha256}\nname {NAME}\n"
    assert printed == f"{text.text}\n{identity}\n" + "".join(f"{folder}\n" for folder in served)
    rows = [row for row in read_campaign(tmp_path / "c").rows if row.arm == "quiet-arm"]
    for row, folder in zip(rows, served, strict=True):
        (opened,) = events(row, "mailbox_opened")
        own = actor_text(lock, host="localhost", mailbox=folder)
        assert opened["rendered_sha256"] == own.rendered_sha256
        assert (opened["template_sha256"], opened["name"]) == (own.template_sha256, NAME)


def test_the_text_for_one_mailbox_is_printed_word_by_word(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(tmp_path / "c")
    shown = _cli("actor", "instructions", lock.path, "--host", "localhost", "--mailbox", root / NAME)
    text = actor_text(lock, host="localhost", mailbox=str(root / NAME))
    assert shown["text"] == text.text
    assert shown["rendered_sha256"] == text.rendered_sha256
    assert strict_json.loads(examples_in(shown["text"])[0].encode(), max_bytes=10_000)["type"] == "decision"


def test_a_lock_without_a_mailbox_arm_is_refused(tmp_path: Path, root: Path) -> None:
    lock = lock_toy(
        tmp_path / "c",
        **{'policy = "mailbox"\n\n[arms.as_suite]\nchannels = ["hand", "block", "goal"]': 'policy = "control:null"'},
    )
    with pytest.raises(LockError) as caught:
        run_mailboxes(lock, tmp_path / "c", root=root, name=NAME)
    assert caught.value.code == "no_such_arm"
