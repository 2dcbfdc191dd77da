"""What a verdict on two arms may say: its own word, effect, interval and test, and what could have been found."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from test_pairwise import LOST, SUPERIOR, WON, analyse, arm, judged, no_worse, outcome

from trialplate.claims.sentences import CLAIM_TEMPLATES, verdict_sentence


def said(a: list[str], b: list[str], **plan: Any) -> str:
    found = analyse(arm("a", a), arm("b", b), **plan)
    return verdict_sentence(found.comparisons[0], unit=found.plan.unit).replace("\u00a0", " ")


def test_a_lead_is_told_with_effect_interval_and_test() -> None:
    assert said(WON, LOST) == (
        "BETTER: a is better than b on scenarios like the registered ones. a alone passed 24 of 40 paired trials,"
        " b alone 0. Difference +60.0 points, 95 % interval +45.0 to +75.0 (bootstrap over 40 families) and +44.1 to"
        " +75.9 (t); sign-flip p < 0.001."
    )
    assert said(LOST, WON).startswith("WORSE: a is worse than b")


def test_arms_that_never_differ_get_the_interval_of_the_pairs_and_no_certainty_from_the_bootstrap() -> None:
    text = said(["PASS"] * 40, ["PASS"] * 40)
    assert (
        "a alone passed 0 of 40 paired trials, b alone 0. Difference 0.0 points, 95 % interval −8.8 to +8.8 (Tango"
        " over the pairs). None of 40 families differs from another, so that bootstrap and t have nothing to go by;"
        " sign-flip p = 1.000."
    ) in text
    assert "0.0 to 0.0" not in text and "–" not in text
    always = said(["PASS"] * 40, ["FAIL"] * 40)
    assert always.startswith("BETTER") and "interval +82.4 to +100.0 (Tango over the pairs)" in always
    assert "(Tango); exact McNemar" in said(["PASS"] * 40, ["PASS"] * 40, unit="episode")


def test_a_claim_on_arms_that_never_differ_has_no_t_bound_and_says_why() -> None:
    found = analyse(arm("a", ["PASS"] * 125), arm("b", ["PASS"] * 125))
    for rule in (SUPERIOR, no_worse(0.03)):
        text = judged(found, rule).sentence.replace("\u00a0", " ")
        assert (
            "Difference 0.0 points; no family differs from another, so that at 95 % confidence the bootstrap bound"
            " over 125 families is that difference itself, and there is no t bound; sign-flip p = 1.000."
        ) in text
        assert "–" not in text


def test_single_pairs_are_told_with_their_own_interval_and_test() -> None:
    text = said(WON, LOST, unit="episode")
    assert "(Tango); exact McNemar p < 0.001." in text and "bootstrap" not in text


def test_no_difference_found_says_what_could_have_been_found_and_never_that_the_arms_are_alike() -> None:
    text = said(WON, WON, registered_effect=0.1, registered_discordance=0.2)
    assert text.startswith("NOT_DISTINGUISHED: these trials do not tell a from b.")
    assert re.search(
        r"The smallest difference that 40 pairs find with 80 % chance is \d+\.\d points, when 20 % of", text
    )
    assert (
        "needs 168 pairs; these find it with" in text and "UNDERPOWERED: that is below the registered 80 %." in text
    )
    assert text.endswith("This does not show that the two are alike.")
    silent = said(WON, WON[::-1])
    assert "registered effect" not in silent and "UNDERPOWERED" not in silent
    assert "(observed; none was registered)" in silent


def test_few_families_and_errors_are_said() -> None:
    assert "Fewer than 10 families support no verdict: UNDERPOWERED." in said(WON[:9], LOST[:9])
    text = said(WON, ["ERROR", *LOST[1:]])
    assert "In the way: an outcome, observation, cost or motion measure is unknown (missing_data)." in text
    assert "Errors in 1 of the pairs could move that to anything from" in text


def test_what_differs_is_listed() -> None:
    apart = [replace(o, initial_state_sha256="f" * 64) for o in arm("b", LOST)]
    found = analyse(arm("a", WON), apart).comparisons[0]
    assert verdict_sentence(found, unit="family") == (
        "NOT_COMPARABLE: a and b. What differs: initial state: another one in 40 of 40 pairs."
    )
    none = analyse([outcome("a", n, "PASS") for n in range(3)], [outcome("b", n + 9, "PASS") for n in range(3)])
    assert "trials: none was counted on both sides" in verdict_sentence(none.comparisons[0], unit="family")


@pytest.mark.parametrize("name", [name for name in CLAIM_TEMPLATES if not name.endswith("BETTER")])
def test_only_one_template_says_better(name: str) -> None:
    assert not re.search(r"\bbetter", CLAIM_TEMPLATES[name], re.IGNORECASE)
