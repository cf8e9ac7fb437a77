"""documents_digest is MuHash3072: Bitcoin Core's published vectors, and the kernel against plain integers."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from tokcore import kernel
from tokcore.kernel import MuHash
from tokcore.reference import reference
from tokcore.shards.documents_digest import DocumentsDigest

PRIME = 2**3072 - 1103717
NATIVE = kernel.list_available()[0]

# From src/test/crypto_tests.cpp of Bitcoin Core, muhash_tests: what it prints of 32 byte strings that begin with a
# number and go on with zeros. Hashes are printed with their bytes in reverse order; values as they are.
ZERO_ONE_WITHOUT_TWO = "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863"
ONE_TWO = (
    "1fa093295ea30a6a3acdc7b3f770fa538eff537528e990e2910e40bbcfd7f6696b1256901929094694b56316de342f593303dd12ac43e06d"
    "ce1be1ff8301c845beb15468fff0ef002dbf80c29f26e6452bccc91b5cb9437ad410d2a67ea847887fa3c6a6553309946880fe20db2c73fe"
    "0641adbd4e86edfee0d9f8cd0ee1230898873dc13ed8ddcaf045c80faa082774279007a2253f8922ee3ef361d378a6af3ddaf180b190ac97"
    "e556888c36b3d1fb1c85aab9ccd46e3deaeb7b7cf5db067a7e9ff86b658cf3acd6662bbcce37232daa753c48b794356c020090c831a83044"
    "16e2aa7ad633c0ddb2f11be1be316a81be7f7e472071c042cb68faef549c221ebff209273638b741aba5a81675c45a5fa92fea4ca821d7a3"
    "24cb1e1a2ccd3b76c4228ec8066dad2a5df6e1bd0de45c7dd5de8070bdb46db6c554cf9aefc9b7b2bbf9f75b1864d9f95005314593905c01"
    "09b71f703d49944ae94477b51dac10a816bb6d1c700bafabc8bd86fac8df24be519a2f2836b16392e18036cb13e48c5c"
)
OVERFLOW = "3a31e6903aff0de9f62f9a9f7f8b861de76ce2cda09822b90014319ae5dc2271"  # of 384 bytes 0xff, not reversed


def make_key(number: int) -> bytes:
    """The key of one of Bitcoin Core's byte strings."""
    return hashlib.sha256(bytes([number]) + bytes(31)).digest()


@pytest.fixture(params=[NATIVE, "reference"])
def implementation(request: pytest.FixtureRequest) -> Iterable[str]:
    with kernel.force(request.param):
        yield request.param


def test_bitcoin_cores_vectors(implementation):
    one = MuHash()
    one.add(make_key(0))
    one.add(make_key(1))
    one.subtract(make_key(2))
    assert hashlib.sha256(one.value()).digest()[::-1].hex() == ZERO_ONE_WITHOUT_TWO
    parts = [MuHash() for _ in range(3)]
    for number, part in enumerate(parts):
        part.add(make_key(number))
    parts[0].add_value(parts[1].value())
    parts[0].subtract_value(parts[2].value())
    assert parts[0].value() == one.value()
    parts[1].add_value(parts[2].value())
    assert parts[1].value().hex() == ONE_TWO
    assert hashlib.sha256(MuHash(b"\xff" * 384).value()).hexdigest() == OVERFLOW


def test_a_keystream_by_the_book():
    """RFC 8439, appendix A.1: test vectors 1 and 2, of a key of zeros; and one of a key that ends with a 1."""
    assert reference.chacha20_block(bytes(32), 0).hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1a")
    assert reference.chacha20_block(bytes(32), 1).hex().startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e36569")
    assert reference.chacha20_block(bytes(31) + b"\1", 1).hex().startswith("3aeb5224ecf849929b9d828db1ced4dd832025e8")


# Numbers at the ends of the range, and with long runs of ones, find carries that random ones do not.
limbs = st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**64 - 1103717]) | st.integers(0, 2**64 - 1), max_size=48)
values = st.one_of(
    limbs.map(lambda some: b"".join(limb.to_bytes(8, "little") for limb in some).ljust(384, b"\xff")),
    st.integers(-3, 3).map(lambda by: (PRIME + by).to_bytes(384, "little")),
    st.sampled_from([MuHash.EMPTY, bytes(384), b"\xff" * 384]),
)


@given(st.lists(values, min_size=1, max_size=6))
def test_products_are_those_of_integers(some):
    product, hashed = 1, MuHash()
    for value in some:
        hashed.add_value(value)
        product = product * int.from_bytes(value, "little") % PRIME
        assert hashed.value() == product.to_bytes(384, "little")


@pytest.mark.parametrize("remainder", [0, 1, 1103716, 1103717, 1103718, 2**21, 2**40, PRIME - 1])
def test_products_next_to_the_prime(remainder):
    """Where the upper half, once it was folded into the lower one, carries again."""
    chance = random.Random(remainder)
    for _ in range(20):
        factor = chance.getrandbits(3072) % PRIME
        other = remainder * pow(factor, -1, PRIME) % PRIME
        hashed = MuHash(factor.to_bytes(384, "little"))
        hashed.add_value(other.to_bytes(384, "little"))
        assert int.from_bytes(hashed.value(), "little") == remainder


@examples(20)
@given(st.lists(values, min_size=1, max_size=4), st.lists(values, min_size=1, max_size=2))
def test_quotients_are_those_of_integers(some, others):
    hashed, slow = MuHash(), reference.MuHash(MuHash.EMPTY)
    for one in (hashed, slow):
        for value in some:
            one.add_value(value)
        for value in others:
            one.subtract_value(value)
    assert hashed.value() == slow.value()


@examples(20)
@given(st.lists(st.binary(min_size=32, max_size=32), max_size=4), st.randoms())
def test_members_may_come_in_any_order(keys, chance):
    with kernel.force("reference"):
        slow = MuHash()
        slow.add(b"".join(keys))
    ordered = sorted(keys, key=lambda _: chance.random())
    cut = chance.randint(0, len(ordered))
    one, other = MuHash(), MuHash()
    one.add(b"".join(ordered[:cut]))
    for key in ordered[cut:]:
        other.add(key)
    one.add_value(other.value())
    assert one.value() == slow.value()
    one.subtract(b"".join(ordered[:cut]))
    assert one.value() == other.value()


def test_equal_documents_count():
    """A sum modulo 2^16 or an exclusive or would lose them."""
    seen = set()
    total = DocumentsDigest()
    for _ in range(300):
        seen.add(total.hexdigest())
        total.add([make_key(7)] * 512)
    assert len(seen) == 300
    assert total.num_documents == 300 * 512
    total.subtract([make_key(7)] * (300 * 512))
    assert (total.hexdigest(), total.num_documents) == (MuHash.EMPTY.hex(), 0)


def test_threads_may_share_one():
    chance = random.Random(1)
    keys = [chance.randbytes(32) for _ in range(400)]
    shared, alone = MuHash(), MuHash()
    alone.add(b"".join(keys))
    threads = [threading.Thread(target=shared.add, args=(b"".join(keys[i::4]),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.value() == alone.value()


def test_other_sizes_are_refused(implementation):
    with pytest.raises(ValueError, match="keys: 33 bytes, expected 32 of each"):
        MuHash().add(bytes(33))
    with pytest.raises(ValueError, match="keys: 31 bytes, expected 32 of each"):
        MuHash().subtract(bytes(31))
    with pytest.raises(ValueError, match="value: 383 bytes, expected 384"):
        MuHash(bytes(383))
    with pytest.raises(ValueError, match="value: 385 bytes, expected 384"):
        MuHash().add_value(bytes(385))
