"""The demonstration: the main path on real input."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trialplate import api, exam

PROTOCOL = Path(__file__).parent / "examples" / "pick_place" / "protocol.toml"


def run(
    *, out: Path, campaigns: Path, workers: int | None = None, progress: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Run the demonstration protocol into a new folder of ``campaigns`` and write its report to ``out``."""
    workers = workers or min(4, os.cpu_count() or 1)
    folder = _new_folder(campaigns)
    lock = api.lock(api.load_protocol(PROTOCOL), into=folder)
    api.run(
        lock,
        workers=workers,
        progress=lambda p: progress(p.done, p.total, f"{p.last.arm} {p.last.scenario}" if p.last else ""),
    )
    claims = exam.judge_campaign(folder)
    verdict = api.verify(folder)
    report = api.report(folder, claims, to=out, workers=workers)
    return {
        "campaign": str(folder),
        "report": str(report),
        "analysis": api.analyse(api.score(folder), lock).document(),
        "claims": [claim.document() for claim in claims],
        "verify_exit_code": verdict.exit_code,
    }


def _new_folder(campaigns: Path) -> Path:
    number = 1
    while (folder := campaigns / f"pick-place-demo-{number:02d}").exists():
        number += 1
    return folder
