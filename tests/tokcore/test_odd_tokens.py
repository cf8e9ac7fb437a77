"""What an audit finds in a vocabulary alone: unreachable tokens by the definition, partial and invisible characters."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import models, published_tokenizer

from tokcore.look.odd_tokens import (
    CHARACTER_KINDS,
    count_kinds_of_characters,
    find_invisible_characters,
    find_partial_characters,
    find_unreachable_tokens,
    spell_token,
)
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.reference import reference
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec


def tokenizer_of(model: LearnedModel | MergesModel | RanksModel) -> Tokenizer:
    return Tokenizer(TokenizerSpec((), {"name": "gpt2"}, model))


@examples(60)
@given(models())
def test_unreachable_tokens_are_those_that_the_reference_does_not_reach(model) -> None:
    table = model.merge_table
    merges = (table.left, table.right, table.result, table.priority)
    encoder = reference.BpeEncoder("", *make_texts_from_strings(model.tokens), model.ids, *merges, model.whole)
    expected = []
    for id, token in zip(model.ids.tolist(), model.tokens, strict=True):
        becomes = encoder.encode_piece(token)
        if becomes != [id]:
            expected.append((id, tuple(becomes)))
    assert [tuple(one) for one in find_unreachable_tokens(tokenizer_of(model))] == sorted(expected)
    if isinstance(model, LearnedModel):
        assert expected == []


def test_a_token_without_a_merge_is_unreachable() -> None:
    tokens = (*(bytes([byte]) for byte in range(256)), b"ab", b"xyz")
    model = MergesModel(tokens, np.arange(258, dtype=np.int32), np.array([(97, 98)], np.int32), False)
    assert [tuple(one) for one in find_unreachable_tokens(tokenizer_of(model))] == [(257, (120, 121, 122))]


def test_published_vocabularies() -> None:
    """All tokens of cl100k are reached; as is known, hundreds of them hold parts of characters."""
    tokenizer = published_tokenizer("cl100k")
    assert find_unreachable_tokens(tokenizer) == []
    partial = find_partial_characters(tokenizer)
    assert tokenizer.special_id("<|endoftext|>") not in partial
    assert len(partial) > 700
    for id in partial:
        with pytest.raises(UnicodeDecodeError):
            tokenizer.token_bytes(id).decode()
    kinds = count_kinds_of_characters(tokenizer)
    for id in kinds:
        text = tokenizer.token_bytes(id).decode("utf-8", "ignore")
        assert not text.isprintable() or "\ufe0f" in text  # a variation selector counts as printable
    # Byte order mark; zero-width space; left-to-right mark.
    for character, kind in (("\ufeff", "zero_width"), ("\u200b", "zero_width"), ("\u200e", "bidi_control")):
        (id,) = tokenizer.encode(character).tolist()
        assert kinds[id] == {kind: 1}


@pytest.mark.parametrize(
    ("kind", "characters"),
    {
        "c0_control": "\x00\x08\x0b\x1b\x7f",
        "c1_control": "\x80\x85\x9f",
        "bidi_control": "\u061c\u200e\u200f\u202a\u202e\u2066\u2069",
        "zero_width": "\u200b\u200c\u200d\u2060\ufeff",
        "tag": "\U000e0001\U000e0041\U000e007f",
        "variation_selector": "\ufe00\ufe0f\U000e0100\U000e01ef",
        "noncharacter": "\ufdd0\ufdef\uffff\U0001fffe\U0010ffff",
        "private_use": "\ue000\uf8ff\U000f0000\U0010fffd",
        "unassigned": "\u0378\U000e0fff",
        "other_format": "\u00ad\u2061\ufff9",
    }.items(),
)
def test_kinds_of_characters(kind: str, characters: str) -> None:
    found = find_invisible_characters(make_texts_from_strings(["a" + "b".join(characters) + "é"]))
    assert [CHARACTER_KINDS[number] for number in found.kinds] == [kind] * len(characters)
    assert found.characters.tolist() == list(map(ord, characters))


def test_ordinary_characters_are_of_no_kind() -> None:
    """Whatever the interpreter's tables call a letter, number, mark, punctuation, symbol or separator."""
    ordinary = "\t\n\r" + "".join(c for c in map(chr, range(0xFFFE)) if unicodedata.category(c)[0] in "LNPSZ")
    assert len(find_invisible_characters(make_texts_from_strings([ordinary])).texts) == 0


@given(
    st.lists(
        st.lists(
            st.sampled_from([b"a", "é".encode(), "\u200b".encode(), b"\xe2", b"\x80", b"\x8b", b"\0"]), max_size=5
        ).map(b"".join),
        max_size=6,
    )
)
def test_each_text_is_looked_at_for_itself(texts: list[bytes]) -> None:
    """The end of one text and the start of the next make no character together; undecodable bytes make none."""
    expected = [
        (number, ord(character))
        for number, text in enumerate(texts)
        for character in text.decode("utf-8", "replace")
        if character in "\0\u200b"
    ]
    batch = make_texts_from_strings([b"\0behind the first offset", *texts])
    found = find_invisible_characters(batch._replace(offsets=batch.offsets[1:]))
    assert list(zip(found.texts.tolist(), found.characters.tolist(), strict=True)) == expected


def test_shown_tokens_hide_nothing() -> None:
    assert spell_token(b' a"\xff') == '" a\\"\\xff"'
    assert spell_token("\ufe0f\U000e0100\u00ad".encode()) == '"\\ufe0f\\U000e0100\\xad"'
    assert spell_token("\u202e\n日".encode()) == '"\\u202e\\n日"'
