"""What an operator can do about a difference: the adapter that bridges it, written out, or that there is none.

Nothing here is ever applied: a conversion happens only where the protocol names it.

Source: policy contract ``trialplate.policy/1``, section 3, step 3.
"""

from __future__ import annotations

import json
from typing import Any

from trialplate.spec.channels import Frozen

_ORDERS = {"quat_wxyz", "quat_xyzw"}
_LAYOUTS = {"rot6d_columns", "rot6d_interleaved"}
_BY_FIELD = {"orientation": "image_orient", "color": "color_swap", "layout": "layout_swap", "unit": "unit_convert"}
_NO_ADAPTER = {
    "frame": "no shipped adapter knows the pose between two frames: name your own as module:attr",
    "mode": "absolute, delta and velocity actions are different protocols: use a policy made for this one",
    "delta_base": "deltas from another base are a different protocol: use a policy made for this one",
    "kind": "the numbers drive different things: use a policy made for this action",
    "scale": "one unit of the action moves by another amount: name your own adapter as module:attr",
}


def remedy(field: str, *, target: str, environment: Frozen, policy: Frozen) -> str:
    """Return what to do about ``field``, on which the two declarations of ``target`` differ."""
    if field in _NO_ADAPTER:
        return _NO_ADAPTER[field]
    theirs, ours = getattr(environment, field), getattr(policy, field)
    source, goal = (ours, theirs) if target.startswith("action:") else (theirs, ours)  # along the data
    if field in ("low", "high"):
        return (
            "a policy's range is part of what its numbers mean: declare the suite's, "
            "or name the adapter that converts the numbers"
        )
    if field in _BY_FIELD:
        return _named(_BY_FIELD[field], target, {"from": source, "to": goal})
    if field == "rotation":
        return _rotation(target, source, goal)
    if field == "gripper":
        return _gripper(target, source, goal)
    if field in ("height", "width"):
        return _named("image_resize", target, _sizes(environment, policy))
    if field == "dim" and getattr(environment, "rotation", None) != getattr(policy, "rotation", None):
        return "follows from the rotation"
    return "no adapter changes it: use a channel that agrees"


def _rotation(target: str, source: str | None, goal: str | None) -> str:
    if source is None or goal is None:
        return "only one side says that this is a rotation: correct the declaration"
    if {source, goal} == _ORDERS:
        return _named("quat_reorder", target, {"from": source, "to": goal})
    if {source, goal} == _LAYOUTS:
        return _named("rot6d_layout", target, {"from": source, "to": goal})
    return _named("rotation_convert", target, {"from": source, "to": goal})


def _gripper(target: str, source: Any, goal: Any) -> str:
    if source is None or goal is None:
        return "only one side says that this is a gripper: correct the declaration"
    ends = {
        "from_closed": source.closed,
        "from_open": source.open,
        "to_closed": goal.closed,
        "to_open": goal.open,
    }
    return _named("gripper_affine", target, ends)


def _sizes(environment: Any, policy: Any) -> dict[str, Any]:
    return {
        "from_height": environment.height,
        "from_width": environment.width,
        "to_height": policy.height,
        "to_width": policy.width,
        "method": "area",
    }


def _named(name: str, target: str, params: dict[str, Any]) -> str:
    written = ", ".join(f"{key} = {json.dumps(value)}" for key, value in params.items())
    return f'name an adapter: {{name = "{name}", target = "{target}", params = {{{written}}}}}'
