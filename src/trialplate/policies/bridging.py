"""Which shipped adapters would carry a channel as the environment declares it to what a policy declares.

Nothing here is ever applied: a conversion happens only where the protocol names it. What is offered has been built
once for the channel in question, so that lines which are pasted into a protocol do what is said of them.

Source: policy contract ``trialplate.policy/1``, section 3, step 3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trialplate.policies.adapters import rotations
from trialplate.policies.adapters.conversions import CONVERSIONS, Channel
from trialplate.policies.adapters.pictures import RESIZE_METHODS
from trialplate.spec.channels import Frozen
from trialplate.spec.protocol import AdapterChoice

_BOUND_TOLERANCE = 1e-9
_MOST_STEPS = 8
_ABOUT: Mapping[str, tuple[str, ...]] = {
    "quat_reorder": ("rotation",),
    "rotation_convert": ("rotation",),
    "rot6d_layout": ("rotation",),
    "gripper_affine": ("gripper",),
    "unit_convert": ("unit",),
    "image_orient": ("orientation",),
    "color_swap": ("color",),
    "layout_swap": ("layout",),
    "image_resize": ("height", "width"),
}
"""Adapter -> the fields that it is about; whatever else it settles follows from those."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The adapters between two declarations of one channel, in the order of a protocol's list.

    ``settles``: field -> the adapter behind which both sides say the same.
    """

    adapters: tuple[AdapterChoice, ...] = ()
    settles: Mapping[str, AdapterChoice] = field(default_factory=dict)

    def about(self, choice: AdapterChoice) -> str:
        """Return the field for whose sake an adapter is there."""
        fields = _ABOUT[choice.name]
        return next((name for name in fields if self.settles.get(name) is choice), fields[0])


def bridge(environment: Channel, policy: Channel, *, target: str) -> Bridge:
    """Return the adapters that can be built between two declarations of ``target``; none where none helps."""
    along = not target.startswith("action:")
    channel: Any = environment
    steps: list[AdapterChoice] = []
    settles: dict[str, AdapterChoice] = {}
    while len(steps) < _MOST_STEPS:
        taken = _next(channel, policy, target=target, along=along)
        if taken is None:
            break
        choice, made = taken
        for name in type(channel).model_fields:
            wanted = getattr(policy, name)
            if same_value(getattr(made, name), wanted):
                if not same_value(getattr(channel, name), wanted):
                    settles[name] = choice
            else:
                settles.pop(name, None)
        channel = made
        steps.append(choice)
    return Bridge(tuple(steps if along else reversed(steps)), settles)


def one_line(choice: AdapterChoice) -> str:
    """Return an adapter as an element of ``adapters = [...]`` in a protocol."""
    return f'{{name = "{choice.name}", target = "{choice.target}"{_params(choice, before=", params = ")}}}'


def table(choice: AdapterChoice) -> str:
    """Return an adapter as lines below an arm of a protocol."""
    head = f'[[arms.adapters]]\nname = "{choice.name}"\ntarget = "{choice.target}"'
    return head + _params(choice, before="\nparams = ")


def rename(target: str, *, to: str) -> AdapterChoice:
    """Return the adapter that changes nothing but a name."""
    return AdapterChoice(name="rename", target=target, params={"to": to})


def same_value(left: Any, right: Any) -> bool:
    """Equal; the numbers of a range may differ by the rounding of one multiplication."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(same_value(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or math.isclose(left, right, rel_tol=_BOUND_TOLERANCE)
    return bool(left == right)


def _next(channel: Any, policy: Any, *, target: str, along: bool) -> tuple[AdapterChoice, Any] | None:
    """Return the first adapter that can be built and brings a field nearer, and the channel behind it."""
    for propose in _PROPOSALS:
        for name, ends, more in propose(channel, policy):
            theirs, ours = ends
            source, goal = (theirs, ours) if along else (ours, theirs)
            params = {**_from_to(source, goal), **(more if name == "image_resize" or not along else {})}
            try:
                made = CONVERSIONS[name].build(channel, params, along).channel
            except ValueError:
                continue
            return AdapterChoice(name=name, target=target, params=params), made
    return None


Proposal = tuple[str, tuple[Any, Any], dict[str, Any]]
"""Name of an adapter, (the environment's end, the policy's end), and parameters beside the two ends."""


def _rotation(channel: Any, policy: Any) -> Iterable[Proposal]:
    ends = (getattr(channel, "rotation", None), getattr(policy, "rotation", None))
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return
    if channel.unit == "deg" and channel.dim == rotations.DIMS[ends[0]]:
        yield "unit_convert", ("deg", "rad"), {}
    yield "quat_reorder", ends, {}
    yield "rot6d_layout", ends, {}
    yield "rotation_convert", ends, _bounds(policy)


def _bounds(policy: Any) -> dict[str, Any]:
    """Return the range that a policy's own rotation keeps, in the unit that it is converted in."""
    limits = (policy.low, policy.high)
    if any(limit is None or None in limit for limit in limits):
        return {}
    factor = math.pi / 180 if policy.unit == "deg" else 1.0
    return {"low": tuple(v * factor for v in policy.low), "high": tuple(v * factor for v in policy.high)}


def _gripper(channel: Any, policy: Any) -> Iterable[Proposal]:
    ends = (getattr(channel, "gripper", None), getattr(policy, "gripper", None))
    if None not in ends and ends[0] != ends[1]:
        yield "gripper_affine", ends, {}


def _plain(name: str, attribute: str) -> Callable[[Any, Any], Iterable[Proposal]]:
    def propose(channel: Any, policy: Any) -> Iterable[Proposal]:
        ends = (getattr(channel, attribute, None), getattr(policy, attribute, None))
        if None not in ends and ends[0] != ends[1]:
            yield name, ends, {}

    return propose


def _size(channel: Any, policy: Any) -> Iterable[Proposal]:
    ends = tuple((side.height, side.width) if hasattr(side, "height") else None for side in (channel, policy))
    if ends[0] != ends[1]:
        method = policy.resize if policy.resize in RESIZE_METHODS else "area"
        yield "image_resize", (ends[0], ends[1]), {"method": method}


_PROPOSALS = (
    _rotation, _gripper, _plain("unit_convert", "unit"), _plain("image_orient", "orientation"),
    _plain("color_swap", "color"), _plain("layout_swap", "layout"), _size,
)  # fmt: skip


def _from_to(source: Any, goal: Any) -> dict[str, Any]:
    if isinstance(source, tuple):
        (from_height, from_width), (to_height, to_width) = source, goal
        return {"from_height": from_height, "from_width": from_width, "to_height": to_height, "to_width": to_width}
    if isinstance(source, Frozen):
        ends: Any = (source, goal)
        return {f"{end}_{side}": getattr(each, side) for end, each in zip(("from", "to"), ends, strict=True)
                for side in ("closed", "open")}  # fmt: skip
    return {"from": source, "to": goal}


def _params(choice: AdapterChoice, *, before: str) -> str:
    written = ", ".join(f"{key} = {json.dumps(value)}" for key, value in choice.params.items())
    return f"{before}{{{written}}}" if written else ""
