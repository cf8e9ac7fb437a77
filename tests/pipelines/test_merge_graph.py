"""The laws of MergeToFew: any tree of add, merge, compact and encode gives the same rows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from tokcore.count.keyed_runs import merge_keyed_rows
from tokcore.count.pretoken_rows import CountRows, list_rows, make_rows
from tokcore.errors import LedgerError
from tokcore_pipelines.run.engines.merge_graph import MergeToFew
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.runs import read_section, write_section
from tokcore_schemas.refs import LanguageCounts, RunRef

tables = st.dictionaries(
    st.binary(min_size=1, max_size=3),
    st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 20)),
    min_size=1,
    max_size=8,
)


def rows_of(table: dict[bytes, tuple[int, int]]) -> CountRows:
    return make_rows(sorted((key, count, documents) for key, (count, documents) in table.items()))


def summed(parts: list[dict[bytes, tuple[int, int]]]) -> list[tuple[bytes, int, int]]:
    counts: Counter[bytes] = Counter()
    documents: Counter[bytes] = Counter()
    for part in parts:
        for key, (count, docs) in part.items():
            counts[key] += count
            documents[key] += docs
    return sorted((key, counts[key], documents[key]) for key in counts)


def written(attempts: Attempts, table: dict[bytes, tuple[int, int]]) -> RunRef:
    with attempts.new_file("test.run") as new:
        return write_section(new.file, new.attempt, 0, [("en", rows_of(table))])


def list_added_up(attempts: Attempts, runs: Iterable[RunRef]) -> list[tuple[bytes, int, int]]:
    pieces = merge_keyed_rows([read_section(attempts, run) for run in runs])
    return [row for _, block in pieces for row in list_rows(block)]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    return Attempts(str(tmp_path_factory.mktemp("merge")), "counts", "0" * 64)


@examples(60)
@given(
    parts=st.lists(tables, min_size=1, max_size=9),
    random=st.randoms(use_true_random=False),
    fan_in=st.integers(2, 4),
    max_runs=st.integers(1, 5),
)
def test_any_tree_gives_the_same_rows(attempts, parts, random, fan_in, max_runs):
    combine = MergeToFew(attempts, max_runs, fan_in=fan_in)
    coder = combine.get_accumulator_coder()
    accumulators = [combine.create_accumulator()]
    for part in parts:
        if random.random() < 0.4:
            accumulators.append(combine.create_accumulator())
        which = random.randrange(len(accumulators))
        run = written(attempts, part)
        if random.random() < 0.2:  # the runner gave this attempt up and repeated it
            combine.add_input(accumulators[which], run)
        accumulators[which] = combine.add_input(accumulators[which], run)
        if random.random() < 0.2:
            accumulators[which] = combine.compact(accumulators[which])
    while len(accumulators) > 1:
        random.shuffle(accumulators)
        taken = [accumulators.pop() for _ in range(random.randint(2, len(accumulators)))]
        sent = [list(coder.decode(coder.encode(a))) for a in taken]
        if random.random() < 0.2:
            combine.merge_accumulators(sent)
        merged = combine.merge_accumulators(sent)
        tiers = {run.size_bytes.bit_length() // (fan_in.bit_length() - 1) for run in merged}
        assert len(merged) <= (fan_in - 1) * len(tiers), "an accumulator must stay bounded"
        accumulators.append(combine.compact(merged))
    runs = combine.extract_output(accumulators[0])
    assert len(runs) <= max_runs
    assert list_added_up(attempts, runs) == summed(parts)


def test_what_a_table_can_take_in_is_not_merged_before(attempts):
    runs = [written(attempts, {b"a": (i, 1)}) for i in range(1, 6)]
    assert MergeToFew(attempts, 5).extract_output(runs) == tuple(runs)
    few = MergeToFew(attempts, 3).extract_output(runs)
    assert set(few[:2]) < set(runs)
    assert list_added_up(attempts, few) == [(b"a", 15, 5)]


def test_merging_again_finds_the_earlier_result(attempts):
    combine = MergeToFew(attempts, 1, fan_in=2)  # of three runs, two are chosen to be merged first
    runs = [written(attempts, {key: (1, 1)}) for key in (b"a", b"b", b"c")]
    first = combine.extract_output(runs)
    files = sorted(Path(attempts.folder).rglob("*"))
    assert combine.extract_output(runs[::-1]) == first
    assert sorted(Path(attempts.folder).rglob("*")) == files, "it was merged again"


def test_a_merge_needs_two_runs(attempts):
    with pytest.raises(ValueError, match="fan_in"):
        MergeToFew(attempts, 1, fan_in=1)


FIELDS = range(len(dataclasses.fields(LanguageCounts)))
counts = st.builds(LanguageCounts, *[st.integers(0, 1 << 62) for _ in FIELDS])


@given(st.lists(st.dictionaries(st.sampled_from(["de", "en", "ru"]), counts), max_size=8))
def test_the_totals_of_languages_are_those_of_all_items(parts):
    totals = add_up_languages(parts)
    assert list(totals) == sorted({lang for part in parts for lang in part})
    for lang, total in totals.items():
        mine = [part[lang].values() for part in parts if lang in part]
        assert total.values() == tuple(sum(values[i] for values in mine) for i in FIELDS)


def test_a_run_that_is_not_what_was_written_is_not_merged(attempts):
    """Any flipped bit is found, even if no decoder would notice it."""
    run = written(attempts, {b"abc": (5, 2), b"abd": (7, 3)})
    path = Path(attempts.url(run.attempt))
    data = path.read_bytes()
    for at in range(run.offset, run.offset + run.size_bytes, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(LedgerError, match=rf"{path.name}: at byte 0"):
            list(read_section(attempts, run))
    path.write_bytes(data)
    assert sum(rows.num_rows for _, rows in read_section(attempts, run)) == 2


@pytest.mark.parametrize(("num", "fan_in", "expected"), [(64, 4, 192), (256, 16, 512), (17, 16, 34), (1000, 16, 3000)])
def test_what_was_merged_is_read_again_only_with_its_like(monkeypatch, num, fan_in, expected):
    """Of 64 runs, a chain that merges all it holds reads 714 units, one that sorts them 414, a balanced tree 192."""
    read = []

    def merge(self, runs):
        assert len(runs) <= fan_in
        read.append(sum(run.size_bytes for run in runs))
        return RunRef("en", 0, f"merged-{len(read)}", 0, read[-1], "")

    monkeypatch.setattr(MergeToFew, "_merge", merge)
    tables = MergeToFew(Attempts("/nowhere", "counts", "0" * 64), 1, fan_in=fan_in)
    runs: list[RunRef] = []
    for number in range(num):
        runs = tables.add_input(runs, RunRef("en", 0, f"item-{number:04d}", 0, 1, ""))
    assert [run.size_bytes for run in tables.extract_output(runs)] == [num]
    assert sum(read) <= expected
