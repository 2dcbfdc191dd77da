"""The exception tree. The type says whose doing it was, and so what it does to the number.

    TrialplateError                 everything this package raises on purpose; has ``code``
    |-- ProtocolError               the registered document is wrong: nothing has run        exit 2
    |-- LockError                   the lock is refused, or is not of this machine and code  exit 2
    |-- UsageError                  an argument or a folder is wrong: nothing has run        exit 2
    |-- Unavailable                 this machine lacks something (GL, a package)             exit 2
    |-- StatsInputError             a number handed to a statistic is not one                exit 2
    |-- PolicyFault                 the arm's doing: charged to the arm by the fault table
    |   `-- PlanFault               a planner that has no plan, or sent one that is none
    |       `-- PlanningFailed      what a planner raises for "no plan"
    |-- ContractFault               the two sides did not keep the policy contract: neither's merit
    |   `-- CaseFault               a skill case that was not put to the test: nothing is said of the planner
    |-- HarnessFault                our doing: the episode is no evidence about the arm
    |   |-- SensorInvalid           blank, twin or stale camera, non-finite state
    |   |-- SceneMismatch           the world is not the scenario that was promised
    |   `-- StorageFailure          a durable write failed: the run stops at once
    `-- EvidenceError               recorded evidence is malformed or contradicts itself: no analysis
        `-- CanonicalError          a document is not in canonical form

The fault table of the protocol maps the ``code`` of a fault to a status; only ``scoring`` applies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class TrialplateError(Exception):
    """Base of every error raised on purpose. ``code`` is stable and machine-readable."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """One mistake in a document: where (``arms[1].policy``), and what was expected against got."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ProtocolError(TrialplateError):
    """A protocol that cannot be locked. ``faults`` lists every mistake found, not only the first."""

    code = "protocol_invalid"

    def __init__(self, source: str, faults: Iterable[DocumentFault]) -> None:
        self.source = source
        self.faults = tuple(faults)
        count = len(self.faults)
        lines = "\n".join(f"  {n}. {fault}" for n, fault in enumerate(self.faults, 1))
        super().__init__(f"{source}: {count} mistake{'s' if count != 1 else ''}\n{lines}")


class LockError(TrialplateError):
    """A lock that cannot be made, or that does not fit this machine, this code or this folder."""

    code = "lock_refused"


class UsageError(TrialplateError):
    """A wrong argument, path or folder, found before anything ran."""

    code = "usage"


class Unavailable(TrialplateError):
    """This machine lacks something that was asked for; the message says what and how to get it."""

    code = "unavailable"


class StatsInputError(TrialplateError):
    """An argument of a statistic is not what its definition needs; never repaired."""

    code = "stats_input"

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(f"{argument}: {message}")


POLICY_FAULTS = (
    "invalid_action",
    "native_rejected",
    "invalid_response_schema",
    "policy_exception",
    "policy_timeout",
    "call_budget_exhausted",
    "policy_time_exhausted",
    "forbidden_tool",
)
"""Codes of :class:`PolicyFault`."""

RECOVERABLE_FAULTS = frozenset({"invalid_action", "native_rejected", "invalid_response_schema"})
"""Codes after which a policy is asked again when the protocol registers ``invalid_action_handling = "feedback"``."""

CONTRACT_FAULTS = (
    "version_mismatch",
    "contract_mismatch",
    "contract_undeclared",
    "registration_missing",
    "identity_changed",
    "stale_observation",
    "out_of_order",
    "spec_hash_mismatch",
    "message_too_large",
    "wire_malformed",
    "wire_dialect_mismatch",
)
"""Codes of :class:`ContractFault`."""

HARNESS_FAULTS = (
    "simulator_crash",
    "reset_failed",
    "observation_unhealthy",
    "scene_mismatch",
    "solver_failure",
    "storage_failure",
    "interrupted",
    "worker_lost",
    "worker_timeout",
    "transport_lost",
    "native_step_uncertain",
    "connect_failed",
)
"""Codes of :class:`HarnessFault`."""

CONNECTION_FAULTS = frozenset({"transport_lost", "connect_failed"})
"""Those of them that happen between harness and policy: whose doing one was, nobody can tell."""

DEFAULT_STATUS = {
    **dict.fromkeys(POLICY_FAULTS, "FAIL"),
    **dict.fromkeys(CONTRACT_FAULTS, "ERROR"),
    **dict.fromkeys(HARNESS_FAULTS, "ERROR"),
}
"""Fault code -> status where neither suite nor protocol registers another (policy contract, section 6)."""


class PolicyFault(TrialplateError):
    """The arm did something that ends its attempt. ``code`` is one of ``POLICY_FAULTS``.

    ``row``, ``component`` and ``rule`` say what was wrong with a chunk, where that can be told: they are what a
    policy is told back under feedback handling.
    """

    code = "policy_exception"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        row: int | None = None,
        component: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.row, self.component, self.rule = row, component, rule


class ContractFault(TrialplateError):
    """Messages that do not keep the policy contract. ``code`` is one of ``CONTRACT_FAULTS``."""

    code = "wire_malformed"


class PlanFault(PolicyFault):
    """A planner that raised, took too long, or sent what is no plan.

    ``code``: ``planner_exception``, ``planner_reported_failure`` or ``timeout``; ``detail``: one of ``PLAN_DETAILS``
    of :mod:`trialplate.spec.skills`, None where the reason has none.
    """

    code = "planner_exception"

    def __init__(self, message: str, *, code: str | None = None, detail: str | None = None) -> None:
        super().__init__(message, code=code)
        self.detail = detail


class PlanningFailed(PlanFault):
    """A planner raises this for "no plan"; the message is recorded."""

    code = "planner_reported_failure"


class CaseFault(ContractFault):
    """A skill case that could not be put to the test. ``detail``: one of ``CASE_DETAILS``."""

    code = "invalid_case"

    def __init__(self, message: str, *, code: str | None = None, detail: str | None = None) -> None:
        super().__init__(message, code=code)
        self.detail = detail


class HarnessFault(TrialplateError):
    """The harness failed. ``code`` is one of ``HARNESS_FAULTS``."""

    code = "simulator_crash"


class SensorInvalid(HarnessFault):
    """A camera frame or a state reading that cannot be shown to a policy."""

    code = "observation_unhealthy"


class SceneMismatch(HarnessFault):
    """The world read back from the simulator is not the scenario of the manifest."""

    code = "scene_mismatch"


class StorageFailure(HarnessFault):
    """A durable write failed. What was durable before is intact; the run stops, and can be resumed."""

    code = "storage_failure"


class EvidenceError(TrialplateError):
    """Evidence that is malformed, incomplete or contradicts itself."""

    code = "evidence_invalid"


class CanonicalError(EvidenceError):
    """A value or a document that has no canonical form. ``pointer`` is a JSON pointer to the place."""

    code = "not_canonical"

    def __init__(self, code: str, message: str, *, pointer: str = "") -> None:
        self.pointer = pointer
        where = f" at {pointer}" if pointer else ""
        super().__init__(f"{code}{where}: {message}", code=code)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the tail of a message that offers the nearest known names, and all of them when few."""
    names = sorted(known)
    close = get_close_matches(name, names, n=2, cutoff=0.5)
    offer = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    listed = f"Known: {', '.join(names)}." if 0 < len(names) <= 12 else ""
    return f"{offer} {listed}" if offer and listed else f". {listed}" if listed else offer
