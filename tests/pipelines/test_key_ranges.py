"""Counts are dealt into ranges of keys, and merged by range: what tables hold does not depend on the ranges."""

from __future__ import annotations

import dataclasses
import io
import itertools
import re
import uuid
from collections import Counter
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import ON_BEAM, build_file, drop_result_keys, jsonl, run, texts, tree, write

from tokcore.count import pretoken_tables
from tokcore.count.count_tables import open_counts
from tokcore.count.keyed_runs import Piece
from tokcore.count.pretoken_rows import list_rows, make_rows
from tokcore.count.pretoken_tables import read_table
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build import count_corpus, item_steps
from tokcore_pipelines.build.commit import find_manifests
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work import count_item, merge_tree
from tokcore_pipelines.work.count_item import LanguageTables
from tokcore_pipelines.work.item_reader import LanguageTally
from tokcore_pipelines.work.key_ranges import Bound, HashedKeys, KeyRanges, choose_ranges
from tokcore_pipelines.work.merge_tree import gather_runs
from tokcore_pipelines.work.range_tables import RangeToTables, join_table, list_shared_tables, write_range
from tokcore_pipelines.work.runs import read_section, write_run_file
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.refs import RunRef, TableRef, pack_runs
from tokcore_schemas.stage_table import STAGES, WHOLE

KEYS = ("de", "en", "en/train/a", "zh")
rows_of_tables = st.lists(st.tuples(st.sampled_from(KEYS), st.binary(max_size=2)), unique=True).map(sorted)


def cut(rows: list[tuple[str, bytes]], size: int) -> list[Piece]:
    """Pieces of at most that many rows."""
    return [
        (key, make_rows([(pretoken, 1, 1) for _, pretoken in few[start : start + size]]))
        for key, own in itertools.groupby(rows, lambda row: row[0])
        for few in [list(own)]
        for start in range(0, len(few), size)
    ]


@given(rows_of_tables, rows_of_tables, st.integers(1, 5))
def test_every_row_is_dealt_once_and_in_order(rows, bounds, size):
    ranges = KeyRanges(tuple(Bound(key, pretoken.hex()) for key, pretoken in bounds))
    dealt = [(number, (key, row[0])) for number, (key, some) in ranges.deal(cut(rows, size)) for row in list_rows(some)]
    assert dealt == [(sum(bound <= row for bound in bounds), row) for row in rows]
    for key in KEYS:
        numbers = {number for number, (own, _) in dealt if own == key}
        first = min(numbers, default=0)
        assert len(numbers) <= 1 or ranges.find_part(key, first) is not None
        found = [ranges.find_part(key, number) for number in sorted(numbers)]
        assert found in ([None], [number - (first - (found[0] or 0)) for number in sorted(numbers)])


@given(rows_of_tables, st.integers(1, 4))
def test_a_hash_deals_every_row_once(rows, size):
    pieces = HashedKeys(4).deal(cut(rows, size))
    dealt = [(number, (key, row[0])) for number, (key, some) in pieces for row in list_rows(some)]
    assert sorted(row for _, row in dealt) == rows
    assert dealt == sorted(dealt, key=lambda one: one[0])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(1, 16))
def test_ranges_have_about_as_many_rows_each(sizes, num):
    """At most twice the mean, and a table that would fit into one range lies in one."""
    pieces = [(f"l{i:02d}", make_rows([(b"%03d" % row, 1, 1) for row in range(size)])) for i, size in enumerate(sizes)]
    ranges = choose_ranges(pieces, num)
    bounds = [(bound.key, bound.pretoken) for bound in ranges.bounds]
    assert bounds == sorted(set(bounds))
    assert len(bounds) < num
    rows: Counter[int] = Counter()
    for number, (_, some) in ranges.deal(pieces):
        rows[number] += some.num_rows
    assert max(rows.values()) <= 2 * (sum(sizes) / num + 1)
    assert all(ranges.find_part(key, 0) is None for key, some in pieces if some.num_rows * num <= sum(sizes))


@given(st.dictionaries(st.integers(0, 70), st.tuples(st.integers(1, 1 << 47), st.binary(min_size=32, max_size=32))))
def test_runs_of_a_file_take_twelve_bytes_each(given):
    offset, runs = 0, []
    for number, (size_bytes, digest) in sorted(given.items()):
        runs.append(RunRef("", number, "file", offset, size_bytes, digest.hex()))
        offset += size_bytes
    file = pack_runs("file", runs)
    assert [*file.list_runs()] == [dataclasses.replace(run, sha256=run.sha256[:12]) for run in runs]
    assert file.size_bytes == offset
    assert len(file.packed) == (16 * (max(given) + 1) if given else 0)  # in base64


def count_words(attempts: Attempts, name: str, words: dict[str, list[str]], ranges: KeyRanges) -> LanguageTables:
    """The tables of a work item that holds these words of each language."""
    tables = LanguageTables(attempts, name, 1024, ranges)
    for lang, some in words.items():
        joined = make_texts_from_strings([" ".join(some)])
        tables.add(CountKey(lang), joined, Pretokenizer.of("gpt2"), LanguageTally())
    return tables


@pytest.mark.parametrize("num_languages", [1, 200, 2000])
def test_a_work_item_leaves_a_run_for_each_range_whatever_its_languages(num_languages, tmp_path):
    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    words = ["".join(letters) for letters in itertools.product("abcdefgh", repeat=4)]
    given = {f"l{i:04d}": words[i::num_languages] for i in range(num_languages)}
    ranges = choose_ranges([*count_words(attempts, "sample", given, KeyRanges()).take()], 8)
    assert len(ranges.bounds) == 7
    (file,) = count_words(attempts, "item", given, ranges).close()
    runs = [*file.list_runs()]
    assert [run.partition for run in runs] == [*range(8)]
    assert len(file.packed) == 8 * 16
    found = Counter(key for run in runs for key, rows in read_section(attempts, run) for _ in range(rows.num_rows))
    assert found == {key: len(set(some)) + (some[0] in some[1:]) for key, some in given.items()}
    assert len(list(Path(attempts.scratch).iterdir())) == 1


@pytest.mark.parametrize("output", ["memory://ranges-of-tests", ""])
def test_a_range_writes_its_tables_and_its_parts_of_others(output, monkeypatch, tmp_path):
    """Small ones some at a time, large ones a block at a time; a part of the one that is cut."""
    monkeypatch.setattr(pretoken_tables, "BLOCK_ROWS", 50)
    attempts = Attempts(output or str(tmp_path), "counts", uuid.uuid4().hex * 2)
    ranges = KeyRanges((Bound("large", ""), Bound("shared", b"050".hex())))
    words = {f"l{i:03d}": 1 + i % 3 for i in range(150)} | {"large": 170, "shared": 99}
    pieces = [(key, make_rows([(b"%03d" % i, 7, 1) for i in range(num)])) for key, num in sorted(words.items())]
    with attempts.new_file("item.runs") as new:
        file = write_run_file(new.file, new.attempt, ranges.deal(pieces))
    twice = gather_runs([file, file])
    assert [*twice] == [0, 1, 2]
    left = [write_range(attempts, ranges, "", RangeToTables(number, runs)) for number, runs in twice.items()]
    assert [[(part.key, part.number, part.file.rows) for part in one.parts] for one in left] == [
        [],
        [("shared", 0, 50)],
        [("shared", 1, 49)],
    ]
    (shared,) = list_shared_tables(left)
    assert join_table(attempts, "", shared).num_rows == 99
    for key, rows in pieces:
        table = attempts.result(f"table-{key}", TableRef)
        assert table is not None
        stored = [storage.read_bytes(attempts.find(file)) for file in table.file.list_files()]
        assert len(stored) == (2 if key == "shared" else 1)
        found = [row for data in stored for block in read_table(io.BytesIO(data)) for row in list_rows(block)]
        assert found == [(pretoken, 14, 2) for pretoken, _, _ in list_rows(rows)]
    again = [write_range(attempts, ranges, "", RangeToTables(number, ())) for number in twice]
    assert again == left, "what is recorded is not made again"


SOURCES = """
[[source]]
files = "*.jsonl"
lang_field = "lang"
"""
SETTINGS = """
[plan]
range_bytes = 2000
[learn]
vocab_size = 300
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many work items, of one large language and forty small ones."""
    folder = tmp_path_factory.mktemp("ranges")
    words = ["".join(letters) for letters in itertools.product("abcdefghi", repeat=3)]
    for number in range(9):
        rows = [{"lang": "en", "text": text} for text in [" ".join(words[number::9]), *texts("en", 12, number)]]
        small = enumerate(texts("ru", 9, number))
        rows += [{"lang": f"l{(number * 7 + i) % 40:02d}", "text": text} for i, text in small]
        write(folder / f"{number}.jsonl", jsonl(rows))
    build_file(folder, SOURCES, SETTINGS)
    run(folder / "build.toml", folder / "one")
    return folder


@pytest.mark.parametrize(("num", "fan_in", "parts"), [(1, 2, 0), (5, 3, 2), (64, 16, 77)])
def test_ranges_do_not_change_what_is_counted(corpus, num, fan_in, parts, monkeypatch, tmp_path):
    used = build_in_ranges(corpus, tmp_path / "out", num, monkeypatch, fan_in=fan_in)
    assert (len(used.bounds) + 1 == num) or num == 64
    assert len(list_parts(tmp_path / "out")) == parts
    assert num > 1 or tree(tmp_path / "out") == tree(corpus / "one")
    assert read_content(tmp_path / "out") == read_content(corpus / "one")


@pytest.mark.parametrize("how", [{"workers": 2}, {"runner": ON_BEAM}])
def test_ranges_are_the_same_for_all_workers(corpus, how, monkeypatch, tmp_path):
    """Those of several processes, which all look for them at once, and those of an engine."""
    build_in_ranges(corpus, tmp_path / "out", 5, monkeypatch, **how)
    assert read_content(tmp_path / "out") == read_content(corpus / "one")


def test_a_killed_build_goes_on_with_its_ranges(corpus, monkeypatch, tmp_path):
    """What a sample would give now is another matter: its first ranges stand."""
    monkeypatch.setattr(count_corpus, "choose_num_ranges", lambda _: 5)
    monkeypatch.setattr(item_steps, "merge_files", _fail)
    with pytest.raises(RuntimeError, match="killed"):
        run(corpus / "build.toml", tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(count_item, "_SAMPLE_BYTES", 10)
    used = build_in_ranges(corpus, tmp_path / "out", 5, monkeypatch)
    assert read_content(tmp_path / "out") == read_content(corpus / "one")
    other = build_in_ranges(corpus, tmp_path / "other", 5, monkeypatch)
    assert used != other


def test_inputs_that_cannot_be_sampled_are_left_to_their_work_items(corpus, monkeypatch, tmp_path):
    """Without any sample there is one range; a file that is gone is reported where it is counted."""
    monkeypatch.setattr(count_item, "read_sample", lambda _: ())
    assert build_in_ranges(corpus, tmp_path / "out", 5, monkeypatch) == KeyRanges()
    assert read_content(tmp_path / "out") == read_content(corpus / "one")


def list_parts(output: Path) -> list[Path]:
    """The files of count tables that several ranges share."""
    return sorted((output / "counts").glob("*.parquet/*.parquet"))


def read_content(output: Path) -> dict[str, Any]:
    """What an output holds, however its count tables are cut: a hash of each other file, and what roots are made of."""
    made = find_manifests(str(output), (*STAGES.values(), WHOLE))
    rows = {lang: open_counts(output, lang).to_pylist() for lang in made["counts"].languages}
    found = {drop_result_keys(PurePath(path)): sha256 for path, sha256 in tree(output).items()}
    return {
        "files": {path: sha256 for path, sha256 in found.items() if not re.search("manifest.json$|^counts/", path)},
        "content": {stage: one.content_id() for stage, one in made.items()},
        "root": made["build"].root,
        "tables": {entry.about.key: entry.content_sha256 for entry in made["counts"].files},
        "rows": rows,
    }


def build_in_ranges(
    corpus: Path, output: Path, num: int, monkeypatch: pytest.MonkeyPatch, fan_in: int = 16, **how: Any
) -> KeyRanges:
    """Build; the ranges that counts were merged by."""
    used: list[KeyRanges] = []
    monkeypatch.setattr(count_corpus, "choose_num_ranges", lambda _: num)
    for module in (merge_tree, item_steps):
        monkeypatch.setattr(module, "FAN_IN", fan_in)
    require = item_steps.require_ranges
    monkeypatch.setattr(item_steps, "require_ranges", lambda *given: used.append(require(*given)) or used[-1])
    run(corpus / "build.toml", output, **how)
    return used[-1] if used else KeyRanges()


def _fail(*_: object) -> None:
    raise RuntimeError("killed")
