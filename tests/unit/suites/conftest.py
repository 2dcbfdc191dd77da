"""One environment per test file: worlds are kept and reused, as in a run."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from trialplate.interfaces import Scenario
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.channels import SLICES
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.worlds.gl import gl_report


@pytest.fixture(scope="session")
def _gl() -> None:
    info = gl_report()
    if info.renderer is None:
        pytest.skip(str(info.reason))


@pytest.fixture(autouse=True)
def _skip_without_gl(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gl"):
        request.getfixturevalue("_gl")


@pytest.fixture(scope="module")
def world() -> Iterator[PickPlace]:
    environment = PickPlace()
    yield environment
    environment.close()


@pytest.fixture(scope="session")
def of_variant() -> Callable[[str], list[Scenario]]:
    """Return the scenarios of a variant, in order."""
    return lambda variant: [scenario for scenario in SUITE.scenarios() if scenario.variant == variant]


@pytest.fixture
def read(world: PickPlace) -> Callable[[str], np.ndarray]:
    """Return a named column of the present measurement."""
    return lambda name: world.measure().values[SLICES[name]]
