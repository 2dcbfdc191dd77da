"""A session as a code agent has it: an opaque folder and the operator's text, and nothing anywhere that tells more.

Run with ``-s`` to read the transcript.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mailbox_campaign as mc
from session_search import PROTOCOL, findings, flat, secrets_of
from trialplate.canonical import env_seed
from trialplate.lock import Lock
from trialplate.registry import load_suite

AGENT = Path(__file__).parents[1] / "code_agent.py"
STARTED_WITH = "import json, sys; told = json.load(sys.stdin); exec(told[0]); main(told[1])"
SUITES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "toy-reach": (("reach-001", "reach-004", "reach-007"), ("front", "wrist", "ee_pos", "ee_quat", "gripper")),
    "pick-place": (("pp-001", "pp-045"), ("primary", "wrist", "ee_pos", "finger_pos")),
}


@dataclass
class Session:
    """One episode of an actor: the text that it was given, and what it says that it read and did."""

    mailbox: Path
    text: str
    told: dict[str, Any]

    def texts(self) -> dict[str, bytes]:
        """Return all that the actor could read: where -> what."""
        read = {f"{item['path']}#{n}": base64.b64decode(item.get("base64", "")) for n, item in enumerate(self.files)}
        read |= {f"extended attributes of {n}": flat(item["extended"]) for n, item in enumerate(self.files)}
        return {
            "the text": self.text.encode(),
            **{f"its {k}": flat(v) for k, v in self.told["itself"].items()},
            **read,
        }

    @property
    def files(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.told["files"]
        return found


def session(lock: Lock, mailbox: Path) -> Session:
    """Start an actor as an operator does, with nothing but the text; return when it has stopped."""
    shown = subprocess.run(
        mc.command("actor", "instructions", lock.path, "--mailbox", mailbox, "--json"), capture_output=True, text=True
    )
    text = json.loads(shown.stdout)["text"]
    interpreter = str(Path(sys.executable).resolve())  # not the one that could import this package
    done = subprocess.run(
        [interpreter, "-I", "-S", "-c", STARTED_WITH], env={}, cwd=mailbox, text=True, capture_output=True,
        input=json.dumps([AGENT.read_text(encoding="utf-8"), text]), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Session(mailbox, text, json.loads(done.stdout))


def transcript(sessions: list[Session], searched: str) -> str:
    """Return what was said and done, in order, as somebody would read it."""
    lines = []
    for number, held in enumerate(sessions, 1):
        lines += [f"===== session {number} =====", "----- the operator says", held.text.rstrip()]
        for verb, name, content in held.told["did"]:
            shown = json.dumps(content, ensure_ascii=False)
            lines += [f"----- the actor {verb}s {name}", shown if len(shown) < 2000 else f"{shown[:2000]} ..."]
        lines += ["----- what the system tells the actor of itself", json.dumps(held.told["itself"])]
    return "\n".join([*lines, "===== the search =====", searched, ""])


@pytest.fixture
def root() -> Iterator[Path]:
    """Where mailboxes may be made."""
    with mc.opaque_root() as place:
        yield place


@pytest.mark.gl
@pytest.mark.parametrize("suite", SUITES)
def test_acceptance_4_nothing_that_a_code_agent_can_read_tells_it_what_it_is_part_of(
    tmp_path: Path, root: Path, suite: str
) -> None:
    scenarios, channels = SUITES[suite]
    lock = mc.locked(tmp_path, mc.arm(seen=channels, replan_interval="8"), suite=suite, scenarios=scenarios)
    with mc.running(tmp_path, root) as run:
        sessions = [session(lock, mailbox) for mailbox in run.mailboxes()]
        run.ended()
    secrets = secrets_of(lock, load_suite(suite))
    texts = {f"{n} {where}": data for n, held in enumerate(sessions, 1) for where, data in held.texts().items()}
    found = findings(texts, secrets)
    searched = (
        f"{len(texts)} texts, {sum(map(len, texts.values()))} bytes, searched for {len(secrets)} names and numbers, "
        f"dates, times, words of a score: {'; '.join(found) or 'nothing found'}"
    )
    (tmp_path / "transcript.txt").write_text(transcript(sessions, searched), encoding="utf-8")
    print(f"\n{(tmp_path / 'transcript.txt').read_text(encoding='utf-8')}")
    assert found == []
    assert_it_was_a_session(tmp_path, sessions, scenarios)
    if suite == "toy-reach":  # the text is enough to do what is asked
        assert mc.verdicts(tmp_path) == ["PASS"] * len(scenarios)


def assert_it_was_a_session(folder: Path, sessions: list[Session], scenarios: tuple[str, ...]) -> None:
    """Nothing found is worth nothing when nothing was read."""
    rows = mc.rows(folder)
    assert [row.scenario for row in rows] == list(scenarios)
    for held, row in zip(sessions, rows, strict=True):
        assert (row.termination, row.fault_code, row.calls) == ("policy_stop", None, 7)
        assert row.control_steps >= 40
        (opened,) = mc.events(row, "mailbox_opened")
        assert opened["mailbox"] == held.mailbox.name
        read = [item["path"] for item in held.files]
        assert sum(path.endswith(".png") for path in read) >= 2 * 7
        assert {"spec.json", "done.json", "obs/00006.json"} <= set(read)
        assert not {path.split("/")[1] for path in read if path.startswith("../")} - {
            s.mailbox.name for s in sessions
        }
        itself = held.told["itself"]
        assert (itself["environ"], itself["cwd"]) == ("", str(held.mailbox))
        assert set(itself["environment"]) <= {"LC_CTYPE"}  # Python itself sets it
        assert sum(PROTOCOL.encode() in data for data in held.texts().values()) >= 20


# -- the search finds what is there ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """A lock of toy-reach."""
    return mc.locked(tmp_path_factory.mktemp("study"), mc.arm())


def _told(lock: Lock) -> dict[str, str]:
    first = lock.document["schedule"][0]
    seed = env_seed(lock.sha256, "toy-reach", scenario=first["scenario"], repeat=first["repeat"])
    return {
        "suite": "a ToyReach run", "suite, joined": "toyreach", "task": '{"id": "REACH_001"}', "variant": "near_left",
        "arm": "the Quiet Arm", "study": "/night study/", "question": "does it: quiet, arm. bring it",
        "seed": f'{{"s": {seed}}}', "seed in hex": f"{seed:x}", "schedule's seed": "3731066294",
        "ISO date": "2031-02-14", "packed date": "20310214", "month": "14 February", "short month": "feb-14",
        "clock": "at 09:31", "now": str(int(lock.path.stat().st_mtime)),
        "now in ns": str(lock.path.stat().st_mtime_ns), "score": '"Score": 1.0', "success": "task_success",
        "failure": "it failed", "project": "trialplate 0.1", "home": f"{Path.home()}/x", "digest": lock.sha256,
    }  # fmt: skip


TOLD = (
    "suite", "suite, joined", "task", "variant", "arm", "study", "question", "seed", "seed in hex", "schedule's seed",
    "ISO date", "packed date", "month", "short month", "clock", "now", "now in ns", "score", "success", "failure",
    "project", "home", "digest",
)  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_the_search_finds_each_thing_that_could_be_told(lock: Lock, what: str) -> None:
    told, secrets = _told(lock)[what], secrets_of(lock, load_suite("toy-reach"))
    assert findings({"obs/00000.json": told.encode()}, secrets)
    assert findings({told: b""}, secrets)  # in a name as in a content
    assert findings({"obs/00000.json": f'{{"protocol": "{PROTOCOL}", "n": 0.{11 * "7"}}}'.encode()}, secrets) == []
    assert set(TOLD) == set(_told(lock))


def _picture(*extra: tuple[bytes, bytes], behind: bytes = b"") -> bytes:
    packed = zlib.compress(b"\0" + b"\7\7\7" * 4) + behind
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 4, 1, 8, 2, 0, 0, 0)), *extra, (b"IDAT", packed), (b"IEND", b"")]
    body = (struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def test_the_search_looks_into_pictures(lock: Lock) -> None:
    secrets = secrets_of(lock, load_suite("toy-reach"))
    assert findings({"a.png": _picture()}, secrets) == []
    for extra in ((b"tEXt", b"Title\0reach-001"), (b"tIME", b"\x07\xef\x02\x0e\x09\x1f\x00"), (b"eXIf", b"x")):
        with pytest.raises(AssertionError, match="has the chunks"):
            findings({"a.png": _picture(extra)}, secrets)
    with pytest.raises(AssertionError, match="behind the pixels"):
        findings({"a.png": _picture(behind=b"reach-001")}, secrets)
    with pytest.raises(AssertionError, match="behind them"):
        findings({"a.png": _picture() + b"reach-001"}, secrets)
    for size in range(len(_picture())):  # one that is being written
        assert findings({"a.png.0f.tmp": _picture()[:size]}, secrets) == []


def test_the_agent_itself_knows_nothing(lock: Lock) -> None:
    source = AGENT.read_text(encoding="utf-8")
    body = re.sub(r'^""".*?"""', "", source, flags=re.DOTALL)
    assert findings({"agent": body.encode()}, secrets_of(lock, load_suite("toy-reach"))) == []
    assert not re.search(
        r"^(?:import|from) (?!base64|json|os|pathlib|re|sys|threading|time)\w+", source, flags=re.MULTILINE
    )
