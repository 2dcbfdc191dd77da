from __future__ import annotations

from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.claims.wording import BLOCKERS as WORDED
from trialplate.errors import StatsInputError
from trialplate.stats import BLOCKERS, gate_claim, gate_leadership, tango_interval, verdict

JUST_ABOVE, JUST_BELOW = nextafter(0.0, 1.0), nextafter(1.0, 0.0)
MARGIN = 0.03
CLEARS = nextafter(-MARGIN, 0.0)
GOOD = {
    "superiority": {"percentile_low": JUST_ABOVE, "t_low": JUST_ABOVE},
    "non_inferiority": {"percentile_low": CLEARS, "t_low": CLEARS, "tango_low": CLEARS, "margin": MARGIN},
    "efficiency": {"percentile_high": JUST_BELOW, "t_high": JUST_BELOW},
}
FAILS = [
    ("superiority", "percentile_low", 0.0, "percentile_bound"),
    ("superiority", "t_low", 0.0, "t_bound"),
    ("non_inferiority", "percentile_low", -MARGIN, "percentile_bound"),
    ("non_inferiority", "t_low", -MARGIN, "t_bound"),
    ("non_inferiority", "tango_low", -MARGIN, "tango_bound"),
    ("efficiency", "percentile_high", 1.0, "percentile_bound"),
    ("efficiency", "t_high", 1.0, "t_bound"),
]


@pytest.mark.parametrize("claim", sorted(GOOD))
def test_a_claim_is_supported_when_every_bound_clears_by_one_ulp_with_ten_families(claim):
    assert gate_claim(claim, 10, **GOOD[claim]).status == "supported"
    short = gate_claim(claim, 9, **GOOD[claim])
    assert (short.status, short.reasons) == ("ineligible", ("few_families",))


@pytest.mark.parametrize(("claim", "bound", "value", "reason"), FAILS)
def test_a_bound_that_only_touches_the_limit_fails(claim, bound, value, reason):
    result = gate_claim(claim, 10, **(GOOD[claim] | {bound: value}))
    assert (result.status, result.reasons) == ("not_supported", (reason,))


@pytest.mark.parametrize(("claim", "bound", "value", "reason"), FAILS)
def test_a_null_bound_fails_except_where_no_family_varies(claim, bound, value, reason):
    result = gate_claim(claim, 10, **(GOOD[claim] | {bound: None}))
    if (claim, bound) == ("non_inferiority", "t_low"):
        assert result.status == "supported"
    else:
        assert (result.status, result.reasons) == ("not_supported", (reason,))


def test_without_a_t_bound_superiority_asks_the_sign_flip_test():
    bounds = {"percentile_low": 0.1, "t_low": None}
    assert gate_claim("superiority", 10, **bounds, sign_flip_p=0.05).status == "supported"
    assert gate_claim("superiority", 10, **bounds, sign_flip_p=nextafter(0.05, 1.0)).reasons == ("t_bound",)
    assert gate_claim("superiority", 10, **bounds, sign_flip_p=0.03, alpha=0.02).reasons == ("t_bound",)
    assert gate_claim("superiority", 10, percentile_low=0.1, t_low=-0.1, sign_flip_p=0.001).reasons == ("t_bound",)


@pytest.mark.parametrize("blocker", BLOCKERS)
@pytest.mark.parametrize("claim", sorted(GOOD))
def test_a_blocker_makes_any_claim_ineligible_whatever_its_bounds(claim, blocker):
    result = gate_claim(claim, 10, **GOOD[claim], blockers=[blocker, blocker])
    assert (result.status, result.reasons) == ("ineligible", (blocker,))
    unsupported = gate_claim(claim, 3, blockers=["integrity"], margin=MARGIN)
    assert unsupported.reasons == ("few_families", "integrity")


def test_undefined_draws_bar_efficiency_and_nothing_else():
    for claim, bounds in GOOD.items():
        result = gate_claim(claim, 10, **bounds, undefined_draws=1)
        assert (result.status == "ineligible") == (claim == "efficiency")
    assert gate_claim("efficiency", 10, **GOOD["efficiency"], undefined_draws=1).reasons == ("undefined_draws",)


@pytest.mark.parametrize(("pairs", "status"), [(5, "not_supported"), (124, "not_supported"), (125, "supported")])
def test_two_identical_policies_are_not_called_no_worse_from_a_handful_of_pairs(pairs, status):
    low = tango_interval(0, 0, n=pairs).low
    found = gate_claim("non_inferiority", 12, percentile_low=0.0, percentile_high=0.0, tango_low=low, margin=MARGIN)
    assert found.status == status


def test_every_blocker_that_has_words_is_known_here_and_none_is_without():
    assert set(BLOCKERS) == set(WORDED)


@pytest.mark.parametrize(
    "wrong",
    [
        {"claim": "leadership"},
        {"claim": "non_inferiority"},
        {"claim": "non_inferiority", "margin": 0.0},
        {"claim": "superiority", "blockers": ["bad_luck"]},
        {"claim": "superiority", "t_low": float("nan")},
        {"claim": "superiority", "undefined_draws": -1},
        {"claim": "superiority", "sign_flip_p": 1.5},
    ],
)
def test_a_claim_that_is_not_one_is_refused(wrong):
    with pytest.raises(StatsInputError):
        gate_claim(wrong.pop("claim"), 10, **wrong)


def finding(competitor, **changed):
    return {"competitor": competitor, "cost": "supported", "time": "supported", "non_inferior": "supported"} | changed


@pytest.mark.parametrize("part", ["cost", "time", "non_inferior"])
def test_leadership_needs_every_part_against_every_competitor(part):
    assert gate_leadership([finding("b"), finding("c")], 20).status == "supported"
    missed = gate_leadership([finding("b"), finding("c", **{part: "not_supported"})], 20)
    assert (missed.status, missed.reasons, missed.not_cleared) == (
        "not_supported",
        ("competitor_not_cleared",),
        ("c",),
    )
    barred = gate_leadership([finding("b", **{part: "ineligible"}), finding("c", cost="not_supported")], 20)
    assert (barred.status, barred.reasons, barred.not_cleared) == (
        "ineligible",
        ("competitor_ineligible",),
        ("b", "c"),
    )


@pytest.mark.parametrize(
    ("families", "status", "flags"),
    [(20, "supported", ()), (19, "supported", ("few_families",)), (10, "supported", ("few_families",)),
     (9, "ineligible", ("few_families",))],
)  # fmt: skip
def test_leadership_from_few_families_carries_a_flag_and_from_fewer_is_none(families, status, flags):
    result = gate_leadership([finding("b")], families)
    assert (result.status, result.flags) == (status, flags)


@pytest.mark.parametrize(
    "findings", [[finding("b"), finding("b")], [{"competitor": "b"}], [finding("b", cost="maybe")], ["b"]]
)
def test_findings_that_are_none_are_refused(findings):
    with pytest.raises(StatsInputError, match="findings"):
        gate_leadership(findings, 20)


@given(st.booleans(), st.booleans(), st.booleans(), st.one_of(st.none(), st.floats(0, 1)))
def test_one_of_four_verdicts_is_given_and_power_speaks_where_nothing_was_found(comparable, better, worse, power):
    if comparable and better and worse:
        with pytest.raises(StatsInputError, match="both directions"):
            verdict(comparable, better_supported=better, worse_supported=worse, power=power)
        return
    result = verdict(comparable, better_supported=better, worse_supported=worse, power=power)
    wanted = ("BETTER" if better else "WORSE" if worse else "NOT_DISTINGUISHED") if comparable else "NOT_COMPARABLE"
    assert result.verdict == wanted
    if wanted == "NOT_DISTINGUISHED" and power is not None:
        assert result.underpowered == (power < 0.8)
    else:
        assert result.underpowered is None


def test_a_verdict_wants_plain_truth_values():
    with pytest.raises(StatsInputError, match="comparable"):
        verdict(1, better_supported=True, worse_supported=False)
