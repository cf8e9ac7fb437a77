"""Explained tokens: the replayed merges give the kernel's ids, and every step is one of the tokenizer's merges."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import published_tokenizer

from tokcore.count.counting import count_pretokens
from tokcore.learn.merges import learn_bpe
from tokcore.look.explain import Explainer
from tokcore.tokenizer.tokenizer import Tokenizer

TEXTS = ["low lower lowest newest", "न मस्ते नमस्ते", "aaaaaaa abab", "it's 2024!"]


@pytest.fixture(scope="module")
def learned() -> Tokenizer:
    merges = learn_bpe(count_pretokens(TEXTS * 3, pattern="gpt2"), 280)
    return Tokenizer.from_merges(merges, pattern="gpt2", special={"<|end|>": "document_end"})


def check(tokenizer: Tokenizer, text: str) -> None:
    tokens = Explainer(tokenizer).explain(text)
    assert [token.id for token in tokens] == tokenizer.encode(text).tolist()
    assert b"".join(token.data for token in tokens) == text.encode()
    table = tokenizer.spec.model.as_bpe().merge_table
    columns = (table.left, table.right, table.result, table.priority)
    known = set(zip(*(column.tolist() for column in columns), strict=True))
    for token in tokens:
        assert tokenizer.token_bytes(token.id) == token.data == text.encode()[token.start : token.end]
        if token.origin == "whole" and not token.steps:
            continue
        # Replayed by definition: n bytes need n - 1 merges, each of which is there, and the last makes the token.
        assert len(token.steps) == len(token.data) - 1
        assert {(step.left, step.right, step.made, step.rank) for step in token.steps} <= known
        assert not token.steps or token.steps[-1].made == token.id
        assert (token.origin == "byte") == (len(token.data) == 1)


@given(text=st.text(alphabet="low ernstab20", max_size=40) | st.sampled_from(TEXTS))
def test_a_learned_tokenizer(learned, text):
    check(learned, text)


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
@pytest.mark.parametrize("text", [*TEXTS, "Hello wörld 😀 \u202e<script>", "a" * 3000, ""])
def test_published_ranks(name, text):
    check(published_tokenizer(name), text)


def test_pretokens_and_special_tokens(learned):
    tokens = Explainer(learned).explain("low<|end|> low", with_special=True)
    (at,) = [place for place, token in enumerate(tokens) if token.origin == "special"]
    assert (tokens[at].data, tokens[at].pretoken) == (b"<|end|>", -1)
    assert {token.pretoken for token in tokens[:at]} == {0}
    assert {token.pretoken for token in tokens[at + 1 :]} == {1}
    assert "special" not in {token.origin for token in Explainer(learned).explain("low<|end|> low")}


def test_the_merges_of_a_token_alone(learned):
    explainer = Explainer(learned)
    for id in range(256, 280):
        if steps := explainer.explain_token(id):
            assert steps[-1].made == id
    assert explainer.explain_token(0) == explainer.explain_token(learned.special_id("<|end|>")) == ()


def test_scored_pieces(tmp_path):
    pieces = [["<unk>", 0.0], ["new", -1.5], ["er", -1.25], ["newer", -3.5], ["n", -4.0], ["ewer", -4.0]]
    file = {"model": {"type": "Unigram", "unk_id": 0, "vocab": pieces}}
    file["added_tokens"] = [{"id": 0, "content": "<unk>", "special": True}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    tokens = Explainer(Tokenizer.load(tmp_path)).explain("newer?")
    assert [(token.data, token.origin, token.score, token.steps) for token in tokens[:2]] == [
        (b"new", "scored", -1.5, ()),
        (b"er", "scored", -1.25, ()),
    ]
    assert (tokens[2].id, tokens[2].origin, tokens[2].score) == (0, "special", None)
