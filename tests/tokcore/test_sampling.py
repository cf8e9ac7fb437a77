"""Ids that are drawn: distributions are those of exact enumeration, of `tokenizers` and of `sentencepiece`."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
import tokenizers
from support.sentencepiece_models import METASPACE, demo_texts, make_tokenizer_json, train

from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model
from tokcore.kernel import SampledUnigram, force, list_available
from tokcore.models.wordpiece.longest_match import WordpieceModel
from tokcore.reference.reference_sampling import Draws, Edge, Pieces, match_with_dropout, merge_with_dropout, sample_cut
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.sampling import Randomness, _weigh, find_best_cuts
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

MERGES = [(b"a", b"b"), (b"ab", b"a"), (b"b", b"a"), (b"ab", b"ab"), (b"ba", b"b")]
TABLE = {b"a": (0, -1.0), b"b": (1, -1.5), b"ab": (2, -2.0), b"ba": (3, -2.25), b"aba": (4, -3.0), b"bab": (5, -9.0)}
NO_IDS = np.zeros(0, np.int32)
NATIVE = [name for name in list_available() if name != "reference"][:1]
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
    limit = int(dropout * 2**64)
    found = Counter(tuple(merge_with_dropout([0, 1, 0, 1], ranks, limit, draws)) for _ in range(20_000))
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


def weigh(pieces: Pieces, theta: float) -> Pieces:
    """Pieces by what they are drawn by."""
    known = {token: (id, math.exp(theta * score)) for token, (id, score) in pieces.known.items()}
    return dataclasses.replace(pieces, known=known, unknown_weight=math.exp(theta * pieces.unknown_weight))


def spell(cut: list[Edge]) -> tuple:
    return tuple((edge.start, edge.end, edge.id) for edge in cut)


def list_cuts(text: bytes) -> list[list[Edge]]:
    ending = PIECES.list_edges(text)
    return [[*cut, edge] for edge in ending[-1] for cut in list_cuts(text[: edge.start])] if text else [[]]


@pytest.mark.parametrize("theta", [0.0, 0.2, 1.0, 3.0])
def test_a_sampled_cut_has_its_probability(theta):
    text = b"ababa"
    weights = {spell(cut): math.exp(theta * sum(edge.weight for edge in cut)) for cut in list_cuts(text)}
    expected = {cut: weight / sum(weights.values()) for cut, weight in weights.items()}
    draws, weighed = Draws(11), weigh(PIECES, theta)
    found = Counter(spell(sample_cut(text, weighed, draws)) for _ in range(20_000))
    assert is_likely(found, {cut: max(share, 1e-9) for cut, share in expected.items()}, 20_000)


def test_the_best_cuts_are_those_of_enumeration():
    text = b"abxaba"
    every = sorted((sum(edge.weight for edge in cut) for cut in list_cuts(text)), reverse=True)
    for num in (1, 3, 1000):
        assert [total for total, _ in find_best_cuts(text, PIECES, num)] == pytest.approx(every[:num])


def test_long_texts_lose_no_weight():
    for theta in (0.1, 5.0, 80.0):
        cut = sample_cut(b"ab" * 2000, weigh(PIECES, theta), Draws(1))
        assert cut[0].start == 0
        assert cut[-1].end == 4000
        assert all(one.end == other.start for one, other in pairwise(cut))


@pytest.mark.parametrize("theta", [40, 60, 1000, 10**6])
def test_a_large_theta_draws_the_best_cut(theta):
    """Its weights are smaller than any float."""
    ours = Tokenizer(read_sentencepiece_model(train("unigram", "plain"), "x"))
    for text in ["low lower newest", "hello world", "the 日本 x", *(text[:100] for text in demo_texts()[:6])]:
        (best, _), *_ = ours.nbest(text, 1)
        for seed in range(3):
            assert ours.encode(text, sampling=theta, seed=seed).tolist() == best.tolist()


def test_weights_beyond_floats_keep_their_shares():
    """Scores that are lower by the same for each byte leave each cut its share."""
    text = b"ababa"
    shares = {spell(cut): math.exp(sum(edge.weight for edge in cut)) for cut in list_cuts(text)}
    expected = {tuple(id for *_, id in cut): share / sum(shares.values()) for cut, share in shares.items()}
    scores = [score - 700.0 * len(name) for name, (_, score) in TABLE.items()]
    weighed = [_weigh(score, Decimal(1)) for score in (*scores, -10_000.0)]
    pieces = make_texts_from_strings([*TABLE]), np.array([id for id, _ in TABLE.values()], np.int32)
    weights = np.array([weight for weight, _ in weighed]), np.array([scale for _, scale in weighed], np.int32)
    for name in (*NATIVE, "reference"):
        with force(name):
            sampled = SampledUnigram(*pieces, *weights, 9, NO_IDS, False, True)
            ids, offsets, _ = sampled.encode(make_texts_from_strings([text] * 4000), np.arange(4000, dtype=np.uint64))
        found = Counter(tuple(ids[start:end].tolist()) for start, end in pairwise(offsets.tolist()))
        assert is_likely(found, {cut: max(share, 1e-9) for cut, share in expected.items()}, 4000)


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
    with pytest.raises(ConfigError, match="needs a Unigram, and this tokenizer is a byte-level BPE"):
        ours.encode("a", sampling=0.1)
    with pytest.raises(ConfigError, match="nbest needs a Unigram"):
        ours.nbest("a", 2)
    for seed in ("1", 1.5):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            ours.encode("a", dropout=0.5, seed=seed)
    with pytest.raises(ConfigError, match=r"dropout = 1.5: expected 0 to 1"):
        ours.encode("a", dropout=1.5)
    with pytest.raises(ConfigError, match="exclude each other"):
        ours.encode("a", dropout=0.1, sampling=0.1)
    unigram = Tokenizer(read_sentencepiece_model(train("unigram", "plain"), "x"))
    with pytest.raises(
        ConfigError, match="needs a byte-level BPE or a WordPiece, and this tokenizer is of the kind unigram"
    ):
        unigram.encode("a", dropout=0.1)
    with pytest.raises(ConfigError, match="sampling = -1"):
        unigram.encode("a", sampling=-1)
    with pytest.raises(ConfigError, match="num = 0"):
        unigram.nbest("a", 0)


# ------------------------------------------------------------------------------------------------ kernel and reference

TEXTS = ["ababab ab", "", "  xyz\n", "é" * 20, "ab" * 300, "日本 ab\u2581a", "a" * 5000, "\ufffd\u0301x", "low lower"]


def draw_both(tokenizer: Tokenizer, randomness: Randomness, texts: list[str | bytes]) -> list[tuple]:
    """(ids, offsets, pre-tokens) as each implementation gives them."""
    found = []
    for name in (*NATIVE, "reference"):
        with force(name):
            fresh = Tokenizer(tokenizer.spec)
            seeds = np.arange(3, 3 + len(texts), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            drawn = fresh.draw_texts(make_texts_from_strings(texts), randomness, seeds)
            found.append(tuple(array.tolist() for array in drawn))
    return found


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 1.0])
def test_dropout_of_the_kernel_is_that_of_the_reference(dropout):
    broken = [*TEXTS, b"ab\xff\xe2\x96ab", b"\x80"]
    native, reference = draw_both(bpe(), Randomness(dropout=dropout), broken)
    assert native == reference
    native, reference = draw_both(wordpiece(), Randomness(dropout=dropout), broken)
    assert native == reference


@pytest.mark.parametrize("theta", [0.0, 0.1, 1.0, 50.0, 1000.0])
@pytest.mark.parametrize("rules", ["plain", "bytes"])
def test_sampling_of_the_kernel_is_that_of_the_reference(theta, rules):
    data = train("unigram", rules)
    texts = [*(text[:120] for text in demo_texts()[:12]), *TEXTS]
    native, reference = draw_both(Tokenizer(read_sentencepiece_model(data, "x")), Randomness(sampling=theta), texts)
    assert native == reference
    if rules == "plain":
        content = json.dumps(make_tokenizer_json("unigram", data, ["Precompiled"], METASPACE)).encode()
        converted = Tokenizer(read_tokenizer_json(content, "t"))
        native, reference = draw_both(converted, Randomness(sampling=theta), [*texts, b"\x80\x80a"])
        assert native == reference


def wordpiece() -> Tokenizer:
    names = ["a", "b", "ab", "aba", "##a", "##b", "##ab", "##ba", "##bab", "x", "\ufffd", "日", "本"]
    model = WordpieceModel(tuple(name.encode() for name in names), np.arange(1, len(names) + 1, dtype=np.int32), 0)
    return Tokenizer(TokenizerSpec(("bert",), {"name": "bert"}, model, (SpecialToken("[UNK]", 0, "unknown"),)))


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_of_wordpiece_has_the_distribution_of_all_that_can_be_drawn(dropout):
    first, further = {"a": 0, "ab": 1, "aba": 2}, {"a": 3, "b": 4, "ab": 5, "ba": 6, "bab": 7}

    def walk(rest: str, tokens: dict, share: float) -> dict:
        """The distribution of the ids of the rest of a word."""
        if not rest:
            return {(): share}
        found: Counter = Counter()
        for size in range(len(rest), 0, -1):
            if rest[:size] not in tokens:
                continue
            taken = share if size == 1 else share * (1 - dropout)
            share -= taken
            for ids, of in walk(rest[size:], further, taken).items():
                found[(tokens[rest[:size]], *ids)] += of
        return found

    expected = walk("abab", first, 1.0)
    assert sum(expected.values()) == pytest.approx(1)
    draws = Draws(5)
    limit = int(dropout * 2**64)
    found = Counter(tuple(match_with_dropout("abab", first, further, limit, draws)) for _ in range(20_000))
    assert is_likely(found, expected, 20_000)


def test_no_dropout_of_wordpiece_and_all_of_it():
    ours = wordpiece()
    assert ours.encode("abab ab", dropout=0.0).tolist() == ours.encode("abab ab").tolist()
    every = ours.encode("abab ab", dropout=1.0).tolist()
    assert [ours.token_bytes(id) for id in every] == [b"a", b"##b", b"##a", b"##b", b"a", b"##b"]
    assert ours.encode("abz", dropout=0.5).tolist() == [0]
    assert len({tuple(ours.encode("ababab", dropout=0.5, seed=seed).tolist()) for seed in range(20)}) > 5


def test_a_text_is_drawn_from_its_seed_alone():
    ours = bpe()
    texts = ["ababab", "babab ab", "ababab"]
    randomness = Randomness(dropout=0.4)
    for order in itertools.permutations(range(3)):
        chosen = make_texts_from_strings([texts[i] for i in order])
        drawn = ours.draw_texts(chosen, randomness, np.array([10 + i for i in order], np.uint64))
        for i, (start, end) in zip(order, itertools.pairwise(drawn.offsets.tolist()), strict=True):
            assert drawn.ids[start:end].tolist() == ours.encode(texts[i], dropout=0.4, seed=10 + i).tolist()


def test_special_tokens_stay_while_others_are_drawn():
    ours = Tokenizer.from_merges(MERGES, pattern="gpt2", special={"<|x|>": "document_end"})
    texts = make_texts_from_strings(["ababab<|x|>ababab", "ababab", "<|x|><|x|>"])
    seeds = np.array([1, 1, 2], np.uint64)
    drawn = ours.draw_texts(texts, Randomness(dropout=0.5), seeds, with_special=True)
    one, other, both = (drawn.ids[start:end].tolist() for start, end in itertools.pairwise(drawn.offsets.tolist()))
    assert one[: len(other)] == other  # what is before the first one, as without it
    assert one[len(other)] == ours.specials["<|x|>"]
    assert ours.decode(one) == b"ababab<|x|>ababab"
    assert both == [ours.specials["<|x|>"]] * 2
    apart = {tuple(draw_after_special(ours, seed)) for seed in range(20)}
    assert len(apart) > 3


def draw_after_special(tokenizer: Tokenizer, seed: int) -> list[int]:
    texts = make_texts_from_strings(["<|x|>ababab"])
    randomness = Randomness(dropout=0.5)
    return tokenizer.draw_texts(texts, randomness, np.array([seed], np.uint64), with_special=True).ids.tolist()
