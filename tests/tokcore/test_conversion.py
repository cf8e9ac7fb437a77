"""Shards from any format to any other: the same documents, bounds, ids, languages and sources."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.token_batches import Document, batch_of, content_of, documents, rows_of, write_arrow, write_shard

from tokcore import open_shards
from tokcore.errors import ConfigError, FormatError, IdentityError
from tokcore.formats.flat_ids import FlatIds
from tokcore.shards.conversion import Converted, Reading, convert, cut_after, find_settings, list_origins, open_origin
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile
from tokcore.shards.opened_shards import find_shard_files

VOCAB_SIZE = 60_000
HUB = "parquet"
# Each format into itself, into the hub and out of it; test_any_documents_survive draws from all pairs.
PAIRS = sorted({pair for name in SHARD_FORMATS for pair in ((name, name), (name, HUB), (HUB, name))})
ROWS: list[Document] = [
    ([1, 2, 3], "a", "en", "s.jsonl", 0),
    ([], None, "sw", "s.jsonl", 1),
    (list(range(300)), "c", "en", "t.jsonl", 2**40),
    ([59_999, 0], "", "en", "t.jsonl", 2**40 + 3),
]


def converted(source: Path, target: Path, to: str, reading: Reading | None = None, **more) -> Converted:
    """Convert shards to a new folder, as the command does but for names and syncs."""
    reading = reading or Reading()
    one = SHARD_FORMATS[to]
    root = str(source if source.is_dir() else source.parent)
    origins = list_origins(find_shard_files(source), root)

    @contextlib.contextmanager
    def new_file(path: str) -> Iterator[BinaryIO]:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            yield file

    told = find_settings(origins, reading, more.get("vocab_size"), "zstd", more.get("dtype", ""), one)
    return convert(origins, reading, one, told, new_file)


def rows_at(folder: Path, reading: Reading | None = None) -> list[Document]:
    """All documents below a folder, by shard."""
    origins = list_origins(find_shard_files(folder), str(folder))
    return [row for origin in origins for row in rows_of(open_origin(origin, reading or Reading()).batches())]


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_there_and_back_gives_equal_documents(tmp_path, one, other):
    """With two shards of one split and one of the other, in folders of their languages."""
    start = tmp_path / "start"
    for number, stem in enumerate(("en/train-00000-00000", "sw/train-00000-00000", "en/validation-00001-00000")):
        rows = [(*row[:4], row[4] + number) for row in ROWS[number:]]
        write_arrow(start / f"{stem}.arrow", rows)
    converted(start, tmp_path / "a", one, vocab_size=VOCAB_SIZE)
    done = converted(tmp_path / "a", tmp_path / "b", other)
    converted(tmp_path / "b", tmp_path / "back", one)
    expected = rows_at(start)
    assert (done.shards, done.documents, done.notes) == (3, len(expected), {})
    assert done.tokens == sum(len(row[0]) for row in expected)
    for folder in ("a", "b", "back"):
        assert sorted(rows_at(tmp_path / folder), key=str) == sorted(expected, key=str)
    assert len(open_shards(tmp_path / "b", "train")) == len(ROWS) + len(ROWS[1:])
    if one == other:
        assert bytes_below(tmp_path / "b").keys() == bytes_below(tmp_path / "a").keys()


@examples(120)
@given(documents, st.sampled_from(list(SHARD_FORMATS)), st.sampled_from(list(SHARD_FORMATS)))
def test_any_documents_survive(tmp_path_factory, rows, one, other):
    rows = [([id % VOCAB_SIZE for id in row[0]], *row[1:]) for row in rows]
    folder = tmp_path_factory.mktemp("any")
    write_shard(one, folder / "start" / "train-00000-00000", rows, vocab_size=VOCAB_SIZE)
    converted(folder / "start", folder / "a", other)
    assert rows_at(folder / "a") == rows
    converted(folder / "a", folder / "back", one)
    assert rows_at(folder / "back") == rows


@pytest.mark.parametrize("name", [name for name, one in SHARD_FORMATS.items() if not one.has_columns])
def test_without_documents_files_the_ids_and_bounds_go_along(tmp_path, name):
    write_shard("arrow", tmp_path / "start" / "train-00000-00000", ROWS)
    converted(tmp_path / "start", tmp_path / "a", name)
    for path in (tmp_path / "a").rglob("*.documents"):
        path.unlink()
    if SHARD_FORMATS[name].has_bounds:
        done = converted(tmp_path / "a", tmp_path / "b", "parquet")
        assert list(done.notes) == ["no languages, ids and sources: language und, source and ordinal are file and row"]
        found = rows_at(tmp_path / "b")
        assert [row[0] for row in found] == [row[0] for row in ROWS]
        (source,) = {row[3] for row in found}
        assert (tmp_path / "a" / source).is_file()
        assert [(row[1], row[2], row[4]) for row in found] == [(None, "und", i) for i in range(4)]
        return
    with pytest.raises(ConfigError, match=r"train-00000-00000\.bin: does not say where documents end, .* --end ID"):
        converted(tmp_path / "a", tmp_path / "b", "parquet")
    whole = converted(tmp_path / "a", tmp_path / "whole", "parquet", Reading(whole=True))
    assert (whole.documents, whole.tokens) == (1, 305)
    done = converted(tmp_path / "a", tmp_path / "end", "parquet", Reading(end=3))
    assert list(done.notes) == ["no bounds: a document ends after each id 3"]
    ids = [id for row in ROWS for id in row[0]]
    assert [row[0] for row in rows_at(tmp_path / "end")] == [ids[:3], ids[3:7], ids[7:]]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 7))
def test_ends_are_found_whatever_the_block(tmp_path_factory, ids, block):
    path = tmp_path_factory.mktemp("cut") / "x.bin"
    np.array(ids, "<u2").tofile(path)
    flat = FlatIds(str(path), "uint16", np.array([len(ids)]))
    text = "".join(map(str, ids))
    expected = [part for part in text.replace("0", "0|").split("|") if part]
    rows = rows_of(cut_after(flat, 0, "x", block))
    assert ["".join(map(str, row[0])) for row in rows] == expected
    assert [row[4] for row in rows] == list(range(len(rows)))


def test_ids_of_others_without_a_header(tmp_path):
    """nanoGPT's train.bin and val.bin say neither dtype nor bounds."""
    np.array([5, 6, 0, 7, 0], "<u2").tofile(tmp_path / "train.bin")
    np.array([8, 0], "<u2").tofile(tmp_path / "val.bin")
    with pytest.raises(FormatError, match=r"train\.bin: .*dtype"):
        converted(tmp_path, tmp_path / "none", "mds", Reading(end=0))
    converted(tmp_path, tmp_path / "mds", "mds", Reading(end=0, dtype="uint16"))
    names = sorted(str(path.relative_to(tmp_path / "mds")) for path in (tmp_path / "mds").rglob("*.mds"))
    assert names == ["train/train-00000-00000.mds", "validation/validation-00001-00000.mds"]
    assert rows_at(tmp_path / "mds") == [
        ([5, 6, 0], None, "und", "train.bin", 0),
        ([7, 0], None, "und", "train.bin", 1),
        ([8, 0], None, "und", "val.bin", 0),
    ]
    index = json.loads((tmp_path / "mds" / "validation" / "index.json").read_bytes())
    assert [shard["samples"] for shard in index["shards"]] == [1]


def test_a_dataset_of_hugging_face_that_others_saved(tmp_path):
    train = Dataset.from_dict({"input_ids": [[1, 2], [], [3]], "attention_mask": [[1, 1], [], [1]], "id": [7, 8, 9]})
    DatasetDict({"train": train, "validation": train.select([2])}).save_to_disk(tmp_path / "theirs")
    done = converted(tmp_path / "theirs", tmp_path / "a", "megatron")
    (note,) = done.notes
    assert "lang and source" in note
    assert sorted((row[0], row[1], row[2], row[4]) for row in rows_at(tmp_path / "a")) == [
        ([], "8", "und", 1),
        ([1, 2], "7", "und", 0),
        ([3], "9", "und", 0),
        ([3], "9", "und", 2),
    ]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.uint16()), pa.list_(pa.int32(), 2)])
def test_rows_of_others(tmp_path, kind):
    ids = [[1, 2], [3, 4]]
    table = pa.table(
        {"text": ["x", "y"], "tokens": pa.array(ids, kind), "language": ["en", None], "source": ["a", "b"]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    with pa.ipc.new_file(str(tmp_path / "y.arrow"), table.schema) as writer:
        writer.write_table(table)
    for name in ("x.parquet", "y.arrow"):
        converted(tmp_path / name, tmp_path / f"to-{name}", "datatrove")
        assert rows_at(tmp_path / f"to-{name}") == [([1, 2], None, "en", "a", 0), ([3, 4], None, "und", "b", 1)]


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("tokens", [[1], [2, -5]], "row 1: column tokens: id -5"),
        ("tokens", [[1], [2**31]], "row 1: column tokens: id 2147483648"),
        ("tokens", [[1], None], "row 1: column tokens: a null"),
        ("tokens", [[1], [2, None]], "row 1: column tokens: a null among its ids"),
        ("words", [[1], [2]], "no column of ids: it has words list"),
    ],
)
def test_rows_that_hold_no_ids_are_named(tmp_path, column, values, what):
    pq.write_table(pa.table({column: pa.array(values, pa.list_(pa.int64()))}), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=rf"x\.parquet: {what}"):
        converted(tmp_path / "x.parquet", tmp_path / "a", "mds")


def test_ids_that_do_not_fit_are_refused_before_anything_is_written(tmp_path):
    write_shard("arrow", tmp_path / "a" / "train-00000-00000", [([1, 65_536], None, "en", "s", 0)])
    with pytest.raises(ConfigError, match="--dtype uint16: holds 65536 ids, the vocabulary has 65537"):
        converted(tmp_path / "a", tmp_path / "b", "megatron", dtype="uint16")
    with pytest.raises(ConfigError, match=r"--dtype uint32: megatron has int32 or uint16"):
        converted(tmp_path / "a", tmp_path / "b", "megatron", dtype="uint32")
    with pytest.raises(FormatError, match=r"train-00000-00000\.arrow: document 0: id 65536, the vocabulary has 65536"):
        converted(tmp_path / "a", tmp_path / "b", "megatron", vocab_size=65_536)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_a_dtype_is_what_was_asked_for(tmp_path, dtype):
    write_shard("arrow", tmp_path / "a" / "train-00000-00000", ROWS)
    converted(tmp_path / "a", tmp_path / "b", "llmc", dtype=dtype)
    (path,) = (tmp_path / "b").glob("*.bin")
    assert path.stat().st_size == 1024 + 305 * np.dtype(dtype).itemsize
    assert rows_at(tmp_path / "b") == ROWS


def test_shards_of_several_tokenizers_are_refused(tmp_path):
    write_shard("arrow", tmp_path / "a" / "train-00000-00000", ROWS)
    write_shard("arrow", tmp_path / "a" / "train-00001-00000", ROWS, fingerprint="cd" * 32)
    with pytest.raises(IdentityError, match="different tokenizers"):
        converted(tmp_path / "a", tmp_path / "b", "mds")


def test_a_shard_that_a_format_cannot_hold_becomes_several(tmp_path, monkeypatch):
    rows = [([i] * 10, str(i), "en", "s", i) for i in range(7)]
    write_shard("megatron", tmp_path / "a" / "train-00000-00000", rows)
    monkeypatch.setattr(type(SHARD_FORMATS["mds"]), "most_tokens", 25)
    monkeypatch.setattr("tokcore.formats.shard_format.BATCH_TOKENS", 10)
    assert converted(tmp_path / "a", tmp_path / "b", "mds").shards == 4
    found = sorted((tmp_path / "b").rglob("*.mds"))
    assert [path.name for path in found] == [
        "train-00000-00000.mds",
        *(f"train-00000-00000_0000{i}.mds" for i in (1, 2, 3)),
    ]
    assert [len(open_shards(path)) for path in found] == [2, 2, 2, 1]
    assert rows_at(tmp_path / "b") == rows


def test_large_documents_are_read_some_at_a_time(tmp_path, monkeypatch):
    rows = [([i % 7] * 1000, str(i), "en", "s", i) for i in range(50)]
    write_shard("megatron", tmp_path / "a" / "train-00000-00000", rows)
    monkeypatch.setattr("tokcore.formats.shard_format.BATCH_TOKENS", 3500)
    (file,) = find_shard_files(tmp_path / "a")
    batches = list(file.open().batches())
    assert [batch.num_documents for batch in batches[:-1]] == [3] * 16
    assert rows_of(batches) == rows
    assert content_of("megatron", file.path).num_documents == 50


def test_a_damaged_file_is_named(tmp_path):
    path = Path(write_shard("mds", tmp_path / "a" / "train-00000-00000", ROWS))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"train-00000-00000\.mds: byte"):
        converted(tmp_path / "a", tmp_path / "b", "arrow")


def test_a_single_file_is_found_by_its_format(tmp_path):
    path = write_shard("datatrove", tmp_path / "a" / "00000_shuffled", ROWS)
    (origin,) = list_origins(find_shard_files(path), str(tmp_path / "a"))
    assert origin.file == FormatFile("datatrove", path)
    assert (origin.stem, origin.split) == ("train-00000-00000", "train")
    assert batch_of(ROWS).num_documents == 4
