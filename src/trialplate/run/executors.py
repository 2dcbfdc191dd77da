"""Executors: where trials run. Same trials, same bytes, whatever the executor and the number of workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic

from trialplate.errors import HarnessFault, TrialplateError
from trialplate.run.bench import Bench, BenchPlan, Finished
from trialplate.run.schedule import Trial
from trialplate.run.seating import ActorFactory

Task = tuple[Trial, int]  # a trial and the number of its attempt


@dataclass(frozen=True, slots=True)
class Returned:
    """A task that came back: what it left, or the fault that took its worker away."""

    task: Task
    finished: Finished | None
    lost: HarnessFault | None = None


def run_serial(
    plan: BenchPlan,
    tasks: Iterator[Task],
    *,
    started: Callable[[Task], None],
    actors: Mapping[str, ActorFactory] | None = None,
) -> Iterator[Returned]:
    """Run tasks one after the other in this process. ``started`` is called, durably, before each.

    ``actors``: scheme -> how an arm that comes to the run by itself is met.
    """
    bench = Bench(plan, actors=actors)
    try:
        for task in tasks:
            started(task)
            yield Returned(task, bench.run(task[0], attempt=task[1]))
    finally:
        bench.close()


def run_processes(
    plan: BenchPlan, tasks: Iterator[Task], *, started: Callable[[Task], None], workers: int, episode_timeout_s: float
) -> Iterator[Returned]:
    """Run tasks in spawned worker processes, each with its own warm bench.

    A worker that dies or exceeds ``episode_timeout_s`` costs the attempt in its hands, no other: it is
    replaced, and the attempt comes back as lost (``worker_lost``, ``worker_timeout``).
    """
    pool = [_Worker(plan) for _ in range(workers)]
    try:
        idle = list(pool)
        while True:
            while idle and (task := next(tasks, None)) is not None:
                started(task)
                idle.pop().give(task, episode_timeout_s)
            busy = [worker for worker in pool if worker.task is not None]
            if not busy:
                return
            for worker in _ready(busy):
                returned = worker.collect()
                if returned.lost is not None:
                    worker.stop()
                    pool.remove(worker)
                    worker = _Worker(plan)
                    pool.append(worker)
                idle.append(worker)
                yield returned
    finally:
        for worker in pool:
            worker.stop()


def _ready(busy: list[_Worker]) -> list[_Worker]:
    timeout = max(0.0, min(worker.deadline for worker in busy) - monotonic())
    heard = set(wait([worker.pipe for worker in busy], timeout))
    return [worker for worker in busy if worker.pipe in heard or monotonic() >= worker.deadline]


class _Worker:
    """A process, the pipe to it, and the task in its hands."""

    def __init__(self, plan: BenchPlan) -> None:
        context = multiprocessing.get_context("spawn")  # fork after a GL context exists hangs the child
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(plan, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.deadline = 0.0

    def give(self, task: Task, timeout_s: float) -> None:
        self.task, self.deadline = task, monotonic() + timeout_s
        with suppress(BrokenPipeError):  # a dead worker is found by collect()
            self.pipe.send(task)

    def collect(self) -> Returned:
        task = self.task
        assert task is not None
        self.task = None
        if not self.pipe.poll():
            message = f"trial {task[0].trial_id}: no answer from its worker within the episode timeout"
            return Returned(task, None, HarnessFault(message, code="worker_timeout"))
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join(5)
            message = f"trial {task[0].trial_id}: its worker died with exit code {self.process.exitcode}"
            return Returned(task, None, HarnessFault(message, code="worker_lost"))
        if isinstance(answer, TrialplateError):
            raise answer
        row = answer.row
        if (row.trial_id, row.attempt) != (task[0].trial_id, task[1]):
            raise HarnessFault(
                f"worker answered for trial {row.trial_id}, expected {task[0].trial_id}", code="worker_lost"
            )
        return Returned(task, answer)

    def stop(self) -> None:
        with suppress(BrokenPipeError, OSError):
            self.pipe.send(None)
        if self.task is not None:
            self.process.terminate()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(plan: BenchPlan, pipe: Connection) -> None:
    """Body of a worker process: run tasks until told to stop. The parent alone handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what an arm prints is no answer of ours
    bench = Bench(plan)
    with suppress(EOFError, BrokenPipeError):
        while (task := pipe.recv()) is not None:
            try:
                pipe.send(bench.run(task[0], attempt=task[1]))
            except TrialplateError as error:
                pipe.send(error)
    bench.close()
