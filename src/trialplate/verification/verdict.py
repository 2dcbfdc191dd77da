"""What a check found, in five lines and as a document: never a bare OK."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trialplate.replaying import Replay
from trialplate.store.findings import Finding, exit_code, ordered
from trialplate.store.view import CampaignView

NOT_LOOKED_AT = "not looked at: give the raw controls with --qualification"
LIMITS = (
    "Not proved: that sensors tell the truth, that the harness or its operator is honest, that nothing was tried"
    " before the first durable record or elsewhere, that these scenarios stand for any others."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. 0 verified; 1 changed or not reproduced; 2 malformed; 3 intact but blocked."""

    findings: tuple[Finding, ...]
    exit_code: int
    view: CampaignView | None
    attempts: int
    qualification: str
    replay: Replay | None = None

    def with_replay(self, replay: Replay) -> Verdict:
        """Return the verdict with what a replay of the same evidence found."""
        listed = ordered([*self.findings, *replay.findings])
        return replace(self, findings=listed, exit_code=exit_code(listed), replay=replay)

    def lines(self) -> tuple[str, ...]:
        """Return the summary: never a bare OK."""
        worst = {0: "verified", 1: "FAILED", 2: "MALFORMED", 3: "intact, but blocked"}[self.exit_code]
        return (
            f"INTEGRITY {worst}: {self.attempts} attempts, {len(self.findings)} findings",
            "QUALIFICATION " + self.qualification,
            "ASSURANCE self-attested: compare the lock digest with one that was kept elsewhere"
            + (f"; {self.replay.line()}" if self.replay is not None else ""),
            f"LIMITS {LIMITS}",
        )

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "exit_code": self.exit_code,
            "attempts": self.attempts,
            "lock_sha256": self.view.lock_sha256 if self.view else None,
            "findings": [
                {
                    "code": item.code,
                    "path": item.path,
                    "pointer": item.pointer,
                    "expected": item.expected,
                    "found": item.found,
                }
                for item in self.findings
            ],
            "replay": self.replay.document() if self.replay is not None else None,
            "summary": list(self.lines()),
        }
