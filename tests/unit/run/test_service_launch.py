"""How a driver is told that a run ended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

import served_campaign as sc
from trialplate.run import service_launch
from trialplate.run.campaign import RunReport
from trialplate.run.service_launch import Doors, serving


@pytest.mark.parametrize(
    ("stopped_by", "told"),
    [(None, "complete"), ("systematic_error", "halted"), ("inputs_changed", "aborted"), ("aborted", "aborted")],
)
def test_a_driver_is_told_that_all_is_done_only_when_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: str | None, told: str
) -> None:
    lock = sc.locked(tmp_path, sc.served("there"), scenarios=1)
    report = RunReport(tmp_path / "c", stopped_by is None, 0, 1, (), stopped_by)
    monkeypatch.setattr(service_launch, "run_campaign", lambda *_, **__: report)
    doors = Doors("127.0.0.1:0", tmp_path / "token")
    with serving(lock, tmp_path / "c", doors=doors, score=lambda _: ()) as (service, address):
        answers: list[dict[str, Any]] = []

        def drive() -> None:
            key = (tmp_path / "token").read_text(encoding="ascii").strip()
            headers = {"authorization": f"Bearer {key}"}
            with httpx.Client(base_url=address, headers=headers, timeout=30, trust_env=False) as driver:
                driver.post("/v1/hello", json=sc.HELLO).raise_for_status()
                driver.post("/v1/register", json=sc.REGISTER).raise_for_status()
                answers.append(driver.post("/v1/episodes").json())

        driver = threading.Thread(target=drive)
        driver.start()
        assert service.run(recording="minimal", progress=lambda _: None) is report
        driver.join()
    assert [answer["reason"] for answer in answers] == [told]
