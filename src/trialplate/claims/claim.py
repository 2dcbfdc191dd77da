"""What a judged claim is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trialplate.scoring.analysis import plain_document


class Verdict(StrEnum):
    """The three and only verdicts on a claim."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not_supported"
    INELIGIBLE = "ineligible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A registered rule and what the evidence says about it. ``sentence`` is the only permitted wording.

    ``reasons``: blockers and eligibility reasons, sorted, of an ineligible claim; the bounds that fail of one that
    is not supported. ``numbers``: what was compared.
    """

    name: str
    kind: str
    verdict: Verdict
    reasons: tuple[str, ...]
    sentence: str
    numbers: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the plain document that stands in ``claims.json``."""
        plain: dict[str, Any] = plain_document(self)
        return plain | {"verdict": self.verdict.value}
