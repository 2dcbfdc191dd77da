"""Executors: where trials run. Same trials, same bytes, whatever the executor and the number of workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pickle import UnpicklingError
from time import monotonic
from typing import Literal

from trialplate.errors import HarnessFault, TrialplateError
from trialplate.run.bench import Bench, BenchPlan, Finished
from trialplate.run.schedule import Trial
from trialplate.run.seating import ActorFactory
from trialplate.run.streams import hold_descriptors, print_lossily

Task = tuple[Trial, int]  # a trial and the number of its attempt


@dataclass(frozen=True, slots=True)
class Returned:
    """A task that came back: what it left, or the fault that took its worker away."""

    task: Task
    finished: Finished | None
    lost: HarnessFault | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that nobody waited for. ``reason``: of ``another_trial``, given ``twice``, or ``late``.

    ``trial_id`` and ``attempt``: what it says that it is of; ``asked``: what its worker was asked for.
    """

    reason: Literal["another_trial", "twice", "late"]
    trial_id: str
    attempt: int
    asked: str

    def data(self) -> dict[str, str | int]:
        """Return what an event ``result_refused`` says."""
        return asdict(self)


def run_serial(
    plan: BenchPlan,
    tasks: Iterator[Task | None],
    *,
    started: Callable[[Task], None],
    actors: Mapping[str, ActorFactory] | None = None,
) -> Iterator[Returned]:
    """Run tasks one after the other in this process. ``started`` is called, durably, before each.

    None among the tasks says that the next one has to wait for another to end: here nothing is running, so it is the
    end.
    ``actors``: scheme -> how an arm that comes to the run by itself is met.
    """
    bench = Bench(plan, actors=actors)
    try:
        for task in tasks:
            if task is None:
                return
            started(task)
            yield Returned(task, bench.run(task[0], attempt=task[1]))
    finally:
        bench.close()


def run_processes(
    plan: BenchPlan,
    tasks: Iterator[Task | None],
    *,
    started: Callable[[Task], None],
    refused: Callable[[Refused], None],
    workers: int,
    episode_timeout_s: float,
) -> Iterator[Returned]:
    """Run tasks in spawned worker processes, each with its own warm bench.

    A worker that dies, exceeds ``episode_timeout_s`` or answers for another trial costs the attempt in its hands, no
    other: it is replaced, and the attempt comes back as lost (``worker_lost``, ``worker_timeout``). What it sends
    beside the one answer that is waited for is told to ``refused``, and is no result. None among the tasks says that
    the next one has to wait for another to end.
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
                break
            for worker in _ready(busy):
                returned = worker.collect()
                if returned is not None and returned.lost is not None:
                    worker.stop()
                    pool.remove(worker)
                    pool.append(_Worker(plan))
                for item in worker.take_refused():
                    refused(item)
                if returned is not None:
                    idle.append(worker if returned.lost is None else pool[-1])
                    yield returned
        for worker in pool:
            worker.stop()
            for item in worker.take_refused():
                refused(item)
        pool.clear()
    finally:
        for worker in pool:
            worker.stop()


def _ready(busy: list[_Worker]) -> list[_Worker]:
    timeout = max(0.0, min(worker.deadline for worker in busy) - monotonic())
    heard = set(wait([worker.pipe for worker in busy], timeout))
    return [worker for worker in busy if worker.pipe in heard or monotonic() >= worker.deadline]


class _Worker:
    """A process, the pipe to it, and the task in its hands. Each task has a number, which its answer repeats."""

    def __init__(self, plan: BenchPlan) -> None:
        context = multiprocessing.get_context("spawn")  # fork after a GL context exists hangs the child
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(plan, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.deadline = 0.0
        self._number = 0
        self._asked = "nothing"
        self._refused: list[Refused] = []

    def give(self, task: Task, timeout_s: float) -> None:
        self.task, self.deadline = task, monotonic() + timeout_s
        self._number += 1
        self._asked = f"{task[0].trial_id}-{task[1]}"
        with suppress(BrokenPipeError):  # a dead worker is found by collect()
            self.pipe.send((self._number, task))

    def collect(self) -> Returned | None:
        """Return what came back for the task in its hands; None when it was something else, and time is left."""
        task = self.task
        assert task is not None
        if not self.pipe.poll():
            return self._lost(task, "worker_timeout", "no answer from its worker within the episode timeout")
        try:
            number, answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join(5)
            return self._lost(task, "worker_lost", f"its worker died with exit code {self.process.exitcode}")
        except (UnpicklingError, TypeError, ValueError) as error:
            return self._lost(task, "worker_lost", f"its worker sent what is no answer: {error}")
        if number != self._number:
            self._refuse("twice", answer)
            if monotonic() < self.deadline:
                return None
            return self._lost(task, "worker_timeout", "its worker repeats old answers until the episode timeout")
        self.task = None
        if isinstance(answer, TrialplateError):
            raise answer
        if (answer.row.trial_id, answer.row.attempt) != (task[0].trial_id, task[1]):
            self._refuse("another_trial", answer)
            found = f"{answer.row.trial_id}-{answer.row.attempt}"
            return self._lost(task, "worker_lost", f"its worker answered for {found}, expected {self._asked}")
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
        with suppress(EOFError, OSError, UnpicklingError, TypeError, ValueError):
            while self.pipe.poll():
                number, answer = self.pipe.recv()
                self._refuse("late" if self.task is not None and number == self._number else "twice", answer)
        self.pipe.close()

    def take_refused(self) -> list[Refused]:
        """Return what was refused since the last time."""
        taken, self._refused = self._refused, []
        return taken

    def _lost(self, task: Task, code: str, message: str) -> Returned:
        return Returned(task, None, HarnessFault(f"trial {task[0].trial_id}: {message}", code=code))

    def _refuse(self, reason: Literal["another_trial", "twice", "late"], answer: object) -> None:
        if isinstance(answer, Finished):
            self._refused.append(Refused(reason, answer.row.trial_id, answer.row.attempt, self._asked))


def _serve(plan: BenchPlan, pipe: Connection) -> None:
    """Body of a worker process: run tasks until told to stop. The parent alone handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hold_descriptors()
    os.dup2(2, 1)  # what an arm prints is no answer of ours
    print_lossily()
    bench = Bench(plan)
    with suppress(EOFError, BrokenPipeError):
        while (given := pipe.recv()) is not None:
            number, task = given
            try:
                pipe.send((number, bench.run(task[0], attempt=task[1])))
            except TrialplateError as error:
                pipe.send((number, error))
    bench.close()
