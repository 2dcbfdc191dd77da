"""What an analysis is: counts, rates with two intervals, slices, funnels and paired differences, as frozen data.

Integers are stored, rates are derived; what is not defined is null with a reason. Nothing here is a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from trialplate.scoring.comparisons import Comparison, Resampling
from trialplate.scoring.skills import SkillReport
from trialplate.scoring.stopping import Stopping
from trialplate.spec.plan import AnalysisPlan, DenominatorName, ErrorsRule

ArtifactState = Literal["COMPLETE", "EXPLORATORY", "ERROR"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Every initiated episode in exactly one of ``passed failed errored excluded``.

    ``valid``: passed + failed. ``measured``: valid + errored. ``n``: the registered denominator. ``planned`` is None
    for a slice.
    """

    planned: int | None
    initiated: int
    passed: int
    failed: int
    errored: int
    excluded: int
    valid: int
    measured: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """``k`` of ``n`` over ``denominator``. ``wilson_*`` is the interval to show, ``exact_*`` (Clopper-Pearson) gates.

    Both assume independent episodes. All but k and n are null, with ``reason``, when there is no rate: an artifact
    in state ERROR (``artifact_error``, or what ended it as a whole), or nothing measured.
    """

    denominator: DenominatorName
    k: int
    n: int
    rate: float | None
    wilson_low: float | None
    wilson_high: float | None
    exact_low: float | None
    exact_high: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where the rate could lie had errored (of valid) or excluded (of initiated) episodes all failed, or passed."""

    error_low: float | None
    error_high: float | None
    exclusion_low: float | None
    exclusion_high: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One domain, or one variant of a domain (``variant`` is None for a whole domain)."""

    domain: str
    variant: str | None
    counts: Counts
    rate: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """How many measured episodes (PASS and FAIL) came to each stage and passed it; ``rates`` = passed / reached."""

    stages: tuple[str, ...]
    entries: int
    reached: tuple[int, ...]
    passed: tuple[int, ...]
    rates: tuple[float | None, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """The mean of the domain rates, and its standard error for fixed domains."""

    rate: float | None
    se: float | None
    domains: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """The unit of independence. ``counts``: family -> (k, n), only where a family has several episodes.

    Then the episodes are not independent, the intervals of :class:`Rate` are too narrow, and the ``clustered_*``
    ones (Wilson with t and effective n; Korn-Graubard for the gate) stand beside them. ``measured``: family -> its
    measured episodes, where they are more than its n.
    """

    families: int
    counts: Mapping[str, tuple[int, int]]
    measured: Mapping[str, int]
    wilson_low: float | None
    wilson_high: float | None
    korn_graubard_low: float | None
    korn_graubard_high: float | None
    deff: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """A sum over an arm's attempts. None, with ``reason``, when any call does not know its part; never 0 for that."""

    value: int | float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionWarning:
    """Something odd about one scalar of the executed actions: ``code``, the scalar, and the range that was seen.

    ``constant_dimension``: it never changed over the run. ``looks_normalised``: it stayed within 3 of zero where the
    legal range is wider than 60, as when normalised numbers are sent where physical ones belong.
    """

    code: Literal["constant_dimension", "looks_normalised"]
    scalar: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmConduct:
    """How an arm went about its attempts: sums over them, as in :class:`~trialplate.record.Conduct`.

    ``terminations``: how attempts ended -> count. ``usage``: what providers metered. ``echo``: who filled in what
    decisions echo, sorted. ``compromised``: attempts on which a leak was disclosed; they stay counted.
    """

    calls: int
    calls_executed: int
    calls_rejected: int
    short_chunks: int
    control_steps: int
    rows_proposed: int
    rows_executed: int
    rows_dropped: int
    rows_discarded: int
    terminations: Mapping[str, int]
    usage: Mapping[str, Metered]
    echo: tuple[str, ...]
    compromised: int
    warnings: tuple[ActionWarning, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmAnalysis:
    """Everything about one arm.

    ``state`` is ERROR, with ``state_reasons``, when there is no rate: the arm is not the one of the lock
    (``identity_changed``, ``inputs_changed``), its first attempts all failed alike before any control
    (``systematic_error``), an episode errored where that voids (``errored_episodes``), or a planned trial has none
    (``incomplete_coverage``). Counts are then shown as incomplete. It is EXPLORATORY, with a rate, when the arm was
    run under another identity than the locked one (``exploratory_registration``): no claim stands on that.

    ``rate``: over the registered denominator; ``other_rates``: over ``measured`` and ``valid`` where they are not the
    registered one. ``reasons``: why episodes did not pass, code -> count. ``first_failed``: stage -> count of FAIL
    episodes. ``conduct``: None where only results were handed over.
    """

    arm: str
    state: ArtifactState
    state_reasons: tuple[str, ...]
    counts: Counts
    control_rejected: int
    reasons: Mapping[str, int]
    first_failed: Mapping[str, int]
    rate: Rate
    other_rates: tuple[Rate, ...]
    bounds: Bounds
    macro: Macro
    families: Families
    funnel: Funnel
    domains: tuple[Slice, ...]
    variants: tuple[Slice, ...]
    conduct: ArmConduct | None

    @property
    def planned(self) -> int:
        """Number of planned trials."""
        return self.counts.planned or 0

    @property
    def initiated(self) -> int:
        """Number of initiated episodes."""
        return self.counts.initiated


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The registered plan, carried out. Arms stand in the order of the protocol; that is no ranking.

    ``errors_rule``: whether an errored episode takes an arm's rate away (``void``) or leaves it between ``bounds``.
    ``resampling``: how the units of all comparisons were drawn; None without a registered comparison. ``skills``: of
    a suite of skills; None elsewhere, and then it stands in no document. ``stopping``: what the registered stopping
    rule said at its looks; None without one.
    """

    plan: AnalysisPlan
    errors_rule: ErrorsRule
    arms: tuple[ArmAnalysis, ...]
    comparisons: tuple[Comparison, ...]
    resampling: Resampling | None
    stopping: Stopping | None = None
    schema: str = "trialplate.analysis/2"
    skills: SkillReport | None = None

    @property
    def confidence(self) -> float:
        """The registered confidence of one arm's intervals."""
        return self.plan.confidence

    @property
    def denominator(self) -> DenominatorName:
        """The registered denominator."""
        return self.plan.denominator

    def arm(self, name: str) -> ArmAnalysis:
        """Return one arm. Raises KeyError with the known names."""
        for arm in self.arms:
            if arm.arm == name:
                return arm
        raise KeyError(f"no arm {name!r} in the analysis; known: {', '.join(arm.arm for arm in self.arms)}")

    def comparison(self, a: str, b: str) -> Comparison:
        """Return one registered comparison. Raises KeyError with the registered ones."""
        for pair in self.comparisons:
            if (pair.a, pair.b) == (a, b):
                return pair
        known = ", ".join(f"{pair.a}/{pair.b}" for pair in self.comparisons)
        raise KeyError(f"no comparison of {a!r} with {b!r} in the analysis; registered: {known}")

    def document(self) -> dict[str, Any]:
        """Return the plain document that is stored as ``analysis.json``."""
        plain: dict[str, Any] = plain_document(self)
        if self.skills is None:
            del plain["skills"]
        return plain | {"plan": self.plan.model_dump(mode="json")}


def plain_document(value: Any) -> Any:
    """Return nested frozen data as dicts, lists and scalars: exactly what parsing its JSON gives back."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_document(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_document(item) for item in value]
    return value
