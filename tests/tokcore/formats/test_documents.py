"""Documents files: what formats without columns leave to them, equal bytes however written, and damage found."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_batches import EXAMPLE, FINGERPRINT, batch_of, dealt, documents, open_shard, rows_of, write_shard

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import BATCH_DOCUMENTS, COMPRESSIONS
from tokcore.formats.documents import Documents, DocumentsWriter, find_documents, get_documents_path
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import TokenBatch


def documents_bytes(batches: list[TokenBatch], compression: str = "zstd") -> bytes:
    file = io.BytesIO()
    writer = DocumentsWriter(file, FINGERPRINT, 512, compression)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return file.getvalue()


def stored(path: Path, data: bytes) -> Documents:
    path.write_bytes(data)
    return Documents(str(path))


@given(documents, st.lists(st.integers(0, 20), max_size=4), st.sampled_from(COMPRESSIONS))
def test_read_gives_what_was_written(tmp_path_factory, rows, cuts, compression):
    data = documents_bytes([batch_of(rows)], compression)
    assert documents_bytes(dealt(batch_of(rows), cuts), compression) == data
    found = stored(tmp_path_factory.mktemp("documents") / "x.documents", data)
    assert (len(found), found.fingerprint, found.vocab_size) == (len(rows), FINGERPRINT, 512)
    assert [found.columns(i) for i in range(len(rows))] == [row[1:] for row in rows]
    lengths = [len(row[0]) for row in rows]
    assert found.lengths.tolist() == lengths
    parts = list(found.batches())
    assert [row[1:] for row in rows_of(names for names, _ in parts)] == [row[1:] for row in rows]
    assert [length for _, told in parts for length in told.tolist()] == lengths


def test_columns_of_a_slice_have_no_bits_of_its_neighbours():
    """Whatever is behind the last row, or in the place of a missing value, is in no byte."""
    told = (("adult", "bool"), ("quality", "float32"), ("topic", "string"))
    metadata = pa.record_batch(
        {
            "adult": [True, None, True, True, False, True],
            "quality": pa.array([1.5, None, 2.5, None, 0.5, 1.0], pa.float32()),
            "topic": ["a", None, "b", "c", None, "d"],
        }
    )
    batch = batch_of([([1], None, "en", "s", i) for i in range(6)])._replace(metadata=metadata)

    def write(part: TokenBatch) -> bytes:
        file = io.BytesIO()
        writer = DocumentsWriter(file, FINGERPRINT, 512, "none", told)
        writer.write(part)
        writer.close()
        return file.getvalue()

    alone = pa.RecordBatch.from_pylist(metadata.slice(0, 3).to_pylist(), schema=metadata.schema)
    assert write(batch.slice(0, 3)) == write(batch.slice(0, 3)._replace(metadata=alone))


def test_lengths_stay_with_their_documents_where_batches_are_cut():
    num = 2 * BATCH_DOCUMENTS + 3
    batch = TokenBatch(
        np.zeros(num * (num - 1) // 2, np.int32),
        np.concatenate([[0], np.cumsum(np.arange(num))]).astype(np.int64),
        [None] * num,
        repeat_label("en", num),
        repeat_label("s", num),
        np.arange(num),
    )
    table = pa.ipc.open_file(io.BytesIO(documents_bytes(dealt(batch, [5, 4095, 4097, 8000])))).read_all()
    assert table.column("length").to_pylist() == list(range(num))
    assert [len(chunk) for chunk in table.column("length").chunks] == [BATCH_DOCUMENTS, BATCH_DOCUMENTS, 3]
    assert table.column_names == ["id", "lang", "source", "ordinal", "length"]


def forged(path: Path, data: bytes, metadata: dict[bytes, bytes], lengths: list[int] | None = None) -> Path:
    table = pa.ipc.open_file(io.BytesIO(data)).read_all()
    if lengths is not None:
        table = table.set_column(4, table.schema.field(4), pa.array(lengths))
    table = table.replace_schema_metadata({**table.schema.metadata, **metadata})
    with path.open("wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def test_forged_files_are_refused(tmp_path):
    data = documents_bytes([batch_of(EXAMPLE)])
    path = tmp_path / "x.documents"
    for told in ("", "-1", "many", "1" * 11, "²"):
        with pytest.raises(FormatError, match=r"x\.documents: vocab_size"):
            Documents(str(forged(path, data, {b"tokcore.vocab_size": told.encode()})))
    negative = Documents(str(forged(path, data, {}, [3, 0, -2, 1])))
    with pytest.raises(FormatError, match="document 2 has length -2"):
        _ = negative.lengths
    with pytest.raises(FormatError, match="document 2 has length -2"):
        list(negative.batches())


@pytest.mark.parametrize("suffix", ["_text_document.bin", ".bin"])
def test_it_is_found_beside_a_shard_and_where_a_build_has_it(tmp_path, suffix):
    assert find_documents(str(tmp_path / f"x{suffix}"), (suffix, ".bin")) is None
    write_shard("nanogpt", tmp_path / "beside" / "x", EXAMPLE)
    data = (tmp_path / "beside" / "x.documents").read_bytes()
    for stem in ("x", "en/x"):
        (tmp_path / stem / get_documents_path(stem)).parent.mkdir(parents=True)
        (tmp_path / stem / get_documents_path(stem)).write_bytes(data)
    for path in ("beside/x", "x/megatron/x", "en/x/megatron/en/x"):
        found = find_documents(str(tmp_path / f"{path}{suffix}"), (suffix, ".bin"))
        assert found is not None
        assert len(found) == len(EXAMPLE)


@pytest.mark.parametrize("name", ["megatron", "nanogpt"])
def test_a_documents_file_of_another_shard_is_refused(tmp_path, name):
    path = write_shard(name, tmp_path / "x", EXAMPLE)
    other = tmp_path / "x.documents"
    lengths = [row[0] for row in EXAMPLE]
    lengths[0], lengths[2] = lengths[2], lengths[0]
    moved = [(tokens, *row[1:]) for tokens, row in zip(lengths, EXAMPLE, strict=True)]
    other.write_bytes((Path(write_shard(name, tmp_path / "y", moved)).parent / "y.documents").read_bytes())
    shard = open_shard(name, path)
    if name == "megatron":
        with pytest.raises(FormatError, match=r"document 0 has length 2, in .*x_text_document\.bin it has 3 ids"):
            list(shard.batches())
    else:  # nothing but the documents file says where a document ends
        assert shard.tokens(0).tolist() == EXAMPLE[0][0][:2]
