"""A policy that is a Python object in this process: how it is loaded, and how a rollout talks to it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from trialplate.errors import LockError, PolicyFault, TrialplateError, UsageError, nearest
from trialplate.fingerprint import RUNTIME_ROOT, policy_root
from trialplate.interfaces import Scenario
from trialplate.policies.charging import charged, said
from trialplate.policies.from_source import file_spec, load_from_source
from trialplate.record import (
    Ack,
    ActionChunk,
    Decision,
    EndReason,
    EpisodeInfo,
    Measurement,
    Observation,
    PolicyDecision,
    Remaining,
    Stop,
    Usage,
)
from trialplate.record.decision import MOST_METERED
from trialplate.registry import load_attribute


class InProcessActor:
    """Calls a policy in this process; whatever comes out of it is the policy's.

    ``privileged``: a control that is shown the scenario and the measurements. ``genuine``: says whether somebody
    really asked the process to stop, so that an arm cannot pretend it.
    """

    def __init__(self, policy: Any, *, privileged: bool, genuine: Callable[[], bool]) -> None:
        self._policy, self._privileged, self._genuine = policy, privileged, genuine

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Begin an episode."""
        own = replace(episode)
        arguments = (own, scenario) if self._privileged else (own,)
        charged(lambda: self._policy.reset(*arguments), doing="reset", genuine=self._genuine)

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Return the policy's decision. Raises PolicyFault ``policy_exception`` or ``invalid_response_schema``."""
        own = _own(observation)
        arguments = (own, measure()) if self._privileged else (own,)
        doing = f"act, call {observation.call_index}"
        return in_process_decision(charged(lambda: self._policy.act(*arguments), doing=doing, genuine=self._genuine))

    def acknowledge(self, ack: Ack) -> None:
        """Say nothing: a policy in this process sees what became of its rows in the next observation."""

    def end(self, reason: EndReason) -> None:
        """Say nothing: the next reset is the end."""

    def close(self) -> None:
        """Close the policy; what it raises then comes after its last episode and changes nothing."""
        with suppress(PolicyFault):
            charged(self._policy.close, doing="close", genuine=self._genuine)


def _own(observation: Observation) -> Observation:
    """Return an observation that the policy may take apart: what is recorded shares nothing with it but the arrays.

    Those lie in bytes that nobody can write into (:func:`trialplate.run.frames.frozen`).
    """
    history, remaining = observation.history, observation.remaining
    return Observation(
        observation.episode,
        observation.call_index,
        observation.observation_id,
        observation.registration_sha256,
        observation.step_index,
        observation.instruction,
        images=dict(observation.images),
        proprio=dict(observation.proprio),
        remaining=Remaining(remaining.steps, remaining.calls),
        history=None if history is None else replace(history, images=dict(history.images)),
        meta=dict(observation.meta),
        issue=None if observation.issue is None else replace(observation.issue),
    )


def in_process_decision(answer: Any) -> PolicyDecision:
    """Return what ``act`` returned as a decision. Raises PolicyFault ``invalid_response_schema``."""
    if type(answer) in (ActionChunk, Stop):
        return PolicyDecision(_plain(answer))
    if type(answer) is not PolicyDecision or type(answer.decision) not in (ActionChunk, Stop):
        raise PolicyFault(
            f"act returned {_named(answer)}, expected trialplate's ActionChunk or Stop",
            code="invalid_response_schema",
        )
    usage, latency_ms = answer.usage, answer.latency_ms
    if usage is not None and not _is_usage(usage):
        raise PolicyFault(
            f"usage: expected 0 to {MOST_METERED} or None in each member", code="invalid_response_schema"
        )
    if latency_ms is not None and not _is_amount(latency_ms):
        raise PolicyFault(f"latency_ms: expected 0 to {MOST_METERED} or None", code="invalid_response_schema")
    return PolicyDecision(_plain(answer.decision), usage=usage, latency_ms=latency_ms)


def _named(answer: Any) -> str:
    kind = type(answer)
    module = type.__dict__["__module__"].__get__(kind) if kind.__module__ != "builtins" else ""
    return f"{module}.{kind.__name__}" if isinstance(module, str) and module else kind.__name__


def _plain(decision: Decision) -> Decision:
    """Return a decision whose reason is text, whatever the policy put there."""
    if isinstance(decision, Stop) and decision.reason is not None:
        return Stop(said(decision.reason))
    return decision


def _is_usage(usage: Any) -> bool:
    if type(usage) is not Usage:
        return False
    counts = (usage.requests, usage.input_tokens, usage.output_tokens)
    whole = all(value is None or (type(value) is int and 0 <= value <= MOST_METERED) for value in counts)
    return whole and (usage.cost is None or _is_amount(usage.cost))


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= MOST_METERED


def load_policy(
    reference: str, *, base: Path, weights: tuple[str, ...] = (), options: Mapping[str, Any] | None = None
) -> Any:
    """Return a fresh policy from ``module:attr`` or ``path/file.py:attr`` (relative to ``base``).

    The attribute is a class or factory. It is called with ``options`` as keyword arguments, and with
    ``weights`` (a tuple of paths) when the protocol lists any. Raises LockError that names the arm's fault.
    """
    policy = made_from(reference, base=base, weights=weights, options=options)
    missing = [name for name in ("spec", "reset", "act", "close") if not callable(getattr(policy, name, None))]
    if missing:
        raise LockError(
            f"policy {reference!r} has no {', '.join(missing)}; a policy has spec, reset, act and close "
            "(trialplate.interfaces.Policy)",
            code="policy_interface",
        )
    return policy


def made_from(
    reference: str, *, base: Path, weights: tuple[str, ...] = (), options: Mapping[str, Any] | None = None
) -> Any:
    """Return what the class or factory of a reference makes, whatever it is. Raises LockError."""
    module, _, attribute = reference.partition(":")
    if module.partition(".")[0] != RUNTIME_ROOT:
        load_from_source(policy_root(reference, base=base))
    factory = _file_attribute(base / module, attribute) if module.endswith(".py") else _attribute(reference)
    keywords: dict[str, Any] = dict(options or {})
    if weights:
        keywords["weights"] = tuple(base / name for name in weights)
    try:
        policy = factory(**keywords)
    except TrialplateError:
        raise
    except (Exception, SystemExit) as error:
        raise LockError(
            f"policy {reference!r} could not be made with {sorted(keywords) or 'no arguments'}: "
            f"{type(error).__name__}: {error}",
            code="policy_load",
        ) from error
    return policy


def _attribute(reference: str) -> Any:
    try:
        return load_attribute(reference)
    except UsageError as error:
        raise LockError(f"policy {error.message}", code="policy_missing") from error


def _file_attribute(path: Path, attribute: str) -> Any:
    if not path.is_file():
        raise LockError(f"policy file {path} does not exist", code="policy_missing")
    name = f"trialplate_policy_{abs(hash(str(path.resolve())))}"
    spec = file_spec(name, path)
    if spec is None or spec.loader is None:
        raise LockError(f"policy file {path} cannot be imported", code="policy_missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LockError(
            f"policy file {path} fails at import: {type(error).__name__}: {error}", code="policy_load"
        ) from error
    if not hasattr(module, attribute):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise LockError(f"policy file {path} has no {attribute!r}{nearest(attribute, public)}", code="policy_missing")
    return getattr(module, attribute)
