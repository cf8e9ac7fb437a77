"""Counting: every implementation against the reference, sums of runs in any order, and the files that hold rows."""

from __future__ import annotations

import collections
import hashlib
import io
import itertools
import random
import struct
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.count import pretoken_tables
from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_rows import CountRows, list_rows, make_rows
from tokcore.count.pretoken_tables import merge_rows, read_run, read_table, write_run, write_table
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.errors import ConfigError, FormatError, LearnError
from tokcore.reference import reference
from tokcore.text.texts import Texts, make_texts_from_strings

ALL = kernel.list_available()
NATIVE = [name for name in ALL if name != "reference"]

GOLDEN_HASHES = {
    b"": 0xAB67ED5E2F2881C2,
    b"a": 0x3611765352F276E3,
    b" the": 0xF343FF7CDBC43460,
    b"0123456789abcdef": 0x2ADC2D5E4F88FBAC,
    b"0123456789abcdef!": 0xBDBA9204C1096EC5,
}

PIECES = [
    b"a",
    b" ",
    b"ab",
    b" the",
    b"\n",
    b"1",
    "é".encode(),
    "日本".encode(),
    "😀".encode(),
    b"\xff",
    b"\xe6\x97",
    b"x" * 9,
]
Row = tuple[bytes, int, int]
texts = st.lists(st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join), max_size=8)
keys = st.binary(max_size=3) | st.binary(min_size=7, max_size=40) | st.sampled_from([b"\0" * n for n in range(20)])
tables = st.dictionaries(keys, st.tuples(st.integers(1, 2**40), st.integers(1, 2**20)), max_size=30).map(
    lambda table: make_rows([(key, *table[key]) for key in sorted(table)])
)


def counted(documents: list[bytes], limit: int, name: str, batches: int = 1) -> tuple[list[Row], int]:
    with kernel.force(name):
        counter = kernel.Counter("cl100k", limit)
        for i in range(batches):
            counter.add(make_texts_from_strings(documents[i::batches]))
        num_pretokens = counter.num_pretokens
        rows = counter.take()
        assert counter.num_rows == counter.num_pretokens == 0
        return list_rows(rows), num_pretokens


def merged(runs: list[CountRows], multipliers: list[int] | None = None) -> list[Row]:
    return [row for block in merge_rows([[run] for run in runs], multipliers) for row in list_rows(block)]


def in_blocks(rows: CountRows, size: int) -> list[CountRows]:
    return [rows.slice(start, min(start + size, rows.num_rows)) for start in range(0, rows.num_rows, size)]


@given(texts, st.sampled_from([0, 4, 5, 7, 64]), st.integers(1, 3))
@example(["😀😀😀".encode()], 7, 1)  # the second one starts three bytes before the cut
def test_counter_equals_reference(documents: list[bytes], limit: int, batches: int) -> None:
    expected = counted(documents, limit, "reference")
    for name in NATIVE:
        assert counted(documents, limit, name, batches) == expected, name


@given(texts)
def test_pieces_count_as_the_same_text_does(documents: list[bytes]) -> None:
    batch = make_texts_from_strings(documents)
    pieces = kernel.split("cl100k", batch)
    for name in ALL:
        with kernel.force(name):
            whole, parts = kernel.Counter("cl100k", 5), kernel.Counter("gpt2", 5)
            whole.add(batch)
            parts.add_pieces(batch, *pieces)
            assert list_rows(whole.take()) == list_rows(parts.take())


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=30).map(b"".join), st.integers(4, 12))
def test_cut_parts_are_full_and_divide_no_character(word: bytes, limit: int) -> None:
    parts = reference.cut_pretoken(word, limit)
    assert b"".join(parts) == word
    assert all(0 < len(part) <= limit for part in parts)
    characters = word.decode("utf-8", "surrogateescape")
    ends = set(itertools.accumulate(len(c.encode("utf-8", "surrogateescape")) for c in characters))
    assert set(itertools.accumulate(map(len, parts))) <= ends
    for part, following in itertools.pairwise(parts):
        first = following.decode("utf-8", "surrogateescape")[0].encode("utf-8", "surrogateescape")
        assert len(part) + len(first) > limit


@pytest.mark.parametrize("name", ALL)
def test_a_part_counts_once_a_document(name: str) -> None:
    rows, num_pretokens = counted([b"aaaabbaaaa", b"aaaa"], 4, name)
    assert rows == [(b"aa", 1, 1), (b"aaaa", 2, 2), (b"bbaa", 1, 1)]
    assert num_pretokens == 4


@pytest.mark.parametrize("name", NATIVE)
def test_a_table_that_grows_loses_nothing(name: str) -> None:
    rnd = random.Random(1)
    words = [bytes(rnd.choices(b"abcdefgh", k=rnd.randint(1, 24))) for _ in range(30_000)]
    rows, _ = counted([b" ".join(words[i % 7 :: 7]) for i in range(14)], 0, name, 3)
    expected: dict[bytes, int] = {}
    for i in range(7):
        for j, word in enumerate(words[i::7]):
            key = (b" " if j else b"") + word
            expected[key] = expected.get(key, 0) + 2
    assert [(key, count) for key, count, _ in rows] == sorted(expected.items())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_large_table_loses_nothing(at_once: bool) -> None:
    """More rows than the first tables hold, with large pages from the start and without."""
    rnd = random.Random(2)
    words = [rnd.getrandbits(rnd.choice([8, 24, 60, 150])).to_bytes(19, "big").lstrip(b"\0") for _ in range(480_000)]
    texts = make_texts_from_strings(words)
    ends = texts.offsets[1:][np.diff(texts.offsets) > 0]
    firsts = np.array([0, len(ends)], np.int64)
    counter = kernel.Counter("gpt2", 0)
    if at_once:
        counter.add_pieces(Texts(texts.data, texts.offsets[[0, -1]]), ends, firsts)
    else:
        for part in np.array_split(ends, 40):
            start = texts.offsets[texts.offsets < part[0]].max()
            counter.add_pieces(Texts(texts.data, np.array([start, part[-1]])), part, np.array([0, len(part)]))
    assert 38 * counter.num_rows < counter.memory_bytes < 90 * counter.num_rows
    rows = counter.take()
    expected = collections.Counter(word for word in words if word)
    assert len(expected) > 330_000
    assert {key: count for key, count, _ in list_rows(rows)} == expected
    assert [rows.keys.text(i) for i in range(rows.num_rows)] == sorted(expected)


def test_a_counter_of_little_text_is_small() -> None:
    counter = kernel.Counter("gpt2", 0)
    empty = counter.memory_bytes
    assert empty < 200_000
    counter.add(make_texts_from_strings(["a few words " * 1000]))
    assert counter.memory_bytes == empty
    counter.add(make_texts_from_strings(["a few words " * 1000] * 100))  # large, but not the first
    assert counter.memory_bytes == empty
    counter.take()
    counter.add(make_texts_from_strings(["a few words " * 1000] * 100))
    assert counter.memory_bytes < 5_000_000
    counter.take()
    assert counter.memory_bytes == empty


@given(texts, st.sampled_from([0, 4, 64]), st.integers(0, 4), st.integers(1, 4))
def test_counters_add_up(documents: list[bytes], limit: int, num_counters: int, threads: int) -> None:
    rows = []
    for name in ALL:
        with kernel.force(name):
            counters = [kernel.Counter("cl100k", limit) for _ in range(num_counters)]
            for i, counter in enumerate(counters):
                counter.add(make_texts_from_strings(documents[i::num_counters]))
            parts = kernel.Counter.take_all(counters, threads)
            assert not any(counter.num_rows for counter in counters)
            rows.append([row for part in parts for row in list_rows(part)])
    assert all(one == rows[0] for one in rows), ALL


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_rows_of_several_counters_add_up(threads: int) -> None:
    rnd = random.Random(3)
    starts = [b"", b"x" * 11, b"x" * 12, b"x" * 15, b"\0" * 11, b"\0" * 13, b"y" * 300]
    documents = [
        b"\n".join(rnd.choice(starts) + bytes(rnd.choices(b"abcdefgh", k=rnd.randint(0, 6))) for _ in range(6_000))
        for _ in range(7)
    ]
    counters = [kernel.Counter("cl100k", 0) for _ in range(3)]
    for i, counter in enumerate(counters):
        counter.add(make_texts_from_strings(documents[i::3]))
    parts = kernel.Counter.take_all(counters, threads)
    assert len(parts) >= min(threads, 2)
    assert [row for part in parts for row in list_rows(part)] == counted(documents, 0, kernel.get_implementation())[0]


@pytest.mark.parametrize("name", ALL)
def test_counters_cannot_be_taken_twice_at_once(name: str) -> None:
    with kernel.force(name):
        counter = kernel.Counter("gpt2", 0)
        with pytest.raises(ValueError, match="named twice"):
            kernel.Counter.take_all([counter, counter])
        with pytest.raises(ValueError, match="threads = 0"):
            kernel.Counter.take_all([counter], 0)


@pytest.mark.parametrize("name", NATIVE)
def test_keys_with_a_common_beginning_are_in_order(name: str) -> None:
    words = [b"x" * size + b"%d" % number for size in (0, 13, 14, 15, 16, 40) for number in range(0, 500, 7)]
    words += [bytes([letter]) * size + end for letter in b"abc" for size in (12, 20) for end in (b"c", b"b", b"", b"a")]
    rows, _ = counted([b"\n".join(words)], 0, name)
    assert [key for key, _, _ in rows] == sorted(key for key, _, _ in rows)
    assert rows == counted([b"\n".join(words)], 0, "reference")[0]


@pytest.mark.parametrize("name", ALL)
def test_counter_refuses_what_it_cannot_count(name: str) -> None:
    with kernel.force(name):
        for limit in (-1, 1, 3):
            with pytest.raises(ValueError, match="max_pretoken_bytes"):
                kernel.Counter("cl100k", limit)


def test_native_counter_checks_pieces() -> None:
    batch = make_texts_from_strings(["ab", "c"])
    for ends, firsts in (([1, 3], [0, 1, 2]), ([2, 2, 3], [0, 2, 3]), ([2, 3], [0, 2, 2]), ([2, 4], [0, 1, 2])):
        counter = kernel.Counter("cl100k", 0)
        with pytest.raises(ValueError, match="ends"):
            counter.add_pieces(batch, np.array(ends, np.int64), np.array(firsts, np.int64))
        assert counter.num_rows == 0


@given(st.lists(st.text(max_size=12), max_size=8), st.integers(2, 5))
def test_count_pretokens_ignores_threads_and_order(documents: list[str], threads: int) -> None:
    for pattern in ("cl100k", "gpt2", r"\p{L}+|\P{L}"):
        table = count_pretokens(documents, pattern)
        assert count_pretokens(documents[::-1], pattern, threads=threads).equals(table), pattern
        assert count_pretokens(pa.array(documents, pa.string()), pattern, threads=threads).equals(table), pattern
        columns = [("pretoken", pa.binary()), ("count", pa.uint64()), ("documents", pa.uint64())]
        assert [(field.name, field.type) for field in table.schema] == columns


def test_count_pretokens_refuses_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="threads"):
        count_pretokens(["a"], threads=0)
    with pytest.raises(ConfigError, match="max_pretoken_bytes"):
        count_pretokens(["a"], max_pretoken_bytes=3)
    with pytest.raises(ConfigError, match="no pattern named"):
        count_pretokens(["a"], pattern="cl101k")
    for text in ("a text", b"a text"):
        with pytest.raises(TypeError, match="put it in a list"):
            count_pretokens(text)
    with pytest.raises(TypeError):
        count_pretokens([5])  # type: ignore[list-item]


@given(st.lists(tables, min_size=1, max_size=6), st.integers(1, 7), st.data())
def test_merge_equals_reference_in_any_order_and_blocks(runs: list[CountRows], size: int, data: st.DataObject) -> None:
    multipliers = data.draw(st.none() | st.lists(st.integers(0, 2**20), min_size=len(runs), max_size=len(runs)))
    expected: dict[bytes, tuple[int, int]] = {}
    for run, multiplier in zip(runs, multipliers or [1] * len(runs), strict=True):
        for key, count, documents in list_rows(run):
            before = expected.get(key, (0, 0))
            expected[key] = before[0] + count * multiplier, before[1] + documents
    rows = [(key, *expected[key]) for key in sorted(expected)]
    for name in ("reference", NATIVE[0]):
        with kernel.force(name):
            blocks = list(merge_rows([in_blocks(run, size) for run in runs], multipliers))
            assert [row for block in blocks for row in list_rows(block)] == rows
    order = data.draw(st.permutations(range(len(runs))))
    shuffled = [multipliers[i] for i in order] if multipliers else None
    assert merged([runs[i] for i in order], shuffled) == rows


@given(st.lists(tables, min_size=3, max_size=3))
def test_merge_is_associative(runs: list[CountRows]) -> None:
    a, b, c = runs
    ab, bc = make_rows(merged([a, b])), make_rows(merged([b, c]))
    assert merged([ab, c]) == merged([a, bc]) == merged([a, b, c])


@given(st.lists(tables, max_size=9), st.integers(2, 4), st.data())
def test_of_many_runs_few_are_open(runs: list[CountRows], most_open: int, data: st.DataObject) -> None:
    """The sum is that of all at once."""
    is_open: set[int] = set()

    def read(number: int) -> Iterator[CountRows]:
        is_open.add(number)
        assert len(is_open) <= most_open
        yield from in_blocks(runs[number], 3)
        is_open.discard(number)

    weights = st.lists(st.integers(1, 2**20), min_size=len(runs), max_size=len(runs))
    multipliers = data.draw(st.none() | weights)
    blocks = merge_many_rows([*map(read, range(len(runs)))], multipliers, most_open)
    assert [row for block in blocks for row in list_rows(block)] == merged(runs, multipliers)


@pytest.mark.parametrize("name", ["reference", NATIVE[0]])
def test_keys_of_the_largest_bytes_are_merged(name: str) -> None:
    """Nothing that a run holds is taken for the end of the run."""
    keys = [b"\xff" * length for length in range(14, 19)]
    rows = [(key, 1, 1) for key in keys]
    with kernel.force(name):
        for runs in ([rows], [rows, []], [[], rows, []], [rows[:3], rows[3:]]):
            assert merged([make_rows(run) for run in runs]) == rows
        assert merged([make_rows(rows), make_rows(rows[2:])]) == [
            (key, 1 + (number >= 2), 1 + (number >= 2)) for number, key in enumerate(keys)
        ]


@pytest.mark.parametrize("name", ["reference", NATIVE[0]])
def test_merge_adds_exactly_or_says_that_it_cannot(name: str) -> None:
    most = 2**64 - 1
    with kernel.force(name):
        assert merged([make_rows([(b"k", most - 1, most)]), make_rows([(b"k", 1, 0)])]) == [(b"k", most, most)]
        assert merged([make_rows([(b"k", 2**32, 1)])], [2**31]) == [(b"k", 2**63, 1)]
        for counts in ((most, 1), (2**63, 2**63)):
            with pytest.raises(OverflowError, match="b'k'"):
                merged([make_rows([(b"k", count, 1)]) for count in counts])
        with pytest.raises(OverflowError):
            merged([make_rows([(b"k", 1, most)]), make_rows([(b"k", 1, 1)])])
        with pytest.raises(LearnError, match="weighted"):
            merged([make_rows([(b"k", 2**32, 1)])], [2**32])


@pytest.mark.parametrize("name", ["reference", NATIVE[0]])
def test_merge_refuses_runs_that_are_not_sorted(name: str) -> None:
    with kernel.force(name):
        for rows in ([(b"b", 1, 1), (b"a", 1, 1)], [(b"a", 1, 1), (b"a", 1, 1)]):
            with pytest.raises(FormatError, match="not sorted"):
                merged([make_rows(rows)])
        with pytest.raises(FormatError, match="not sorted"):
            list(merge_rows([[make_rows([(b"b", 1, 1)]), make_rows([(b"a", 1, 1)])]]))


def test_merging_nothing_gives_nothing() -> None:
    assert list(merge_rows([])) == list(merge_rows([[], []])) == []


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from([1, 2, 8, 2**32]))
def test_partitions_follow_from_the_bytes_of_the_key(words: list[bytes], num_partitions: int) -> None:
    batch = make_texts_from_strings(words)
    expected = [reference.hash_bytes(word) * num_partitions >> 64 for word in words]
    for name in ALL:
        with kernel.force(name):
            assert pretoken_tables.assign_partitions(batch, num_partitions).tolist() == expected


def test_the_hash_never_changes() -> None:
    assert {key: reference.hash_bytes(key) for key in GOLDEN_HASHES} == GOLDEN_HASHES


def test_partitions_are_even() -> None:
    words = [f"w{i}" for i in range(8000)]
    sizes = np.bincount(pretoken_tables.assign_partitions(make_texts_from_strings(words), 8), minlength=8)
    assert sizes.min() > 900
    assert sizes.max() < 1100


@given(tables, st.sampled_from([1, 2, 16]))
def test_split_rows_deals_every_row_once(rows: CountRows, num_partitions: int) -> None:
    parts = pretoken_tables.split_rows(rows, num_partitions)
    assert len(parts) == num_partitions
    assert merged(parts) == list_rows(rows)
    for number, part in enumerate(parts):
        assert set(pretoken_tables.assign_partitions(part.keys, num_partitions).tolist()) <= {number}


def test_number_of_partitions_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        pretoken_tables.assign_partitions(make_texts_from_strings(["a"]), 3)


@given(tables, st.integers(1, 9))
def test_runs_and_tables_keep_rows(rows: CountRows, size: int) -> None:
    blocks = in_blocks(rows, size)
    for write, read in ((write_run, read_run), (write_table, read_table)):
        file, other = io.BytesIO(), io.BytesIO()
        write(file, blocks)
        write(other, [rows])
        assert file.getvalue() == other.getvalue()  # however the rows came
        file.seek(0)
        assert [row for block in read(file) for row in list_rows(block)] == list_rows(rows)


def test_runs_follow_each_other_in_one_file() -> None:
    file = io.BytesIO()
    runs = [make_rows([(b"a", 1, 1)]), make_rows([]), make_rows([(b"b", 2, 1)])]
    for run in runs:
        write_run(file, [run])
    file.seek(0)
    assert [[row for block in read_run(file) for row in list_rows(block)] for _ in runs] == [list_rows(r) for r in runs]


def test_a_run_that_ends_early_or_was_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was cut: even between two blocks, where Arrow takes it for whole."""
    monkeypatch.setattr(pretoken_tables, "BLOCK_ROWS", 50)
    rows = make_rows([(b"%05d" % i, i + 1, 1) for i in range(200)])
    file = io.BytesIO()
    write_run(file, [rows])
    data = file.getvalue()
    for end in range(len(data) - 8):
        with pytest.raises(FormatError):
            list(read_run(io.BytesIO(data[:end])))
    with pytest.raises(FormatError):
        list(read_run(io.BytesIO(b"not a run at all")))


def test_blocks_are_closed_by_rows_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretoken_tables, "BLOCK_ROWS", 10)
    monkeypatch.setattr(pretoken_tables, "BLOCK_KEY_BYTES", 40)
    rows = make_rows([(b"%03d" % i, 1, 1) for i in range(25)] + [(b"9" * 50 + b"%d" % i, 1, 1) for i in range(3)])
    file = io.BytesIO()
    write_run(file, [rows])
    file.seek(0)
    assert [block.num_rows for block in read_run(file)] == [10, 10, 6, 1, 1]


def test_a_count_table_is_plain_parquet_with_totals_over_its_rows() -> None:
    rows = [(b"", 1, 1), (b"\xff\x00", 2**64 - 1, 2), ("日".encode(), 5, 2**63)]
    rows.sort()
    file = io.BytesIO()
    totals = write_table(file, [make_rows(rows)])
    packed = b"".join(struct.pack("<I", len(key)) + key + struct.pack("<QQ", a, b) for key, a, b in rows)
    assert totals == (3, 2**64 + 5, 5, hashlib.sha256(packed).hexdigest())
    file.seek(0)
    table = pq.read_table(file)
    assert [(field.name, field.type) for field in table.schema] == [
        ("pretoken", pa.binary()),
        ("count", pa.uint64()),
        ("documents", pa.uint64()),
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert list_rows(pretoken_tables.convert_table_to_rows(table)) == rows


@given(tables)
def test_packed_rows_are_the_same_from_every_implementation(rows: CountRows) -> None:
    for name in ALL:
        with kernel.force(name):
            assert bytes(kernel.pack_rows(rows)) == reference.pack_rows(*rows.keys, rows.counts, rows.documents)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: table.drop_columns(["count"]), "count"),
        (lambda table: table.drop_columns(["pretoken"]), "pretoken"),
        (lambda table: table.set_column(1, "count", pa.array([-1])), "count"),
        (lambda table: table.set_column(1, "count", pa.array([1.5])), "integers"),
        (lambda table: table.set_column(1, "count", pa.array([None], pa.uint64())), "nulls"),
        (lambda table: table.set_column(0, "pretoken", pa.array([7])), "binary"),
    ],
)
def test_tables_that_are_no_count_tables_are_refused(damage: Callable[[pa.Table], pa.Table], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        pretoken_tables.convert_table_to_rows(damage(count_pretokens(["a"])))


def test_a_file_that_is_no_count_table_is_refused() -> None:
    with pytest.raises(FormatError, match="not a count table"):
        list(read_table(io.BytesIO(b"PAR1 or something like it")))
    other = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(FormatError, match="its columns are"):
        list(read_table(other))


@example([])
@given(st.lists(st.binary(max_size=6), max_size=6))
def test_rows_to_table_and_back(words: list[bytes]) -> None:
    rows = make_rows([(word, 3, 2) for word in sorted(set(words))])
    table = pretoken_tables.convert_rows_to_table(rows)
    table.validate(full=True)
    assert list_rows(pretoken_tables.convert_table_to_rows(table)) == list_rows(rows)
    assert pretoken_tables.convert_rows_to_table(in_blocks(rows, 2)).equals(table)
