"""The shipped conversions of one channel: what each needs, what it turns a channel into, and how it turns numbers.

``from`` and ``to`` follow the data: from environment to policy for what is observed, from policy to environment
for what is done. A conversion never clips and never repairs; what it cannot convert is a ValueError.

Source: policy contract ``trialplate.policy/1``, section 3, step 3, and section 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trialplate.policies.adapters import pictures, rotations
from trialplate.spec.channels import ActionComponent, CameraSpec, GripperRange, ProprioSpec

Channel = CameraSpec | ProprioSpec | ActionComponent
Values = NDArray[Any]
Params = Mapping[str, Any]
Anything = TypeVar("Anything")

_QUATERNIONS = ("quat_wxyz", "quat_xyzw")
_LAYOUTS_6D = ("rot6d_columns", "rot6d_interleaved")
_ORIENTATIONS = ("upright", "flip_v", "flip_h", "rot180")
_IN_BASE_UNIT: tuple[Mapping[str, float], ...] = (
    {"rad": 1.0, "deg": math.pi / 180},
    {"rad/s": 1.0, "deg/s": math.pi / 180},
    {"m": 1.0, "cm": 0.01, "mm": 0.001},
    {"m/s": 1.0, "cm/s": 0.01, "mm/s": 0.001},
)
_UNITS = tuple(unit for family in _IN_BASE_UNIT for unit in family)
_MOST_ROUNDINGS = 16
"""By how many roundings a converted bound may miss the legal numbers."""

_ANGLES = ("axis_angle_pi", "axis_angle_2pi", "euler_xyz_intrinsic", "euler_xyz_extrinsic")


@dataclass(frozen=True, slots=True)
class Conversion:
    """One channel converted. ``channel``: as the policy meets it. ``convert``: numbers along the data.

    Pictures are as their :class:`CameraSpec` says, proprioception is (dim,) and actions are rows (n, dim), float64.
    """

    channel: Channel
    convert: Callable[[Values], Values]


@dataclass(frozen=True, slots=True)
class Shipped:
    """A shipped conversion: what it applies to, its parameters, and how it is made for one channel.

    A rule is a tuple of the words that are allowed, or ``int`` (at least 1), ``float`` (finite) or ``tuple`` (finite
    numbers). ``build``: (channel as the environment has it, parameters, along) -> Conversion; ``along`` is True for
    what is observed and False for actions. Raises ValueError.
    """

    targets: frozenset[str]
    required: Mapping[str, Any]
    build: Callable[[Any, Params, bool], Conversion]
    optional: Mapping[str, Any]


def params_problem(params: Params, *, required: Mapping[str, Any], optional: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the parameters of a conversion, None when nothing is."""
    rules = {**required, **optional}
    for name in params:
        if name not in rules:
            return f"unknown parameter {name!r}; expected {', '.join(rules) or 'none'}"
    for name in required:
        if name not in params:
            return f"parameter {name!r} is missing; expected {', '.join(required)}"
    for name, value in params.items():
        expected = _expected(rules[name], value)
        if expected is not None:
            return f"parameter {name!r}: expected {expected}, got {value!r}"
    if "from" in required and params["from"] == params["to"]:
        return f"from and to are both {params['from']!r}: it converts nothing"
    return None


def _expected(rule: Any, value: Any) -> str | None:
    """Return what a rule asks for when the value is not that, else None."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(rule, tuple):
        return None if isinstance(value, str) and value in rule else f"one of {', '.join(rule)}"
    if rule is str:
        return None if isinstance(value, str) and value else "a name"
    if rule is int:
        return None if type(value) is int and value >= 1 else "a whole number of at least 1"
    if rule is float:
        return None if number and math.isfinite(value) else "a finite number"
    finite = isinstance(value, tuple) and all(isinstance(item, float) and math.isfinite(item) for item in value)
    return None if finite else "a list of finite numbers"


def _ends(channel: Channel, field: str, *, params: Params, along: bool) -> Any:
    """Check what the environment has against its end of the conversion; return the policy's end."""
    ours, theirs = ("to", "from") if along else ("from", "to")
    found = getattr(channel, field)
    if found != params[theirs]:
        raise ValueError(f"{theirs} says {field} {params[theirs]!r}, but there it is {found!r}")
    return params[ours]


def with_changes(channel: Channel, **changes: Any) -> Any:
    """Return a channel with some fields replaced, checked like any other. Raises ValueError."""
    return type(channel).model_validate({**dict(channel), **changes})


def _quat_reorder(channel: Any, params: Params, along: bool) -> Conversion:
    return _reordered(channel, params, along, convert=rotations.reorder_quaternion)


def _rot6d_layout(channel: Any, params: Params, along: bool) -> Conversion:
    return _reordered(channel, params, along, convert=rotations.relayout_rot6d)


def _reordered(channel: Any, params: Params, along: bool, *, convert: Callable[..., Any]) -> Conversion:
    """Numbers change places, and so do their bounds: no value is touched."""
    policy = _ends(channel, "rotation", params=params, along=along)
    source, to = params["from"], params["to"]
    _needs_dim(channel, rotations.DIMS[source])
    places = convert(np.arange(channel.dim, dtype=np.float64), channel.rotation, to=policy).astype(int)
    changes = {"rotation": policy, "low": _permuted(channel.low, places), "high": _permuted(channel.high, places)}
    return Conversion(with_changes(channel, **changes), lambda values: convert(values, source, to=to))


def _rotation_convert(channel: Any, params: Params, along: bool) -> Conversion:
    policy = _ends(channel, "rotation", params=params, along=along)
    source, to = params["from"], params["to"]
    _needs_dim(channel, rotations.DIMS[channel.rotation])
    unit = "rad" if channel.rotation in _ANGLES else "1"
    if channel.unit != unit:
        raise ValueError(f"{channel.rotation} is converted in unit {unit!r}, but there it is {channel.unit!r}")
    changes = {"rotation": policy, "dim": rotations.DIMS[policy], "unit": "rad" if policy in _ANGLES else "1"}
    if isinstance(channel, ActionComponent):
        if channel.scale != 1.0:
            raise ValueError(f"the numbers are scaled by {channel.scale}: a rotation cannot be read from them")
        changes |= _policy_bounds(params, dim=rotations.DIMS[policy])
    elif "low" in params or "high" in params:
        raise ValueError("low and high belong to actions")
    else:
        changes |= {"low": None, "high": None}
    return Conversion(with_changes(channel, **changes), lambda values: rotations.convert(values, source, to=to))


def _policy_bounds(params: Params, *, dim: int) -> dict[str, Any]:
    """Range of what a policy sends before a conversion that bends it: as named, else unlimited."""
    if ("low" in params) != ("high" in params):
        raise ValueError("low and high are given together, or neither")
    if "low" in params:
        return {"low": params["low"], "high": params["high"], "bounds_reason": None}
    return {"low": (None,) * dim, "high": (None,) * dim, "bounds_reason": "unlimited"}


def _unit_convert(channel: Any, params: Params, along: bool) -> Conversion:
    policy = _ends(channel, "unit", params=params, along=along)
    family = next((known for known in _IN_BASE_UNIT if {params["from"], params["to"]} <= set(known)), None)
    if family is None:
        raise ValueError(f"{params['from']!r} and {params['to']!r} measure different things")
    if isinstance(channel, ActionComponent) and channel.scale != 1.0:
        raise ValueError(f"the numbers are scaled by {channel.scale}: they are in no unit yet")
    factor = family[params["from"]] / family[params["to"]]
    bounds = _mapped(channel, along, forward=lambda x: x * factor, back=lambda x: x / factor)
    return Conversion(with_changes(channel, unit=policy, **bounds), lambda values: values * factor)


def _gripper_affine(channel: Any, params: Params, along: bool) -> Conversion:
    source = GripperRange(closed=params["from_closed"], open=params["from_open"])
    to = GripperRange(closed=params["to_closed"], open=params["to_open"])
    for name, ends in (("from", source), ("to", to)):
        if ends.closed == ends.open:
            raise ValueError(f"{name}_closed and {name}_open are both {ends.closed:g}")
    if source == to:
        raise ValueError("from and to are the same range: it converts nothing")
    policy = _ends(channel, "gripper", params={"from": source, "to": to}, along=along)

    def forward(values: Any) -> Any:
        return _between(values, source, to)

    bounds = _mapped(channel, along, forward=forward, back=lambda x: _between(x, to, source))
    return Conversion(with_changes(channel, gripper=policy, **bounds), forward)


def _between(values: Any, source: GripperRange, to: GripperRange) -> Any:
    """Map closed to closed and open to open, both exactly, and in proportion between and beyond."""
    share = (values - source.closed) / (source.open - source.closed)
    return to.closed * (1 - share) + to.open * share


def _image_orient(channel: Any, params: Params, along: bool) -> Conversion:
    policy = _ends(channel, "orientation", params=params, along=along)
    source, layout = params["from"], channel.layout
    return Conversion(
        with_changes(channel, orientation=policy),
        lambda picture: pictures.reorient(picture, source, to=policy, layout=layout),
    )


def rotate_180(channel: Any, params: Params, along: bool) -> Conversion:
    """Turn a picture by half a turn: its rows and its columns run the other way."""
    turned = {"upright": "rot180", "rot180": "upright", "flip_v": "flip_h", "flip_h": "flip_v"}
    return _image_orient(channel, {"from": channel.orientation, "to": turned[channel.orientation]}, along)


def _image_resize(channel: Any, params: Params, along: bool) -> Conversion:
    size = (params["from_height"], params["from_width"])
    if (channel.height, channel.width) != size:
        raise ValueError(f"from says {size[0]}x{size[1]}, but there it is {channel.height}x{channel.width}")
    height, width, method = params["to_height"], params["to_width"], params["method"]
    if (height, width) == size:
        raise ValueError("from and to are the same size: it converts nothing")
    layout = channel.layout
    return Conversion(
        with_changes(channel, height=height, width=width, resize=method),
        lambda picture: pictures.resize(picture, height=height, width=width, method=method, layout=layout),
    )


def _color_swap(channel: Any, params: Params, along: bool) -> Conversion:
    policy, layout = _ends(channel, "color", params=params, along=along), channel.layout
    return Conversion(
        with_changes(channel, color=policy), lambda picture: pictures.swap_colours(picture, layout=layout)
    )


def _layout_swap(channel: Any, params: Params, along: bool) -> Conversion:
    policy, source = _ends(channel, "layout", params=params, along=along), params["from"]
    return Conversion(
        with_changes(channel, layout=policy), lambda picture: pictures.relayout(picture, source, to=policy)
    )


def _mapped(
    channel: Any, along: bool, *, forward: Callable[[float], float], back: Callable[[float], float]
) -> dict[str, Any]:
    """Carry the bounds of each scalar to the policy's side of a map that never turns back.

    An action's bound is moved inwards by roundings until it converts to a legal number.
    """
    if channel.low is None or channel.high is None:
        return {"low": None, "high": None}
    pairs = list(zip(channel.low, channel.high, strict=True))
    if along:
        ends = [sorted((forward(low), forward(high))) for low, high in pairs]
    else:
        ends = [_legal_ends(low, high, forward=forward, back=back) for low, high in pairs]
    return {"low": tuple(end[0] for end in ends), "high": tuple(end[1] for end in ends)}


def _legal_ends(low: Any, high: Any, *, forward: Callable[[float], float], back: Callable[[float], float]) -> Any:
    """Return the policy's ends. Raises ValueError when none near them converts to a legal number."""
    rising = forward(1.0) > forward(0.0)
    turned = (low, high) if rising else (high, low)
    ends: list[Any] = [None if bound is None else back(bound) for bound in turned]
    rounding = math.ulp(max((abs(end) for end in ends if end is not None), default=1.0))
    for index, inwards in ((0, rounding), (1, -rounding)):
        for _ in range(_MOST_ROUNDINGS):
            if ends[index] is None or _legal(forward(ends[index]), low, high):
                break
            ends[index] += inwards
        else:
            raise ValueError(f"the bounds {low} and {high} cannot be converted: they are too large or too close")
    return ends


def _legal(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _permuted(bounds: Sequence[Any] | None, places: NDArray[np.int64]) -> tuple[Any, ...] | None:
    return None if bounds is None else tuple(bounds[place] for place in places)


def _needs_dim(channel: Any, dim: int) -> None:
    if channel.dim != dim:
        raise ValueError(f"{channel.rotation} has {dim} numbers, but there {channel.dim} stand")


def _shipped(
    targets: str, required: Mapping[str, Any], build: Callable[[Any, Params, bool], Conversion], **optional: Any
) -> Shipped:
    return Shipped(frozenset(targets.split()), required, build, optional)


def _choice(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {"from": words, "to": words}


_GRIPPER = dict.fromkeys(("from_closed", "from_open", "to_closed", "to_open"), float)
_RESIZE = {**dict.fromkeys(("from_height", "from_width", "to_height", "to_width"), int),
           "method": pictures.RESIZE_METHODS}  # fmt: skip
_ROTATIONS = tuple(rotations.DIMS)

CONVERSIONS: Mapping[str, Shipped] = {
    "quat_reorder": _shipped("proprio action", _choice(_QUATERNIONS), _quat_reorder),
    "rotation_convert": _shipped("proprio action", _choice(_ROTATIONS), _rotation_convert, low=tuple, high=tuple),
    "rot6d_layout": _shipped("proprio action", _choice(_LAYOUTS_6D), _rot6d_layout),
    "gripper_affine": _shipped("proprio action", _GRIPPER, _gripper_affine),
    "unit_convert": _shipped("proprio action", _choice(_UNITS), _unit_convert),
    "image_orient": _shipped("camera", _choice(_ORIENTATIONS), _image_orient),
    "image_resize": _shipped("camera", _RESIZE, _image_resize),
    "color_swap": _shipped("camera", _choice(("rgb", "bgr")), _color_swap),
    "layout_swap": _shipped("camera", _choice(("hwc", "chw")), _layout_swap),
    "rotate-180": _shipped("camera", {}, rotate_180),
}
"""Every shipped conversion of one channel, by name."""
