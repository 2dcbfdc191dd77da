"""What the registered ways to stop cost: one analysis, a few looks, or a look after every pair.

Definitions: statistics specification, sections 8 and 9.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims import wording
from trialplate.claims.answers import Answer, Line, line
from trialplate.claims.planning import SCHEMA, Wanted
from trialplate.stats.discordant import MAX_TRIALS
from trialplate.stats.group_sequential import SPENDINGS, Spending
from trialplate.stats.sequential_size import even_looks

PEEKING_FROM = 10
"""The peeking that is warned of begins at this pair that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A stopping rule: the pairs that it may need at most, how many it uses on average, its power at a given n.

    ``error``: the exact chance of finding a difference where there is none; only looks have one that is not bounded.
    """

    rule: str
    method: str
    pairs: float | None
    mean_pairs: float | None
    power_at_episodes: float | None
    error: float | None = None


def stopping_plan(p10: float, p01: float, *, looks: int, wanted: Wanted, episodes: int | None = None) -> Answer:
    """Return the pairs that each rule needs to tell p10 (only A passes) from p01 (only B), with even ``looks``."""
    size = None if episodes is None else wanted.effective(episodes)
    rules = [_fixed(p10, p01, wanted, size)]
    rules += [_looks(p10, p01, looks, spending, wanted, size) for spending in SPENDINGS]
    rules.append(_anytime(p10, p01, wanted, size))
    fixed, sequential, anytime = rules[0], rules[1], rules[-1]
    rows = [_row(rule, looks) for rule in rules]
    if episodes is not None:
        rows += [
            line("power_at", words.chance(rule.power_at_episodes), rule.method, n=str(episodes)) for rule in rules
        ]
    holds = None not in (fixed.pairs, sequential.pairs, anytime.pairs)
    values: dict[str, Any] = wanted.said()
    told = [words.sentence("note_mean_pairs"), words.sentence("note_teeth"), words.sentence("note_before")]
    if fixed.pairs is not None:
        told.insert(0, _peeking(fixed.pairs, p10 + p01, wanted))
    errors = [rule.error for rule in rules if rule.error is not None]
    if errors:
        listed = ", ".join(wording.percent(error, rounding="up") for error in errors)
        told.insert(-2, words.sentence("note_looks_error", errors=listed))
        if max(errors) > wanted.alpha:
            told.insert(-2, words.sentence("note_looks_over", alpha=wording.percent(wanted.alpha)))
    if wanted.deff != 1.0:
        told.append(words.sentence("note_deff", deff=words.digits(wanted.deff)))
    return Answer(
        schema=SCHEMA,
        question="stopping",
        sentence=words.sentence(
            "plan_stopping",
            p10=wording.percent(p10),
            p01=wording.percent(p01),
            fixed=words.whole(fixed.pairs),
            sequential=words.whole(sequential.pairs),
            looks=looks,
            anytime=words.whole(anytime.pairs),
            **values,
        )
        if holds
        else words.sentence("plan_out_of_reach"),
        lines=tuple(rows),
        notes=tuple(told),
        numbers={
            "wanted": wanted.document(),
            "p10": p10,
            "p01": p01,
            "looks": looks,
            "episodes": episodes,
            "rules": [asdict(rule) | {"method": words.METHODS[rule.method]} for rule in rules],
        },
        holds=holds,
    )


def _fixed(p10: float, p01: float, wanted: Wanted, size: int | None) -> Rule:
    alpha = wanted.alpha
    needed = stats.mcnemar_sample_size(p10, p01, alpha=alpha, power=wanted.power, deff=wanted.deff).value
    reached = None if size is None else stats.mcnemar_power(size, p10, p01=p01, alpha=alpha).value
    return Rule(rule="fixed_n", method="mcnemar_power", pairs=needed, mean_pairs=needed, power_at_episodes=reached)


def _looks(p10: float, p01: float, looks: int, spending: Spending, wanted: Wanted, size: int | None) -> Rule:
    alpha = wanted.alpha
    needed = stats.group_sequential_sample_size(
        p10, p01, looks=looks, alpha=alpha, power=wanted.power, spending=spending
    ).value
    mean = reached = error = None
    if needed is not None:
        at, half = even_looks(int(needed), looks), (p10 + p01) / 2.0
        mean = stats.group_sequential_power(at, p10, p01=p01, alpha=alpha, spending=spending).expected_pairs
        error = stats.group_sequential_power(at, half, p01=half, alpha=alpha, spending=spending).power
    if size is not None:
        reached = stats.group_sequential_power(
            even_looks(size, looks), p10, p01=p01, alpha=alpha, spending=spending
        ).power
    return Rule(
        rule="group_sequential",
        method=spending,
        pairs=wanted.stretched(needed),
        mean_pairs=None if mean is None else mean * wanted.deff,
        power_at_episodes=reached,
        error=error,
    )


def _anytime(p10: float, p01: float, wanted: Wanted, size: int | None) -> Rule:
    alpha = wanted.alpha
    needed = stats.paired_e_value_sample_size(p10, p01, alpha=alpha, power=wanted.power, deff=wanted.deff).value
    reached = None if size is None else stats.paired_e_value_power(size, p10, p01=p01, alpha=alpha).value
    return Rule(rule="e_process", method="e_process", pairs=needed, mean_pairs=None, power_at_episodes=reached)


def _row(rule: Rule, looks: int) -> Line:
    value = words.whole(rule.pairs)
    if rule.rule == "group_sequential":
        if rule.mean_pairs is not None:
            value = words.LABELS["with_mean"].format(n=value, mean=round(rule.mean_pairs))
        return line("looks", value, rule.method, looks=str(looks))
    return line(rule.rule, value, rule.method)


def _peeking(pairs: float, discordance: float, wanted: Wanted) -> str:
    """Return the note on how often peeking would mislead over the pairs of one analysis that are likely to differ."""
    differing = min(MAX_TRIALS, max(PEEKING_FROM, round(pairs * discordance)))
    error = stats.peeking_error(differing, first_look=PEEKING_FROM, alpha=wanted.alpha).value or 0.0
    return words.sentence("note_stopping", peeking=wording.percent(error, rounding="up"), discordant=differing)
