"""What may be said: registered rules applied to an analysis, and the only sentences a report may print."""

from trialplate.claims.claim import Claim, Verdict
from trialplate.claims.gate import BLOCKERS, judge_claims

__all__ = ["BLOCKERS", "Claim", "Verdict", "judge_claims"]
