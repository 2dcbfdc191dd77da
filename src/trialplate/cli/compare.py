"""Campaigns side by side: what differs, how trials pair up, and whether the same arm did the same again.

Counts such as 17/20 go to ``compare_counts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, plain, table
from trialplate.cli.typed_counts import is_typed
from trialplate.cli.verdicts import show_verdicts
from trialplate.errors import UsageError

Json = Annotated[bool, Parameter(name="--json", negative="")]
SHOWN = 12
PAIRED_HEADER = ("A", "B", "pairs", "both passed", "only A", "only B", "neither", "other start", "unmatched")


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(compare)


def compare(
    *sides: str,
    paired: str | None = None,
    effect: float | None = None,
    baseline: float | None = None,
    discordance: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    json: Json = False,
) -> int:
    """Put campaigns side by side, and say whether their numbers may be compared; or compare two counts such as 17/20.

    Nothing is ever pooled. Everything but --json is for counts.

    Parameters
    ----------
    sides
        Campaign folders: A, and one or more that are held against it. Or two counts of independent episodes, A and
        B, as 17/20 14/20.
    paired
        Instead, counts of matched pairs as B,C,N: pairs that only A passed, pairs that only B passed, all pairs.
    effect
        The difference worth finding, as it was registered: 0.15 for 15 points.
    baseline
        With --effect, the registered rate of B. Left out, both rates lie around one half.
    discordance
        With --paired, the registered share of pairs that differ.
    power
        The chance with which the effect is to be found.
    confidence
        Confidence of every interval; the test decides at one minus it.
    json
        Print one JSON document.
    """
    if paired is not None or any(is_typed(side) for side in sides):
        from trialplate.claims.two_counts import Registered
        from trialplate.cli.compare_counts import compare_counts

        registered = Registered(effect=effect, baseline=baseline, discordance=discordance, power=power)
        return compare_counts(sides, paired=paired, registered=registered, confidence=confidence, as_json=json)
    _only_campaigns(sides, effect=effect, baseline=baseline, discordance=discordance)
    return compare_folders(*map(Path, sides), json=json)


def _only_campaigns(sides: Sequence[str], **options: float | None) -> None:
    if len(sides) < 2:
        raise UsageError("compare: expected two campaign folders or more, or two counts such as 17/20 14/20")
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} is for counts such as 17/20; a campaign has its own in the lock")


def compare_folders(first: Path, second: Path, /, *more: Path, json: bool) -> int:
    """Tell what differs between campaign folders, and how their trials pair up."""
    from trialplate import api
    from trialplate.comparison import SCHEMA

    found = api.compare(first, second, *more)
    comparable = all(pair.comparable for pair in found)
    flags = sorted({flag for pair in found for flag in pair.flags})
    documents = [pair.document() for pair in found]

    def text() -> None:
        for pair, document in zip(found, documents, strict=True):
            show(document)
            show_verdicts(pair.exploratory, unit=pair.unit, title="Exploratory, registered nowhere")

    emit(
        {"schema": SCHEMA, "comparable": comparable, "flags": flags, "campaigns": documents}, as_json=json, text=text
    )
    return YES if comparable and not flags else NO


def show(document: Mapping[str, Any]) -> None:
    """Print two campaigns for people."""
    from trialplate.cli.rates import RATE_HEADER, rate_cells

    for side in ("a", "b"):
        print(plain(f"{side.upper()}  {document[f'folder_{side}']}  lock {document[f'lock_sha256_{side}'][:16]}"))
    rows = [
        (pair["arm"], name.upper(), *rate_cells(pair[name]))
        for pair in document["arms"]
        for name in ("a", "b")
        if pair[name] is not None
    ]
    table("Side by side", (RATE_HEADER[0], "campaign", *RATE_HEADER[1:]), rows)
    if document["paired"]:
        keys = ("pairs", "both", "only_a", "only_b", "neither", "other_start", "unmatched")
        counted = [(pair["a"], pair["b"], *(str(pair[key]) for key in keys)) for pair in document["paired"]]
        table("Trial by trial", PAIRED_HEADER, counted)
    for line in lines(document):
        print(plain(line))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what there is to say under the tables."""
    from trialplate.claims import wording

    if not document["comparable"]:
        yield wording.sentence("compare_refused", reason=document["reason"])
        yield from _listed(document["differences"])
    if document["paired"]:
        yield wording.sentence("compare_paired")
    for pair in document["arms"]:
        if pair["a"] is None or pair["b"] is None:
            yield wording.sentence("compare_one_side", arm=pair["arm"])
        elif pair["identity"]:
            yield wording.sentence("compare_identity", arm=pair["arm"])
            yield from _listed(pair["identity"])
        elif pair["repetition"] is not None:
            yield _repeated(pair["repetition"], same_seeds=document["same_seeds"])
    if document["environment"]:
        yield wording.sentence("compare_environment")
        yield from _listed(document["environment"])


def _repeated(found: Mapping[str, Any], *, same_seeds: bool) -> str:
    from trialplate.claims import wording

    if not found["pairs"]:
        return wording.sentence("compare_nothing", arm=found["arm"])
    if found["flag"] is None:
        return wording.sentence("compare_same", arm=found["arm"], pairs=found["pairs"])
    numbers = {key: found[key] for key in ("arm", "pairs", "differ", "results_differ")}
    return wording.sentence(found["flag"], **numbers, or_seeds="" if same_seeds else wording.sentence("or_seeds"))


def _listed(differences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for difference in differences[:SHOWN]:
        yield f"  {difference['path']}: {difference['a']} against {difference['b']}"
    if len(differences) > SHOWN:
        yield f"  and {len(differences) - SHOWN} more"
