"""Row 52 of the evidence specification: stdout closed or full, stderr full. The evidence is complete all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trialplate import api
from trialplate.run.streams import Lossy
from trialplate.store.view import read_campaign

TALKATIVE = """
import sys
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def act(self, observation):
        print("a policy that talks " * 50)
        print("and complains", file=sys.stderr)
        sys.stdout.flush()
        return super().act(observation)
"""


@pytest.fixture
def lock_file(toy_protocol: Path, tmp_path: Path) -> Path:
    (toy_protocol.parent / "mine.py").write_text(TALKATIVE, encoding="utf-8")
    text = toy_protocol.read_text(encoding="utf-8").replace("control:scripted", "mine.py:Arm")
    toy_protocol.write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json").path


def _run(lock_file: Path, folder: Path, executor: str, redirection: str) -> subprocess.CompletedProcess[str]:
    command = f"'{sys.executable}' -m trialplate.cli run '{lock_file}' --out '{folder}' --executor {executor}"
    return subprocess.run(
        ["sh", "-c", f"{command} {redirection}"], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("executor", ["serial", "processes"])
@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        (">&-", 0),
        (">/dev/full", 1),
        ("2>/dev/full >/dev/null", 0),
        ("<&- >&- 2>&-", 0),
        ("2>&1 | head -c 1 >/dev/null", None),
    ],
    ids=["stdout closed", "stdout full", "stderr full", "all closed", "reader gone"],
)
def test_row_52_whatever_becomes_of_the_output_the_evidence_is_complete_and_nobody_is_charged(
    lock_file: Path, tmp_path: Path, executor: str, redirection: str, code: int | None
) -> None:
    if "/dev/full" in redirection and not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    done = _run(lock_file, tmp_path / "c", executor, redirection)
    assert code is None or done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    view = read_campaign(tmp_path / "c")
    assert view.complete and {row.fault_code for row in view.rows} == {None}
    assert api.verify(tmp_path / "c").exit_code == 0


def test_row_52_what_could_not_be_told_is_no_yes_and_the_reason_is_said_where_it_can_be(
    lock_file: Path, tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    said = _run(lock_file, tmp_path / "c", "serial", ">/dev/full").stderr
    assert "trialplate: done, but the output could not be written: No space left on device" in said


def test_a_lossy_stream_takes_everything_and_keeps_the_first_reason(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        whole = Lossy(file.fileno())
        assert whole.write(b"kept") == 4 and whole.failure is None
        closed = Lossy(file.fileno())
    assert closed.write(b"lost") == 4 and isinstance(closed.failure, OSError)
    first = closed.failure
    closed.write(b"lost too")
    assert closed.failure is first
    assert (tmp_path / "f").read_bytes() == b"kept"
