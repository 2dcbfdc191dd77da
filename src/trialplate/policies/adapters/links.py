"""How a list of adapters is laid between environment and policy: each becomes a link, or a reason why it cannot.

Source: policy contract ``trialplate.policy/1``, section 3, step 3; fair pick-and-place protocol, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import UsageError, nearest
from trialplate.policies.adapters import rotations
from trialplate.policies.adapters.conversions import CONVERSIONS, Channel, Shipped, params_problem, with_changes
from trialplate.registry import load_attribute
from trialplate.spec.channels import ActionComponent, ActionSpec, CameraSpec, ObservationSpec, ProprioSpec
from trialplate.spec.protocol import AdapterChoice

RENAME = "rename"
LIBERO_STATE = "libero-state-8d"
_LIBERO_PARAMS = {"position": str, "rotation": str, "fingers": str, "to": str}
_WORDS = {"camera": CameraSpec, "proprio": ProprioSpec, "action": ActionComponent}
Faults = list[tuple[int, str]]


@runtime_checkable
class ChannelAdapter(Protocol):
    """What ``module:attr`` of an adapter must make: it is called with the parameters as keyword arguments.

    One is made for each target, for each worker. What it raises is charged to the arm.
    """

    version: str

    def policy_side(self, channel: Channel) -> Channel:
        """Return the channel as the policy meets it, given how the environment has it. ValueError says why not."""
        ...

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert along the data: one picture, (dim,) numbers, or rows (n, dim) from policy to environment."""
        ...

    def reset(self) -> None:
        """Forget the previous episode."""
        ...


@dataclass(frozen=True, slots=True)
class Link:
    """One adapter in its place.

    ``inputs``: channels it reads, by their name where it stands; ``consumed``: those that are gone behind it.
    ``channel``: what it makes, None for actions. ``place``: index of the action component; ``dim``: its scalars
    behind the link. ``own``: the arm's own code.
    """

    index: int
    name: str
    inputs: tuple[str, ...]
    output: str
    convert: Callable[..., NDArray[Any]]
    channel: CameraSpec | ProprioSpec | None = None
    consumed: tuple[str, ...] = ()
    place: int = -1
    dim: int = 0
    reset: Callable[[], None] | None = None
    version: str = "1"
    own: bool = False


@dataclass(frozen=True, slots=True)
class _Made:
    """A channel converted, with what remembers and whose code it is."""

    channel: Any
    convert: Callable[..., NDArray[Any]]
    reset: Callable[[], None] | None = None
    version: str = "1"
    own: bool = False


def link_observation(
    choices: Sequence[AdapterChoice], observation: ObservationSpec
) -> tuple[ObservationSpec, tuple[Link, ...], Faults]:
    """Walk from the environment to the policy; return the spec at the policy, the links and the faults."""
    links: list[Link] = []
    faults: Faults = []
    moved: dict[str, str] = {}
    for index, choice in enumerate(choices):
        word, _, name = choice.target.partition(":")
        if word == "action":
            continue
        try:
            if word not in _WORDS or not name:
                raise ValueError(f"target {choice.target!r}: expected camera:NAME, proprio:NAME or action:COMPONENT")
            for target in _targets(word, name, observation, choice=choice, moved=moved):
                observation, link = _look(index, choice, target, observation=observation)
                links.append(link)
            if choice.name == RENAME:
                moved[name] = str(choice.params["to"])
        except ValueError as error:
            faults.append((index, _short(error)))
    return observation, tuple(links), faults


def link_actions(choices: Sequence[AdapterChoice], action: ActionSpec) -> tuple[ActionSpec, tuple[Link, ...], Faults]:
    """Walk back from the environment to the policy; return the spec at the policy, links along the data, faults."""
    links: list[Link] = []
    faults: Faults = []
    for index, choice in reversed(list(enumerate(choices))):
        word, _, name = choice.target.partition(":")
        if word != "action":
            continue
        try:
            action, link = _act(index, choice, name, action=action)
            links.append(link)
        except ValueError as error:
            faults.append((index, _short(error)))
    return action, tuple(reversed(links)), faults


def _targets(
    word: str, name: str, observation: ObservationSpec, *, choice: AdapterChoice, moved: dict[str, str]
) -> tuple[str, ...]:
    known = observation.camera_names if word == "camera" else observation.proprio_names
    if choice.name == LIBERO_STATE:
        if choice.target != "proprio:*":
            raise ValueError(f"{LIBERO_STATE} is made of several channels: its target is 'proprio:*'")
        return ("*",)
    if name == "*" and word == "camera" and choice.name != RENAME and known:
        return known
    if name in known:
        return (name,)
    if name in moved and word == "camera" and choice.name == RENAME:
        raise ValueError(
            f"duplicate_camera_mapping: camera {name!r} already feeds {moved[name]!r}; two cameras of the policy "
            "would see one and the same picture"
        )
    behind = f"; it is called {moved[name]!r} behind 'rename'" if name in moved else ""
    raise ValueError(f"no {word} {name!r} at this place{behind}{nearest(name, known)}")


def _look(
    index: int, choice: AdapterChoice, name: str, *, observation: ObservationSpec
) -> tuple[ObservationSpec, Link]:
    both: tuple[CameraSpec | ProprioSpec, ...] = (*observation.cameras, *observation.proprio)
    by_name: dict[str, Any] = {channel.name: channel for channel in both}
    if choice.name == LIBERO_STATE:
        _check_params(choice, required=_LIBERO_PARAMS)
        state = _libero_state(choice, by_name)
        spec = _rebuilt(observation, proprio=(*observation.proprio, state.channel))
        inputs = tuple(str(choice.params[key]) for key in ("position", "rotation", "fingers"))
        output: ProprioSpec = state.channel
        return spec, Link(index, choice.name, inputs, output.name, state.convert, output)
    made = _make(choice, by_name[name], along=True)
    kind = "cameras" if isinstance(made.channel, CameraSpec) else "proprio"
    channels = tuple(made.channel if c.name == name else c for c in getattr(observation, kind))
    spec = _rebuilt(observation, **{kind: channels})
    link = Link(
        index, choice.name, (name,), made.channel.name, made.convert, made.channel, consumed=(name,),
        reset=made.reset, version=made.version, own=made.own,
    )  # fmt: skip
    return spec, link


def _act(index: int, choice: AdapterChoice, name: str, *, action: ActionSpec) -> tuple[ActionSpec, Link]:
    names = [component.name for component in action.components]
    theirs = name
    if choice.name == RENAME:
        _check_params(choice, required={"to": str})
        theirs = str(choice.params["to"])
    if theirs not in names:
        raise ValueError(f"no action component {theirs!r} at this place{nearest(theirs, names)}")
    place = names.index(theirs)
    component = action.components[place]
    made = _make(choice, component, along=False)
    components = [*action.components[:place], made.channel, *action.components[place + 1 :]]
    spec = ActionSpec(control_hz=action.control_hz, dim=sum(c.dim for c in components), components=tuple(components))
    link = Link(
        index, choice.name, (name,), theirs, made.convert, place=place, dim=component.dim,
        reset=made.reset, version=made.version, own=made.own,
    )  # fmt: skip
    return spec, link


def _make(choice: AdapterChoice, channel: Any, *, along: bool) -> _Made:
    word = choice.target.partition(":")[0]
    if ":" in choice.name:
        return _own(choice, channel)
    if choice.name == RENAME:
        _check_params(choice, required={"to": str})
        name = str(choice.params["to"]) if along else choice.target.partition(":")[2]
        if name == channel.name:
            raise ValueError(f"it is called {name!r} already: it converts nothing")
        return _Made(with_changes(channel, name=name), _same)
    shipped = CONVERSIONS.get(choice.name)
    if shipped is None:
        known = (*CONVERSIONS, RENAME, LIBERO_STATE)
        raise ValueError(f"unknown adapter {choice.name!r}{nearest(choice.name, known)}")
    if word not in shipped.targets:
        raise ValueError(f"{choice.name} is for {' and '.join(sorted(shipped.targets))} channels, not for a {word}")
    return _shipped(choice, channel, shipped, along=along)


def _shipped(choice: AdapterChoice, channel: Any, shipped: Shipped, *, along: bool) -> _Made:
    _check_params(choice, required=shipped.required, optional=shipped.optional)
    made = shipped.build(channel, choice.params, along)
    return _Made(made.channel, made.convert)


def _own(choice: AdapterChoice, channel: Any) -> _Made:
    """Make an adapter of the arm's own; whatever its code raises is a reason not to lock."""
    try:
        adapter = load_attribute(choice.name)(**choice.params)
        if not isinstance(adapter, ChannelAdapter) or not isinstance(adapter.version, str) or not adapter.version:
            raise ValueError(f"{choice.name} has no version, policy_side, convert and reset (ChannelAdapter)")
        made = adapter.policy_side(channel)
    except UsageError as error:
        raise ValueError(error.message) from None
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{choice.name} fails: {type(error).__name__}: {error}") from error
    if type(made) is not type(channel):
        raise ValueError(f"{choice.name}: expected a {type(channel).__name__}, got {type(made).__name__}")
    return _Made(with_changes(made), adapter.convert, adapter.reset, adapter.version, own=True)


def _libero_state(choice: AdapterChoice, by_name: dict[str, Any]) -> _Made:
    """Make the eight numbers on which LIBERO policies are trained, out of hand pose and fingers.

    Position (3), the hand's orientation as axis-angle, 2 arccos(w) in [0, 2 pi] about the quaternion's vector part
    with the quaternion's sign as it is sent (3), and the two finger joints as robosuite signs them: the first
    positive, the second negative. Axes and origin stay those of this world.
    """
    channels = {}
    for key, dim, rotation in (("position", 3, ()), ("rotation", 4, ("quat_wxyz", "quat_xyzw")), ("fingers", 2, ())):
        name = str(choice.params[key])
        channel = by_name.get(name)
        if not isinstance(channel, ProprioSpec):
            raise ValueError(f"{key}: no proprio {name!r} at this place{nearest(name, by_name)}")
        unit = "1" if rotation else "m"
        if (channel.dim, channel.unit) != (dim, unit) or (channel.rotation or "") not in (rotation or ("",)):
            raise ValueError(
                f"{key}: {name!r} has {channel.dim} numbers in {channel.unit}, rotation {channel.rotation}"
            )
        channels[key] = channel
    position, rotation_channel = channels["position"], channels["rotation"]
    if position.frame != rotation_channel.frame:
        raise ValueError(f"position is in frame {position.frame!r}, rotation in {rotation_channel.frame!r}")
    source = str(rotation_channel.rotation)

    def convert(xyz_m: NDArray[Any], quaternion: NDArray[Any], fingers_m: NDArray[Any]) -> NDArray[Any]:
        turned_rad = rotations.convert(quaternion, source, to="axis_angle_2pi")
        return np.concatenate([xyz_m, turned_rad, fingers_m * np.array([1.0, -1.0])])

    made = ProprioSpec(
        name=str(choice.params["to"]), dim=8, unit="m,rad,m", frame=position.frame, rotation="axis_angle_2pi",
        gripper=None, meaning="hand position, hand orientation, fingers signed + and -",
    )  # fmt: skip
    return _Made(made, convert)


def _check_params(choice: AdapterChoice, *, required: Any, optional: Any = None) -> None:
    problem = params_problem(choice.params, required=required, optional=optional or {})
    if problem is not None:
        raise ValueError(f"{choice.name}: {problem}")


def _rebuilt(observation: ObservationSpec, **changes: Iterable[Any]) -> ObservationSpec:
    return ObservationSpec.model_validate({**dict(observation), **changes})


def _same(values: NDArray[Any]) -> NDArray[Any]:
    return values


def _short(error: ValueError) -> str:
    """Return the message of an error, of a model's only what it says."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    return "; ".join(str(item["msg"]).removeprefix("Value error, ") for item in listed(include_url=False))
