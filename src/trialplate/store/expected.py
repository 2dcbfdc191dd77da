"""What a reader of evidence brings along: digests that were kept elsewhere, and the keys that are believed.

Nothing inside a bundle is trusted to vouch for itself. Source: evidence specification, sections 9 and 16.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trialplate.errors import UsageError
from trialplate.store import merkle
from trialplate.store.chain import JOURNAL
from trialplate.store.findings import Collector, Finding
from trialplate.store.folder import Folder
from trialplate.store.layout import LOCK, ROWS
from trialplate.store.signing import Trust
from trialplate.store.view import MAX_JOURNAL_BYTES
from trialplate.store.witness import Witness, witness_findings

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Expected:
    """Digest of the lock, Merkle root over the rows, heads of the journal, keys. Raises UsageError for no digest.

    ``weights``: a folder in which the checkpoint files lie; ``holdouts``: the ledger of held-out scenarios.
    """

    lock: str | None = None
    root: str | None = None
    heads: tuple[Witness, ...] = ()
    trust: Trust | None = None
    weights: Path | None = None
    holdouts: Path | None = None

    def __post_init__(self) -> None:
        for name, digest in (("lock", self.lock), ("root", self.root)):
            if digest is not None and _DIGEST.fullmatch(digest) is None:
                raise UsageError(
                    f"--expect-{name} {digest!r}: expected 64 lower-case hex digits, as they were printed"
                )

    @property
    def assurances(self) -> tuple[str, ...]:
        """What stands behind evidence that meets these digests, in words."""
        named = [
            ("the lock", self.lock),
            ("the root over the rows", self.root),
            ("a head of the journal", self.heads),
        ]
        kept = [what for what, given in named if given]
        digests = [f"matches an expected digest of {' and '.join(kept)}"] if kept else []
        weights = ["the weights that lie here are the measured ones"] if self.weights is not None else []
        ledger = ["the holdout ledger agrees with the lock"] if self.holdouts is not None else []
        return (*digests, *weights, *ledger)


def expected_findings(folder: Path, expected: Expected) -> tuple[Finding, ...]:
    """Compare a campaign or a bundle with what its reader brings along; signatures are not looked at here."""
    found = Collector()
    with found.keeping(), Folder(folder) as opened:
        if expected.lock is not None and (digest := opened.sha256(LOCK)) != expected.lock:
            found.add("expected_mismatch", LOCK, pointer="--expect-lock", expected=expected.lock, found=digest)
        if expected.root is not None:
            lines = opened.read(ROWS, limit_bytes=MAX_JOURNAL_BYTES).split(b"\n")[:-1]
            if (root := merkle.root(lines)) != expected.root:
                found.add("expected_mismatch", ROWS, pointer="--expect-root", expected=expected.root, found=root)
        if expected.heads:
            found.take(witness_findings(opened.read(JOURNAL, limit_bytes=MAX_JOURNAL_BYTES), expected.heads))
    return found.listed()
