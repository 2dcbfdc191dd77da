from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping

import pytest

from trialplate.claims import chart_wording, counts_wording, sentences, wording
from trialplate.errors import CONTRACT_FAULTS, HARNESS_FAULTS, POLICY_FAULTS

FORBIDDEN = ("best", "significant", "proves", "equal", "outperforms", "better")


def every_text() -> Iterator[tuple[str, str]]:
    for module in (wording, sentences, chart_wording, counts_wording):
        for name, value in vars(module).items():
            if isinstance(value, Mapping) and not name.startswith("_"):
                yield from ((f"{name}[{key}]", text) for key, text in value.items() if isinstance(text, str))
            if isinstance(value, tuple) and not name.startswith("_"):
                yield from ((f"{name}[{n}]", text) for n, text in enumerate(value))


def test_the_linter_sees_every_sentence() -> None:
    names = [name for name, _ in every_text()]
    assert len(names) > 200
    assert {"TEMPLATES[no_claims]", "TEMPLATES[says_BETTER]", "LIMITS[0]", "BLOCKERS[integrity]"} <= set(names)


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_sentence_contains_a_word_that_only_a_verdict_could_license(word: str) -> None:
    found = {name for name, text in every_text() if re.search(rf"\b{word}", text, re.IGNORECASE)}
    licensed = {
        "TEMPLATES[verdict_BETTER]",
        "CLAIM_TEMPLATES[verdict_BETTER]",
        "TEMPLATES[headline_BETTER]",
        "CHART_TEMPLATES[headline_BETTER]",
    }
    assert found == (licensed if word == "better" else set())


def test_every_fault_code_has_a_meaning() -> None:
    assert {*POLICY_FAULTS, *CONTRACT_FAULTS, *HARNESS_FAULTS} <= set(wording.OUTCOME_REASONS)


def test_every_template_takes_named_values_only() -> None:
    for name, text in (*wording.TEMPLATES.items(), *counts_wording.TEMPLATES.items()):
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
        assert all(field.isidentifier() for field in fields), name


def test_a_value_with_braces_is_printed_and_not_interpreted() -> None:
    assert "{k}" in wording.sentence("nothing_failed", arm="{k}")


@pytest.mark.parametrize(
    ("share", "rounding", "text"),
    [
        (0.5, "nearest", "50 %"),
        (49 / 68, "nearest", "72.1 %"),
        (0.8999999, "down", "89.9 %"),
        (0.9000001, "up", "90.1 %"),
        (0.29, "down", "29 %"),
        (0.29, "up", "29 %"),
        (0.99999, "nearest", "99.9 %"),
        (0.00001, "nearest", "0.1 %"),
        (1.0, "down", "100 %"),
        (0.0, "up", "0 %"),
    ],
)
def test_shares_are_rounded_as_asked_and_never_to_all_or_nothing(
    share: float, rounding: wording.Rounding, text: str
) -> None:
    assert wording.percent(share, rounding=rounding) == text.replace(" ", "\u00a0")


def test_an_interval_is_rounded_outward() -> None:
    assert wording.interval(0.60449, 0.81251) == "60.4–81.3\u00a0%"
    assert wording.interval(0.75, 1.0) == "75.0–100\u00a0%" and wording.interval(0.0, 0.0001) == "0–0.1\u00a0%"
    assert wording.interval_ends(0.60449, 0.81251) == ("60.4\u00a0%", "81.3\u00a0%")
    assert wording.interval_ends(None, 0.5) == ("–", "50.0\u00a0%")
    assert wording.interval(None, None) == "–"


def test_differences_have_a_sign_and_tiny_p_values_are_never_zero() -> None:
    assert wording.points(0.1) == "+10.0" and wording.points(-0.0291, rounding="down") == "−3.0"
    assert wording.points(0.0) == "0.0"
    assert wording.p_value(1e-9) == "< 0.001" and wording.p_value(1.0) == "1.000"


def test_a_threshold_sentence_says_only_what_its_verdict_licenses() -> None:
    numbers = {
        "arm": "a", "k": 58, "n": 68, "rate": 0.9, "confidence": 0.95, "lower_bound": 0.7647,
        "method": "clopper_pearson", "errored": 0,
    }  # fmt: skip
    supported = sentences.threshold_sentence("supported", numbers, ())
    refused = sentences.threshold_sentence("not_supported", numbers, ("lower_bound",))
    ineligible = sentences.threshold_sentence("ineligible", numbers | {"lower_bound": None}, ("integrity",))
    assert supported.startswith("Supported: a passed 58 of 68.") and "at least 90\u00a0%" in supported
    assert "76.4\u00a0%" in refused and "does not show that the rate is lower" in refused
    assert "passed" not in ineligible and "(integrity)" in ineligible
    assert "errored" not in supported + ineligible
    assert "Of the 68, 3 errored" in sentences.threshold_sentence("supported", numbers | {"errored": 3}, ())
