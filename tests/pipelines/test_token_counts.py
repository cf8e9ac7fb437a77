"""shards/token_counts.parquet: equal to counting by hand, whatever shards, items and sources the documents lie in."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
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
from pipelines.inspect.verify import verify
from pipelines.stages.commit import committed
from pipelines.store.attempts import Attempts
from pipelines.work.token_count_runs import read_counts, write_counts
from tokcore import kernel, reference, token_counts
from tokcore.errors import FormatError, LedgerError
from tokcore.token_counts import IdCounts, SourceCounter, add_up, covered, read_id_counts, token_counts_table

TABLE = "shards/token_counts.parquet"


def by_hand(output: Path) -> list[tuple[int, int, int, int, str, int]]:
    """Rows of the table, from the shards of a build, one document after the other."""
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
    rows = []
    for id, of_sources in sorted(counts.items()):
        source, number = min(of_sources.items(), key=lambda item: (-item[1], item[0]))
        rows.append((id, of_sources.total(), documents[id], most[id], source, number))
    return rows


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
    [("target_tokens = 2000", 1500, 2), ('target_tokens = 300\nby = "lang"\nvalidation = 0.3', 20_000, 1)],
)
def test_table_is_what_the_shards_hold(corpus, shards, range_bytes, workers, tmp_path):
    """Files cut into ranges, shards cut within files, several files to an item, streams by language and split."""
    settings = f"[plan]\nrange_bytes = {range_bytes}\n[learn]\nvocab_size = 400\n[shards]\n{shards}\n"
    run(build_file(corpus, SMALL, settings), tmp_path / "out", workers)
    expected = by_hand(tmp_path / "out")
    assert table_rows(tmp_path / "out") == expected
    assert len({row[4] for row in expected}) > 3
    manifest = committed(str(tmp_path / "out"), "shards")
    entry = manifest.files[-1]
    assert entry.path == "token_counts.parquet"
    assert entry.about == {"documents": 117, "tokens": manifest.totals["tokens"]}
    assert sum(row[1] for row in expected) == manifest.totals["tokens"]
    schema = pq.read_schema(tmp_path / "out" / TABLE)
    assert [str(kind) for kind in schema.types] == ["int32", "uint64", "uint64", "uint64", "string", "uint64"]
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


@pytest.mark.parametrize("name", kernel.available())
def test_a_negative_id_is_refused(name: str) -> None:
    with kernel.forced(name):
        counter = kernel.IdCounter()
        with pytest.raises(ValueError, match="negative"):
            counter.add(np.array([1, -1], np.int32), np.array([0, 2]))
        assert counter.take().ids.tolist() == []


def columns(counts: IdCounts) -> list[list[int]]:
    return [getattr(counts, name).tolist() for name in token_counts._COLUMNS]


some_ids = st.lists(st.integers(0, 4) | st.sampled_from([2**22, 2**31 - 1]), min_size=1, max_size=6)
pieces = st.lists(st.tuples(st.integers(0, 3), some_ids), max_size=12)


@given(pieces, st.randoms(use_true_random=False))
def test_any_order_and_tree_of_additions_gives_the_same(documents: list[tuple[int, list[int]]], chance) -> None:
    """Each document a piece of 5 bytes of its source, which is whole when all of them were added."""
    sizes = Counter(source for source, _ in documents)
    parts = []
    for source, ids in documents:
        counter = SourceCounter()
        counter.add(source, np.array(ids, np.int32), np.array([0, len(ids)]))
        parts.append(add_up([counter.take(), covered(source, 5, 5 * sizes[source])]))
    parts.append(covered(9, 0, 0))  # a source without documents, and of no bytes
    everything = SourceCounter()
    for source, ids in sorted(documents, key=lambda document: document[0]):
        everything.add(source, np.array(ids, np.int32), np.array([0, len(ids)]))
    expected = add_up([everything.take(), *(covered(s, 5 * n, 5 * n) for s, n in sizes.items())])
    while len(parts) > 1:
        chance.shuffle(parts)
        some = chance.randint(2, 4)
        stored = io.BytesIO()
        token_counts.write_id_counts(stored, add_up(parts[:some]))
        parts = [read_id_counts(io.BytesIO(stored.getvalue())), *parts[some:]]
    found = add_up(parts)
    assert columns(found) == columns(expected)
    assert not found.open
    by_id = {id: Counter(s for s, ids in documents for one in ids if one == id) for id in found.ids.tolist()}
    tops = [min(of.items(), key=lambda item: (-item[1], item[0])) for of in by_id.values()]
    assert list(zip(found.top_source.tolist(), found.top_source_count.tolist(), strict=True)) == tops


def test_a_source_that_is_not_whole_gives_no_table() -> None:
    counter = SourceCounter()
    counter.add(0, np.array([1], np.int32), np.array([0, 1]))
    with pytest.raises(FormatError, match="1 sources were not read to their end"):
        token_counts_table(add_up([counter.take(), covered(0, 4, 5)]), ["a"])
    with pytest.raises(FormatError, match="source 0 has 5 bytes, and 6 were read"):
        add_up([covered(0, 3, 5), covered(0, 3, 5)])


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[: len(data) // 2], lambda data: b""])
def test_damaged_files_are_refused(damage) -> None:
    stored = io.BytesIO()
    token_counts.write_id_counts(stored, covered(1, 0, 0))
    with pytest.raises(FormatError, match="counts of token ids"):
        read_id_counts(io.BytesIO(damage(stored.getvalue())))
    with pytest.raises(FormatError, match="token counts"):
        token_counts.read_token_counts(io.BytesIO(damage(stored.getvalue())))


@pytest.mark.parametrize("place", [0, 100, -1])
def test_counts_of_a_worker_are_what_it_wrote_or_its_stage_is_done_anew(tmp_path, place):
    attempts = Attempts(str(tmp_path), "shards", "0" * 64)
    counts = write_counts(attempts, "item-00000", covered(1, 3, 5))
    assert read_counts(attempts, counts).open[1].covered_bytes == 3
    stored = Path(attempts.url(counts.attempt))
    data = bytearray(stored.read_bytes())
    data[place] ^= 1
    stored.write_bytes(data)
    with pytest.raises(LedgerError, match="not the counts that were written there"):
        read_counts(attempts, counts)


def test_verification_counts_the_tokens_again(corpus, tmp_path):
    """A table that was rewritten with its manifests, consistently, is found out all the same."""
    out = tmp_path / "out"
    run(build_file(corpus, SMALL, "[learn]\nvocab_size = 400\n", "again.toml"), out, 1)
    forger = Forger(out)
    table = pq.read_table(out / TABLE)
    counts = table["count"].to_numpy().copy()
    counts[:2] += np.array([1, -1]).astype(np.uint64)  # the sum stays
    table = table.set_column(1, table.schema.field(1), pa.array(counts))
    stored = io.BytesIO()
    token_counts.write_token_counts(stored, table)
    forger.write(out / TABLE, stored.getvalue())
    forger.hash_anew(2)
    assert verify(str(out)).problems[0] == f"{TABLE}: its content is not what the manifest says"
    forger.manifests["shards"]["files"][-1]["content_sha256"] = token_counts.content_of(table)
    forger.write_manifests(chain=True, contents=True)
    assert verify(str(out)).problems == (f"{TABLE}: its counts are not those of the shards",)
    del forger.manifests["shards"]["files"][-1]
    forger.write_manifests(chain=True, contents=True)
    (out / TABLE).unlink()
    assert verify(str(out)).problems == ("shards/manifest.json: names 0 files token_counts.parquet, expected one",)
