"""Pruned tokenizers: as tokenizers encodes after the same edit, with every token still reached."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.builds import texts
from support.vocabularies import published_tokenizer

from tokcore.count.counting import count_pretokens
from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.huggingface import write_tokenizer_json
from tokcore.learn.merges import learn_bpe
from tokcore.models.bpe import LearnedModel, MergesModel
from tokcore.tokenizer.pruned import prune
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

CORPUS = [text for lang in ("en", "ru", "zh") for text in texts(lang, 10)]
LEARNED = make_learned_spec(
    LearnedModel.from_merges(learn_bpe(count_pretokens(CORPUS, pattern="gpt2"), 440)),
    {"name": "gpt2"},
    (),
    [SpecialToken("<|end|>", None)],
)


def edit(spec, gone):
    """The tokenizer.json of a tokenizer after the edit that a person would make."""
    content = json.loads(write_tokenizer_json(spec))
    by_id = {id: token for token, id in content["model"]["vocab"].items()}
    names = {by_id[id] for id in gone}
    content["model"]["vocab"] = {token: id for token, id in content["model"]["vocab"].items() if token not in names}
    content["model"]["merges"] = [
        pair
        for pair in content["model"]["merges"]
        if "".join(pair if isinstance(pair, list) else pair.split(" ")) not in names
    ]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


@given(
    st.lists(st.integers(0, 5), min_size=441, max_size=441), st.integers(257, 440), st.booleans(), st.text(max_size=30)
)
def test_ids_are_those_of_tokenizers_after_the_same_edit(uses, size, renumber, text):
    pruned = prune(LEARNED, np.array(uses, np.uint64), size, renumber)
    theirs, own = edit(LEARNED, [one.id for one in pruned.gone]), Tokenizer(pruned.spec)
    assert len(pruned.new_ids) == len(own.spec.model.tokens) + 1 == size
    for one in (text, CORPUS[len(text) % len(CORPUS)], "a<|end|>b"):
        found = own.encode(one, True).tolist()
        assert found == [pruned.new_ids[id] for id in theirs.encode(one, add_special_tokens=False).ids]
    model = pruned.spec.model
    assert model.unreachable(_encode(own)) == []
    if renumber:
        assert pruned.spec.vocab_size == size
    else:
        assert all(old == new for old, new in pruned.new_ids.items())


def _encode(tokenizer):
    return lambda pretokens: tokenizer.encode_pretokens(pretokens)


def test_the_least_used_leaves_go_and_their_uses_count_for_their_parts():
    """The slow way: look at all tokens before each step."""
    uses = np.random.default_rng(3).integers(0, 9, 441).astype(np.uint64)
    left, now, expected = {256 + i: pair for i, pair in enumerate(LEARNED.model.merges.tolist())}, uses.tolist(), []
    while len(left) > 50:
        leaves = [id for id in left if not any(id in pair for pair in left.values())]
        id = min(leaves, key=lambda id: (now[id], -id))
        expected.append((id, now[id]))
        for part in left.pop(id):
            now[part] += now[id]
    pruned = prune(LEARNED, uses, 256 + 50 + 1)
    assert [(one.id, one.uses) for one in pruned.gone] == expected


def test_published_vocabularies_of_ranks_are_pruned():
    large = published_tokenizer("r50k")
    uses = np.bincount(np.concatenate([large.encode(text) for text in CORPUS]), minlength=50257).astype(np.uint64)
    pruned = prune(large.spec, uses, 2000)
    own, size = Tokenizer(pruned.spec), len(pruned.spec.model.tokens)
    assert size == 1999
    assert own.encode("<|endoftext|>", True).tolist() == [50256]
    for text in CORPUS:
        assert own.decode(own.encode(text)) == text.encode()
    kept = {*pruned.spec.model.ids.tolist()}
    assert all(
        own.encode(text).tolist() == large.encode(text).tolist()
        for text in CORPUS
        if {*large.encode(text).tolist()} <= kept
    )
    assert pruned.spec.model.unreachable(_encode(own)) == []


@pytest.mark.parametrize("size", [12, 256, 441])
def test_sizes_that_leave_nothing_to_do_are_refused(size):
    with pytest.raises(
        ConfigError, match=f"vocab_size = {size}: expected 257 .* to 440, as the tokenizer has 441 tokens"
    ):
        prune(LEARNED, np.zeros(441, np.uint64), size)


def test_tables_that_are_no_merges_are_refused():
    tokens = LEARNED.model.tokens[:258]
    model = MergesModel(tokens, np.arange(258, dtype=np.int32), LEARNED.model.merges[:1], True)
    with pytest.raises(ConfigError, match="is no list of merges"):
        prune(TokenizerSpec((), {"name": "gpt2"}, model, ()), np.zeros(258, np.uint64), 257)
