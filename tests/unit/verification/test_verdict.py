"""Five lines, never a bare OK; claims stand only where nothing was found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trialplate.canonical import canonical_json
from trialplate.store.findings import exit_code, finding
from trialplate.verification.verdict import Verdict, stored_claims

CLAIMS = {
    "schema": "trialplate.claims/1",
    "blockers": [],
    "claims": [
        {"name": "half", "verdict": "not_supported", "reasons": ["lower_bound"]},
        {"name": "most", "verdict": "supported", "reasons": []},
    ],
}
TOLD = "half not supported (lower_bound); most supported"


def verdict(folder: Path | None, *codes: str, registered: int = 2) -> Verdict:
    """Return what a check says that found these codes, on a campaign in a folder; None: one that cannot be read."""
    document = {"protocol": {"claims": [{}] * registered}}
    view: Any = SimpleNamespace(folder=folder, lock_document=document, lock_sha256="", amendments=())
    found = tuple(finding(code, "x") for code in codes)
    return Verdict(found, exit_code(found), view if folder is not None else None, 1, "not looked at")


def line(said: Verdict, name: str) -> str:
    (found,) = [text for text in said.lines() if text.startswith(f"{name} ")]
    return found.removeprefix(f"{name} ")


def test_there_are_five_lines_in_their_order_whatever_was_found(tmp_path: Path) -> None:
    for said in (verdict(None, "unreadable"), verdict(tmp_path), verdict(tmp_path, "late_lock")):
        names = [text.split()[0] for text in said.lines()]
        assert names == ["INTEGRITY", "QUALIFICATION", "CLAIMS", "ASSURANCE", "LIMITS"]


def test_one_is_not_many(tmp_path: Path) -> None:
    assert line(verdict(tmp_path), "INTEGRITY") == "verified: 1 attempt, 0 findings"
    assert line(verdict(tmp_path, "late_lock"), "INTEGRITY") == "intact, but blocked: 1 attempt, 1 finding"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), TOLD),
        (("coverage_incomplete",), f"none stands while something blocks; stored: {TOLD}"),
        (("claims_not_reproduced",), f"none stands on what does not verify; stored: {TOLD}"),
        (("malformed",), f"none stands on what does not verify; stored: {TOLD}"),
    ],
)
def test_stored_claims_are_told_with_what_they_are_worth(
    tmp_path: Path, codes: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "claims.json").write_bytes(canonical_json(CLAIMS))
    assert line(verdict(tmp_path, *codes), "CLAIMS") == expected


def test_claims_that_nobody_judged_or_registered_are_told_as_such(tmp_path: Path) -> None:
    assert line(verdict(tmp_path), "CLAIMS") == "not judged: 2 registered"
    assert line(verdict(tmp_path, registered=0), "CLAIMS") == "none registered"
    assert line(verdict(None, "unreadable"), "CLAIMS") == "not looked at: the evidence cannot be read"
    (tmp_path / "claims.json").write_bytes(canonical_json({**CLAIMS, "claims": []}))
    assert line(verdict(tmp_path), "CLAIMS") == "none registered"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"claims":[1]}', b'{"claims":{"a":1}}', b"\xff", b'{"claims": []}']
)
def test_a_claims_file_of_another_form_is_no_claims_and_no_traceback(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "claims.json").write_bytes(data)
    assert stored_claims(tmp_path) is None
