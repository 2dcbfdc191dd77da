"""Host a Python policy behind lines of JSON, so that a driver in any language can evaluate it.

python policy_bridge.py arm.py:Arm --weights weights.npz --options '{"speed": 0.5}'

Each line in is a message of the wire: ``spec`` begins an episode and is answered by ``ready``, ``observation`` by
``decision``. Whatever goes wrong is answered by ``error``; a driver passes it on as the answer. Numbers keep their
bits. What the policy prints goes to the error stream.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trialplate.errors import ContractFault, TrialplateError
from trialplate.policies.charging import charged
from trialplate.policies.in_process import in_process_decision, load_policy
from trialplate.policies.messages import (
    CLASS_OF,
    decision_message,
    error_message,
    info_of,
    message_type,
    parse_observation,
    parse_spec,
    ready_message,
)
from trialplate.policies.wire import strict_json
from trialplate.spec.channels import ObservationSpec

LIMIT_BYTES = 2**27


class Bridge:
    """One policy, and the channels of the episode that it plays."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._channels: ObservationSpec | None = None

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the reply to one line; a fault is a reply too."""
        try:
            message = strict_json.loads(line, max_bytes=LIMIT_BYTES)
            return self._begin(message) if message_type(message) == "spec" else self._decide(message)
        except TrialplateError as fault:
            return error_message(fault.code if fault.code in CLASS_OF else "policy_exception", fault.message)

    def _begin(self, message: Any) -> dict[str, Any]:
        spec = parse_spec(message)
        charged(lambda: self._policy.reset(info_of(spec)), doing="reset")
        self._channels = spec.observation_spec
        return ready_message(spec.episode)

    def _decide(self, message: Any) -> dict[str, Any]:
        if self._channels is None:
            raise ContractFault("a spec comes before the first observation", code="out_of_order")
        observation = parse_observation(message, self._channels)
        answer = charged(lambda: self._policy.act(observation), doing="act")
        return decision_message(in_process_decision(answer), observation)


def serve(bridge: Bridge, lines: Iterable[bytes], *, out: Any) -> None:
    """Answer each line until there are no more."""
    for line in lines:
        out.write(strict_json.dumps(bridge.answer(line)) + b"\n")
        out.flush()


def main() -> None:
    """Load the policy and answer what comes on the standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="module:attr, or path/file.py:attr")
    parser.add_argument("--weights", action="append", default=[], help="a checkpoint; may be given several times")
    parser.add_argument("--options", type=json.loads, default={}, help="keyword arguments of the policy, as JSON")
    asked = parser.parse_args()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing but answers may come out there
    policy = load_policy(asked.policy, base=Path.cwd(), weights=tuple(asked.weights), options=asked.options)
    try:
        serve(Bridge(policy), sys.stdin.buffer, out=out)
    finally:
        charged(policy.close, doing="close")


if __name__ == "__main__":
    main()
