"""The one text that an anonymous actor is given, rendered from one template and never typed by hand.

The template ships with the package and takes exactly two substitutions, the host and the mailbox. Behind it stand two
example answers that are generated from the run's action specification and parsed by the same parser as real
answers, in the tests and again at every launch. Source: policy contract, section 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from trialplate.canonical import sha256_hex
from trialplate.errors import ContractFault, PolicyFault, UsageError
from trialplate.policies.messages import PROTOCOL, parse_decision
from trialplate.policies.validation import validate_chunk
from trialplate.policies.wire import strict_json
from trialplate.record import ActionChunk, Observation, Remaining, Stop
from trialplate.spec.channels import ActionComponent, ActionSpec

TEMPLATE = "actor_instructions_v1"
MAX_EXAMPLE_BYTES = 1024 * 1024
_SLOTS = re.compile(r"\{(host|mailbox)\}")
_EXAMPLE = re.compile(r"^\{$.*?^\}$", re.DOTALL | re.MULTILINE)
_UPRIGHT: Mapping[str, tuple[float, ...]] = {
    "quat_wxyz": (1, 0, 0, 0),
    "quat_xyzw": (0, 0, 0, 1),
    "rot6d_columns": (1, 0, 0, 0, 1, 0),
    "rot6d_interleaved": (1, 0, 0, 1, 0, 0),
}
_EXPECTED = Observation(
    episode="0123456789abcdef" * 2,
    call_index=0,
    observation_id="fedcba9876543210" * 2,
    registration_sha256="0011223344556677" * 4,
    step_index=0,
    instruction=None,
    images={},
    proprio={},
    remaining=Remaining(1, None),
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """A rendered text. ``template_sha256`` is the same for every run, ``rendered_sha256`` is that of ``text``."""

    text: str
    host: str
    mailbox: str
    template: str
    template_sha256: str
    rendered_sha256: str

    def document(self) -> dict[str, str]:
        """Return the identity of the text: which template, which substitutions, both digests."""
        return {
            "template": self.template,
            "template_sha256": self.template_sha256,
            "rendered_sha256": self.rendered_sha256,
            "host": self.host,
            "mailbox": self.mailbox,
        }


@cache
def template_text() -> str:
    """Return the shipped template."""
    return (files("trialplate.policies.mailbox") / "data" / f"{TEMPLATE}.txt").read_text(encoding="utf-8")


def render_instructions(action: ActionSpec, *, host: str, mailbox: str) -> Instructions:
    """Return the text for an actor on ``host`` whose mailbox is the folder ``mailbox``, its examples checked.

    Raises UsageError ``actor_instructions`` for a host or folder that is not one plain line, and
    ``actor_example_refused`` when the parser of answers would not take an example.
    """
    values = {"host": host, "mailbox": mailbox}
    for name, value in values.items():
        if not value.strip() or not value.isprintable() or len(value) > 1024:
            raise UsageError(
                f"{name} of the actor's instructions: expected one printable line, got {value!r}",
                code="actor_instructions",
            )
    template = template_text()
    head = _SLOTS.sub(lambda slot: values[slot[1]], template)
    text = f"{head}\n{_shown(example_chunk(action))}\n\n{_shown(example_stop())}\n"
    check_examples(text, action)
    return Instructions(
        text,
        host,
        mailbox,
        template=TEMPLATE,
        template_sha256=sha256_hex(template.encode()),
        rendered_sha256=sha256_hex(text.encode()),
    )


def check_examples(text: str, action: ActionSpec) -> None:
    """Parse and validate every example of a rendered text as an answer of an actor would be.

    Raises UsageError ``actor_example_refused`` naming the example, also when a chunk and a stop are not both there.
    """
    kinds = set()
    for number, block in enumerate(examples_in(text), 1):
        try:
            message = strict_json.loads(block.encode(), max_bytes=MAX_EXAMPLE_BYTES)
            decision = parse_decision(message, expected=_EXPECTED).decision
            if isinstance(decision, ActionChunk):
                validate_chunk(decision.vectors, action, max_rows=1)
        except (PolicyFault, ContractFault) as fault:
            raise _refused(f"example {number} is no valid answer: {fault.code}: {fault.message}") from None
        kinds.add(type(decision))
    if kinds != {ActionChunk, Stop}:
        raise _refused(f"expected one chunk and one stop as examples, found {len(kinds)} of the two")


def examples_in(text: str) -> tuple[str, ...]:
    """Return the JSON objects of a text, found as a reader would: from a line ``{`` to the next line ``}``."""
    return tuple(_EXAMPLE.findall(text))


def example_chunk(action: ActionSpec) -> dict[str, Any]:
    """Return a minimal decision with one row that the action specification allows."""
    row = [value for component in action.components for value in _plain_values(component)]
    return {**_echoed(), "chunk": {"vectors": [row]}, **_unmetered()}


def example_stop() -> dict[str, Any]:
    """Return a minimal decision to stop."""
    return {**_echoed(), "stop": {"reason": None}, **_unmetered()}


def _echoed() -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "type": "decision",
        "episode": _EXPECTED.episode,
        "call_index": _EXPECTED.call_index,
        "observation_id": _EXPECTED.observation_id,
        "registration": _EXPECTED.registration_sha256,
    }


def _unmetered() -> dict[str, Any]:
    return {"usage": None, "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered"}


def _plain_values(component: ActionComponent) -> list[float]:
    """Return legal numbers for a component: no turn, an open gripper, else zero, or the bound next to it."""
    wanted = _UPRIGHT.get(component.rotation or "", ()) if component.mode == "absolute" else ()
    if component.gripper is not None:
        wanted = (component.gripper.open,) * component.dim
    if len(wanted) != component.dim:
        wanted = (0.0,) * component.dim
    values = []
    for value, low, high in zip(wanted, component.low, component.high, strict=True):
        above = value if low is None else max(float(value), low)
        values.append(float(above if high is None else min(above, high)))
    return values


def _shown(message: Mapping[str, Any]) -> str:
    """Return a message as JSON with one member a line, so that a row of numbers stays one line."""
    members = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in message.items())
    return f"{{\n{members}\n}}"


def _refused(message: str) -> UsageError:
    return UsageError(f"the actor's instructions are not sent: {message}", code="actor_example_refused")
