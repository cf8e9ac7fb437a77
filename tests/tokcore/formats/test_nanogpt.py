"""nanoGPT's flat files: read as a trainer maps them and through our reader, their dtype, and damage found."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_batches import (
    FINGERPRINT,
    batch_of,
    content_of,
    dealt,
    documents,
    open_shard,
    rows_of,
    shard_bytes,
    with_flipped_bit,
    write_shard,
)

from tokcore import open_shards
from tokcore.errors import FormatError
from tokcore.formats.nanogpt import NanogptFormat, NanogptShardWriter, find_dtype
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard

SMALL = [([1, 2, 3], "a", "en", "s", 0), ([], None, "sw", "s", 1), ([65_535, 0], "c", "en", "s", 2)]


@given(documents, st.lists(st.integers(0, 20), max_size=4), st.sampled_from([300, 65_536, 65_537, 2**31]))
def test_read_gives_what_was_written(tmp_path_factory, rows, cuts, vocab_size):
    rows = [([id % vocab_size for id in row[0]], *row[1:]) for row in rows]
    files = shard_bytes("nanogpt", [batch_of(rows)], vocab_size=vocab_size)
    assert shard_bytes("nanogpt", dealt(batch_of(rows), cuts), vocab_size=vocab_size) == files
    folder = tmp_path_factory.mktemp("shards")
    for suffix, data in files.items():
        (folder / f"x{suffix}").write_bytes(data)
    ids = [id for row in rows for id in row[0]]
    assert np.frombuffer(files[".bin"], "<u2" if vocab_size <= 65_536 else "<u4").tolist() == ids
    shard = open_shard("nanogpt", str(folder / "x.bin"))
    assert rows_of(shard.batches()) == rows
    assert [(shard.tokens(i).tolist(), *shard.columns(i)) for i in range(len(shard))] == rows
    assert (shard.num_tokens, shard.fingerprint, shard.dtype) == (len(ids), FINGERPRINT, find_dtype(vocab_size))
    # The same documents are the same content in every format.
    (folder / "x.arrow").write_bytes(shard_bytes("arrow", [batch_of(rows)])[".arrow"])
    one, other = content_of("nanogpt", str(folder / "x.bin")), content_of("arrow", str(folder / "x.arrow"))
    assert one.hexdigest() == other.hexdigest()


def test_as_nanogpt_maps_it(tmp_path):
    path = write_shard("nanogpt", tmp_path / "train", SMALL, vocab_size=65_536)
    data = np.memmap(path, dtype=np.uint16, mode="r")
    assert data.tolist() == [1, 2, 3, 65_535, 0]
    assert Path(path).read_bytes().hex() == "010002000300ffff0000"


def test_dtype_follows_the_vocabulary(tmp_path):
    for vocab_size, dtype, width in ((65_536, "uint16", 2), (65_537, "uint32", 4)):
        path = write_shard("nanogpt", tmp_path / dtype, SMALL, vocab_size=vocab_size)
        shard = open_shard("nanogpt", path)
        assert NanogptFormat().dtype(ShardSettings(FINGERPRINT, vocab_size, "zstd")) == shard.dtype == dtype
        assert Path(path).stat().st_size == 5 * width
        for tokens in (shard.tokens(0), *open_shards(path)):
            assert tokens.dtype == np.int32
            assert not tokens.flags.writeable


def test_an_id_outside_of_the_vocabulary_is_refused_before_anything_is_written():
    """uint16 would silently make another id of it."""
    file = io.BytesIO()
    writer = NanogptShardWriter(file, 65_536)
    for id in (65_536, -1):
        with pytest.raises(FormatError, match=f"id {id}: the vocabulary has 65536 ids"):
            writer.write(batch_of([([1, 2], None, "en", "a", 0), ([3, id], None, "en", "a", 1)]))
    assert file.getvalue() == b""


@pytest.mark.parametrize("vocab_size", [65_536, 65_537])
def test_a_flipped_bit_never_passes_for_the_content(tmp_path, vocab_size):
    path = Path(write_shard("nanogpt", tmp_path / "x", SMALL, vocab_size=vocab_size))
    content = content_of("nanogpt", str(path)).hexdigest()
    data = path.read_bytes()
    for position in range(len(data)):
        for bit in range(8):
            path.write_bytes(with_flipped_bit(data, position, bit))
            assert content_of("nanogpt", str(path)).hexdigest() != content


def test_a_cut_or_grown_file_is_refused(tmp_path):
    path = Path(write_shard("nanogpt", tmp_path / "x", SMALL, vocab_size=65_536))
    data = path.read_bytes()
    for changed in [data[:size] for size in range(len(data))] + [data + b"\0", data + data]:
        path.write_bytes(changed)
        with pytest.raises(FormatError, match=r"x\.bin: \d+ bytes, .*x\.documents accounts for 5 ids of uint16"):
            open_shard("nanogpt", str(path))
    path.unlink()
    with pytest.raises(FormatError, match=r"x\.bin: cannot be opened"):
        open_shard("nanogpt", str(path))


def test_zero_documents(tmp_path):
    path = write_shard("nanogpt", tmp_path / "x", [])
    assert Path(path).read_bytes() == b""
    shard = open_shard("nanogpt", path)
    assert (len(shard), shard.num_tokens, list(shard.batches())) == (0, 0, [])


def test_without_its_documents_file_a_shard_is_one_document_of_the_dtype_in_the_index(tmp_path):
    path = Path(write_shard("nanogpt", tmp_path / "en" / "x", SMALL, vocab_size=65_536))
    (tmp_path / "en" / "x.documents").unlink()
    with pytest.raises(
        FormatError, match=r"x\.bin: flat ids without a header: neither .* folder.s index\.json.*--from-dtype uint16"
    ):
        open_shards(path)
    for dtype, ids in (("uint16", [1, 2, 3, 65_535, 0]), ("uint32", None)):
        index = {"format": "tokcore-nanogpt-index", "dtype": dtype}
        (tmp_path / "index.json").write_text(json.dumps(index))
        if ids is None:
            with pytest.raises(FormatError, match=r"x\.bin: byte 8: the file ends within an id of uint32"):
                open_shards(path)
        else:
            assert [tokens.tolist() for tokens in open_shards(path)] == [ids]
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(FormatError, match=r"index\.json: not an index of nanoGPT shards"):
        open_shards(path)


def test_index_of_the_folder():
    shards = [
        StoredShard(ShardFacts("train-00000-00000", 0, "en", "train", 3, 5, 8), 20, ""),
        StoredShard(ShardFacts("validation-00001-00000", 1, "", "validation", 1, 2, 8), 8, ""),
    ]
    files = NanogptFormat().folder_index(shards, ShardSettings(FINGERPRINT, 65_537, "zstd"))
    assert list(files) == ["index.json"]
    assert json.loads(files["index.json"]) == {
        "format": "tokcore-nanogpt-index",
        "format_version": 1,
        "dtype": "uint32",
        "vocab_size": 65_537,
        "fingerprint": FINGERPRINT,
        "files": [
            {"path": "en/train-00000-00000.bin", "split": "train", "documents": 3, "tokens": 5},
            {"path": "validation-00001-00000.bin", "split": "validation", "documents": 1, "tokens": 2},
        ],
    }
