"""Quantiles and tails by name, with plain floats in and out. scipy is loaded by the first call, not by import."""

from __future__ import annotations

import math


def normal_quantile(probability: float) -> float:
    """Return z with Phi(z) = ``probability``."""
    from scipy import special

    return float(special.ndtri(probability))


def normal_critical(tail: float) -> float:
    """Return the z that leaves ``tail`` above it: 1.959963984540054 for .025. ``tail`` is at most one half."""
    return -normal_quantile(tail)


def normal_upper_tail(z: float) -> float:
    """Return 1 - Phi(z), at full precision also far out."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def student_critical(tail: float, degrees: float) -> float:
    """Return the t with ``degrees`` of freedom that leaves ``tail`` above it."""
    from scipy import special

    return -float(special.stdtrit(degrees, tail))


def beta_quantile(tail: float, a: float, b: float) -> float:
    """Return the point of Beta(a, b) with ``tail`` below it."""
    from scipy import special

    return float(special.betaincinv(a, b, tail))


def beta_upper_quantile(tail: float, a: float, b: float) -> float:
    """Return the point of Beta(a, b) with ``tail`` above it, at full precision also near 0."""
    from scipy import special

    return float(special.betainccinv(a, b, tail))


def gamma_quantile(tail: float, shape: float) -> float:
    """Return the point of Gamma(shape, 1) with ``tail`` below it."""
    from scipy import special

    return float(special.gammaincinv(shape, tail))


def gamma_upper_quantile(tail: float, shape: float) -> float:
    """Return the point of Gamma(shape, 1) with ``tail`` above it."""
    from scipy import special

    return float(special.gammainccinv(shape, tail))


def chi_square_one_tail(statistic: float) -> float:
    """Return the probability that chi-square with one degree of freedom exceeds ``statistic``."""
    return math.erfc(math.sqrt(statistic / 2.0))


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Return the probability that chi-square with whole ``degrees`` of freedom exceeds ``statistic``."""
    from scipy import special

    return float(special.chdtrc(degrees, statistic))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return P[Binomial(n, p) <= k]; 0 for k < 0, 1 for k >= n."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    from scipy import special

    return float(special.betaincc(k + 1, n - k, p))


def log_half_binomial_cdf(k: int, n: int) -> float:
    """Return the logarithm of P[Binomial(n, 1/2) <= k] for 0 <= k < n, also where the probability underflows."""
    chance = binomial_cdf(k, n, 0.5)
    if chance > 1e-280:
        return math.log(chance)
    log_point = math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0) - n * math.log(2.0)
    total = term = 1.0
    for below in range(k, 0, -1):
        term *= below / (n - below + 1)
        if term < 1e-17 * total:
            break
        total += term
    return log_point + math.log(total)


def binomial_quantile(probability: float, n: int, p: float) -> int:
    """Return the smallest k with P[Binomial(n, p) <= k] >= ``probability``."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if binomial_cdf(middle, n, p) >= probability:
            high = middle
        else:
            low = middle + 1
    return low


def beta_exceeds_beta(a1: int, b1: int, a2: int, b2: int) -> float:
    """Return P[Beta(a1, b1) > Beta(a2, b2)] for whole parameters by the closed form in log beta functions.

    The complement is summed as well and the two are normalised, so that the answer lies in [0, 1] and swapping
    the two arms gives one minus the answer.
    """
    above = _beta_series(a1, b1, a2, b2)
    below = _beta_series(a2, b2, a1, b1)
    return above / (above + below)


def _beta_series(a1: int, b1: int, a2: int, b2: int) -> float:
    import numpy as np
    from scipy import special

    step = np.arange(a1, dtype=np.float64)
    terms = (
        special.betaln(a2 + step, float(b1 + b2))
        - np.log(b1 + step)
        - special.betaln(1.0 + step, float(b1))
        - special.betaln(float(a2), float(b2))
    )
    return float(np.exp(terms).sum())
