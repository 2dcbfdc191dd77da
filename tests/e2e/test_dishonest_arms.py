"""Arms that cheat: each way is caught, named, and voids what it should and nothing else.

The same arm plays in this process, in a worker process and behind a socket, beside an honest one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from lying_servers import hello_of, honest, own_server
from trialplate import api, exam, publishing, sealing
from trialplate.errors import EvidenceError, LockError, StorageFailure
from trialplate.policies.wire import own
from trialplate.record import Outcome, Row, Status
from trialplate.spec.channels import PolicySpec
from trialplate.store.view import read_campaign
from trialplate.testing.reach import REACH
from wire_campaign import served

Wire = Literal["inside", "worker", "socket"]
WIRES: tuple[Wire, ...] = ("inside", "worker", "socket")
SCENARIOS = 4
ARM = '''
import os
import sys
import time
from pathlib import Path

from trialplate import ActionChunk, Stop
from trialplate.testing.reach_controls import Scripted


class Arm(Scripted):
    """Honest in its first episode; what it does in the second is below."""

    def __init__(self, *, weights=(), campaign=""):
        super().__init__()
        self.episodes, self.weights, self.campaign = 0, weights, Path(campaign)

    def reset(self, episode):
        super().reset(episode)
        self.episodes += 1
        if self.episodes == 2:
            self.cheat()

    def cheat(self):
        pass


def rewrite(path, *, put_back):
    """Write other bytes into a file, and its own again if that is wanted, with the times that it had."""
    data, stamp = path.read_bytes(), path.stat()
    time.sleep(0.02)
    path.write_bytes(b"# another\\n" + data)
    if put_back:
        path.write_bytes(data)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
'''
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "dishonest"
question = "Can an arm cheat?"
run_class = "confirmatory"

[suite]
name = "toy-reach"
version = "1"
scenarios = [%(scenarios)s]

[[arms]]
name = "bad"
policy = "%(policy)s"
profile = "state"
%(more)s

[[arms]]
name = "good"
policy = "control:scripted"
profile = "state"

[schedule]
order = "manifest"

[budgets]
connect_timeout_s = 5.0
call_timeout_s = %(timeout_s)s
first_call_timeout_s = %(timeout_s)s
close_timeout_s = 1.0
episode_timeout_s = 20.0

[[claims]]
name = "half"
kind = "threshold_rate"
arm = "bad"
rate = 0.2
"""


@dataclass(frozen=True)
class Ran:
    """What a run with a dishonest arm left."""

    campaign: Path
    stopped: Exception | None

    def rows(self, arm: str = "bad") -> list[Row]:
        return [row for row in read_campaign(self.campaign).rows if row.arm == arm]

    def outcomes(self, arm: str) -> list[Outcome]:
        return [outcome for outcome in api.score(self.campaign) if outcome.arm == arm]

    def statuses(self, arm: str) -> list[str]:
        return [outcome.status.value for outcome in self.outcomes(arm)]

    def verdict(self) -> tuple[int, set[tuple[str, str]]]:
        found = api.verify(self.campaign)
        return found.exit_code, {(item.code, item.path) for item in found.findings}

    def claim(self) -> tuple[str, tuple[str, ...]]:
        (claim,) = exam.judge_campaign(self.campaign)
        return claim.verdict.value, claim.reasons


def _write(folder: Path, source: str) -> Path:
    """Put the arm into a folder of its own: all code in it is its source."""
    place = folder / "bad"
    place.mkdir()
    (place / "arm.py").write_text(ARM + source, encoding="utf-8")
    (place / "weights.bin").write_bytes(b"the weights that were measured")
    return place / "arm.py"


def _protocol(folder: Path, policy: str, *more: str, timeout_s: float) -> Path:
    names = ", ".join(f'"reach-{n + 1:03d}"' for n in range(SCENARIOS))
    fields = {"policy": policy, "more": "\n".join(more), "timeout_s": timeout_s, "scenarios": names}
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL % fields, encoding="utf-8")
    return path


@contextmanager
def _arm(folder: Path, wire: Wire, *, campaign: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield how the protocol names the arm, and what else it says of it."""
    if wire != "socket":
        yield "bad/arm.py:Arm", ('weights = ["bad/weights.bin"]', f'options = {{ campaign = "{campaign}" }}')
        return
    options = ("--weights", str(folder / "bad/weights.bin"), "--option", f"campaign={campaign}")
    with served(folder / "bad" / "arm.py", "Arm", *options) as (uri, _):
        yield uri, ()


def run(folder: Path, source: str, wire: Wire, *, timeout_s: float = 5.0) -> Ran:
    """Lock and run a dishonest arm beside an honest one."""
    _write(folder, source)
    campaign = folder / "campaign"
    with _arm(folder, wire, campaign=campaign) as (policy, more):
        path = _protocol(folder, policy, *more, timeout_s=timeout_s)
        lock = api.lock(api.load_protocol(path), into=campaign)
        try:
            api.run(lock, executor="processes" if wire == "worker" else "serial")
        except (EvidenceError, StorageFailure) as error:
            return Ran(campaign, error)
    return Ran(campaign, None)


def _untouched(ran: Ran) -> bool:
    """The honest arm beside it has all its episodes, and passes them."""
    return ran.statuses("good") == ["PASS"] * SCENARIOS


# -- code and checkpoint ----------------------------------------------------------------------------------------

CHEATS = {
    "edits its source": "rewrite(Path(__file__), put_back=False)",
    "edits its source and puts it back": "rewrite(Path(__file__), put_back=True)",
    "adds code": 'Path(__file__).with_name("more.py").write_text("X = 1")',
    "deletes its source": "Path(__file__).unlink()",
    "swaps its checkpoint": "rewrite(Path(__file__).with_name('weights.bin'), put_back=False)",
    "swaps its checkpoint and puts it back": "rewrite(Path(__file__).with_name('weights.bin'), put_back=True)",
    "makes its checkpoint a link": (
        "Path(__file__).with_name('weights.bin').rename('/tmp/' + str(os.getpid()) + '.bin');"
        " Path(__file__).with_name('weights.bin').symlink_to('/tmp/' + str(os.getpid()) + '.bin')"
    ),
}


@pytest.mark.parametrize("wire", ["inside", "worker"])
@pytest.mark.parametrize("cheat", CHEATS)
def test_row_09_an_arm_that_changes_its_code_or_weights_in_mid_run_loses_all_its_episodes_and_no_other_does(
    tmp_path: Path, cheat: str, wire: Wire
) -> None:
    line = CHEATS[cheat].replace("/tmp/", f"{tmp_path}/")
    ran = run(tmp_path, f"\nArm.cheat = lambda self: [{line}]\n".replace("; ", ", "), wire)
    assert {(o.status, o.reason) for o in ran.outcomes("bad")} == {(Status.ERROR, "inputs_changed")}
    assert _untouched(ran)
    code, found = ran.verdict()
    assert (code, ("inputs_changed_during_run", "journal.jsonl") in found) == (3, True), found
    verdict, reasons = ran.claim()
    assert verdict == "ineligible" and "inputs_changed" in reasons
    last = [r for r in read_campaign(ran.campaign).records if r["type"] == "inputs.checked"][-1]["data"]["digests"]
    if "back" in cheat:
        assert (
            "was written during the run" in last["bad"]
            and ("weights.bin" if "checkpoint" in cheat else "arm.py") in (last["bad"])
        )


@pytest.mark.parametrize("cheat", CHEATS)
def test_row_09_a_served_arm_that_changes_its_files_is_another_one_from_the_next_episode_on(
    tmp_path: Path, cheat: str
) -> None:
    line = CHEATS[cheat].replace("/tmp/", f"{tmp_path}/")
    ran = run(tmp_path, f"\nArm.cheat = lambda self: [{line}]\n".replace("; ", ", "), "socket")
    codes = [row.fault_code for row in ran.rows()]
    assert codes[:2] == [None, None] and set(codes[2:]) == {"identity_changed"}
    assert "was written since the policy was loaded" in (ran.rows()[2].fault_message or "")
    assert _untouched(ran)
    verdict, reasons = ran.claim()
    assert verdict == "ineligible" and "identity_changed" in reasons
    assert ran.verdict()[0] == 0  # nothing is hidden: the record says that the arm is no longer the locked one


@pytest.mark.parametrize("cheat", ["edits its source", "edits its source and puts it back", "swaps its checkpoint"])
def test_row_09_a_campaign_of_an_arm_that_changed_itself_is_sealed_with_the_reason_and_never_promoted(
    tmp_path: Path, cheat: str
) -> None:
    ran = run(tmp_path, f"\nArm.cheat = lambda self: {CHEATS[cheat]}\n", "inside")
    sealed = sealing.seal(ran.campaign, tmp_path / "bundles", verifier=_checked)
    assert sealed.verdict.exit_code == 3 and "inputs_changed_during_run" in sealed.verdict.reasons
    findings = sealed.verdict.document["findings"]
    told = [item["found"] for item in findings if item["code"] == "inputs_changed_during_run"]
    file = "weights.bin" if "checkpoint" in cheat else "arm.py"
    assert any(text.startswith("of bad: ") and f"{file} was written during the run" in text for text in told), told
    done = publishing.promote(sealed.path, verifier=_checked)
    assert done.exit_code == 3 and done.document["result"] == "refused"
    assert "inputs_changed_during_run" in done.reasons
    state = publishing.standing(sealed.path)
    assert state.state == "QUARANTINED" and "inputs_changed_during_run" in state.reasons


def test_row_58_a_campaign_into_which_an_arm_wrote_is_not_sealed(tmp_path: Path) -> None:
    ran = run(
        tmp_path, "\nArm.cheat = lambda self: (self.campaign / 'episodes/x.txt').write_text('PASS')\n", "inside"
    )
    with pytest.raises(EvidenceError, match=r"file_extra: episodes/x\.txt"):
        sealing.seal(ran.campaign, tmp_path / "bundles", verifier=_checked)
    assert not (tmp_path / "bundles").exists()


def _checked(folder: Path) -> sealing.FreshVerdict:
    """What a verifier process would say, said in this one."""
    verdict = exam.verify(folder)
    return sealing.FreshVerdict(verdict.exit_code, verdict.document())


def test_an_arm_that_edits_itself_and_dies_is_not_loaded_again(tmp_path: Path) -> None:
    source = """
def cheat(self):
    rewrite(Path(__file__), put_back=False)
    os._exit(3)


Arm.cheat = cheat
"""
    ran = run(tmp_path, source, "worker")
    codes = [row.fault_code for row in ran.rows()]
    assert codes == [None, "worker_lost", "identity_changed", "identity_changed"]
    assert "source arm.py was written during the run" in (ran.rows()[2].fault_message or "")
    assert {outcome.status for outcome in ran.outcomes("bad")} == {Status.ERROR} and _untouched(ran)
    assert ran.verdict()[0] == 3


def test_the_command_says_that_the_arm_is_not_scorable_and_fails(tmp_path: Path) -> None:
    _write(tmp_path, "\nArm.cheat = lambda self: rewrite(Path(__file__), put_back=True)\n")
    path = _protocol(tmp_path, "bad/arm.py:Arm", timeout_s=5.0)
    api.lock(api.load_protocol(path), into=tmp_path / "campaign")
    command = [sys.executable, "-m", "trialplate.cli", "run", str(tmp_path / "campaign")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "NOT SCORABLE: the code or weights of bad changed during the run" in done.stdout


# -- the campaign folder ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ["episodes/notes.txt", "claims.json.bak", "episodes/000000-0/trace.parquet.old"])
def test_row_58_a_file_that_an_arm_puts_into_the_campaign_is_extra_and_blocks_every_claim(
    tmp_path: Path, wire: Wire, name: str
) -> None:
    ran = run(tmp_path, f"\nArm.cheat = lambda self: (self.campaign / '{name}').write_text('PASS')\n", wire)
    code, found = ran.verdict()
    assert (code, ("file_extra", name) in found) == (1, True)
    verdict, reasons = ran.claim()
    assert verdict == "ineligible" and "integrity" in reasons


FORGED_ROW = """
def cheat(self):
    path = self.campaign / "episodes/000000-0/row.json"
    path.write_bytes(path.read_bytes().replace(b'"step_limit"', b'"policy_stop"').replace(b'"calls":', b'"calls":1'))


Arm.cheat = cheat
"""


@pytest.mark.parametrize("wire", WIRES)
def test_row_58_a_row_that_an_arm_rewrites_ends_the_run_with_its_name_and_does_not_verify(
    tmp_path: Path, wire: Wire
) -> None:
    ran = run(tmp_path, FORGED_ROW, wire)
    assert ran.stopped is not None and "hash_mismatch: episodes/000000-0/row.json" in str(ran.stopped)
    code, found = ran.verdict()
    assert (code, ("hash_mismatch", "episodes/000000-0/row.json") in found) == (1, True)


FORGED_RECORD = """
def cheat(self):
    if not (self.campaign / "journal.partial").exists():
        with (self.campaign / "journal.jsonl").open("ab") as journal:
            journal.write(b'{"type":"attempt.end"}\\n')


Arm.cheat = cheat
"""


@pytest.mark.parametrize("wire", WIRES)
def test_row_58_a_record_that_an_arm_writes_into_the_journal_breaks_it(tmp_path: Path, wire: Wire) -> None:
    ran = run(tmp_path, FORGED_RECORD, wire)
    assert isinstance(ran.stopped, StorageFailure) and "somebody else wrote into it" in str(ran.stopped)
    code, found = ran.verdict()
    assert (code, ("journal_broken", "journal.jsonl") in found) == (1, True)
    with pytest.raises(EvidenceError, match="journal_broken"):
        api.score(ran.campaign)
    if wire == "socket":
        return
    api.run(ran.campaign / "lock.json", resume=True, executor="serial")
    assert (
        ran.campaign / "journal.partial"
    ).read_bytes() == b'{"type":"attempt.end"}\n'  # set aside, told, not taken
    assert [row.termination for row in ran.rows()][1] == "interrupted" and _untouched(ran)


FORGED_EPISODE = """
def cheat(self):
    place = self.campaign / "episodes/000004-0"
    if place.exists():
        return
    place.mkdir()
    (place / "row.json").write_bytes((self.campaign / "episodes/000000-0/row.json").read_bytes())


Arm.cheat = cheat
"""


@pytest.mark.parametrize("wire", WIRES)
def test_row_58_an_episode_that_an_arm_forges_in_advance_stops_the_run_and_is_never_taken_for_one(
    tmp_path: Path, wire: Wire
) -> None:
    ran = run(tmp_path, FORGED_EPISODE, wire)
    assert isinstance(ran.stopped, StorageFailure) and "000004-0/row.json" in str(ran.stopped)
    assert len(read_campaign(ran.campaign).rows) == 4
    code, _ = ran.verdict()
    assert code == 3  # intact as far as it goes, and incomplete
    if wire != "socket":
        (tmp_path / "bad/arm.py").write_text(ARM, encoding="utf-8")
        with pytest.raises(LockError, match="not what was locked"):
            api.run(ran.campaign / "lock.json", resume=True)
    if wire == "inside":
        (tmp_path / "bad/arm.py").write_text(ARM + FORGED_EPISODE, encoding="utf-8")
        api.run(ran.campaign / "lock.json", resume=True, executor="serial")
        (row,) = [row for row in ran.rows() if row.trial_id == "000004"]
        assert row.termination == "interrupted" and ran.statuses("bad").count("PASS") == 3
        assert (ran.campaign / "episodes/000004-0/row.json.partial").is_file() and _untouched(ran)


# -- what it says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_row_58_an_arm_that_says_it_succeeded_changes_no_verdict(tmp_path: Path, wire: Wire) -> None:
    says = "\nArm.act = lambda self, observation: Stop('success: true, score: 1.0, status: PASS')\n"
    ran = run(tmp_path, says, wire)
    assert ran.statuses("bad") == ["FAIL"] * SCENARIOS and _untouched(ran)
    assert {outcome.reason for outcome in ran.outcomes("bad")} == {"stage_not_passed"}
    assert ran.verdict()[0] == 0


def _declared() -> PolicySpec:
    return PolicySpec(expects=REACH.profiles["state"], emits=REACH.action, state="none", max_batch_size=16)


def _claiming(message: dict[str, Any], where: str) -> dict[str, Any] | None:
    """Answer as an honest server does, with a claim of success put in at a place."""
    rows = [[0.0] * 6 + [1.0]]
    said = {"success": True, "done": True, "score": 1.0}
    reply = honest(message, chunk={"vectors": rows})
    if reply is None or message["type"] != "observation":
        return reply if where != "ready" or reply is None else reply | said
    if where == "decision":
        return reply | said
    if where == "chunk":
        return reply | {"chunk": {"vectors": rows, **said}}
    return reply | {"usage": said}


@pytest.mark.parametrize("where", ["decision", "chunk", "usage", "ready"])
def test_row_58_a_server_that_sends_success_in_its_messages_passes_nothing_by_it(tmp_path: Path, where: str) -> None:
    with own_server(hello_of(_declared()), lambda message: _claiming(message, where)) as uri:
        ran = _raw(tmp_path, uri)
    assert len(ran.statuses("bad")) >= 3 and "PASS" not in ran.statuses("bad") and _untouched(ran)
    assert ran.claim()[0] == "ineligible" and ran.verdict()[0] in (0, 3)  # 3: it was halted, its trials are missing


def _raw(folder: Path, uri: str, *, timeout_s: float = 5.0) -> Ran:
    path = _protocol(folder, uri, timeout_s=timeout_s)
    api.run(api.lock(api.load_protocol(path), into=folder / "campaign"), executor="serial")
    return Ran(folder / "campaign", None)


# -- floods -----------------------------------------------------------------------------------------------------

FLOODS = {
    "prints": (
        """
def act(self, observation):
    os.write(1, b"x" * 100_000)
    os.write(2, b"y" * 100_000)
    return Scripted.act(self, observation)


Arm.act = act
""",
        (Status.PASS, "chain_complete"),
    ),
    "rows": (
        "\nArm.act = lambda self, observation: ActionChunk([[0.0] * 6 + [1.0]] * 200_000)\n",
        (Status.FAIL, "invalid_action"),
    ),
    "words": (
        "\nArm.act = lambda self, observation: Stop('success ' * 1_000_000)\n",
        (Status.FAIL, "stage_not_passed"),
    ),
}


@pytest.mark.parametrize("wire", ["inside", "worker"])
@pytest.mark.parametrize("flood", FLOODS)
def test_row_58_an_arm_that_floods_is_told_by_what_it_did_and_fills_no_record(
    tmp_path: Path, flood: str, wire: Wire
) -> None:
    source, expected = FLOODS[flood]
    _write(tmp_path, source)
    path = _protocol(tmp_path, "bad/arm.py:Arm", timeout_s=10.0)
    api.lock(api.load_protocol(path), into=tmp_path / "campaign")
    how = "processes" if wire == "worker" else "serial"
    command = [sys.executable, "-m", "trialplate.cli", "run", str(tmp_path / "campaign"), "--executor", how, "--json"]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        subprocess.run(command, stdout=out, stderr=err, timeout=120, check=False)
    ran = Ran(tmp_path / "campaign", None)
    assert {(o.status, o.reason) for o in ran.outcomes("bad")} == {expected} and _untouched(ran)
    sizes = [path.stat().st_size for path in ran.campaign.rglob("*") if path.is_file()]
    assert sum(sizes) < 2_000_000
    assert ran.verdict()[0] == (3 if flood == "rows" else 0)  # one that never acts is halted
    if wire == "worker" and flood == "prints":
        assert json.loads((tmp_path / "out").read_bytes())["complete"]  # nothing of the arm's stands in our answer


def _flooding(message: dict[str, Any], kind: str) -> bytes | dict[str, Any] | None:
    reply = honest(message, chunk={"vectors": [[0.0] * 6 + [1.0]]})
    if reply is None or message["type"] != "observation":
        return reply
    if kind == "huge":
        return own.encode(reply | {"note": "x" * 70_000_000})
    return own.encode(reply | {"id": message["id"] + 1000}) if kind == "other ids" else b"\xc1" * 50_000_000


@pytest.mark.parametrize(
    ("kind", "code"), [("huge", "message_too_large"), ("other ids", "stale_observation"), ("noise", "wire_malformed")]
)
def test_row_58_a_server_that_floods_is_told_by_code_and_the_next_episode_begins_anew(
    tmp_path: Path, kind: str, code: str
) -> None:
    with own_server(hello_of(_declared()), lambda message: _flooding(message, kind), max_size=2**28) as uri:
        ran = _raw(tmp_path, uri, timeout_s=20.0)
    assert [row.fault_code for row in ran.rows()] == [code] * 3 and _untouched(ran)  # then it is halted
    assert set(ran.statuses("bad")) == {"ERROR"}


# -- late -------------------------------------------------------------------------------------------------------

LATE = """
def act(self, observation):
    if self.episodes == 2 and observation.step_index == 2:
        time.sleep(1.2)
    return Scripted.act(self, observation)


Arm.act = act
"""


@pytest.mark.parametrize("wire", WIRES)
def test_row_58_an_answer_that_comes_too_late_fails_its_episode_and_is_not_taken_for_the_next(
    tmp_path: Path, wire: Wire
) -> None:
    ran = run(tmp_path, LATE, wire, timeout_s=0.6)
    rows = ran.rows()
    assert rows[1].fault_code == "policy_timeout" and rows[1].control_steps == 2
    assert [outcome.status.value for outcome in ran.outcomes("bad")][1] == "FAIL"
    assert _untouched(ran) and [row.fault_code for row in (rows[0], rows[3])] == [None, None]
    assert ran.verdict()[0] == 0


def test_row_58_an_arm_that_never_answers_costs_its_worker_and_its_attempt(tmp_path: Path) -> None:
    hangs = """
def act(self, observation):
    return time.sleep(600) if self.episodes == 2 else Scripted.act(self, observation)


Arm.act = act
"""
    _write(tmp_path, hangs)
    path = _protocol(tmp_path, "bad/arm.py:Arm", timeout_s=0.5)
    path.write_text(path.read_text(encoding="utf-8").replace("episode_timeout_s = 20.0", "episode_timeout_s = 4.0"))
    api.run(api.lock(api.load_protocol(path), into=tmp_path / "campaign"), executor="processes")
    ran = Ran(tmp_path / "campaign", None)
    assert [row.fault_code for row in ran.rows()][:2] == [None, "worker_timeout"]
    assert _untouched(ran) and ran.verdict()[0] == 0
