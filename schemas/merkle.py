"""Merkle trees as RFC 6962 hashes them: a short proof shows that one leaf is among those of a root.

A leaf is hashed after a byte 0, a node (two hashes) after a byte 1. So neither can be taken for the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

Step = tuple[Literal["left", "right"], bytes]  # where the other hash stands, and the hash


def hash_leaf(data: bytes) -> bytes:
    """The hash of a leaf.

    >>> hash_leaf(b"").hex()
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'
    """
    return hashlib.sha256(b"\0" + data).digest()


def hash_tree(nodes: Sequence[bytes]) -> bytes:
    """The root over these hashes, of leaves or of other trees; the sha256 of nothing if there are none.

    >>> hash_tree([b"one hash"])
    b'one hash'
    """
    if not nodes:
        return hashlib.sha256().digest()
    # Level by level: an odd last node moves up as it is. That is RFC 6962's tree, which cuts at powers of two.
    level = list(nodes)
    while len(level) > 1:
        paired = [_hash_pair(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def prove(nodes: Sequence[bytes], index: int) -> list[Step]:
    """The hashes that lead from one of the nodes up to the root, the lowest first."""
    steps: list[Step] = []
    level = list(nodes)
    while len(level) > 1:
        if (other := index ^ 1) < len(level):
            steps.append(("left" if other < index else "right", level[other]))
        paired = [_hash_pair(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level, index = paired + level[len(level) - len(level) % 2 :], index // 2
    return steps


def follow(node: bytes, steps: Sequence[Step]) -> bytes:
    """The root that these steps lead to."""
    for side, other in steps:
        node = _hash_pair(other, node) if side == "left" else _hash_pair(node, other)
    return node


def _hash_pair(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
