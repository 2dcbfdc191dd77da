"""A registered rule stops where its numbers say, at a registered look, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from trialplate.scoring.stopping import Block, Pair, apply_rule
from trialplate.spec.stopping import StoppingPlan

A, B, BOTH = (True, False), (False, True), (True, True)


def _blocks(pairs: Sequence[Pair | None], planned: int | None = None) -> list[Block]:
    left = 0 if planned is None else planned - len(pairs)
    return [Block(True, pair) for pair in pairs] + [Block(False, None)] * left


def _plan(**members: Any) -> StoppingPlan:
    given = {"kind": "e_process", "arms": ("a", "b"), "looks": "each"} | members
    kind = {"alternative": "two-sided"} if given["kind"] == "e_process" else {"spending": "obrien-fleming"}
    return StoppingPlan.model_validate(kind | given)


def test_the_e_process_stops_at_the_first_pair_whose_e_value_reaches_one_over_alpha() -> None:
    found = apply_rule(_plan(), _blocks([A] * 20))
    # 2^m B(1 + m, 1) = 2^m / (m + 1): 16 / 8 = 2 at m = 4 ... 256 / 9 = 28.4 at m = 8, 128 / 8 = 16 at m = 7
    assert (found.stopped_after, found.why, found.favours) == (8, "rejected", "a")
    assert found.looks[-1].statistic == pytest.approx(math.log(256 / 9))
    assert found.looks[-1].bound == pytest.approx(math.log(20))
    assert found.p_value == pytest.approx(9 / 256)


def test_it_stops_for_the_other_arm_only_when_it_looks_at_both_sides() -> None:
    assert apply_rule(_plan(), _blocks([B] * 20)).favours == "b"
    assert apply_rule(_plan(alternative="greater"), _blocks([B] * 20)).stopped_after is None


def test_concordant_and_unmeasured_pairs_pass_by_without_evidence() -> None:
    found = apply_rule(_plan(), _blocks([A, BOTH, None] * 8))
    assert found.stopped_after == 7 * 3 + 1
    assert (found.looks[-1].pairs, found.looks[-1].only_a) == (15, 8)


def test_it_is_not_looked_between_the_registered_looks() -> None:
    assert apply_rule(_plan(looks=(5, 12, 20)), _blocks([A] * 20)).stopped_after == 12


def test_a_look_waits_for_every_block_before_it() -> None:
    blocks = _blocks([A] * 20)
    blocks[6] = Block(False, None)
    found = apply_rule(_plan(), blocks)
    assert (len(found.looks), found.stopped_after) == (6, None)


def test_what_comes_behind_a_stop_changes_nothing() -> None:
    assert apply_rule(_plan(), _blocks([A] * 8, 40)) == apply_rule(_plan(), _blocks([A] * 8 + [B] * 32))


def test_group_sequential_looks_have_the_published_bounds() -> None:
    plan = _plan(kind="group_sequential", looks=(20, 40, 60))
    found = apply_rule(plan, _blocks([A, B] * 30))
    assert [look.bound for look in found.looks] == pytest.approx([3.7103, 2.5114, 1.9930], abs=5e-5)
    assert [look.statistic for look in found.looks] == [0.0, 0.0, 0.0]
    assert found.stopped_after is None
    assert found.p_value is None


def test_group_sequential_looks_stop_where_z_reaches_its_bound() -> None:
    plan = _plan(kind="group_sequential", looks=(20, 40, 60))
    assert apply_rule(plan, _blocks([A] * 60)).stopped_after == 20  # z = sqrt(20) = 4.47
    third = apply_rule(plan, _blocks([BOTH] * 20 + [B] * 5 + [BOTH] * 35))  # z = -sqrt(5) = -2.236
    assert (third.stopped_after, third.favours) == (60, "b")


def test_a_look_without_a_new_pair_is_not_taken() -> None:
    plan = _plan(kind="group_sequential", looks=(20, 40, 60))
    found = apply_rule(plan, _blocks([None] * 20 + [BOTH] * 40))
    assert [(look.pairs, look.statistic) for look in found.looks] == [(0, None), (20, None), (40, None)]
    assert found.looks[0].bound is None
    assert found.looks[1].bound is not None


def test_a_run_that_can_no_longer_reject_ends_only_where_that_is_registered() -> None:
    blocks = _blocks([BOTH] * 13, 20)  # 7 blocks left: at most e = 16
    assert apply_rule(_plan(), blocks).stopped_after is None
    found = apply_rule(_plan(futility="out_of_reach"), blocks)
    assert (found.stopped_after, found.why, found.favours) == (13, "out_of_reach", None)
    groups = _plan(kind="group_sequential", looks=(20, 40, 60), futility="out_of_reach")
    assert apply_rule(groups, _blocks([A, B] * 20, 60)).stopped_after is None  # 20 of 60 could still be A's: z = 3.2
    assert apply_rule(groups, _blocks([BOTH] * 57, 60)).stopped_after is None
    late = _plan(kind="group_sequential", looks=(20, 58, 60), futility="out_of_reach")
    assert apply_rule(late, _blocks([BOTH] * 58, 60)).why == "out_of_reach"  # z is at most sqrt(2)


def test_the_last_look_of_all_is_no_early_end() -> None:
    assert apply_rule(_plan(futility="out_of_reach", looks=(20,)), _blocks([BOTH] * 20)).stopped_after is None


def test_why_a_run_stopped_is_said_in_one_line() -> None:
    found = apply_rule(_plan(), _blocks([A] * 20))
    assert found.sentence() == (
        "e_process, rejected at the look after 8 of 20 blocks: 8 of 8 pairs passed by a alone, 0 by b alone"
    )
    with pytest.raises(ValueError, match="did not stop"):
        apply_rule(_plan(), _blocks([], 20)).sentence()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"alternative": None}, "alternative: kind 'e_process' needs it"),
        ({"spending": "pocock"}, "spending: has no use with kind 'e_process'"),
        ({"kind": "group_sequential"}, "needs a list of at most 20"),
        ({"looks": (5, 5)}, "expected increasing numbers"),
        ({"looks": ()}, "at least 1 item"),
        ({"alpha": 0.5}, "less than 0.5"),
    ],
)
def test_a_rule_that_says_too_little_or_too_much_is_refused(members: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _plan(**members)
