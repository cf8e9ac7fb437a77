"""Merkle trees: RFC 6962's hashes, as its authors publish them, and proofs that only their own leaf passes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.merkle import follow, hash_leaf, hash_tree, prove

# Leaves and roots of the test vectors of the certificate-transparency project.
LEAVES = [
    bytes.fromhex(one)
    for one in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


@pytest.mark.parametrize("num", ROOTS)
def test_roots_are_those_that_are_published(num):
    assert hash_tree([hash_leaf(leaf) for leaf in LEAVES[:num]]).hex() == ROOTS[num]


def hash_as_the_rfc_says(nodes: list[bytes]) -> bytes:
    """The tree by its definition: cut at the largest power of two below the number of leaves."""
    if len(nodes) == 1:
        return nodes[0]
    cut = 1 << (len(nodes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + hash_as_the_rfc_says(nodes[:cut]) + hash_as_the_rfc_says(nodes[cut:])).digest()


@given(st.integers(1, 70), st.data())
def test_a_proof_leads_from_its_leaf_and_from_no_other(num, data):
    nodes = [hash_leaf(bytes([i])) for i in range(num)]
    root = hash_tree(nodes)
    assert root == hash_as_the_rfc_says(nodes)
    index = data.draw(st.integers(0, num - 1))
    steps = prove(nodes, index)
    assert [follow(node, steps) == root for node in nodes] == [i == index for i in range(num)]
    assert len(steps) <= (num - 1).bit_length()
