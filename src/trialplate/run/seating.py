"""Give an arm its seat at the loop: load or reach it, hear what it declares, refuse what does not fit.

Everything here happens before the first episode (policy contract, section 3, steps 1 to 5), and once more in each
worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trialplate.canonical import document_sha256
from trialplate.errors import ContractFault, HarnessFault, LockError, PolicyFault, Unavailable
from trialplate.interfaces import Actor, Suite
from trialplate.lock import Described, arm_place
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.charging import charged
from trialplate.policies.in_process import InProcessActor, load_policy
from trialplate.policies.matching import Match, as_suite, compare, parse_declaration, refuse_mismatch
from trialplate.policies.setting import ActorSetting
from trialplate.run.attempt import Seat
from trialplate.run.interrupt import asked
from trialplate.run.skill_seating import describe_skill_arm
from trialplate.spec.channels import PolicySpec
from trialplate.spec.protocol import ArmChoice, Budgets
from trialplate.spec.registration import Registration
from trialplate.spec.schemes import address_of

ActorFactory = Callable[[ActorSetting], Actor]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a lock says about every arm. ``addresses``: arm -> address used instead of the protocol's.

    ``registered``: arm -> the identity that is really there, where it is not the locked one (the run is exploratory).
    """

    budgets: Budgets
    base: Path
    max_steps: int
    addresses: Mapping[str, str] = field(default_factory=dict)
    registered: Mapping[str, Registration] = field(default_factory=dict)


def describe_arm(
    arm: ArmChoice, suite: Suite, *, budgets: Budgets, base: Path, address: str | None = None
) -> Described:
    """Hear what an arm declares and who it is. Raises LockError that says what is wrong."""
    if suite.kind == "skill":
        return describe_skill_arm(arm, suite, budgets=budgets, base=base)
    try:
        described, match_ = match_arm(arm, suite, budgets=budgets, base=base, address=address)
    except (ContractFault, HarnessFault, PolicyFault) as fault:
        raise LockError(f"arm {arm.name!r}: {fault.message}", code=fault.code) from fault
    refuse_mismatch(arm.name, match_)
    return described


def match_arm(
    arm: ArmChoice, suite: Suite, *, budgets: Budgets, base: Path, address: str | None = None
) -> tuple[Described, Match]:
    """Hear an arm and hold what it declares against what it will meet behind its adapters; refuses no mismatch.

    Raises LockError when nothing can be heard, ContractFault, HarnessFault or PolicyFault when the way to it fails.
    """
    _, profile, _ = arm_place(arm, suite)
    chain = AdapterChain(arm.adapters, suite.profiles[profile], suite.action)
    declared, registration = _heard(arm, suite, chain, budgets=budgets, base=base, address=address)
    match_ = compare(
        chain.observation, chain.action, declared, replan_interval=arm.replan_interval,
        max_message_bytes=budgets.max_message_bytes, mapping=arm.mapping,
    )  # fmt: skip
    return Described(declared, registration, chain.identities(), match_.unused_channels), match_


def _heard(
    arm: ArmChoice, suite: Suite, chain: AdapterChain, *, budgets: Budgets, base: Path, address: str | None
) -> tuple[PolicySpec, Registration | None]:
    """Load an arm or connect to it; return what it declares, and who it says it is if it comes from elsewhere."""
    match arm.scheme:
        case "control" | "python":
            reference, _, _ = arm_place(arm, suite)
            policy = load_policy(reference, base=base, weights=arm.weights, options=arm.options)
            declared = declared_spec(arm.name, policy)
            InProcessActor(policy, privileged=False, genuine=asked).close()
            return declared, None
        case "ws":
            from trialplate.policies.client.websocket import describe

            hello = describe(
                address_of(address or arm.policy),
                connect_timeout_s=budgets.connect_timeout_s,
                max_message_bytes=budgets.max_message_bytes,
            )
            return hello.policy_spec, hello.registration
        case "openpi":
            from trialplate.policies.client.openpi import describe_openpi

            metadata = describe_openpi(
                address_of(address or arm.policy),
                connect_timeout_s=budgets.connect_timeout_s,
                max_message_bytes=budgets.max_message_bytes,
            )
            registration = (arm.identity or Registration()).model_copy(
                update={"server_metadata_sha256": document_sha256(metadata), "server_metadata_sha256_reason": None}
            )
            return _declared_by_operator(arm, chain), registration
        case "served" | "mailbox":
            return _declared_by_operator(arm, chain), arm.identity or Registration()


def declared_spec(arm: str, policy: Any) -> PolicySpec:
    """Return our own copy of what a policy in this process declares.

    Raises LockError: ``policy_spec`` when ``spec`` raises, ``contract_undeclared`` or ``contract_mismatch`` when what
    it returns is no whole declaration.
    """
    try:
        said = charged(lambda: _declaration(policy), doing="spec")
    except PolicyFault as fault:
        raise LockError(f"arm {arm!r}: {fault.message}", code="policy_spec") from None
    if isinstance(said, list):
        listed = "".join(f"\n  {line}" for line in said)
        raise LockError(f"arm {arm!r}: spec() builds no whole declaration:{listed}", code="contract_undeclared")
    return parse_declaration(said)


def _declaration(policy: Any) -> dict[str, Any] | list[str]:
    """Return the plain form of what a policy declares, or what is wrong with how it builds it."""
    try:
        said = policy.spec()
        if not isinstance(said, PolicySpec):
            return [f"it returned {type(said).__name__}, expected trialplate.PolicySpec"]
        return said.model_dump(mode="json")
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        return [f"{error.title}.{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults]


def _declared_by_operator(arm: ArmChoice, chain: AdapterChain) -> PolicySpec:
    if arm.declares is not None:
        return arm.declares.model_copy(update={"declared_by": "operator"})
    if arm.as_suite is None:
        raise LockError(
            f"arm {arm.name!r}: a policy behind {arm.policy!r} cannot say what it uses and sends; say it for it in"
            " [arms.declares] or [arms.as_suite]",
            code="contract_undeclared",
        )
    return as_suite(arm.as_suite, chain.observation, chain.action)


def seat_arm(arm: Mapping[str, Any], suite: Suite, terms: Terms, *, actors: Mapping[str, ActorFactory]) -> Seat:
    """Return the seat of an arm of the lock. Raises LockError when it does not fit."""
    choice, chain = _choice_and_chain(arm, suite)
    setting = actor_setting(arm, suite, terms)
    actor = _actor(arm, choice, setting, terms, actors=actors)
    cameras, proprio = chain.sources(setting.observation)
    return Seat(actor, setting.observation, chain.action, chain, cameras, proprio, setting.registration_sha256)


def actor_setting(arm: Mapping[str, Any], suite: Suite, terms: Terms) -> ActorSetting:
    """Return the terms that an arm of the lock plays under."""
    _, chain = _choice_and_chain(arm, suite)
    declared = PolicySpec.model_validate_json(json.dumps(arm["declares"]))
    locked = Registration.model_validate_json(json.dumps(arm["registration"]))
    registration = terms.registered.get(arm["name"], locked)
    return ActorSetting(
        arm["name"], declared, declared.expects, chain.action, registration, registration.sha256(),
        replan_interval=arm["replan_interval"], max_steps=terms.max_steps, budgets=terms.budgets,
    )  # fmt: skip


def _choice_and_chain(arm: Mapping[str, Any], suite: Suite) -> tuple[ArmChoice, AdapterChain]:
    choice = ArmChoice.model_validate_json(json.dumps(arm["choice"]))
    return choice, AdapterChain(choice.adapters, suite.profiles[arm["profile"]], suite.action)


def _actor(
    arm: Mapping[str, Any], choice: ArmChoice, setting: ActorSetting, terms: Terms, *,
    actors: Mapping[str, ActorFactory],
) -> Actor:  # fmt: skip
    address = address_of(terms.addresses.get(choice.name, choice.policy))
    if choice.scheme in actors:
        return actors[choice.scheme](setting)
    match choice.scheme:
        case "control" | "python":
            policy = load_policy(arm["reference"], base=terms.base, weights=choice.weights, options=choice.options)
            _refuse_other_words(setting, declared_spec(choice.name, policy))
            return InProcessActor(policy, privileged=arm["privileged"], genuine=asked)
        case "ws":
            from trialplate.policies.client.websocket import WebSocketActor

            return WebSocketActor(address, setting)
        case "openpi":
            from trialplate.policies.client.openpi import OpenpiActor

            return OpenpiActor(address, setting, mapping=choice.mapping, single_vector=choice.single_vector)
        case _:
            command = {"served": "trialplate serve", "mailbox": "trialplate mailbox run"}[choice.scheme]
            raise LockError(
                f"arm {choice.name!r} comes to the run by itself; start it with `{command}`", code="arm_not_attached"
            )


def seat_policy(policy: Any, suite: Suite, *, profile: str | None = None, privileged: bool = False) -> Seat:
    """Return the seat of a policy object without lock or adapters: for benchmarks, tests and people who try one out.

    Raises LockError when it does not fit.
    """
    declared = declared_spec("policy", policy)
    observation = suite.profiles[profile or suite.default_profile]
    refuse_mismatch("policy", compare(observation, suite.action, declared, replan_interval=1))
    chain = AdapterChain((), observation, suite.action)
    actor = InProcessActor(policy, privileged=privileged, genuine=asked)
    expects = declared.expects
    return Seat(actor, expects, suite.action, chain, expects.camera_names, expects.proprio_names, "0" * 64)


def refuse_blind(lock_document: Mapping[str, Any]) -> None:
    """Raise Unavailable when an arm of a lock wants cameras and nothing can draw here."""
    simulator = lock_document["simulator"]
    drawing = simulator.get("rendering")
    for arm in lock_document["arms"]:
        cameras = [camera["name"] for camera in arm["declares"]["expects"]["cameras"]]
        if cameras and (drawing is None or drawing["renderer"] is None):
            why = drawing["reason"] if drawing else simulator.get("rendering_reason", "this suite has no cameras")
            raise Unavailable(f"arm {arm['name']!r} wants cameras {', '.join(cameras)}: {why}")


def _refuse_other_words(setting: ActorSetting, now: PolicySpec) -> None:
    """Refuse a policy that declares something else than it did when it was locked."""
    if now != setting.declared:
        raise LockError(
            f"arm {setting.arm!r} declares something else than what was locked: make a new lock", code="lock_differs"
        )
