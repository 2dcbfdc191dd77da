"""Whole-chunk validation (policy contract, section 3 step 9; acceptance cases 8 to 11 and 16)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trialplate.errors import PolicyFault
from trialplate.policies.validation import validate_chunk
from trialplate.spec.channels import ActionComponent, ActionSpec

SPEC = ActionSpec(
    control_hz=20.0,
    dim=7,
    components=(
        ActionComponent(
            name="delta",
            dim=6,
            kind="other",
            mode="delta",
            delta_base="step",
            unit="m",
            frame="world",
            rotation=None,
            gripper=None,
            low=(-1.0,) * 6,
            high=(1.0,) * 6,
        ),
        ActionComponent(
            name="gripper",
            dim=1,
            kind="other",
            mode="absolute",
            delta_base=None,
            unit="1",
            frame=None,
            rotation=None,
            gripper=None,
            low=(-1.0,),
            high=(1.0,),
        ),
    ),
)
GOOD = [0.0] * 7


def _refused(vectors: Any, *, code: str = "invalid_action") -> str:
    with pytest.raises(PolicyFault) as caught:
        validate_chunk(vectors, SPEC, max_rows=256)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.0001, -1.0001, 1e308])
def test_a_bad_number_in_row_3_is_named_with_its_component(value: float) -> None:
    rows = [list(GOOD) for _ in range(5)]
    rows[3][2] = value
    message = _refused(rows)
    assert "row 3, delta[2]" in message
    assert "nothing of the chunk was executed" in message


@pytest.mark.parametrize("value", [True, "nan", None, 1j])
def test_what_is_no_number_is_refused(value: Any) -> None:
    rows = [list(GOOD) for _ in range(5)]
    rows[3][6] = value
    assert "row 3, gripper[0]" in _refused(rows)


def test_the_bounds_themselves_are_legal() -> None:
    assert validate_chunk([[1.0] * 7, [-1.0] * 7], SPEC, max_rows=2).shape == (2, 7)


def test_one_ulp_beyond_a_bound_is_refused_not_clipped() -> None:
    _refused([[float(np.nextafter(1.0, 2.0))] + [0.0] * 6])


def test_a_bad_value_in_the_tail_rejects_the_whole_chunk() -> None:
    rows = np.zeros((30, 7))
    rows[29, 0] = 2.0
    assert "row 29" in _refused(rows)


def test_six_values_are_refused_with_the_row() -> None:
    assert "row 0: expected 7 values, got 6" in _refused([[0.0] * 6])


def test_an_empty_chunk_is_refused() -> None:
    _refused([])
    _refused(np.zeros((0, 7)))


def test_too_many_rows_are_refused() -> None:
    assert "1 to 256 rows, got 257" in _refused(np.zeros((257, 7)))


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.complex128, object, ">f8", np.float16])
def test_arrays_of_other_types_are_refused(dtype: Any) -> None:
    assert "dtype" in _refused(np.zeros((1, 7), dtype=dtype))


@pytest.mark.parametrize("vectors", [None, "rows", 3.0, {"a": 1}])
def test_what_is_no_chunk_at_all_is_a_schema_fault(vectors: Any) -> None:
    _refused(vectors, code="invalid_response_schema")


def test_float32_is_compared_in_float32() -> None:
    narrow = ActionSpec(
        control_hz=20.0,
        dim=1,
        components=(
            ActionComponent(
                name="x",
                dim=1,
                kind="other",
                mode="delta",
                delta_base="step",
                unit="m",
                frame=None,
                rotation=None,
                gripper=None,
                low=(-0.05,),
                high=(0.05,),
            ),
        ),
    )
    value = np.array([[0.05]], dtype=np.float32)
    assert validate_chunk(value, narrow, max_rows=1).shape == (1, 1)
    with pytest.raises(PolicyFault):
        validate_chunk([[float(value[0, 0])]], narrow, max_rows=1)


def test_an_array_that_lies_when_compared_is_checked_as_a_plain_copy() -> None:
    class Liar(np.ndarray):
        def __le__(self, other: Any) -> Any:
            return np.ones(self.shape, dtype=bool)

        __ge__ = __le__

    _refused(np.full((1, 7), 5.0).view(Liar))
    mine = np.zeros((1, 7))
    checked = validate_chunk(mine, SPEC, max_rows=1)
    mine[:] = 9.0
    assert checked.max() == 0.0


class Unshowable:
    def __repr__(self) -> str:
        raise SystemExit("not to be called")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "got True"), (None, "got None"), ("nan", "got 'nan'"), ("x" * 10**6, f"got '{'x' * 40}'..."),
        ([0] * 10**6, "got list"), (np.zeros((99, 99)), "got ndarray"), (b"1", "got bytes"),
        (Unshowable(), "got Unshowable"),
    ],
)  # fmt: skip
def test_what_stands_in_the_place_of_a_number_is_told_in_a_few_words(value: Any, told: str) -> None:
    with pytest.raises(PolicyFault) as caught:
        validate_chunk([[value, *[0.0] * 6]], SPEC, max_rows=1)
    assert told in caught.value.message
    assert len(caught.value.message) < 160


@pytest.mark.parametrize("rows", [2**40, 2**27, 257])
def test_an_array_that_claims_more_rows_than_any_memory_holds_is_refused_unread(rows: int) -> None:
    claimed = np.broadcast_to(np.zeros(SPEC.dim), (rows, SPEC.dim))
    with pytest.raises(PolicyFault, match=f"expected 1 to 256 rows, got {rows}") as caught:
        validate_chunk(claimed, SPEC, max_rows=256)
    assert caught.value.code == "invalid_action"


def test_a_claimed_stack_of_chunks_is_refused_unread() -> None:
    with pytest.raises(PolicyFault, match="got shape"):
        validate_chunk(np.broadcast_to(np.zeros(SPEC.dim), (1, 2**40, SPEC.dim)), SPEC, max_rows=256)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_there_is_no_limit_every_finite_number_is_legal_and_nothing_else(dtype: type) -> None:
    component = SPEC.components[1].model_copy(update={"low": (None,), "high": (None,), "bounds_reason": "unlimited"})
    spec = ActionSpec(control_hz=20.0, dim=1, components=(component,))
    most = np.finfo(dtype).max
    rows = np.array([[most], [-most], [0.0]], dtype=dtype)
    assert validate_chunk(rows, spec, max_rows=3).tolist() == [[float(most)], [-float(most)], [0.0]]
    for value in (np.inf, -np.inf, np.nan):
        with pytest.raises(PolicyFault, match=r"row 0, gripper\[0\]: expected a finite number"):
            validate_chunk(np.array([[value]], dtype=dtype), spec, max_rows=3)
