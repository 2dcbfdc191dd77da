"""openpi's dialect, as a policy server speaks it to clients of openpi: metadata first, then one map in and one out.

Source: policy contract, section 4.3.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import sha256_hex
from trialplate.errors import ContractFault, LockError, PolicyFault, TrialplateError
from trialplate.policies.messages.handshake import agreed_bytes
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.server.sessions import Begin, Decide, Reply, Say, Step, limit_for
from trialplate.policies.wire import openpi
from trialplate.record import ActionChunk, EpisodeInfo, Observation, PolicyDecision, Remaining
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.spec.registration import Registration

LAST_STEP = 1_000_000
"""``max_steps`` of an episode: the dialect does not say how long one is."""


class OpenpiDialect:
    """A metadata frame first, then one map in and one map out; each connection is an episode of its own.

    The dialect has no reset and says nothing of an episode's length or rate: the policy is told its own rate, one
    decision per chunk, and a seed drawn from the episode's random id. Raises LockError ``contract_mismatch`` for a
    policy that expects what the table or the dialect does not carry: nothing is filled in.
    """

    def __init__(
        self, declared: PolicySpec, registration: Registration, *, mapping: OpenpiMapping, max_message_bytes: int
    ) -> None:
        agreed_bytes(max_message_bytes, max_message_bytes, spec=declared.expects)
        _refuse_uncarried(declared.expects, mapping)
        self.limit_bytes = limit_for(declared, max_message_bytes)
        self.declared, self.mapping = declared, mapping
        self.registration_sha256 = registration.sha256()
        self.greeting = openpi.encode(
            {
                "server": "trialplate",
                "registration_sha256": self.registration_sha256,
                "registration": registration.model_dump(mode="json"),
                "policy_spec": declared.model_dump(mode="json"),
            }
        )

    def session(self) -> OpenpiSession:
        """Begin a conversation."""
        return OpenpiSession(self)


class OpenpiSession:
    """One client of openpi's dialect."""

    def __init__(self, dialect: OpenpiDialect) -> None:
        self._dialect = dialect
        self._episode = secrets.token_hex(16)
        self._calls = 0

    def receive(self, data: bytes | str) -> Sequence[Step]:
        """Read one map; the first one begins the episode."""
        try:
            if isinstance(data, str):
                raise ContractFault("a text frame, expected binary", code="wire_malformed")
            look = self._dialect.mapping.read(openpi.decode(data, max_bytes=self._dialect.limit_bytes))
        except ContractFault as fault:
            return (Say(f"{fault.code}: {fault.message}", closes=True),)
        observation = Observation(
            episode=self._episode,
            call_index=self._calls,
            observation_id=secrets.token_hex(16),
            registration_sha256=self._dialect.registration_sha256,
            step_index=self._calls * (self._dialect.declared.chunk_length or 1),
            instruction=look.instruction,
            images=look.images,
            proprio=look.proprio,
            remaining=Remaining(LAST_STEP, None),
        )
        self._calls += 1
        if observation.call_index > 0:
            return (Decide(observation),)
        return (Begin(self._info(look.instruction or "")), Decide(observation))

    def reply(self, step: Step, outcome: Any) -> Reply:
        """Return the answer to a step; a failure is a text frame, and the connection ends."""
        if isinstance(step, Say):
            return Reply(step.data, closes=step.closes, code=1011)
        if isinstance(outcome, TrialplateError):
            return Reply(f"{outcome.code}: {outcome.message}", closes=True, code=1011)
        if isinstance(step, Begin):
            return Reply(None)
        try:
            return Reply(openpi.encode(_openpi_reply(outcome)))
        except TrialplateError as fault:
            return Reply(f"{fault.code}: {fault.message}", closes=True, code=1011)

    def _info(self, instruction: str) -> EpisodeInfo:
        declared = self._dialect.declared
        return EpisodeInfo(
            episode=self._episode,
            instruction=instruction,
            control_hz=declared.emits.control_hz,
            replan_interval=declared.chunk_length or 1,
            max_steps=LAST_STEP,
            policy_seed=int(sha256_hex(bytes.fromhex(self._episode))[:8], 16),
        )


def _refuse_uncarried(expects: ObservationSpec, mapping: OpenpiMapping) -> None:
    lines = [f"{name} is in no key" for name in (*expects.camera_names, *expects.proprio_names)]
    lines = [line for line in lines if line.split()[0] not in mapping.used]
    if expects.instruction and not mapping.carries_instruction:
        lines.append("the instruction is in no key")
    if expects.history is not None or expects.meta:
        lines.append("openpi's dialect carries no history and no meta channels")
    if lines:
        listed = "".join(f"\n  {line}" for line in lines)
        raise LockError(f"the policy expects what it would not be sent:{listed}", code="contract_mismatch")


def _openpi_reply(decision: PolicyDecision) -> dict[str, Any]:
    if not isinstance(decision.decision, ActionChunk):
        raise PolicyFault("the policy stopped; the openpi dialect has no stop", code="invalid_response_schema")
    vectors = decision.decision.vectors
    actions = vectors if isinstance(vectors, np.ndarray) else _array(vectors)
    if actions.ndim != 2 or actions.dtype.kind != "f":
        raise PolicyFault(
            f"the policy's rows are {actions.dtype} of shape {actions.shape}", code="invalid_response_schema"
        )
    return {"actions": actions, "server_timing": {"infer_ms": decision.latency_ms}}


def _array(rows: Any) -> NDArray[np.float64]:
    """Return nested lists as an array; what is no number does not become one."""
    values = [value for row in rows for value in (row if isinstance(row, list | tuple) else [row])]
    wrong = [value for value in values if not _is_number(value)]
    if wrong:
        raise PolicyFault(f"the policy's rows hold {str(wrong[0])[:40]!r}", code="invalid_action")
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise PolicyFault(f"the policy's rows are no array: {error}", code="invalid_response_schema") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
