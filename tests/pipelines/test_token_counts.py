"""shards/token_counts.parquet: equal to counting by hand, whatever shards, items and sources the documents are in."""

from __future__ import annotations

import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import SOURCES, build_file, jsonl, run, small_corpus, texts, write
from support.forging import Forger

import tokcore as api
from tokcore import kernel
from tokcore.count import token_counts
from tokcore.count.token_counts import add_up, read_id_rows
from tokcore.errors import FormatError, LedgerError
from tokcore.kernel import IdRows
from tokcore.reference import reference
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.look import top_sources
from tokcore_pipelines.look.top_sources import TopSource, find_top_sources
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.token_count_runs import read_id_run, write_id_run
from tokcore_schemas.stage_manifests import CorpusAbout
from tokcore_schemas.stage_table import SHARDS

TABLE = "shards/token_counts.parquet"


Rows = list[tuple[int, int, int, int]]


def by_hand(output: Path) -> tuple[Rows, dict[int, TopSource]]:
    """Rows of the table and the top source of each id, from the shards of a build, one document after the other."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    documents: Counter[int] = Counter()
    most: Counter[int] = Counter()
    shards = api.open_shards(output, split="all")
    for row in range(len(shards)):
        source = shards.document(row).source
        for id, number in Counter(shards[row].tolist()).items():
            counts[id][source] += number
            documents[id] += 1
            most[id] = max(most[id], number)
    rows = [(id, of.total(), documents[id], most[id]) for id, of in sorted(counts.items())]
    tops = {id: TopSource(*min(of.items(), key=lambda item: (-item[1], item[0]))) for id, of in counts.items()}
    return rows, tops


def table_rows(output: Path) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in pq.read_table(output / TABLE).to_pylist()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    for i in range(5):  # small files, several to a work item
        write(folder / f"small-{i}.jsonl", jsonl([{"text": text} for text in texts("en", i + 1, i)]))
    return folder


SMALL = SOURCES + '[[source]]\nlang = "en"\nfiles = "small-*.jsonl"\n'


@pytest.mark.parametrize(
    ("shards", "range_bytes", "workers"),
    [
        ("target_tokens = 2000", 1500, 2),
        ('target_tokens = 300\nby = "lang"\nvalidation = 0.3', 20_000, 1),
        ("target_tokens = 300\n[shuffle]\nseed = 3", 1500, 1),
    ],
)
def test_table_and_top_sources_are_what_the_shards_hold(corpus, shards, range_bytes, workers, tmp_path, monkeypatch):
    """Files cut into ranges, shards cut within files, several files to an item, streams by language and split.

    In the order of the plan, and shuffled; then counts go to several temporary files.
    """
    monkeypatch.setattr(top_sources, "SPILL_TOKENS", 500)
    settings = f"[plan]\nrange_bytes = {range_bytes}\n[learn]\nvocab_size = 400\n[shards]\n{shards}\n"
    run(build_file(corpus, SMALL, settings), tmp_path / "out", workers)
    expected, tops = by_hand(tmp_path / "out")
    assert table_rows(tmp_path / "out") == expected
    manifest = find_manifest(str(tmp_path / "out"), SHARDS)
    assert find_top_sources(Stored(str(tmp_path / "out")), 400) == tops
    assert len({top.uri for top in tops.values()}) > 3
    entry = manifest.files[-1]
    assert entry.path == "token_counts.parquet"
    assert entry.about == CorpusAbout(documents=117, tokens=manifest.totals.tokens)
    assert sum(row[1] for row in expected) == manifest.totals.tokens
    schema = pq.read_schema(tmp_path / "out" / TABLE)
    assert [str(kind) for kind in schema.types] == ["int32", "uint64", "uint64", "uint64"]
    assert verify(str(tmp_path / "out")).problems == ()


token_lists = st.lists(st.integers(0, 5) | st.sampled_from([300, 2**22 - 1, 2**22, 2**31 - 1]), max_size=12)


@given(st.lists(st.lists(token_lists, max_size=4), max_size=4))
def test_native_equals_reference(batches: list[list[list[int]]]) -> None:
    native, slow = kernel.IdCounter(), reference.IdCounter()
    for _ in range(2):  # it can be used again
        for documents in batches:
            ids = np.array([7, *(id for document in documents for id in document)], np.int32)
            offsets = np.cumsum([1, *map(len, documents)])
            native.add(ids, offsets)
            slow.add(ids, offsets)
        for ours, theirs in zip(native.take(), slow.take(), strict=True):
            assert (ours.tolist(), ours.dtype) == (theirs.tolist(), theirs.dtype)


@pytest.mark.parametrize("name", kernel.list_available())
def test_a_negative_id_is_refused(name: str) -> None:
    with kernel.force(name):
        counter = kernel.IdCounter()
        with pytest.raises(ValueError, match="negative"):
            counter.add(np.array([1, -1], np.int32), np.array([0, 2]))
        assert counter.take().ids.tolist() == []


def columns(rows: IdRows) -> list[list[int]]:
    return [column.tolist() for column in rows]


def rows_of(documents: Iterable[list[int]]) -> IdRows:
    counter = kernel.IdCounter()
    for ids in documents:
        counter.add(np.array(ids, np.int32), np.array([0, len(ids)]))
    return counter.take()


some_ids = st.lists(st.integers(0, 4) | st.sampled_from([2**22, 2**31 - 1]), min_size=1, max_size=6)


@given(st.lists(some_ids, max_size=12), st.randoms(use_true_random=False))
def test_any_order_and_tree_of_additions_gives_the_same(documents: list[list[int]], chance) -> None:
    parts = [rows_of([ids]) for ids in documents] or [rows_of([])]
    while len(parts) > 1:
        chance.shuffle(parts)
        some = chance.randint(2, 4)
        stored = io.BytesIO()
        token_counts.write_id_rows(stored, add_up(parts[:some]))
        parts = [read_id_rows(io.BytesIO(stored.getvalue())), *parts[some:]]
    assert columns(add_up(parts)) == columns(rows_of(documents))


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[: len(data) // 2], lambda data: b""])
def test_damaged_files_are_refused(damage) -> None:
    rows = rows_of([[1, 2, 2]])
    run, table = io.BytesIO(), io.BytesIO()
    token_counts.write_id_rows(run, rows)
    token_counts.write_id_table(table, token_counts.make_table(rows))
    assert token_counts.read_id_table(table).to_pydict()["count"] == [1, 2]
    with pytest.raises(FormatError, match="counts of token ids"):
        read_id_rows(io.BytesIO(damage(run.getvalue())))
    with pytest.raises(FormatError, match="token counts"):
        token_counts.read_id_table(io.BytesIO(damage(table.getvalue())))


def test_the_content_of_a_table_is_a_hash_over_its_columns() -> None:
    table = token_counts.make_table(rows_of([[1, 2, 2], [2]]))
    columns = [np.array([1, 2], "<i4"), *(np.array(values, "<u8") for values in ([1, 3], [1, 2], [1, 2]))]
    digests = b"".join(hashlib.sha256(column.tobytes()).digest() for column in columns)
    assert token_counts.hash_content(table) == hashlib.sha256(b"tokcore-token-counts-v2" + digests).hexdigest()


@pytest.mark.parametrize("place", [0, 100, -1])
def test_counts_of_a_worker_are_what_it_wrote_or_its_stage_is_done_again(tmp_path, place):
    attempts = Attempts(str(tmp_path), "shards", "0" * 64)
    counts = write_id_run(attempts, "item-00000", rows_of([[3, 3, 5]]))
    assert columns(read_id_run(attempts, counts)) == [[3, 5], [2, 1], [1, 1], [2, 1]]
    stored = Path(attempts.url(counts.attempt))
    data = bytearray(stored.read_bytes())
    data[place] ^= 1
    stored.write_bytes(data)
    with pytest.raises(LedgerError, match="not the counts that were written there"):
        read_id_run(attempts, counts)


def test_verification_counts_the_tokens_again(corpus, tmp_path):
    """A table that was rewritten consistently, together with its manifests, is found all the same."""
    out = tmp_path / "out"
    run(build_file(corpus, SMALL, "[learn]\nvocab_size = 400\n", "again.toml"), out, 1)
    forger = Forger(out)
    table = pq.read_table(out / TABLE)
    counts = table["count"].to_numpy().copy()
    counts[:2] += np.array([1, -1]).astype(np.uint64)  # the sum stays
    table = table.set_column(1, table.schema.field(1), pa.array(counts))
    stored = io.BytesIO()
    token_counts.write_id_table(stored, table)
    forger.write(out / TABLE, stored.getvalue())
    forger.hash_again(2)
    assert verify(str(out)).problems[0] == f"{TABLE}: its counts are not those of the shards"
    forger.manifests["shards"]["files"][-1]["content_sha256"] = token_counts.hash_content(table)
    forger.write_manifests(chain=True, contents=True)
    (problem,) = verify(str(out)).problems
    assert problem.startswith("shards/manifest.json: files[token_counts.parquet].content_sha256 = ")
    del forger.manifests["shards"]["files"][-1]
    forger.write_manifests(chain=True, contents=True)
    (out / TABLE).unlink()
    assert verify(str(out)).problems == ("shards/manifest.json: names no token_counts.parquet",)
