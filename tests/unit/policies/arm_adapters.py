"""Adapters of an arm's own, as ``module:attr`` names them in the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.spec.channels import ProprioSpec


class Smooth:
    """Mean of the present and the last reading, until it is told to forget."""

    version = "3"

    def __init__(self, *, weight: float) -> None:
        self.weight, self.last = weight, None

    def policy_side(self, channel: Any) -> Any:
        return channel

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        last = values if self.last is None else self.last
        self.last = np.array(values)
        return self.weight * values + (1 - self.weight) * last

    def reset(self) -> None:
        self.last = None


class Scribbler(Smooth):
    """Writes into what it is given."""

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        values[:] = 0
        return values


class Raiser(Smooth):
    """Gives up."""

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        raise SystemExit("enough")


class Shortener(Smooth):
    """Makes less than it declares."""

    def convert(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[..., :1]


class Refuser(Smooth):
    """Wants another channel."""

    def policy_side(self, channel: Any) -> Any:
        raise ValueError(f"only for joints, not for {channel.name}")


class Turncoat(Smooth):
    """Makes another kind of channel."""

    def policy_side(self, channel: Any) -> Any:
        return ProprioSpec(name="x", dim=1, unit="m", frame=None, rotation=None, gripper=None)


class Careless(Smooth):
    """Goes around the checks of a channel."""

    def policy_side(self, channel: Any) -> Any:
        return channel.model_copy(update={"dim": 0})


class Half:
    """Is no adapter."""

    version = "1"
