"""A policy is made, heard, asked and closed in one thread; one that cannot be served is refused at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from served_policies import DECLARED, MAPPING, Batching, Instance, Stub, asked, begin, look, setting
from trialplate.errors import LockError, UsageError
from trialplate.policies.client.openpi import OpenpiActor
from trialplate.policies.client.websocket import WebSocketActor, describe
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.server.hosting import PolicyHost, serving
from trialplate.policies.server.openpi_dialect import OpenpiDialect
from trialplate.policies.server.server import ServeSettings
from trialplate.record import EpisodeInfo
from trialplate.spec.registration import Registration


class Watched(Stub):
    """Notes in which thread each method is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.note("made")

    def note(self, what: str) -> None:
        self.calls.append((what, threading.current_thread().name))

    def spec(self) -> Any:
        self.note("spec")
        return super().spec()

    def reset(self, episode: EpisodeInfo) -> None:
        self.note("reset")

    def act(self, observation: Any) -> Any:
        self.note("act")
        return super().act(observation)

    def close(self) -> None:
        self.note("close")


def test_every_call_into_a_policy_is_made_in_one_thread_in_the_order_of_its_life() -> None:
    made: list[Watched] = []

    def make() -> Watched:
        made.append(Watched())
        return made[0]

    with serving(make) as uri:
        client = WebSocketActor(uri, setting())
        client.reset(begin(), None)  # type: ignore[arg-type]
        asked(client, look())
        client.close()
    words, threads = zip(*made[0].calls, strict=True)
    assert words == ("made", "spec", "reset", "act", "close")
    assert set(threads) == {"trialplate-policy"}


def test_what_making_a_policy_raises_is_raised_to_whoever_serves_it() -> None:
    def make() -> Stub:
        raise LockError("no weights", code="policy_load")

    with pytest.raises(LockError, match="no weights"), serving(make):
        pass


@pytest.mark.parametrize("said", [None, {"expects": {}}, ValueError("no idea")])
def test_a_declaration_that_is_none_is_refused_and_the_policy_closed(said: Any) -> None:
    closed = threading.Event()

    class Vague(Stub):
        def spec(self) -> Any:
            if isinstance(said, Exception):
                raise said
            return said

        def close(self) -> None:
            closed.set()

    with pytest.raises(LockError) as refused:
        PolicyHost(Vague, ServeSettings())
    assert refused.value.code == "policy_spec"
    assert closed.wait(5)


@pytest.mark.parametrize(
    ("kind", "wanted", "got"), [(Stub, 1, 1), (Stub, 100, 100), (Batching, 64, 64), (Instance, 8, 1)]
)
def test_a_batch_is_as_large_as_asked_for_and_one_where_the_policy_has_a_state_of_its_own(
    kind: type[Stub], wanted: int, got: int
) -> None:
    host = PolicyHost(kind, ServeSettings(max_batch_size=wanted))
    assert host.max_batch_size == got
    assert host.close()


def test_a_batch_above_what_the_policy_declares_is_refused_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"batches of 65 .* max_batch_size 64"):
        PolicyHost(Batching, ServeSettings(max_batch_size=65))


def test_the_identity_that_a_server_is_given_is_what_its_clients_hear() -> None:
    told = Registration.model_validate_json('{"model": {"name": "m", "revision": "7"}}')
    with serving(Stub, registration=told) as uri:
        heard = describe(uri, connect_timeout_s=3.0, max_message_bytes=2**26)
    assert heard.registration == told
    assert heard.policy_spec == DECLARED


def test_a_policy_served_in_openpis_dialect_answers_openpis_clients_as_it_does_ours() -> None:
    class Plain(Stub):
        declared = DECLARED.model_copy(update={"expects": DECLARED.expects.model_copy(update={"meta": ()})})

    def dialect(declared: Any) -> OpenpiDialect:
        mapping = OpenpiMapping(MAPPING, declared.expects)
        return OpenpiDialect(declared, Registration(), mapping=mapping, max_message_bytes=2**26)

    seen = look(Plain.declared, word="down")
    with serving(Plain, dialect=dialect) as uri:
        client = OpenpiActor(uri, setting(Plain.declared), mapping=MAPPING, single_vector=False)
        client.reset(begin(), None)  # type: ignore[arg-type]
        rows = asked(client, seen)
        client.close()
    assert rows.tolist() == Plain().act(seen).vectors.tolist()  # type: ignore[union-attr]
