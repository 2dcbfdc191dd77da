"""Worker processes that send what nobody asked for: in the place of ``trialplate.run.executors._serve``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from trialplate.run.bench import Bench, BenchPlan, Finished

LIAR = "000004"
"""The trial at which each of them lies; every other one is answered as it should be."""


def _serve(plan: BenchPlan, pipe: Connection, lie: Callable[[Connection, int, Finished], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    bench = Bench(plan)
    while (given := pipe.recv()) is not None:
        number, task = given
        finished = bench.run(task[0], attempt=task[1])
        if task[0].trial_id == LIAR:
            lie(pipe, number, finished)
        else:
            pipe.send((number, finished))
    bench.close()


def _of(finished: Finished, trial_id: str) -> Finished:
    return replace(finished, row=replace(finished.row, trial_id=trial_id))


def another_trial(plan: BenchPlan, pipe: Connection) -> None:
    """Answer with a result that says it is of a trial that has ended."""
    _serve(plan, pipe, lambda pipe, number, finished: pipe.send((number, _of(finished, "000001"))))


def _twice(pipe: Connection, number: int, finished: Finished) -> None:
    pipe.send((number, finished))
    pipe.send((number, finished))


def twice(plan: BenchPlan, pipe: Connection) -> None:
    """Answer, and answer once more."""
    _serve(plan, pipe, _twice)


def _late(pipe: Connection, number: int, finished: Finished) -> None:
    def answer_at_last(*_: Any) -> None:
        pipe.send((number, finished))
        os._exit(0)

    signal.signal(signal.SIGTERM, answer_at_last)
    time.sleep(60)


def late(plan: BenchPlan, pipe: Connection) -> None:
    """Answer only when the time is over."""
    _serve(plan, pipe, _late)


def nonsense(plan: BenchPlan, pipe: Connection) -> None:
    """Send bytes that are no answer."""
    _serve(plan, pipe, lambda pipe, number, finished: pipe.send_bytes(b"\x80\x05nonsense"))
