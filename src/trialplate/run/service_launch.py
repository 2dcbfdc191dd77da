"""Serve the environment to a driver: the same campaign as any other, whose arms are played from outside.

The doors are open before the run begins, because only a driver can say who its policy is; nothing is recorded before
it has. The run itself is :func:`~trialplate.run.campaign.run_campaign`.

Source: policy contract, sections 3 and 4.2.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from trialplate.canonical import JsonValue
from trialplate.errors import HarnessFault, LockError, UsageError, nearest
from trialplate.interfaces import Actor
from trialplate.lock import Lock
from trialplate.policies.service.actor import ServedActor
from trialplate.policies.service.desk import MANAGEMENT_BYTES, Counts, Desk
from trialplate.policies.service.http import service_app
from trialplate.policies.service.listener import Listener
from trialplate.policies.service.rendezvous import IDLE_TIMEOUT_S, Ending, Rendezvous
from trialplate.policies.service.token import token_from
from trialplate.policies.setting import ActorSetting
from trialplate.record import EndReason, Outcome
from trialplate.registry import load_suite
from trialplate.run.attempt import Recording
from trialplate.run.bench import BenchPlan
from trialplate.run.campaign import Attachment, Progress, RunReport, open_campaign, refuse_unfit, run_campaign
from trialplate.run.interrupt import interruptible
from trialplate.run.schedule import Trial
from trialplate.run.seating import actor_setting
from trialplate.spec.schemes import scheme_of
from trialplate.store.view import read_campaign

LINGER_AT_MOST_S = 600.0
"""However often a driver asks after the last episode, the service ends."""

GONE_S = 2.0
"""Nobody is connected for as long, and everybody knows that it is over: nobody comes back for the results."""

LOOK_EVERY_S = 0.05

END_TOLD: Mapping[str, EndReason] = {
    "policy_stop": "policy_stop", "step_limit": "step_limit", "control_rejected": "error", "fault": "error",
    "interrupted": "aborted",
}  # fmt: skip
"""Termination of a row -> how the driver is told that the episode ended."""

_ENDINGS: Mapping[str | None, Ending] = {None: "complete", "systematic_error": "halted"}
"""What stopped a run early -> how a driver that asks for an episode is told; all else is ``aborted``."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Where the service listens, and the file of the key to its management. ``bind``: HOST:PORT, port 0 any free."""

    bind: str
    token_file: Path
    allow_remote: bool = False


class Service:
    """What a driver meets. ``planned``: trials of the served ``arms``; ``left``: those still to be played.

    ``idle_timeout_s``: for how long no driver may show itself while an episode waits for one.
    """

    def __init__(
        self, lock: Lock, folder: Path, *, settings: Mapping[str, ActorSetting], left: int, resume: bool,
        score: Callable[[Path], Sequence[Outcome]], idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> None:  # fmt: skip
        self.arms = frozenset(settings)
        self.planned = sum(trial["arm"] in self.arms for trial in lock.document["schedule"])
        self._lock, self._folder, self._resume, self._score = lock, folder, resume, score
        self._settings = settings
        self.left, self._in_flight = left, False
        self._over = threading.Event()
        self._connections: Callable[[], int] = lambda: 0
        self._table = Rendezvous(idle_timeout_s=idle_timeout_s)
        self.desk = Desk(self._table, settings, counts=self._counts, results=self._results)

    @contextmanager
    def open(self, doors: Doors) -> Iterator[str]:
        """Listen until the block is left; gives the address. Raises UsageError."""
        token = token_from(doors.token_file)
        largest = max(self.desk.decision_bytes, MANAGEMENT_BYTES)
        listener = Listener(
            service_app(self.desk, token=token),
            doors.bind,
            allow_remote=doors.allow_remote,
            max_frame_bytes=largest,
        )
        listener.start()
        self._connections = lambda: listener.connections
        try:
            yield listener.address
        finally:
            self._over.set()
            self._table.stop("the service ended")
            listener.stop()

    @property
    def given_up(self) -> str | None:
        """Why the run ended before its last episode without anybody having said so, None when it did not."""
        return self._table.stopped if self._table.idle else None

    def run(self, *, recording: Recording, progress: Callable[[Progress], None]) -> RunReport:
        """Wait for the first driver, then run the campaign; afterwards answer for a while whoever asks how it went.

        Raises UsageError ``not_started`` when nobody came, and what ``run_campaign`` raises.
        """
        if not self._table.wait_for_driver():
            raise UsageError(f"nothing was run: {self._table.stopped}", code="not_started")
        registered = {
            name: came
            for name, came in self.desk.registered.items()
            if came.sha256() != self._settings[name].registration_sha256
        }
        attachment = Attachment({"served": self._seat}, gate=self._admit, arms=self.arms, registered=registered)
        report = run_campaign(
            self._lock, self._folder, resume=self._resume, recording=recording, attachment=attachment,
            progress=lambda how_far: self._note(how_far, tell=progress),
        )  # fmt: skip
        self._over.set()
        if report.stopped_by == "interrupted" or self._table.idle:
            return report
        self._table.no_more(_ENDINGS.get(report.stopped_by, "aborted"))
        with suppress(KeyboardInterrupt):  # the run is closed: whoever does not want to wait need not
            self._linger()
        return report

    # -- the run's side --------------------------------------------------------------------------------------------

    def _seat(self, setting: ActorSetting) -> Actor:
        return ServedActor(self._table, setting)

    def _admit(self, trial: Trial) -> bool:
        self._in_flight = self._table.wait_for_next(trial.trial_id)
        return self._in_flight

    def _note(self, how_far: Progress, *, tell: Callable[[Progress], None]) -> None:
        self.left, self._in_flight = how_far.total - how_far.done, False
        tell(how_far)

    def _linger(self) -> None:
        """Stay until nobody needs the results, which are there only now, or nobody has asked for a while."""
        quiet_s = max(setting.budgets.close_timeout_s for setting in self._settings.values())
        begun_s = connected_s = monotonic()
        while not self.desk.all_read:
            now_s = monotonic()
            connected_s = now_s if self._connections() else connected_s
            gone = self.desk.all_told and now_s - max(connected_s, self._table.heard_s) > GONE_S
            if gone or now_s > min(self._table.heard_s + quiet_s, begun_s + LINGER_AT_MOST_S):
                return
            threading.Event().wait(LOOK_EVERY_S)

    # -- the driver's side -----------------------------------------------------------------------------------------

    def _counts(self) -> Counts:
        ended = self.planned - self.left
        return Counts(self.planned, ended + self._in_flight, ended)

    def _results(self) -> list[dict[str, JsonValue]]:
        """Return every counted attempt of the arms; after an abort the last one may still be on its way to disk."""
        if not self._over.wait(max(setting.budgets.episode_timeout_s for setting in self._settings.values())):
            raise HarnessFault("the last attempt has not ended", code="interrupted")
        rows = {row.trial_id: row for row in read_campaign(self._folder).rows}  # in order: the last attempt counts
        told = []
        for outcome in self._score(self._folder):
            if outcome.arm not in self.arms:
                continue
            row = rows[outcome.trial_id]
            reason = "aborted" if row.fault_code == "interrupted" else END_TOLD[row.termination]
            told.append(
                {
                    "attempt": f"{row.trial_id}-{row.attempt}",
                    "episode": self._table.id_of(row.trial_id),
                    "status": outcome.status.value,
                    "reason": reason,
                    "code": row.fault_code,
                }
            )
        return told


@contextmanager
def serving(
    lock: Lock,
    folder: Path,
    *,
    doors: Doors,
    arms: Collection[str] = (),
    resume: bool = False,
    score: Callable[[Path], Sequence[Outcome]],
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> Iterator[tuple[Service, str]]:
    """Open a service for arms of a lock (all that are served, by default); gives it and its address.

    Refuses everything that can be refused before a driver comes: raises LockError, UsageError and what
    ``run_campaign`` raises. ``score`` says what the recorded attempts are worth, for the driver that asks at the end.
    ``idle_timeout_s``: the run ends when no driver has shown itself for as long while an episode waits for one.
    Ctrl-C and SIGTERM raise KeyboardInterrupt inside.
    """
    if isinstance(idle_timeout_s, bool) or not 0 < idle_timeout_s < float("inf"):
        raise UsageError(f"--idle-timeout-s: expected seconds above 0, got {idle_timeout_s!r}")
    chosen = served_arms(lock, arms)
    refuse_unfit(lock, arms=chosen, addresses={})
    left = _open_before(lock, folder, arms=chosen, resume=resume)
    settings = {name: _setting(lock, name) for name in chosen}
    service = Service(
        lock, folder, settings=settings, left=left, resume=resume, score=score, idle_timeout_s=idle_timeout_s
    )
    with interruptible(), service.open(doors) as address:
        yield service, address


def served_arms(lock: Lock, wanted: Collection[str] = ()) -> tuple[str, ...]:
    """Return the served arms of a lock, or those that are wanted. Raises LockError or UsageError."""
    served = [arm["name"] for arm in lock.document["arms"] if scheme_of(arm["policy"]) == "served"]
    if not served:
        raise LockError(
            'no arm of this lock is played by a driver: expected an arm with policy = "served"', code="no_such_arm"
        )
    for name in wanted:
        if name not in served:
            raise UsageError(f"no served arm {name!r}{nearest(name, served)}", code="no_such_arm")
    return tuple(name for name in served if not wanted or name in wanted)


def _open_before(lock: Lock, folder: Path, *, arms: Collection[str], resume: bool) -> int:
    """Return how many trials of the arms are to be played. Raises whatever keeps a run from using the folder."""
    with open_campaign(lock, folder, resume=resume) as writer:
        cut_short = [item for item in writer.open_attempts if item.attempt < writer.plan.replacements]
        trials = [*writer.unstarted, *(trial for trial, _ in writer.replaceable), *(item.trial for item in cut_short)]
        return sum(trial.arm in arms for trial in trials)


def _setting(lock: Lock, name: str) -> ActorSetting:
    """Return the terms of a served arm, as the loop hands them to its actor."""
    entry = next(arm for arm in lock.document["arms"] if arm["name"] == name)
    terms = BenchPlan(lock.document, lock.sha256).terms()
    return actor_setting(entry, load_suite(lock.document["suite"]["name"]), terms)
