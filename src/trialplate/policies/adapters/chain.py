"""The adapters named in a protocol: conversions between environment and policy, and nothing but those.

Adapters are applied in the order of the list: those of cameras and proprioception from the environment to the policy,
those of actions from the policy to the environment. ``target`` names the channel as it is called where the adapter
stands; ``camera:*`` is every camera. None is ever chosen automatically, none clips, and a conversion that is named
twice is done twice and recorded twice.

Source: policy contract ``trialplate.policy/1``, section 3, step 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import document_sha256, file_sha256
from trialplate.errors import LockError, PolicyFault, SensorInvalid
from trialplate.fingerprint import policy_source
from trialplate.policies.adapters.links import Link, link_actions, link_observation
from trialplate.policies.charging import charged
from trialplate.spec.channels import ActionSpec, CameraSpec, ObservationSpec
from trialplate.spec.protocol import AdapterChoice
from trialplate.spec.registration import AdapterIdentity

VERSION = "1"
_SOURCES = ("chain.py", "conversions.py", "links.py", "pictures.py", "rotations.py")


class AdapterChain:
    """The adapters of one arm, made for one environment and one policy.

    ``observation`` and ``action`` are the specs as the policy meets them. Raises LockError that lists every adapter
    which cannot be applied; its code is ``duplicate_camera_mapping`` when one camera would feed two, else
    ``adapter_refused``. ``genuine``: says whether somebody really asked the process to stop.
    """

    def __init__(
        self,
        choices: Sequence[AdapterChoice],
        observation: ObservationSpec,
        action: ActionSpec,
        *,
        genuine: Callable[[], bool] = lambda: False,
    ) -> None:
        self._choices = tuple(choices)
        self.observation, self._looks, faults = link_observation(choices, observation)
        self.action, self._acts, more = link_actions(choices, action)
        if faults := sorted(faults + more):
            code = "duplicate_camera_mapping"
            twins = any(message.startswith(code) for _, message in faults)
            listed = "\n  ".join(f"adapters[{index}]: {message}" for index, message in faults)
            raise LockError(f"adapters cannot be applied:\n  {listed}", code=code if twins else "adapter_refused")
        self._environment = observation
        self._genuine = genuine

    @property
    def empty(self) -> bool:
        """True when nothing is converted: the loop then takes rows and looks as they are."""
        return not self._choices

    def sources(self, expects: ObservationSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the cameras and the proprioceptive channels of the environment that make what a policy expects.

        Raises KeyError for a channel that is not made here.
        """
        wanted = set(expects.names)
        if unknown := wanted - set(self.observation.names):
            raise KeyError(sorted(unknown)[0])
        for link in reversed(self._looks):
            if link.output in wanted:
                wanted = (wanted - {link.output}) | set(link.inputs)
        cameras = tuple(name for name in self._environment.camera_names if name in wanted)
        return cameras, tuple(name for name in self._environment.proprio_names if name in wanted)

    def observe(
        self, images: Mapping[str, NDArray[np.uint8]], proprio: Mapping[str, NDArray[np.float64]]
    ) -> tuple[dict[str, NDArray[np.uint8]], dict[str, NDArray[np.float64]]]:
        """Return pictures and numbers as the policy meets them; a channel that was not read is not made.

        Raises SensorInvalid when the environment sent numbers that are not what it declares, and PolicyFault
        (``policy_exception``) when an adapter of the arm's own fails.
        """
        flow: dict[str, NDArray[Any]] = {**images, **proprio}
        for link in self._looks:
            if all(name in flow for name in link.inputs):
                given = [flow[name] for name in link.inputs]
                for name in link.consumed:
                    del flow[name]
                flow[link.output] = self._looked(link, given)
        cameras = set(self.observation.camera_names)
        pictures = {name: values for name, values in flow.items() if name in cameras}
        return pictures, {name: values for name, values in flow.items() if name not in cameras}

    def act(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows (n, dim) of the policy as rows of the environment, which still have to be validated there.

        Raises PolicyFault: ``invalid_action`` with row, component and rule for numbers that cannot be converted,
        ``policy_exception`` when an adapter of the arm's own fails.
        """
        if rows.ndim != 2 or rows.shape[1] != self.action.dim:
            expected = f"(n, {self.action.dim})"
            raise PolicyFault(f"expected rows of shape {expected}, got {rows.shape}", code="invalid_action")
        columns: list[NDArray[np.float64]] = []
        first = 0
        for component in self.action.components:
            columns.append(np.array(rows[:, first : first + component.dim]))
            first += component.dim
        for link in self._acts:
            columns[link.place] = self._acted(link, columns[link.place])
        return np.concatenate(columns, axis=1)

    def reset(self) -> None:
        """Begin an episode: an adapter that remembers forgets. Raises PolicyFault (``policy_exception``)."""
        for link in (*self._looks, *self._acts):
            if link.reset is not None:
                charged(link.reset, doing=f"adapter {link.name}, reset", genuine=self._genuine)

    def identities(self) -> tuple[AdapterIdentity, ...]:
        """Return who the adapters are, in the order of the list: a double conversion is two identities."""
        links = {link.index: link for link in (*self._looks, *self._acts)}
        return tuple(
            AdapterIdentity(
                name=choice.name,
                version=links[index].version if index in links else VERSION,
                params={"target": choice.target, **choice.params},
                source_sha256=adapter_source_sha256(choice.name),
            )
            for index, choice in enumerate(self._choices)
        )

    def _looked(self, link: Link, given: list[NDArray[Any]]) -> NDArray[Any]:
        if link.own:
            made = self._own(link, given)
        else:
            try:
                made = link.convert(*given)
            except ValueError as error:
                raise SensorInvalid(f"{link.name}: the environment's {', '.join(link.inputs)}: {error}") from None
        _check(link, made, _form(link.channel))
        return made

    def _acted(self, link: Link, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if link.own:
            made = self._own(link, [rows])
            _check(link, made, ((len(rows), link.dim), "float64"))
            return made
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what becomes of it is no legal row, and refused
                return link.convert(rows)
        except ValueError:
            raise _first_bad_row(link, rows) from None

    def _own(self, link: Link, given: list[NDArray[Any]]) -> NDArray[Any]:
        """Call an adapter of the arm's own with copies: what it does to them stays with it."""
        copies = [np.array(values) for values in given]
        made = charged(lambda: link.convert(*copies), doing=f"adapter {link.name}", genuine=self._genuine)
        if not isinstance(made, np.ndarray):
            raise PolicyFault(f"adapter {link.name}: expected an array, got {type(made).__name__}")
        return np.array(made, subok=False)


def _form(channel: Any) -> tuple[tuple[int, ...], str]:
    if isinstance(channel, CameraSpec):
        return channel.shape, "uint8"
    return (channel.dim,), "float64"


def _check(link: Link, made: NDArray[Any], form: tuple[tuple[int, ...], str]) -> None:
    if made.shape != form[0] or made.dtype != np.dtype(form[1]):
        message = f"adapter {link.name}: declared {form[1]} of shape {form[0]}, made {made.dtype} of {made.shape}"
        raise PolicyFault(message) if link.own else SensorInvalid(message)


def _first_bad_row(link: Link, rows: NDArray[np.float64]) -> PolicyFault:
    for number, row in enumerate(rows):
        try:
            link.convert(row[None])
        except ValueError as error:
            return PolicyFault(
                f"row {number}, {link.inputs[0]}: {error}; nothing of the chunk was executed",
                code="invalid_action", row=number, component=link.inputs[0], rule=str(error),
            )  # fmt: skip
    return PolicyFault(f"{link.inputs[0]}: rows that {link.name} cannot convert", code="invalid_action")


def adapter_source_sha256(name: str) -> str:
    """Return the digest of the code behind an adapter: our files, or the package of ``module:attr`` as it lies."""
    return str(policy_source(name, base=Path())["source_sha256"]) if ":" in name else _own_source_sha256()


@cache
def _own_source_sha256() -> str:
    here = Path(__file__).parent
    return document_sha256({file: file_sha256(here / file) for file in _SOURCES})
