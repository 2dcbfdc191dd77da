"""Registered comparisons: one index matrix, both bounds, and the one word that they license."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from attempts import STAGES, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate import stats
from trialplate.canonical import canonical_json
from trialplate.record import Conduct, Outcome, Status
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.comparisons import Comparison
from trialplate.scoring.family_evidence import arm_totals, control_us, cost_n
from trialplate.scoring.stopping import Stopping
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.plan import AnalysisPlan
from trialplate.testing.toy import ACTION

AB = (("a", "b"),)


def arm(name: str, statuses: list[str], *, per_family: int = 1, **changes: Any) -> list[Outcome]:
    return [outcome(name, n, s, family=f"f-{n // per_family:03d}", **changes) for n, s in enumerate(statuses)]


def analyse(*arms: list[Outcome], **plan: Any) -> Analysis:
    rows = [o for one in arms for o in one]
    planned = {name: sum(o.arm == name for o in rows) for name in dict.fromkeys(o.arm for o in rows)}
    registered = AnalysisPlan(**({"comparisons": AB} | plan))
    return analyse_outcomes(rows, planned=planned, stages=STAGES, plan=registered, action=ACTION)


def compared(a: list[str], b: list[str], *, per_family: int = 1, **plan: Any) -> Comparison:
    found = analyse(arm("a", a, per_family=per_family), arm("b", b, per_family=per_family), **plan)
    return found.comparisons[0]


def conduct(cost: float | None, *, reason: str | None = None) -> Conduct:
    usage = None if reason else {"requests": 1, "input_tokens": 1, "output_tokens": 1, "cost": cost}
    return Conduct(
        calls=1, calls_executed=1, calls_rejected=0, short_chunks=0, rows_proposed=1, rows_executed=1, rows_dropped=0,
        rows_discarded=0, usage=usage, usage_reason=reason, echo="harness", action_low=None, action_high=None,
    )  # fmt: skip


WON = ["PASS"] * 36 + ["FAIL"] * 4
LOST = ["PASS"] * 12 + ["FAIL"] * 28


def test_a_clear_lead_is_better_and_seen_from_the_other_side_worse() -> None:
    there, back = compared(WON, LOST), compared(LOST, WON)
    assert (there.verdict, there.not_better, there.underpowered) == ("BETTER", (), None)
    assert (back.verdict, back.not_worse) == ("WORSE", ())
    assert set(there.not_worse) == {"percentile_bound", "t_bound"}
    assert there.families.low is not None and there.families.low > 0 and there.differs == ()


def test_the_bounds_are_those_of_the_bootstrap_of_two_arms_alone() -> None:
    """Golden: ten families of ten, 5 points apart; sources agree on [0, .10] and sign-flip p .1796875."""
    k_a, k_b = [9, 7, 8, 10, 6, 10, 8, 7, 9, 8], [8, 8, 7, 9, 5, 9, 9, 6, 9, 7]
    made = [["PASS" if n < k else "FAIL" for k in ks for n in range(10)] for ks in (k_a, k_b)]
    found = compared(*made, per_family=10)
    own = stats.paired_family_bootstrap([10] * 10, k_a, cost_a=None, n_b=[10] * 10, k_b=k_b, cost_b=None)
    assert found.families.difference == pytest.approx(0.05) and found.families.families == 10
    assert (found.families.low, found.families.high) == (own.difference_low, own.difference_high)
    assert found.families.low == 0.0 and found.families.high == pytest.approx(0.10)
    assert found.families.p_value == 0.1796875 and found.families.equal_sizes
    assert (found.families.t_low, found.families.t_high) == (own.difference_t.low, own.difference_t.high)
    assert found.verdict == "NOT_DISTINGUISHED" and found.not_better == ("percentile_bound", "t_bound")


def test_the_stream_of_the_draws_is_stored_with_the_analysis() -> None:
    found = analyse(arm("a", WON), arm("b", LOST), seed=7, draws=4000)
    stream = stats.index_stream_digest(7, 4000, families=40)
    assert found.resampling is not None and found.resampling.sha256_int64_le == stream.sha256_int64_le
    assert (found.resampling.families, found.resampling.draws, found.resampling.seed) == (40, 4000, 7)
    assert analyse(arm("a", WON), arm("b", LOST), comparisons=()).resampling is None


def test_adding_an_arm_or_reordering_episodes_changes_no_number() -> None:
    a, b, c = arm("a", WON), arm("b", LOST), arm("c", ["PASS", "FAIL"] * 20)
    alone = analyse(a, b)
    shuffled = random.Random(3).sample(a + b, 80)
    planned = {"a": 40, "b": 40}
    assert analyse_outcomes(shuffled, planned=planned, stages=STAGES, plan=alone.plan, action=ACTION) == alone
    assert analyse(a, b, c).comparisons == alone.comparisons


def test_several_comparisons_share_the_error_rate() -> None:
    a, b, c = arm("a", WON), arm("b", LOST), arm("c", ["PASS", "FAIL"] * 20)
    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    found = analyse(a, b, c, comparisons=pairs, draws=6000)
    raw = [one.p_value for one in found.comparisons]
    assert [one.adjusted_p for one in found.comparisons] == list(stats.adjust_pvalues(raw, method="holm").value)
    assert {one.confidence for one in found.comparisons} == {float(1 - Fraction("0.05") / 3)}
    single = analyse(a, b, c, comparisons=pairs, draws=6000, multiplicity="none")
    assert single.comparisons[0].confidence == 0.95 and single.comparisons[0].adjusted_p == raw[0]
    assert single.comparisons[0].families.low >= found.comparisons[0].families.low  # type: ignore[operator]


def test_a_pair_registered_both_ways_counts_once() -> None:
    plan = AnalysisPlan(comparisons=(("a", "b"), ("b", "a")))
    assert (plan.compared, plan.pair_confidence, plan.draws_needed) == (1, 0.95, 2000)
    there, back = analyse(arm("a", WON), arm("b", LOST), comparisons=plan.comparisons).comparisons
    assert (there.verdict, back.verdict) == ("BETTER", "WORSE")
    assert there.families.b_low == back.families.low and there.adjusted_p == back.adjusted_p == there.p_value


def test_nine_families_support_nothing_and_are_underpowered() -> None:
    nine, ten = compared(["PASS"] * 9, ["FAIL"] * 9), compared(["PASS"] * 10, ["FAIL"] * 10)
    assert nine.verdict == "NOT_DISTINGUISHED" and nine.underpowered is True
    assert nine.not_better == ("few_families",) == nine.not_worse
    assert ten.verdict == "BETTER"  # no family varies: the sign-flip test takes the place of the t bound
    assert ten.families.t_low is None and ten.families.t_reason == "no_between_family_variation"


def test_two_arms_that_never_differ_are_not_distinguished() -> None:
    found = compared(["PASS"] * 30, ["PASS"] * 30)
    assert (found.families.low, found.families.high, found.verdict) == (0.0, 0.0, "NOT_DISTINGUISHED")
    assert found.low is not None and found.low < 0.0 and found.families.p_value == 1.0


def test_an_error_of_the_arm_that_lost_keeps_the_other_from_a_lead_and_its_own_does_not() -> None:
    theirs = compared(WON, ["ERROR", *LOST[1:]])
    assert theirs.verdict == "NOT_DISTINGUISHED" and theirs.not_better == ("missing_data",)
    own = compared([*WON[:-1], "ERROR"], LOST)
    assert own.verdict == "BETTER" and own.errored == 1 and own.error_high == own.difference + 1 / 40  # type: ignore[operator]


def test_a_trial_without_partner_keeps_both_sides_from_a_lead() -> None:
    found = compared(WON, [*LOST[:-1], "EXCLUDED"])
    assert found.verdict == "NOT_DISTINGUISHED" and "incomplete_coverage" in found.not_better
    assert "incomplete_coverage" in found.not_worse and found.difference is not None


def excluded(
    name: str, statuses: list[str], *, reason: str = "unsupported_capability", steps: int = 0
) -> list[Outcome]:
    """Return an arm whose first two trials were excluded, without a recording where no step was made."""
    out = {"status": Status.EXCLUDED, "reason": reason, "control_steps": steps, "stages": ()}
    if not steps:
        out |= {"trace_content_sha256": None, "initial_state_sha256": None}
    rows = arm(name, statuses, conduct=conduct(0.5))
    return [replace(row, **out) for row in rows[:2]] + rows[2:]  # type: ignore[arg-type]


@pytest.mark.parametrize("denominator", ["measured", "valid"])
def test_a_trial_excluded_for_both_alike_is_no_pair_and_keeps_neither_from_a_lead(denominator: str) -> None:
    found = analyse(excluded("a", WON), excluded("b", LOST), denominator=denominator).comparisons[0]
    assert (found.pairs, found.unmatched, found.excluded) == (38, 0, 2)
    assert found.verdict == "BETTER" and found.families.families == 38
    assert found.families.cost.high is not None and found.families.time.high is not None
    assert found.families.difference == found.difference == 24 / 38


def test_the_registered_rule_on_everything_started_counts_what_was_excluded_for_both() -> None:
    found = analyse(excluded("a", WON), excluded("b", LOST), denominator="initiated").comparisons[0]
    assert (found.pairs, found.unmatched, found.excluded) == (40, 0, 0)
    assert found.not_better == ("missing_data",)


@pytest.mark.parametrize(
    "other",
    [
        arm("b", LOST),
        excluded("b", LOST, reason="reset_failed"),
        excluded("b", LOST, steps=7),
        arm("b", ["ERROR", "ERROR", *LOST[2:]], reason="unsupported_capability", control_steps=0),
    ],
    ids=["one side", "another rule", "after control", "errored"],
)
def test_a_trial_that_was_not_excluded_for_both_alike_keeps_both_from_a_lead(other: list[Outcome]) -> None:
    found = analyse(excluded("a", WON), other).comparisons[0]
    assert (found.unmatched, found.excluded) == (2, 0) and found.verdict == "NOT_DISTINGUISHED"
    assert "incomplete_coverage" in found.not_better and "incomplete_coverage" in found.not_worse


@pytest.mark.parametrize("reason", ["policy_exception", "contract_mismatch", "connect_failed"])
def test_what_an_arm_did_excludes_no_trial_for_both_alike(reason: str) -> None:
    found = analyse(excluded("a", WON, reason=reason), excluded("b", LOST, reason=reason)).comparisons[0]
    assert (found.unmatched, found.excluded) == (2, 0) and "incomplete_coverage" in found.not_better


def test_an_arm_run_as_another_one_is_no_side_of_a_verdict() -> None:
    other = [replace(o, identity="exploratory") for o in arm("b", LOST)]
    found = analyse(arm("a", WON), other).comparisons[0]
    assert found.verdict == "NOT_DISTINGUISHED" and found.not_better == ("exploratory_registration",)


@pytest.mark.parametrize(
    ("b", "listed"),
    [
        (arm("b", LOST, initial_state_sha256="0" * 63 + "z"), "initial state: another one in 40 of 40 pairs"),
        ([outcome("b", n + 100, s) for n, s in enumerate(LOST)], "trials: none was counted on both sides"),
        ([*arm("b", LOST[:-1]), outcome("b", 39, "FAIL", reason="identity_changed")], "state of b: ERROR"),
    ],
    ids=["starts", "trials", "identity"],
)
def test_what_differs_is_listed_and_nothing_is_estimated(b: list[Outcome], listed: str) -> None:
    found = analyse(arm("a", WON), b).comparisons[0]
    assert found.verdict == "NOT_COMPARABLE" and found.differs[0].startswith(listed)
    assert found.families.difference is found.difference is found.adjusted_p is None
    assert found.families.cost.reason == found.reason == found.families.reason is not None


def test_single_pairs_as_the_unit_need_the_exact_test_too() -> None:
    a = ["PASS"] * 5 + ["FAIL"] * 7
    b = ["FAIL"] * 12
    family, episode = compared(a, b), compared(a, b, unit="episode")
    assert family.p_value == 0.0625 and family.verdict == "BETTER"
    assert episode.verdict == "NOT_DISTINGUISHED" and episode.not_better == ("exact_test",)
    assert compared(WON, LOST, unit="episode").verdict == "BETTER"


def test_the_power_is_that_of_the_registered_effect_at_the_actual_number_of_pairs() -> None:
    even = ["PASS", "FAIL"] * 20
    registered = {"registered_effect": 0.10, "registered_discordance": 0.20}
    found = compared(even, even, **registered)
    power = stats.mcnemar_power(40, 0.15, p01=0.05).value
    assert (found.detection.power, found.detection.needed, found.detection.n) == (power, 168, 40)
    assert found.underpowered is True and found.detection.discordance_from == "registered"
    assert compared(even, even, **registered, target_power=0.1).underpowered is False
    silent = compared(even, even)
    assert silent.underpowered is None and silent.detection.power is None and silent.detection.needed is None
    twice = compared(even, even, **registered, design_effect=2.0).detection
    assert twice.needed == 336 and twice.power == stats.mcnemar_power(20, 0.15, p01=0.05).value
    lopsided = compared(WON, LOST, **registered)
    assert (lopsided.detection.power, lopsided.detection.needed) == (power, 168)  # whatever was observed


def test_the_smallest_difference_takes_the_registered_discordance_or_says_that_it_took_the_observed_one() -> None:
    observed = compared(WON, LOST).detection
    assert observed.discordance == 24 / 40 and observed.discordance_from == "observed"
    expected = stats.minimum_detectable_difference(40, 0.6)
    assert (observed.detectable, observed.detectable_reason) == (expected.value, None)
    fixed = compared(WON, LOST, registered_discordance=0.3).detection
    assert fixed.detectable == stats.minimum_detectable_difference(40, 0.3).value
    none = compared(["PASS"] * 12, ["PASS"] * 12).detection
    assert none.detectable is None and none.detectable_reason == "out_of_reach"


def test_cost_and_time_are_whole_numbers_and_unknown_is_not_zero() -> None:
    paid = outcome("a", 0, conduct=conduct(0.1), control_steps=7)
    assert cost_n(paid) == 100_000_000 and control_us(paid, 20.0) == 350_000 and control_us(paid, 30.0) == 233_333
    assert cost_n(outcome("a", 0, conduct=conduct(None, reason="not_applicable"))) == 0  # nothing was asked
    for unknown in (conduct(None), conduct(None, reason="not_metered"), None):
        assert cost_n(outcome("a", 0, conduct=unknown)) is None
    assert control_us(outcome("a", 0, trace_content_sha256=None), 20.0) is None and control_us(paid, None) is None


def test_one_unknown_cost_leaves_the_arm_without_a_cost_ratio_and_its_time_as_it_was() -> None:
    a = arm("a", WON, conduct=conduct(0.5), control_steps=100)
    b = arm("b", LOST, conduct=conduct(1.0), control_steps=200)
    known = analyse(a, b).comparisons[0].families
    assert known.cost.ratio == float(Fraction(40 * 1, 2) / 36 / (Fraction(40) / 12)) and known.cost.reason is None
    assert known.time.high is not None and known.time.high < 1 and known.time.t_high < 1  # type: ignore[operator]
    less = analyse([*a[:-1], replace(a[-1], conduct=conduct(None))], b).comparisons[0].families
    assert (less.cost.ratio, less.cost.reason, less.cost.undefined_draws) == (None, "unknown_total", 0)
    assert less.time == known.time and less.difference == known.difference


def test_the_cost_of_an_attempt_that_does_not_count_is_paid_all_the_same() -> None:
    a = [outcome("a", n, s, conduct=conduct(1.0)) for n, s in enumerate(["PASS", "EXCLUDED", "ERROR"])]
    totals = arm_totals({"a": a}, plan=AnalysisPlan(denominator="valid"), control_hz=20.0)
    assert totals.table[:, 0, 0].sum() == 1 and totals.table[:, 0, 2].sum() == 3 * 10**9


def test_a_draw_without_a_success_is_counted_and_leaves_the_ratio_without_bounds() -> None:
    found = compared(["PASS"] * 12, ["PASS"] + ["FAIL"] * 11)
    assert found.families.time.undefined_draws > 0 and found.families.time.reason == "undefined_draws"
    assert found.families.time.low is None and found.families.time.ratio is not None


def stopped(*, favours: str | None, after: int | None = 30, planned: int = 60, arms: str = "ab") -> Stopping:
    why = None if after is None else "rejected" if favours else "out_of_reach"
    return Stopping(
        kind="e_process", a=arms[0], b=arms[1], planned=planned, looks=(), stopped_after=after, why=why,  # type: ignore[arg-type]
        favours=favours, p_value=0.01,  # type: ignore[arg-type]
    )  # fmt: skip


def under(stopping: Stopping, *arms: list[Outcome], **plan: Any) -> Analysis:
    rows = [o for one in arms for o in one]
    planned = {name: sum(o.arm == name for o in rows) for name in dict.fromkeys(o.arm for o in rows)}
    registered = AnalysisPlan(**({"comparisons": AB} | plan))
    return analyse_outcomes(
        rows, planned=planned, stages=STAGES, plan=registered, action=ACTION, stopping=stopping
    )  # fmt: skip


def test_where_a_rule_looked_its_rejection_decides_beside_the_bounds() -> None:
    a, b = arm("a", WON), arm("b", LOST)
    assert under(stopped(favours="a"), a, b).comparisons[0].verdict == "BETTER"
    back = under(stopped(favours="a"), a, b, comparisons=(("b", "a"),)).comparisons[0]
    assert back.verdict == "WORSE"  # whichever arm stands first
    for silent in (stopped(favours=None), stopped(favours=None, after=None), stopped(favours="b")):
        found = under(silent, a, b).comparisons[0]
        assert found.verdict == "NOT_DISTINGUISHED" and found.not_better == ("stopping_rule",)
    close = under(stopped(favours="a"), arm("a", WON), arm("b", WON)).comparisons[0]
    assert close.not_better == ("percentile_bound", "t_bound")  # a rejection alone is not enough either


def test_after_an_early_stop_only_the_pair_that_the_rule_looked_at_can_be_decided() -> None:
    a, b, c = arm("a", WON), arm("b", LOST), arm("c", LOST)
    plan = {"comparisons": (("a", "b"), ("a", "c")), "draws": 4000}
    early = under(stopped(favours="a"), a, b, c, **plan)
    assert [one.verdict for one in early.comparisons] == ["BETTER", "NOT_DISTINGUISHED"]
    assert early.comparisons[1].not_better == ("not_confirmatory",)
    whole = under(stopped(favours="a", after=60), a, b, c, **plan)
    assert [one.verdict for one in whole.comparisons] == ["BETTER", "BETTER"]
    assert early.document()["stopping"]["stopped_after"] == 30


def test_arms_that_see_other_things_are_not_compared() -> None:
    rows = arm("a", WON) + arm("b", LOST)
    found = analyse_outcomes(
        rows, planned={"a": 40, "b": 40}, stages=STAGES, plan=AnalysisPlan(comparisons=AB), action=ACTION,
        profiles={"a": "standard", "b": "wrist"},
    )  # fmt: skip
    assert found.comparisons[0].verdict == "NOT_COMPARABLE"
    assert found.comparisons[0].differs == ("profile: standard against wrist",)


def test_a_campaign_without_an_episode_has_no_comparison_to_make() -> None:
    plan = AnalysisPlan(comparisons=AB)
    found = analyse_outcomes([], planned={"a": 0, "b": 0}, stages=STAGES, plan=plan)
    assert found.resampling is None and found.comparisons[0].verdict == "NOT_COMPARABLE"
    assert found.comparisons[0].differs == ("trials: none was counted on both sides",)


WHOLE = """
import sys; sys.path[:0] = {path!r}
from test_verdicts import LOST, WON, analyse, arm
from trialplate.canonical import canonical_json, sha256_hex
three = [arm("a", WON, per_family=2), arm("b", LOST, per_family=2), arm("c", WON[::-1], per_family=2)]
found = analyse(*three, comparisons=(("a", "b"), ("a", "c"), ("b", "c")), draws=6000, registered_effect=0.1,
                registered_discordance=0.3)
print(sha256_hex(canonical_json(found.document())))
"""


def test_a_whole_analysis_has_the_same_bytes_on_one_thread_and_on_two() -> None:
    path = [str(Path(__file__).parent), *sys.path]
    digests = set()
    for threads in ("1", "2"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads)
        done = subprocess.run(
            [sys.executable, "-c", WHOLE.format(path=path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1 and len(digests.pop().strip()) == 64


statuses = st.lists(st.sampled_from(["PASS", "FAIL", "ERROR", "EXCLUDED"]), min_size=1, max_size=14)


@given(statuses, statuses, st.sampled_from(["initiated", "measured", "valid"]), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_whatever_came_out_the_comparison_is_a_document_and_mirrors(
    a: list[str], b: list[str], denominator: str, per_family: int
) -> None:
    made = analyse(
        arm("a", a, per_family=per_family), arm("b", b, per_family=per_family), denominator=denominator,
        comparisons=(("a", "b"), ("b", "a")),
    )  # fmt: skip
    canonical_json(made.document())  # neither NaN nor infinity
    there, back = made.comparisons
    mirrored = {"BETTER": "WORSE", "WORSE": "BETTER"}
    assert back.verdict == mirrored.get(there.verdict, there.verdict)
    assert (there.only_a, there.pairs, there.unmatched) == (back.only_b, back.pairs, back.unmatched)
    assert there.verdict != "BETTER" or there.families.families >= 10
