"""Amendments: what has to be said beside a lock, appended, chained to it, and never a change of a rule.

An amendment is the data of one ``amendment.added`` record of the journal, and lies as a document of its own in
``amendments/0001.json`` and so on. Each continues from the digest of the one before, the first from that of the lock.
A rule, tolerance, seed, schedule, denominator or analysis is changed by a new version under a new lock and by nothing
else. Source: evidence specification, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trialplate.canonical import canonical_json, sha256_hex

AMENDMENT = "amendment.added"
"""Record type; may stand before the first run and behind the last, and is written by a process of its own."""

AMENDMENTS = "amendments"
"""Folder of the documents."""

SCHEMA = "trialplate.amendment/1"
KINDS: Mapping[str, str] = {
    "disclosure": "something that a reader has to know",
    "text_correction": "a wording that was wrong; no number depends on it",
    "custody": "who keeps keys, digests and anchors",
    "stop": "a registered stop was invoked",
}
"""Closed list: what an amendment may be about."""

MAX_TEXT = 20_000
MAX_REASON = 2000
MAX_AMENDMENTS = 9999
_UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_HEX = re.compile(r"[0-9a-f]{64}")
_MEMBERS = frozenset({"schema", "n", "prev_sha256", "created_utc", "attempts_seen", "kind", "reason", "text"})
Misfit = tuple[str, str, str, object]
"""Code, place (JSON pointer below the amendment), what was expected, what was found."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """One amendment. ``attempts_seen``: how many attempts had been started when it was written."""

    n: int
    created_utc: str
    attempts_seen: int
    kind: str
    reason: str
    text: str
    sha256: str

    def line(self) -> str:
        """Return it in one line, for people."""
        when = f"{self.created_utc[:19].replace('T', ' ')} UTC, after {self.attempts_seen} attempts"
        return f"{self.n}, {self.kind}, {when}: {self.reason}: {self.text}"


def amendment_path(n: int) -> str:
    """Return where the amendment of a number lies, relative to the campaign."""
    return f"{AMENDMENTS}/{n:04d}.json"


@dataclass(slots=True)
class AmendmentChain:
    """The amendments of one lock, in order. ``stop_registered``: whether the lock registers a stop to invoke."""

    lock_sha256: str
    stop_registered: bool
    documents: list[Mapping[str, Any]] = field(default_factory=list)

    def next(self, kind: str, *, reason: str, text: str, created_utc: str, attempts_seen: int) -> dict[str, Any]:
        """Return the document that would come next; ``misfit`` says whether it may."""
        said = {"kind": kind, "reason": reason, "text": text, "created_utc": created_utc}
        return {"schema": SCHEMA, **self._link(), **said, "attempts_seen": attempts_seen}

    def misfit(self, document: Any, *, attempts_seen: int) -> Misfit | None:
        """Return what is wrong with a document that comes next: its form, its place in the chain, what it says."""
        wrong = _malformed(document)
        if wrong is not None:
            return wrong
        for name, value in {**self._link(), "attempts_seen": attempts_seen}.items():
            if document[name] != value:
                return "amendment_chain", f"/{name}", str(value), document[name]
        return _forbidden(document["kind"], stop_registered=self.stop_registered)

    def files(self) -> dict[str, bytes]:
        """Return path -> content of every document, relative to the campaign."""
        return {amendment_path(document["n"]): canonical_json(dict(document)) for document in self.documents}

    def listed(self) -> tuple[Amendment, ...]:
        """Return the amendments."""
        return tuple(amendment_of(document) for document in self.documents)

    def _link(self) -> dict[str, Any]:
        previous = document_sha256(self.documents[-1]) if self.documents else self.lock_sha256
        return {"n": len(self.documents) + 1, "prev_sha256": previous}


def amendment_of(document: Mapping[str, Any]) -> Amendment:
    """Return the amendment of a document that is well formed."""
    members = {name: document[name] for name in ("n", "created_utc", "attempts_seen", "kind", "reason", "text")}
    return Amendment(**members, sha256=document_sha256(document))


def document_sha256(document: Mapping[str, Any]) -> str:
    """Return the digest that the next amendment continues from."""
    return sha256_hex(canonical_json(dict(document)))


def _malformed(document: Any) -> Misfit | None:
    if not isinstance(document, Mapping) or set(document) != _MEMBERS:
        return "schema_mismatch", "", f"exactly {', '.join(sorted(_MEMBERS))}", _members_of(document)
    if document["schema"] != SCHEMA:
        known = isinstance(document["schema"], str) and document["schema"].startswith("trialplate.amendment/")
        return "version_unsupported" if known else "schema_mismatch", "/schema", SCHEMA, document["schema"]
    for name, low, high in (("n", 1, MAX_AMENDMENTS), ("attempts_seen", 0, 2**53 - 1)):
        if type(document[name]) is not int or not low <= document[name] <= high:
            return "schema_mismatch", f"/{name}", f"a whole number from {low}", document[name]
    for name, pattern in (("prev_sha256", _HEX), ("created_utc", _UTC)):
        if not isinstance(document[name], str) or pattern.fullmatch(document[name]) is None:
            return "schema_mismatch", f"/{name}", f"a text like {pattern.pattern}", document[name]
    for name, most in (("kind", 64), ("reason", MAX_REASON), ("text", MAX_TEXT)):
        value = document[name]
        if not isinstance(value, str) or not value.strip() or len(value) > most:
            return "schema_mismatch", f"/{name}", f"a text of 1 to {most} characters", str(value)[:80]
    return None


def _forbidden(kind: str, *, stop_registered: bool) -> Misfit | None:
    if kind not in KINDS:
        listed = f"one of {', '.join(KINDS)}: a rule is changed by a new version under a new lock"
        return "amendment_changes_rule", "/kind", listed, kind
    if kind == "stop" and not stop_registered:
        return "stop_rule", "/kind", "a stop that the lock registers; this one registers none", kind
    return None


def _members_of(document: object) -> object:
    return sorted(map(str, document)) if isinstance(document, Mapping) else type(document).__name__
