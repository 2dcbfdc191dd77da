"""How many episodes a question takes, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from trialplate.cli import typed_counts
from trialplate.cli.answering import tell
from trialplate.errors import StatsInputError, UsageError

if TYPE_CHECKING:
    from trialplate.claims.answers import Answer
    from trialplate.claims.planning import Wanted

Json = Annotated[bool, Parameter(name="--json", negative="")]
QUESTIONS = ("PROTOCOL", "--rates", "--pairs", "--margin", "--demonstrate", "--families")
NUMBERS = (*QUESTIONS[1:5], "--episodes")
GOES_WITH = {
    "--episodes": QUESTIONS[1:5],
    "--deff": NUMBERS,
    "--power": NUMBERS,
    "--confidence": NUMBERS,
    "--discordance": ("--margin", "--episodes"),
    "--baseline": ("--episodes",),
    "--looks": ("--pairs",),
    "--with-success": ("--families",),
    "--draws": ("--families",),
}
"""Option -> the questions that have a use for it."""
MAX_EPISODES, MAX_PAIRS = 10_000_000, 20_000
DEFAULT_DRAWS = 2000


def register(app: App) -> None:
    """Add this group's command."""
    app.command(plan)


def plan(
    protocol: Path | None = None,
    /,
    *,
    rates: str | None = None,
    pairs: str | None = None,
    margin: float | None = None,
    demonstrate: float | None = None,
    families: int | None = None,
    episodes: int | None = None,
    baseline: float | None = None,
    discordance: float | None = None,
    looks: int | None = None,
    with_success: int | None = None,
    draws: int | None = None,
    power: float | None = None,
    confidence: float | None = None,
    deff: float | None = None,
    json: Json = False,
) -> int:
    """Say how many episodes a question takes, or what a given number of them can find, before anything runs.

    One question a call. Exits with 1 where the answer is that it cannot be done.

    Parameters
    ----------
    protocol
        A protocol: what each of its claims and comparisons can find, with the episodes that it plans.
    rates
        Two rates to be told apart by independent episodes, as 0.85,0.7.
    pairs
        Chances of a pair that only A passes, and of one that only B passes, as 0.15,0.05.
    margin
        A margin: A is not worse by more than that. Needs --discordance.
    demonstrate
        A rate to be demonstrated.
    families
        Families of a cost or time comparison: the chance that a bootstrap draw has no success. Needs --with-success.
    episodes
        Episodes of each arm, or pairs. Alone: the smallest difference that they find. With another question: what
        they give there.
    baseline
        With --episodes alone, the rate of B. Left out, both rates lie around one half.
    discordance
        The share of pairs that differ.
    looks
        With --pairs, how often a group-sequential rule looks; all stopping rules are then put side by side.
    with_success
        With --families, how many of them have a success.
    draws
        With --families, the draws of the bootstrap; 2000 by default.
    power
        The chance with which the effect is to be found; 0.8 by default.
    confidence
        Confidence of the interval or test that decides; 0.95 by default.
    deff
        Design effect of episodes that share scenes, sites or sessions; 1 by default.
    json
        Print one JSON document.
    """
    given = Given(
        PROTOCOL=protocol, rates=rates, pairs=pairs, margin=margin, demonstrate=demonstrate, families=families,
        episodes=episodes, baseline=baseline, discordance=discordance, looks=looks, with_success=with_success,
        draws=draws, power=power, confidence=confidence, deff=deff,
    )  # fmt: skip
    question = given.question()
    if protocol is not None:
        return tell(_foreseen(protocol), as_json=json)
    try:
        answer = given.answer(question)
    except StatsInputError as error:
        raise UsageError(f"{question}: {error.message}") from None
    return tell(answer, as_json=json)


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed; None where it was not."""

    PROTOCOL: Path | None
    rates: str | None
    pairs: str | None
    margin: float | None
    demonstrate: float | None
    families: int | None
    episodes: int | None
    baseline: float | None
    discordance: float | None
    looks: int | None
    with_success: int | None
    draws: int | None
    power: float | None
    confidence: float | None
    deff: float | None

    def question(self) -> str:
        """Return the one question that is asked. Raises UsageError for none, several, or an option without use."""
        used = [_option(field.name) for field in fields(self) if getattr(self, field.name) is not None]
        asked = [name for name in used if name in QUESTIONS] or [name for name in used if name == "--episodes"]
        if len(asked) != 1:
            got = " and ".join(asked) if asked else "none of them"
            raise UsageError(f"plan: expected one of {', '.join(QUESTIONS)} or --episodes; got {got}")
        for name in used:
            if name != asked[0] and asked[0] not in GOES_WITH.get(name, ()):
                told = "a protocol registers its own" if asked[0] == "PROTOCOL" else f"it has no use with {asked[0]}"
                raise UsageError(f"{name}: {told}; leave it out")
        return asked[0]

    def answer(self, question: str) -> Answer:
        """Return the answer to any question but that of a protocol."""
        from trialplate.claims import planning
        from trialplate.claims.stopping_plan import stopping_plan

        wanted = self._wanted()
        if question == "--rates":
            p1, p2 = typed_counts.shares("--rates", self.rates or "", names=("P1", "P2"))
            return planning.rates_plan(p1, p2, wanted=wanted, episodes=self._size(MAX_EPISODES))
        if question == "--pairs":
            p10, p01 = typed_counts.shares("--pairs", self.pairs or "", names=("ONLY_A", "ONLY_B"))
            size = self._size(MAX_PAIRS)
            if self.looks is None:
                return planning.pairs_plan(p10, p01, wanted=wanted, episodes=size)
            return stopping_plan(p10, p01, looks=self.looks, wanted=wanted, episodes=size)
        if question == "--margin":
            margin, discordance = self._margin()
            return planning.margin_plan(margin, discordance, wanted=wanted, episodes=self._size(MAX_PAIRS))
        if question == "--demonstrate":
            rate = typed_counts.share("--demonstrate", self.demonstrate or 0.0)
            return planning.demonstration_plan(rate, wanted=wanted, episodes=self._size(MAX_EPISODES))
        if question == "--families":
            return self._draws(wanted)
        return self._detection(wanted)

    def _wanted(self) -> Wanted:
        from trialplate.claims.planning import Wanted

        deff = 1.0 if self.deff is None else self.deff
        if not 1.0 <= deff <= 1000.0:
            raise UsageError(f"--deff: expected a design effect from 1 to 1000, got {deff}")
        return Wanted(
            power=0.8 if self.power is None else typed_counts.share("--power", self.power),
            confidence=0.95 if self.confidence is None else typed_counts.confidence_of(self.confidence),
            deff=deff,
        )

    def _size(self, most: int) -> int | None:
        if self.episodes is not None and not 1 <= self.episodes <= most:
            raise UsageError(f"--episodes: expected 1 to {most}, got {self.episodes}")
        return self.episodes

    def _margin(self) -> tuple[float, float]:
        if self.discordance is None:
            raise UsageError("--discordance: missing; how many pairs a margin needs depends on how many differ")
        margin = typed_counts.share("--margin", self.margin or 0.0)
        return margin, typed_counts.share("--discordance", self.discordance)

    def _draws(self, wanted: Wanted) -> Answer:
        from trialplate.claims.planning import draws_plan

        families, some = self.families or 0, self.with_success
        draws = DEFAULT_DRAWS if self.draws is None else self.draws
        if families < 1:
            raise UsageError(f"--families: expected at least 1, got {families}")
        if some is None or not 0 <= some <= families:
            raise UsageError(f"--with-success: expected 0 to {families}, the families with a success, got {some}")
        if not 1 <= draws <= MAX_EPISODES:
            raise UsageError(f"--draws: expected 1 to {MAX_EPISODES}, got {draws}")
        return draws_plan(families, some, draws=draws, wanted=wanted)

    def _detection(self, wanted: Wanted) -> Answer:
        from trialplate.claims.planning import detection_plan

        size = self._size(MAX_EPISODES)
        if self.baseline is not None and self.discordance is not None:
            raise UsageError("--baseline is for independent arms and --discordance for pairs; give one of them")
        return detection_plan(
            size or 0,
            wanted=wanted,
            baseline=None if self.baseline is None else typed_counts.share("--baseline", self.baseline),
            discordance=None if self.discordance is None else typed_counts.share("--discordance", self.discordance),
        )


def _option(name: str) -> str:
    return name if name.isupper() else f"--{name.replace('_', '-')}"


def _foreseen(path: Path) -> Answer:
    from trialplate import api
    from trialplate.admission import select_scenarios
    from trialplate.claims.foresight import foresee
    from trialplate.registry import load_suite

    protocol = api.load_protocol(path).protocol
    return foresee(protocol, select_scenarios(protocol, load_suite(protocol.suite.name)))
