"""A policy behind ``openpi+ws://``: a server that speaks the dialect of openpi's websocket policy server.

Its metadata frame comes first; then a map of observations goes out and a map with ``actions`` (n, dim) comes back.
The dialect has no reset and no ids: each episode has a connection of its own, a connection is discarded after a
timeout, and the client fills in what a decision repeats, which the record says (``echo: client``). A text frame is
the server's traceback. Source: policy contract, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trialplate.canonical import JsonValue, document_sha256, sha256_hex
from trialplate.errors import CanonicalError, ContractFault, PolicyFault
from trialplate.interfaces import Scenario
from trialplate.policies.charging import recordable
from trialplate.policies.client.connection import Connection, Greeting, connect
from trialplate.policies.messages.handshake import agreed_bytes
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.messages.writing import fitted
from trialplate.policies.setting import ActorSetting
from trialplate.policies.wire import openpi
from trialplate.record import Ack, ActionChunk, EndReason, EpisodeInfo, Measurement, Observation, PolicyDecision

WHOLE_ARRAY_MAX = 256
"""Numbers of an array that a record keeps in full; of a larger one it keeps dtype, shape and digest."""


def describe_openpi(uri: str, *, connect_timeout_s: float, max_message_bytes: int) -> dict[str, JsonValue]:
    """Connect, hear the server's metadata, and leave. Raises HarnessFault ``connect_failed`` or ContractFault."""
    line, greeting = connect(uri, timeout_s=connect_timeout_s, max_message_bytes=max_message_bytes)
    try:
        return read_metadata(greeting, max_message_bytes=max_message_bytes)
    finally:
        line.close(timeout_s=min(1.0, connect_timeout_s))


def read_metadata(greeting: Greeting, *, max_message_bytes: int) -> dict[str, JsonValue]:
    """Return a server's metadata frame as plain data. Raises PolicyFault for a traceback, ContractFault for bytes."""
    if isinstance(greeting, str):
        raise _traceback(greeting)
    metadata = openpi.decode(greeting, max_bytes=max_message_bytes)
    if not isinstance(metadata, dict):
        raise ContractFault(f"the metadata frame is {type(metadata).__name__}, expected a map", code="wire_malformed")
    return {recordable(key): plain(value) for key, value in metadata.items()}


def plain(value: Any) -> JsonValue:
    """Return a value that came over this wire as plain data for a record; a large array by its digest."""
    if isinstance(value, Mapping):
        return {recordable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray) and value.size > WHOLE_ARRAY_MAX:
        return {"dtype": value.dtype.str, "shape": list(value.shape), "sha256": sha256_hex(value.tobytes())}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": sha256_hex(value)}
    if isinstance(value, str):
        return recordable(value)
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    if isinstance(value, int) and not -(2**53) < value < 2**53:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else recordable(repr(value))


class OpenpiActor:
    """The arm's side of a rollout over openpi's dialect. Connects at each reset.

    ``mapping``: openpi key -> channel, as in :mod:`trialplate.policies.messages.openpi_mapping`. ``single_vector``:
    a reply of one row without its leading axis is taken as a chunk of one. Raises LockError for a mapping that does
    not fit.
    """

    def __init__(
        self, uri: str, setting: ActorSetting, *, mapping: Mapping[str, str | tuple[str, ...]], single_vector: bool
    ) -> None:
        budgets = setting.budgets
        self._setting, self._single_vector = setting, single_vector
        self._mapping = OpenpiMapping(mapping, setting.observation)
        agreed_bytes(budgets.max_message_bytes, budgets.max_message_bytes, spec=setting.observation)
        self._metadata_sha256 = setting.registration.server_metadata_sha256
        self._connection = Connection(
            uri,
            connect_timeout_s=budgets.connect_timeout_s,
            close_timeout_s=budgets.close_timeout_s,
            max_message_bytes=budgets.max_message_bytes,
            greet=self._greet,
        )

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Begin an episode on a new connection.

        Raises HarnessFault ``connect_failed``, PolicyFault ``policy_exception`` for a traceback in the metadata's
        place, or ContractFault ``identity_changed`` when the metadata is not what it was when the lock was made, or
        at the first connection.
        """
        self._connection.open(again=True)

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Return the server's actions as a decision.

        Raises PolicyFault (``policy_timeout``, ``policy_exception``, ``invalid_response_schema``), ContractFault
        (``wire_malformed``, ``wire_dialect_mismatch``, ``message_too_large``), HarnessFault ``transport_lost``.
        """
        return self.ask_meanwhile(observation, None)

    def ask_meanwhile(self, observation: Observation, work: Callable[[], None] | None) -> PolicyDecision:
        """Return the server's actions; call ``work`` while they are on their way. Raises as :meth:`ask` does."""
        budgets, call = self._setting.budgets, observation.call_index
        request = openpi.pieces(self._mapping.message(observation))
        self._refuse_unasked(call)
        frame = self._connection.call(
            request,
            doing=f"infer, call {call}",
            timeout_s=budgets.call_timeout_s if call else budgets.first_call_timeout_s,
            meanwhile=work,
        )
        if isinstance(frame, str):
            self._connection.discard()
            raise _traceback(frame)
        try:
            reply = openpi.decode(frame, max_bytes=budgets.max_message_bytes)
        except BaseException:
            self._connection.discard()
            raise
        return self._decision(reply)

    def acknowledge(self, ack: Ack) -> None:
        """Say nothing: the dialect has no word for it."""

    def end(self, reason: EndReason) -> None:
        """End the connection, which is what ends an episode in this dialect."""
        self._connection.close()

    def close(self) -> None:
        """Close the connection within ``close_timeout_s``."""
        self._connection.close()

    def _refuse_unasked(self, call: int) -> None:
        """Refuse a server that spoke before it was asked: the dialect has no ids to tell its answers apart."""
        frame = self._connection.unasked()
        if isinstance(frame, str):
            raise _traceback(frame)
        if frame is not None:
            raise ContractFault(
                f"infer, call {call}: the server had sent a message that nobody asked for; nothing was executed",
                code="stale_observation",
            )

    def _decision(self, reply: Any) -> PolicyDecision:
        if not isinstance(reply, dict) or "actions" not in reply:
            found = sorted(map(str, reply))[:20] if isinstance(reply, dict) else type(reply).__name__
            raise _no_decision(f"a reply is a map with 'actions', got {found}")
        actions = reply["actions"]
        if not isinstance(actions, np.ndarray):
            raise _no_decision(f"actions: expected an array, got {type(actions).__name__}")
        if actions.ndim == 1 and self._single_vector:
            actions = actions.reshape(1, -1)
        if actions.ndim != 2:
            hint = "; allow one row without its axis by single_vector = true" if actions.ndim == 1 else ""
            raise _no_decision(f"actions: expected shape (n, {self._setting.action.dim}), got {actions.shape}{hint}")
        remarks = {recordable(str(key)): plain(value) for key, value in reply.items() if key != "actions"}
        latency_ms = _latency_ms(remarks)
        return PolicyDecision(
            ActionChunk(actions),
            latency_ms=latency_ms,
            latency_ms_reason="not_reported",
            usage_reason="not_metered",
            echo="client",
            remarks=remarks,
        )

    def _greet(self, greeting: Greeting) -> None:
        metadata = read_metadata(greeting, max_message_bytes=self._setting.budgets.max_message_bytes)
        try:
            found = document_sha256(metadata)
        except CanonicalError as error:
            raise ContractFault(f"the metadata frame has no canonical form: {error}", code="wire_malformed") from None
        if self._metadata_sha256 is None:
            self._metadata_sha256 = found
        elif found != self._metadata_sha256:
            raise ContractFault(
                f"the server's metadata has the digest {found}, registered is {self._metadata_sha256}: another policy"
                " answers",
                code="identity_changed",
            )


def _latency_ms(remarks: Mapping[str, Any]) -> float | None:
    """Return the inference time that a server reports of itself, None when it does not."""
    timing = remarks.get("server_timing")
    found = timing.get("infer_ms") if isinstance(timing, Mapping) else None
    known = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < float("inf")
    return float(found) if known and found is not None else None


def _traceback(text: str) -> PolicyFault:
    """Return a server's traceback as the policy's fault: its end, where the reason stands."""
    data = recordable_all(text).strip().encode("utf-8")
    tail = data[-490:].decode("utf-8", "ignore")
    return PolicyFault(fitted(f"the server failed: {tail}"), code="policy_exception")


def recordable_all(text: str) -> str:
    """Return a text of any length without what a document cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def _no_decision(message: str) -> PolicyFault:
    return PolicyFault(f"{message}; nothing was executed", code="invalid_response_schema")
