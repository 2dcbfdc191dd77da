"""Strengths from preference votes, and whether one world orders policies as another does.

Definitions: statistics specification, section 10. Votes order arms only where wins connect them all in both
directions; otherwise no finite strength exists and none is printed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import MAX_COUNT, real, reals, same_length, sequence
from trialplate.stats.results import Reason, Result

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class BradleyTerry(Result):
    """Log strengths that add up to 0. ``components``: arms that wins connect both ways, in order of their first arm.

    ``regularised``: a penalty pulled them together; such strengths exist for any votes and say so.
    """

    log_strengths: tuple[float, ...] | None
    components: tuple[tuple[int, ...], ...]
    regularised: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class RankAgreement(Result):
    """Mean maximum rank violation and three correlations between real and simulated rates of the same policies."""

    mmrv: float | None
    pearson: float | None
    spearman: float | None
    kendall: float | None
    reason: Reason | None


def preference_wins(arms: Sequence[str], votes: Sequence[tuple[str, str, str | None]]) -> list[list[float]]:
    """Return how often each arm (row) won against each other (column).

    A vote is (arm, arm, winner); the winner ``None`` is a tie, half a win to each. Raises ``StatsInputError`` for an
    arm that is named twice or unknown, an arm against itself, and a winner that did not take part.
    """
    names = [str(arm) for arm in sequence("arms", arms)]
    if len(set(names)) < len(names):
        raise StatsInputError("arms", "an arm is named twice")
    place = {name: at for at, name in enumerate(names)}
    wins = [[0.0] * len(names) for _ in names]
    for at, vote in enumerate(sequence("votes", votes)):
        one, other, winner = sequence(f"votes[{at}]", vote)
        if one == other or one not in place or other not in place or winner not in (one, other, None):
            raise StatsInputError(f"votes[{at}]", f"expected two arms and one of them or None, got {vote!r}")
        for arm, rival in ((str(one), str(other)), (str(other), str(one))):
            wins[place[arm]][place[rival]] += 0.5 if winner is None else float(winner == arm)
    return wins


def bradley_terry(wins: Sequence[Sequence[float]], *, ridge: float = 0.0) -> BradleyTerry:
    """Return the log strengths t of P[i beats j] = 1/(1 + exp(t_j - t_i)) with the greatest likelihood.

    ``wins[i][j]``: wins of i over j, ties as half a win to each; the diagonal is 0. Newton's method. Null with
    ``not_strongly_connected`` when some arm is undefeated, winless or not connected (``components`` shows which).
    ``ridge`` > 0 takes ridge * sum t^2 off the likelihood and always has an answer, labelled ``regularised``.
    Raises ``StatsInputError`` for fewer than two arms a table that is not square, and anything but
    whole and half wins. Source: Ford, Am. Math. Mon. 64 (1957) 28.
    """
    table = win_table(wins)
    penalty = real("ridge", ridge, minimum=0.0)
    components = _components(table > 0.0)
    if len(components) > 1 and penalty == 0.0:
        return BradleyTerry(None, components, False, "not_strongly_connected")
    strengths = fitted_strengths(table[None, :, :], penalty)[0]
    return BradleyTerry(tuple(strengths.tolist()), components, penalty > 0.0, None)


def rank_agreement(real: Sequence[float], sim: Sequence[float]) -> RankAgreement:
    """Return how well simulated rates order and follow the real rates of the same policies, entry by entry.

    MMRV = mean over i of max over j of |R_i - R_j| where (S_i < S_j) is not (R_i < R_j). Spearman by mean ranks,
    Kendall's tau-b. A constant input leaves the correlations null (``no_variation``) and keeps MMRV; no policy:
    ``no_values``. Source of MMRV: Li et al., Evaluating Real-World Robot Manipulation Policies in Simulation (2024).
    """
    truth, model = reals("real", real), reals("sim", sim)
    same_length("sim", model, other_argument="real", other=truth)
    if not truth:
        return RankAgreement(None, None, None, None, "no_values")
    r, s = np.array(truth), np.array(model)
    gaps = np.abs(np.subtract.outer(r, r))
    wrong = np.less.outer(s, s) != np.less.outer(r, r)
    mmrv = float(np.where(wrong, gaps, 0.0).max(axis=1).mean())
    if np.ptp(r) == 0.0 or np.ptp(s) == 0.0:
        return RankAgreement(mmrv, None, None, None, "no_variation")
    return RankAgreement(mmrv, _pearson(r, s), _pearson(_mean_ranks(r), _mean_ranks(s)), _kendall(r, s), None)


def fitted_strengths(tables: Floats, penalty: float) -> Floats:
    """Return the log strengths (votes, arms) of win tables (votes, arms, arms) by Newton's method, all at once.

    Every table must be strongly connected, or ``penalty`` positive. A step longer than 1 in any strength is shortened
    to that, which a concave likelihood allows.
    """
    arms = tables.shape[1]
    strengths = np.zeros(tables.shape[:2])
    lost = tables.transpose(0, 2, 1)
    level = np.full((arms, arms), 1.0 / arms)
    for _ in range(MAX_STEPS):
        chance = 1.0 / (1.0 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
        other = chance.transpose(0, 2, 1)  # 1 - chance, without losing it to rounding
        slope = (tables * other - lost * chance).sum(axis=2) - 2.0 * penalty * strengths
        weight = (tables + lost) * chance * other
        curvature = -weight
        curvature[:, range(arms), range(arms)] += weight.sum(axis=2) + 2.0 * penalty
        scale = np.trace(curvature, axis1=1, axis2=2)[:, None, None]
        step = np.linalg.solve(curvature + level * scale, slope[:, :, None])[:, :, 0]
        step -= step.mean(axis=1, keepdims=True)
        longest = np.abs(step).max(axis=1, keepdims=True)
        strengths += step / np.maximum(longest, 1.0)
        if float(longest.max()) < 1e-10:
            return strengths
    raise StatsInputError("wins", f"the strengths did not settle within {MAX_STEPS} steps")


def strongly_connected(beats: Truths) -> Truths:
    """Return, for relations (votes, arms, arms), whether everybody reaches everybody along wins."""
    reach = beats | np.eye(beats.shape[1], dtype=np.bool_)
    for _ in range(max(1, math.ceil(math.log2(max(2, beats.shape[1]))))):
        reach = np.matmul(reach, reach)
    return np.asarray(reach.all(axis=(1, 2)))


def win_table(wins: object) -> Floats:
    """Return a checked table of whole and half wins."""
    rows = [reals(f"wins[{at}]", row, minimum=0.0) for at, row in enumerate(sequence("wins", wins))]
    if len(rows) < 2 or any(len(row) != len(rows) for row in rows):
        raise StatsInputError("wins", f"expected a square table of two or more arms, got {len(rows)} rows")
    for at, row in enumerate(rows):
        if row[at] != 0.0:
            raise StatsInputError(f"wins[{at}][{at}]", f"an arm cannot beat itself, got {row[at]}")
        if any(not (2.0 * won).is_integer() or won > MAX_COUNT for won in row):
            raise StatsInputError(f"wins[{at}]", f"expected whole and half wins, got {row}")
    return np.array(rows)


def _components(beats: Truths) -> tuple[tuple[int, ...], ...]:
    reach = beats | np.eye(len(beats), dtype=np.bool_)
    for _ in range(len(beats)):
        reach = np.matmul(reach, reach)
    mutual = reach & reach.T
    found = {tuple(np.flatnonzero(row).tolist()) for row in mutual}
    return tuple(sorted(found))


def _pearson(x: Floats, y: Floats) -> float:
    u, v = x - x.mean(), y - y.mean()
    product = float((u * v).sum()) / math.sqrt(float((u * u).sum()) * float((v * v).sum()))
    return max(-1.0, min(1.0, product))


def _mean_ranks(x: Floats) -> Floats:
    below, same = np.less.outer(x, x).sum(axis=0), np.equal.outer(x, x).sum(axis=0)
    return np.asarray(below + (same + 1) / 2.0)


def _kendall(x: Floats, y: Floats) -> float:
    first, second = np.sign(np.subtract.outer(x, x)), np.sign(np.subtract.outer(y, y))
    ties = math.sqrt(float(np.abs(first).sum()) * float(np.abs(second).sum()))
    return float((first * second).sum()) / ties
