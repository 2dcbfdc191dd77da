"""Section 13 of the evidence specification, all generators: small changes of a bundle, and who finds them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutants import SMALL_BYTES, Files, bit_digests, bit_mutant, disordered, edits, every, flipped, sampled
from mutation import BENIGN, STRENGTHS, Tally, Trial, keys, read, remembering

from sealed import Golden, make_campaign
from trialplate import sealing


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of another valid bundle of the same protocol."""
    folder = tmp_path_factory.mktemp("other")
    return read(sealing.seal(make_campaign(folder), folder / "bundles").path)


@pytest.fixture
def trial(golden: Golden, tmp_path: Path) -> Iterator[Trial]:
    """Both verifiers, and a copy of the golden bundle to change."""
    right, wrong = keys()
    with remembering():
        yield Trial(golden.bundle, tmp_path, right=right, wrong=wrong)


def told(tally: Tally) -> str:
    return "\n".join(tally.lines())


def test_the_golden_bundle_itself_is_found_good_by_both(trial: Trial) -> None:
    assert trial.untouched() == (0, 0)


def test_a_sample_of_every_kind_of_mutant_is_found_and_both_verifiers_agree(trial: Trial, other: Files) -> None:
    for mutant in sampled(trial.files, other, seed=13, each=2):
        for strength in STRENGTHS:
            trial.try_mutant(mutant, strength)
    assert trial.tally.holds, told(trial.tally)
    assert all(trial.tally.tried[strength] >= 20 for strength in ("raw", "rehashed", "signed"))
    assert trial.tally.tried["rechained"] >= 4  # of most of them the rebuilt campaign is the one that it was
    assert trial.untouched() == (0, 0)


@pytest.mark.slow
def test_many_mutants_of_every_kind_are_found_and_both_verifiers_agree(trial: Trial, other: Files) -> None:
    for mutant in sampled(trial.files, other, seed=14, each=40):
        for strength in STRENGTHS:
            trial.try_mutant(mutant, strength)
    assert trial.tally.holds, told(trial.tally)


@pytest.mark.slow
def test_a_bit_of_every_file_is_found_at_every_strength(trial: Trial) -> None:
    for path, data in trial.files.items():
        for strength in STRENGTHS:
            trial.try_mutant(bit_mutant(trial.files, path, 4 * len(data) + 1), strength)
    assert trial.tally.holds, told(trial.tally)
    assert set(trial.tally.benign) == set(BENIGN)


@pytest.mark.slow
def test_every_bit_of_every_small_file_changes_the_digest_that_the_manifest_holds(golden: Golden) -> None:
    for path, data in read(golden.bundle).items():
        if len(data) < SMALL_BYTES:
            listed = hashlib.sha256(data).digest()
            assert listed not in bit_digests(data), path


def test_the_digests_of_flipped_bits_are_those_of_the_flipped_files() -> None:
    data = bytes(range(150))
    whole = [hashlib.sha256(flipped(data, bit)).digest() for bit in range(8 * len(data))]
    assert list(bit_digests(data)) == whole


def test_the_generators_make_what_they_are_named_for() -> None:
    document = {"a": 1, "b": ["x", "y"], "c": {"d": None}}
    made = {f"{family} {name}": text() for family, name, text in edits(document)}
    assert made["leaf /a changed"] == b'{"a":2,"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a null"] == b'{"a":null,"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a to true"] == b'{"a":true,"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a to text"] == b'{"a":"1","b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a to 1.0"] == b'{"a":1.0,"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a deleted"] == b'{"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /a sibling"] == b'{"a":1,"a_too":1,"b":["x","y"],"c":{"d":null}}'
    assert made["leaf /b/1 deleted"] == b'{"a":1,"b":["x"],"c":{"d":null}}'
    assert made["leaf /c/d changed"] == b'{"a":1,"b":["x","y"],"c":{"d":1}}'
    assert made["rotate /b"] == b'{"a":1,"b":["y","x"],"c":{"d":null}}'
    assert document == {"a": 1, "b": ["x", "y"], "c": {"d": None}}
    assert [order for _, order in disordered([1, 2, 3])] == [
        [1, 2], [2, 3], [1, 1, 2, 3], [1, 2, 3, 3], [3, 2, 1], [2, 3, 1],
    ]  # fmt: skip


@pytest.mark.slow
def test_no_mutant_is_the_bundle_itself(golden: Golden) -> None:
    files = {path: data for path, data in read(golden.lean).items() if "episodes/" not in path or "000000" in path}
    mutants = list(every(files, {}))
    assert len(mutants) > 5000
    for mutant in mutants:
        assert any(files.get(path) != data for path, data in mutant.changes.items()), mutant
