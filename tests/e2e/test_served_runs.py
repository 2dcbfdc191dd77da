"""`trialplate serve` with drivers in processes of their own: whole campaigns, deaths of either side, resumptions."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from websockets.sync.client import connect

import served_campaign as sc
from trialplate import api
from trialplate.policies.wire import own
from trialplate.store.view import read_campaign


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_driver_plays_a_campaign_that_equals_the_same_policy_in_process(tmp_path: Path, language: str) -> None:
    sc.driver(language)
    lock = sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("there"), scenarios=5)
    api.run(lock)
    with sc.serving(tmp_path, "--resume") as service:
        sc.drive(service, language, *sc.bridge("arms.py:Arm"))
        out, errors = service.ended()
    assert "10 attempts for 10 trials, 0 ERROR" in out and "Traceback" not in errors
    assert sc.digests(tmp_path, "there") == sc.digests(tmp_path, "here")
    assert sc.verdicts(tmp_path, "there") == sc.verdicts(tmp_path, "here")
    assert {status for _, status, _ in sc.verdicts(tmp_path, "there")} == {"PASS"}
    assert sc.verified(tmp_path)["findings"] == []


def test_pictures_arrive_as_they_are_in_process(tmp_path: Path) -> None:
    arms = (
        sc.inside("here", "arms.py:Seeing", profile="standard", replan_interval="4", options="{ rows = 6 }"),
        sc.served("there", seen=("front", "wrist", "ee_pos"), profile="standard", replan_interval="4"),
    )
    lock = sc.locked(tmp_path, *arms, scenarios=2)
    api.run(lock)
    with sc.serving(tmp_path, "--resume", "--recording", "minimal") as service:
        sc.drive(service, "python", *sc.bridge("arms.py:Seeing", rows=6))
        service.ended()
    assert sc.digests(tmp_path, "there") == sc.digests(tmp_path, "here")
    assert sc.rows(tmp_path, "there")[0].rows_dropped > 0
    assert sc.verified(tmp_path)["findings"] == []


def test_several_arms_take_turns_when_all_are_served(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("one"), sc.served("two"), scenarios=2)
    with sc.serving(tmp_path) as service, service.client() as driver, service.client(token=False) as actor:
        for arm in ("one", "two"):
            driver.post("/v1/hello", json={**sc.HELLO, "arm": arm}).raise_for_status()
            driver.post("/v1/register", json={**sc.REGISTER, "arm": arm}).raise_for_status()
        turns = []
        while (started := driver.post("/v1/episodes").json())["episode"] is not None:
            turns.append(started["arm"])
            stop(actor, started["actor"])
        assert driver.get("/v1/status").json()["state"] == "complete"
        assert [item["status"] for item in driver.get("/v1/results").json()["attempts"]] == ["FAIL"] * 4
        service.ended()
    assert sorted(turns) == ["one", "one", "two", "two"]


@pytest.mark.slow
def test_one_of_several_served_arms_can_be_played_alone(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("one"), sc.served("two"), scenarios=2)
    with sc.serving(tmp_path, arm="two") as service, service.client() as driver:
        assert service.told[0].startswith("serving two on http://127.0.0.1:")
        assert service.told[2].startswith("2 of 2 trials")
        assert driver.get("/v1/status").json()["planned"] == 2
        play_out(service, driver)
        out, _ = service.ended(expected=1)
    assert "incomplete" in out
    assert {row.arm for row in read_campaign(tmp_path / "c").rows} == {"two"}
    with sc.serving(tmp_path, "--resume", arm="one") as service, service.client() as driver:
        play_out(service, driver)
        service.ended()
    assert sc.verified(tmp_path)["findings"] == []


def test_results_name_the_episodes_of_the_driver_and_what_they_are_worth(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=3)
    with sc.serving(tmp_path) as service, service.client() as driver, service.client(token=False) as actor:
        base = service.begin(driver)
        ids = [base.rsplit("/", 1)[1]]
        seen = actor.get(f"{base}/observe").json()
        actor.post(f"{base}/act", json=sc.decision(seen, [[9.0] * 7]))
        for _ in range(2):
            base = driver.post("/v1/episodes").json()["actor"]
            ids.append(base.rsplit("/", 1)[1])
            if len(ids) == 2:
                stop(actor, base)
            else:
                driver.post(f"/v1/episodes/{ids[-1]}/close").raise_for_status()
        assert driver.get("/v1/results").status_code == 409
        assert driver.post("/v1/episodes").json()["reason"] == "complete"
        told = driver.get("/v1/results").json()["attempts"]
        service.ended(expected=1)
    assert [item["episode"] for item in told] == ids
    assert [(item["status"], item["reason"], item["code"]) for item in told] == [
        ("FAIL", "error", "invalid_action"), ("FAIL", "policy_stop", None), ("ERROR", "aborted", "interrupted"),
    ]  # fmt: skip
    assert [item["attempt"] for item in told] == ["000000-0", "000001-0", "000002-0"]


# -- deaths and resumptions ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_driver_that_dies_costs_its_episode_and_another_goes_on(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=3, call_timeout_s="2.0", first_call_timeout_s="5.0")
    with sc.serving(tmp_path) as service, service.client() as driver:
        first = sc.start_driver(service, "python", *sc.bridge("arms.py:Slow"))
        sc.eventually(lambda: driver.get("/v1/status").json()["initiated"] == 2)
        first.kill()
        first.communicate(timeout=10)
        sc.eventually(lambda: driver.get("/v1/status").json()["episode"] is not None)
        sc.eventually(lambda: driver.get("/v1/status").json()["ended"] == 2)
        sc.drive(service, "python", *sc.bridge("arms.py:Arm"))
        service.ended()
    found = sc.rows(tmp_path, "there")
    assert [row.fault_code for row in found] == [None, "policy_timeout", None]
    assert found[1].trace is not None
    assert [status for _, status, _ in sc.verdicts(tmp_path, "there")] == ["PASS", "FAIL", "PASS"]
    assert sc.verified(tmp_path)["findings"] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_episode_ends_in_order_and_resume_goes_on(tmp_path: Path, number: int) -> None:
    lock = sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("there"), interrupted="replace")
    api.run(lock)
    with sc.serving(tmp_path, "--resume") as service, service.client() as driver:
        base = service.begin(driver)
        play(driver, base, calls=2)
        service.kill(number)
        out, errors = service.ended(expected=1)
    assert "continue with --resume" in out and "Traceback" not in errors
    cut = read_campaign(tmp_path / "c")
    assert [row.termination for row in sc.rows(tmp_path, "there")] == ["interrupted"]
    assert (cut.complete, cut.reason) == (False, "interrupted")
    with sc.serving(tmp_path, "--resume") as service:
        sc.drive(service, "python", *sc.bridge("arms.py:Arm"))
        service.ended()
    played = [row for row in sc.rows(tmp_path, "there") if row.termination != "interrupted"]
    assert [row.attempt for row in played] == [1, 0, 0]
    assert sc.verdicts(tmp_path, "there") == sc.verdicts(tmp_path, "here")
    assert sc.verified(tmp_path)["findings"] == []


@pytest.mark.slow
def test_a_service_and_drivers_that_are_killed_at_any_moment_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    lock = sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("there"), scenarios=10, repeats=2)
    api.run(lock)
    draw, pause = random.Random(7), threading.Event()
    while sc.open_trials(tmp_path) > 4:
        with sc.serving(tmp_path, "--resume") as service, service.client() as watcher:
            attached = sc.start_driver(service, "python", *sc.bridge("arms.py:Slow"))
            begun = watcher.get("/v1/status").json()["initiated"] + draw.choice((1, 1, 2))
            sc.eventually(lambda begun=begun: watcher.get("/v1/status").json()["initiated"] >= begun, within_s=60)
            pause.wait(draw.uniform(0.0, 0.6))
            for victim in draw.choice(([service.process], [attached], [attached, service.process])):
                victim.kill()
            attached.kill()
            attached.communicate(timeout=10)
            if service.process.poll() is None:
                service.kill(signal.SIGTERM)
            service.process.wait(60)
    with sc.serving(tmp_path, "--resume") as service:
        sc.drive(service, "python", *sc.bridge("arms.py:Arm"))
        service.ended(expected=1)
    played = sc.rows(tmp_path, "there")
    here = {(row.scenario, row.repeat): row.actions_sha256 for row in sc.rows(tmp_path, "here")}
    assert len(played) == 20 and all(row.attempt == 0 for row in played)
    whole = [row for row in played if row.termination == "policy_stop"]
    cut = [row for row in played if row.termination != "policy_stop"]
    assert len(whole) >= 4 and len(cut) >= 5
    assert {(row.termination, row.fault_code) for row in cut} == {("interrupted", None)}
    assert all(row.actions_sha256 == here[row.scenario, row.repeat] for row in whole)
    assert sc.verified(tmp_path)["findings"] == []


def test_a_signal_before_any_driver_came_records_nothing(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"))
    for number in (signal.SIGTERM, signal.SIGINT):
        with sc.serving(tmp_path) as service:
            service.kill(number)
            _, errors = service.ended(expected=1)
            assert errors.strip() == "interrupted"
    assert read_campaign(tmp_path / "c").records == ()


@pytest.mark.slow
def test_an_aborted_run_says_so_and_can_be_continued(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=3)
    with sc.serving(tmp_path) as service, service.client() as driver:
        base = service.begin(driver)
        play(driver, base, calls=1)
        assert driver.post("/v1/abort").json()["state"] == "aborted"
        assert driver.post("/v1/episodes").json()["reason"] == "aborted"
        told = driver.get("/v1/results").json()["attempts"]
        assert [(item["status"], item["code"]) for item in told] == [("ERROR", "interrupted")]
        service.ended(expected=1)
    assert read_campaign(tmp_path / "c").reason == "aborted"
    with sc.serving(tmp_path, "--resume") as service, service.client() as driver:
        assert driver.get("/v1/status").json() == {
            "protocol": sc.PROTOCOL, "type": "status", "state": "waiting", "planned": 3, "initiated": 1, "ended": 1,
            "episode": None,
        }  # fmt: skip
        play_out(service, driver)
        service.ended(expected=1)
    assert [row.fault_code for row in sc.rows(tmp_path, "there")] == ["interrupted", None, None]
    assert sc.verified(tmp_path)["findings"] == []


@pytest.mark.slow
def test_a_driver_that_vanishes_between_episodes_is_given_up_and_the_campaign_goes_on(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=3, close_timeout_s="60.0")
    start_s = monotonic()
    with sc.serving(tmp_path, "--idle-timeout-s", "1") as service:
        with service.client() as driver, service.client(token=False) as actor:
            stop(actor, service.begin(driver))
        out, _ = service.ended(expected=1)
    assert monotonic() - start_s < 40  # neither a day, nor the time that a driver has for the results
    assert "GIVEN UP: no driver was there for 1 s; nothing is lost" in out and "continue with --resume" in out
    assert [row.termination for row in sc.rows(tmp_path, "there")] == ["policy_stop"]
    with sc.serving(tmp_path, "--resume") as service:
        with service.client() as driver:
            play_out(service, driver)
        assert "3 attempts for 3 trials, 0 ERROR" in service.ended()[0]
    assert sc.verified(tmp_path)["findings"] == []


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "true", "soon"])
def test_an_idle_limit_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=1)
    told = refused("serve", str(tmp_path / "c"), "--token-file", str(tmp_path / "token"), "--idle-timeout-s", wrong)
    assert "idle-timeout-s" in told and not (tmp_path / "token").exists()


@pytest.mark.parametrize("last", ["results", "socket", "told"])
def test_the_service_ends_as_soon_as_everybody_has_got_the_last_answer(tmp_path: Path, last: str) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=1, close_timeout_s="60.0")
    with sc.serving(tmp_path) as service, service.client() as driver:
        play_out(service, driver)
        if last == "results":
            assert len(driver.get("/v1/results").raise_for_status().json()["attempts"]) == 1
        elif last == "socket":
            address = service.address.replace("http://", "ws://") + "/v1/ws"
            headers = {"authorization": f"Bearer {service.token}"}
            with connect(address, additional_headers=headers, compression=None, proxy=None) as line:
                line.send(own.encode({"protocol": sc.PROTOCOL, "type": "results", "id": 1}))
                assert len(own.decode(bytes(line.recv(20)), max_bytes=2**20)["attempts"]) == 1
        else:
            driver.close()
        start_s = monotonic()
        service.ended()
        assert monotonic() - start_s < 20  # 60 for who waits for the close timeout


def test_an_arm_that_always_fails_before_any_control_is_halted(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=5)
    (tmp_path / "broken.py").write_text('def act(seen):\n    return [["x"]]\n', encoding="utf-8")
    with sc.serving(tmp_path) as service:
        assert '"halted"' in sc.drive(service, "python", "broken:act", expected=1)
        out, _ = service.ended(expected=1)
    assert "HALTED" in out
    assert len(sc.rows(tmp_path, "there")) == 3
    with sc.serving(tmp_path, "--resume") as service:
        assert '"halted"' in sc.drive(service, "python", "broken:act", expected=1)
        service.ended(expected=1)
    assert len(sc.rows(tmp_path, "there")) == 3


def test_another_identity_than_the_locked_one_is_exploratory_in_the_evidence(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=1)
    with sc.serving(tmp_path) as service, service.client() as driver:
        driver.post("/v1/hello", json=sc.HELLO).raise_for_status()
        other = {**sc.REGISTER, "registration": {"kind": "model", "model": {"name": "another"}}}
        assert driver.post("/v1/register", json=other).json()["exploratory"] is True
        stop(driver, driver.post("/v1/episodes").json()["actor"])
        service.ended()
    assert list(read_campaign(tmp_path / "c").records[0]["data"]["registrations"]) == ["there"]
    done = subprocess.run(
        sc.command("verify", str(tmp_path / "c"), "--json"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert [item["code"] for item in json.loads(done.stdout)["findings"]] == ["exploratory_registration"]


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_token_is_made_for_its_owner_alone_and_shown_nowhere(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=1)
    with sc.serving(tmp_path) as service, service.client() as driver:
        assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
        token = service.token
        play_out(service, driver)
        out, errors = service.ended()
    assert token not in "\n".join(service.told) + out + errors
    recorded = [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert recorded and not any(token.encode() in path.read_bytes() for path in recorded)


def test_as_json_one_document_is_printed_and_the_address_goes_elsewhere(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=1)
    arguments = ("--bind", "127.0.0.1:0", "--token-file", str(tmp_path / "token"), "--json")
    process = subprocess.Popen(
        sc.command("serve", str(tmp_path / "c"), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    address = process.stderr.readline().split()[-1]
    running = sc.Running(process, tmp_path, address, [])
    try:
        with running.client() as driver:
            play_out(running, driver)
        out, _ = running.ended()
    finally:
        process.kill()
        process.communicate(timeout=10)
    told = json.loads(out)
    assert (told["complete"], told["planned"], told["errors"], told["stopped_by"]) == (True, 1, 0, None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--arm", "nobody"), "no served arm 'nobody'"),
        (("--arm", "here"), "no served arm 'here'"),
        (("--bind", "0.0.0.0:0"), "--allow-remote"),
        (("--bind", "nowhere"), "HOST:PORT"),
        (("--token-file", "{folder}/open"), "0600"),
        (("--out", "{folder}"), "is not empty"),
    ],
)
def test_what_is_wrong_is_said_before_anybody_is_served(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("there"))
    (tmp_path / "open").write_text("0" * 64, encoding="ascii")
    (tmp_path / "open").chmod(0o644)
    given = {"--token-file": str(tmp_path / "token"), "--bind": "127.0.0.1:0"}
    given[arguments[0]] = arguments[1].replace("{folder}", str(tmp_path))
    assert told in refused("serve", str(tmp_path / "c"), *[word for pair in given.items() for word in pair])


def test_a_lock_without_a_served_arm_and_a_campaign_that_was_begun_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    sc.locked(tmp_path / "other", sc.inside("here", "arms.py:Arm"))
    fixed = ("--token-file", str(tmp_path / "token"), "--bind", "127.0.0.1:0")
    assert 'policy = "served"' in refused("serve", str(tmp_path / "other" / "c"), *fixed)
    lock = sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("there"))
    api.run(lock)
    assert "--resume" in refused("serve", str(tmp_path / "c"), *fixed)


# -- by hand ---------------------------------------------------------------------------------------------------------


def stop(actor: Any, base: str) -> None:
    """End an episode by the policy's own stop."""
    seen = actor.get(f"{base}/observe").json()
    chosen = sc.decision(seen, chunk=None, stop={"reason": None})
    assert actor.post(f"{base}/act", json=chosen).json()["next"] == "episode_end"


def play(actor: Any, base: str, *, calls: int) -> None:
    """Answer some calls with standing still."""
    for _ in range(calls):
        seen = actor.get(f"{base}/observe").json()
        assert actor.post(f"{base}/act", json=sc.decision(seen)).json()["accepted"] is True


def play_out(service: sc.Running, driver: Any) -> None:
    """Stop every episode that is planned."""
    base: str | None = service.begin(driver)
    while base is not None:
        stop(driver, base)
        base = driver.post("/v1/episodes").json()["actor"]


def refused(*arguments: str) -> str:
    """Run a command that is refused as bad input; return what it says."""
    done = subprocess.run(
        sc.command(*arguments), capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr
