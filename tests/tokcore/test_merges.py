"""Learning merges: native == reference == the field's trainer; worked examples; counts and words of any size."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import seeds

from tokcore import _native, kernel
from tokcore.count.counting import count_pretokens
from tokcore.errors import ConfigError, FormatError, LearnError
from tokcore.learn.merges import Merge, learn_bpe, learn_rows
from tokcore.reference import reference
from tokcore.text.byte_alphabet import ID_OF_BYTE, from_printable, to_printable
from tokcore.text.texts import Texts, make_texts_from_strings

ALL = kernel.list_available()
NATIVE = ALL[0]

# Few letters, so that ties and runs of equal symbols are common; printable ones that hf order puts elsewhere, too.
words = st.text(st.sampled_from("ab"), max_size=12) | st.text(st.sampled_from("abc é\n日"), max_size=9)
word_tables = st.dictionaries(words.map(str.encode), st.integers(0, 5), max_size=15)
# Long words are kept in linked segments.
long_words = st.lists(st.sampled_from([b"a", b"b", b"ab", b"aaa", b"c" * 60]), min_size=100, max_size=250).map(b"".join)


def table_of(counts: Mapping[bytes, int]) -> pa.Table:
    return pa.table(
        {"pretoken": pa.array(list(counts), pa.binary()), "count": pa.array(list(counts.values()), pa.uint64())}
    )


def learned(counts: Mapping[bytes, int], num_merges: int = 1000, name: str = NATIVE, **options: int) -> list[Merge]:
    if not any(counts):
        return []
    with kernel.force(name):
        return learn_bpe(table_of(counts), 256 + num_merges, **{"min_count": 1} | options, allow_smaller=True)


def joined(merges: list[Merge]) -> list[tuple[bytes, int]]:
    return [(merge.left + merge.right, merge.count) for merge in merges]


@given(word_tables, st.integers(0, 40), st.integers(0, 4), st.sampled_from([0, 0, 2, 3, 5]))
def test_native_equals_reference(counts: dict[bytes, int], num_merges: int, least: int, longest: int) -> None:
    options = {"min_count": least, "max_token_bytes": longest}
    expected = learned(counts, num_merges, "reference", **options)
    assert learned(counts, num_merges, **options) == expected


@example([b"a" * 300], 3, 256)
@example([b"ab" * 200, b"ba" * 150], 2, 65536)
@given(st.lists(long_words | words.map(str.encode), max_size=4), st.integers(1, 3), st.sampled_from([256, 258, 65536]))
def test_threads_long_words_and_wide_symbols_change_nothing(parts: list[bytes], threads: int, narrow: int) -> None:
    """Every path of the learner on small tables: normally threads and wide symbols are for large ones."""
    batch = make_texts_from_strings(parts)
    counts = np.arange(1, len(parts) + 1, dtype=np.uint64)
    expected = reference.learn(*batch, counts, 25, 1, 0, 1, ID_OF_BYTE, np.zeros(1, np.int64))
    done = np.zeros(1, np.int64)
    settings = {"min_parallel_units": 0, "max_narrow_ids": narrow}
    found = _native.learn(batch.data, batch.offsets, counts, 25, 1, 0, threads, ID_OF_BYTE, done, **settings)
    assert done[0] == len(found[0])
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]


def learned_with_guess(
    texts: Sequence[bytes],
    counts: Sequence[int],
    num_merges: int,
    first_guess: int,
    guessed_count: int,
    **settings: int,
) -> list[tuple[int, int, int]]:
    """What the kernel learns if it guesses, after first_guess merges, that guessed_count is the last count."""
    batch = make_texts_from_strings(texts)
    options = {"threads": 1, "min_count": 1, "max_token_bytes": 0} | settings
    limits = [options.pop(name) for name in ("min_count", "max_token_bytes", "threads")]
    numbers, done = np.array(counts, np.uint64), np.zeros(1, np.int64)
    columns = _native.learn(
        batch.data,
        batch.offsets,
        numbers,
        num_merges,
        *limits,
        ID_OF_BYTE,
        done,
        min_parallel_units=0,
        first_guess=first_guess,
        guessed_count=min(guessed_count, 2**63 - 1),
        **options,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def learned_by_definition(
    texts: Sequence[bytes], counts: Sequence[int], num_merges: int, least: int = 1, longest: int = 0
) -> list[tuple[int, int, int]]:
    words = [([ID_OF_BYTE[byte] for byte in text], count) for text, count in zip(texts, counts, strict=True)]
    return reference.learn_merges(words, num_merges, least, longest)


@example([(b"a" * 300, 1), (b"ab" * 200, 3)], 1, 2, 250, 2, 256, 0)
@example([(b"abcabd", 1), (b"ab", 3)], 2**61, 1, 2**63 - 1, 1, 65536, 0)
@given(
    st.lists(st.tuples(long_words | words.map(str.encode), st.integers(0, 5)), max_size=5),
    st.sampled_from([1, 37, 2**40 + 1]),  # as languages are weighted
    st.integers(1, 30),
    st.integers(1, 40) | st.integers(1, 2**63 - 1),
    st.integers(1, 3),
    st.sampled_from([256, 258, 65536]),
    st.sampled_from([0, 3]),
)
def test_pairs_left_out_by_guess_are_found_again(
    rows: list[tuple[bytes, int]], weight: int, first: int, guess: int, threads: int, narrow: int, longest: int
) -> None:
    """Whenever the last count is guessed, and whatever is guessed: too low, right, too high, beyond all counts."""
    texts = [text for text, _ in rows]
    counts = [count * (weight if i % 2 else 1) for i, (_, count) in enumerate(rows)]
    expected = learned_by_definition(texts, counts, 25, 2, longest)
    settings = {"min_count": 2, "max_token_bytes": longest, "threads": threads, "max_narrow_ids": narrow}
    assert learned_with_guess(texts, counts, 25, first, guess, **settings) == expected


def test_a_guess_of_one_more_or_less_changes_nothing_after_any_merge() -> None:
    """After every number of merges: the count of each later merge as guess, and one more and one less."""
    rnd = random.Random(11)
    texts = [bytes(rnd.choices(b"abc", k=rnd.randint(2, 14))) for _ in range(40)] + [b"a" * 9, b"ab" * 140]
    counts = [rnd.choice([1, 2, 2, 3, 50]) for _ in texts]
    expected = learned_by_definition(texts, counts, 60)
    guesses = {guess for *_, count in expected for guess in (count - 1, count, count + 1) if guess}
    for first in range(1, 60):
        for guess in guesses:
            assert learned_with_guess(texts, counts, 60, first, guess) == expected, (first, guess)


@pytest.mark.parametrize("weights", [[1], [1, 3, 1009], [2**20, 2**35 + 1]])
def test_guesses_of_its_own_change_nothing_in_a_large_table(weights: list[int]) -> None:
    """As languages are weighted. Guesses before the first merge could be made, of 16 and of all of them."""
    table = random_table(9, 30_000, b"etaoin shrdlu\xc3\xa9", 14, 300)
    counts = [count * weights[i % len(weights)] for i, count in enumerate(table.values())]
    plain = learned_with_guess(list(table), counts, 4000, 10**9, 0)
    assert len(plain) == 4000
    for first, threads in ((1, 1), (16, 1), (16, 2)):
        assert learned_with_guess(list(table), counts, 4000, first, 0, threads=threads) == plain


def test_words_that_are_far_apart_are_merged() -> None:
    """Lists of words are packed: the distances here take one to four bytes."""
    texts = [b"xyz"]
    for distance in (1, 200, 20_000, 2_200_000):
        texts += [b"ab"] * (distance - 1) + [b"xyz"]
    lengths = np.array([len(text) for text in texts])
    data = np.frombuffer(b"".join(texts), np.uint8)
    counts = np.full(len(texts), 1, np.uint64)
    _, _, found = kernel.learn_merges(Texts(data, np.concatenate([[0], np.cumsum(lengths)])), counts, 9, 1)
    assert found.tolist() == [len(texts) - 5, 5, 5]


def random_table(seed: int, num_words: int, letters: bytes, longest: int, most: int) -> dict[bytes, int]:
    rnd = random.Random(seed)
    return {bytes(rnd.choices(letters, k=rnd.randint(1, longest))): rnd.randint(1, most) for _ in range(num_words)}


@pytest.mark.parametrize("most", [1, 1000])
def test_threads_and_order_of_rows_change_nothing_in_a_large_table(most: int) -> None:
    counts = random_table(3, 20_000, b"etaoin shrdlu", 14, most)
    rows = list(counts.items())
    random.Random(4).shuffle(rows)
    merges = learned(counts, 3000)
    assert len(merges) == 3000
    for threads in (2, 8):
        assert learned(counts, 3000, threads=threads) == merges
    assert learned(dict(rows), 3000, threads=2) == merges


def test_rows_may_repeat_a_pretoken_and_columns_may_be_of_other_types() -> None:
    once = pa.table({"pretoken": [b"abc", b"bc"], "count": [5, 2]})
    twice = pa.table({"pretoken": ["bc", "abc", "abc"], "count": pa.array([2, 4, 1], pa.int16()), "more": [0, 0, 0]})
    assert learn_bpe(once, 258) == learn_bpe(twice, 258) == [Merge(b"b", b"c", 7), Merge(b"a", b"bc", 5)]


def test_table_of_count_pretokens_is_learned_from() -> None:
    table = count_pretokens(["low lower lowest", "low"] * 3)
    assert joined(learn_bpe(table, 258)) == [(b"lo", 12), (b"low", 12)]


def trained_by_tokenizers(
    counts: Mapping[bytes, int], num_merges: int, least: int, longest: int
) -> list[tuple[bytes, bytes]]:
    """The merges of Hugging Face's trainer from the same counts: each word is repeated that often, with separators."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("\u2400", "removed")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + num_merges,
        min_frequency=least,
        special_tokens=[],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=longest + 1 if longest else None,  # theirs excludes the limit
        show_progress=False,
    )
    texts = ["\u2400".join([to_printable(word)] * count) for word, count in counts.items()]
    tokenizer.train_from_iterator(texts, trainer)
    pairs = []
    for merge in json.loads(tokenizer.to_str())["model"]["merges"]:
        left, right = merge if isinstance(merge, list) else merge.split(" ")
        pairs.append((from_printable(left) or b"", from_printable(right) or b""))
    return pairs


@pytest.mark.parametrize("seed", seeds())
def test_learning_equals_tokenizers(seed: int) -> None:
    """Tables made for ties: few letters, small or equal counts, runs of one symbol, all lengths and minima."""
    rnd = random.Random(seed)
    letters = rnd.choice([b"ab", b"abc", b"aAzZ09", "aé日".encode(), bytes(range(256))])
    counts = random_table(seed, rnd.randint(1, 30), letters, rnd.choice([4, 12, 30]), rnd.choice([1, 3, 20]))
    least, longest = rnd.choice([0, 1, 2, 3]), rnd.choice([0, 0, 2, 3, 6])
    found = learned(counts, 60, min_count=least, max_token_bytes=longest)
    assert [(merge.left, merge.right) for merge in found] == trained_by_tokenizers(counts, 60, least, longest)


def test_learning_equals_tokenizers_on_text() -> None:
    text = " ".join(random.Random(5).choices([p.decode() for p in random_table(6, 3000, b"etaoinsh", 9, 1)], k=30_000))
    table = count_pretokens([text], "gpt2", max_pretoken_bytes=0)
    counts = dict(zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True))
    found = [(merge.left, merge.right) for merge in learn_bpe(table, 1256)]
    assert found == trained_by_tokenizers(counts, 1000, 2, 0)


@pytest.mark.parametrize("name", ALL)
def test_wikipedia_example(name: str) -> None:
    """aaabdaaabac: Z=aa, Y=ab, X=ZY gives XdXac."""
    assert joined(learned({b"aaabdaaabac": 1}, 3, name)) == [(b"aa", 4), (b"ab", 2), (b"aaab", 2)]


@pytest.mark.parametrize("name", ALL)
def test_hug_example(name: str) -> None:
    """hug, pug, pun, bun once each: of three ties (p, u) has the smallest ids."""
    counts = dict.fromkeys([b"hug", b"pug", b"pun", b"bun"], 1)
    assert learned(counts, 1, name) == [Merge(b"p", b"u", 2)]


@pytest.mark.parametrize("name", ALL)
def test_subword_nmt_example(name: str) -> None:
    counts = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}
    expected = [(b"es", 9), (b"est", 9), (b"lo", 7), (b"low", 7), (b"ew", 6), (b"new", 6)]
    assert joined(learned(counts, 6, name)) == expected


@pytest.mark.parametrize("name", ALL)
def test_no_pairs_at_all(name: str) -> None:
    assert learned({b"a": 7}, 5, name) == learned({b"": 3, b"b": 1, b"c": 9}, 5, name) == []
    assert learned({b"ab": 0}, 5, name) == []
    with kernel.force(name), pytest.raises(LearnError, match="only 256 tokens"):
        learn_bpe(table_of({b"a": 7}), 257)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32 + 1, 2**53 + 1, 10**15, (2**63 - 1) // 3])
def test_counts_are_exact_at_any_size(name: str, count: int) -> None:
    assert learned({b"abca": count, b"xy": 0}, 3, name) == [
        Merge(b"a", b"b", count),
        Merge(b"c", b"a", count),
        Merge(b"ab", b"ca", count),
    ]


@pytest.mark.parametrize("name", ALL)
def test_a_difference_of_one_decides_between_large_counts(name: str) -> None:
    counts = {b"ab": 2**53, b"cd": 2**53 + 1, b"ef": 2**53}
    assert joined(learned(counts, 3, name)) == [(b"cd", 2**53 + 1), (b"ab", 2**53), (b"ef", 2**53)]


@pytest.mark.parametrize("name", ALL)
def test_counts_that_cannot_be_summed_are_a_clean_error(name: str) -> None:
    assert joined(learned({b"ab": 2**63 - 1}, 1, name)) == [(b"ab", 2**63 - 1)]
    for counts in ({b"ab": 2**63}, {b"abc": 2**62}, {b"ab": 2**62, b"cd": 2**62}, {b"ab": 2**64 - 1}):
        with pytest.raises(LearnError, match="too large"):
            learned(counts, 1, name)


def test_minimum_count_beyond_every_count() -> None:
    assert learned({b"ab": 2**62}, 1, min_count=2**70) == []


def test_run_of_one_symbol() -> None:
    """Each merge halves the run, however long it is; windows are counted, replacements do not overlap."""
    merges = learned({b"a" * 100_000: 1}, 30)
    assert merges[0] == Merge(b"a", b"a", 99_999)
    lengths = [len(merge.left + merge.right) for merge in merges]
    assert lengths == [2**i for i in range(1, 17)] + [160, 672, 1696, 34464, 100_000]
    assert merges == learned({b"a" * 100_000: 1}, 30, threads=2)


def test_long_word_costs_about_what_its_parts_cost() -> None:
    """A word of 100,000 symbols with many merges: quadratic work would take minutes."""
    word = bytes(random.Random(8).choices(b"abcdefgh", k=100_000))
    merges = learned({word: 1}, 3000, min_count=2)
    assert len(merges) == 3000
    assert joined(merges)[0][1] > 1500


@pytest.mark.parametrize("name", ALL)
def test_fibonacci_word(name: str) -> None:
    """Each merge turns a Fibonacci word into the next shorter one, so tokens have Fibonacci lengths."""
    previous, word = b"b", b"a"
    for _ in range(13 if name == "reference" else 24):
        previous, word = word, word + previous
    merges = learned({word: 1}, 9, name)
    assert [len(merge.left + merge.right) for merge in merges] == [2, 3, 5, 8, 13, 21, 34, 55, 89]


@given(word_tables, st.integers(1, 3))
def test_every_merge_has_a_new_token_and_counts_never_rise(counts: dict[bytes, int], least: int) -> None:
    merges = learned(counts, 200, min_count=least)
    tokens = [merge.left + merge.right for merge in merges]
    assert len(set(tokens)) == len(tokens)
    assert all(a.count >= b.count >= least for a, b in itertools.pairwise(merges))


def test_fewer_pairs_than_asked_for_are_an_error_that_says_how_many() -> None:
    table = table_of({b"abc": 3, b"xy": 1})
    with pytest.raises(
        LearnError, match=r"vocab_size = 300: the table gives only 258 tokens.*count of at least 2.*258"
    ):
        learn_bpe(table, 300)
    assert len(learn_bpe(table, 300, allow_smaller=True)) == 2
    assert len(learn_bpe(table, 300, min_count=1, allow_smaller=True)) == 3


def test_pretokens_of_too_few_documents_take_no_part() -> None:
    table = count_pretokens(["abab abab abab", "xyz", "xyz"], "gpt2")
    assert joined(learn_bpe(table, 1000, min_count=1, allow_smaller=True, min_documents=2)) == [(b"xy", 2), (b"xyz", 2)]
    assert learn_bpe(table, 258, min_documents=1) == learn_bpe(table, 258, min_documents=0) == learn_bpe(table, 258)
    with pytest.raises(FormatError, match="documents"):
        learn_bpe(table.drop(["documents"]), 258, min_documents=2)


def test_documents_of_a_pretoken_in_several_rows_are_added_up() -> None:
    """As when the tables of two languages are concatenated."""
    rows = {
        "pretoken": [b"ab", b"cd", b"ab"],
        "count": [9, 9, 1],
        "documents": pa.array([1, 1, 2**64 - 1], pa.uint64()),
    }
    table = pa.concat_tables([pa.table(rows).slice(0, 2), pa.table(rows).slice(2)])
    assert joined(learn_bpe(table, 300, allow_smaller=True, min_documents=2)) == [(b"ab", 10)]


@pytest.mark.parametrize("name", ALL)
def test_the_longest_token_allowed_is_of_exactly_that_many_bytes(name: str) -> None:
    merges = learned({b"abcdefgh": 5}, 100, name, max_token_bytes=4)
    assert max(len(merge.left + merge.right) for merge in merges) == 4
    assert max(len(merge.left + merge.right) for merge in learned({b"abcdefgh": 5}, 100, name)) == 8


def test_arguments_out_of_range_are_refused() -> None:
    table = table_of({b"abc": 3})
    for arguments, message in (
        ({"vocab_size": 255}, "vocab_size"),
        ({"vocab_size": 257, "min_count": -1}, "min_count"),
        ({"vocab_size": 257, "max_token_bytes": 1}, "max_token_bytes"),
        ({"vocab_size": 257, "threads": 0}, "threads"),
    ):
        with pytest.raises(ConfigError, match=message):
            learn_bpe(table, **arguments)
    with pytest.raises(LearnError, match="empty"):
        learn_bpe(table_of({}), 257)
    with pytest.raises(FormatError, match="pretoken"):
        learn_bpe(pa.table({"word": [b"a"], "count": [1]}), 257)
    assert learn_bpe(table, 256) == []


def test_rows_that_do_not_start_at_the_first_byte() -> None:
    batch = make_texts_from_strings([b"zzzz", b"ab", b"ab"])
    part = batch._replace(offsets=batch.offsets[1:])
    merges = learn_rows(part, np.array([1, 2], np.uint64), vocab_size=257)
    assert (merges.pairs.tolist(), merges.counts.tolist()) == ([[ID_OF_BYTE[byte] for byte in b"ab"]], [3])


@pytest.mark.parametrize("wrong", [5, None, "counts/en.parquet", {"pretoken": [b"a"], "count": [1]}])
def test_what_is_no_table(wrong):
    with pytest.raises(TypeError, match=rf"found {type(wrong).__name__}: pyarrow\.parquet\.read_table reads one"):
        learn_bpe(wrong, 257)


def test_dictionary_columns_are_read():
    table = count_pretokens(["low lower", "low"])
    coded = table.set_column(0, "pretoken", table["pretoken"].dictionary_encode())
    assert learn_bpe(coded, 258) == learn_bpe(table, 258)
