"""Learning in rounds, from words that are read again and again: the merges and counts of learning from all at once."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows
from tokcore.errors import LearnError
from tokcore.learn.rounds import (
    LEAST_BYTES,
    MergesSoFar,
    Round,
    RoundSizes,
    TooLittleRoomError,
    divide_memory,
    find_highest,
    learn_in_rounds,
    show_rows,
)
from tokcore.reference import reference
from tokcore.text.byte_alphabet import ID_OF_BYTE
from tokcore.text.texts import make_texts_from_strings

Merges = list[tuple[int, int, int]]

words = st.text(st.sampled_from("ab"), max_size=12) | st.text(st.sampled_from("abc é\n日"), max_size=9)
long_words = st.lists(st.sampled_from(["a", "b", "ab", "aaa", "c" * 60]), min_size=100, max_size=130).map("".join)
tables = st.dictionaries((words | long_words).map(str.encode), st.integers(0, 5), max_size=15)


def learned_in_rounds(
    counts: dict[bytes, int],
    sizes: RoundSizes,
    num_merges: int = 1000,
    block_rows: int = 4,
    name: str = kernel.list_available()[0],
    told: list[Round] | None = None,
    **options: int,
) -> Merges:
    def read() -> Iterator[CountRows]:
        items = list(counts.items())
        for start in range(0, len(items), block_rows):
            block = items[start : start + block_rows]
            numbers = np.array([count for _, count in block], np.uint64)
            yield CountRows(make_texts_from_strings([key for key, _ in block]), numbers, numbers)

    hear = (lambda one: None) if told is None else told.append
    with kernel.force(name):
        found = learn_in_rounds(read, sizes, num_merges, **{"min_count": 1} | options, on_round=hear)
    return list_merges(found)


def list_merges(found: MergesSoFar) -> Merges:
    return list(zip(found.left.tolist(), found.right.tolist(), found.counts.tolist(), strict=True))


def learned_by_definition(counts: dict[bytes, int], num_merges: int = 1000, least: int = 1, longest: int = 0) -> Merges:
    rows = [([ID_OF_BYTE[byte] for byte in text], count) for text, count in counts.items()]
    return reference.learn_merges(rows, num_merges, least, longest)


def make_sizes(counts: dict[bytes, int], sizes: Sequence[int]) -> RoundSizes:
    return RoundSizes(sizes[0], sizes[1], max(sizes[1] * 6, 2 + sum(map(len, counts))))


@example({b"a" * 300: 1, b"ab" * 200: 3}, [4, 3], 2, 1, 0)
@example({b"abab": 3, b"ba": 3, b"aaaa": 2, b"aaaaa": 1}, [1, 2], 1, 1, 0)
@given(
    tables,
    st.tuples(st.integers(1, 12), st.integers(1, 20)),
    st.integers(1, 3),
    st.integers(0, 4),
    st.sampled_from([0, 0, 2, 3, 5]),
)
def test_any_table_in_any_room_gives_the_merges_of_learning_at_once(
    counts: dict[bytes, int], sizes: Sequence[int], threads: int, least: int, longest: int
) -> None:
    """Where there is not even the room for one merge, it says so; it never gives others."""
    expected = learned_by_definition(counts, 60, least, longest)
    options = {"min_count": least, "max_token_bytes": longest}
    is_short = max(map(len, counts), default=0) < 20  # the reference merges slowly
    for name in kernel.list_available() if is_short else kernel.list_available()[:1]:
        told: list[Round] = []
        try:
            room = make_sizes(counts, sizes)
            found = learned_in_rounds(counts, room, 60, name=name, told=told, threads=threads, **options)
        except LearnError as error:
            assert str(error).startswith("the memory is too small")  # noqa: PT017
            assert told == [] or told[-1].num_merges < len(expected) or told[-1].floor > max(1, least)
        else:
            assert found == expected


def learned_by_parts(
    parts: Sequence[dict[bytes, int]], sizes: RoundSizes, whole: RoundSizes, num_merges: int, least: int, longest: int
) -> Merges:
    """As several processes do it: each has some of the rows, and less room than the one that learns."""
    so_far = MergesSoFar()
    rows = [(make_texts_from_strings([*part]), np.array([*part.values()], np.uint64)) for part in parts]
    while not so_far.is_over(num_merges, least):
        first = [so_far.begin_round(sizes, longest) for _ in parts]
        for one, own in zip(first, rows, strict=True):
            show_rows(one, iter([CountRows(*own, own[1])]))
        bounds = sum((one.bounds for one in first), np.zeros(2**sizes.bound_bits, np.uint64))
        last = so_far.begin_round(whole, longest)
        last.bounds = bounds
        floor = so_far.guess_floor(last.highest_bound, num_merges, least)
        second = [so_far.begin_round(sizes, longest) for _ in parts]
        for one, own in zip(second, rows, strict=True):
            one.bounds = bounds
            one.begin_pieces(floor)
            one.add_pieces(*own)
        last.begin_pieces(*find_highest(one.limit for one in second))
        for one in second:
            last.add_cut_pieces(one.pieces)
        so_far = so_far.learn(last, num_merges)
    return list_merges(so_far)


@example([{b"abab": 3}, {b"abab": 2, b"ba": 3}, {b"aaaa": 2, b"aaaaa": 1}], [1, 2], 1, 0)
@given(
    st.lists(tables, min_size=1, max_size=4),
    st.tuples(st.integers(1, 12), st.integers(1, 20)),
    st.integers(0, 4),
    st.sampled_from([0, 0, 2, 3, 5]),
)
def test_any_dealing_of_the_rows_gives_the_merges_of_learning_at_once(
    parts: list[dict[bytes, int]], sizes: Sequence[int], least: int, longest: int
) -> None:
    counts = sum(map(Counter, parts), Counter())  # a row may be in several parts
    expected = learned_by_definition(counts, 60, least, longest)
    room = make_sizes(counts, sizes)
    for name in kernel.list_available() if max(map(len, counts), default=0) < 20 else kernel.list_available()[:1]:
        with kernel.force(name):
            try:
                found = learned_by_parts(parts, room, room._replace(max_pieces=2 * sizes[1]), 60, least, longest)
            except LearnError as error:
                assert str(error).startswith("the memory is too small")  # noqa: PT017
            else:
                assert found == expected


def test_pieces_of_unknown_symbols_are_refused() -> None:
    for name in kernel.list_available():
        with kernel.force(name):
            one = MergesSoFar().begin_round(RoundSizes(4, 9, 99))
            one.begin_pieces(1)
            with pytest.raises(ValueError, match="not there yet"):
                one.add_cut_pieces(
                    kernel.Pieces(np.array([1, 256], np.uint32), np.array([0, 2]), np.array([1], np.uint64))
                )


def random_table(seed: int, num: int, letters: bytes, longest: int, top: int) -> dict[bytes, int]:
    rnd = random.Random(seed)
    return {bytes(rnd.choices(letters, k=rnd.randint(1, longest))): int(top / rnd.randint(1, top)) for _ in range(num)}


@pytest.mark.parametrize("weights", [(1,), (1, 3, 1009), (2**20, 2**35 + 1)])
@pytest.mark.parametrize("bound_bits", [12, 16])
def test_a_large_table_takes_rounds_and_gives_the_same(weights: tuple[int, ...], bound_bits: int) -> None:
    """Counts as languages are weighted. With few bounds most pairs share theirs: more is kept, nothing changes."""
    table = random_table(9, 4_000, b"etaoin shrdlu\xc3\xa9", 9, 500)
    counts = {text: count * weights[i % len(weights)] for i, (text, count) in enumerate(table.items())}
    texts, numbers = make_texts_from_strings(list(counts)), np.array(list(counts.values()), np.uint64)
    expected = list(zip(*(column.tolist() for column in kernel.learn_merges(texts, numbers, 3000, 1)), strict=True))
    told: list[Round] = []
    sizes = RoundSizes(bound_bits, 1800 if bound_bits == 16 else 2600, 20_000)
    assert learned_in_rounds(counts, sizes, 3000, 700, told=told) == expected
    assert len(told) >= 3
    assert [one.floor for one in told] == sorted({one.floor for one in told}, reverse=True)
    assert all(one.num_pieces <= sizes.max_pieces for one in told)


def test_each_floor_gives_exactly_the_merges_that_reach_it() -> None:
    """A round alone, after each number of merges: its merges are those whose counts reach its floor, and no others."""
    counts = random_table(3, 60, b"abc", 10, 40) | {b"a" * 9: 5, b"ab" * 140: 2}
    expected = learned_by_definition(counts, 50)
    texts, numbers = make_texts_from_strings(list(counts)), np.array(list(counts.values()), np.uint64)
    left, right, of_merges = (np.array(column) for column in zip(*expected, strict=True))
    for name in kernel.list_available():
        for known in range(0, 50, 1 if name != "reference" else 9):
            for floor in {*of_merges[known:].tolist(), *(of_merges[known:] + 1).tolist()}:
                with kernel.force(name):
                    parts = left[:known].astype(np.int32), right[:known].astype(np.int32)
                    one = kernel.FloorRound(*parts, False, 0, 1, 12, 1000, 10_000)
                    one.add_counts(texts, numbers)
                    one.begin_pieces(floor)
                    one.add_pieces(texts, numbers)
                    found = one.learn(50 - known, 1)
                reaching = [merge for merge in expected[known:] if merge[2] >= floor]
                assert list(zip(*(column.tolist() for column in found), strict=True)) == reaching, (known, floor)


def test_counts_near_the_limit_of_64_bits() -> None:
    most = 2**63 - 1
    sizes = RoundSizes(8, 10, 100)
    assert learned_in_rounds({b"ab": most}, sizes) == learned_by_definition({b"ab": most})
    for name in kernel.list_available():
        with pytest.raises(LearnError, match=r"counts of the table are too large.*2\*\*63 - 1"):
            learned_in_rounds({b"ab": most, b"cd": 1}, sizes, name=name)


def test_words_that_have_ends() -> None:
    counts = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b"aaaa": 4}
    rows = [([ID_OF_BYTE[byte] for byte in text], count) for text, count in counts.items()]
    for word, _ in rows:
        word[-1] += 256
    expected = reference.learn_merges(rows, 30, 1, 0, None, [1] * 512)
    for name in kernel.list_available():
        told: list[Round] = []
        found = learned_in_rounds(counts, RoundSizes(12, 4, 60), 30, name=name, told=told, ends_words=True)
        assert found == expected
        assert len(told) > 1


def test_pairs_that_are_about_equally_frequent_are_told_apart() -> None:
    """A floor that is a quarter higher leaves no pair at all, so one in between is found."""
    rnd = random.Random(5)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "os")]
    counts = {"".join(rnd.choices(syllables, k=rnd.randint(2, 7))).encode(): 1 for _ in range(20_000)}
    texts, numbers = make_texts_from_strings(list(counts)), np.array(list(counts.values()), np.uint64)
    expected = list(zip(*(column.tolist() for column in kernel.learn_merges(texts, numbers, 1000, 1)), strict=True))
    told: list[Round] = []
    assert learned_in_rounds(counts, RoundSizes(16, 3_000, 24_000), 1000, 5_000, told=told) == expected
    assert len(told) < 10


def list_all_pairs(letters: bytes) -> bytes:
    """A text in which each pair of letters stands once, those of a letter with itself included."""
    text = bytearray()
    for i, first in enumerate(letters):
        text += bytes([first])
        for second in letters[i + 1 :]:
            text += bytes([first, second])
    return bytes(text) + letters[:1]


def cut(text: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Words of these sizes, in turn, each of which begins with the letter that the last one ended with."""
    begin = 0
    while begin < len(text) - 1:
        for size in sizes:
            yield text[begin : begin + size + 1]
            begin += size


def test_all_pairs_are_there_once() -> None:
    pairs = Counter(itertools.pairwise(list_all_pairs(b"abcde")))
    assert len(pairs) == 25
    assert {*pairs.values()} == {1}


@example(26, [1], [5], 6, [0, 1])
@given(
    st.integers(2, 26),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(6, 40),
    st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
def test_ties_are_told_apart_in_any_room(
    num_letters: int, sizes: Sequence[int], of_words: Sequence[int], pieces: int, dealt: Sequence[int]
) -> None:
    """Pairs that all have one count, or one of two: a count cannot separate them. There is always room for some."""
    words = [word for word in cut(list_all_pairs(bytes(range(97, 97 + num_letters))), sizes) if len(word) > 1]
    counts: Counter[bytes] = Counter()
    for i, word in enumerate(words):
        counts[word] += of_words[i % len(of_words)]
    texts, numbers = make_texts_from_strings(list(counts)), np.array(list(counts.values()), np.uint64)
    expected = list(zip(*(column.tolist() for column in kernel.learn_merges(texts, numbers, 90, 1)), strict=True))
    room = RoundSizes(16, pieces, 12 * pieces)  # pairs seldom share their bounds
    parts: list[dict[bytes, int]] = [{}, {}, {}]
    for i, (word, count) in enumerate(counts.items()):
        parts[dealt[i % len(dealt)]][word] = count
    for name in kernel.list_available() if num_letters < 5 else kernel.list_available()[:1]:
        told: list[Round] = []
        assert learned_in_rounds(counts, room, 90, name=name, told=told) == expected
        assert len(told) == 1 or any(one.num_pieces * 2 >= pieces for one in told)
        with kernel.force(name):
            assert learned_by_parts(parts, room, room, 90, 1, 0) == expected


def test_as_many_equal_pairs_as_there_are_of_bytes() -> None:
    """One round takes what fits, down to a pair in the middle of the order; few rounds are enough."""
    words = [bytes([a, b]) for a in range(97, 123) for b in range(256)]
    counts = dict.fromkeys(words, 7)
    told: list[Round] = []
    found = learned_in_rounds(counts, RoundSizes(18, 1_000, 9_000), 5_000, 500, told=told)
    assert [merge[:2] for merge in found] == sorted((ID_OF_BYTE[a], ID_OF_BYTE[b]) for a, b in words)[:5_000]
    assert {merge[2] for merge in found} == {7}
    assert len(told) < 20
    assert all(one.floor == 7 for one in told)


def test_room_that_is_too_small_is_said() -> None:
    """Two numbers bound all pairs, so they cannot be told apart; and they do not fit together."""
    counts = {bytes([97 + i, 98 + i, 99 + i]): 7 for i in range(0, 20, 3)}
    with pytest.raises(TooLittleRoomError, match=r"memory is too small"):
        learned_in_rounds(counts, RoundSizes(1, 2, 100), name=kernel.list_available()[0])


def test_merges_of_nothing_are_refused() -> None:
    for left in (-1, 256):
        with pytest.raises(ValueError, match="not there yet"):
            kernel.FloorRound(np.array([left], np.int32), np.zeros(1, np.int32), False, 0, 1, 8, 1, 9)


def test_memory_is_divided() -> None:
    assert divide_memory(0) == divide_memory(LEAST_BYTES)
    sizes = divide_memory(1 << 30)
    assert 8 << sizes.bound_bits <= 1 << 28
    # Twice the table: pieces are cut again from one into the other.
    assert (8 << sizes.bound_bits) + 2 * (sizes.max_pieces * (24 + 16) + 4 * sizes.max_symbols) < 1 << 30
