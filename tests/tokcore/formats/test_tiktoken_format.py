"""tiktoken's rank file: read, written, refused. That it gives the same ids is tested in tests/conformance."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import (
    encoder_of,
    learned_models,
    merges_models,
    pieces_for,
    published_encoding,
    published_tokenizer,
    rank_file_bytes,
    ranks_models,
    spec_of_merges,
)
from tiktoken_ext import openai_public

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.tiktoken import _PUBLISHED, add_special, find_published, read_rank_file, write_rank_file
from tokcore.models.bpe import MergesModel, RanksModel
from tokcore.text.patterns import PATTERNS, find_named_pattern
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

Merge = namedtuple("Merge", "left right count")
GPT2 = {"name": "gpt2"}


def ids_of(model, pieces):
    texts = make_texts_from_strings([piece for piece in pieces if piece])
    ends = texts.offsets[1:]
    return encoder_of(model, cache_bytes=0).encode_pieces(texts, ends, np.arange(len(ends) + 1))[0].tolist()


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_published_files_survive(name):
    assert write_rank_file(published_tokenizer(name).spec) == rank_file_bytes(name)


def test_golden_line():
    spec = spec_of_merges([Merge(b"t", b"h", 2), Merge(b"th", b"e", 2), Merge(b" ", b"the", 1)], GPT2, [], [])
    lines = write_rank_file(spec).splitlines()
    assert len(lines) == 259
    assert lines[0] == b"IQ== 0"
    assert lines[-1] == b"IHRoZQ== 258"


@given(st.data())
@examples(150)
def test_ranks_of_a_learned_vocabulary_give_its_ids(data):
    model = data.draw(learned_models())
    again = read_rank_file(write_rank_file(TokenizerSpec((), GPT2, model)), "x", GPT2)
    pieces = data.draw(pieces_for(model))
    assert ids_of(again.model, pieces) == ids_of(model, pieces)


@given(st.data())
@examples(150)
def test_ranks_of_any_merges_give_their_ids_or_are_refused(data):
    model = data.draw(merges_models())
    try:
        written = write_rank_file(TokenizerSpec((), GPT2, model))
    except FormatError:
        return
    pieces = data.draw(pieces_for(model))
    assert ids_of(read_rank_file(written, "x", GPT2).model.as_bpe(), pieces) == ids_of(model, pieces)


@given(learned_models())
@examples(50)
def test_an_own_export_has_the_same_fingerprint(model):
    spec = TokenizerSpec((), GPT2, model)
    assert read_rank_file(write_rank_file(spec), "x", GPT2).fingerprint == spec.fingerprint


@given(st.data())
@examples(150)
def test_merges_of_any_ranks_give_their_ids_or_are_refused(data):
    model = data.draw(ranks_models())
    try:
        merges = model.merge_pairs()
    except FormatError:
        return
    pieces = data.draw(pieces_for(model))
    assert ids_of(MergesModel(model.tokens, model.ids, merges, True), pieces) == ids_of(model, pieces)


def test_a_token_that_ranks_do_not_lead_to():
    """abcd is no union of two tokens: in tiktoken it exists only as a whole pre-token, and merges cannot say so."""
    tokens = (*(bytes([byte]) for byte in range(256)), b"ab", b"abcd")
    model = RanksModel(tokens, np.arange(258, dtype=np.int32))
    with pytest.raises(FormatError, match=r"token 257, b'abcd'"):
        model.merge_pairs()
    assert ids_of(model, [b"abcd", b"abcdx"]) == [257, 256, 99, 100, 120]


def test_ids_that_are_no_ranks_are_refused():
    spec = spec_of_merges([Merge(b"a", b"b", 2), Merge(b"b", b"c", 2)], GPT2, [], [])
    model = spec.model
    swapped = MergesModel(model.tokens, model.ids, model.merges[::-1].copy(), False)
    with pytest.raises(FormatError, match="breaks the order of merges"):
        write_rank_file(TokenizerSpec((), GPT2, swapped))


@pytest.mark.parametrize("name", ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"])
def test_published_files_are_known_as_tiktoken_knows_them(name, monkeypatch):
    hashes = []

    def load(url, expected_hash):
        hashes.append(expected_hash)
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", load)
    theirs = getattr(openai_public, name)()
    ours = _PUBLISHED[hashes[0]]
    assert (ours.name, dict(ours.special)) == (name, theirs["special_tokens"])
    assert find_named_pattern(theirs["pat_str"]) == ours.pattern


def test_a_published_file_brings_its_special_tokens(tmp_path):
    (tmp_path / "any.name").write_bytes(rank_file_bytes("cl100k"))
    ours, theirs = Tokenizer.load(tmp_path / "any.name"), published_encoding("cl100k")
    assert ours.specials["<|endoftext|>"] == ours.eos_id == theirs.eot_token
    assert ours.vocab_size == 100277, "ids between the special tokens are unused"
    assert ours.pattern_text == PATTERNS["cl100k"]
    declared = [SpecialToken("<|endoftext|>", None, "document_end"), SpecialToken("<|x|>", None)]
    spec = add_special(ours.spec, find_published(rank_file_bytes("cl100k")), [*declared, SpecialToken("<|y|>", 100259)])
    found = {token.text: (token.id, token.role) for token in spec.special}
    assert found["<|endoftext|>"] == (100257, "document_end")
    assert found["<|x|>"] == (100277, "plain"), "after all others"
    assert found["<|y|>"] == (100259, "plain"), "an id that is declared"
    assert "<|fim_middle|>" not in found


def test_another_rank_file_needs_a_pattern(tmp_path):
    (tmp_path / "ranks").write_bytes(b"IQ== 0\nIg== 1\n")
    with pytest.raises(FormatError, match=r"does not say how text is split.*its split pattern must be given"):
        Tokenizer.load(tmp_path / "ranks")


def test_a_normalizer_is_refused():
    with pytest.raises(FormatError, match="normalizer nfc"):
        write_rank_file(spec_of_merges([], GPT2, ["nfc"], []))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no token for the byte 0x00"),
        (b"IQ== 0\nIQ==\n", "line 2"),
        (b"IQ== 0\n!!!! 1\n", "line 2"),
        (b"IQ== 0\n\nIQ== x\n", "line 3"),
        (b"IQ== 0 0\n", "line 1"),
        (b"IQ== 0\nIQ== 1\n", "line 2"),
        (b"IQ== 0\nIg== 0\n", "given twice"),
        (b"IQ== -1\n", "line 1"),
        (b"IQ== 2147483648\n", "line 1"),
        (b"\xff\xfe", "line 1"),
    ],
)
def test_what_is_wrong_is_named(data, expected):
    with pytest.raises(FormatError, match=expected) as raised:
        read_rank_file(data, "/some/file.tiktoken", GPT2)
    assert str(raised.value).startswith("/some/file.tiktoken: ")
