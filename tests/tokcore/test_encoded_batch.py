"""Batches of ids: cut, padded, with special tokens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import IdentityError
from tokcore.tokenizer.encoded_batch import compute_starts, cut, pad
from tokcore.tokenizer.tokenizer import Tokenizer

TOKENIZER = Tokenizer.from_merges(
    [(b"a", b"b"), (b"ab", b"ab")], pattern="cl100k", special={"<|end|>": "document_end", "<pad>": "padding"}
)
END, PAD = TOKENIZER.eos_id, TOKENIZER.pad_id

rows = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=6)


def buffers(rows):
    ids = np.array([id for row in rows for id in row], np.int32)
    return ids, compute_starts(np.array([len(row) for row in rows], np.int64))


@given(rows, st.integers(0, 8))
def test_cut(rows, max_tokens):
    ids, offsets = cut(*buffers(rows), max_tokens)
    expected = [row[:max_tokens] for row in rows]
    assert (ids.tolist(), offsets.tolist()) == tuple(part.tolist() for part in buffers(expected))
    assert ids.dtype == np.int32


@given(rows, st.sampled_from(["left", "right"]))
def test_pad(rows, side):
    ids, mask = pad(*buffers(rows), side, -1)
    width = max(map(len, rows), default=0)
    assert ids.shape == mask.shape == (len(rows), width)
    assert (ids.dtype, mask.dtype) == (np.int32, bool)
    fill = [[-1] * (width - len(row)) for row in rows]
    pairs = zip(fill, rows, strict=True) if side == "left" else zip(rows, fill, strict=True)
    assert ids.tolist() == [[*first, *second] for first, second in pairs]
    assert mask.tolist() == (ids >= 0).tolist()
    assert ids.flags.writeable


@pytest.mark.parametrize("form", [list, pa.array])
@pytest.mark.parametrize("threads", [1, 2])
def test_batches_with_special_tokens_and_padding(form, threads):
    texts = form(["abab<|end|>", "", "ab<pad>b"])
    with_end = TOKENIZER.encode_batch(texts, threads, allow_special=["<|end|>"]).to_pylist()
    assert with_end[:2] == [[257, END], []]
    assert with_end[2] == TOKENIZER.encode("ab<pad>b").tolist()
    assert TOKENIZER.encode_batch(texts, threads, allow_special="all").to_pylist()[2] == [256, PAD, 65]
    batch = TOKENIZER.encode_batch(texts, threads, allow_special="all", max_tokens=2, padding="left")
    assert batch.ids.tolist() == [[257, END], [PAD, PAD], [256, PAD]]
    assert batch.mask.tolist() == [[True, True], [False, False], [True, True]]
    right = TOKENIZER.encode_batch(texts, threads, padding="right")
    assert TOKENIZER.encode_batch(texts, threads, padding=True).ids.tolist() == right.ids.tolist() != batch.ids.tolist()
    assert TOKENIZER.encode_batch(texts, threads, padding=False) == TOKENIZER.encode_batch(texts, threads)
    assert TOKENIZER.encode_batch(texts, threads, padding="right", pad_id=-100).ids[1].tolist() == [-100] * 8
    assert TOKENIZER.encode_batch(texts, threads, max_tokens=1).to_pylist()[:2] == [[257], []]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"padding": "both"}, ValueError, "padding = 'both': expected 'left' or 'right'"),
        ({"max_tokens": -1}, ValueError, "max_tokens = -1"),
        ({"pad_id": 3}, ValueError, "no effect without padding"),
        ({"allow_special": "<pad>"}, TypeError, "allow_special"),
        ({"allow_special": ["<x>"]}, IdentityError, "'<x>' is not a special token"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        TOKENIZER.encode_batch(["ab"], **options)


def test_padding_needs_a_token():
    with pytest.raises(IdentityError, match="no special token of role padding: name one with pad_id"):
        Tokenizer.from_merges([], pattern="gpt2").encode_batch(["ab"], padding="right")
