"""What an operator can do about a difference: the adapter that bridges it, written out, or why there is none.

Source: policy contract ``trialplate.policy/1``, section 3, step 3.
"""

from __future__ import annotations

from typing import Any

from trialplate.policies.bridging import Bridge, one_line
from trialplate.spec.channels import Frozen

_NO_ADAPTER = {
    "frame": "no shipped adapter knows the pose between two frames: name your own as module:attr",
    "mode": "absolute, delta and velocity actions are different protocols: use a policy made for this one",
    "delta_base": "deltas from another base are a different protocol: use a policy made for this one",
    "kind": "the numbers drive different things: use a policy made for this action",
    "scale": "one unit of the action moves by another amount: name your own adapter as module:attr",
}


def remedy(field: str, *, environment: Frozen, policy: Frozen, across: Bridge) -> str:
    """Return what to do about ``field``, on which two declarations differ that ``across`` lies between."""
    choice = across.settles.get(field)
    if choice is not None:
        about = across.about(choice)
        return f"name an adapter: {one_line(choice)}" if field == about else f"follows from {about}"
    if field in _NO_ADAPTER:
        return _NO_ADAPTER[field]
    theirs, ours = (getattr(environment, field), getattr(policy, field))
    if field in ("rotation", "gripper"):
        return _convention(field, theirs, ours)
    if field in ("low", "high"):
        if across.adapters:
            return "behind the adapter the ranges still differ: declare the range that the policy really keeps"
        return "a policy's range is part of what its numbers mean: declare the suite's"
    if field == "unit":
        return _unit(environment, theirs, ours)
    return "no adapter changes it: use a channel that agrees"


def _convention(field: str, theirs: Any, ours: Any) -> str:
    if theirs is None or ours is None:
        return f"only one side says that this is a {field}: correct the declaration"
    return "no shipped adapter can be built here: name your own as module:attr"


def _unit(environment: Frozen, theirs: str, ours: str) -> str:
    if getattr(environment, "scale", 1.0) != 1.0:
        return "the numbers are scaled, so they are in no unit yet: name your own adapter as module:attr"
    return f"no shipped adapter makes {ours} of {theirs}: correct the declaration, or name your own as module:attr"
