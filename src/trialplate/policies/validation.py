"""Whole-chunk validation: every row is checked before the first one runs. Nothing is ever repaired.

Source: policy contract, section 3, step 9.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import PolicyFault
from trialplate.spec.channels import ActionSpec


def validate_chunk(vectors: Any, spec: ActionSpec, *, max_rows: int) -> NDArray[np.float64]:
    """Return the chunk as float64 (n, dim), or raise PolicyFault (``invalid_action``).

    The message names row, component, value and rule. Bounds are inclusive and compared in the dtype received:
    a float32 value is held against bounds rounded to float32.
    """
    if isinstance(vectors, (np.ndarray, list, tuple)):
        _refuse_long(vectors, max_rows=max_rows)
    array = _as_floats(vectors, spec)
    if array.ndim != 2:
        raise _invalid(f"expected rows of {spec.dim} numbers, shape (n, {spec.dim}), got shape {array.shape}")
    rows, dim = array.shape
    if rows < 1 or rows > max_rows:
        raise _invalid(f"expected 1 to {max_rows} rows, got {rows}", rule="rows")
    if dim != spec.dim:
        raise _invalid(f"row 0: expected {spec.dim} values, got {dim}", row=0, rule="dim")
    low, high = _bounds(spec, array.dtype)
    legal = (array >= low) & (array <= high)  # NaN compares false
    if not legal.all():
        row, scalar = (int(index) for index in np.argwhere(~legal)[0])
        value, name = array[row, scalar], spec.scalar_name(scalar)
        rule = f"in [{spec.low[scalar]}, {spec.high[scalar]}]" if np.isfinite(value) else "a finite number"
        message = f"row {row}, {name}: expected {rule}, got {float(value)!r}"
        raise _invalid(message, row=row, component=name, rule=rule)
    return np.asarray(array, dtype=np.float64)


def _refuse_long(vectors: Any, *, max_rows: int) -> None:
    """Refuse too many rows before one is looked at: an array may claim more than any memory holds."""
    if isinstance(vectors, np.ndarray):
        shape: tuple[int, ...] = _shape(vectors)
        rows = shape[0] if shape else 0
        if len(shape) > 2:
            raise _invalid(f"expected rows of numbers, got shape {shape}")
    else:
        rows = len(vectors)
    if rows > max_rows:
        raise _invalid(f"expected 1 to {max_rows} rows, got {rows}", rule="rows")


_shape = np.ndarray.shape.__get__  # whatever a subclass would say
_FLOATS = (np.dtype("<f4"), np.dtype("<f8"))


@lru_cache(maxsize=64)
def _bounds(spec: ActionSpec, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return low and high of every scalar, rounded to the dtype of a chunk; no limit is the last finite one."""
    most = np.finfo(dtype).max
    low, high = np.asarray(spec.low, dtype=dtype), np.asarray(spec.high, dtype=dtype)
    return np.maximum(low, -most), np.minimum(high, most)


def _as_floats(vectors: Any, spec: ActionSpec) -> NDArray[Any]:
    if isinstance(vectors, np.ndarray):
        if vectors.dtype not in _FLOATS:
            raise _invalid(f"expected an array of float32 or float64, got dtype {vectors.dtype}")
        return np.array(
            vectors, copy=True, subok=False
        )  # ours from here on: an arm's subclass may compare as it likes
    if not isinstance(vectors, (list, tuple)):
        raise PolicyFault(f"expected rows of numbers, got {type(vectors).__name__}", code="invalid_response_schema")
    for row, values in enumerate(vectors):
        if not isinstance(values, (list, tuple)):
            kind = type(values).__name__
            raise _invalid(f"row {row}: expected a list of {spec.dim} numbers, got {kind}", row=row, rule="dim")
        if len(values) != spec.dim:
            raise _invalid(f"row {row}: expected {spec.dim} values, got {len(values)}", row=row, rule="dim")
        for scalar, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                name = spec.scalar_name(scalar)
                message = f"row {row}, {name}: expected a number, got {_shown(value)}"
                raise _invalid(message, row=row, component=name, rule="a finite number")
    if not vectors:
        raise _invalid("the chunk is empty; end an episode with Stop", rule="rows")
    return np.asarray(vectors, dtype=np.float64)


def _shown(value: Any) -> str:
    """Return what stands in the place of a number, in a few words whatever it is."""
    if type(value) is str:
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}..."
    return repr(value) if value is None or type(value) is bool else type(value).__name__


def _invalid(
    message: str, *, row: int | None = None, component: str | None = None, rule: str | None = None
) -> PolicyFault:
    return PolicyFault(
        f"{message}; nothing of the chunk was executed",
        code="invalid_action",
        row=row,
        component=component,
        rule=rule,
    )
