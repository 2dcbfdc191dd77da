"""Print how often intervals hold and gates fire falsely: the figures of docs/statistics.md.

Run as ``python tools/honesty_run.py`` from the root of the repository. Every stream is seeded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from simulations import CLUSTERS, RATES, clustered_coverage, false_leads
from trialplate.stats import confidence_sequence_error, paired_e_value_error, peeking_error


def main() -> None:
    """Print every figure."""
    print("coverage of nominal 95 %, 10 episodes a family, correlation .2: gate / headline")
    for clusters in CLUSTERS:
        held = [clustered_coverage(clusters, rate) for rate in RATES]
        cells = "   ".join(
            f"{rate}: {gate:.3f} / {shown:.3f}" for rate, (gate, shown) in zip(RATES, held, strict=True)
        )
        print(f"  {clusters:2} families   {cells}")
    fired = false_leads()
    cost, time, calm = fired.mean(axis=0)
    leads = np.all(fired, axis=1).mean()
    print(f"one policy twice: cost {cost:.4f}, time {time:.4f}, not worse {calm:.4f}, all three {leads:.4f}")
    print(f"e-process, 1,000 discordant pairs, alpha .05: ever {paired_e_value_error(1000).value:.4f}")
    for rate in RATES:
        missed = confidence_sequence_error(rate, 1000).value
        print(f"confidence sequence at {rate}, 1,000 episodes: ever misses {missed:.4f}")
    print(f"for comparison, McNemar after each of 100 discordant pairs: ever {peeking_error(100).value:.4f}")


if __name__ == "__main__":
    main()
