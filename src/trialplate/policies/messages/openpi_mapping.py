"""Which openpi key carries which channel. The table is written by hand: no key and no channel has a default.

    "observation/image" = "camera:front"
    "observation/state" = ["proprio:joint_pos", "proprio:gripper"]     joined in this order
    "prompt"            = "instruction"

Pictures cross as they are declared (uint8), numbers as float64: openpi's own transforms convert them. Source: policy
contract, section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import ContractFault, LockError, nearest
from trialplate.record import Observation
from trialplate.spec.channels import ObservationSpec

Kind = Literal["camera", "proprio", "instruction"]
FORMS = "'camera:NAME', 'proprio:NAME', a list of 'proprio:NAME', or 'instruction'"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key and the channels that it carries, in order."""

    key: str
    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What an openpi message shows, by our own names."""

    images: dict[str, NDArray[np.uint8]]
    proprio: dict[str, NDArray[np.float64]]
    instruction: str | None


class OpenpiMapping:
    """A checked table, for one observation spec. Raises LockError that lists every mistake in it."""

    def __init__(self, table: Mapping[str, str | tuple[str, ...]], spec: ObservationSpec) -> None:
        lines: list[str] = []
        self._entries = [entry for key, source in table.items() if (entry := _entry(key, source, spec, lines))]
        self._spec = spec
        if not table:
            lines.append(
                "the table is empty; the dialect has no default keys, so name each one that the server reads"
            )
        twice = _mapped_twice(self._entries)
        lines += [
            f"camera {name!r} is mapped to {' and '.join(keys)}: two cameras, one picture" for name, keys in twice
        ]
        if lines:
            code = "duplicate_camera_mapping" if twice and len(lines) == len(twice) else "contract_mismatch"
            raise LockError("openpi mapping:\n  " + "\n  ".join(lines), code=code)

    @property
    def used(self) -> frozenset[str]:
        """Names of the channels that cross."""
        return frozenset(name for entry in self._entries for name in entry.names)

    @property
    def carries_instruction(self) -> bool:
        """Whether the instruction crosses."""
        return any(entry.kind == "instruction" for entry in self._entries)

    def message(self, observation: Observation) -> dict[str, Any]:
        """Return the map that an openpi server is sent."""
        out: dict[str, Any] = {}
        for entry in self._entries:
            if entry.kind == "camera":
                out[entry.key] = observation.images[entry.names[0]]
            elif entry.kind == "instruction":
                out[entry.key] = observation.instruction
            elif len(entry.names) == 1:
                out[entry.key] = observation.proprio[entry.names[0]]
            else:
                out[entry.key] = np.concatenate([observation.proprio[name] for name in entry.names])
        return out

    def read(self, message: Any) -> Look:
        """Return what an openpi client sent. Raises ContractFault (``wire_malformed``) that names the key."""
        if not isinstance(message, dict):
            raise _unreadable(f"an observation is {type(message).__name__}, expected a map")
        look = Look({}, {}, None)
        instruction: str | None = None
        keys = {entry.key for entry in self._entries}
        if message.keys() != keys:
            missing, extra = sorted(keys - message.keys()), sorted(map(str, message.keys() - keys))
            raise _unreadable(f"an observation lacks the keys {missing} and has the unknown keys {extra}")
        for entry in self._entries:
            value = message[entry.key]
            if entry.kind == "camera":
                look.images[entry.names[0]] = self._picture(entry, value)
            elif entry.kind == "instruction":
                if not isinstance(value, str):
                    raise _unreadable(f"{entry.key!r} is {type(value).__name__}, expected text")
                instruction = value
            else:
                self._numbers(entry, value, look.proprio)
        return Look(look.images, look.proprio, instruction)

    def _picture(self, entry: _Entry, value: Any) -> NDArray[np.uint8]:
        camera = next(camera for camera in self._spec.cameras if camera.name == entry.names[0])
        if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.shape != camera.shape:
            raise _unreadable(f"{entry.key!r} is {_kind(value)}, expected uint8 of shape {camera.shape}")
        return value

    def _numbers(self, entry: _Entry, value: Any, proprio: dict[str, NDArray[np.float64]]) -> None:
        dims = {channel.name: channel.dim for channel in self._spec.proprio}
        whole = sum(dims[name] for name in entry.names)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != (whole,):
            raise _unreadable(f"{entry.key!r} is {_kind(value)}, expected floats of shape ({whole},)")
        start = 0
        for name in entry.names:
            proprio[name] = np.asarray(value[start : start + dims[name]], dtype=np.float64)
            start += dims[name]


def _entry(key: str, source: Any, spec: ObservationSpec, lines: list[str]) -> _Entry | None:
    """Return one checked line of the table, or None and say in ``lines`` what is wrong with it."""
    if source == "instruction":
        if not spec.instruction:
            lines.append(f"{key}: the instruction is not sent to this policy; declare instruction = true")
            return None
        return _Entry(key, "instruction", ())
    sources = (source,) if isinstance(source, str) else tuple(source)
    kinds = {name.partition(":")[0] for name in sources}
    names = tuple(name.partition(":")[2] for name in sources)
    if not sources or kinds not in ({"camera"}, {"proprio"}) or (kinds == {"camera"} and len(sources) > 1):
        lines.append(f"{key}: expected {FORMS}, got {source!r}")
        return None
    kind: Kind = "camera" if kinds == {"camera"} else "proprio"
    offered = spec.camera_names if kind == "camera" else spec.proprio_names
    unknown = [name for name in names if name not in offered]
    lines += [
        f"{key}: there is no {kind} {name!r} in what this policy is sent{nearest(name, offered)}" for name in unknown
    ]
    return None if unknown else _Entry(key, kind, names)


def _mapped_twice(entries: list[_Entry]) -> list[tuple[str, list[str]]]:
    keys: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind == "camera":
            keys.setdefault(entry.names[0], []).append(repr(entry.key))
    return [(name, where) for name, where in keys.items() if len(where) > 1]


def _kind(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _unreadable(message: str) -> ContractFault:
    return ContractFault(message, code="wire_malformed")
