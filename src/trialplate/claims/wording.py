"""The only sentences that a report may print, and how numbers are written in them.

Every sentence is a template here, so that one test can read them all. Ends of intervals are rounded outward: a
bound never looks tighter than it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

BLOCKERS: Mapping[str, str] = {
    "not_comparable": "what would be compared differs in protocol, suite, simulator, limits or embodiment",
    "not_registered": "the claim was not in the lock of the first episode",
    "incomplete_coverage": "planned trials are missing or stand twice",
    "missing_data": "an outcome, observation, cost or motion measure is unknown",
    "integrity": "a digest, the binding to the lock or a recomputation fails",
    "not_qualified": "the harness has not passed its own exam under this lock",
    "not_confirmatory": "the run is registered as development, calibration or pilot",
    "holdout_spent": "the held-out scenarios were opened for something else before this lock",
    "unregistered_stop": "the run stopped elsewhere than registered",
    "unwanted_motion": "the claiming arm moved what it must not move",
    "exploratory_registration": "an arm was run under another identity than the locked one",
}

REASONS: Mapping[str, str] = {
    **BLOCKERS,
    "few_families": "fewer families than a claim needs",
    "lower_bound": "the lower bound lies below the registered rate",
    "artifact_error": "an episode errored or a planned trial is missing",
    "errored_episodes": "at least one episode errored",
    "identity_changed": "the policy became another one during the run",
    "inputs_changed": "code or weights of the arm changed during the run",
    "systematic_error": "its first three trials ended with one and the same fault before any control",
    "no_attempts": "nothing was attempted",
    "nothing_measured": "every episode errored or was excluded",
    "task_without_attempts": "a domain has no measured episode",
    "no_pairs": "no trial was measured on both sides",
    "no_variation": "a domain with one episode has no variance",
    "no_between_cluster_variation": "all families have the same rate",
    "single_cluster": "one family has no variance between families",
    "independent_episodes": "each family has one episode",
}

OUTCOME_REASONS: Mapping[str, str] = {
    "chain_complete": "every stage passed, and still true at the end",
    "stage_not_passed": "a stage of the chain was not passed",
    "control_rejected": "a legal action asked for a pose that the controller cannot reach",
    "interrupted": "the run was interrupted during this attempt",
    "inputs_changed": "code or weights of the arm changed during the run",
    "invalid_action": "an action was out of range, not finite or of the wrong shape",
    "native_rejected": "the environment refused a row of actions",
    "invalid_response_schema": "the policy answered with something that is no decision",
    "policy_exception": "the policy raised an exception",
    "policy_timeout": "the policy did not answer in time",
    "call_budget_exhausted": "the policy used up its calls",
    "policy_time_exhausted": "the policy used up its time",
    "simulator_crash": "the simulator failed",
    "reset_failed": "the world could not be reset",
    "observation_unhealthy": "a camera or a state reading was unfit to be shown",
    "scene_mismatch": "the world was not the registered scenario",
    "solver_failure": "the inverse kinematics solver failed",
    "storage_failure": "a record could not be written",
    "transport_lost": "the connection was lost",
    "connect_failed": "no connection came about",
    "native_step_uncertain": "nobody can tell whether a control step was carried out",
    "forbidden_tool": "the policy used a tool that the protocol forbids",
    "version_mismatch": "the other side speaks another version of the contract",
    "contract_mismatch": "what the policy declares is not what the environment sends or takes",
    "contract_undeclared": "the policy left a convention undeclared",
    "registration_missing": "no identity was registered before the reset",
    "identity_changed": "the policy became another one during the run",
    "stale_observation": "the answer was to an earlier observation",
    "out_of_order": "the answer was to another call",
    "spec_hash_mismatch": "the two sides do not mean the same specification",
    "message_too_large": "a message was larger than agreed",
    "wire_malformed": "bytes came that are no message",
    "wire_dialect_mismatch": "a message came in another dialect than registered",
    "worker_lost": "the worker process was lost",
    "worker_timeout": "the worker process did not answer in time",
}

UNKNOWN: Mapping[str, str] = {
    "not_reported": "not reported",
    "not_metered": "not metered",
    "not_applicable": "not applicable",
    "withheld": "withheld",
    "unavailable": "not available",
    "not_a_checkout": "no checkout",
    "unlimited": "unlimited",
}

ATTACHED: Mapping[str, str] = {
    "control": "a control of the suite, in this process",
    "python": "a Python object in this process",
    "ws": "a policy server, asked over a WebSocket in the contract's own dialect",
    "openpi": "a policy server, asked over a WebSocket in the openpi dialect",
    "served": "a driver that came to the environment service",
    "mailbox": "a code agent that reads and writes files in a mailbox",
}

ECHO: Mapping[str, str] = {
    "policy": "the policy",
    "client": "our client; the dialect has no echo",
    "harness": "the harness; same process",
}

CONTROL_EXPECTATIONS: Mapping[str, str] = {
    "null": "must pass none",
    "exploit": "must pass none",
    "oracle": "must pass all",
    "random": "reported only",
    "baseline": "reported only",
}

TEMPLATES: Mapping[str, str] = {
    "threshold_supported": (
        "Supported: {arm} passed {k} of {n}. At {confidence} confidence its success rate on scenarios like the"
        " registered ones is at least {rate} (one-sided lower bound {bound}, {method})."
    ),
    "threshold_not_supported": (
        "Not supported: {arm} passed {k} of {n}. The one-sided lower bound at {confidence} confidence is {bound}"
        " ({method}), below the registered {rate}. This does not show that the rate is lower than that."
    ),
    "threshold_errors": " Of the {n}, {errored} errored and count as not passed.",
    "threshold_ineligible": (
        "Ineligible: whether {arm} passes at least {rate} may not be asked of this evidence, because {reasons}."
    ),
    "no_claims": "No claim was registered. The numbers describe what was recorded; they decide nothing.",
    "claims_counted": (
        "{total} claims were registered: {supported} supported, {not_supported} not supported,"
        " {ineligible} ineligible."
    ),
    "rate": "{confidence} interval {low} to {high} (Wilson)",
    "no_rate": "No success rate: {reasons}. What was seen so far is incomplete and is no estimate.",
    "comparison": (
        "{a} alone passed {only_a} of {pairs} paired trials, {b} alone {only_b}. Difference {difference} points,"
        " {confidence} interval {low} to {high} (Tango); exact McNemar p = {p}."
    ),
    "comparison_undefined": "No estimate for {a} against {b}, because {reasons}.",
    "comparison_unmatched": "{unmatched} trials have no measured partner and stand in no pair.",
    "comparison_note": (
        "A registered comparison is an estimate. It licenses no statement about which arm to prefer; only a"
        " registered claim does."
    ),
    "controls_apart": "Controls examine the harness. They are not under test and are never ranked.",
    "arms_order": "Arms stand in the order of the protocol. The order is no ranking.",
    "privileged": "{arm} is privileged: it sees measurements that no policy may see.",
    "warn_profiles": (
        "Arms do not see the same: {listing}. Rates under different profiles answer different questions."
    ),
    "warn_errors": (
        "{arm}: {errored} of {measured} measured episodes errored. They are no evidence about the arm: had all"
        " of them failed, its rate would be {low}; had all passed, {high}."
    ),
    "warn_compromised": (
        "{arm}: a leak of identifying context was disclosed on {compromised} of {initiated} attempts. They stay"
        " counted, and are not blind."
    ),
    "warn_constant": ("{arm}: these numbers never changed in any executed action of the whole run: {scalars}."),
    "warn_normalised": (
        "{arm}: these numbers stayed within 3 of zero although far more is legal, as when normalised actions are sent"
        " where physical ones belong: {scalars}."
    ),
    "warn_exploratory": (
        "{arms}: run under another identity than the locked one. The run is exploratory and licenses no claim."
    ),
    "warn_halted": (
        "{arm} was halted: its first three trials all ended with {code} before any control ({meaning}). It was never"
        " tested, and has no success rate. The first one said: {message}"
    ),
    "warn_artifact": "{arm} has no success rate: {reasons}.",
    "warn_run_class": "This run is registered as {run_class}. Nothing in it can support a claim.",
    "warn_holdout_spent": (
        "The scenarios of this run were registered as held out by {author}, and opened for {purpose} before the lock"
        " ({at}): they are no holdout any more, and this is a development run."
    ),
    "warn_null": "The {role} control {arm} passed {k} of {n} and must pass none: the scorer can be satisfied by it.",
    "warn_oracle": (
        "The oracle control {arm} passed {k} of {n} and must pass all: some scenario may have no solution here."
    ),
    "warn_reversal": (
        "Pooled rates and domain means order {a} and {b} differently: read the domains, not the total."
    ),
    "warn_families": (
        "Episodes share families, so intervals that assume independence are too narrow. With families as units"
        " (Korn-Graubard): {listing}."
    ),
    "warn_families_undefined": (
        "Episodes of {arm} share families, so intervals that assume independence are too narrow; an interval with"
        " families as units is not defined, because {reasons}."
    ),
    "warn_excluded": "{arm}: {excluded} of {initiated} episodes are excluded under registered codes.",
    "intervals_note": (
        "Wilson is the interval to read, Clopper-Pearson the one that gates claims: exact, and wider. Both are"
        " two-sided at {confidence} and treat episodes as independent. Ends are rounded outward."
    ),
    "denominator_initiated": "Denominator: initiated, every episode that was started.",
    "denominator_measured": "Denominator: measured, every episode but the excluded ones.",
    "denominator_valid": "Denominator: valid, passed and failed episodes only.",
    "errors_void": "An errored episode takes the rate of its arm away.",
    "errors_bounds": "An errored episode stays counted, and bounds show how far it could move the rate.",
    "over": "{rate} over {denominator} ({k} of {n})",
    "bounds": "bounds {low} to {high} with {errored} errored",
    "funnel_note": (
        "Stages are ordered: one counts only at or after the one before it. The number beside a bar is how many"
        " episodes passed that stage."
    ),
    "slices_note": (
        "k/N per cell; the bar shows the same share, hatching a cell of an arm without a rate. Cells are small: read"
        " one with its interval, which stands in the table below."
    ),
    "macro_note": (
        "Macro is the mean of the domain rates: each domain counts the same, however many scenarios it has."
    ),
    "gallery_note": (
        "Every attempt that did not pass, by arm, and by the first stage that it did not pass or what ended it."
    ),
    "nothing_failed": "Every recorded attempt of {arm} passed.",
    "tested_note": (
        "Who each arm is, as far as anybody can tell. What the harness saw itself is marked verified; the rest is the"
        " word of whoever registered the arm. What nobody knows is said with its reason, and never as a zero."
    ),
    "adapters_note": "In this order, between environment and policy. Nothing is converted that is not listed here.",
    "no_adapters": "None: the policy takes and sends what the suite declares.",
    "all_channels": "every channel of its profile",
    "exploratory_arm": "EXPLORATORY: another identity than the locked one.",
    "exploratory": "Run as {digests}, which is not the identity of the lock.",
    "calls_note": (
        "A call asks for one decision. Of the rows of a chunk, those behind the replan interval are dropped, those"
        " behind the end of an episode discarded; a chunk with one bad row is rejected whole."
    ),
    "usage_note": (
        "Time in the policy is wall clock of this machine, by nearest rank over all calls. Usage is the sum of what"
        " was metered; one unknown call makes a sum unknown."
    ),
    "blind": "no leak disclosed",
    "compromised": "compromised on {compromised} of {initiated}",
    "leak": "{arm}, trial {trial}: {what}",
    "leaks_note": (
        "Leaks of identifying context that were disclosed. Each attempt stays counted, is not blind, and was not run"
        " again."
    ),
    "asked_at": "In this run it was asked at {addresses}.",
    "change": "From attempt {first_attempt} on: {change} ({at})",
    "amendment": (
        "Amendment {n}, {kind}, written {at} after {attempts_seen} attempts, because: {reason}. It says: “{text}”"
    ),
    "amendments_note": (
        "What was said beside the lock, in the words of whoever said it. No amendment changes a rule, a tolerance,"
        " the schedule or the analysis: that would be another lock."
    ),
    "identity_note": (
        "What was locked before the first attempt, and what the run wrote. Any change of what was locked is another"
        " lock, and another number."
    ),
    "compare_refused": "Refused: {reason}. The numbers stand side by side and answer different questions:",
    "compare_paired": (
        "Counts of trials that were measured in both and began in the same state. No comparison across campaigns was"
        " registered before them, so there is no estimate and no verdict."
    ),
    "compare_environment": "Below the protocol these differ; look here first when numbers do not agree:",
    "compare_one_side": "{arm} stands in one campaign only.",
    "compare_identity": "{arm} is not the same arm in both; its numbers are never pooled:",
    "compare_same": "{arm}: all {pairs} episodes that began in the same state went the same way, step by step.",
    "compare_nothing": "{arm}: no episode was measured in both from the same state.",
    "order_dependent": (
        "order_dependent: {arm}. {differ} of {pairs} episodes that began in the same state went another way under"
        " another order of the trials, {results_differ} with another result. The policy remembers something across"
        " episodes{or_seeds}."
    ),
    "or_seeds": ", or it draws from its seed, which is another one under another lock",
    "not_reproduced": (
        "not_reproduced: {arm}. {differ} of {pairs} episodes that began in the same state went another way in the"
        " same order, {results_differ} with another result. Something that is neither locked nor seeded"
        " decides{or_seeds}."
    ),
    "secondary": (
        "SECONDARY: the evidence under lock {lock}, read again after it was known, because: {reason}. {changed}"
        " trials have another outcome than under the registered analysis. The registered analysis stands; this"
        " licenses no claim."
    ),
    "no_media": "No pictures: {reason}.",
    "page_note": "This page was made from recorded evidence. It needs no network and runs no script.",
}

LIMITS: tuple[str, ...] = (
    "That the robot or the simulated world did what its sensors and state readings say.",
    "That the harness, its operator or whoever holds a signing key is honest. Digests show that a record was not"
    " changed afterwards, not that it was true when written.",
    "That nothing was tried before the first durable record, or on another machine.",
    "That a checkpoint is what its name says. Its bytes are identified; how they came about is not.",
    "That the scenarios stand for anything beyond themselves: another object, room, robot or simulator is another"
    " question.",
    "That software below the listed digests, such as the operating system or the processor's microcode, is"
    " unchanged.",
    "When it happened. Clock readings are the machine's own unless somebody else kept an anchor.",
    "That the evidence was not rewritten as a whole, unless a digest kept elsewhere, a signature or a replay"
    " contradicts that.",
)


def sentence(name: str, **values: Any) -> str:
    """Return a sentence of :data:`TEMPLATES` with its numbers filled in."""
    return TEMPLATES[name].format(**values)


def threshold_sentence(verdict: str, numbers: Mapping[str, Any], reasons: Sequence[str]) -> str:
    """Return the only permitted sentence about a ``threshold_rate`` claim."""
    bound = numbers["lower_bound"]
    said = sentence(
        f"threshold_{verdict}",
        arm=numbers["arm"],
        k=numbers["k"],
        n=numbers["n"],
        confidence=percent(numbers["confidence"]),
        rate=percent(numbers["rate"]),
        bound="undefined" if bound is None else percent(bound, rounding="down"),
        method={"clopper_pearson": "Clopper-Pearson", "korn_graubard": "Korn-Graubard"}[numbers["method"]],
        reasons=explained(reasons),
    )
    errored = verdict != "ineligible" and numbers["errored"]
    return said + sentence("threshold_errors", n=numbers["n"], errored=numbers["errored"]) if errored else said


def explained(reasons: Sequence[str]) -> str:
    """Return reason codes as text, each with its code."""
    return "; ".join(f"{REASONS.get(code, code)} ({code})" for code in reasons)


Rounding = Literal["nearest", "down", "up"]
_ROUND: Mapping[Rounding, Callable[[float], int]] = {"nearest": round, "down": math.floor, "up": math.ceil}


def percent(share: float, *, rounding: Rounding = "nearest") -> str:
    """Return a share as a percentage with at most one digit. What is neither 0 nor 1 never reads 0 % or 100 %."""
    tenths = _tenths(share, rounding)
    if rounding == "nearest" and 0.0 < share < 1.0:
        tenths = min(max(tenths, 1), 999)
    text = f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths / 10:.1f}"
    return f"{text}\u00a0%"


def interval(low: float | None, high: float | None) -> str:
    """Return ``60.4–81.3 %`` rounded outward, for tables; a dash when undefined."""
    if low is None or high is None:
        return "–"
    return f"{_end(low, 'down')}–{_end(high, 'up')}\u00a0%"


def interval_ends(low: float | None, high: float | None) -> tuple[str, str]:
    """Return both ends of an interval rounded outward, for sentences; dashes where undefined."""
    return (
        "–" if low is None else f"{_end(low, 'down')}\u00a0%",
        "–" if high is None else f"{_end(high, 'up')}\u00a0%",
    )


def _end(share: float, rounding: Rounding) -> str:
    """One digit always, so that ends stand under each other; 0 and 100 are exact."""
    tenths = _tenths(share, rounding)
    return str(tenths // 10) if tenths in (0, 1000) else f"{tenths / 10:.1f}"


def points(difference: float, *, rounding: Rounding = "nearest") -> str:
    """Return a difference of shares in percentage points, with its sign and one digit."""
    tenths = _tenths(difference, rounding)
    return "0.0" if tenths == 0 else f"{tenths / 10:+.1f}".replace("-", "−")


def _tenths(share: float, rounding: Rounding) -> int:
    """Return tenths of a percent; what is a whole tenth but for float noise stays that."""
    scaled = share * 1000.0
    return round(scaled) if abs(scaled - round(scaled)) < 1e-9 else _ROUND[rounding](scaled)


def p_value(p: float) -> str:
    """Return a p-value with three digits, or a bound when smaller; never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
