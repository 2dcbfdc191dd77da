"""The Merkle tree over rows: one root for all of them, and short proofs about one row or about a longer list.

Leaves and nodes are hashed under different prefixes, a list is split at the largest power of two below its length,
and an odd node is never duplicated. Digests are 64 lower-case hex digits. Source: RFC 9162, sections 2.1.1 to 2.1.4;
evidence specification, sections 7 and 10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from trialplate.errors import UsageError

_EMPTY = hashlib.sha256(b"").digest()
_DRAWS = 2**64


def leaf_hash(data: bytes) -> bytes:
    """Return the 32-byte hash of one leaf: SHA-256(00 + data)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the 32-byte hash of a node over two 32-byte hashes: SHA-256(01 + left + right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: Iterable[bytes]) -> str:
    """Return the root over leaves, in hex. Holds one hash per level, however many leaves come."""
    return _joined(leaf_hash(leaf) for leaf in leaves).hex()


def _joined(hashes: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes: whole subtrees are joined as soon as two of one size stand side by side."""
    whole: list[tuple[int, bytes]] = []
    for digest in hashes:
        level = 0
        while whole and whole[-1][0] == level:
            digest = node_hash(whole.pop()[1], digest)
            level += 1
        whole.append((level, digest))
    if not whole:
        return _EMPTY
    digest = whole.pop()[1]
    while whole:
        digest = node_hash(whole.pop()[1], digest)
    return digest


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[str, ...]:
    """Return the hashes that lead from leaf ``index`` to the root. Raises UsageError for an index without a leaf."""
    if not 0 <= index < len(leaves):
        raise UsageError(f"leaf {index}: expected an index from 0 to {len(leaves) - 1}")
    hashes = [leaf_hash(leaf) for leaf in leaves]
    proof: list[bytes] = []
    while len(hashes) > 1:
        split = _split(len(hashes))
        if index < split:
            proof.append(_joined(hashes[split:]))
            hashes = hashes[:split]
        else:
            proof.append(_joined(hashes[:split]))
            hashes, index = hashes[split:], index - split
    return tuple(digest.hex() for digest in reversed(proof))


def check_inclusion(leaf: bytes, *, index: int, size: int, proof: Sequence[str], root: str) -> bool:
    """Return whether ``leaf`` stands at ``index`` of a tree of ``size`` leaves with this root (RFC 9162, 2.1.3.2)."""
    path = _digests(proof)
    if path is None or not 0 <= index < size:
        return False
    place, last, digest = index, size - 1, leaf_hash(leaf)
    for sibling in path:
        if last == 0:
            return False
        if place % 2 == 1 or place == last:
            digest = node_hash(sibling, digest)
            while place % 2 == 0 and place != 0:
                place, last = place // 2, last // 2
        else:
            digest = node_hash(digest, sibling)
        place, last = place // 2, last // 2
    return last == 0 and digest.hex() == root


def consistency_proof(leaves: Sequence[bytes], size: int) -> tuple[str, ...]:
    """Return the hashes that show that the first ``size`` leaves still begin the list. Raises UsageError for a size
    that is not between 1 and the number of leaves."""
    if not 1 <= size <= len(leaves):
        raise UsageError(f"an earlier tree of {size} leaves: expected 1 to {len(leaves)}")
    hashes = [leaf_hash(leaf) for leaf in leaves]
    proof: list[bytes] = []
    known = True  # whether the part in hand is the whole earlier tree, whose root the reader has
    while size != len(hashes):
        split = _split(len(hashes))
        if size <= split:
            proof.append(_joined(hashes[split:]))
            hashes = hashes[:split]
        else:
            proof.append(_joined(hashes[:split]))
            hashes, size, known = hashes[split:], size - split, False
    if not known:
        proof.append(_joined(hashes))
    return tuple(digest.hex() for digest in reversed(proof))


def check_consistency(size1: int, size2: int, *, root1: str, root2: str, proof: Sequence[str]) -> bool:
    """Return whether the tree of ``size1`` leaves begins the tree of ``size2`` leaves (RFC 9162, 2.1.4.2)."""
    path = _digests(proof)
    if path is None or not 1 <= size1 <= size2:
        return False
    if size1 == size2:
        return not path and root1 == root2
    if size1 & (size1 - 1) == 0:
        path = [bytes.fromhex(root1), *path] if _is_digest(root1) else []
    if not path:
        return False
    place, last = size1 - 1, size2 - 1
    while place % 2 == 1:
        place, last = place // 2, last // 2
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place % 2 == 1 or place == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while place % 2 == 0 and place != 0:
                place, last = place // 2, last // 2
        else:
            second = node_hash(second, sibling)
        place, last = place // 2, last // 2
    return last == 0 and (first.hex(), second.hex()) == (root1, root2)


def audit_sample(root: str, beacon: bytes, *, n: int, k: int) -> tuple[int, ...]:
    """Return ``k`` different indices below ``n`` that follow from a root and 32 bytes of public randomness.

    Who submitted the root could not choose them, when the beacon was drawn after it was published. Raises UsageError
    for a beacon of another length, a root that is none, or more indices than there are.
    """
    if not _is_digest(root) or len(beacon) != 32:
        raise UsageError(f"expected a root of 64 hex digits and a beacon of 32 bytes, got {root!r} and {len(beacon)}")
    if not 0 <= k <= n:
        raise UsageError(f"expected 0 to {n} episodes to be picked out of {n}, got {k}")
    seed = hashlib.sha256(b"trialplate/1 audit\n" + bytes.fromhex(root) + beacon).digest()
    taken: dict[int, None] = {}
    fair = _DRAWS - _DRAWS % n if n else 0
    counter = 0
    while len(taken) < k:
        draw = int.from_bytes(hashlib.sha256(seed + counter.to_bytes(8, "big")).digest()[:8], "big")
        counter += 1
        if draw < fair:
            taken.setdefault(draw % n)
    return tuple(taken)


def _split(size: int) -> int:
    """Return the largest power of two below ``size`` (at least 2)."""
    return 1 << ((size - 1).bit_length() - 1)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _digests(proof: Sequence[str]) -> list[bytes] | None:
    return [bytes.fromhex(item) for item in proof] if all(_is_digest(item) for item in proof) else None
