"""Campaigns side by side. Their numbers are never pooled, and not compared where anything registered differs.

Source: policy contract, sections 7 and 10 (rows 42 and 53); statistics specification, section 12.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trialplate.coherence import declared_registrations
from trialplate.errors import UsageError
from trialplate.record import Outcome
from trialplate.scoring.analysis import ArmAnalysis, plain_document
from trialplate.scoring.comparisons import Comparison
from trialplate.scoring.pairs import PairedCounts, count_pairs
from trialplate.scoring.repeats import Repetition, repetition
from trialplate.scoring.verdicts import compare_arms
from trialplate.spec.plan import AnalysisPlan
from trialplate.store.view import CampaignView
from trialplate.verification import analyse_document, score_view

SCHEMA = "trialplate.side-by-side/1"
DIFFERENT_PROTOCOL, DIFFERENT_SIMULATOR = "different protocol", "different simulator"
SHOWN_CHARACTERS = 120
"""Longest value that is shown whole: a digest is."""
_SUITE = (
    "name", "version", "body", "instruction", "sources", "manifest_sha256", "selected_sha256", "action", "chain",
    "profiles_sha256", "settings", "max_steps", "fault_table", "errors_rule",
)  # fmt: skip
_ENVIRONMENT = ("harness", "distributions", "machine")
_NOT_CONDITIONS = ("slices", "comparisons", "errors")
"""Of an analysis: what is shown of it, and a rule that stands in the suite's section once it is settled."""
_ARM = ("reference", "role", "profile", "options", "replan_interval", "contract", "adapters", "registration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One registered thing that is not the same: where (``suite.action.control_hz``), and both values in short."""

    path: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPair:
    """An arm of both campaigns, or of one (the other side is None).

    ``identity``: how the two of that name differ; empty for the same one. ``repetition``: how the same arm did the
    same trials again, where the protocols do not differ.
    """

    arm: str
    a: ArmAnalysis | None
    b: ArmAnalysis | None
    identity: tuple[Difference, ...]
    repetition: Repetition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Two campaigns, A and B, by the folders they lie in. ``reason``: why their numbers may not be compared, or None.

    ``differences``: what is registered differently; any makes the two incomparable. ``environment``: what differs
    below: harness, packages, machine. ``same_seeds``: whether the same lock gave both their seeds. ``paired``: arms
    against each other, trial by trial, where they may be compared. ``exploratory``: what the rules of the registered
    analysis say of those pairs that are not one and the same arm; no such comparison was registered, so it licenses
    nothing. Its arms are named ``arm (A)`` and ``arm (B)``; ``unit``: what was drawn.
    """

    folder_a: str
    folder_b: str
    lock_sha256_a: str
    lock_sha256_b: str
    reason: str | None
    differences: tuple[Difference, ...]
    environment: tuple[Difference, ...]
    same_seeds: bool
    arms: tuple[ArmPair, ...]
    paired: tuple[PairedCounts, ...]
    exploratory: tuple[Comparison, ...]
    unit: str

    @property
    def comparable(self) -> bool:
        """Whether the numbers may stand against each other."""
        return self.reason is None

    @property
    def flags(self) -> tuple[str, ...]:
        """What the repetitions show, sorted: ``order_dependent``, ``not_reproduced``."""
        return tuple(sorted({pair.repetition.flag for pair in self.arms if pair.repetition and pair.repetition.flag}))

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        plain: dict[str, Any] = plain_document(self)
        return {"comparable": self.comparable, "flags": list(self.flags), **plain}


@dataclass(frozen=True, slots=True)
class _Side:
    """One campaign, scored and analysed once however often it is held against another."""

    view: CampaignView
    outcomes: Mapping[str, Sequence[Outcome]]
    analysed: Mapping[str, ArmAnalysis]
    locked: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, view: CampaignView) -> _Side:
        scored = score_view(view)
        arms = analyse_document(scored, view.lock_document).arms
        return cls(
            view,
            {arm.arm: [outcome for outcome in scored if outcome.arm == arm.arm] for arm in arms},
            {arm.arm: arm for arm in arms},
            {arm["name"]: arm for arm in view.lock_document["arms"]},
        )

    def identity(self, arm: str) -> dict[str, Any]:
        """Return who an arm was locked as, and as who else it was run."""
        others = sorted(declared_registrations(self.view).get(arm, ()))
        return {**{key: self.locked[arm][key] for key in _ARM}, "run_as": ", ".join(others) or None}


def compare_campaigns(first: CampaignView, others: Iterable[CampaignView]) -> tuple[SideBySide, ...]:
    """Return the first campaign beside each of the others.

    Raises UsageError for a campaign against itself, EvidenceError when one cannot be scored.
    """
    a = _Side.of(first)
    return tuple(_side_by_side(a, view) for view in others)


def _side_by_side(a: _Side, other: CampaignView) -> SideBySide:
    if a.view.folder.resolve() == other.folder.resolve():
        raise UsageError(f"{other.folder} against itself says nothing: give two campaigns")
    b = _Side.of(other)
    differences = conditions_that_differ(a.view.lock_document, b.view.lock_document)
    names = dict.fromkeys([*a.analysed, *b.analysed])
    arms = tuple(_arm_pair(name, a, b, comparable=not differences) for name in names)
    changed = {pair.arm for pair in arms if pair.identity}
    paired = () if differences else tuple(_paired(a, b))
    return SideBySide(
        folder_a=str(a.view.folder),
        folder_b=str(b.view.folder),
        lock_sha256_a=a.view.lock_sha256,
        lock_sha256_b=b.view.lock_sha256,
        reason=_reason(differences),
        differences=differences,
        environment=_differences(*({key: side.view.lock_document[key] for key in _ENVIRONMENT} for side in (a, b))),
        same_seeds=a.view.lock_sha256 == b.view.lock_sha256,
        arms=arms,
        paired=paired,
        exploratory=_exploratory(a, b, [pair for pair in paired if pair.a != pair.b or pair.a in changed]),
        unit=_plan(a.view.lock_document).unit,
    )


def _reason(differences: Sequence[Difference]) -> str | None:
    if not differences:
        return None
    alone = all(difference.path.startswith("simulator") for difference in differences)
    return DIFFERENT_SIMULATOR if alone else DIFFERENT_PROTOCOL


def _arm_pair(name: str, a: _Side, b: _Side, *, comparable: bool) -> ArmPair:
    both = name in a.locked and name in b.locked
    identity = _differences(a.identity(name), b.identity(name)) if both else ()
    again = None
    if both and not identity and comparable:
        again = repetition(a.outcomes[name], b.outcomes[name], arm=name)
    return ArmPair(
        arm=name, a=a.analysed.get(name), b=b.analysed.get(name), identity=identity, repetition=again
    )  # fmt: skip


def _paired(a: _Side, b: _Side) -> Iterable[PairedCounts]:
    """Yield arms of equal name; then each arm under test that only A has against each that only B has.

    An arm without a rate, such as one that was halted, is no side of a pair.
    """
    denominator = _plan(a.view.lock_document).denominator  # of both, or they are not compared
    fit_a, fit_b = ([name for name, arm in side.analysed.items() if arm.state != "ERROR"] for side in (a, b))
    for name in fit_a:
        if name in fit_b:
            yield count_pairs(a.outcomes[name], b.outcomes[name], a=name, b=name, denominator=denominator)
    alone_a = [name for name in fit_a if name not in b.locked and a.locked[name]["role"] == "arm"]
    alone_b = [name for name in fit_b if name not in a.locked and b.locked[name]["role"] == "arm"]
    for one in alone_a:
        for other in alone_b:
            yield count_pairs(a.outcomes[one], b.outcomes[other], a=one, b=other, denominator=denominator)


def _exploratory(a: _Side, b: _Side, pairs: Sequence[PairedCounts]) -> tuple[Comparison, ...]:
    """Return what the registered rules say of arms across campaigns, with as many draws as so many pairs need."""
    named = [(f"{pair.a} (A)", f"{pair.b} (B)") for pair in pairs]
    plan = _plan(a.view.lock_document).model_copy(update={"comparisons": tuple(named)})
    plan = plan.model_copy(update={"draws": max(plan.draws, plan.draws_needed)})
    outcomes: dict[str, Sequence[Outcome]] = {}
    arms: dict[str, ArmAnalysis] = {}
    for pair, names in zip(pairs, named, strict=True):
        for side, arm, name in ((a, pair.a, names[0]), (b, pair.b, names[1])):
            outcomes[name] = side.outcomes[arm]
            arms[name] = replace(side.analysed[arm], arm=name)
    seen = {
        names: (f"profile: {a.locked[pair.a]['profile']} against {b.locked[pair.b]['profile']}",)
        for pair, names in zip(pairs, named, strict=True)
        if a.locked[pair.a]["profile"] != b.locked[pair.b]["profile"]
    }
    hz = a.view.lock_document["suite"]["action"]["control_hz"]
    return compare_arms(outcomes, arms, plan=plan, control_hz=hz, apart=seen)[0]


def _plan(lock: Mapping[str, Any]) -> AnalysisPlan:
    return AnalysisPlan.model_validate_json(json.dumps(lock["protocol"]["analysis"]))


def conditions_that_differ(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return what two locks register differently about what was measured and how: any makes them incomparable.

    Not looked at: names, questions, claims and arms, the order of the trials, which tables are wanted and which arms
    compared, and how much was recorded.
    """
    return _differences(_conditions(a), _conditions(b))


def _conditions(lock: Mapping[str, Any]) -> dict[str, Any]:
    protocol, plan = lock["protocol"], _plan(lock)
    return {
        "suite": {**{key: lock["suite"][key] for key in _SUITE}, "plan": protocol["suite"]["plan"]},
        "repeats": protocol["suite"]["repeats"],
        "budgets": protocol["budgets"],
        "analysis": {
            name: value for name, value in plan.model_dump(mode="json").items() if name not in _NOT_CONDITIONS
        },
        "simulator": lock["simulator"],
    }


def _differences(a: Any, b: Any, *, path: str = "") -> tuple[Difference, ...]:
    """Return every leaf that is not equal; lists of another length are one leaf."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        keys = sorted({*a, *b})
        return tuple(
            found
            for key in keys
            for found in _differences(a.get(key), b.get(key), path=f"{path}.{key}" if path else str(key))
        )
    if _is_list(a) and _is_list(b) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return tuple(found for n, (one, other) in pairs for found in _differences(one, other, path=f"{path}[{n}]"))
    return () if a == b else (Difference(path=path, a=_short(a), b=_short(b)),)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
