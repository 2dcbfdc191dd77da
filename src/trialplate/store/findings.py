"""What a check of evidence can find, in the order of its stages, and the exit code that follows.

0 verified; 1 integrity or recomputation fails; 2 malformed input; 3 intact but blocked. The first stage that
fails decides; inside a stage 2 comes before 1 before 3. Source: evidence specification, section 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trialplate.canonical import read_stored
from trialplate.errors import CanonicalError, EvidenceError

_STAGES: tuple[tuple[str, dict[int, str]], ...] = (
    ("container", {2: "unreadable archive_refused path_unsafe not_regular_file size_limit"}),
    (
        "integrity",
        {
            1: "bundle_id_mismatch manifest_mismatch file_missing file_extra size_mismatch hash_mismatch "
            "expected_mismatch"
        },
    ),
    (
        "signature",
        {2: "envelope_malformed", 1: "signature_invalid", 3: "signature_missing key_unknown threshold_not_met"},
    ),
    ("documents", {2: "malformed schema_mismatch version_unsupported not_binary32 trace_malformed"}),
    (
        "binding",
        {
            1: "lock_digest_mismatch amendment_chain mixed_runs source_snapshot_mismatch",
            3: "late_lock amendment_changes_rule",
        },
    ),
    (
        "journal and rows",
        {
            1: "journal_broken rows_digest_mismatch rows_root_mismatch row_unplanned row_duplicated row_order "
            "end_without_start clock_reversed attempts_overlap",
            3: "coverage_incomplete attempt_repeated",
        },
    ),
    ("inputs", {1: "model_digest_mismatch", 3: "inputs_changed_during_run"}),
    (
        "qualification",
        {3: "qualification_missing qualification_failed qualification_copied qualification_binding"},
    ),
    (
        "recomputation",
        {
            1: "scene_mismatch grades_not_reproduced accounting_not_reproduced analysis_not_reproduced "
            "claims_not_reproduced",
            3: "grader_differs_from_lock",
        },
    ),
    (
        "rules",
        {
            3: "stop_rule exclusion_unregistered not_confirmatory observations_incomplete holdout_spent "
            "exploratory_registration"
        },
    ),
    ("replay", {1: "replay_mismatch", 3: "not_comparable_here"}),
)
STAGE_NAMES = tuple(name for name, _ in _STAGES)
"""Names of the stages, in order."""

_CODES: dict[str, tuple[int, int]] = {
    code: (stage, exit_code)
    for stage, (_, by_exit) in enumerate(_STAGES)
    for exit_code, codes in by_exit.items()
    for code in codes.split()
}
_SEVERITY = {2: 0, 1: 1, 3: 2}
MAX_FINDINGS = 1000
"""Findings of one code that are listed one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: in which file, where in it (JSON pointer or ``line 7``), expected against found."""

    code: str
    path: str
    pointer: str
    expected: str
    found: str
    exit_code: int

    @property
    def stage(self) -> int:
        """Index into ``STAGE_NAMES``."""
        return _CODES[self.code][0]

    def __str__(self) -> str:
        where = f"{self.path} at {self.pointer}" if self.pointer else self.path
        return f"{self.code}: {where}: expected {self.expected or 'nothing'}, found {self.found or 'nothing'}"


class EvidenceProblem(EvidenceError):
    """An :class:`EvidenceError` that carries its finding."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding), code=finding.code)


def finding(code: str, path: str, *, pointer: str = "", expected: object = "", found: object = "") -> Finding:
    """Return a finding; its exit code follows from ``code``, which must be one of the table above."""
    return Finding(
        code=code,
        path=_printable(path),
        pointer=_printable(pointer),
        expected=_printable(str(expected)),
        found=_printable(str(found)),
        exit_code=_CODES[code][1],
    )


def _printable(text: str) -> str:
    """Escape what a terminal would act upon: control characters, bidi marks, halves of surrogate pairs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def problem(code: str, path: str, *, pointer: str = "", expected: object = "", found: object = "") -> EvidenceProblem:
    """Return the exception for a finding, to be raised."""
    return EvidenceProblem(finding(code, path, pointer=pointer, expected=expected, found=found))


def malformed(path: str, error: CanonicalError, *, pointer: str = "") -> EvidenceProblem:
    """Return the problem of a stored document that the strict reader refused."""
    where = f"{pointer}{error.pointer}"
    return problem("malformed", path, pointer=where, expected="canonical JSON", found=error.message)


def read_document(data: bytes, path: str) -> Any:
    """Read a stored document. Raises EvidenceError ``malformed`` with the place where it is not canonical."""
    try:
        return read_stored(data)
    except CanonicalError as error:
        raise malformed(path, error) from None


@dataclass(slots=True)
class Collector:
    """Collects findings. Of one code at most ``MAX_FINDINGS`` are kept one by one: a list must not become a load."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, path: str, *, pointer: str = "", expected: object = "", found: object = "") -> None:
        """Take one more finding."""
        self.take([finding(code, path, pointer=pointer, expected=expected, found=found)])

    def take(self, findings: Iterable[Finding]) -> None:
        """Take more findings."""
        for item in findings:
            count = self.counts[item.code] = self.counts.get(item.code, 0) + 1
            if count <= MAX_FINDINGS:
                self.findings.append(item)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the finding of a problem, and go on behind the block."""
        try:
            yield
        except EvidenceProblem as error:
            self.take([error.finding])

    def listed(self) -> tuple[Finding, ...]:
        """Return everything, in the order of :func:`ordered`; of a code with too many, how many more there are."""
        more = [
            finding(code, "and others", expected=f"at most {MAX_FINDINGS} are listed", found=f"{count} in all")
            for code, count in self.counts.items()
            if count > MAX_FINDINGS
        ]
        return ordered([*self.findings, *more])


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by stage, then path, then place; duplicates once."""

    def key(item: Finding) -> tuple[Any, ...]:
        return (item.stage, item.path, item.code, item.pointer, item.expected, item.found)

    return tuple(sorted(set(findings), key=key))


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code of a check: 0 without findings, else that of the first stage that fails."""
    listed = tuple(findings)
    if not listed:
        return 0
    first = min(item.stage for item in listed)
    return min((item.exit_code for item in listed if item.stage == first), key=_SEVERITY.__getitem__)
