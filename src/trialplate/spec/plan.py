"""The registered analysis and the registered claims: which numbers are computed, and which rules they must meet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trialplate.spec.channels import Frozen, Name

Confidence = Annotated[float, Field(gt=0.5, lt=1.0)]
ErrorsRule = Literal["void", "bounds"]


class AnalysisPlan(Frozen):
    """The registered analysis, and nothing else.

    ``denominator``: ``measured`` counts PASS, FAIL and ERROR; ``valid`` PASS and FAIL; ``initiated`` everything that
    was started. The rates over ``measured`` and ``valid`` are always printed, the registered one first. ``errors``:
    whether an errored episode takes the arm's rate away (``void``) or leaves it between ``bounds``; None takes the
    suite's rule.
    """

    confidence: Confidence = 0.95
    denominator: Literal["initiated", "measured", "valid"] = "measured"
    errors: ErrorsRule | None = None
    slices: tuple[Literal["domain", "variant"], ...] = ("domain", "variant")
    comparisons: tuple[tuple[str, str], ...] = ()


class ThresholdClaim(Frozen):
    """ "The arm passes at least ``rate`` of the registered scenarios", gated on an exact one-sided bound.

    ``errors``: what an errored episode of the arm does to the claim. ``ineligible``: it may not be asked;
    ``lower_bound``: every errored episode counts as one that did not pass.
    """

    name: Name
    kind: Literal["threshold_rate"]
    arm: str
    rate: Annotated[float, Field(gt=0, lt=1)]
    confidence: Confidence = 0.95
    errors: Literal["ineligible", "lower_bound"] = "ineligible"
