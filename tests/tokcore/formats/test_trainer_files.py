"""Files for trainers: their bytes from the layouts, and what the trainers' own readers make of them.

Readers that need torch are in `make clients`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import datasets
import duckdb
import grain
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from support.token_batches import (
    EXAMPLE,
    FINGERPRINT,
    batch_of,
    open_shard,
    rows_of,
    shard_bytes,
    write_shard,
)
from tf_examples import make_example

from tokcore.errors import FormatError
from tokcore.formats import litdata, llmc, mds
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.opened_shards import open_shards

Rows = list[tuple[list[int], str | None, str, str, int]]
GOLDEN: Rows = [([1, 2, 3], "a", "en", "s", 0), ([4, 5], "b", "en", "s", 1)]
GOLDEN_ARRAY_RECORD = "fa71876af5b667e96ba105fd829f3ee3b2fa958c76c2b0edf305d747ed08949a"
IDS16, IDS32 = "01000200030004000500", "0100000002000000030000000400000005000000"


def golden_bytes(name: str, dtype: str = "int32", vocab_size: int = 10) -> dict[str, bytes]:
    return shard_bytes(name, [batch_of(GOLDEN)], vocab_size=vocab_size, dtype=dtype)


def write_folder(name: str, folder: Path, rows=EXAMPLE, **more) -> Path:
    """A shard of a split `train` in a format's folder, with the folder's index; the folder of the format."""
    one = SHARD_FORMATS[name]
    place = folder / "train" if one.splits_apart else folder
    path = Path(write_shard(name, place / "train-00000-00000", rows, **more))
    (place / "train-00000-00000.documents").unlink(missing_ok=True)
    tokens = sum(len(row[0]) for row in rows)
    facts = ShardFacts("train-00000-00000", 0, "", "train", len(rows), tokens, 2**31 - 1)
    told = ShardSettings(FINGERPRINT, more.get("vocab_size", 2**31), "zstd", more.get("dtype", "int32"))
    for file, data in one.folder_index([StoredShard(facts, path.stat().st_size, "ab" * 32)], told).items():
        (folder / file).write_bytes(data)
    return folder


# -------------------------------------------------------------------------------------------------------------- llm.c


def read_as_llmc(path: Path) -> list[int]:
    """What llm.c's loader reads, by the checks that it makes."""
    header = np.fromfile(path, "<i4", 256)
    assert header[0] == 20240520
    assert header[1] == 1
    num_tokens = int(header[2])
    assert num_tokens > 0
    assert path.stat().st_size == 256 * 4 + num_tokens * 2
    return np.fromfile(path, "<u2", offset=1024).tolist()


def test_golden_bytes_of_llmc(tmp_path):
    for dtype, head, ids in (
        ("uint16", "88d83401010000000500000000000000", IDS16),
        ("uint32", "a1d93401070000000500000000000000", IDS32),
    ):
        data = golden_bytes("llmc", dtype)[".bin"]
        assert data.hex() == head + "00" * 1008 + ids
    path = write_shard("llmc", tmp_path / "x", GOLDEN, vocab_size=10)
    assert read_as_llmc(Path(path)) == [1, 2, 3, 4, 5]


def test_llmc_counts_no_more_tokens_than_its_header_can(monkeypatch):
    monkeypatch.setattr(llmc, "MAX_TOKENS", 6)
    file = io.BytesIO()
    writer = llmc.LlmcShardWriter(file, "uint16", 10)
    writer.write(batch_of(GOLDEN))
    with pytest.raises(FormatError, match=r"more than 6 tokens: .* Lower shards\.target_tokens"):
        writer.write(batch_of(GOLDEN))
    writer.close()
    assert struct.unpack_from("<3i", file.getvalue()) == (20240520, 1, 5)


@pytest.mark.parametrize(
    ("place", "what"),
    [
        (0, "byte 0: magic"),
        (4, "byte 4: version 2, expected 1"),
        (8, "4 ids of uint16"),
        (40, "byte 40: expected zeros"),
    ],
)
def test_a_header_of_llmc_that_is_not_one(tmp_path, place, what):
    path = Path(write_shard("llmc", tmp_path / "x", GOLDEN, vocab_size=10))
    data = bytearray(path.read_bytes())
    data[place] ^= 3 if place == 4 else 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=what):
        open_shard("llmc", str(path))


# ----------------------------------------------------------------------------------------------------- flat with bounds


def test_golden_bytes_of_datatrove_and_olmo():
    files = golden_bytes("datatrove")
    assert files[".ds"].hex() == IDS16
    assert files[".ds.index"].hex() == "03000000000000000500000000000000"
    assert golden_bytes("datatrove", "uint32")[".ds"].hex() == IDS32
    files = golden_bytes("olmo")
    assert files[".npy"].hex() == IDS16
    assert gzip.decompress(files[".csv.gz"]) == b"0,3\n3,5\n"
    assert golden_bytes("olmo", vocab_size=65_537)[".npy"].hex() == IDS32


def test_equal_documents_give_equal_bytes_whenever_they_are_compressed(monkeypatch):
    first = golden_bytes("olmo")
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert golden_bytes("olmo") == first


def test_bounds_that_dolma_writes_are_read(tmp_path):
    """It has the document's id, its file and the line after the bounds."""
    path = Path(write_shard("olmo", tmp_path / "x", GOLDEN, vocab_size=10))
    (tmp_path / "x.documents").unlink()
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b'0,3,"a,b",f,1\r\n3,5,c,f,2\r\n'))
    shard = open_shard("olmo", str(path))
    assert [shard.tokens(i).tolist() for i in range(2)] == [[1, 2, 3], [4, 5]]
    for line, what in (
        (b"3,5,x\n", "line 2: a document from 3 to 5, the one before it ends at 4"),
        (b"4,3\n", "line 2: a document from 4 to 3"),
        (b"4,-1\n", r"line 2: b'4,-1': expected start,end"),
        (b"4,5", "does not end"),
    ):
        (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"0,4\n" + line))
        with pytest.raises(FormatError, match=what):
            open_shard("olmo", str(path))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_that_numpy_saved_are_no_shards(tmp_path, version):
    """Megatron's GPTDataset leaves its orders among the shards."""
    write_shard("megatron", tmp_path / "x", GOLDEN, vocab_size=10)
    order = tmp_path / "x_text_document/cache/GPTDataset_indices/1-GPTDataset-train-shuffle_index.npy"
    order.parent.mkdir(parents=True)
    with order.open("wb") as file:
        np.lib.format.write_array(file, np.arange(9), version)
    assert [ids.tolist() for ids in open_shards(tmp_path)] == [[1, 2, 3], [4, 5]]
    with pytest.raises(FormatError, match=r"shuffle_index\.npy: not a file by which .* without NumPy's header"):
        open_shards(order)


# ------------------------------------------------------------------------------------------------------ MDS and litdata


def test_golden_bytes_of_mds(tmp_path):
    data = golden_bytes("mds")[".mds"]
    config = (
        b'{"column_encodings": ["ndarray:int32"], "column_names": ["tokens"], "column_sizes": [null], '
        b'"compression": null, "format": "mds", "hashes": [], "size_limit": null, "version": 2}'
    )
    samples = bytes.fromhex("0e0000000403010000000200000003000000" + "0a00000004020400000005000000")
    first = 16 + len(config)
    assert data == struct.pack("<4I", 2, first, first + 18, first + 32) + config + samples
    assert golden_bytes("mds", "uint16")[".mds"].endswith(bytes.fromhex("060000000402" + "04000500"))
    index = json.loads((write_folder("mds", tmp_path, GOLDEN) / "train" / "index.json").read_bytes())
    (shard,) = index["shards"]
    assert index["version"] == 2
    assert shard == {
        **json.loads(config),
        "raw_data": {"basename": "train-00000-00000.mds", "bytes": len(data), "hashes": {}},
        "samples": 2,
        "zip_data": None,
    }


def test_mds_of_another_writer_is_read_and_other_columns_are_refused(tmp_path):
    """Its config may say how large files become, which moves everything after it."""
    data = golden_bytes("mds")[".mds"]
    first = struct.unpack_from("<I", data, 4)[0]
    path = tmp_path / "x.mds"
    for old, new, fits in (
        (b'"size_limit": null', b'"size_limit": 67108864', True),
        (b'"hashes": []', b'"hashes": ["sha1"]', True),
        (b'"tokens"', b'"text"', False),
        (b"ndarray:int32", b"pkl", False),
    ):
        config = data[16:first].replace(old, new)
        moved = len(config) + 16 - first
        offsets = [offset + moved for offset in struct.unpack_from("<3I", data, 4)]
        path.write_bytes(struct.pack("<4I", 2, *offsets) + config + data[first:])
        if fits:
            shard = open_shard("mds", str(path))
            assert [shard.tokens(i).tolist() for i in range(2)] == [[1, 2, 3], [4, 5]]
        else:
            with pytest.raises(FormatError, match=r"x\.mds: byte 16: config .* expected one column 'tokens'"):
                open_shard("mds", str(path))


def write_mds_of_bytes(path: Path, samples: Sequence[bytes]) -> Path:
    """A file as MosaicML's own tools write ids: a column of bytes."""
    config = json.dumps({**mds.make_config("int32"), "column_encodings": ["bytes"]}, sort_keys=True).encode()
    parts = [struct.pack("<I", len(one)) + one for one in samples]
    ends = [4 * (len(samples) + 2) + len(config) + sum(map(len, parts[:i])) for i in range(len(samples) + 1)]
    path.write_bytes(struct.pack(f"<{len(samples) + 2}I", len(samples), *ends) + config + b"".join(parts))
    return path


def test_mds_columns_of_bytes_are_ids_of_64_bits(tmp_path):
    documents = [[1, 2, 70_000], [], [2**31 - 1], [5] * 300]
    raw = [np.array(one, "<i8").tobytes() for one in documents]
    shard = open_shard("mds", str(write_mds_of_bytes(tmp_path / "x.mds", raw)))
    assert [shard.tokens(row).tolist() for row in range(len(shard))] == documents
    assert shard.num_tokens == 304
    ids = mds.MdsIds(str(tmp_path / "x.mds"))
    joined, lengths = ids.span(0, 4)
    assert (joined.tolist(), lengths.tolist()) == ([*itertools.chain(*documents)], [3, 0, 1, 300])
    assert ids.part(2, 5).tolist() == [70_000, 2**31 - 1, 5]


@pytest.mark.parametrize("width", ["<u2", "<i4", "<f8", ">i8"])
def test_mds_columns_of_bytes_that_are_no_such_ids_are_refused(tmp_path, width):
    """Nothing in the file says their width, so other ones must not be taken for ids of 64 bits."""
    path = write_mds_of_bytes(tmp_path / "x.mds", [np.array([7, 8, 9, 10], width).tobytes()])
    with pytest.raises(FormatError, match=r"x\.mds: its bytes are no ids of 64 bits: .*ndarray:int32"):
        open_shard("mds", str(path)).tokens(0)
    path = write_mds_of_bytes(tmp_path / "y.mds", [b"1234567"])
    with pytest.raises(FormatError, match="sample 0: its bytes are no whole number of ids"):
        open_shard("mds", str(path))


def test_golden_bytes_of_litdata(tmp_path):
    assert golden_bytes("litdata")[".bin"].hex() == "02000000" + "10000000" + "1c000000" + "24000000" + IDS32
    assert golden_bytes("litdata", "uint16")[".bin"].hex() == "02000000" + "10000000" + "16000000" + "1a000000" + IDS16
    for dtype, code in (("int32", 16), ("uint16", 20)):
        folder = write_folder("litdata", tmp_path / dtype, GOLDEN, dtype=dtype, vocab_size=10)
        index = json.loads((folder / "train" / "index.json").read_bytes())
        size = (folder / "train" / "train-00000-00000.bin").stat().st_size
        expected = {"chunk_bytes": size, "chunk_size": 2, "dim": 5, "filename": "train-00000-00000.bin"}
        assert index["chunks"] == [expected]
        assert index["config"]["data_format"] == [f"no_header_tensor:{code}"]


@pytest.mark.parametrize(
    ("name", "module", "writer"), [("mds", mds, "MdsShardWriter"), ("litdata", litdata, "LitdataShardWriter")]
)
def test_files_do_not_grow_beyond_what_their_offsets_can_say(monkeypatch, name, module, writer):
    size = len(next(iter(golden_bytes(name).values())))
    monkeypatch.setattr(module, "MAX_BYTES", size)
    file = io.BytesIO()
    one = getattr(module, writer)(file, "int32", 10)
    one.write(batch_of(GOLDEN))
    with pytest.raises(FormatError, match=rf"at most {size} in one\. Lower shards\.target_tokens"):
        one.write(batch_of([([1], "a", "en", "s", 0)]))
    one.close()
    assert len(file.getvalue()) == size


# --------------------------------------------------------------------------------------------------------- ArrayRecord

# tf.train.Example with input_ids, int64, of the documents of GOLDEN.
EXAMPLES = (
    bytes.fromhex("0a16 0a14 0a09 696e7075745f696473 1207 1a05 0a03 010203"),
    bytes.fromhex("0a15 0a13 0a09 696e7075745f696473 1206 1a04 0a02 0405"),
)


def write_by_its_own_writer(path: Path, records: Iterable[bytes], options: str = "group_size:1,uncompressed") -> None:
    writer = ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()


def test_golden_bytes_of_array_record():
    data = golden_bytes("array_record")[".array_record"]
    assert len(data) == 2 * 65_536
    assert data[:64].hex() == (
        "83af70d10d884a3f00000000000000004000000000000000"
        "91bac23c9287e1a90000000000000000e19f13c0e9b1c3727300000000000000" + "00" * 8
    )
    assert data[64 + 40 : 64 + 40 + 27] == b"\0\1\x18" + EXAMPLES[0]
    assert hashlib.sha256(data).hexdigest() == GOLDEN_ARRAY_RECORD


SIZES = ([], [0], [3, 0, 5], [70_000, 1, 2, 0, *range(200)], [30_000] * 3, [1] * 3000)


@pytest.mark.parametrize("sizes", SIZES)
def test_array_record_files_are_those_of_its_own_writer(tmp_path, sizes):
    """Chunks over the ends of blocks, many of them, and footers of several blocks."""
    chance = np.random.default_rng(3)
    rows = [((chance.integers(0, 2**31, n) >> chance.integers(0, 31, n)).tolist(), "a", "en", "s", 0) for n in sizes]
    own = shard_bytes("array_record", [batch_of(rows)])[".array_record"]
    write_by_its_own_writer(tmp_path / "x.array_record", [make_example(row[0]) for row in rows])
    assert (tmp_path / "x.array_record").read_bytes() == own
    shard = open_shard("array_record", str(tmp_path / "x.array_record"))
    assert [shard.tokens(i).tolist() for i in range(len(shard))] == [row[0] for row in rows]


def test_array_record_is_read_by_its_own_reader_and_by_grain(tmp_path):
    folder = write_folder("array_record", tmp_path, EXAMPLE)
    path = str(folder / "train-00000-00000.array_record")
    expected = [make_example(row[0]) for row in EXAMPLE]
    reader = ArrayRecordReader(path)
    assert reader.num_records() == len(EXAMPLE)
    assert reader.read_all() == expected
    assert reader.read([2, 0]) == [expected[2], expected[0]]
    source = grain.sources.ArrayRecordDataSource([path])
    assert [source[i] for i in range(len(source))] == expected


def test_array_record_files_of_other_records_or_options_are_refused(tmp_path):
    path = tmp_path / "x.array_record"
    for records, options, what in (
        (EXAMPLES, "group_size:2,uncompressed", "byte 155: its footer is damaged, or of other options"),
        (EXAMPLES, "group_size:1", "not an ArrayRecord file of single records|its footer is damaged, or of other"),
        ([b"plain"], "group_size:1,uncompressed", "record 0 has 5 bytes: no tf.train.Example of input_ids alone"),
        (
            [EXAMPLES[0], EXAMPLES[1].replace(b"input_ids", b"other_ids")],
            "group_size:1,uncompressed",
            "byte 131: record 1: damaged, or no tf.train.Example of input_ids alone",
        ),
        ([make_example([1, 2**31])], "group_size:1,uncompressed", "record 0: id 2147483648, more than int32 holds"),
        (
            [EXAMPLES[0].replace(b"\1\2\3", b"\1\2\x83")],
            "group_size:1,uncompressed",
            "records 0 to 0: a part ends within an integer",
        ),
    ):
        write_by_its_own_writer(path, records, options)
        with pytest.raises(FormatError, match=rf"x\.array_record: .*({what})"):
            _ = open_shard("array_record", str(path)).num_tokens


# ---------------------------------------------------------------------------------------------------------------- rows


def test_parquet_is_read_by_pyarrow_duckdb_polars_and_datasets(tmp_path):
    folder = write_folder("parquet", tmp_path / "shards")
    path = str(folder / "train-00000-00000.parquet")
    ids = [row[0] for row in EXAMPLE]
    names = [row[1] for row in EXAMPLE]
    table = pq.read_table(path)
    assert table.column_names == ["input_ids", "id", "lang", "source", "ordinal"]
    assert (table["input_ids"].to_pylist(), table["id"].to_pylist()) == (ids, names)
    assert duckdb.sql(f"SELECT input_ids, id, ordinal FROM '{path}'").fetchall() == [
        (row[0], row[1], row[4]) for row in EXAMPLE
    ]
    assert polars.read_parquet(path)["input_ids"].to_list() == ids
    for streaming in (False, True):
        read = datasets.load_dataset(
            "parquet", data_files=path, split="train", streaming=streaming, cache_dir=str(tmp_path / "cache")
        )
        assert [row["input_ids"] for row in read] == ids


def test_load_from_disk_maps_a_dataset_and_streaming_reads_it(tmp_path):
    folder = write_folder("huggingface", tmp_path / "huggingface")
    splits = datasets.load_from_disk(str(folder), keep_in_memory=False)
    assert list(splits) == ["train"]
    train = splits["train"]
    assert [(row["input_ids"], row["id"], row["lang"], row["source"], row["ordinal"]) for row in train] == EXAMPLE
    assert train.features["input_ids"] == datasets.List(datasets.Value("int32"))
    assert train.features["ordinal"] == datasets.Value("int64")
    assert len(train._fingerprint) == 16
    assert train.cache_files == [{"filename": str(folder / "train" / "train-00000-00000.arrow")}]  # no copy
    streamed = datasets.load_dataset(
        "arrow", data_files=str(folder / "train" / "*.arrow"), split="train", streaming=True
    )
    assert [row["input_ids"] for row in streamed] == [row[0] for row in EXAMPLE]
    # It is a dataset like any other: what is derived of it can be saved and loaded again.
    train.filter(lambda row: row["lang"] == "zh").save_to_disk(str(tmp_path / "zh"))
    assert len(datasets.load_from_disk(str(tmp_path / "zh"))) == 2


def test_other_documents_have_another_fingerprint():
    one = SHARD_FORMATS["huggingface"]
    facts = ShardFacts("train-00000-00000", 0, "", "train", 1, 1, 1)
    states = [
        json.loads(one.folder_index([StoredShard(facts, 1, digest)], ShardSettings("", 9, "zstd"))["train/state.json"])
        for digest in ("aa" * 32, "bb" * 32, "aa" * 32)
    ]
    fingerprints = [state["_fingerprint"] for state in states]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert one.folder_index([], ShardSettings("", 9, "zstd")) == {}


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_parquet_is_compressed_as_the_build_file_says(tmp_path, compression):
    data = shard_bytes("parquet", [batch_of(EXAMPLE)], compression)[".parquet"]
    column = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)
    assert column.compression == {"zstd": "ZSTD", "lz4": "LZ4", "none": "UNCOMPRESSED"}[compression]


def test_a_stream_that_ends_between_two_batches_is_refused(tmp_path):
    """Arrow itself takes that for its end."""
    path = Path(write_shard("huggingface", tmp_path / "x", EXAMPLE))
    data = path.read_bytes()
    assert rows_of(open_shard("huggingface", str(path)).batches()) == EXAMPLE
    path.write_bytes(data[:-8])
    with pytest.raises(FormatError, match="cut off"):
        open_shard("huggingface", str(path))
