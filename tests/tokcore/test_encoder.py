"""The native encoder equals the reference, whatever the vocabulary, the cache and the threads."""

from __future__ import annotations

import functools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples, seeds
from support.vocabularies import encoder_of, learned_models, models, pieces_for, published_tokenizer, ranks

from tokcore import kernel
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.models.bpe_merges import MergeTable
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.texts import Texts, make_texts_from_strings

NATIVE = [name for name in kernel.list_available() if name != "reference"]


def encoded_pieces(encoder, pieces, threads=1):
    """The ids of each piece, which is encoded as a text of its own."""
    texts = make_texts_from_strings(pieces)
    held = [i for i, piece in enumerate(pieces) if piece]
    firsts = np.searchsorted(held, np.arange(len(pieces) + 1))
    ids, offsets, pretokens = encoder.encode_pieces(texts, texts.offsets[1:][held], firsts, threads)
    assert ids.dtype == np.int32
    assert offsets.dtype == pretokens.dtype == np.int64
    assert pretokens.tolist() == [min(1, len(piece)) for piece in pieces]
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def reference_pieces(model, pieces, whole=None):
    with kernel.force("reference"):
        return encoded_pieces(encoder_of(model, whole=whole), pieces)


@given(st.data())
@examples(200)
def test_native_equals_reference(data):
    model = data.draw(models())
    pieces = data.draw(pieces_for(model))
    cache_bytes = data.draw(st.sampled_from([0, 4096, 1 << 16]))
    whole = data.draw(st.sampled_from([None, True, False]))
    expected = reference_pieces(model, pieces, whole)
    encoder = encoder_of(model, cache_bytes=cache_bytes, whole=whole)
    assert encoded_pieces(encoder, pieces) == expected
    assert encoded_pieces(encoder, pieces) == expected  # now from the cache, where it remembers


@given(st.data())
@examples(50)
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


@pytest.mark.parametrize("seed", seeds())
def test_merges_that_were_not_learned(seed):
    """One merge per token, but not all tokens are what their own bytes encode to, as learned ones always are."""
    generator = np.random.default_rng(seed)
    id_of = {bytes([byte]): id for id, byte in enumerate(BYTE_OF_ID)}
    usable = [id_of[letter] for letter in (b"a", b"b", b"c")]
    tokens = list(id_of)
    merges: list[tuple[int, int]] = []
    while len(merges) < 12:
        left, right = (usable[i] for i in generator.integers(0, len(usable), 2))
        if (joined := tokens[left] + tokens[right]) not in id_of:
            usable.append(len(tokens))
            id_of[joined] = len(tokens)
            tokens.append(joined)
            merges.append((left, right))
    model = LearnedModel(np.array(merges, np.int32))
    pieces = [b"".join(tokens[i] for i in generator.choice(usable, 60)) for _ in range(20)]
    assert encoded_pieces(encoder_of(model), tokens) == reference_pieces(model, tokens)
    assert encoded_pieces(encoder_of(model), pieces) == reference_pieces(model, pieces)


class _MergedByHeap:
    """A model and two merges of bytes that it has not; one is ranked before the merge that makes a part of its token.

    No learned vocabulary has such a merge, so the kernel merges this one in order of ranks, by a heap.
    """

    def __init__(self, model):
        a, b = (model.ids[model.tokens.index(byte)] for byte in (b"\xf5", b"\xf6"))
        assert not any(b"\xf5" in token or b"\xf6" in token for token in model.tokens if len(token) > 1)
        new = max(model.ids) + 1
        self.whole = model.whole
        self.tokens = (*model.tokens, b"\xf5\xf6", b"\xf5\xf6\xf5")
        self.ids = np.array([*model.ids, new, new + 1], np.int32)
        self._merges = [(new, a, new + 1), (a, b, new)]
        self._table = model.merge_table

    @property
    def merge_table(self):
        table = self._table
        left, right, result = np.array(self._merges, np.int32).T
        later = np.arange(2, dtype=np.uint32) + max(table.priority, default=0) + 1
        old = (table.left, table.right, table.result, table.priority)
        pairs = zip(old, (left, right, result, later), strict=True)
        return MergeTable(*map(np.concatenate, pairs))


def check_long_pieces(model, pieces):
    expected = encoded_pieces(encoder_of(_MergedByHeap(model)), pieces)
    for piece, found, wanted in zip(pieces, encoded_pieces(encoder_of(model), pieces), expected, strict=True):
        assert found == wanted, (piece[:100], len(piece))


@given(st.data())
@examples(75)
def test_repetitions_equal_merging_by_heap(data):
    """Repetitions of any few bytes, of any length, with or without something before and after them."""
    model = data.draw(learned_models())
    part = st.sampled_from([token for token in model.tokens if token[0] not in (0xF5, 0xF6)])
    few = st.lists(part, min_size=1, max_size=6).map(b"".join)
    size = st.one_of(st.integers(60, 300), st.integers(6000, 7000), st.integers(16300, 17000), st.integers(0, 40000))
    ends = st.one_of(st.just(b""), few)
    piece = st.builds(lambda before, unit, n, after: before + (unit * n)[:n] + after, ends, few, size, ends)
    check_long_pieces(model, data.draw(st.lists(piece, min_size=1, max_size=4)))


@pytest.mark.parametrize(
    "sizes", [(), (2,), (2, 3, 5, 7), (2, 4, 5, 8, 13, 6, 14), (2, 4, 8, 9, 17, 25, 5), (2, 4, 8, 16, 32, 64, 128)]
)
def test_runs_of_one_byte_equal_merging_by_heap(sizes):
    """The tokens are runs of these lengths, the pieces are runs of every length around the thresholds."""
    model = LearnedModel(np.zeros((0, 2), np.int32))
    for size in sizes:
        [parts] = reference_pieces(model, [b"a" * size])  # two, or the token would not be what its bytes encode to
        model = LearnedModel(np.concatenate([model.merges, np.array([parts], np.int32)]))
    check_long_pieces(model, [b"a" * n for n in (*range(60, 400), *range(16380, 16800, 3), 100_003)])


def test_what_the_end_of_a_piece_decides_far_before_it():
    """Each byte would rather merge with the next one than with the one before, so a row is paired from its end."""
    order = [BYTE_OF_ID.index(bytes([byte])) for byte in range(0xF5)]
    model = LearnedModel(np.array(list(pairwise(order))[::-1], np.int32))
    rows = [bytes(range(first, 0xF5)) for first in range(180)]
    rows += [rows[0][:n] for n in range(60, 0xF5)]
    check_long_pieces(model, [*rows, *(row * n for row in rows[60:190:7] for n in (2, 3, 200))])


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_long_pieces_of_published_vocabularies_equal_merging_by_heap(name):
    generator = np.random.default_rng(4)
    model = published_tokenizer(name).spec.model
    tokens = [token for token in model.tokens if len(token) > 1]
    units = [b" ", b"\n", b"a", b"=", b"-", b"^", b"\0", b"ab", b"\r\n", b"lol", "e\u0301\u0301".encode()]
    units += ["中".encode(), "👩\u200d👩\u200d👧\u200d👦🏽".encode(), b"GATTACA" * 9, b"0123456789" * 7]
    sizes = (65, 100, 129, 16383, 16384, 16385, 20011)
    pieces = [(unit * size)[:size] for unit in units for size in sizes]
    pieces += [b"x" + piece + b"y" for piece in pieces]
    pieces += [bytes(generator.integers(97, 123, n, np.uint8)) for n in (65, 113, 114, 500, 6160, 6161, 50_000)]
    pieces += [b"".join(tokens[i] for i in generator.integers(0, len(tokens), n)) for n in (20, 200, 20_000)]
    wide = "".join(map(chr, generator.integers(0x4E00, 0x9FA0, 9000))) + "".join(map(chr, range(0xC0, 0xD800)))
    pieces += [wide.encode()[:n] for n in (2046, 2047, 2048, 2049, 2050, 27_000)] + [wide.encode()]
    check_long_pieces(model, pieces)


def test_equal_ranks_merge_from_the_left():
    """Of pairs that overlap the left one is merged, in pieces of every length that has its own code path."""
    a, b = BYTE_OF_ID.index(b"a"), BYTE_OF_ID.index(b"b")
    model = LearnedModel(np.array([[a, a], [b, 256], [256, a], [257, b]], np.int32))
    pieces = [before + b"a" * n + after for n in range(130) for before in (b"", b"b", b"ab") for after in (b"", b"b")]
    expected = reference_pieces(model, pieces)
    for name in NATIVE:
        with kernel.force(name):
            assert encoded_pieces(encoder_of(model), pieces) == expected, name


@pytest.mark.parametrize("whole", [True, False])
def test_a_token_that_no_merge_makes_is_one_only_as_a_whole_pretoken(whole):
    """Such tokens are in Llama 3. Long pre-tokens are cut between characters that no token holds side by side, and a
    part of one is no pre-token."""
    merges = [("ж".encode()[:1], "ж".encode()[1:]), (b"a", b"b"), (b"b", b"c"), (b"ab", b"c")]
    odd = ["語".encode(), b"bcd", "жжжжжжжжж".encode()]  # the last has more bytes than fit a place of the cache
    tokens = [bytes([byte]) for byte in range(256)] + [a + b for a, b in merges] + odd
    number = {token: i for i, token in enumerate(tokens)}
    pairs = np.array([(number[a], number[b]) for a, b in merges], np.int32)
    model = MergesModel(tuple(tokens), np.arange(len(tokens), dtype=np.int32), pairs, whole)
    pieces = [
        "語",
        "語ж",
        "語" * 6,
        "ж" * 9,
        "ж語" * 5,
        "ж" * 8 + "語",
        "abc",
        "bcd",
        "abcd",
        "日本語" * 800,
        "ж" * 2000,
    ]
    texts = make_texts_from_strings(pieces)
    found = []
    for implementation in ("reference", kernel.get_implementation()):
        with kernel.force(implementation):
            ids, offsets, _ = encoder_of(model).encode_pieces(texts, texts.offsets[1:], np.arange(len(pieces) + 1))
        found.append([ids[a:b].tolist() for a, b in pairwise(offsets)])
    assert found[0] == found[1]
    assert (found[1][0] == [number[odd[0]]]) is whole
    assert number[odd[0]] not in found[1][2]


def test_cache_changes_nothing():
    """Keys of every short length, many that share a bucket, and more ids than an entry holds, again and again."""
    generator = np.random.default_rng(2)
    pieces = [bytes(generator.integers(97, 100, n, np.uint8)) for n in range(1, 30) for _ in range(60)]
    pieces += [
        bytes(generator.integers(0, 256, n, np.uint8)) for n in (*range(1, 20), 511, 512, 513, 2000) for _ in range(9)
    ]
    model = published_tokenizer("r50k").spec.model
    expected = encoded_pieces(encoder_of(model, cache_bytes=0), pieces)
    for cache_bytes in (0, 4095, 4096, 5000, 1 << 15, 1 << 22):
        encoder = encoder_of(model, cache_bytes=cache_bytes)
        for _ in range(3):
            order = generator.permutation(len(pieces))
            assert encoded_pieces(encoder, [pieces[i] for i in order]) == [expected[i] for i in order], cache_bytes


def test_threads_and_implementation_change_nothing():
    text = "The quick brown fox – 12345 jumps; über dem 犬、それ।\n\n  मैं don't!".encode()
    generator = np.random.default_rng(3)
    strings = [text[: generator.integers(0, len(text))] * int(generator.integers(0, 40)) for _ in range(600)]
    texts = make_texts_from_strings([*strings, b"", b"", b"x" * 300_000, b""])
    model = published_tokenizer("cl100k").spec.model
    with kernel.force("portable"):
        expected = encoder_of(model, pattern="cl100k").encode(texts)
    for name in NATIVE:
        with kernel.force(name):
            encoder = encoder_of(model, pattern="cl100k")
        for threads in (1, 1, 2, 2, 8):
            for found, wanted in zip(encoder.encode(texts, threads), expected, strict=True):
                np.testing.assert_array_equal(found, wanted, err_msg=f"{name}, {threads} threads")


@pytest.mark.parametrize("threads", [1, 3])
def test_texts_with_far_more_ids_than_those_before(threads):
    """Room is reserved by what earlier texts needed; where that is too little, ids are joined at the end."""
    model = published_tokenizer("cl100k").spec.model
    few = make_texts_from_strings([b" information" * 1000] * 40)
    many = make_texts_from_strings([bytes(range(128, 256)) * 20] * 400)
    encoder = encoder_of(model, pattern="cl100k")
    for texts in (few, many, few):
        expected = encoder_of(model, pattern="cl100k").encode(texts)
        for found, wanted in zip(encoder.encode(texts, threads), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


# Strings as Python keeps them: ASCII, and characters of one, two and four bytes; with the sizes from which the encoder
# takes a new buffer, or reads strings in place.
STRINGS = ["", "a", "don't", "Straße über", "犬、それ।  123", "👍🏽 ok", "é", "߿ࠀ", "\uffff", "\U00010000"]
LONG_STRINGS = [text * (size // len(text) + 1) for text in STRINGS[1:] for size in (15, 16, 17, 1000, 16_000, 70_000)]


@pytest.mark.parametrize("name", NATIVE)
def test_strings_encode_as_their_utf8_does(name):
    generator = np.random.default_rng(4)
    strings = [*STRINGS, *LONG_STRINGS, *("x" * size for size in (2**16 - 1, 2**16, 2**16 + 1)), "犬" * 400_000]
    with kernel.force(name):
        encoder = encoder_of(published_tokenizer("cl100k").spec.model, pattern="cl100k")
    for threads in (1, 1, 3, 3):
        mixed = [strings[i] if i % 3 else strings[i].encode() for i in generator.permutation(len(strings))]
        expected = encoder.encode(make_texts_from_strings(mixed))
        for found, wanted in zip(encoder.encode_strings(mixed, threads), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.binary(), max_size=8))
def test_any_strings_encode_as_their_utf8_does(strings):
    encoder = _cl100k_encoder()
    for found, wanted in zip(
        encoder.encode_strings(strings), encoder.encode(make_texts_from_strings(strings)), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("other", ["é", "”", "犬", "👍"])
def test_a_character_beyond_ascii_at_every_place(other):
    strings = [f"{'a' * place}{other}{'b' * (size - place)}" for size in (15, 16, 33) for place in range(size + 1)]
    strings += [text + other for text in strings]
    encoded = _cl100k_encoder().encode_strings(strings)
    for found, wanted in zip(encoded, _cl100k_encoder().encode(make_texts_from_strings(strings)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@functools.cache
def _cl100k_encoder():
    return encoder_of(published_tokenizer("cl100k").spec.model, pattern="cl100k")


@pytest.mark.parametrize(
    "bad", ["a\ud800b", "\udfff" * 40, "犬" * 100 + "\udc00", "👍\ud83d", f"{'a' * 20}\ud800{'b' * 20}"]
)
def test_a_string_with_a_surrogate_is_no_text(bad):
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        _cl100k_encoder().encode_strings(["good", bad, "good"])
    assert _cl100k_encoder().encode_strings(["good"])[0].tolist() == [19045]


def test_what_is_no_string_is_named_with_its_place():
    encoder = _cl100k_encoder()
    for bad, name in ((5, "int"), (None, "NoneType"), (["a"], "list")):
        with pytest.raises(TypeError, match=rf"texts\[1\]: expected str or bytes, found {name}"):
            encoder.encode_strings(["a", bad])
    same = [encoder.encode_strings([form(b"good")])[0].tolist() for form in (bytes, bytearray, memoryview)]
    assert same == [[19045]] * 3


def test_texts_are_a_window_of_their_data():
    """Bytes before the first offset and after the last one are not part of any text."""
    model = published_tokenizer("cl100k").spec.model
    encoder = encoder_of(model, pattern="cl100k")
    data = np.frombuffer(b"hello world, hello world", np.uint8)
    ids, offsets, pretokens = encoder.encode(Texts(data, np.array([6, 11, 11, 12], np.int64)))
    alone = encoder.encode(make_texts_from_strings([b"world", b"", b","]))
    assert (ids.tolist(), offsets.tolist(), pretokens.tolist()) == tuple(array.tolist() for array in alone)


def test_no_texts():
    encoder = encoder_of(LearnedModel(np.zeros((0, 2), np.int32)), pattern="gpt2")
    for strings in ([], [b""], [b"", b""]):
        ids, offsets, pretokens = encoder.encode(make_texts_from_strings(strings), 2)
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
    texts = make_texts_from_strings([b"abcd"])
    with pytest.raises(ValueError, match="pieces"):
        encoder.encode_pieces(texts, np.array(ends, np.int64), np.array(firsts, np.int64))
    # A worker that met an error starts afresh.
    assert encoder.encode_pieces(texts, np.array([4]), np.array([0, 1]))[0].tolist() == [64, 65, 66, 67]


def test_arguments_are_checked():
    model = LearnedModel(np.zeros((0, 2), np.int32))
    texts = make_texts_from_strings([b"abcd"])
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
        kernel.BpeEncoder(
            None,
            make_texts_from_strings(tokens),
            np.array(range(len(tokens)) if ids is None else ids, np.int32),
            *(np.ascontiguousarray(column.astype(np.int32)) for column in columns[:3]),
            np.ascontiguousarray(columns[3].astype(np.uint32)),
            False,
            0,
        )
