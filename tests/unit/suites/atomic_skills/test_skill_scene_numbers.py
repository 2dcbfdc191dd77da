from __future__ import annotations

import json

from trialplate.canonical import canonical_json
from trialplate.suites.atomic_skills.expected_scene import differences


def test_a_readback_that_was_stored_is_still_the_one_that_was_applied() -> None:
    applied = {"gravity_m_s2": [0.0, 0.0, -9.81], "impratio": 10.0, "constraints": 0}
    stored = json.loads(canonical_json(applied))
    assert list(differences(applied, stored, pointer="")) == []


def test_a_truth_value_is_no_number_and_another_number_is_another() -> None:
    assert list(differences({"n": 1, "m": 1.0}, {"n": True, "m": 1.5}, pointer="")) == [
        ("/m", 1.0, 1.5), ("/n", 1, True),
    ]  # fmt: skip
