"""Chunks: within their budget, cut where text ends something, and joined they are the document."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import texts
from support.vocabularies import published_tokenizer

from tokcore.errors import ConfigError, FormatError
from tokcore.models.bpe import LearnedModel
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.chunks import Chunker, join_chunks
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import make_learned_spec

# It has no merges, so every byte is a token. Most words then need more tokens than a small budget has.
BYTES = Tokenizer(make_learned_spec(LearnedModel(np.zeros((0, 2), np.int32)), {"name": "gpt2"}, (), ()))
TEXTS = st.lists(
    st.sampled_from(
        ["a", "word", " ", "  ", ". ", "! ", "\n", "\n\n", "。", "語", "नमस्ते", "👩‍👩‍👧", "12345", "é", "'s", "x" * 40]
    ),
    max_size=60,
).map("".join)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(8, 60), st.data())
@pytest.mark.parametrize("name", ["bytes", "cl100k"])
def test_chunks_keep_their_budget_and_give_the_document(name, documents, most, data):
    tokenizer = BYTES if name == "bytes" else published_tokenizer(name)
    overlap = data.draw(st.integers(0, most // 2))
    found = Chunker(tokenizer, most, overlap).cut([document.encode() for document in documents])
    for document, chunks in zip(documents, found, strict=True):
        whole = document.encode()
        assert join_chunks(chunks) == whole
        bounds = np.cumsum([0, *(len(tokenizer.token_bytes(id)) for id in tokenizer.encode(whole).tolist())])
        ends = {0, *Pretokenizer.from_spec(tokenizer.spec.pattern).split(make_texts_from_strings([whole]))[0].tolist()}
        for i, chunk in enumerate(chunks):
            assert chunk.text == whole[chunk.start : chunk.end]
            assert chunk.text.decode()  # never inside of a character
            assert chunk.num_tokens == len(tokenizer.encode(chunk.text)) <= most
            inside = [at for at in bounds[:-1].tolist() if chunk.start <= at < chunk.end]
            assert (chunk.first_token, chunk.last_token) == (
                np.searchsorted(bounds, chunk.start),
                chunk.first_token + len(inside),
            )
            assert len(inside) <= most
            if i:
                before = chunks[i - 1]
                assert before.start < chunk.start <= before.end < chunk.end
                assert before.last_token - chunk.first_token <= overlap
            if chunk.end not in ends:  # within a pre-token: only one that does not fit
                around = min(end for end in ends if end > chunk.end) - max(end for end in ends if end <= chunk.end)
                assert around > 0
                assert (
                    len(
                        tokenizer.encode(
                            whole[
                                max(end for end in ends if end <= chunk.end) : min(
                                    end for end in ends if end > chunk.end
                                )
                            ]
                        )
                    )
                    > most // 2
                )


def test_ends_of_paragraphs_lines_and_sentences_are_preferred():
    chunker = Chunker(BYTES, 40, 0)
    for between, at in (("\n\n", 34), ("\n", 33), (". ", 33), (" ", 36)):
        text = "a" * 32 + between + "bbb ccccccccccccc ddddddddd"
        assert chunker.cut([text.encode()])[0][0].end == at, between
    text = ("a" * 31 + ". b\nc. " + "d" * 80).encode()
    assert chunker.cut([text])[0][0].text.endswith(b"b\n")
    text = ("a" * 29 + ".\n\nbbb\n" + "d" * 80).encode()
    assert chunker.cut([text])[0][0].text.endswith(b".\n\n")
    assert chunker.cut(["あ。い".encode() * 9])[0][0].text.decode().endswith("。")
    assert chunker.cut([b"x" * 31 + b" 3.14159 and"])[0][0].text == b"x" * 31 + b" 3.14159"


def test_an_overlap_begins_where_a_sentence_does():
    text = b"One two three four. Five six seven. Eight nine ten eleven twelve. Thirteen."
    first, second = Chunker(BYTES, 40, 20).cut([text])[0][:2]
    assert first.text == b"One two three four. Five six seven."
    assert second.text.startswith(b" Five six seven.")


def test_empty_documents_have_no_chunks_and_short_ones_one():
    assert [len(chunks) for chunks in Chunker(BYTES).cut([b"", b"short"])] == [0, 1]


def test_a_word_longer_than_the_budget_is_cut_between_characters():
    chunks = Chunker(BYTES, 8, 4).cut(["語".encode() * 20])[0]
    assert [chunk.text.decode() for chunk in chunks] == ["語語"] * 10


@pytest.mark.parametrize(
    ("tokens", "overlap", "why"),
    [(7, 0, "tokens = 7: expected at least 8"), (64, 33, "overlap = 33: expected 0 to 32"), (64, -1, "overlap")],
)
def test_numbers_that_do_not_fit_are_refused(tokens, overlap, why):
    with pytest.raises(ConfigError, match=why):
        Chunker(BYTES, tokens, overlap)


def test_what_has_no_places_in_the_text_is_refused():
    lower = make_learned_spec(LearnedModel(np.zeros((0, 2), np.int32)), {"name": "gpt2"}, ("lowercase",), ())
    with pytest.raises(ConfigError, match="normalizes text"):
        Chunker(Tokenizer(lower))
    with pytest.raises(FormatError, match="document 1: byte 1 is not UTF-8"):
        Chunker(BYTES).cut([b"a", b"a\xff"])


def test_real_text_is_cut_at_sentences_mostly():
    document = ". ".join(text.replace("\n", " ") for text in texts("en", 20)).encode()
    chunks = Chunker(published_tokenizer("cl100k"), 100, 10).cut([document])[0]
    assert sum(chunk.text.rstrip().endswith(b".") for chunk in chunks) > len(chunks) * 0.7


def test_a_chunk_whose_text_has_more_tokens_by_itself_is_shorter():
    """Patterns look ahead: letters before # are one pre-token here, of three tokens, and others are twelve."""
    model = LearnedModel.from_merges([(b"a", b"a"), (b"aa", b"aa")])
    tokenizer = Tokenizer(make_learned_spec(model, {"regex": r"a+(?=#)|[^a]|a"}, (), ()))
    document = b"aaaaaaaaaaaa#" * 3
    assert len(tokenizer.encode(document[:-1])) == 20
    for most, overlap in ((11, 0), (11, 3), (8, 4)):
        chunks = Chunker(tokenizer, most, overlap).cut([document])[0]
        assert join_chunks(chunks) == document
        for chunk in chunks:
            assert chunk.num_tokens == len(tokenizer.encode(chunk.text)) <= most
