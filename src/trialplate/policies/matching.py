"""Does a policy fit the suite? Asked field by field before anything runs; nothing is zero-filled or guessed.

Compared is what changes the meaning of a number. Left alone: how a picture is packed (``encoding`` loses nothing),
prose (``meaning``), and ranges and resizing methods that a policy does not name.

Source: policy contract ``trialplate.policy/1``, section 3, steps 1, 2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trialplate.errors import LockError, nearest
from trialplate.policies.adapters.conversions import Channel
from trialplate.policies.bridging import bridge, one_line, rename, same_value
from trialplate.policies.declarations import as_suite, parse_declaration
from trialplate.policies.remedies import remedy
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    Frozen,
    GripperRange,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.protocol import AdapterChoice

__all__ = ["Difference", "Match", "as_suite", "compare", "needed_bytes", "parse_declaration", "refuse_mismatch"]

MESSAGE_OVERHEAD_BYTES = 65_536
"""What a message may need beside its raw channels."""

_CAMERA_FIELDS = ("height", "width", "channels", "dtype", "layout", "color", "orientation")
_PROPRIO_FIELDS = ("dim", "unit", "frame", "rotation", "gripper")
_ACTION_FIELDS = ("dim", "kind", "mode", "delta_base", "unit", "frame", "rotation", "gripper", "low", "high", "scale")
_NULL_IS_UNDECLARED = frozenset({"frame", "rotation", "gripper"})


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing on which environment and policy do not agree, and what an operator can do about it.

    ``environment`` and ``policy`` are plain values; None says that the side has nothing there.
    """

    path: str
    environment: Any
    policy: Any
    remedy: str
    code: str = "contract_mismatch"

    def __str__(self) -> str:
        return (
            f"{self.code}: {self.path}: environment {_shown(self.environment)}, "
            f"policy {_shown(self.policy)}; {self.remedy}"
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The whole comparison. ``unused_channels``: what the environment offers and the policy does not take.

    ``adapters``: the shipped ones that bridge differences, in the order of a protocol's list; nothing is applied.
    """

    differences: tuple[Difference, ...]
    undeclared: tuple[Difference, ...]
    unused_channels: tuple[str, ...]
    adapters: tuple[AdapterChoice, ...] = ()

    @property
    def fits(self) -> bool:
        """True when nothing stands between this policy and the suite."""
        return not self.differences and not self.undeclared

    @property
    def problems(self) -> tuple[Difference, ...]:
        """Everything that stands in the way: first what is undeclared, then what differs."""
        return self.undeclared + self.differences

    def bridged(self, existing: Iterable[AdapterChoice]) -> tuple[AdapterChoice, ...]:
        """Return the list of an arm with these adapters, too: on the policy's side of those that it has already."""
        acting = [item for item in self.adapters if item.target.startswith("action:")]
        return (*acting, *existing, *(item for item in self.adapters if item not in acting))

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "fits": self.fits,
            "differences": [asdict(item) for item in self.differences],
            "undeclared": [asdict(item) for item in self.undeclared],
            "unused_channels": list(self.unused_channels),
            "bridging_adapters": [item.model_dump(mode="json") for item in self.adapters],
        }


def compare(
    environment: ObservationSpec,
    action: ActionSpec,
    declared: PolicySpec,
    *,
    replan_interval: int,
    max_message_bytes: int | None = None,
    mapping: Mapping[str, str | tuple[str, ...]] | None = None,
) -> Match:
    """Hold what a policy declares against what it will be sent and what the environment takes.

    ``environment`` and ``action`` are the specs as the policy meets them, behind the adapters named in the protocol.
    ``max_message_bytes``: the smaller side's limit where messages are carried, else None. ``mapping``: foreign keys
    -> ``camera:NAME`` and the like, for a dialect that needs one.
    """
    found = [
        *_channels("cameras", declared.expects.cameras, environment.cameras, fields=_CAMERA_FIELDS),
        *_channels("proprio", declared.expects.proprio, environment.proprio, fields=_PROPRIO_FIELDS),
        *_extras(environment, declared.expects),
        *_actions(action, declared.emits),
        *_twins(mapping or {}),
        *(_uncarried(mapping, declared.expects) if mapping else ()),
    ]
    if declared.chunk_length is not None and replan_interval > declared.chunk_length:
        found.append(
            Difference(
                "replan_interval", replan_interval, declared.chunk_length,
                f"the policy sends chunks of {declared.chunk_length} rows: register at most "
                f"replan_interval = {declared.chunk_length}",
                code="replan_exceeds_chunk",
            )
        )  # fmt: skip
    if max_message_bytes is not None and needed_bytes(declared.expects) > max_message_bytes:
        found.append(
            Difference(
                "max_message_bytes", needed_bytes(declared.expects), max_message_bytes,
                f"one observation needs {needed_bytes(declared.expects)} bytes and {max_message_bytes} are allowed: "
                "raise max_message_bytes on the smaller side, or send fewer or smaller pictures",
                code="message_too_large",
            )
        )  # fmt: skip
    return Match(
        differences=tuple(item for item in found if item.code != "contract_undeclared"),
        undeclared=tuple(item for item in found if item.code == "contract_undeclared"),
        unused_channels=_unused(environment, declared.expects),
        adapters=tuple(_bridges(environment, action, declared)),
    )


def _bridges(environment: ObservationSpec, action: ActionSpec, declared: PolicySpec) -> Iterable[AdapterChoice]:
    """Name the adapters between what is on both sides under one name."""
    kinds: tuple[tuple[str, Iterable[Channel], Iterable[Channel]], ...] = (
        ("action", action.components, declared.emits.components),
        ("camera", environment.cameras, declared.expects.cameras),
        ("proprio", environment.proprio, declared.expects.proprio),
    )
    for word, theirs, ours in kinds:
        by_name = {channel.name: channel for channel in theirs}
        for channel in ours:
            if channel.name in by_name:
                yield from bridge(by_name[channel.name], channel, target=f"{word}:{channel.name}").adapters


def refuse_mismatch(arm: str, match: Match) -> None:
    """Raise LockError that lists every problem of an arm, if there is any; its code is that of the first."""
    if not match.fits:
        listed = "\n  ".join(str(item) for item in match.problems)
        more = "\n`trialplate policy check` prints the adapters as lines to paste." if match.adapters else ""
        raise LockError(f"arm {arm!r} does not fit the suite:\n  {listed}{more}", code=match.problems[0].code)


def needed_bytes(expects: ObservationSpec) -> int:
    """Return how large a message with these channels may become: the raw channels and an allowance."""
    return expects.size_bytes + MESSAGE_OVERHEAD_BYTES


def _channels(
    kind: str,
    wanted: Iterable[CameraSpec | ProprioSpec],
    offered: Iterable[CameraSpec | ProprioSpec],
    *,
    fields: tuple[str, ...],
) -> list[Difference]:
    by_name = {channel.name: channel for channel in offered}
    found = []
    for channel in wanted:
        path = f"{kind}.{channel.name}"
        theirs = by_name.get(channel.name)
        word = "camera" if kind == "cameras" else "proprio"
        if theirs is None:
            hint = nearest(channel.name, by_name)
            told = f"not sent under this profile{hint or '.'} Nothing is zero-filled: choose a profile that has it"
            found.append(
                Difference(path, None, "expected", told + _other_name(word, channel, by_name, wanted, fields))
            )
            continue
        target = f"{word}:{channel.name}"
        found += _fields(path, theirs, channel, fields=fields, target=target)
        found += _optional_fields(path, theirs, channel)
    return found


def _other_name(
    word: str, channel: Channel, offered: Mapping[str, Channel], wanted: Iterable[Channel], fields: Iterable[str]
) -> str:
    """Offer the one channel left that says the same of itself; whether it is the same, a person knows."""
    taken = {other.name for other in wanted}
    alike = [
        name for name, other in offered.items()
        if name not in taken and all(same_value(getattr(other, f), getattr(channel, f)) for f in fields)
    ]  # fmt: skip
    if len(alike) != 1:
        return ", or name the adapter 'rename' if it is sent under another name"
    written = one_line(rename(f"{word}:{alike[0]}", to=channel.name))
    return f"; if it is {alike[0]!r} that is meant, name an adapter: {written}"


def _fields(path: str, theirs: Channel, ours: Channel, *, fields: Iterable[str], target: str) -> Iterable[Difference]:
    across = bridge(theirs, ours, target=target)
    for field in fields:
        environment, policy = getattr(theirs, field), getattr(ours, field)
        if same_value(environment, policy):
            continue
        undeclared = policy is None and field in _NULL_IS_UNDECLARED
        yield Difference(
            f"{path}.{field}", _plain(environment), _plain(policy),
            "the policy leaves it undeclared; declare it" if undeclared
            else remedy(field, environment=theirs, policy=ours, across=across),
            code="contract_undeclared" if undeclared else "contract_mismatch",
        )  # fmt: skip


def _optional_fields(path: str, theirs: Frozen, ours: Frozen) -> Iterable[Difference]:
    """Compare what a policy may leave open: how its pictures were resized, which range its numbers keep."""
    for field in ("resize", "low", "high"):
        policy = getattr(ours, field, None)
        environment = getattr(theirs, field, None)
        if policy is not None and not same_value(environment, policy):
            what = (
                "leave it null where any will do" if field == "resize" else "leave it null where it does not matter"
            )
            yield Difference(
                f"{path}.{field}", _plain(environment), _plain(policy), f"declare what is sent, or {what}"
            )


def _extras(offered: ObservationSpec, expects: ObservationSpec) -> list[Difference]:
    found = []
    if expects.instruction and not offered.instruction:
        found.append(Difference("instruction", False, True, "choose a profile that sends the task text"))
    if expects.history is not None and expects.history != offered.history:
        sent = _plain(offered.history)
        found.append(
            Difference(
                "history", sent, _plain(expects.history), "history has a fixed length: choose a profile with it"
            )
        )
    for name in expects.meta:
        if name not in offered.meta:
            hint = nearest(name, offered.meta)
            found.append(Difference(f"meta.{name}", None, "expected", f"not sent under this profile{hint}"))
    return found


def _actions(takes: ActionSpec, emits: ActionSpec) -> list[Difference]:
    found = []
    if emits.control_hz != takes.control_hz:
        found.append(
            Difference(
                "action.control_hz", takes.control_hz, emits.control_hz,
                "no adapter changes the control rate: use a policy made for this one",
            )
        )  # fmt: skip
    if emits.dim != takes.dim:
        found.append(
            Difference("action.dim", takes.dim, emits.dim, f"rows need {takes.dim} numbers: see the components")
        )
    theirs = {component.name: component for component in takes.components}
    ours = [component.name for component in emits.components]
    if list(theirs) != ours:
        return [*found, *_names(list(theirs), ours), *_shared_components(theirs, emits.components)]
    return [*found, *_shared_components(theirs, emits.components)]


def _names(theirs: list[str], ours: list[str]) -> Iterable[Difference]:
    if sorted(theirs) == sorted(ours):
        yield Difference(
            "action.components", theirs, ours, "the same components in another order: their order counts"
        )
        return
    for index in range(max(len(theirs), len(ours))):
        environment = theirs[index] if index < len(theirs) else None
        policy = ours[index] if index < len(ours) else None
        if environment != policy:
            hint = nearest(policy, theirs) if policy is not None else ""
            action = "rows have as many components as the environment's, in its order"
            if environment is not None and policy is not None:
                written = one_line(rename(f"action:{policy}", to=environment))
                action = f"if only the name differs, name an adapter: {written}"
            yield Difference(f"action.components[{index}].name", environment, policy, f"{action}{hint}")


def _shared_components(
    theirs: Mapping[str, ActionComponent], ours: Iterable[ActionComponent]
) -> Iterable[Difference]:
    for component in ours:
        if component.name in theirs:
            path, target = f"action.{component.name}", f"action:{component.name}"
            yield from _fields(path, theirs[component.name], component, fields=_ACTION_FIELDS, target=target)


def _twins(mapping: Mapping[str, str | tuple[str, ...]]) -> Iterable[Difference]:
    """Find cameras that a mapping feeds into more than one key."""
    fed: dict[str, str] = {}
    for key, sources in mapping.items():
        for source in (sources,) if isinstance(sources, str) else sources:
            if not source.startswith("camera:"):
                continue
            if source in fed:
                yield Difference(
                    f"mapping.{key}", source, [fed[source], key],
                    "two cameras of the policy would see one and the same picture: give each its own camera",
                    code="duplicate_camera_mapping",
                )  # fmt: skip
            fed.setdefault(source, key)


def _uncarried(mapping: Mapping[str, str | tuple[str, ...]], expects: ObservationSpec) -> Iterable[Difference]:
    """Find what a policy uses and no key of its dialect carries: it would never be sent, and nobody would notice."""
    carried = {one for sources in mapping.values() for one in ((sources,) if isinstance(sources, str) else sources)}
    used = [f"camera:{name}" for name in expects.camera_names] + [f"proprio:{name}" for name in expects.proprio_names]
    used += ["instruction"] if expects.instruction else []
    for source in used:
        if source not in carried:
            yield Difference(
                f"mapping: {source}", "in no key", "used",
                "name the key that carries it, or leave it out of what the policy uses",
            )  # fmt: skip
    if expects.history is not None or expects.meta:
        yield Difference(
            "mapping: history and meta", "carried by no key of this dialect", "used",
            "leave them out of what the policy uses, or serve it in our own dialect (ws://)",
        )  # fmt: skip


def _unused(offered: ObservationSpec, expects: ObservationSpec) -> tuple[str, ...]:
    unused = [f"camera:{name}" for name in offered.camera_names if name not in expects.camera_names]
    unused += [f"proprio:{name}" for name in offered.proprio_names if name not in expects.proprio_names]
    unused += ["instruction"] if offered.instruction and not expects.instruction else []
    unused += ["history"] if offered.history is not None and expects.history is None else []
    return tuple(unused + [f"meta:{name}" for name in offered.meta if name not in expects.meta])


def _plain(value: Any) -> Any:
    if isinstance(value, Frozen):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, dict) and set(value) == set(GripperRange.model_fields):
        return f"{{closed {value['closed']:g}, open {value['open']:g}}}"
    return "nothing" if value is None else str(value)
