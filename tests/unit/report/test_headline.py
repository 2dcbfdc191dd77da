from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from made_campaign import full_report_data, report_data
from made_four_arms import ARMS, PAIRS, four_arm_data, four_arms

from trialplate import stats
from trialplate.claims import chart_wording
from trialplate.claims import wording as say
from trialplate.record import Outcome, Status
from trialplate.report import ReportData, render_report
from trialplate.report.answers import GAUGE_PX, answers
from trialplate.report.early import early_end, sequence_sentence
from trialplate.spec.plan import AnalysisPlan

ONE_PAIR = AnalysisPlan(comparisons=(("atlas-2", "birch"),))
E_PROCESS = {
    "kind": "e_process", "arms": ["atlas-2", "birch"], "looks": "each", "alpha": 0.05, "alternative": "two-sided",
}  # fmt: skip


def head(html: str) -> str:
    return unescape(html[: html.index("<nav")])


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def stopped(**changes: Any) -> ReportData:
    """Four arms whose run ends where the rule first rejects: nothing was run behind it."""
    everything = four_arm_data(rules=(), plan=ONE_PAIR, stopping=E_PROCESS | changes)
    found = everything.analysis.stopping
    assert found is not None and found.stopped_after is not None
    blocks = list(dict.fromkeys((t["scenario"], t["repeat"]) for t in everything.lock["schedule"]))
    run = set(blocks[: found.stopped_after])
    made = [o for o in everything.outcomes if (o.scenario, o.repeat) in run]
    return four_arm_data(made, planned=everything.outcomes, rules=(), plan=ONE_PAIR, stopping=E_PROCESS | changes)


def all_alike(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [replace(o, status=Status.FAIL, termination="step_limit") for o in outcomes]


def test_each_registered_comparison_is_one_line_at_the_top_before_anything_else() -> None:
    html = head(render_report(four_arm_data()))
    assert html.index('<ul class="answers"') < html.index('<p class="verdict') < html.index('<ul class="arms"')
    lines = re.findall(r'answer-line">.*?<span class="badge">([^<]*)</span></a> <strong>([^<]*)</strong>', html)
    assert lines == [
        ("▲ BETTER", "atlas-2 is better than birch"),
        ("◆ NOT DISTINGUISHED", "atlas-2 and dune are not told apart"),
        ("▲ BETTER", "cedar-mini is better than birch"),
    ]


def test_the_top_says_by_how_much_how_sure_and_on_what_it_rests() -> None:
    data = four_arm_data()
    text = plain(head(render_report(data)))
    for pair in data.analysis.comparisons:
        found = pair.families
        assert found.difference is not None and found.low is not None and found.high is not None
        assert found.t_low is not None and found.t_high is not None
        low, high = say.points(found.low, rounding="down"), say.points(found.high, rounding="up")
        t_low, t_high = say.points(found.t_low, rounding="down"), say.points(found.t_high, rounding="up")
        assert f"{say.points(found.difference)} points {pair.a} minus {pair.b}" in text
        assert f"interval {low} to {high} (bootstrap) and {t_low} to {t_high} (t)" in text
        assert f"204 pairs in 68 families · {pair.a} alone passed {pair.only_a}, {pair.b} alone {pair.only_b}" in text


def test_what_could_have_been_detected_stands_only_where_nothing_was_told_apart() -> None:
    data = four_arm_data()
    size = say.points(data.analysis.comparisons[1].detection.detectable or 0.0, rounding="up").removeprefix("+")
    shown = answers(data)
    assert [answer["detectable"] is not None for answer in shown] == [False, True, False]
    assert f"a difference of {size} points or more" in shown[1]["detectable"]


def test_the_other_way_round_the_arm_is_worse_with_the_sign_turned() -> None:
    one = answers(four_arm_data(rules=(), plan=AnalysisPlan(comparisons=(("birch", "atlas-2"),))))[0]
    assert one["badge"] == "▼ WORSE" and one["line"] == "birch is worse than atlas-2"
    assert one["points"].startswith("−")


def test_arms_that_never_differ_are_not_told_apart_and_nothing_could_have_been_found() -> None:
    data = four_arm_data(all_alike(four_arms(3)), rules=(), plan=ONE_PAIR)
    one, pair = answers(data)[0], data.analysis.comparisons[0]
    assert one["verdict"] == "NOT_DISTINGUISHED" and one["points"] == "0.0"
    assert pair.families.low == pair.families.high == 0.0 and pair.high is not None and pair.high > 0.01
    assert f"to {say.points(pair.high, rounding='up')} (Tango)" in one["intervals"][0]  # never 0.0 to 0.0
    assert one["intervals"][1].startswith("no family differs from another")
    assert one["gauge"]["high"] > one["gauge"]["at"] > one["gauge"]["low"]
    assert "no difference of any size" in one["detectable"]


def test_fewer_than_ten_families_support_no_verdict_and_the_top_says_that_instead() -> None:
    made = [replace(o, family=f"f-{int(o.scenario[3:]) % 9}") for o in four_arms(3)]
    one = answers(four_arm_data(made, rules=(), plan=ONE_PAIR))[0]
    assert one["verdict"] == "NOT_DISTINGUISHED" and one["gauge"] is None
    assert one["detectable"] == "Fewer than 10 families support no verdict, whatever they show."


def test_a_t_interval_that_is_undefined_says_why() -> None:
    made = [replace(o, family="the-only-one") for o in four_arms(3)]
    intervals = answers(four_arm_data(made, rules=(), plan=ONE_PAIR))[0]["intervals"]
    assert intervals[1] == "no t interval, because one family has no variance between families (single_family)"


def test_what_may_not_be_compared_shows_what_differs_and_no_number() -> None:
    one = answers(full_report_data())[1]
    assert one["badge"] == "○ NOT COMPARABLE" and one["points"] is None and one["gauge"] is None
    assert "state of diffusion-7: ERROR" in one["differs"]


def test_the_scale_of_the_gauges_is_one_for_all_comparisons_with_zero_in_the_middle() -> None:
    data = four_arm_data()
    shown = answers(data)
    assert len({answer["gauge"]["reach"] for answer in shown}) == 1
    for answer, pair in zip(shown, data.analysis.comparisons, strict=True):
        gauge, found = answer["gauge"], pair.families
        for name, value in (("at", found.difference), ("low", found.low), ("t_high", found.t_high)):
            assert value is not None
            assert gauge[name] == pytest.approx(GAUGE_PX / 2 * (1 + value / gauge["reach"]), abs=0.01)


def test_over_single_pairs_the_interval_to_read_is_tangos() -> None:
    data = four_arm_data(rules=(), plan=AnalysisPlan(comparisons=(PAIRS[0],), unit="episode"))
    one, pair = answers(data)[0], data.analysis.comparisons[0]
    assert pair.low is not None and say.points(pair.low, rounding="down") in one["intervals"][0]
    assert "(Tango)" in one["intervals"][0] and "single pairs" in one["size"]


def test_no_line_stands_at_the_top_where_no_comparison_was_registered() -> None:
    html = render_report(report_data(roles={"vla-large": "arm"}, pictures=False))
    assert '<ul class="answers"' not in html and 'id="comparisons"' not in html


def test_every_verdict_has_words_and_a_shape_of_its_own() -> None:
    marks = chart_wording.VERDICT_MARKS
    assert len(set(marks.values())) == len(marks) == 4
    assert all(f"headline_{verdict}" in chart_wording.CHART_TEMPLATES for verdict in marks)


def test_a_run_that_ended_early_says_so_with_the_bias_and_the_sequences_beside_the_estimates() -> None:
    data = stopped()
    found = data.analysis.stopping
    assert found is not None and found.why == "rejected"
    html = head(render_report(data))
    assert f"after {found.stopped_after} of {found.planned} blocks" in html and "biased away from zero" in html
    last = found.looks[-1]
    sequence = stats.confidence_sequence(last.only_a, last.only_a + last.only_b)
    low, high = say.interval_ends(sequence.low, sequence.high)
    assert f"{last.only_a + last.only_b} pairs that ended differently" in html
    assert f"confidence sequence {low} to {high}, where one half" in html
    for arm in data.analysis.arms:
        own = stats.confidence_sequence(arm.rate.k, arm.rate.n)
        ends = say.interval_ends(own.low, own.high)
        assert f"confidence sequence {ends[0]} to {ends[1]}, valid at every look" in html


def test_a_run_that_was_given_up_as_out_of_reach_leans_the_other_way() -> None:
    made = all_alike(four_arms(3))
    everything = four_arm_data(made, rules=(), plan=ONE_PAIR, stopping=E_PROCESS | {"futility": "out_of_reach"})
    end = early_end(everything.analysis)
    assert end is not None and end.stopped and "lean towards zero" in end.sentence
    assert end.pair == say.sentence("stopped_no_pair")


def test_a_rule_that_did_not_stop_the_run_is_named_below_and_changes_no_estimate() -> None:
    rule = E_PROCESS | {"arms": ["atlas-2", "dune"]}
    data = four_arm_data(rules=(), plan=AnalysisPlan(comparisons=(("atlas-2", "dune"),)), stopping=rule)
    end = early_end(data.analysis)
    assert end is not None and not end.stopped
    html = render_report(data)
    assert "Ended early" not in html and "confidence sequence" not in html
    assert "(e-process on atlas-2 and dune) was applied at 204 looks and did not end the run early" in html


def test_without_a_registered_rule_nothing_is_said_of_one() -> None:
    assert early_end(four_arm_data().analysis) is None


def test_an_arm_without_a_rate_has_no_confidence_sequence() -> None:
    arm = full_report_data().analysis.arm("diffusion-7")
    assert arm.rate.rate is None and sequence_sentence(arm, 0.95) is None


def test_the_card_of_an_arm_shows_the_interval_over_families_where_episodes_share_them() -> None:
    data = four_arm_data()
    html = head(render_report(data))
    for name in ARMS:
        families = data.analysis.arm(name).families
        low, high = say.interval_ends(families.wilson_low, families.wilson_high)
        assert f"95\u00a0% interval {low} to {high} (Wilson over 68 families)" in html
