"""Recompute everything that is derived from a campaign's evidence, and compare.

Reads recordings only: no simulator, no policy.
"""

from trialplate.verification.campaign import verify_campaign
from trialplate.verification.derived import claims_bytes, results_bytes
from trialplate.verification.outcomes import analyse_document, changed_inputs, claim_blockers, score_view
from trialplate.verification.recordings import score_and_time
from trialplate.verification.verdict import Verdict

__all__ = [
    "Verdict",
    "analyse_document",
    "changed_inputs",
    "claim_blockers",
    "claims_bytes",
    "results_bytes",
    "score_and_time",
    "score_view",
    "verify_campaign",
]
