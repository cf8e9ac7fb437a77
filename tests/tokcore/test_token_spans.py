"""Where tokens are in their text: the same as other libraries say, and slices of the text."""

from __future__ import annotations

import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import published_encoding, published_tokenizer

import tokcore
from tokcore.formats.tokenizers.huggingface import write_tokenizer_json
from tokcore.tokenizer.token_spans import find_token_spans

TOKENIZER = published_tokenizer("r50k")
TEXTS = ["", "low lower", "Straße – naïve", "中文 🙂 x", "e\u0301 \u200d👩‍👩‍👧", "a\r\n\tb", "\0"]


@given(st.one_of(st.sampled_from(TEXTS), st.text(max_size=20)))
def test_spans_of_characters_are_those_of_tiktoken(text):
    ids = TOKENIZER.encode(text).tolist()
    theirs, starts = published_encoding("r50k").decode_with_offsets(ids)
    assert theirs == text
    assert TOKENIZER.offsets(ids).characters[:, 0].tolist() == starts


def test_spans_of_characters_are_those_of_hugging_face():
    merges = tokcore.learn_bpe(tokcore.count_pretokens(TEXTS * 3), 290, allow_smaller=True)
    ours = tokcore.Tokenizer.from_merges(merges, pattern="cl100k", special=["<|end|>"])
    theirs = tokenizers.Tokenizer.from_str(write_tokenizer_json(ours.spec).decode())
    for text in (*TEXTS, "low<|end|>é"):
        ids = ours.encode(text, allow_special="all")
        encoding = theirs.encode(text)
        assert encoding.ids == ids.tolist()
        assert ours.offsets(ids).characters.tolist() == [list(span) for span in encoding.offsets]


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=5), st.text(min_size=1, max_size=2).map(str.encode))))
def test_any_bytes(tokens):
    """By definition: a character ends where cutting the text in two leaves what both parts decode to unchanged."""
    data, character_of_byte = b"".join(tokens), []
    text = data.decode(errors="replace")
    for number in range(len(text)):
        halves = text[: number + 1], text[number + 1 :]
        ends = range(len(character_of_byte) + 1, len(data) + 1)
        end = next(end for end in ends if (_replaced(data[:end]), _replaced(data[end:])) == halves)
        character_of_byte += [number] * (end - len(character_of_byte))
    spans = find_token_spans(tokens)
    at = 0
    for token, own, characters in zip(tokens, spans.bytes.tolist(), spans.characters.tolist(), strict=True):
        assert own == [at, at + len(token)]
        at += len(token)
        assert characters == [character_of_byte[own[0]], character_of_byte[own[1] - 1] + 1]
    assert spans.bytes.shape == spans.characters.shape == (len(tokens), 2)


def _replaced(data):
    return data.decode(errors="replace")


def test_spans_of_a_normalized_text():
    ours = tokcore.Tokenizer.from_merges([(b"a", b"b")], pattern="gpt2", normalizer=["nfd"])
    text = ours.decode(ours.encode("éab"), errors="strict")
    spans = ours.offsets(ours.encode("éab")).characters
    assert [text[start:end] for start, end in spans.tolist()] == ["e", "\u0301", "\u0301", "ab"]
