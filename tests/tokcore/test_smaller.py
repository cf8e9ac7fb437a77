"""Fewer merges: ids under all merges, taken apart, are the ids under the first ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from support.builds import texts
from support.vocabularies import PUBLISHED, published_encoding, published_tokenizer, ranks

from tokcore import kernel
from tokcore.errors import ConfigError, FormatError
from tokcore.models import MODELS, LearnOptions
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.reference.reference import merge
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import TokenBatch
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.smaller import find_smaller, make_smaller
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

NATIVE = kernel.list_available()[0]
ALPHABET = [64, 65, 66, 220]  # ids of a, b, c and space in hf order
BYTES = LearnedModel(np.zeros((0, 2), np.int32)).tokens
END = SpecialToken("<|end|>", None, "document_end")


@st.composite
def merge_tables(draw):
    """Well-formed ones: each merge makes a new token of two earlier ones. Few letters, so that many fit."""
    spelled = {id: BYTES[id] for id in ALPHABET}
    pairs = []
    for _ in range(draw(st.integers(1, 25))):
        known = [*spelled]
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        joined = spelled[left] + spelled[right]
        if joined in spelled.values() or len(joined) > 40:
            continue
        spelled[256 + len(pairs)] = joined
        pairs.append((left, right))
    return pairs


def learned(pairs, special=(END,)):
    return make_learned_spec(LearnedModel(np.array(pairs, np.int32).reshape(-1, 2)), {"name": "gpt2"}, (), special)


def as_merges(spec, shift=1000):
    """The same merges with arbitrary ids, as tokenizer.json has them, and special tokens before and after."""
    model = spec.model
    ids = (model.ids * 3 + shift).astype(np.int32)
    of = MergesModel(model.tokens, ids, (model.merges * 3 + shift).astype(np.int32), False)
    special = (SpecialToken("<s>", 5), SpecialToken("<|end|>", int(ids[-1]) + 9, "document_end"))
    return TokenizerSpec((), spec.pattern, of, special)


def slow_ids(pairs, num, text):
    """Ids of a text that is one pre-token, merge by merge: the definition."""
    ids = [BYTES.index(bytes([byte])) for byte in text]
    for rank, pair in enumerate(pairs[:num]):
        ids = merge(ids, pair, 256 + rank)
    return ids


@given(merge_tables(), st.lists(st.text("abc", max_size=60), max_size=5), st.data())
def test_ids_taken_apart_are_those_of_fewer_merges(pairs, documents, data):
    if not pairs:
        return
    num = data.draw(st.integers(0, len(pairs) - 1))
    spec = learned(pairs)
    small = make_smaller(spec, 256 + num + 1)
    replacer = small.make_replacer()
    for text in documents:
        ids = np.array(slow_ids(pairs, len(pairs), text.encode()), np.int32)
        found, _ = replacer.replace(ids, np.array([0, len(ids)]))
        assert found.tolist() == slow_ids(pairs, num, text.encode())


def are_all_reachable(spec):
    encoder, every = spec.model.encoder(None, 0), make_texts_from_strings(spec.model.tokens)
    ids, _, _ = encoder.encode_pieces(every, every.offsets[1:], np.arange(every.num_texts + 1))
    return ids.tolist() == spec.model.ids.tolist()


@given(merge_tables(), st.lists(st.text("abc <|end>", max_size=60), min_size=1, max_size=5), st.data())
def test_tokenizers_of_any_kind_give_what_the_smaller_one_encodes(pairs, documents, data):
    if not pairs:
        return
    num = data.draw(st.integers(0, len(pairs) - 1))
    base = learned(pairs)
    for spec, extra in ((base, 1), (as_merges(base), 2)):
        if spec is not base and not are_all_reachable(base):
            # Of a table that was not learned here, a token whose own bytes become others may mean anything.
            with pytest.raises(ConfigError, match="is not what merges make of its bytes"):
                make_smaller(spec, 256 + num + extra)
            continue
        small = make_smaller(spec, 256 + num + extra)
        assert small.spec.vocab_size == 256 + num + extra
        every = [*documents, "a<|end|>b"]
        tokenizer, own = Tokenizer(spec), Tokenizer(small.spec)
        large_ids = [tokenizer.encode(text, True) for text in every]
        offsets = np.cumsum([0, *map(len, large_ids)])
        found, bounds = small.make_replacer().replace(np.concatenate(large_ids).astype(np.int32), offsets)
        wanted = [own.encode(text, True).tolist() for text in every]
        assert [found[start:end].tolist() for start, end in pairwise(bounds)] == wanted
        assert find_smaller(spec, small.spec) is not None


def test_a_vocabulary_of_ranks_becomes_one_of_fewer_ranks():
    spec = learned([(64, 65), (256, 66), (220, 257)])
    ranks = TokenizerSpec((), {"name": "cl100k"}, RanksModel(spec.model.tokens, spec.model.ids), spec.special)
    small = make_smaller(ranks, 258)
    assert isinstance(small.spec.model, RanksModel)
    assert [small.lists[id] for id in (256, 257, 258, 259)] == [(256,), (256, 66), (220, 256, 66), (257,)]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_rank_files_of_any_size_give_what_tiktoken_encodes(name):
    """tiktoken's own merging, with the first ranks alone."""
    large = published_tokenizer(name)
    text = " ".join(texts("en", 3) + texts("ru", 3) + texts("zh", 3)) + "  internationalization\n\n\tself.assertEqual"
    ids = large.encode(text)
    for size in (300, 5000, 32768):
        small = make_smaller(large.spec, size)
        assert small.spec.vocab_size == size
        found, _ = small.make_replacer().replace(np.asarray(ids, np.int32), np.array([0, len(ids)]))
        num = size - len(small.spec.special)
        first = {token: rank for token, rank in ranks(name).items() if rank < num}
        theirs = tiktoken.Encoding(
            "first", pat_str=published_encoding(name)._pat_str, mergeable_ranks=first, special_tokens={}
        )
        assert found.tolist() == theirs.encode_ordinary(text)


@given(
    st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), min_size=1, max_size=20),
    st.lists(st.lists(st.integers(0, 19), max_size=30), max_size=6),
)
@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
def test_lists_take_the_place_of_ids(implementation, lists, documents):
    documents = [[id % len(lists) for id in one] for one in documents]
    offsets = np.cumsum([3, *map(len, documents)])  # with ids around that are none
    ids = np.array([-1, -1, -1, *(id for one in documents for id in one), 99], np.int32)
    with kernel.force(implementation):
        replacer = kernel.IdReplacer(
            np.array([id for one in lists for id in one], np.int32), np.cumsum([0, *map(len, lists)])
        )
        found, bounds = replacer.replace(ids, offsets)
    assert [found[start:end].tolist() for start, end in pairwise(bounds)] == [
        [new for id in one for new in lists[id]] for one in documents
    ]


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
@pytest.mark.parametrize("id", [-1, 1, 3, 2**31 - 1])
def test_ids_without_a_list_are_refused(implementation, id):
    with kernel.force(implementation):
        replacer = kernel.IdReplacer(np.array([7, 8], np.int32), np.array([0, 1, 1, 2]))
        batch = TokenBatch(
            np.array([0, id], np.int32),
            np.array([0, 2]),
            [None],
            repeat_label("en", 1),
            repeat_label("x", 1),
            np.zeros(1),
        )
        with pytest.raises(FormatError, match=f"{id}: there is no such id"):
            batch.replace_ids(replacer)


def test_learned_special_tokens_get_the_ids_that_a_build_gives_them():
    pinned = [SpecialToken("<|end|>", None), SpecialToken("<|pad|>", 300)]
    spec = learned([(64, 65), (256, 66)], pinned)
    small = make_smaller(spec, 259, pinned)
    assert [(one.text, one.id) for one in small.spec.special] == [("<|end|>", 257), ("<|pad|>", 300)]
    assert small.lists[300] == (300,)


@pytest.mark.parametrize("size", [0, 256, 259, 5000])
def test_sizes_that_are_not_smaller_or_hold_no_bytes_are_refused(size):
    with pytest.raises(ConfigError, match=r"vocab_size = \d+: expected 257 .* to 258, as the tokenizer has 259 tokens"):
        make_smaller(learned([(64, 65), (256, 66)]), size)


def test_tables_that_are_no_merges_are_refused():
    tokens = learned([(64, 65), (256, 66)]).model.tokens
    # abc is a token that merges never make: ignore_merges emits it, where it is a pre-token.
    spec = TokenizerSpec(
        (),
        {"name": "cl100k"},
        MergesModel(tokens, np.arange(258, dtype=np.int32), np.array([[64, 65]], np.int32), True),
    )
    with pytest.raises(ConfigError, match="no list of merges each of which makes a token of two earlier ones"):
        make_smaller(spec, 257)


def test_other_models_are_refused():
    rows = (make_texts_from_strings(["hug", "pug"]), np.array([9, 9], np.uint64))
    options = LearnOptions(vocab_size=12, num_special=5)
    model = MODELS["wordpiece"].learn(lambda: rows, options)
    own = [SpecialToken(text, id, role) for id, (text, role) in enumerate(MODELS["wordpiece"].own_special.items())]
    spec = TokenizerSpec((), {"name": "bert"}, model, tuple(own))
    with pytest.raises(ConfigError, match="that is so of byte-level BPE alone"):
        make_smaller(spec, 10)
