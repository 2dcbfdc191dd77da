"""Two campaigns side by side. Their numbers are never pooled, and not compared where anything registered differs.

Source: policy contract, sections 7 and 10 (rows 42 and 53); statistics specification, section 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trialplate.scoring.analysis import ArmAnalysis, plain_document
from trialplate.scoring.repeats import Repetition, repetition
from trialplate.store.view import CampaignView
from trialplate.verification import analyse_document, score_view

DIFFERENT_PROTOCOL = "different protocol"
SHOWN_CHARACTERS = 120
"""Longest value that is shown whole: a digest is."""
_SUITE = (
    "name", "version", "body", "instruction", "sources", "manifest_sha256", "selected_sha256", "action", "chain",
    "profiles_sha256", "settings", "max_steps", "fault_table", "errors_rule",
)  # fmt: skip
_ENVIRONMENT = ("harness", "distributions", "machine")
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
    """Two campaigns, A and B. ``reason``: why their numbers may not be compared, None when they may.

    ``differences``: what is registered differently; any makes the two incomparable. ``environment``: what differs
    below: harness, packages, machine. ``same_seeds``: whether the same lock gave both their seeds.
    """

    lock_sha256_a: str
    lock_sha256_b: str
    reason: str | None
    differences: tuple[Difference, ...]
    environment: tuple[Difference, ...]
    same_seeds: bool
    arms: tuple[ArmPair, ...]

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
        return {
            "schema": "trialplate.side-by-side/1",
            "comparable": self.comparable,
            "flags": list(self.flags),
            **plain,
        }


def compare_campaigns(a: CampaignView, b: CampaignView) -> SideBySide:
    """Return two campaigns side by side, arm by arm. Raises EvidenceError when one cannot be scored."""
    differences = conditions_that_differ(a.lock_document, b.lock_document)
    outcomes = score_view(a), score_view(b)
    sides = [analyse_document(found, view.lock_document) for found, view in zip(outcomes, (a, b), strict=True)]
    arms = [{arm.arm: arm for arm in side.arms} for side in sides]
    entries = [{arm["name"]: arm for arm in view.lock_document["arms"]} for view in (a, b)]
    pairs = []
    for name in dict.fromkeys([*arms[0], *arms[1]]):
        both = name in arms[0] and name in arms[1]
        identity = _arm_differences(entries[0][name], entries[1][name]) if both else ()
        again = None
        if both and not identity and not differences:
            runs = [[outcome for outcome in found if outcome.arm == name] for found in outcomes]
            again = repetition(runs[0], runs[1], arm=name)
        pairs.append(ArmPair(arm=name, a=arms[0].get(name), b=arms[1].get(name), identity=identity, repetition=again))
    return SideBySide(
        lock_sha256_a=a.lock_sha256,
        lock_sha256_b=b.lock_sha256,
        reason=DIFFERENT_PROTOCOL if differences else None,
        differences=differences,
        environment=_differences(*({key: view.lock_document[key] for key in _ENVIRONMENT} for view in (a, b))),
        same_seeds=a.lock_sha256 == b.lock_sha256,
        arms=tuple(pairs),
    )


def conditions_that_differ(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return what two locks register differently about what was measured and how: any makes them incomparable.

    Not looked at: names, questions, claims and arms, the order of the trials, which intervals and tables are wanted,
    and how much was recorded.
    """
    return _differences(_conditions(a), _conditions(b))


def _conditions(lock: Mapping[str, Any]) -> dict[str, Any]:
    protocol = lock["protocol"]
    return {
        "suite": {**{key: lock["suite"][key] for key in _SUITE}, "plan": protocol["suite"]["plan"]},
        "repeats": protocol["suite"]["repeats"],
        "budgets": protocol["budgets"],
        "denominator": protocol["analysis"]["denominator"],
        "simulator": lock["simulator"],
    }


def _arm_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    return _differences(*({key: arm[key] for key in _ARM} for arm in (a, b)))


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
