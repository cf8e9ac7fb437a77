"""The native encoder equals the reference, whatever the vocabulary, the cache and the threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import encoder_of, learned_models, models, pieces_for, published_tokenizer, ranks

from tokcore import kernel
from tokcore.byte_alphabet import BYTE_OF_ID
from tokcore.texts import Texts, texts_from_strings
from tokcore.tokenizer_spec import LearnedModel, RanksModel

NATIVE = [name for name in kernel.available() if name != "reference"]


def encoded_pieces(encoder, pieces, threads=1):
    """One text a piece; the ids of each."""
    texts = texts_from_strings(pieces)
    held = [i for i, piece in enumerate(pieces) if piece]
    firsts = np.searchsorted(held, np.arange(len(pieces) + 1))
    ids, offsets, pretokens = encoder.encode_pieces(texts, texts.offsets[1:][held], firsts, threads)
    assert ids.dtype == np.int32
    assert offsets.dtype == pretokens.dtype == np.int64
    assert pretokens.tolist() == [min(1, len(piece)) for piece in pieces]
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def reference_pieces(model, pieces, whole=None):
    with kernel.forced("reference"):
        return encoded_pieces(encoder_of(model, whole=whole), pieces)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_native_equals_reference(data):
    model = data.draw(models())
    pieces = data.draw(pieces_for(model))
    cache_bytes = data.draw(st.sampled_from([0, 4096, 1 << 16]))
    whole = data.draw(st.sampled_from([None, True, False]))
    expected = reference_pieces(model, pieces, whole)
    encoder = encoder_of(model, cache_bytes=cache_bytes, whole=whole)
    assert encoded_pieces(encoder, pieces) == expected
    assert encoded_pieces(encoder, pieces) == expected  # from the cache, what it holds


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_learned_tokens_encode_to_themselves(data):
    model = data.draw(learned_models())
    assert encoded_pieces(encoder_of(model), model.tokens) == [[id] for id in model.ids]


def test_long_pieces_equal_reference():
    """Longer than any threshold inside, over a published vocabulary, where matching must go back."""
    generator = np.random.default_rng(1)
    tokens = list(ranks("cl100k"))[:20000]
    model = RanksModel(tuple(tokens), np.arange(20000, dtype=np.int32))
    pieces = [
        b"".join(tokens[i] for i in generator.integers(0, 20000, n)) for n in (5, 10, 20, 40, 60) for _ in range(20)
    ]
    pieces += [letter * n for letter in (b"a", b" ", b"ab", b"\n") for n in (39, 40, 41, 63, 64, 65, 200)]
    pieces += [bytes(generator.integers(97, 123, 300, np.uint8)) for _ in range(10)]
    assert encoded_pieces(encoder_of(model), pieces) == reference_pieces(model, pieces)


@pytest.mark.parametrize("name", NATIVE)
def test_equal_ranks_merge_from_the_left(name):
    """Of pairs that overlap the left one is merged, in pieces of every length that is treated by itself."""
    a, b = BYTE_OF_ID.index(b"a"), BYTE_OF_ID.index(b"b")
    model = LearnedModel(np.array([[a, a], [b, 256], [256, a], [257, b]], np.int32))
    pieces = [before + b"a" * n + after for n in range(130) for before in (b"", b"b", b"ab") for after in (b"", b"b")]
    with kernel.forced(name):
        found = encoded_pieces(encoder_of(model), pieces)
    assert found == reference_pieces(model, pieces)


@pytest.mark.parametrize("cache_bytes", [0, 4095, 4096, 5000, 1 << 15, 1 << 22])
def test_cache_changes_nothing(cache_bytes):
    """Keys of every short length, many that share a bucket, and more ids than an entry holds, again and again."""
    generator = np.random.default_rng(2)
    pieces = [bytes(generator.integers(97, 100, n, np.uint8)) for n in range(1, 30) for _ in range(60)]
    pieces += [
        bytes(generator.integers(0, 256, n, np.uint8)) for n in (*range(1, 20), 511, 512, 513, 2000) for _ in range(9)
    ]
    model = published_tokenizer("r50k").spec.model
    expected = encoded_pieces(encoder_of(model, cache_bytes=0), pieces)
    encoder = encoder_of(model, cache_bytes=cache_bytes)
    for _ in range(3):
        order = generator.permutation(len(pieces))
        assert encoded_pieces(encoder, [pieces[i] for i in order]) == [expected[i] for i in order]


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_implementation_change_nothing(name, threads):
    text = "The quick brown fox – 12345 jumps; über dem 犬、それ।\n\n  मैं don't!".encode()
    generator = np.random.default_rng(3)
    strings = [text[: generator.integers(0, len(text))] * int(generator.integers(0, 40)) for _ in range(600)]
    texts = texts_from_strings([*strings, b"", b"", b"x" * 300_000, b""])
    model = published_tokenizer("cl100k").spec.model
    with kernel.forced("portable"):
        expected = encoder_of(model, pattern="cl100k").encode(texts)
    with kernel.forced(name):
        encoder = encoder_of(model, pattern="cl100k")
        for _ in range(2):
            for found, wanted in zip(encoder.encode(texts, threads), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_texts_are_a_window_of_their_data():
    """Bytes before the first offset and after the last one are not part of any text."""
    model = published_tokenizer("cl100k").spec.model
    encoder = encoder_of(model, pattern="cl100k")
    data = np.frombuffer(b"hello world, hello world", np.uint8)
    ids, offsets, pretokens = encoder.encode(Texts(data, np.array([6, 11, 11, 12], np.int64)))
    alone = encoder.encode(texts_from_strings([b"world", b"", b","]))
    assert (ids.tolist(), offsets.tolist(), pretokens.tolist()) == tuple(array.tolist() for array in alone)


def test_no_texts():
    encoder = encoder_of(LearnedModel(np.zeros((0, 2), np.int32)), pattern="gpt2")
    for strings in ([], [b""], [b"", b""]):
        ids, offsets, pretokens = encoder.encode(texts_from_strings(strings), 2)
        assert ids.tolist() == []
        assert offsets.tolist() == [0] * (len(strings) + 1)
        assert pretokens.tolist() == [0] * len(strings)


@pytest.mark.parametrize("offsets", [[0, 3, 2], [-1, 2], [0, 9]])
def test_offsets_outside_of_the_data_are_refused(offsets):
    encoder = encoder_of(LearnedModel(np.zeros((0, 2), np.int32)), pattern="gpt2")
    with pytest.raises(ValueError, match="offsets"):
        encoder.encode(Texts(np.zeros(4, np.uint8), np.array(offsets, np.int64)))


@pytest.mark.parametrize(
    ("ends", "firsts"),
    [
        ([2], [0, 1]),
        ([2, 5], [0, 2]),
        ([2, 2, 4], [0, 3]),
        ([4], [0, 2]),
        ([4], [1, 0]),
        ([3, 2, 4], [0, 3]),
        ([], [0, 0]),
    ],
)
def test_pieces_that_do_not_cover_the_text_are_refused(ends, firsts):
    encoder = encoder_of(LearnedModel(np.zeros((0, 2), np.int32)))
    texts = texts_from_strings([b"abcd"])
    with pytest.raises(ValueError, match="pieces"):
        encoder.encode_pieces(texts, np.array(ends, np.int64), np.array(firsts, np.int64))
    # A worker that met an error starts afresh.
    assert encoder.encode_pieces(texts, np.array([4]), np.array([0, 1]))[0].tolist() == [64, 65, 66, 67]


def test_arguments_are_checked():
    model = LearnedModel(np.zeros((0, 2), np.int32))
    texts = texts_from_strings([b"abcd"])
    with pytest.raises(ValueError, match="pattern"):
        encoder_of(model).encode(texts)
    with pytest.raises(ValueError, match="threads"):
        encoder_of(model, pattern="gpt2").encode(texts, 0)


BYTES = [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize(
    ("tokens", "ids", "merges", "expected"),
    [
        (BYTES[1:], None, [], "byte 0"),
        ([*BYTES, b"a"], None, [], "same bytes"),
        ([*BYTES, b""], None, [], "no bytes"),
        (BYTES, [*range(255), 7], [], "same id"),
        (BYTES, [*range(255), -1], [], "negative"),
        ([*BYTES, b"ab", b"ab"], None, [], "same bytes"),
        ([*BYTES, b"ab"], None, [(97, 98, 300, 0)], "merge 0.*no token"),
        ([*BYTES, b"ab"], None, [(97, 99, 256, 0)], "merge 0.*not those of its parts"),
        ([*BYTES, b"ab", b"cd"], None, [(97, 98, 256, 5), (99, 100, 257, 5)], "merge 1.*same priority"),
    ],
)
def test_impossible_vocabularies_are_refused(tokens, ids, merges, expected):
    columns = np.array(merges, np.int64).reshape(-1, 4).T
    with pytest.raises(ValueError, match=expected):
        kernel.Encoder(
            None,
            texts_from_strings(tokens),
            np.array(range(len(tokens)) if ids is None else ids, np.int32),
            *(np.ascontiguousarray(column.astype(np.int32)) for column in columns[:3]),
            np.ascontiguousarray(columns[3].astype(np.uint32)),
            False,
            0,
        )
