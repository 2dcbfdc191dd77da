"""What a check found, in five lines and as a document: never a bare OK."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trialplate.canonical import MAX_DOCUMENT_BYTES, read_stored
from trialplate.errors import TrialplateError
from trialplate.replaying import Replay
from trialplate.store.amendments import Amendment
from trialplate.store.findings import Finding, exit_code, ordered
from trialplate.store.folder import Folder
from trialplate.store.view import CampaignView

NOT_LOOKED_AT = "not looked at: give the raw controls with --qualification"
LIMITS = (
    "Not proved: that sensors tell the truth, that the harness or its operator is honest, that nothing was tried"
    " before the first durable record or elsewhere, that these scenarios stand for any others. A coherent rewrite of"
    " everything under a new id verifies as well, unless an expected digest, a signature or a replay contradicts it."
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
    assurances: tuple[str, ...] = ()

    def with_replay(self, replay: Replay) -> Verdict:
        """Return the verdict with what a replay of the same evidence found."""
        listed = ordered([*self.findings, *replay.findings])
        return replace(self, findings=listed, exit_code=exit_code(listed), replay=replay)

    @property
    def amendments(self) -> tuple[Amendment, ...]:
        """What was said beside the lock: all of it is printed."""
        return self.view.amendments if self.view is not None else ()

    def lines(self) -> tuple[str, ...]:
        """Return the summary: never a bare OK."""
        worst = {0: "verified", 1: "FAILED", 2: "MALFORMED", 3: "intact, but blocked"}[self.exit_code]
        return (
            f"INTEGRITY {worst}: {_counted(self.attempts, 'attempt')}, {_counted(len(self.findings), 'finding')}",
            "QUALIFICATION " + self.qualification,
            "CLAIMS " + self._claims(),
            "ASSURANCE " + "; ".join(self._assurances()),
            f"LIMITS {LIMITS}",
        )

    def _claims(self) -> str:
        """Say what the stored claims are worth. They count only where they came out again and nothing blocks."""
        if self.view is None:
            return "not looked at: the evidence cannot be read"
        stored = stored_claims(self.view.folder)
        if stored is None:
            registered = len(self.view.lock_document["protocol"].get("claims", ()))
            return f"not judged: {registered} registered" if registered else "none registered"
        if not stored:
            return "none registered"
        told = "; ".join(
            f"{name} {verdict.replace('_', ' ')}" + (f" ({', '.join(reasons)})" if reasons else "")
            for name, verdict, reasons in stored
        )
        if self.exit_code == 3:
            return f"none stands while something blocks; stored: {told}"
        return told if self.exit_code == 0 else f"none stands on what does not verify; stored: {told}"

    def _assurances(self) -> list[str]:
        """Return what stands behind the evidence. What does not match is a finding, and no assurance."""
        held = list(self.assurances) if self.exit_code == 0 else []
        if not held:
            held.append("self-attested: compare the lock digest with one that was kept elsewhere")
        return held + ([self.replay.line()] if self.replay is not None else [])

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
            "amendments": [asdict(amendment) for amendment in self.amendments],
            "replay": self.replay.document() if self.replay is not None else None,
            "summary": list(self.lines()),
        }


def stored_claims(folder: Path) -> list[tuple[str, str, tuple[str, ...]]] | None:
    """Return name, verdict and reasons of the claims that lie in a campaign; None where none can be read."""
    try:
        with Folder(folder) as opened:
            document = read_stored(opened.read("claims.json", limit_bytes=MAX_DOCUMENT_BYTES))
        return [
            (str(claim["name"]), str(claim["verdict"]), tuple(map(str, claim["reasons"])))
            for claim in document["claims"]
        ]
    except (TrialplateError, KeyError, TypeError):
        return None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
