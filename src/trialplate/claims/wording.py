"""The only sentences that a report may print, and how numbers are written in them.

Every sentence is a template: those on claims and comparisons in :mod:`trialplate.claims.sentences`, the rest here, so
that one test can read them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trialplate.claims.chart_wording import CHART_TEMPLATES
from trialplate.claims.figures import Rounding, interval, interval_ends, p_value, percent, points, ratio
from trialplate.claims.reasons import (
    ATTACHED,
    BLOCKERS,
    CONTROL_EXPECTATIONS,
    ECHO,
    OUTCOME_REASONS,
    REASONS,
    UNKNOWN,
    explained,
)
from trialplate.claims.sentences import CLAIM_TEMPLATES

__all__ = [
    "ATTACHED", "BLOCKERS", "CONTROL_EXPECTATIONS", "ECHO", "LIMITS", "OUTCOME_REASONS", "REASONS", "TEMPLATES",
    "UNKNOWN", "Rounding", "explained", "interval", "interval_ends", "p_value", "percent", "points", "ratio",
    "sentence",
]  # fmt: skip

TEMPLATES: Mapping[str, str] = {
    **CLAIM_TEMPLATES,
    **CHART_TEMPLATES,
    "no_claims": "No claim was registered. The numbers describe what was recorded; they decide nothing.",
    "claims_counted": (
        "{total} claims were registered: {supported} supported, {not_supported} not supported,"
        " {ineligible} ineligible."
    ),
    "rate": "{confidence} interval {low} to {high} (Wilson)",
    "no_rate": "No success rate: {reasons}. What was seen so far is incomplete and is no estimate.",
    "comparison_unmatched": "Trials without a counted partner, which stand in no pair: {unmatched}.",
    "comparison_excluded": (
        "Trials that one and the same registered rule excluded for both arms, before any control step, which stand in"
        " no pair: {excluded}."
    ),
    "comparison_note": (
        "A verdict is what the registered superiority rule says of these numbers. It licenses no statement beyond"
        " them; only a registered claim that is supported does."
    ),
    "comparison_family": (
        "Bounds are at {confidence} confidence, over families: {draws} bootstrap draws ({rule}), and t beside them;"
        " both must clear 0. Tango and McNemar treat the pairs as independent. Ends are rounded outward."
    ),
    "comparison_episode": (
        "Bounds are at {confidence} confidence, over single pairs: Tango is the interval to read, and the exact"
        " McNemar test must reject; {draws} bootstrap draws ({rule}) and t must clear 0 too. Ends are rounded"
        " outward."
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
    "warn_sync": (
        "{arms}: its clock and that of the harness may be more than the registered {max_s:g} s apart, or nobody knows"
        " (sync_unverified): times that it reports cannot be held against ours."
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
        "k/N per cell; bar and shade show the same share, hatching a cell of an arm without a rate. Cells are small:"
        " read one with its interval, which stands in the table below."
    ),
    "skills_note": (
        "Success is passed of measured; trusted success counts only trials whose motion can be trusted as well: the"
        " robot followed the plan, within its limits, and touched nothing that it should not. Read an interval over"
        " cases; the one over trials takes repeats for independent. An errored trial is no failure: it stays in N and"
        " opens the bounds. No score here is comparable with one of another simulator."
    ),
    "robustness_note": (
        "The same cases with one thing changed; the difference is to the nominal rate of the same skill."
    ),
    "adaptability_note": (
        "Domains that informed no case, tolerance or baseline; each of their rates counts the same. Eligible needs"
        " full coverage, a worst domain of at least 0.60 and a retention (worst of nominal) of at least 0.75."
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
    "compare_refused": "NOT_COMPARABLE: {reason}. The numbers stand side by side and answer different questions:",
    "compare_paired": (
        "Trials that were counted in both and began in the same state. No comparison across campaigns was registered"
        " before them: a verdict on them is exploratory, by the rules of the registered analysis, and licenses no"
        " claim."
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
