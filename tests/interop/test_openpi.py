"""openpi's own client asks our server, and our client asks openpi's own server: real packages, real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from peers import peer_server, python_of
from reaching import rows_for

from trialplate import api
from wire_campaign import command, rows

HERE = Path(__file__).parent
PEER = python_of("openpi")
pytestmark = pytest.mark.skipif(not PEER.exists(), reason="openpi-client is not installed beside: make peers")
TWIN = '''
from trialplate.record import ActionChunk
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras

class Twin:
    """The same policy as an object; ``refuses`` lets it raise from the third call on."""
    def spec(self):
        expects = ObservationSpec(instruction=True, cameras=cameras()[:1], proprio=PROPRIO[:1])
        return PolicySpec(expects=expects, emits=ACTION, chunk_length=self.rows, state="none")
    def __init__(self, refuses=False, rows=2):
        self.refuses, self.rows, self.calls = refuses, rows, 0
    def reset(self, episode):
        pass
    def act(self, observation):
        self.calls += 1
        if self.refuses and self.calls >= 3:
            raise RuntimeError("the gripper model has no weights")
        return ActionChunk(rows_for(observation.proprio["ee_pos"])[: self.rows])
    def close(self):
        pass
'''
MAPPING = {
    "observation/image": "camera:front", "observation/state": "proprio:ee_pos", "prompt": "instruction",
}  # fmt: skip


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    path = tmp_path / "arms.py"
    path.write_text((HERE / "reaching.py").read_text(encoding="utf-8") + TWIN, encoding="utf-8")
    return path


@contextmanager
def our_server(arms: Path, *options: str) -> Iterator[int]:
    mapping = [part for key, channel in MAPPING.items() for part in ("--mapping", f"{key}={channel}")]
    asked = ["policy", "serve", f"{arms}:Twin", "--dialect", "openpi", "--bind", "127.0.0.1:0", *mapping, *options]
    running = subprocess.Popen(
        [sys.executable, "-m", "trialplate.cli", *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None and running.stderr is not None
        first = running.stdout.readline()
        assert first.startswith("serving "), first + running.stderr.read()
        yield int(first.rsplit(":", 1)[1])
    finally:
        running.terminate()
        running.communicate(timeout=20)


@contextmanager
def their_server(*options: str) -> Iterator[str]:
    with peer_server("openpi", "openpi_peer.py", "server", after=options) as port:
        yield f"openpi+ws://127.0.0.1:{port}"


def asked_by_their_client(port: int, positions: list[list[float]]) -> list[dict[str, object]]:
    done = subprocess.run(
        [PEER, HERE / "openpi_peer.py", "client", str(port)],
        input="".join(f"{json.dumps(position)}\n" for position in positions),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_openpi_client_gets_from_our_server_the_policys_actions_to_the_bit(arms: Path) -> None:
    positions = [[0.1, 0.2, 0.3], [0.5, 0.0, 0.3], [1 / 3, -1 / 7, 0.61]]
    with our_server(arms) as port:
        metadata, *answers = asked_by_their_client(port, positions)
    assert set(metadata) == {"metadata"} and metadata["metadata"]
    for position, answer in zip(positions, answers, strict=True):
        wanted = rows_for(np.array(position))
        assert (answer["dtype"], answer["shape"]) == ("<f4", [2, 7])
        assert answer["bytes"] == wanted.tobytes().hex()


def test_openpi_client_is_told_in_its_own_way_when_the_policy_raises(arms: Path) -> None:
    with our_server(arms, "--option", "refuses=true") as port:
        _, first, second, third, *_ = asked_by_their_client(port, [[0.1, 0.2, 0.3]] * 3)
    assert "bytes" in first and "bytes" in second
    assert "the gripper model has no weights" in str(third["error"])


def _protocol(folder: Path, address: str) -> Path:
    mapping = ", ".join(f'"{key}" = "{channel}"' for key, channel in MAPPING.items())
    path = folder / "protocol.toml"
    path.write_text(
        'schema = "trialplate.protocol/1"\nname = "dialects"\nquestion = "Is it the same?"\n'
        'run_class = "development"\n[suite]\nname = "toy-reach"\nversion = "1"\n'
        'scenarios = ["reach-001", "reach-002", "reach-003"]\n[schedule]\norder = "manifest"\n'
        '[[arms]]\nname = "inside"\npolicy = "arms.py:Twin"\nprofile = "front"\nreplan_interval = 2\n'
        f'[[arms]]\nname = "openpi"\npolicy = "{address}"\nprofile = "front"\nreplan_interval = 2\n'
        'as_suite = { channels = ["front", "ee_pos"], instruction = true, chunk_length = 2 }\n'
        f'identity = {{ kind = "fixed_program" }}\nmapping = {{ {mapping} }}\n',
        encoding="utf-8",
    )
    return path


def test_row_38_a_campaign_against_openpis_own_server_equals_the_object_to_the_bit(
    arms: Path, tmp_path: Path
) -> None:
    """Its rows are float32, like the object's; the dialect names the dtype of an array, so nothing is rounded."""
    with their_server() as address:
        lock = api.lock(api.load_protocol(_protocol(tmp_path, address)), into=tmp_path / "c")
        api.run(lock)
    inside, outside = rows(tmp_path / "c", "inside"), rows(tmp_path / "c", "openpi")
    assert [row.scenario for row in outside] == ["reach-001", "reach-002", "reach-003"]
    for one, other in zip(inside, outside, strict=True):
        assert other.fault_code is None and other.control_steps > 5 and other.echo == "client"
        assert one.trace is not None and other.trace is not None
        assert (other.actions_sha256, other.trace.content_sha256) == (one.actions_sha256, one.trace.content_sha256)
    assert command("verify", str(tmp_path / "c"))["findings"] == []


def test_row_34_the_traceback_of_openpis_server_is_kept_and_charged_to_the_policy(arms: Path, tmp_path: Path) -> None:
    with their_server("raise") as address:
        lock = api.lock(api.load_protocol(_protocol(tmp_path, address)), into=tmp_path / "c")
        api.run(lock)
    outside = rows(tmp_path / "c", "openpi")
    assert {row.fault_code for row in outside} == {"policy_exception"}
    assert outside[0].control_steps == 4
    assert "the gripper model has no weights" in (outside[0].fault_message or "")
    assert command("verify", str(tmp_path / "c"))["findings"] == []
