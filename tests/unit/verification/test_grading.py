"""The form of the numbers of a readback: binary32, but for the members that a suite names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trialplate.registry import load_suite
from trialplate.verification.grading import misformed

FORMS: Any = {"quat": "binary64", "direction": "direction"}


@pytest.mark.parametrize(
    ("scene", "pointers"),
    [
        ({"a": 0.5, "b": [1, 2.25], "c": None, "d": True, "e": "0.1"}, []),
        ({"a": 0.1}, ["/applied_scene/a"]),
        ({"a": float(np.float32(0.1))}, []),
        ({"a": math.nextafter(0.5, 1.0)}, ["/applied_scene/a"]),
        ({"a": float(np.nextafter(np.float32(0.5), np.float32(1.0)))}, []),
        ({"lamps": [{"quat": [0.1, 0.2]}, {"pos": [0.1, 0.5]}]}, ["/applied_scene/lamps/1/pos/0"]),
        ({"direction": [float(np.float32(1e-13)), 0, 1]}, ["/applied_scene/direction/0"]),
        ({"position": [float(np.float32(1e-13)), 0, 1]}, []),
        ({"a": 16_777_217, "b": 1e300}, ["/applied_scene/a", "/applied_scene/b"]),
    ],
)
def test_a_number_that_is_not_its_own_image_is_told_with_its_place(scene: Any, pointers: list[str]) -> None:
    assert [pointer for pointer, _, _ in misformed(scene, FORMS)] == pointers
    assert list(misformed(scene, None)) == []


def test_the_packaged_suites_say_in_which_form_their_readbacks_are_stored() -> None:
    assert load_suite("pick-place").readback == {"orientation_wxyz": "binary64", "direction": "direction"}
    assert load_suite("atomic-skills").readback == {}
    assert load_suite("toy").readback is None
