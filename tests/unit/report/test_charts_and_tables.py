from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import escape

import altair as alt
import pytest
import vl_convert
from made_campaign import SCENARIOS, report_data
from made_four_arms import ACTION, ARMS, PAIRS, RULES, four_arm_data, four_arms

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.record import Outcome, Status
from trialplate.report import ReportData, render_report
from trialplate.report.charts import DifferenceRow, reach_of
from trialplate.report.compared import difference_row
from trialplate.report.costs import costs, spent
from trialplate.report.curves import _apart, _round_ticks
from trialplate.report.intervals import shown_rate
from trialplate.report.limits import MIN_DRAWN, drawable, too_few
from trialplate.report.reach import detectable, reaches
from trialplate.report.results import results
from trialplate.report.spread import SpreadPoint, _end, _places
from trialplate.report.times import QUARTERS, ended, times
from trialplate.scoring.family_evidence import TIME, arm_totals
from trialplate.spec.plan import AnalysisPlan, NonInferiorityClaim
from trialplate.stats.durations import FAILURE, SUCCESS, TIMEOUT

FEW = MIN_DRAWN - 1


@cache
def data() -> ReportData:
    return four_arm_data()


@cache
def page() -> str:
    return render_report(data())


def section(html: str, name: str) -> str:
    start = html.index(f'<section id="{name}">')
    return html[start : html.index("</section>", start)]


def first_scenarios(count: int, *, repeats: int = 1) -> list[Outcome]:
    kept = {f"pp-{number + 1:03d}" for number in range(count)}
    return [o for o in four_arms(3) if o.scenario in kept and o.repeat < repeats]


def test_the_limit_of_drawing_is_the_smallest_n_of_which_nothing_seen_leaves_less_than_a_third_open() -> None:
    widths = {n: stats.clopper_pearson_interval(0, n).high for n in range(1, 30)}
    assert min(n for n, high in widths.items() if high is not None and high < 1 / 3) == MIN_DRAWN
    assert drawable(MIN_DRAWN) and not drawable(FEW)
    assert too_few("x", MIN_DRAWN) is None and f"fewer than {MIN_DRAWN}" in str(too_few("x", FEW))


def test_every_specification_is_one_that_altair_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = page()
    seen: list[dict[str, object]] = []
    draw = vl_convert.vegalite_to_svg
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda spec: seen.append(spec) or draw(spec))
    assert before == render_report(data())
    assert len(seen) == 2 + 2 + len(ARMS) + len(ARMS) + 1 + 2
    for spec in seen:
        plain = json.loads(json.dumps(spec, allow_nan=False))
        alt.LayerChart.from_dict(plain).to_dict(validate=True)
        used = set(re.findall(r'"data": \{"name": "([^"]+)"\}', json.dumps(spec)))
        assert used and used <= set(plain["datasets"])


def test_the_table_of_rates_has_the_intervals_over_families_of_the_analysis() -> None:
    for line, arm in zip(results(data())["forest"]["table"], data().analysis.arms, strict=True):
        families = arm.families
        assert line["kn"] == f"{arm.rate.k}/{arm.rate.n}" and families.counts
        assert line["read"] == say.interval(families.wilson_low, families.wilson_high)
        assert line["gate"] == say.interval(families.korn_graubard_low, families.korn_graubard_high)
        assert line["plain"] == say.interval(arm.rate.wilson_low, arm.rate.wilson_high)
        assert line["unit"] == f"{len(SCENARIOS)} families" and line["gate_method"] == "Korn-Graubard"
        assert all(escape(line[name]) in section(page(), "rates") for name in ("read", "gate", "plain"))


def test_rates_of_families_of_one_are_those_of_independent_episodes() -> None:
    arm = report_data(roles={"vla-large": "arm"}, pictures=False).analysis.arms[0]
    shown = shown_rate(arm)
    assert (shown.low, shown.high) == (arm.rate.wilson_low, arm.rate.wilson_high)
    assert (shown.gate_low, shown.gate_high) == (arm.rate.exact_low, arm.rate.exact_high)
    assert shown.unit == "episode" and shown.method == "Wilson"


def test_one_family_leaves_a_rate_without_interval_and_says_why() -> None:
    made = [replace(o, family="the-only-one") for o in four_arms(3)]
    shown = results(four_arm_data(made))["forest"]["table"][0]
    assert shown["read"] == shown["gate"] == "–" and shown["rate"] != "–"
    assert "No interval over its 1 families" in render_report(four_arm_data(made))


def test_what_is_drawn_of_a_difference_is_what_decides_it_with_the_margin_that_was_registered() -> None:
    margins = []
    for pair in data().analysis.comparisons:
        row = difference_row(pair, "family", data().claims)
        found = pair.families
        assert (row.difference, row.low, row.high) == (found.difference, found.low, found.high)
        assert (row.t_low, row.t_high) == (found.t_low, found.t_high)
        single = difference_row(pair, "episode", data().claims)
        assert (single.difference, single.low, single.high) == (pair.difference, pair.low, pair.high)
        margins.append(row.margin)
    assert margins == [None, 0.08, None]
    assert "registered margin" in section(page(), "comparisons")


def test_the_axis_of_differences_reaches_behind_every_end_and_margin() -> None:
    row = DifferenceRow(
        label="x", difference=0.05, low=0.01, high=0.09, t_low=-0.02, t_high=0.12, text="x", short="x", margin=0.25
    )
    assert reach_of([row]) == 0.3 and reach_of([replace(row, margin=None)]) == 0.2 and reach_of([]) == 0.1


def test_stages_carry_the_counts_of_the_analysis_and_wilson_intervals_of_both_shares() -> None:
    for item, arm in zip(results(data())["stages"]["table"], data().analysis.arms, strict=True):
        funnel = arm.funnel
        for line, reached, passed in zip(item["rows"], funnel.reached, funnel.passed, strict=True):
            of_all = stats.wilson_interval(passed, funnel.entries)
            of_reached = stats.wilson_interval(passed, reached)
            assert (line["reached"], line["passed"]) == (reached, passed)
            assert line["of_all_interval"] == say.interval(of_all.low, of_all.high)
            assert line["of_reached_interval"] == say.interval(of_reached.low, of_reached.high)
    assert len(results(data())["stages"]["drawings"]) == len(ARMS)


def test_the_curve_of_an_arm_ends_at_its_rate_and_failures_compete() -> None:
    for arm in data().analysis.arms:
        mine = ended([o for o in data().outcomes if o.arm == arm.arm], denominator="measured")
        found = stats.cumulative_incidence(mine.steps, mine.events)
        assert found.final == pytest.approx(arm.rate.rate, abs=1e-12)
        assert mine.events.count(SUCCESS) == arm.rate.k and len(mine.events) == arm.rate.n
        assert mine.events.count(FAILURE) > 0 and mine.events.count(TIMEOUT) > 0


def test_a_success_is_dated_by_its_last_stage_and_an_error_competes_where_it_counts() -> None:
    made = next(o for o in four_arms(3) if o.status is Status.PASS)
    broken = replace(made, status=Status.ERROR, termination="fault", control_steps=12)
    assert ended([made], denominator="measured").steps == (made.stages[-1].step,)
    both = ended([made, broken], denominator="measured")
    assert both.events == (SUCCESS, FAILURE) and both.steps[1] == 12
    assert ended([made, broken], denominator="valid").events == (SUCCESS,)


def test_the_table_of_times_counts_who_had_passed_and_ended_by_each_quarter() -> None:
    shown = times(data(), data().analysis.arms, dict.fromkeys(ARMS, False))
    assert shown["columns"] == ["3.8 s", "7.5 s", "11.2 s", "15.0 s"]
    for line, arm in zip(shown["table"], data().analysis.arms, strict=True):
        mine = [o for o in data().outcomes if o.arm == arm.arm]
        for quarter, (kn, spread), failed in zip(QUARTERS, line["passed"], line["failed"], strict=True):
            k = sum(o.status is Status.PASS and (o.stages[-1].step or 0) <= quarter * 300 for o in mine)
            stopped = [o for o in mine if o.status is Status.FAIL and o.termination != "step_limit"]
            wilson = stats.wilson_interval(k, len(mine))
            assert kn == f"{k}/{len(mine)}" and spread == say.interval(wilson.low, wilson.high)
            assert failed == f"{sum(o.control_steps <= quarter * 300 for o in stopped)}/{len(mine)}"
        assert line["passed"][-1][0] == f"{arm.rate.k}/{arm.rate.n}"
        assert re.fullmatch(r"\d+\.\d s \(\d+\.\d to \d+\.\d s\)", line["median"])


def test_the_table_of_costs_has_the_totals_of_all_attempts_and_the_ratios_of_the_analysis() -> None:
    cost, time = costs(data(), data().analysis.arms)
    for at, arm in enumerate(ARMS):
        mine = [o for o in data().outcomes if o.arm == arm]
        seconds = sum(o.control_steps for o in mine) / ACTION.control_hz
        won = sum(o.status is Status.PASS for o in mine)
        assert time["rows"][at]["total"] == f"{seconds:,.0f}".replace(",", "\u202f" if seconds >= 10_000 else "")
        assert time["rows"][at]["successes"] == won and time["rows"][at]["each"] == f"{seconds / won:.4g}"
    for shown, pair in zip(cost["ratios"], data().analysis.comparisons, strict=True):
        assert shown["ratio"] == say.ratio(pair.families.cost.ratio)
        assert shown["bootstrap"].startswith(say.ratio(pair.families.cost.low, rounding="down"))
        assert shown["t"].endswith(say.ratio(pair.families.cost.t_high, rounding="up"))
    assert cost["svg"] is not None and cost["notes"] == []


def test_one_unknown_cost_takes_the_arm_out_of_the_drawing_and_is_never_a_zero() -> None:
    made = list(four_arms(3))
    place = next(n for n, o in enumerate(made) if o.arm == "birch")
    made[place] = replace(made[place], conduct=replace(made[place].conduct, usage=None, usage_reason="not_metered"))
    cost, time = costs(four_arm_data(made), four_arm_data(made).analysis.arms)
    row = cost["rows"][ARMS.index("birch")]
    assert row["total"] == "unknown" and row["each"] == row["interval"] == "–"
    assert cost["notes"] == [say.sentence("cost_unknown", what="metered cost", arms="birch")]
    assert "birch" not in str(cost["svg"]) and "birch" in str(time["svg"])


def test_nothing_is_drawn_where_neither_cost_nor_time_is_known_and_the_page_says_so() -> None:
    html = section(render_report(report_data(roles={"vla-large": "arm"}, pictures=False)), "costs")
    assert html.count("Unknown is not zero.") == 2 and "<svg" not in html and "<table" not in html


def test_an_arm_that_never_passed_has_no_cost_of_a_success_and_says_why() -> None:
    made = [o if o.arm != "dune" else replace(o, status=Status.FAIL) for o in four_arms(3)]
    totals = arm_totals({"dune": [o for o in made if o.arm == "dune"]}, plan=AnalysisPlan(), control_hz=20.0)
    found = spent(totals, "time", confidence=0.95)[0]
    assert found.per_success is None and found.reason == "zero_successes"
    assert found.total == pytest.approx(totals.table[:, 0, TIME].sum() / 1e6)
    notes = costs(four_arm_data(made), four_arm_data(made).analysis.arms)[1]["notes"]
    assert notes == [say.sentence("cost_without", arms="dune", reasons=say.explained(("zero_successes",)))]


def test_what_could_be_detected_is_the_number_of_the_analysis_at_the_pairs_of_the_run() -> None:
    plan = data().analysis.plan
    shown = reaches(data())
    assert len(shown["drawings"]) == 1 and all(a in shown["drawings"][0]["name"] for pair in PAIRS for a in pair)
    found = data().analysis.comparisons[0].detection
    assert detectable(found.n, 0.35, plan) == found.detectable
    sizes = [size for _, size in shown["table"][0]["cells"]]
    assert [n for n, _ in shown["table"][0]["cells"]] == [102, 204, 408, 816]
    assert sizes[1] == say.points(found.detectable or 0.0, rounding="up").removeprefix("+")
    assert [float(size) for size in sizes] == sorted((float(size) for size in sizes), reverse=True)
    assert shown["table"][0]["needed"] == found.needed


def test_comparisons_whose_pairs_differ_unlike_each_other_get_curves_of_their_own() -> None:
    found = four_arm_data(plan=AnalysisPlan(comparisons=PAIRS, draws=6000))
    shown = reaches(found)
    assert len(shown["drawings"]) == len({pair.detection.discordance for pair in found.analysis.comparisons}) > 1
    assert all("observed; none was registered" in item["source"] for item in shown["drawings"])


def test_pairs_that_never_differ_say_nothing_on_what_could_be_found() -> None:
    same = [replace(o, status=Status.FAIL, termination="step_limit") for o in four_arms(3)]
    shown = reaches(four_arm_data(same, rules=(), plan=AnalysisPlan(comparisons=(("birch", "dune"),))))
    assert (
        shown["drawings"][0]["svg"] is None and "nothing says what could be found" in shown["drawings"][0]["missing"]
    )


def test_a_campaign_that_is_too_small_is_told_in_numbers_only_and_says_so_in_every_place() -> None:
    html = render_report(four_arm_data(first_scenarios(FEW), rules=()))
    for name, pictures in (("rates", 0), ("comparisons", 0), ("stages", 0), ("times", 0), ("costs", 0)):
        part = section(html, name)
        assert part.count("<svg") == pictures, name
        assert f"fewer than {MIN_DRAWN}" in part and "<table" in part, name
    slices = section(html, "slices")
    assert 'class="bar"' not in slices and f"Cells of fewer than {MIN_DRAWN} episodes" in slices
    assert html.count('class="gauge difference"') == 0
    one_more = render_report(four_arm_data(first_scenarios(MIN_DRAWN), rules=()))
    for name in ("rates", "comparisons", "stages", "times", "costs"):
        assert "<svg" in section(one_more, name), name


def test_one_arm_that_is_too_small_is_named_in_the_forest_and_not_drawn() -> None:
    made = [o for o in four_arms(1) if o.arm != "dune" or o.scenario <= f"pp-{FEW:03d}"]
    rows = results(four_arm_data(made, rules=(), plan=AnalysisPlan(comparisons=(("atlas-2", "birch"),))))
    drawn = str(rows["forest"]["drawings"]["wide"])
    assert drawn.count("too few to draw") == 2  # the text and the ground behind it


def test_a_cell_of_fewer_than_ten_has_counts_and_no_bar() -> None:
    rows = results(data())["slices"]["rows"]
    cells = [cell for row in rows for cell in row["cells"]]
    assert {cell["n"] >= MIN_DRAWN for cell in cells} == {True, False}
    assert all(cell["drawn"] == (cell["n"] >= MIN_DRAWN) for cell in cells)


def test_labels_at_the_end_of_two_curves_never_cover_each_other() -> None:
    for passed in (0.0, 0.02, 0.4, 0.5, 0.98, 1.0):
        for failed in (0.0, 0.4, 0.5, 1.0 - passed):
            up, down = _apart(passed, failed)
            assert abs(up - down) >= 0.11 - 1e-9 and min(up, down) >= -1e-9 and max(up, down) <= 1.0 + 1e-9


def test_names_beside_points_do_not_cover_each_other() -> None:
    points = [
        SpreadPoint(label=name, spent=5.0, spent_low=4.0, spent_high=6.0, rate=0.8, low=0.7, high=0.9)
        for name in ("one", "two", "three", "four")
    ]
    places = _places(points, most=10.0, width_px=400)
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(("reach", "end"), [(0.031, 0.04), (1.0, 1), (0.0, 1.0), (17.2, 20), (99.0, 100), (101, 150)])
def test_an_axis_ends_at_a_round_number_behind_everything(reach: float, end: float) -> None:
    assert _end(reach) == pytest.approx(end)


@pytest.mark.parametrize("end", [0.4, 1.0, 7.3, 15.0, 816.0, 24_000.0])
def test_an_axis_has_a_few_round_ticks(end: float) -> None:
    ticks = _round_ticks(end)
    assert 2 <= len(ticks) <= 5 and ticks[0] == 0 and ticks[-1] <= end + 1e-9


def test_a_claim_of_another_kind_puts_no_margin_into_the_drawing() -> None:
    rules = [rule for rule in RULES if not isinstance(rule, NonInferiorityClaim)]
    assert "registered margin" not in section(render_report(four_arm_data(rules=rules)), "comparisons")


def test_trials_excluded_for_every_arm_and_for_one_arm_alone_are_counted_apart_in_the_report() -> None:
    screened = {"status": Status.EXCLUDED, "reason": "unsupported_capability", "control_steps": 0, "stages": ()}
    made = list(four_arms(3))
    for at, o in enumerate(made):
        if o.scenario == "pp-001" or (o.scenario, o.repeat, o.arm) == ("pp-002", 0, "birch"):
            made[at] = replace(o, **screened)
    shown = section(render_report(four_arm_data(made)), "comparisons")
    assert shown.count("excluded for both arms, before any control step, which stand in no pair: 3.") == len(PAIRS)
    assert shown.count("Trials without a counted partner, which stand in no pair: 1.") == 2  # of the pairs with birch
