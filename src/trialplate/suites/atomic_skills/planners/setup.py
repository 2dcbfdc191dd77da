"""The suite's own grasp before a plan, for skills that start with a held object; the same for every planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trialplate.suites.atomic_skills.rigid import FloatArray


def setup_rows(case: Mapping[str, Any]) -> FloatArray:
    """Return the rows (n, dof) of the set-up, none where nothing is held."""
    return np.zeros((0, len(case["q_start"])))
