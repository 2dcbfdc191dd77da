"""The Merkle tree against the reference inputs of Certificate Transparency, and by properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import UsageError
from trialplate.store import merkle

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "canonical.json").read_text(encoding="utf-8")
)
LISTS = st.lists(st.binary(max_size=6), min_size=1, max_size=40)


def _leaves(vector: dict[str, Any]) -> list[bytes]:
    if "leaves_hex" in vector:
        return [bytes.fromhex(leaf) for leaf in vector["leaves_hex"]]
    return [leaf.encode() for leaf in vector["leaves_utf8"]]


@pytest.mark.parametrize("vector", VECTORS["merkle_root"], ids=lambda v: v["root"][:8])
def test_a_list_of_leaves_has_the_root_of_the_vectors(vector: dict[str, Any]) -> None:
    assert merkle.root(_leaves(vector)) == vector["root"]


@pytest.mark.parametrize("vector", VECTORS["merkle_inclusion"], ids=lambda v: f"{v['index']}-{v['ok']}")
def test_an_inclusion_proof_of_the_vectors_is_judged_as_they_say(vector: dict[str, Any]) -> None:
    leaf = bytes.fromhex(vector["leaf_hex"])
    told = {key: vector[key] for key in ("index", "size", "proof", "root")}
    assert merkle.check_inclusion(leaf, **told) is vector["ok"]


@pytest.mark.parametrize("vector", VECTORS["merkle_consistency"], ids=lambda v: f"{v['size1']}-{v['size2']}")
def test_a_consistency_proof_of_the_vectors_is_judged_as_they_say(vector: dict[str, Any]) -> None:
    told = {key: vector[key] for key in ("root1", "root2", "proof")}
    assert merkle.check_consistency(vector["size1"], vector["size2"], **told) is vector["ok"]


@pytest.mark.parametrize("vector", VECTORS["audit_sample"], ids=lambda v: str(v["n"]))
def test_public_randomness_picks_the_episodes_of_the_vectors(vector: dict[str, Any]) -> None:
    beacon = bytes.fromhex(vector["beacon_hex"])
    assert merkle.audit_sample(vector["root"], beacon, n=vector["n"], k=vector["k"]) == tuple(vector["indices"])


def test_a_tree_of_one_root_and_the_list_without_leaves_differ() -> None:
    assert merkle.root([]) != merkle.root([b""])


@given(LISTS, st.data())
def test_every_leaf_is_proved_and_no_other_one_is(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    told: dict[str, Any] = {
        "index": index,
        "size": len(leaves),
        "proof": merkle.inclusion_proof(leaves, index),
        "root": merkle.root(leaves),
    }
    assert merkle.check_inclusion(leaves[index], **told)
    assert not merkle.check_inclusion(leaves[index] + b"x", **told)
    assert not merkle.check_inclusion(leaves[index], **(told | {"proof": (*told["proof"], told["root"])}))
    assert not merkle.check_inclusion(leaves[index], **(told | {"index": len(leaves)}))
    other = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[other] != leaves[index]:
        assert not merkle.check_inclusion(leaves[other], **told)
    if told["proof"]:
        assert not merkle.check_inclusion(leaves[index], **(told | {"proof": told["proof"][:-1]}))
        flipped = data.draw(st.integers(0, len(told["proof"]) - 1))
        wrong = [*told["proof"]]
        wrong[flipped] = ("0" if wrong[flipped][0] != "0" else "1") + wrong[flipped][1:]
        assert not merkle.check_inclusion(leaves[index], **(told | {"proof": wrong}))


@given(LISTS, st.data())
def test_a_list_that_only_grew_is_proved_and_a_changed_one_is_not(leaves: list[bytes], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(leaves)))
    proof = merkle.consistency_proof(leaves, size)
    told: dict[str, Any] = {"root1": merkle.root(leaves[:size]), "root2": merkle.root(leaves), "proof": proof}
    assert merkle.check_consistency(size, len(leaves), **told)
    place = data.draw(st.integers(0, size - 1))
    changed = [*leaves[:place], leaves[place] + b"x", *leaves[place + 1 : size]]
    assert not merkle.check_consistency(size, len(leaves), **(told | {"root1": merkle.root(changed)}))
    changed += leaves[size:]
    later = {"root2": merkle.root(changed), "proof": merkle.consistency_proof(changed, size)}
    assert not merkle.check_consistency(size, len(leaves), **(told | later))


@given(LISTS, st.data())
def test_a_doubled_last_leaf_changes_the_root(leaves: list[bytes], data: st.DataObject) -> None:
    assert merkle.root([*leaves, leaves[-1]]) != merkle.root(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    assert merkle.root(leaves[:index] + leaves[index + 1 :]) != merkle.root(leaves)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 300), st.data())
def test_a_sample_holds_different_episodes_and_a_longer_one_begins_with_it(
    beacon: bytes, n: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, n))
    picked = merkle.audit_sample("ab" * 32, beacon, n=n, k=k)
    assert len(set(picked)) == k and all(0 <= index < n for index in picked)
    assert merkle.audit_sample("ab" * 32, beacon, n=n, k=n)[:k] == picked


@pytest.mark.parametrize(
    ("root", "beacon", "n", "k"),
    [
        ("ab", bytes(32), 3, 1),
        ("AB" * 32, bytes(32), 3, 1),
        ("ab" * 32, bytes(31), 3, 1),
        ("ab" * 32, bytes(32), 3, 4),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused(root: str, beacon: bytes, n: int, k: int) -> None:
    with pytest.raises(UsageError, match="expected"):
        merkle.audit_sample(root, beacon, n=n, k=k)


def test_a_proof_of_what_is_not_in_the_tree_is_refused() -> None:
    with pytest.raises(UsageError, match="expected an index"):
        merkle.inclusion_proof([b"a"], 1)
    with pytest.raises(UsageError, match="expected 1 to 1"):
        merkle.consistency_proof([b"a"], 2)
