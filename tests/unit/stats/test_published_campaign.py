"""What the agents campaign published of its two leading arms, computed again from the counts of each arm.

Each passed 32 of 33 episodes. The costs were .398085 and .67015185 USD over all attempts, the times 190.200 and
320.327 s. Source: agents protocol, its campaign; cost in billionths of a dollar, time in microseconds.
"""

from __future__ import annotations

import pytest

from trialplate.stats import (
    episode_accounting,
    index_stream_digest,
    mcnemar_exact,
    ratio_per_success,
    wilson_interval,
)

PASSED, ATTEMPTS = 32, 33
COST_NUSD = {"leader": 398_085_000, "runner-up": 670_151_850}
TIME_US = {"leader": 190_200_000, "runner-up": 320_327_000}


def test_cost_and_time_per_success_are_those_that_were_published() -> None:
    cost = {arm: ratio_per_success(total, PASSED).value for arm, total in COST_NUSD.items()}
    time = {arm: ratio_per_success(total, PASSED).value for arm, total in TIME_US.items()}
    assert cost["leader"] == 12_440_156.25  # .01244015625 USD
    assert cost["runner-up"] == 20_942_245.3125  # .0209422453125 USD
    assert time == {"leader": 5_943_750.0, "runner-up": 10_010_218.75}


def test_the_ratio_of_their_costs_is_the_published_one() -> None:
    cheap, dear = (ratio_per_success(total, PASSED).value for total in COST_NUSD.values())
    assert cheap is not None
    assert dear is not None
    assert cheap / dear == pytest.approx(0.5940220862, abs=5e-11)


def test_every_attempt_stands_in_the_denominator() -> None:
    account = episode_accounting(ATTEMPTS, ["PASS"] * 32 + ["ERROR"], denominator="initiated")
    assert (account.passed, account.n) == (32, 33)
    assert (account.error_low, account.error_high) == (32 / 33, 1.0)


def test_equal_counts_tell_no_arm_from_the_other() -> None:
    interval = wilson_interval(PASSED, ATTEMPTS)
    assert interval.low == pytest.approx(0.8468, abs=5e-5)
    assert mcnemar_exact(1, 1).p_value == 1.0


def test_its_nineteen_families_are_drawn_from_the_published_stream() -> None:
    found = index_stream_digest(240926, 2000, families=19)
    assert found.first_rows[0] == (0, 7, 4, 17, 0, 12, 5, 14, 2, 3, 11, 10, 0, 11, 12, 2, 1, 2, 6)
    assert found.sha256_int64_le == "bc44f4b8be353923839ceb0984761d92a4486092ec2822e9f7b61d7c9b580fa9"
