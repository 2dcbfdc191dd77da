"""Time to success with what competes with it: by when episodes of an arm had passed, or had ended without.

Source: statistics specification, section 11. A failure is a competing event; only the step limit censors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from markupsafe import Markup

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.record import Outcome, Status
from trialplate.report.curves import TimeCurve, time_curve
from trialplate.report.data import ReportData
from trialplate.report.intervals import shown_rate
from trialplate.report.limits import too_few
from trialplate.scoring.analysis import ArmAnalysis
from trialplate.scoring.pairs import COUNTED
from trialplate.spec.plan import DenominatorName
from trialplate.stats.durations import FAILURE, SUCCESS, TIMEOUT

QUARTERS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """When each counted episode of an arm came to its end, in control steps, and how."""

    steps: tuple[int, ...]
    events: tuple[int, ...]

    def count(self, event: int, *, until: Fraction) -> int:
        """Return how many ended in this way by then."""
        return sum(code == event and at <= until for at, code in zip(self.steps, self.events, strict=True))


def ended(outcomes: Sequence[Outcome], *, denominator: DenominatorName) -> Ended:
    """Return when and how the counted episodes ended; a success is dated by its last stage.

    What is no success competes with it, errors included, unless it was cut off at its step limit.
    """
    counted = [outcome for outcome in outcomes if outcome.status in COUNTED[denominator]]
    return Ended(
        steps=tuple(_at(outcome) for outcome in counted), events=tuple(_event(outcome) for outcome in counted)
    )


def times(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    """Return the curves of the arms, the sentences in place of those that are not drawn, and their table."""
    denominator = data.analysis.denominator
    hz = Fraction(repr(data.suite.control_hz))
    found = {arm.arm: ended([o for o in data.outcomes if o.arm == arm.arm], denominator=denominator) for arm in arms}
    limit = max((step for each in found.values() for step in each.steps), default=0)
    drawings, table = [], []
    for arm in arms:
        mine = found[arm.arm]
        title = {"name": arm.arm, "control": flags[arm.arm], "n": len(mine.steps)}
        missing = _missing(arm)
        svg = None
        if missing is None and limit:
            svg = Markup(time_curve(_curve(arm, mine, limit=limit, hz=hz, control=flags[arm.arm])))
        drawings.append(title | {"svg": svg, "missing": missing})
        if arm.rate.rate is not None:
            table.append(title | _line(mine, limit=limit, hz=hz, confidence=data.analysis.confidence))
    return {
        "drawings": drawings,
        "table": table,
        "columns": [_seconds(quarter * limit / hz) for quarter in QUARTERS],
        "note": say.sentence("times_note", denominator=denominator, confidence=say.percent(data.analysis.confidence)),
    }


def _at(outcome: Outcome) -> int:
    last = outcome.stages[-1].step if outcome.stages else None
    return last if outcome.status is Status.PASS and last is not None else outcome.control_steps


def _event(outcome: Outcome) -> int:
    if outcome.status is Status.PASS:
        return SUCCESS
    return TIMEOUT if outcome.termination == "step_limit" else FAILURE


def _missing(arm: ArmAnalysis) -> str | None:
    if arm.rate.rate is None:
        reasons = say.explained(arm.state_reasons or (str(arm.rate.reason),))
        return say.sentence("no_rate_drawn", what=arm.arm, reasons=reasons)
    return too_few(f"the curve of {arm.arm}", arm.rate.n)


def _curve(arm: ArmAnalysis, mine: Ended, *, limit: int, hz: Fraction, control: bool) -> TimeCurve:
    shown = shown_rate(arm)
    seconds = [float(step / hz) for step in mine.steps]
    passed, failed = (
        stats.cumulative_incidence(seconds, mine.events, cause=cause).steps for cause in (SUCCESS, FAILURE)
    )
    end = Fraction(limit)
    return TimeCurve(
        passed=passed,
        failed=failed,
        end=float(limit / hz),
        unit="s",
        low=shown.low,
        high=shown.high,
        passed_text=f"passed {mine.count(SUCCESS, until=end)}",
        failed_text=f"ended {mine.count(FAILURE, until=end)}",
        control=control,
    )


def _line(mine: Ended, *, limit: int, hz: Fraction, confidence: float) -> dict[str, Any]:
    """Return how many had passed, and ended without, by each quarter of the longest episode; and the median."""
    n = len(mine.steps)
    passed = [mine.count(SUCCESS, until=quarter * limit) for quarter in QUARTERS]
    spreads = [stats.wilson_interval(k, n, confidence=confidence) for k in passed]
    return {
        "passed": [
            (f"{k}/{n}", say.interval(spread.low, spread.high)) for k, spread in zip(passed, spreads, strict=True)
        ],
        "failed": [f"{mine.count(FAILURE, until=quarter * limit)}/{n}" for quarter in QUARTERS],
        "limit": f"{mine.events.count(TIMEOUT)}/{n}",
        "median": _median(mine, hz=hz, confidence=confidence),
    }


def _median(mine: Ended, *, hz: Fraction, confidence: float) -> str:
    """Return the median time of the successes with its order-statistic interval; open ends say so."""
    won = sorted(step / hz for step, code in zip(mine.steps, mine.events, strict=True) if code == SUCCESS)
    middle = stats.quantile_interval([float(time) for time in won], 0.5, confidence=confidence)
    if middle.estimate is None:
        return "–"
    if middle.low is None or middle.high is None:
        return f"{middle.estimate:.1f} s (no interval: {len(won)} successes)"
    return f"{middle.estimate:.1f} s ({middle.low:.1f} to {middle.high:.1f} s)"


def _seconds(time: Fraction) -> str:
    return f"{float(time):.1f} s"
