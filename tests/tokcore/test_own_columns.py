"""Columns of the user's own: they travel with documents, and the digest of a shard's content covers them."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from tokcore.errors import FormatError
from tokcore.formats.documents import Documents, DocumentsWriter
from tokcore.formats.metadata import TYPES, fit_metadata
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests, join_batches
from tokcore.testing.shard_examples import FINGERPRINT, make_batch

TOLD = tuple(sorted((kind, kind) for kind in TYPES))
VALUES = {
    "string": ["a", None, "", "é" * 40],
    "bool": [True, None, False, False],
    "int32": [1, None, -(2**31), 0],
    "int64": [2**62 + 1, None, -5, 0],
    "float32": [0.5, None, -0.25, 0.0],
    "float64": [1e300, None, 0.1, 0.0],
}


def make(values=VALUES) -> TokenBatch:
    rows = [
        ([1, 2], "a", "en", "x", 0),
        ([], None, "en", "x", 1),
        ([3], "b", "ru", "y", 0),
        ([4] * 9, "c", "en", "y", 7),
    ]
    batch = make_batch(rows)
    columns = {name: pa.array(values[name], TYPES[name]) for name, _ in TOLD}
    return batch._replace(metadata=pa.record_batch(columns))


def hash_content(*batches):
    content = ShardContent()
    for batch in batches:
        content.update(batch, compute_document_digests(batch.langs, batch.tokens, batch.offsets))
    return content.hexdigest()


def test_batches_take_slice_and_join():
    batch = make()
    rows = batch.metadata.to_pylist()
    assert batch.slice(1, 3).metadata.to_pylist() == rows[1:3]
    assert batch.take([3, 1]).metadata.to_pylist() == [rows[3], rows[1]]
    assert join_batches([batch.slice(2, 4), batch.slice(0, 2)]).metadata.to_pylist() == rows[2:] + rows[:2]
    assert join_batches([batch._replace(metadata=None), batch._replace(metadata=None)]).metadata is None


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("row", range(4))
def test_content_depends_on_each_value(name, row):
    values = list(VALUES[name])
    others = [one for one in VALUES[name] if one is not None and one != values[row]]
    values[row] = others[0]
    assert hash_content(make({**VALUES, name: values})) != hash_content(make())
    if values[row] is not None and VALUES[name][row] is not None:
        values[row] = None
        assert hash_content(make({**VALUES, name: values})) != hash_content(make())


def test_content_does_not_depend_on_how_batches_are_cut():
    batch = make()
    assert (
        hash_content(batch)
        == hash_content(batch.slice(0, 1), batch.slice(1, 4))
        != hash_content(batch._replace(metadata=None))
    )


def write_documents(path, batch, told=TOLD):
    file = io.BytesIO()
    writer = DocumentsWriter(file, FINGERPRINT, 300, "zstd", told)
    writer.write(batch)
    writer.close()
    path.write_bytes(file.getvalue())
    return str(path)


def test_documents_files_have_them(tmp_path):
    batch = make()
    documents = Documents(write_documents(tmp_path / "a.documents", batch))
    rows = batch.metadata.to_pylist()
    assert [documents.metadata_of(i) for i in range(4)] == rows
    ((names, _),) = documents.batches()
    assert names.metadata.to_pylist() == rows
    assert documents.columns(1)[1:] == (batch.langs[1], batch.sources[1], int(batch.ordinals[1]))


def test_a_column_of_another_type_is_refused(tmp_path):
    place = tmp_path / "a.documents"
    batch = make()
    write_documents(place, batch)
    table = pa.ipc.open_file(place).read_all()
    for column in (pa.array([7] * 4, pa.date32()), pa.array([[1]] * 4)):
        with (
            pa.OSFile(str(place), "wb") as file,
            pa.ipc.new_file(file, table.append_column("more", column).schema) as writer,
        ):
            writer.write_table(table.append_column("more", column))
        with pytest.raises(FormatError, match="its columns are"):
            Documents(str(place))


def test_columns_are_fitted():
    metadata = pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    assert fit_metadata(metadata, (), 2) is None
    assert fit_metadata(metadata, (("a", "int32"),), 2) is metadata
    told = (("a", "int32"), ("b", "string"))
    assert fit_metadata(metadata, told, 2).to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": None}]
    assert fit_metadata(None, told, 1).to_pylist() == [{"a": None, "b": None}]
