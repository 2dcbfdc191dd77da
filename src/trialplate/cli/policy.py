"""The command group ``trialplate policy``: check whether a policy fits; serve and probe one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from trialplate.cli import policy_servers
from trialplate.cli.output import NO, YES, emit, plain, table
from trialplate.errors import ContractFault, LockError, UsageError, nearest

if TYPE_CHECKING:
    from trialplate.interfaces import Suite
    from trialplate.policies.matching import Match
    from trialplate.spec.channels import ActionComponent, CameraSpec, PolicySpec, ProprioSpec
    from trialplate.spec.protocol import ArmChoice, Budgets, Protocol

Json = Annotated[bool, Parameter(name="--json", negative="")]
policy_app = App(name="policy", help="Serve, probe and check policies.")


def register(app: App) -> None:
    """Add this group's commands."""
    policy_app.command(check)
    policy_servers.register(policy_app)
    app.command(policy_app)


def check(protocol: Path, /, *, policy: str | None = None, arm: str | None = None, json: Json = False) -> int:
    """Hold what policies declare against what they will be sent and what the suite takes, before anything runs.

    Parameters
    ----------
    protocol
        The protocol file (TOML).
    policy
        Another policy in the arm's place: module:attr, path/file.py:attr (relative to the protocol) or an address.
    arm
        Only this arm; needed with --policy where the protocol has several.
    json
        Print one JSON document.
    """
    from trialplate import api
    from trialplate.registry import load_suite

    loaded = api.load_protocol(protocol)
    suite = load_suite(loaded.protocol.suite.name)
    checked = {
        choice.name: _checked(choice, suite, loaded.protocol, base=loaded.base)
        for choice in _chosen(loaded.protocol, suite, policy=policy, arm=arm)
    }
    fits = all(document["fits"] for document, _ in checked.values())

    def text() -> None:
        for name, (document, rows) in checked.items():
            _tell(name, document, rows)

    arms = {name: document for name, (document, _) in checked.items()}
    emit({"fits": fits, "arms": arms}, as_json=json, text=text)
    return YES if fits else NO


def _tell(name: str, document: Mapping[str, Any], rows: Sequence[tuple[str, ...]]) -> None:
    """Print the match of one arm: the fields, what to do about each, and the adapters as lines to paste."""
    if rows:
        title = f"arm {name}: {'fits' if document['fits'] else 'DOES NOT FIT'}"
        table(title, ("field", "environment", "policy", "verdict"), rows)
    else:
        print(plain(f"arm {name}: DOES NOT FIT"))
    for line in document.get("refused", ()):
        print(plain(line))
    for item in (*document.get("undeclared", ()), *document.get("differences", ())):
        named = re.match(r'name an adapter: \{name = "([^"]+)"', item["remedy"])
        print(plain(f"* {item['path']}: {f'the adapter {named[1]} below' if named else item['remedy']}"))
    if document.get("profiles"):
        print(f"* a profile with every channel that it uses: {' or '.join(document['profiles'])}")
    if unused := document["unused_channels"]:
        print(f"not used: {', '.join(unused)}")
    if bridged := document.get("bridged"):
        behind = "it fits" if bridged["fits"] else f"these still stand: {', '.join(bridged['left'])}"
        instead = ", in place of its adapters" if document["adapters"] else ""
        print(plain(f"\nBelow the arm in the protocol{instead}; behind them {behind}:\n\n{bridged['toml']}"))
    print()


def _chosen(protocol: Protocol, suite: Suite, *, policy: str | None, arm: str | None) -> list[ArmChoice]:
    from trialplate.spec.protocol import ArmChoice
    from trialplate.spec.schemes import CONTROL_PREFIX, scheme_of

    names = [choice.name for choice in protocol.arms]
    if arm is not None and arm not in names:
        raise UsageError(f"no arm {arm!r} in the protocol{nearest(arm, names)}", code="unknown_arm")
    chosen = [choice for choice in protocol.arms if arm in (None, choice.name)]
    if policy is None:
        return chosen
    if len(chosen) > 1:
        raise UsageError(f"--policy stands for one arm: choose it with --arm. Arms: {', '.join(names)}")
    try:
        scheme_of(policy)
    except ValueError as error:
        unsupported = str(error).startswith("unsupported_scheme")
        raise UsageError(f"--policy: {error}", code="unsupported_scheme" if unsupported else "usage") from None
    control = policy.removeprefix(CONTROL_PREFIX)
    if policy.startswith(CONTROL_PREFIX) and control not in suite.controls:
        raise UsageError(f"--policy: suite {suite.name} has no control {control!r}{nearest(control, suite.controls)}")
    return [ArmChoice.model_validate({**dict(chosen[0]), "policy": policy})]


def _checked(
    choice: ArmChoice, suite: Suite, protocol: Protocol, *, base: Path
) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Return the match as a document and as rows; a declaration that is not whole is a mismatch, too."""
    from trialplate.run.seating import match_arm

    try:
        described, match = match_arm(choice, suite, budgets=protocol.budgets, base=base)
    except (LockError, ContractFault) as error:
        if error.code not in ("contract_undeclared", "contract_mismatch"):
            raise
        lines = error.message.splitlines()
        return {"fits": False, "code": error.code, "refused": lines, "unused_channels": []}, []
    document = {
        "policy": choice.policy,
        "declared_by": described.declared.declared_by,
        "adapters": [adapter.model_dump(mode="json") for adapter in described.adapters],
        **match.document(),
        "profiles": _profiles(suite, described.declared) if _lacks(match) else [],
        "bridged": _bridged(choice, suite, described.declared, match, budgets=protocol.budgets),
    }
    rows = [(item.path, _text(item.environment), _text(item.policy), item.code) for item in match.problems]
    return document, [*rows, *_agreements(described.declared, match)]


def _lacks(match: Match) -> bool:
    """Return whether the policy wants something that is not sent at all."""
    return any(
        item.environment in (None, False) and not item.path.startswith("action.") for item in match.differences
    )


def _profiles(suite: Suite, declared: PolicySpec) -> list[str]:
    """Return the lines that would choose a profile which has everything that a policy uses, by name."""
    expects = declared.expects
    return [
        f'profile = "{name}"' for name, sent in suite.profiles.items()
        if {*expects.names, *expects.meta} <= {*sent.names, *sent.meta}
        and sent.instruction >= expects.instruction and expects.history in (None, sent.history)
    ]  # fmt: skip


def _bridged(
    choice: ArmChoice, suite: Suite, declared: PolicySpec, match: Match, *, budgets: Budgets
) -> dict[str, Any] | None:
    """Return the adapters that an arm would need, as lines of a protocol, and what would be left behind them."""
    from trialplate.lock import arm_place
    from trialplate.policies.adapters.chain import AdapterChain
    from trialplate.policies.bridging import table as written
    from trialplate.policies.matching import compare

    if not match.adapters:
        return None
    adapters = match.bridged(choice.adapters)
    _, profile, _ = arm_place(choice, suite)
    chain = AdapterChain(adapters, suite.profiles[profile], suite.action)
    behind = compare(
        chain.observation, chain.action, declared, replan_interval=choice.replan_interval,
        max_message_bytes=budgets.max_message_bytes, mapping=choice.mapping,
    )  # fmt: skip
    return {
        "toml": "\n\n".join(written(adapter) for adapter in adapters),
        "fits": behind.fits,
        "left": [item.path for item in behind.problems],
    }


def _agreements(declared: PolicySpec, match: Match) -> Iterable[tuple[str, ...]]:
    wrong = [item.path for item in match.problems]
    kinds = (("cameras", declared.expects.cameras), ("proprio", declared.expects.proprio),
             ("action", declared.emits.components))  # fmt: skip
    for kind, channels in kinds:
        for channel in channels:
            path = f"{kind}.{channel.name}"
            if not any(found == path or found.startswith(f"{path}.") for found in wrong):
                yield path, "the same", _said(channel), "agrees"


def _said(channel: CameraSpec | ProprioSpec | ActionComponent) -> str:
    """Return a channel in a line: what it says of itself, with words where a number alone would not tell."""
    facts = channel.model_dump(mode="json")
    if "height" in facts:
        said = [f"{facts['height']} x {facts['width']}", facts["layout"], facts["color"], facts["orientation"]]
        return ", ".join((*said, *(("resized by " + facts["resize"],) if facts["resize"] else ())))
    said = [f"{facts['dim']} in {facts['unit']}" if facts["unit"] != "1" else f"{facts['dim']}"]
    if "mode" in facts:
        base = f" from {facts['delta_base']}" if facts["delta_base"] else ""
        said += [facts["kind"], f"{facts['mode']}{base}"]
    said += [f"frame {facts['frame']}"] if facts["frame"] else []
    said += [_text(facts[key]) for key in ("rotation", "gripper") if facts[key] is not None]
    said += [f"{_text(facts['low'])} to {_text(facts['high'])}"] if facts["low"] is not None else []
    return ", ".join((*said, *((f"scale {facts['scale']:g}",) if "scale" in facts else ())))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        same = len(value) >= 1 and len(set(map(str, value))) == 1
        return _text(value[0]) if same else f"[{', '.join(_text(item) for item in value)}]"
    if isinstance(value, float):
        return f"{value:g}"
    return "nothing" if value is None else str(value)
