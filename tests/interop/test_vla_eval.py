"""A model server of vla-eval answers our observations through one policy object: its real package, a real process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from peers import HERE, ROOT, peer_server, python_of
from test_openpi import TWIN

from trialplate import api
from wire_campaign import command, rows

BRIDGE = ROOT / "src" / "trialplate" / "examples" / "clients" / "vla_eval_arm.py"
pytestmark = pytest.mark.skipif(
    not python_of("vla-eval").exists(), reason="vla-eval is not installed beside: make peers"
)


@contextmanager
def model_server(*options: str) -> Iterator[str]:
    with peer_server("vla-eval", "vla_eval_peer.py", after=options) as port:
        yield f"ws://127.0.0.1:{port}"


def _campaign(folder: Path, address: str) -> Path:
    (folder / "arms.py").write_text((HERE / "reaching.py").read_text(encoding="utf-8") + TWIN, encoding="utf-8")
    (folder / "vla_eval_arm.py").write_text(BRIDGE.read_text(encoding="utf-8"), encoding="utf-8")
    options = f'address = "{address}", suite = "toy-reach", profile = "front", channels = "front,ee_pos"'
    path = folder / "protocol.toml"
    path.write_text(
        'schema = "trialplate.protocol/1"\nname = "servers"\nquestion = "Is it the same?"\n'
        'run_class = "development"\n[suite]\nname = "toy-reach"\nversion = "1"\n'
        'scenarios = ["reach-001", "reach-002", "reach-003"]\n[schedule]\norder = "manifest"\n'
        '[[arms]]\nname = "inside"\npolicy = "arms.py:Twin"\nprofile = "front"\noptions = { rows = 1 }\n'
        '[[arms]]\nname = "theirs"\npolicy = "vla_eval_arm.py:VlaEvalArm"\nprofile = "front"\n'
        f"options = {{ {options} }}\n",
        encoding="utf-8",
    )
    lock = api.lock(api.load_protocol(path), into=folder / "c")
    api.run(lock)
    return folder / "c"


def test_a_campaign_against_a_vla_eval_server_equals_the_object_to_the_bit(tmp_path: Path) -> None:
    with model_server() as address:
        campaign = _campaign(tmp_path, address)
    inside, outside = rows(campaign, "inside"), rows(campaign, "theirs")
    assert [row.scenario for row in outside] == ["reach-001", "reach-002", "reach-003"]
    for one, other in zip(inside, outside, strict=True):
        assert (other.fault_code, other.control_steps) == (None, one.control_steps) and other.control_steps > 5
        assert one.trace is not None and other.trace is not None
        assert (other.actions_sha256, other.trace.content_sha256) == (one.actions_sha256, one.trace.content_sha256)
    assert command("verify", str(campaign))["findings"] == []


def test_what_goes_wrong_in_a_vla_eval_server_is_the_policys_and_is_kept(tmp_path: Path) -> None:
    with model_server("raise") as address:
        campaign = _campaign(tmp_path, address)
    outside = rows(campaign, "theirs")
    assert {row.fault_code for row in outside} == {"policy_exception"}
    assert "expected action, the server sent error" in (outside[0].fault_message or "")
