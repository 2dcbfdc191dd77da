"""Every vector of the statistics specification, compared as the vectors say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trialplate import stats

DOCUMENT = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text("utf-8"))
VECTORS = DOCUMENT["vectors"]


def differences(got: Any, want: Any, tolerance: dict[str, float], where: str) -> list[str]:
    """Return every place where ``got`` is not ``want``: exact for text, booleans, integers and null."""
    if isinstance(want, dict):
        if not isinstance(got, Mapping) or set(got) != set(want):
            return [f"{where}: got {got!r}, want {want!r}"]
        return [line for key in want for line in differences(got[key], want[key], tolerance, f"{where}.{key}")]
    if isinstance(want, list):
        if not isinstance(got, tuple | list) or len(got) != len(want):
            return [f"{where}: got {got!r}, want {want!r}"]
        pairs = enumerate(zip(got, want, strict=True))
        return [line for at, (g, w) in pairs for line in differences(g, w, tolerance, f"{where}[{at}]")]
    if isinstance(want, float) and not isinstance(got, bool) and isinstance(got, int | float):
        close = abs(got - want) <= tolerance["abs"] + tolerance["rel"] * abs(want)
        return [] if close else [f"{where}: got {got!r}, want {want!r}"]
    same = got == want and isinstance(got, bool) == isinstance(want, bool)
    return [] if same else [f"{where}: got {got!r}, want {want!r}"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector_is_reproduced_within_its_tolerance(vector: dict[str, Any]) -> None:
    result = getattr(stats, vector["function"])(**vector["inputs"])
    wrong = [
        line
        for name, want in vector["expected"].items()
        for line in differences(getattr(result, name), want, vector["tolerance"], name)
    ]
    assert wrong == []


def test_every_vector_is_run_under_a_name_of_its_own_and_every_function_is_public() -> None:
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS) == 282
    assert {vector["function"] for vector in VECTORS} <= set(stats.__all__)


def test_the_comparison_finds_a_wrong_number_a_wrong_type_and_a_missing_item() -> None:
    tolerance = {"abs": 1e-9, "rel": 1e-9}
    assert differences(0.5 + 1e-6, 0.5, tolerance, "x")
    assert differences(None, 0.0, tolerance, "x")
    assert differences(1, True, tolerance, "x")
    assert differences((1,), [1, 2], tolerance, "x")
    assert differences({"a": "b"}, {"a": "c"}, tolerance, "x")
    assert differences({}, {"a": "c"}, tolerance, "x")
    assert not differences({"a": "c"}, {"a": "c"}, tolerance, "x")
    assert not differences((1, None), [1, None], tolerance, "x")
