"""One lock, one policy, six ways to attach it: the executed actions, the traces and the results are equal.

The learned arm of ``pick-place`` runs in this process, behind ``ws://``, behind openpi's dialect, driven from outside
by the sixty lines of Python and by Node, and behind a file mailbox.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.examples.clients.mailbox_actor import hosting, serve
from trialplate.examples.learned_arm.policy import LearnedArm
from trialplate.record import Row
from trialplate.spec.registration import Registration
from trialplate.store.view import read_campaign

EXAMPLES = Path(__file__).parents[2] / "src" / "trialplate" / "examples"
CLIENTS = EXAMPLES / "clients"
POLICY = EXAMPLES / "learned_arm" / "policy.py"
WEIGHTS = EXAMPLES / "learned_arm" / "weights-long.npz"
CHANNELS = ("finger_pos", "ee_pos", "object_estimate", "goal_estimate")
SCENARIOS = ("pp-001", "pp-021", "pp-045")
NODE = shutil.which("node")
WIRES = ("inside", "socket", "driver", *(["node"] if NODE else []), "letters")
UNSTOPPED = "options = { stops = false }"
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "wires"
question = "Does it matter how the arm is attached?"
run_class = "development"
suite = { name = "pick-place", version = "1", scenarios = %(scenarios)s }
schedule = { order = "manifest" }
budgets = { connect_timeout_s = 20.0, call_timeout_s = 30.0, first_call_timeout_s = 30.0, close_timeout_s = 1.0 }
%(arms)s
"""


def table(name: str, policy: str, *lines: str, rows: int = 4) -> str:
    fixed = (f'name = "{name}"', f'policy = "{policy}"', 'profile = "object-estimate"', f"replan_interval = {rows}")
    return "\n".join(["[[arms]]", *fixed, *lines, ""])


def command(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trialplate.cli", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def finished(running: subprocess.Popen[str], *, within_s: float = 120.0) -> str:
    out, errors = running.communicate(timeout=within_s)
    assert running.returncode in (0, 1), out + errors
    return out


@contextmanager
def policy_server(*arguments: str) -> Iterator[str]:
    """Serve the learned arm in a process of its own; yield its address."""
    fixed = ("policy", "serve", f"{POLICY}:LearnedArm", "--weights", str(WEIGHTS), "--bind", "127.0.0.1:0")
    running = command(*fixed, *arguments)
    try:
        assert running.stdout is not None and running.stderr is not None
        first = running.stdout.readline()
        assert first.startswith("serving "), first + running.stderr.read()
        yield first.split()[-1]
    finally:
        running.terminate()
        running.communicate(timeout=20)


def the_lock(folder: Path, *, socket: str, openpi: str) -> Path:
    """Write the protocol and lock it; return the lock file."""
    as_suite = f"as_suite = {{ channels = {json.dumps(CHANNELS)}, chunk_length = 8 }}"
    identity = 'identity = { kind = "fixed_program" }'
    mapping = ", ".join(f'"observation/{name}" = "proprio:{name}"' for name in CHANNELS)
    arms = (
        table("inside", f"{POLICY}:LearnedArm", f'weights = ["{WEIGHTS}"]'),
        table("socket", socket),
        table("inside-whole", f"{POLICY}:LearnedArm", f'weights = ["{WEIGHTS}"]', UNSTOPPED, rows=8),
        table("openpi", openpi, as_suite, identity, f"mapping = {{ {mapping} }}", rows=8),
        table("driver", "served", as_suite, identity),
        *([table("node", "served", as_suite, identity)] if NODE else []),
        table("letters", "mailbox", as_suite, identity),
    )
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL % {"scenarios": json.dumps(SCENARIOS), "arms": "\n".join(arms)}, encoding="utf-8")
    finished(command("lock", str(path), "--out", str(folder / "lock.json")))
    return folder / "lock.json"


def by_a_driver(lock: Path, campaign: Path, arm: str, *driver: str) -> None:
    """Play one arm from outside: a service, and a driver that asks the learned arm behind lines of JSON."""
    token, identity = campaign.parent / f"{arm}.token", campaign.parent / "identity.json"
    identity.write_text(json.dumps(Registration(kind="fixed_program").model_dump(mode="json")), encoding="utf-8")
    service = command(
        "serve", str(lock), "--out", str(campaign), "--arm", arm, "--resume",
        "--bind", "127.0.0.1:0", "--token-file", str(token),
    )  # fmt: skip
    assert service.stdout is not None and service.stderr is not None
    try:
        first = service.stdout.readline()
        assert "http://" in first, first + service.stderr.read()
        address = next(word for word in first.split() if word.startswith("http://"))
        bridge = (str(CLIENTS / "policy_bridge.py"), f"{POLICY}:LearnedArm", "--weights", str(WEIGHTS))
        asked = [*driver, address, str(token), str(identity), "--", sys.executable, *bridge]
        drove = subprocess.run(asked, capture_output=True, text=True, timeout=180, check=False)
        assert drove.returncode == 0, drove.stderr
        finished(service)
    finally:
        service.terminate()
        service.communicate(timeout=20)


def by_letters(lock: Path, campaign: Path, root: Path) -> None:
    """Play the mailbox arm: for each mailbox that is announced, an actor reads and writes there."""
    running = command("mailbox", "run", str(lock), "--out", str(campaign), "--root", str(root), "--resume")
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith(str(root)):
            mailbox = Path(line.strip())
            serve(mailbox, hosting(LearnedArm(weights=(WEIGHTS,)), mailbox), poll_s=0.01, give_up_s=60.0)
    finished(running)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wires")
    mapping = [part for name in CHANNELS for part in ("--mapping", f"observation/{name}=proprio:{name}")]
    with (
        policy_server() as socket,
        policy_server("--dialect", "openpi", "--option", "stops=false", *mapping) as openpi,
    ):
        lock = the_lock(folder, socket=socket, openpi=openpi)
        finished(command("run", str(lock), "--out", str(folder / "c")))
    by_a_driver(lock, folder / "c", "driver", sys.executable, str(CLIENTS / "driver.py"))
    if NODE:
        by_a_driver(lock, folder / "c", "node", NODE, str(CLIENTS / "driver.mjs"))
    with tempfile.TemporaryDirectory() as root:
        by_letters(lock, folder / "c", Path(root))
    return folder / "c"


def played(campaign: Path, arm: str) -> dict[str, Row]:
    return {row.scenario: row for row in read_campaign(campaign).rows if row.arm == arm}


def assert_equal(one: Row, other: Row) -> None:
    assert one.control_steps > 50 and one.trace is not None and other.trace is not None
    assert (other.fault_code, other.control_steps) == (None, one.control_steps)
    assert other.actions_sha256 == one.actions_sha256
    assert other.trace.content_sha256 == one.trace.content_sha256


@pytest.mark.parametrize("wire", WIRES[1:])
def test_row_38_the_learned_arm_executes_the_same_actions_whatever_carries_them(campaign: Path, wire: str) -> None:
    inside, outside = played(campaign, "inside"), played(campaign, wire)
    assert tuple(sorted(outside)) == SCENARIOS
    for scenario in SCENARIOS:
        assert_equal(inside[scenario], outside[scenario])


def test_row_38_openpi_executes_the_same_actions_of_a_policy_that_needs_nothing_its_dialect_lacks(
    campaign: Path,
) -> None:
    """The dialect carries no stop and no step index: the arm holds still instead, and whole chunks are executed.

    Its numbers are the policy's own float64, because openpi's array form names a dtype; nothing is rounded.
    """
    inside, outside = played(campaign, "inside-whole"), played(campaign, "openpi")
    for scenario in SCENARIOS:
        assert outside[scenario].echo == "client"
        assert_equal(inside[scenario], outside[scenario])


def test_row_38_every_wire_has_the_same_results_and_the_campaign_verifies(campaign: Path) -> None:
    outcomes = api.score(campaign)
    arms = (*WIRES, "inside-whole", "openpi")
    verdicts = {arm: sorted((o.scenario, o.status, o.reason) for o in outcomes if o.arm == arm) for arm in arms}
    assert all(verdicts[arm] == verdicts["inside"] for arm in WIRES)
    assert verdicts["openpi"] == verdicts["inside-whole"]
    assert {status for _, status, _ in verdicts["inside"]} == {"PASS"}
    report = json.loads(finished(command("verify", str(campaign), "--json")))
    assert report["findings"] == []
