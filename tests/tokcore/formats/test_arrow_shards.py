"""Arrow shards: what anything that reads Arrow finds in them, equal bytes however written, and damage found."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_batches import (
    EXAMPLE,
    FINGERPRINT,
    add,
    arrow_bytes,
    batch_of,
    content_of,
    dealt,
    documents,
    rows_of,
    with_flipped_bit,
    write_arrow,
    write_shard,
)

from tokcore.errors import FormatError, VersionError
from tokcore.formats import arrow_columns
from tokcore.formats.arrow_columns import BATCH_DOCUMENTS, BATCH_TOKENS, COMPRESSIONS
from tokcore.formats.arrow_shards import IDS, ArrowShard, ArrowShardWriter
from tokcore.formats.row_shards import MAX_DOCUMENT_TOKENS, make_schema
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import ShardContent, TokenBatch


def digest_of(batch: TokenBatch) -> str:
    content = ShardContent()
    add(content, batch)
    return content.hexdigest()


def table_of(data: bytes) -> pa.Table:
    return pa.ipc.open_file(io.BytesIO(data)).read_all()


def plain_batch(num_documents: int, num_tokens: int) -> TokenBatch:
    """A batch of that many documents of that many tokens each."""
    offsets = np.arange(num_documents + 1, dtype=np.int64) * num_tokens
    tokens = np.arange(num_documents * num_tokens, dtype=np.int32) % 1000
    names = repeat_label("x", num_documents)
    return TokenBatch(tokens, offsets, [None] * num_documents, names, names, np.arange(num_documents))


def batch_sizes(data: bytes) -> list[int]:
    reader = pa.ipc.open_file(io.BytesIO(data))
    return [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]


@given(documents, st.lists(st.integers(0, 20), max_size=4), st.sampled_from(COMPRESSIONS))
def test_read_gives_what_was_written(tmp_path_factory, rows, cuts, compression):
    data = arrow_bytes([batch_of(rows)], compression)
    assert arrow_bytes(dealt(batch_of(rows), cuts), compression) == data
    path = tmp_path_factory.mktemp("shards") / "x.arrow"
    path.write_bytes(data)
    shard = ArrowShard(str(path))
    assert rows_of(shard.batches()) == rows
    assert [(shard.tokens(i).tolist(), *shard.columns(i)) for i in range(len(shard))] == rows
    content = content_of("arrow", str(path))
    assert content.hexdigest() == digest_of(batch_of(rows))
    assert content.num_documents == len(shard) == len(rows)
    assert content.num_tokens == shard.num_tokens == sum(len(row[0]) for row in rows)
    assert content.max_token_id == max((token for row in rows for token in row[0]), default=-1)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_any_arrow_reader_reads_it(compression):
    table = table_of(arrow_bytes([batch_of(EXAMPLE)], compression))
    assert table.column_names == ["tokens", "id", "lang", "source", "ordinal"]
    assert [str(kind) for kind in table.schema.types] == [
        "list<item: int32 not null>",
        "string",
        "string",
        "string",
        "int64",
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == EXAMPLE
    assert table.schema.metadata == {
        b"tokcore.format_version": b"1",
        b"tokcore.fingerprint": FINGERPRINT.encode(),
        b"tokcore.dtype": b"int32",
    }


def test_codec_is_the_one_asked_for():
    batch = plain_batch(50, 1000)
    sizes = {name: len(arrow_bytes([batch], name)) for name in COMPRESSIONS}
    assert sizes["zstd"] < sizes["lz4"] < sizes["none"]
    assert sizes["none"] > 4 * 50_000
    # The magic numbers of a zstd and of an lz4 frame.
    assert b"\x28\xb5\x2f\xfd" in arrow_bytes([batch], "zstd")
    assert b"\x04\x22\x4d\x18" in arrow_bytes([batch], "lz4")
    with pytest.raises(ValueError, match="zstd, lz4, none"):
        ArrowShardWriter(io.BytesIO(), FINGERPRINT, "gzip")


def test_record_batches_are_cut_by_the_documents_alone():
    assert batch_sizes(arrow_bytes([])) == batch_sizes(arrow_bytes([batch_of([])])) == []
    many = plain_batch(2 * BATCH_DOCUMENTS + 3, 2)
    assert batch_sizes(arrow_bytes([many])) == [BATCH_DOCUMENTS, BATCH_DOCUMENTS, 3]
    long = plain_batch(7, BATCH_TOKENS // 2 - 1)
    assert batch_sizes(arrow_bytes([long])) == [3, 3, 1]
    exact = plain_batch(5, BATCH_TOKENS // 2)
    assert batch_sizes(arrow_bytes([exact])) == [2, 2, 1]
    huge = plain_batch(2, BATCH_TOKENS + 1)
    assert batch_sizes(arrow_bytes([huge])) == [1, 1]
    for batch in (many, long, exact, huge):
        whole = arrow_bytes([batch], "none")
        for cuts in (range(batch.num_documents) if batch.num_documents < 10 else [1, 5, 4095, 4097], [1, 1, 3]):
            assert arrow_bytes(dealt(batch, cuts), "none") == whole


def test_long_names_do_not_wait_for_a_full_batch(monkeypatch):
    monkeypatch.setattr(arrow_columns, "BATCH_CHARS", 10)
    rows = [([1], name, "en", "", i) for i, name in enumerate(["é" * 8, "b", None, "c" * 30, "", "", "", "", ""])]
    data = arrow_bytes([batch_of(rows)])
    assert batch_sizes(data) == [1, 3, 5]
    assert arrow_bytes(dealt(batch_of(rows), range(9))) == data


def test_slices_of_larger_arrays_are_written_as_they_are():
    batch = batch_of(EXAMPLE)
    moved = batch._replace(tokens=np.concatenate([[7, 7], batch.tokens, [8]]).astype(np.int32))
    moved = moved._replace(offsets=batch.offsets + 2)
    assert arrow_bytes([moved]) == arrow_bytes([batch])
    assert digest_of(moved) == digest_of(batch)


def test_a_document_beyond_the_layout_is_refused_before_anything_is_written():
    batch = batch_of([([1], None, "en", "a", 0)] * 2)
    too_long = batch._replace(offsets=np.array([0, 1, MAX_DOCUMENT_TOKENS + 2], np.int64))
    file = io.BytesIO()
    writer = ArrowShardWriter(file, FINGERPRINT, "none")
    before = file.getvalue()
    with pytest.raises(FormatError, match=rf"{MAX_DOCUMENT_TOKENS + 1} tokens.*at most {MAX_DOCUMENT_TOKENS}"):
        writer.write(too_long)
    assert file.getvalue() == before


def test_writing_holds_a_record_batch_not_a_shard():
    class Nowhere(io.RawIOBase):
        def write(self, data):
            return memoryview(data).nbytes

    writer = ArrowShardWriter(Nowhere(), FINGERPRINT, "zstd")  # type: ignore[arg-type]
    tracemalloc.start()
    for _ in range(40):
        writer.write(plain_batch(100, 5000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    writer.close()
    assert peak < 40 << 20  # all of it: 80 MB of tokens


def test_uncompressed_tokens_are_views_of_the_file(tmp_path):
    (tmp_path / "x.arrow").write_bytes(arrow_bytes([plain_batch(2, 100_000)], "none"))
    shard = ArrowShard(str(tmp_path / "x.arrow"))
    before = pa.total_allocated_bytes()
    tokens = shard.tokens(0)
    assert tokens[:3].tolist() == [0, 1, 2]
    assert tokens.dtype == np.int32
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable
    assert np.shares_memory(tokens, shard.tokens(0))
    assert pa.total_allocated_bytes() < before + 10_000


def test_empty_record_batches_of_other_writers(tmp_path):
    good = make_schema(IDS, FINGERPRINT)
    path = forged(tmp_path / "x.arrow", good, {field.name: pa.array([], field.type) for field in good})
    assert len(ArrowShard(path)) == ArrowShard(path).num_tokens == content_of("arrow", path).num_documents == 0


def test_listing_decodes_no_tokens(tmp_path, monkeypatch):
    (tmp_path / "x.arrow").write_bytes(arrow_bytes([plain_batch(10_000, 10)]))
    shard = ArrowShard(str(tmp_path / "x.arrow"))
    monkeypatch.setattr(shard._batches, "decoded", None)
    assert len(shard) == 10_000
    assert shard.columns(9_999) == (None, "x", "x", 9_999)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_flipped_bit_never_passes_for_the_content(tmp_path, compression):
    """A flip that changes nothing that is read (padding, a second copy of the schema) only changes the file's hash."""
    data = arrow_bytes([batch_of(EXAMPLE)], compression)
    content = digest_of(batch_of(EXAMPLE))
    path = tmp_path / "x.arrow"
    found = {"refused": 0, "another": 0, "equal": 0}
    for position in range(0, len(data), 5):
        path.write_bytes(with_flipped_bit(data, position, position % 8))
        try:
            kind = "equal" if content_of("arrow", str(path)).hexdigest() == content else "another"
        except FormatError:
            kind = "refused"
        found[kind] += 1
        if kind == "equal":
            assert rows_of(ArrowShard(str(path)).batches()) == EXAMPLE
        path.unlink()  # the mapped file stays what it was
    assert found["refused"] > 20
    assert found["another"] > 0


def test_a_cut_file_is_refused(tmp_path):
    data = arrow_bytes([batch_of(EXAMPLE)])
    path = tmp_path / "x.arrow"
    for size in [*range(0, len(data), 23), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"x\.arrow"):
            content_of("arrow", str(path))
        path.unlink()


def forged(path, changed: pa.Schema, columns: dict[str, pa.Array]) -> str:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, changed) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(columns.values()), schema=changed))
    return str(path)


def columns_of_one() -> dict[str, pa.Array]:
    return {
        "tokens": pa.array([[1]], make_schema(IDS, "").field("tokens").type),
        "id": pa.array(["a"]),
        "lang": pa.array(["en"]),
        "source": pa.array(["s"]),
        "ordinal": pa.array([0]),
    }


def test_other_arrow_files_are_refused(tmp_path):
    good = make_schema(IDS, FINGERPRINT)
    columns = columns_of_one()
    assert len(ArrowShard(forged(tmp_path / "good.arrow", good, columns))) == 1
    with pytest.raises(FormatError, match="no format version"):
        ArrowShard(forged(tmp_path / "plain.arrow", good.remove_metadata(), columns))
    newer = good.with_metadata({**good.metadata, b"tokcore.format_version": b"2"})
    with pytest.raises(VersionError, match="format version 2, this release reads 1"):
        ArrowShard(forged(tmp_path / "newer.arrow", newer, columns))
    anonymous = good.with_metadata({"tokcore.format_version": "1"})
    with pytest.raises(FormatError, match="fingerprint"):
        ArrowShard(forged(tmp_path / "anonymous.arrow", anonymous, columns))
    wide = pa.schema([good.field(0).with_type(pa.list_(pa.int64())), *list(good)[1:]], metadata=good.metadata)
    with pytest.raises(FormatError, match="columns"):
        ArrowShard(forged(tmp_path / "wide.arrow", wide, {**columns, "tokens": pa.array([[1]])}))
    with pytest.raises(FormatError, match="columns"):
        ArrowShard(write_shard("nanogpt", tmp_path / "x", EXAMPLE).replace(".bin", ".documents"))
    with pytest.raises(FormatError, match="cannot be opened"):
        ArrowShard(str(tmp_path / "missing.arrow"))
    (tmp_path / "text.arrow").write_text("hello " * 100)
    with pytest.raises(FormatError, match="not an Arrow file"):
        ArrowShard(str(tmp_path / "text.arrow"))


@pytest.mark.parametrize("column", ["tokens", "items", "lang", "source", "ordinal"])
def test_nulls_where_there_are_none_are_refused(tmp_path, column):
    good = make_schema(IDS, FINGERPRINT)
    columns = columns_of_one()
    if column == "items":
        items = pa.array([None], pa.int32())
        columns["tokens"] = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), items, type=good.field(0).type)
    else:
        columns[column] = pa.nulls(1, good.field(column).type)
    path = forged(tmp_path / "x.arrow", good, columns)
    with pytest.raises(FormatError, match="nulls in column"):
        content_of("arrow", path)


def test_zero_documents(tmp_path):
    shard = ArrowShard(write_arrow(tmp_path / "x.arrow", []))
    assert (len(shard), shard.num_tokens, list(shard.batches())) == (0, 0, [])
    assert content_of("arrow", shard.path).hexdigest() == ShardContent().hexdigest()
