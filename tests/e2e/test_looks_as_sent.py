"""What a policy was sent can be put together again from the campaign alone, byte for byte as it crossed the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.messages.writing import observation_message
from trialplate.policies.server import openpi_dialect, own_dialect
from trialplate.policies.server.hosting import serving
from trialplate.policies.wire import openpi, own
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation
from trialplate.registry import load_suite
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.spec.registration import Registration
from trialplate.store.exchanges import read_exchanges
from trialplate.store.view import read_campaign

SUITE = load_suite("toy-reach")
MAPPING = {
    "observation/image": "camera:front",
    "observation/state": ("proprio:ee_pos", "proprio:ee_quat", "proprio:gripper"),
    "prompt": "instruction",
}
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "looks"
question = "What was it shown?"
run_class = "development"
suite = {{ name = "toy-reach", version = "1", scenarios = ["reach-001", "reach-004"] }}
schedule = {{ order = "manifest" }}

[budgets]
max_steps = 20
max_calls = 40
invalid_action_handling = "feedback"

[[arms]]
name = "wandering"
policy = "{address}"
profile = "{profile}"
replan_interval = 2
{more}
"""
OPENPI = """
as_suite = { channels = ["front", "ee_pos", "ee_quat", "gripper"], instruction = true, chunk_length = 3 }
identity = { kind = "fixed_program" }
[arms.mapping]
"observation/image" = "camera:front"
"observation/state" = ["proprio:ee_pos", "proprio:ee_quat", "proprio:gripper"]
"prompt" = "instruction"
"""


class Wandering:
    """Goes its own way, and every fourth answer is refused: it leaves the bounds in its last row."""

    def __init__(self, expects: ObservationSpec) -> None:
        self._expects = expects

    def spec(self) -> PolicySpec:
        return PolicySpec(expects=self._expects, emits=SUITE.action, chunk_length=3)

    def reset(self, episode: EpisodeInfo) -> None:
        pass

    def act(self, observation: Observation) -> Decision:
        away = 0.01 * (observation.call_index % 3)
        last = 9.0 if observation.call_index % 4 == 2 else 1.0
        return ActionChunk([[away, -away, 0.001, 0.0, 0.0, 0.0, 1.0]] * 2 + [[0.0] * 6 + [last]])

    def close(self) -> None:
        pass


def played(folder: Path, address: str, *, profile: str, more: str = "") -> list[Observation]:
    """Run the campaign; return every look that it kept, in the order of its trials."""
    (folder / "protocol.toml").write_text(PROTOCOL.format(address=address, profile=profile, more=more))
    lock = api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "c")
    campaign = api.run(lock)
    kept = []
    for row in read_campaign(campaign.folder).rows:
        assert row.fault_code is None and row.exchange is not None
        kept += [call.observation for call in read_exchanges((campaign.folder / row.exchange.path).read_bytes())]
    return kept


def overheard(monkeypatch: pytest.MonkeyPatch, session: Any) -> list[bytes]:
    """Return a list that will hold every message of a session as it arrived."""
    heard: list[bytes] = []
    receive = session.receive

    def listening(self: Any, data: bytes) -> Any:
        heard.append(data)
        return receive(self, data)

    monkeypatch.setattr(session, "receive", listening)
    return heard


@pytest.mark.parametrize("profile", ["standard", "history", "state"])
def test_every_look_is_rebuilt_byte_for_byte_as_it_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    heard = overheard(monkeypatch, own_dialect.OwnSession)
    with serving(lambda: Wandering(SUITE.profiles[profile])) as address:
        kept = played(tmp_path, address, profile=profile)
    sent = [data for data in heard if own.decode(data, max_bytes=2**26)["type"] == "observation"]
    numbers = [own.decode(data, max_bytes=2**26)["id"] for data in sent]
    rebuilt = [own.encode({**observation_message(look), "id": id_}) for look, id_ in zip(kept, numbers, strict=True)]
    assert rebuilt == sent
    shown_again = [look for look in kept if look.issue is not None]
    assert len(shown_again) >= 4 and len({look.observation_id for look in kept}) == len(kept) - len(shown_again)


def test_so_is_what_an_openpi_server_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = overheard(monkeypatch, openpi_dialect.OpenpiSession)
    expects = SUITE.profiles["front"].only("front", "ee_pos", "ee_quat", "gripper", instruction=True)

    def dialect(declared: PolicySpec) -> openpi_dialect.OpenpiDialect:
        mapping = OpenpiMapping(MAPPING, declared.expects)
        return openpi_dialect.OpenpiDialect(declared, Registration(), mapping=mapping, max_message_bytes=2**26)

    with serving(lambda: Wandering(expects), dialect=dialect) as address:
        kept = played(tmp_path, address.replace("ws://", "openpi+ws://"), profile="front", more=OPENPI)
    mapping = OpenpiMapping(MAPPING, expects)
    assert [openpi.encode(mapping.message(look)) for look in kept] == heard
    assert len(heard) > 10
