from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import family_indices, index_stream_digest, undefined_draw_probability
from trialplate.stats.resampling import flip_chunks, index_chunks, multiplicity_chunks


def pcg64_words(seed: int, count: int) -> list[int]:
    """PCG64 XSL-RR 128/64 in Python integers, from the state that numpy's seeding gives."""
    state = np.random.PCG64(seed).state["state"]
    here, step, words = state["state"], state["inc"], []
    for _ in range(count):
        here = (here * 0x2360ED051FC65DA44385DF649FCCF645 + step) % 2**128
        mixed, turn = (here >> 64) ^ (here & (2**64 - 1)), here >> 122
        words.append(((mixed >> turn) | (mixed << (64 - turn) % 64)) % 2**64)
    return words


@given(st.integers(0, 2**64), st.integers(1, 7), st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_the_index_is_the_floor_of_exactly_u_times_k(seed, draws, families):
    words = pcg64_words(seed, draws * families)
    wanted = [int(Fraction(word >> 11, 2**53) * families) for word in words]
    assert family_indices(seed, draws, families=families).ravel().tolist() == wanted


def test_blocks_change_nothing(monkeypatch):
    whole = family_indices(7, 50, families=9)
    monkeypatch.setattr("trialplate.stats.resampling._CHUNK_CELLS", 20)
    assert len(list(index_chunks(7, 50, families=9))) == 25
    assert (family_indices(7, 50, families=9) == whole).all()
    assert index_stream_digest(7, 50, families=9).first_rows == tuple(map(tuple, whole[:2].tolist()))


def test_multiplicities_count_what_the_indices_name():
    indices = family_indices(3, 40, families=6)
    taken = np.concatenate(list(multiplicity_chunks(3, 40, families=6)))
    assert (taken == [[np.count_nonzero(row == family) for family in range(6)] for row in indices]).all()
    assert (taken.sum(axis=1) == 6).all()


def test_flips_are_the_top_bit_of_the_words_of_the_stream():
    flips = np.concatenate(list(flip_chunks(11, 8, families=5)))
    assert flips.ravel().tolist() == [word >> 63 == 1 for word in pcg64_words(11, 40)]


def test_the_chance_of_an_undefined_draw_is_that_of_the_indices():
    indices = family_indices(5, 4000, families=10)
    without = np.mean(~(indices < 3).any(axis=1))
    assert undefined_draw_probability(10, 3).per_draw == pytest.approx(0.7**10)
    assert without == pytest.approx(0.7**10, abs=0.01)
    assert undefined_draw_probability(10, 10) == undefined_draw_probability(1, 1)
    assert undefined_draw_probability(10, 10).any_draw == 0.0
    assert undefined_draw_probability(10, 0).any_draw == 1.0


@pytest.mark.parametrize(("seed", "draws", "families"), [(-1, 5, 5), (1, 0, 5), (1, 5, 0), (True, 5, 5), (1.0, 5, 5)])
def test_a_seed_or_a_size_that_is_none_is_refused(seed, draws, families):
    with pytest.raises(StatsInputError):
        family_indices(seed, draws, families=families)
