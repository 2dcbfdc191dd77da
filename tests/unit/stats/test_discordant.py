from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.stats.discordant import chance_of_crossing, e_value_limits, mcnemar_limits, mixture_limits

alphas = st.sampled_from(["0.05", "0.01", "0.2", "0.0625", "0.025", "0.4"]).map(Fraction)


def first_b(m: int, rejects) -> int:
    return next((b for b in range(m + 1) if 2 * b > m and rejects(m, b)), m + 1)


@given(alphas, st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_mcnemar_limit_is_the_first_b_whose_exact_p_is_at_most_alpha(alpha, mid_p):
    def rejects(m, b):
        tail = 2 * sum(comb(m, i) for i in range(m - b + 1)) - (comb(m, b) if mid_p else 0)
        return Fraction(tail, 2**m) <= alpha

    assert mcnemar_limits(60, alpha, mid_p=mid_p) == [1, *(first_b(m, rejects) for m in range(1, 61))]


@given(alphas, st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_e_value_limit_is_the_first_b_whose_exact_e_reaches_one_over_alpha(alpha, two_sided):
    def rejects(m, b):
        mixture = Fraction(2**m, (m + 1) * comb(m, b))
        tail = Fraction(sum(comb(m + 1, i) for i in range(b + 1)), 2 ** (m + 1))
        return mixture * (1 if two_sided else 2 * tail) >= 1 / alpha

    assert e_value_limits(60, alpha, two_sided=two_sided) == [1, *(first_b(m, rejects) for m in range(1, 61))]


def test_an_e_value_of_exactly_one_over_alpha_rejects():
    assert e_value_limits(7, Fraction(1, 16), two_sided=True)[7] == 7
    assert e_value_limits(7, Fraction(1, 17), two_sided=True)[7] == 8


@given(st.sampled_from(["0.5", "0.8", "0.07", "0.99"]).map(Fraction), alphas)
@settings(deadline=None, max_examples=25)
def test_the_mixture_limit_is_the_first_k_that_pushes_the_rate_out(rate, alpha):
    for m, limit in enumerate(mixture_limits(40, rate, alpha)):
        pushed = [
            k
            for k in range(m + 1)
            if k > m * rate and 1 / ((m + 1) * comb(m, k) * rate**k * (1 - rate) ** (m - k)) >= 1 / alpha
        ]
        assert limit == min(pushed, default=m + 1)


@given(st.floats(0, 1), st.booleans(), st.data())
@settings(deadline=None, max_examples=30)
def test_the_chance_of_crossing_is_that_of_all_paths(theta, both, data):
    total = 9
    upper = data.draw(st.lists(st.integers(1, 10), min_size=total + 1, max_size=total + 1))
    lower = data.draw(st.lists(st.integers(1, 10), min_size=total + 1, max_size=total + 1)) if both else None
    wanted = np.zeros(total + 1)
    for path in range(2**total):
        b, chance, first = 0, 1.0, None
        for m in range(1, total + 1):
            step = path >> (m - 1) & 1
            b, chance = b + step, chance * (theta if step else 1 - theta)
            if first is None and (b >= upper[m] or (lower is not None and m - b >= lower[m])):
                first = m
        if first:
            wanted[first:] += chance
    assert chance_of_crossing(theta, upper, lower) == pytest.approx(wanted)
