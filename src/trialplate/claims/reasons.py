"""What every code means, in words that a report may print.

Source: statistics specification, sections 12 and 13; policy contract, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BLOCKERS: Mapping[str, str] = {
    "not_comparable": "what would be compared differs in protocol, suite, simulator, limits or embodiment",
    "not_registered": "the claim was not in the lock of the first episode",
    "incomplete_coverage": "planned trials are missing, stand twice or have no counted partner",
    "missing_data": "an outcome, observation, cost or motion measure is unknown",
    "integrity": "a digest, the binding to the lock or a recomputation fails",
    "not_qualified": "the harness has not passed its own exam under this lock",
    "not_confirmatory": (
        "the run is registered as development, calibration or pilot, or ended early by a rule on something else"
    ),
    "holdout_spent": "the held-out scenarios were opened for something else before this lock",
    "unregistered_stop": "the run stopped elsewhere than registered",
    "unwanted_motion": "the claiming arm moved what it must not move",
    "sync_unverified": "the clocks of an arm and of the harness are further apart than registered, or nobody knows",
    "exploratory_registration": "an arm was run under another identity than the locked one",
}

REASONS: Mapping[str, str] = {
    **BLOCKERS,
    "few_families": "fewer families than a claim needs",
    "lower_bound": "the lower bound lies below the registered rate",
    "percentile_bound": "the bootstrap bound over families does not clear the rule",
    "t_bound": "the t bound over families does not clear the rule",
    "tango_bound": "the Tango bound over pairs does not clear the rule",
    "exact_test": "the exact McNemar test over pairs does not reject",
    "cost_ratio_bound": "the upper bound of the ratio of cost per success is not below 1",
    "time_ratio_bound": "the upper bound of the ratio of control time per success is not below 1",
    "success_difference_bound": "the lower bound of the difference of success rates is not above the margin",
    "stopping_rule": "the registered stopping rule did not reject in its favour",
    "undefined_draws": "in some draw an arm had no success",
    "no_competitors": "no competitor was registered",
    "competitor_ineligible": "the question may not be asked of some competitor",
    "competitor_not_cleared": "some competitor is not cleared in cost, time or success",
    "unknown_total": "one attempt's part of the total is unknown",
    "zero_successes": "an arm never passed",
    "zero_cost": "the other arm's total is zero",
    "single_family": "one family has no variance between families",
    "no_between_family_variation": "no family differs from another",
    "out_of_reach": "no difference would do",
    "unbounded": "so uneven successes leave the interval open to one side",
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


def explained(reasons: Sequence[str]) -> str:
    """Return reason codes as text, each with its code."""
    return "; ".join(f"{REASONS.get(code, code)} ({code})" for code in reasons)
