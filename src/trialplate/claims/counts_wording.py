"""The only sentences about typed counts and plans, and how their numbers are written.

The rules are those of ``wording``: one template per sentence, ends rounded outward, nothing that a verdict would have
to license. A verdict stands in a sentence as a value, never as a word of the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from trialplate.claims import wording

SMALLEST = 0.001
"""What one digit of a percentage can tell from none and from all."""
METHODS: Mapping[str, str] = {
    "wilson": "Wilson",
    "clopper_pearson": "Clopper-Pearson",
    "jeffreys": "Jeffreys",
    "confidence_sequence": "confidence sequence",
    "wilson_t": "Wilson, effective n, t",
    "korn_graubard": "Korn-Graubard",
    "linear_t": "linear, t",
    "wilson_independent": "Wilson, independent",
    "anova": "one-way ANOVA",
    "between": "between clusters",
    "garwood": "Garwood",
    "garwood_upper": "Garwood, one-sided",
    "counted": "counted",
    "miettinen_nurminen": "Miettinen-Nurminen",
    "newcombe": "Newcombe",
    "boschloo": "Boschloo, exact",
    "boschloo_power": "Boschloo, exact power",
    "normal": "normal approximation",
    "tango": "Tango",
    "tango_power": "Tango, exact power",
    "mcnemar": "McNemar, exact",
    "mcnemar_power": "McNemar, exact power",
    "mid_p": "McNemar, mid-p",
    "mid_p_power": "McNemar, mid-p power",
    "connor": "Connor's formula",
    "e_process": "e-process, exact",
    "obrien-fleming": "O'Brien-Fleming",
    "pocock": "Pocock",
    "exact_binomial": "exact binomial",
    "bootstrap": "family bootstrap",
    "percentile_and_t": "percentile and t",
    "formula": "closed formula",
}

LABELS: Mapping[str, str] = {
    "read": "to read",
    "gate": "for a claim",
    "gate_lower": "for a claim, at least",
    "gate_upper": "for a claim, at most",
    "beside": "beside it",
    "live": "at every look",
    "not_for_claims": "not for claims",
    "assumes_independence": "assumes independence",
    "deff": "design effect",
    "n_eff": "effective episodes",
    "icc": "ICC",
    "clusters": "clusters",
    "arm": "{arm} passed {k} of {n}",
    "difference": "difference, points",
    "difference_read": "points, to read",
    "difference_beside": "points, beside it",
    "test": "p, decides",
    "mid_p": "p, beside it",
    "discordance": "pairs that differ",
    "detectable": "smallest to be found",
    "needed": "needed for {effect} points",
    "power": "chance to find {effect} points",
    "power_at": "chance with {n}",
    "each_arm": "episodes of each arm",
    "each_arm_beside": "beside it",
    "pairs": "pairs",
    "pairs_beside": "beside it",
    "pairs_formula": "for a first idea",
    "no_discordance": "if no pair differs",
    "allowed": "with {failures} failures",
    "allowed_one": "with 1 failure",
    "allowed_none": "with no failure",
    "passes": "must pass of {n}",
    "discordant": "if {discordance} of pairs differ",
    "independent": "two independent arms",
    "zero_failures": "if all pass, at least",
    "per_draw": "one draw has none",
    "any_draw": "any of {draws} draws has none",
    "fixed_n": "one analysis",
    "e_process": "after every pair",
    "looks": "{looks} looks",
    "against": "{a} against {b}",
    "points": "{points} points",
    "of": "{some} of {all}",
    "margin_power": "chance to clear the margin",
    "families_with_success": "families with a success, each",
    "at_rate": "{n} at rate {rate}",
    "with_mean": "{n}, mean {mean}",
}

OUTLOOKS: Mapping[str, str] = {
    "possible": "can be supported",
    "unlikely": "unlikely",
    "impossible": "cannot be supported",
    "ineligible": "ineligible",
}

TEMPLATES: Mapping[str, str] = {
    "rate": "{k} of {n} passed: {rate}, {confidence} interval {low} to {high} (Wilson).",
    "clustered": (
        "{k} of {n} passed in {clusters}: {rate}, {confidence} interval {low} to {high} (Wilson on the"
        " effective number of episodes, with t)."
    ),
    "clustered_undefined": "{k} of {n} passed in {clusters}: {rate}, and no interval, because {reasons}.",
    "incidents": (
        "{events} in {hours} hours: {rate} per hour, {confidence} interval {low} to {high} per hour (Garwood)."
    ),
    "compare": (
        "{verdict}: A passed {k_a} of {n_a}, B {k_b} of {n_b}. The difference is {difference} points, {confidence}"
        " interval {low} to {high} points (Miettinen-Nurminen); {p} (Boschloo's exact test)."
    ),
    "compare_no_test": (
        "No verdict: A passed {k_a} of {n_a}, B {k_b} of {n_b}. The difference is {difference} points, {confidence}"
        " interval {low} to {high} points (Miettinen-Nurminen); for so many episodes the exact test is not computed."
    ),
    "compare_paired": (
        "{verdict}: of {n} pairs A alone passed {b}, B alone {c}. The difference is {difference} points, {confidence}"
        " interval {low} to {high} points (Tango); {p} (McNemar's exact test)."
    ),
    "says_BETTER": "The test supports that A passes more often than B.",
    "says_WORSE": "The test supports that B passes more often than A.",
    "says_NOT_DISTINGUISHED": (
        "That is no sign that the two pass alike. With {numbers} a difference of {detectable} points or more is found"
        " with {power} chance{where}; a smaller one is likely to stay unseen."
    ),
    "says_NOT_DISTINGUISHED_out_of_reach": (
        "That is no sign that the two pass alike. With {numbers} no difference, however large, is found with {power}"
        " chance{where}."
    ),
    "says_NOT_DISTINGUISHED_unknown": (
        "That is no sign that the two pass alike. No pair differs, so nothing here says how often pairs do: give"
        " --discordance to learn what could be found."
    ),
    "numbers_independent": "{n_a} and {n_b} episodes",
    "numbers_paired": "{n} pairs",
    "where_half": " for rates around 50\u00a0%, where a difference is hardest to see",
    "where_baseline": " where B passes {baseline}",
    "where_discordance": " where {discordance} of pairs differ",
    "effect_underpowered": (
        "Underpowered: the registered effect of {effect} points is found with {chance} chance by {numbers}, below the"
        " wanted {power}. It needs {needed}."
    ),
    "effect_powered": (
        "The registered effect of {effect} points is found with {chance} chance by {numbers}; the wanted {power}"
        " needs {needed}."
    ),
    "needed_each": "{n} of each arm",
    "needed_pairs": "{n} pairs",
    "needed_unknown": "more than is searched here",
    "note_roles": (
        "Wilson is the interval to read. Clopper-Pearson is exact and wider: a claim is held against it. Jeffreys is"
        " descriptive. Ends are rounded outward."
    ),
    "note_looks": (
        "While episodes are still being added, only the confidence sequence holds; the other rows want a number of"
        " episodes that was fixed beforehand."
    ),
    "note_independent": (
        "All rows take the episodes as independent. Where they share scenes, sites or sessions, give the counts of"
        " each with --clusters."
    ),
    "note_clusters": (
        "Clusters are the unit: Wilson on the effective number of episodes is the interval to read, Korn-Graubard the"
        " one that a claim is held against. Ends are rounded outward."
    ),
    "note_few_clusters": "Fewer than {few} clusters: no claim may stand on this.",
    "note_no_variation": (
        "All clusters have the same rate, so the clusters themselves count as the episodes; a design effect is not"
        " defined."
    ),
    "note_icc": "Every cluster has one episode, so an ICC is not defined.",
    "note_incidents": (
        "A claim is held against the upper end of the two-sided interval. Hours of excluded episodes count too. Ends"
        " are rounded outward."
    ),
    "note_test_decides": "Interval and exact test disagree at this edge. The test decides.",
    "note_unlocked": (
        "Typed counts have no lock and no evidence behind them: this is arithmetic, and supports no claim."
    ),
    "note_look_once": (
        "A test that is repeated while episodes are added finds differences that are not there: look once, after a"
        " number that was fixed beforehand."
    ),
    "note_newcombe": "Newcombe's interval combines two Wilson intervals; it stands beside and decides nothing.",
    "note_mid_p": "mid-p stands beside and decides nothing.",
    "note_discordance_observed": "How often pairs differ is taken from these counts: register it with --discordance.",
    "plan_rates": (
        "To tell {p1} from {p2} with {power} chance takes {n} episodes of each arm ({method}, two-sided, alpha"
        " {alpha})."
    ),
    "plan_pairs": (
        "To tell {p10} (only A passes) from {p01} (only B) with {power} chance takes {n} pairs ({method}, two-sided,"
        " alpha {alpha})."
    ),
    "plan_margin": (
        "To show that A is not worse by more than {margin} points with {power} chance takes {n} pairs, where"
        " {discordance} of them differ and neither arm passes more often ({method}, alpha {alpha})."
    ),
    "plan_out_of_reach": "No number of episodes that is searched here is enough.",
    "plan_demonstrate": (
        "To demonstrate {rate} at {confidence} confidence takes {n} episodes of which every one passes"
        " (one-sided Clopper-Pearson)."
    ),
    "plan_demonstrate_at": (
        "To demonstrate {rate} at {confidence} confidence, {k} of {n} episodes must pass (one-sided Clopper-Pearson)."
    ),
    "plan_demonstrate_few": (
        "{n} episodes cannot demonstrate {rate} at {confidence} confidence, even if all pass: that takes {needed}"
        " (one-sided Clopper-Pearson)."
    ),
    "plan_detect": (
        "{n} episodes of each arm find a difference of {detectable} points or more with {power} chance{where}"
        " ({method}, two-sided, alpha {alpha})."
    ),
    "plan_detect_none": (
        "{n} episodes of each arm find no difference, however large, with {power} chance{where}"
        " ({method}, two-sided, alpha {alpha})."
    ),
    "plan_detect_pairs": (
        "{n} pairs find a difference of {detectable} points or more with {power} chance{where} ({method}, two-sided,"
        " alpha {alpha})."
    ),
    "plan_detect_pairs_none": (
        "{n} pairs find no difference with {power} chance{where}, not even if all of those go one way ({method},"
        " two-sided, alpha {alpha})."
    ),
    "plan_draws": (
        "With successes in {some} of {families} families, the chance that any of {draws} bootstrap draws has none is"
        " {any_draw}."
    ),
    "plan_stopping": (
        "To tell {p10} (only A passes) from {p01} (only B) with {power} chance takes {fixed} pairs analysed once, at"
        " most {sequential} with {looks} registered looks (O'Brien-Fleming), at most {anytime} if every pair may be"
        " the last (e-process)."
    ),
    "plan_protocol": "The protocol plans {episodes} of each arm over {families}{claims}{comparisons}.",
    "plan_protocol_claims": ": {possible} of {claims} can be supported",
    "plan_protocol_comparisons": "; {found} of {comparisons} would find the registered effect with {power} chance",
    "plan_protocol_no_effect": "; no effect is registered for {comparisons}",
    "note_not_confirmatory": (
        "The run is registered as {run_class}: nothing in it can support a claim, whatever the numbers."
    ),
    "note_impossible": (
        "A claim that cannot be supported even if every episode passes wants more episodes or a lower rate."
    ),
    "note_unlikely": (
        "A claim that is unlikely has less than {power} chance at the registered effect or margin: more episodes, or"
        " a larger effect or margin, would change that."
    ),
    "note_with_success": (
        "A claim on cost or time needs that many families with a success in each arm: with fewer, a bootstrap draw"
        " without any has more than 1\u00a0% chance, and leaves the claim ineligible."
    ),
    "note_flag_families": (
        "From {least} to {most} families, leadership carries the flag few_families in its sentence."
    ),
    "note_relative_rule_families": (
        "Up to {most} families, the relative rule carries the flag few_families in its sentence; it wants no fewest."
    ),
    "note_clustered_schedule": (
        "Episodes share families, so that how many must pass depends on how they fall into families; the bound if all"
        " pass is the highest that can come out."
    ),
    "note_no_effect": (
        "Register an effect (analysis.registered_effect, registered_discordance) to learn the chance to find it."
    ),
    "note_smallest": (
        "The points of a comparison are the smallest difference that is found, by the share of pairs that differ."
    ),
    "note_exact_power": (
        "The first row is for the test that decides. The closed formula asks for less, and is only a first idea."
    ),
    "note_rate_for": "The rate is the true one at which that many pass with {power} chance.",
    "note_teeth": "Exact power has teeth: a few episodes more can have a little less of it.",
    "note_deff": "Every number of episodes is multiplied by the design effect {deff}.",
    "note_deff_detect": "The episodes are divided by the design effect {deff} first.",
    "note_alike_arms": (
        "Should A in truth pass less often, more pairs are needed; where it is worse by the margin, no number is"
        " enough."
    ),
    "note_draws": (
        "A draw without a success has no cost per success, and one such draw leaves the ratio without bounds: above"
        " 1\u00a0% the cost and time claims are at risk."
    ),
    "note_min_families": "A claim over families wants at least {least} of them; {families} are too few.",
    "note_stopping": (
        "One rule is registered before the first episode. Testing after every differing pair from the 10th on, as if"
        " each look were the only one, finds a difference that is not there with {peeking} chance within {discordant}"
        " such pairs."
    ),
    "note_mean_pairs": "The mean is that of the pairs that a rule with looks uses where the registered chances hold.",
    "note_looks_error": (
        "With looks, the exact chance to find a difference that is not there is {errors} (O'Brien-Fleming, Pocock)."
    ),
    "note_looks_over": (
        "That is above {alpha}: with so few pairs these bounds do not keep their error rate. Take more pairs, or the"
        " e-process."
    ),
    "note_before": "Effects are registered before the first episode. Power is never computed from what was observed.",
}


def sentence(name: str, **values: Any) -> str:
    """Return a sentence of :data:`TEMPLATES` with its numbers filled in."""
    return TEMPLATES[name].format(**values)


def counted(n: int, one: str) -> str:
    """Return ``1 cluster`` or ``6 clusters``."""
    return f"{n} {one}" if n == 1 else f"{n} {one}s"


def points_interval(low: float | None, high: float | None) -> str:
    """Return ``−11.3 to +39.9`` rounded outward; a dash when undefined."""
    if low is None or high is None:
        return "–"
    return f"{wording.points(low, rounding='down')} to {wording.points(high, rounding='up')}"


def size(difference: float | None) -> str:
    """Return a difference without sign, in points, rounded up: what is said to be found is found."""
    return "–" if difference is None else wording.points(difference, rounding="up").lstrip("+")


def at_rate(n: float | None, rate: float | None) -> str:
    """Return a number of episodes and the true rate that it takes; a dash where there is none."""
    return "–" if n is None else LABELS["at_rate"].format(n=whole(n), rate=at_most(rate))


def chance(value: float | None) -> str:
    """Return a probability of success, rounded down; a dash when unknown."""
    if value is None:
        return "–"
    return "< 0.1\u00a0%" if 0.0 < value < SMALLEST else wording.percent(value, rounding="down")


def at_most(share: float | None) -> str:
    """Return a share rounded up: a risk, or a rate that it takes. What is not all never reads so."""
    if share is None:
        return "–"
    return "> 99.9\u00a0%" if 1.0 - SMALLEST < share < 1.0 else wording.percent(share, rounding="up")


def at_least(low: float | None) -> str:
    """Return a lower bound, rounded down."""
    return "–" if low is None else wording.percent(low, rounding="down")


def whole(n: float | None) -> str:
    """Return a number of episodes."""
    return "–" if n is None else str(int(n))


def p_text(p: float) -> str:
    """Return ``p = 0.031`` or ``p < 0.001``."""
    text = wording.p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def digits(value: float | None, *, rounding: wording.Rounding = "nearest", places: int = 3) -> str:
    """Return a number with ``places`` figures that count, rounded as asked; a dash when undefined."""
    if value is None:
        return "–"
    if value == 0.0:
        return "0"
    exact = Decimal(repr(value))
    step = Decimal(1).scaleb(exact.adjusted() - places + 1)
    mode = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}[rounding]
    text = f"{exact.quantize(step, rounding=mode):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate_interval(low: float | None, high: float | None) -> str:
    """Return an interval of a rate per hour with three figures, rounded outward."""
    if low is None or high is None:
        return "–"
    return f"{digits(low, rounding='down')} to {digits(high, rounding='up')}"
