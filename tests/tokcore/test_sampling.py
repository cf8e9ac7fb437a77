"""Ids that are drawn: distributions are those of exact enumeration, of `tokenizers` and of `sentencepiece`."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
import tokenizers
from support.sentencepiece_models import METASPACE, demo_texts, make_tokenizer_json, train

from tokcore.errors import ConfigError
from tokcore.formats.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.sentencepiece import read_sentencepiece_model
from tokcore.sampling import Draws, Edge, Pieces, find_best_cuts, merge_with_dropout, sample_cut
from tokcore.tokenizer import Tokenizer

MERGES = [(b"a", b"b"), (b"ab", b"a"), (b"b", b"a"), (b"ab", b"ab"), (b"ba", b"b")]
TABLE = {b"a": (0, -1.0), b"b": (1, -1.5), b"ab": (2, -2.0), b"ba": (3, -2.25), b"aba": (4, -3.0), b"bab": (5, -9.0)}
PIECES = Pieces(TABLE, 3, -12.0, 9, [], False)


def bpe() -> Tokenizer:
    return Tokenizer.from_merges(MERGES, pattern="gpt2")


def is_likely(found: Counter, expected: dict, num: int) -> bool:
    """A chi-square test that fails once in about 1e6."""
    assert set(found) <= set(expected)
    statistic = sum((found[key] - num * share) ** 2 / (num * share) for key, share in expected.items())
    freedom = len(expected) - 1
    return statistic < freedom + 5 * math.sqrt(2 * freedom) + 15


def are_alike(own: Counter, other: Counter) -> bool:
    """A chi-square test of two samples of one size, which fails as rarely."""
    keys = {*own, *other}
    statistic = sum((own[key] - other[key]) ** 2 / (own[key] + other[key]) for key in keys)
    return statistic < len(keys) + 5 * math.sqrt(2 * len(keys)) + 15


def enumerate_dropout(word: tuple[int, ...], ranks: dict, dropout: float) -> dict:
    """The distribution of what a word becomes, by walking through all that can be drawn.

    Each candidate in the order of ranks and places is taken unless it is dropped; all dropped ends it. A candidate that
    went stale is drawn, too, and taking it brings back those that were dropped.
    """
    found: Counter = Counter()

    def walk(state: tuple, queue: tuple, share: float) -> None:
        if share < 1e-12:
            return
        if not queue:
            found[tuple(id for id in state if id is not None)] += share
            return
        dropped: tuple = ()
        for i, top in enumerate(queue):
            taken = share * (1 - dropout)
            rest = tuple(sorted((*dropped, *queue[i + 1 :])))
            walk(*take(state, rest, top), taken)
            share *= dropout
            dropped = (*dropped, top)
        found[tuple(id for id in state if id is not None)] += share

    def take(state: tuple, queue: tuple, top: tuple) -> tuple:
        _, place, result = top
        right = next((i for i in range(place + 1, len(state)) if state[i] is not None), None)
        if state[place] is None or right is None or ranks.get((state[place], state[right]), (0, -1))[1] != result:
            return state, queue
        now = list(state)
        now[place], now[right] = result, None
        left = next((i for i in range(place - 1, -1, -1) if now[i] is not None), None)
        after = next((i for i in range(place + 1, len(now)) if now[i] is not None), None)
        added = []
        for one, other in ((left, place), (place, after)):
            if one is not None and other is not None and (now[one], now[other]) in ranks:
                new_rank, new = ranks[now[one], now[other]]
                added.append((new_rank, one, new))
        return tuple(now), tuple(sorted((*queue, *added)))

    start = [(*ranks[pair], place) for place, pair in enumerate(pairwise(word)) if pair in ranks]
    walk(word, tuple(sorted((rank, place, result) for rank, result, place in start)), 1.0)
    return dict(found)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_has_the_distribution_of_all_that_can_be_drawn(dropout):
    ranks = {(0, 1): (0, 2), (2, 0): (1, 3), (1, 0): (2, 4), (2, 2): (3, 5)}
    expected = enumerate_dropout((0, 1, 0, 1), ranks, dropout)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-6)
    draws = Draws(7)
    found = Counter(tuple(merge_with_dropout([0, 1, 0, 1], ranks, dropout, draws)) for _ in range(20_000))
    assert is_likely(found, expected, 20_000)


def test_dropout_is_that_of_tokenizers():
    ours = bpe()
    content = json.loads(write_tokenizer_json(ours.spec))
    content["model"]["dropout"] = 0.3
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    num = 6000
    own = Counter(tuple(ours.encode("ababab", dropout=0.3, seed=seed).tolist()) for seed in range(num))
    other = Counter(tuple(theirs.encode("ababab").ids) for _ in range(num))
    assert are_alike(own, other)


def test_no_dropout_and_all_of_it():
    ours = bpe()
    for text in ["ababab ab", "", "  xyz\n", "é" * 20, "ab" * 300]:
        assert ours.encode(text, dropout=0.0).tolist() == ours.encode(text).tolist()
        assert len(ours.encode(text, dropout=1.0)) == len(text.encode())
        assert ours.decode(ours.encode(text, dropout=0.5, seed=3), "strict") == text
    assert len({tuple(ours.encode("ababab" * 9, dropout=0.5, seed=seed).tolist()) for seed in range(9)}) > 5
    assert ours.encode("ababab", dropout=0.5, seed=2).tolist() == ours.encode("ababab", dropout=0.5, seed=2).tolist()


def list_cuts(text: bytes) -> list[list[Edge]]:
    ending = PIECES.list_edges(text)
    return [[*cut, edge] for edge in ending[-1] for cut in list_cuts(text[: edge.start])] if text else [[]]


@pytest.mark.parametrize("theta", [0.0, 0.2, 1.0, 3.0])
def test_a_sampled_cut_has_its_probability(theta):
    text = b"ababa"
    weights = {tuple(cut): math.exp(theta * sum(edge.score for edge in cut)) for cut in list_cuts(text)}
    expected = {cut: weight / sum(weights.values()) for cut, weight in weights.items()}
    draws = Draws(11)
    found = Counter(tuple(sample_cut(text, PIECES, theta, draws)) for _ in range(20_000))
    assert is_likely(found, {cut: max(share, 1e-9) for cut, share in expected.items()}, 20_000)


def test_the_best_cuts_are_those_of_enumeration():
    text = b"abxaba"
    every = sorted((sum(edge.score for edge in cut) for cut in list_cuts(text)), reverse=True)
    for num in (1, 3, 1000):
        assert [total for total, _ in find_best_cuts(text, PIECES, num)] == pytest.approx(every[:num])


def test_long_texts_lose_no_weight():
    for theta in (0.1, 5.0, 80.0):
        cut = sample_cut(b"ab" * 2000, PIECES, theta, Draws(1))
        assert cut[0].start == 0
        assert cut[-1].end == 4000
        assert all(one.end == other.start for one, other in pairwise(cut))


def test_unigram_of_sentencepiece():
    data = train("unigram", "bytes")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    ours = Tokenizer(read_sentencepiece_model(data, "x"))
    for text in ["low lower", "newest widest", "a new one"]:
        found = ours.nbest(text, 5)
        sums = [sum(map(theirs.get_score, ids)) for ids in theirs.nbest_encode_as_ids(text, 5)]
        assert [total for _, total in found] == pytest.approx(sums, abs=1e-4)
        assert len({tuple(ids.tolist()) for ids, _ in found}) == 5
        assert found[0][0].tolist() == ours.encode(text).tolist()
    num = 3000
    own = Counter(tuple(ours.encode("lower", sampling=0.3, seed=seed).tolist()) for seed in range(num))
    other = Counter(tuple(theirs.encode("lower", enable_sampling=True, alpha=0.3, nbest_size=-1)) for _ in range(num))
    assert are_alike(own, other)


def test_unigram_of_words():
    content = make_tokenizer_json("unigram", train("unigram", "plain"), ["Precompiled"], METASPACE)
    ours = Tokenizer(read_tokenizer_json(json.dumps(content).encode(), "t"))
    for text in [*(text[:80] for text in demo_texts()[:5]), "", "日▁日"]:
        (best, total), *_ = ours.nbest(text, 3)
        assert best.tolist() == ours.encode(text).tolist()
        assert total <= 0
        drawn = ours.encode(text, sampling=0.5, seed=4)
        ours.decode(drawn)
        assert drawn.tolist() == ours.encode(text, sampling=0.5, seed=4).tolist()


def test_draws_are_spread():
    draws = Draws(5)
    numbers = np.array([draws.next() for _ in range(4000)], np.uint64)
    assert abs(float(np.mean(numbers / 2**64)) - 0.5) < 0.02
    assert len(set(numbers.tolist())) == 4000


def test_what_cannot_be_drawn_is_refused():
    ours = bpe()
    with pytest.raises(ConfigError, match="needs a Unigram, and this tokenizer is of the kind learned"):
        ours.encode("a", sampling=0.1)
    with pytest.raises(ConfigError, match="needs a Unigram"):
        ours.nbest("a", 2)
    with pytest.raises(ConfigError, match=r"dropout = 1.5: expected 0 to 1"):
        ours.encode("a", dropout=1.5)
    with pytest.raises(ConfigError, match="exclude each other"):
        ours.encode("a", dropout=0.1, sampling=0.1)
    unigram = Tokenizer(read_sentencepiece_model(train("unigram", "plain"), "x"))
    with pytest.raises(ConfigError, match="needs a byte-level BPE, and this tokenizer is of the kind unigram"):
        unigram.encode("a", dropout=0.1)
    with pytest.raises(ConfigError, match="sampling = -1"):
        unigram.encode("a", sampling=-1)
    with pytest.raises(ConfigError, match="num = 0"):
        unigram.nbest("a", 0)
