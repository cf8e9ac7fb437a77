"""Decoding in the kernel: the same as a dictionary, whatever ids, lengths and ends; and from all kinds of input."""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import published_tokenizer

from tokcore import kernel
from tokcore.errors import IdentityError
from tokcore.kernel import TokenTable
from tokcore.reference.reference_decoding import TokenTable as Reference
from tokcore.text.texts import make_texts_from_strings

TOKENIZER = published_tokenizer("r50k")

lengths = st.one_of(st.integers(0, 4), st.sampled_from([15, 16, 17, 40]))
tokens = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 9), st.integers(0, 2**31 - 1)),
        st.binary(min_size=1, max_size=1).flatmap(lambda one: lengths.map(lambda num: one * num)),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=12,
)


def make(found: list[tuple[int, bytes, int]], drops_all: bool) -> tuple[TokenTable, Reference]:
    """Both tables. As in models, a silent token has no bytes, and what is marked or ends a text has some."""
    found = [(id, b"" if flags & 2 else text, flags if text or flags & 2 else 0) for id, text, flags in found]
    found = [(id, text, 2 if flags & 2 else flags) for id, text, flags in found]
    ids, texts = np.array([id for id, *_ in found], np.int32), make_texts_from_strings([text for _, text, _ in found])
    flags = np.array([flags for *_, flags in found], np.uint8)
    return TokenTable(ids, texts, flags, drops_all), Reference(ids, *texts, flags, drops_all)


def said(call):
    """What it gives, or the place of what is no token."""
    try:
        return call()
    except IndexError as error:
        return f"no token at {error}"


@given(tokens, st.data(), st.booleans(), st.booleans())
def test_it_gives_what_a_dictionary_gives(found, data, drops_all, is_whole):
    table, slow = make(found, drops_all)
    known = st.sampled_from([id for id, *_ in found])
    rows = data.draw(st.lists(st.lists(st.one_of(known, known, known, st.integers(0, 12)), max_size=30), max_size=4))
    ids = np.array([id for row in rows for id in row], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    assert said(lambda: table.decode(ids, is_whole)) == said(lambda: slow.decode(ids, is_whole, None))
    assert said(lambda: table.decode_list(ids.tolist(), is_whole, None)) == said(
        lambda: slow.decode(ids, is_whole, None)
    )
    assert said(lambda: table.spell_all(ids, is_whole)) == said(lambda: slow.spell_all(ids, is_whole))
    for errors in (None, "replace"):
        assert said(lambda how=errors: table.list_rows(ids, offsets, how)) == said(
            lambda how=errors: slow.list_rows(ids, offsets, how)
        )
        listed = table.list_lists(rows, errors)
        assert listed == slow.list_lists(rows, errors)
    both = [said(lambda one=one: [part.tolist() for part in one.decode_rows(ids, offsets)]) for one in (table, slow)]
    assert both[0] == both[1]
    assert table.end() == slow.end()


def test_tokens_of_all_lengths():
    """Those of at most sixteen bytes are copied in one step."""
    texts = [bytes(range(length, 2 * length)) for length in range(1, 70)]
    table = TokenTable(np.arange(69, dtype=np.int32), make_texts_from_strings(texts), np.zeros(69, np.uint8))
    for order in (range(69), range(68, -1, -1)):
        assert table.decode(np.array(order, np.int32), True) == b"".join(texts[i] for i in order)


def test_memory():
    """12 bytes an id at most of a published vocabulary; few ids that are far between take no more."""
    table = TOKENIZER.spec.model.decoder({}).table
    assert table.size_bytes() <= 12 * table.end()
    few = TokenTable(np.array([0, 2**31 - 1], np.int32), make_texts_from_strings(["a", "b"]), np.zeros(2, np.uint8))
    assert few.size_bytes() < 1000
    assert few.decode(np.array([2**31 - 1, 0], np.int32), True) == b"ba"


@given(st.lists(st.text(max_size=30), max_size=5))
def test_all_kinds_of_input_and_output(texts):
    batch = TOKENIZER.encode_batch(texts)
    lists = batch.to_pylist()
    data = [text.encode() for text in texts]
    width = max(map(len, lists), default=0)
    for rows in (
        *(batch, pa.chunked_array([batch, batch.slice(0, 0)]), batch.cast(pa.large_list(pa.uint32()))),
        *(lists, [np.array(row, np.uint16) for row in lists], [pa.array(row, pa.int64()) for row in lists]),
        [[np.int64(id) for id in row] for row in lists],
    ):
        assert TOKENIZER.decode_batch(rows) == data
        assert TOKENIZER.decode_batch(rows, "strict") == texts
        assert TOKENIZER.decode_to_arrow(rows).to_pylist() == data
        assert TOKENIZER.decode_to_arrow(rows, "strict").to_pylist() == texts
    for row, text in zip(lists, texts, strict=True):
        for ids in (row, tuple(row), iter(row), np.array(row, np.int64), np.array(row * 2, np.int32)[: len(row)]):
            assert TOKENIZER.decode(ids, "strict") == text
    square = np.array([row + row[:1] * (width - len(row)) for row in lists if row], np.int64).reshape(-1, max(1, width))
    assert TOKENIZER.decode_batch(square) == [TOKENIZER.decode(row) for row in square.tolist()]
    decoded = TOKENIZER.decode_texts(batch.values.to_numpy(), batch.offsets.to_numpy().astype(np.int64))
    assert [decoded.text(i) for i in range(decoded.num_texts)] == data


def test_a_slice_of_a_batch():
    batch = TOKENIZER.encode_batch(["one", "two", "three"]).slice(1)
    assert TOKENIZER.decode_batch(batch, "strict") == ["two", "three"]
    assert TOKENIZER.decode_to_arrow(batch, "strict").to_pylist() == ["two", "three"]


@pytest.mark.parametrize("wrong", [-1, 60_000, 2**31, 2**40, 2**70])
def test_an_id_that_is_no_token(wrong):
    kinds = [[1, wrong], (1, wrong)]
    if -(2**63) <= wrong < 2**63:
        kinds += [np.array([1, wrong], np.int64), pa.array([1, wrong], pa.int64())]
    for ids in kinds:
        with pytest.raises(IdentityError, match=rf"^ids\[1\] = {wrong} is no token"):
            TOKENIZER.decode(ids)
        for decode in (TOKENIZER.decode_batch, TOKENIZER.decode_to_arrow):
            with pytest.raises(IdentityError, match=rf"^batch\[2\]: ids\[1\] = {wrong} is no token"):
                decode([[1], [], ids])
    if -(2**63) <= wrong < 2**63:
        for decode in (TOKENIZER.decode_batch, TOKENIZER.decode_to_arrow):
            with pytest.raises(IdentityError, match=rf"^batch\[2\]: ids\[1\] = {wrong} is no token"):
                decode(pa.array([[1], [], [1, wrong]], pa.list_(pa.int64())))
            with pytest.raises(IdentityError, match=rf"^batch\[2\]: ids\[0\] = {wrong} is no token"):
                decode(pa.array([[1], [], [wrong]], pa.list_(pa.int64())))


def test_bytes_that_are_not_utf8():
    ids = TOKENIZER.encode("ß").tolist()[:1] if len(TOKENIZER.encode("ß")) > 1 else TOKENIZER.encode(b"\xc3").tolist()
    for rows in ([ids], pa.array([ids], pa.list_(pa.int32()))):
        for errors in ("replace", "ignore", "backslashreplace"):
            text = TOKENIZER.decode(ids).decode(errors=errors)
            assert TOKENIZER.decode_batch(rows, errors) == [text]
            assert TOKENIZER.decode_to_arrow(rows, errors).to_pylist() == [text]
        for decode in (TOKENIZER.decode_batch, TOKENIZER.decode_to_arrow):
            with pytest.raises(UnicodeDecodeError):
                decode(rows, "strict")


def test_a_handler_of_errors_may_decode_itself():
    text = "other " * 500
    ids = TOKENIZER.encode(b"\xc3 and more").tolist()
    others = TOKENIZER.encode(text).tolist()
    codecs.register_error("decodes", lambda error: (TOKENIZER.decode(others, "strict")[:5], error.end))
    assert TOKENIZER.decode(ids, "decodes") == "other and more"
    assert TOKENIZER.decode_batch([ids, ids], "decodes") == ["other and more"] * 2


def test_both_implementations_refuse_what_does_not_fit():
    texts, flags = make_texts_from_strings(["a"]), np.zeros(1, np.uint8)
    for name in kernel.list_available():
        with kernel.force(name), pytest.raises(ValueError, match="one is negative"):
            TokenTable(np.array([-1], np.int32), texts, flags)
