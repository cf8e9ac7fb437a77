"""Megatron shards: the published layout, byte by byte and through a reader of our own, and forged indexes refused."""

from __future__ import annotations

import hashlib
import io
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_batches import (
    EXAMPLE,
    FINGERPRINT,
    Document,
    add,
    arrow_bytes,
    batch_of,
    content_of,
    dealt,
    documents,
    open_shard,
    rows_of,
    shard_bytes,
    with_flipped_bit,
    write_megatron,
)

from tokcore.errors import FormatError, VersionError
from tokcore.formats import megatron
from tokcore.formats.arrow_columns import COMPRESSIONS
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import Documents
from tokcore.formats.megatron import (
    BIN,
    IDX,
    MAX_DOCUMENT_TOKENS,
    PREFIX,
    MegatronFormat,
    MegatronIds,
    MegatronShardWriter,
    read_index,
    write_index,
)
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.token_batch import ShardContent

# Documents [1, 2, 3] and [4, 5].
GOLDEN_BIN = "0100000002000000030000000400000005000000"
GOLDEN_IDX = (
    "4d4d494449445800000100000000000000040200000000000000030000000000000003000000020000000000000000000000"
    "0c00000000000000000000000000000001000000000000000200000000000000"
)


def megatron_bytes(batches, compression="zstd", **more):
    """End of the file's name -> bytes."""
    files = shard_bytes("megatron", batches, compression, **more)
    return {suffix.removeprefix(PREFIX): data for suffix, data in files.items()}


def open_megatron(prefix: str):
    return open_shard("megatron", prefix + BIN)


def content_of_megatron(prefix: str) -> ShardContent:
    return content_of("megatron", prefix + BIN)


def place_of(prefix: str, suffix: str) -> Path:
    return Path(prefix.removesuffix(PREFIX) + suffix if suffix == DOCUMENTS else prefix + suffix)


def read_as_megatron(prefix: str) -> list[list[list[int]]]:
    """Documents as lists of sequences, read as Megatron's own reader does: header, lengths, pointers, bounds."""
    dtypes = {
        1: np.uint8,
        2: np.int8,
        3: np.int16,
        4: np.int32,
        5: np.int64,
        6: np.float64,
        7: np.float32,
        8: np.uint16,
    }
    with Path(prefix + IDX).open("rb") as stream:
        assert stream.read(9) == b"MMIDIDX\x00\x00"
        (version,) = struct.unpack("<Q", stream.read(8))
        assert version == 1
        (code,) = struct.unpack("<B", stream.read(1))
        dtype = np.dtype(dtypes[code])
        (num_sequences,) = struct.unpack("<Q", stream.read(8))
        (num_bounds,) = struct.unpack("<Q", stream.read(8))
        rest = stream.read()
    lengths = np.frombuffer(rest, np.int32, num_sequences)
    pointers = np.frombuffer(rest, np.int64, num_sequences, lengths.nbytes)
    bounds = np.frombuffer(rest, np.int64, num_bounds, lengths.nbytes + pointers.nbytes)
    assert len(rest) == lengths.nbytes + pointers.nbytes + bounds.nbytes
    assert len(lengths) == bounds[-1]
    tokens = Path(prefix + BIN).read_bytes()
    sequences = [
        np.frombuffer(tokens, dtype, length, pointer).tolist()
        for length, pointer in zip(lengths.tolist(), pointers.tolist(), strict=True)
    ]
    return [sequences[start:end] for start, end in itertools.pairwise(bounds)]


def test_golden_bytes():
    rows: list[Document] = [([1, 2, 3], None, "en", "a", 0), ([4, 5], None, "en", "a", 1)]
    files = megatron_bytes([batch_of(rows)])
    assert files[BIN].hex() == GOLDEN_BIN
    assert files[IDX].hex() == GOLDEN_IDX
    assert len(files[IDX]) == 42 + 20 * 2
    assert write_index(np.array([3, 2], np.int32)) == files[IDX]


def test_zero_documents(tmp_path):
    prefix = write_megatron(tmp_path / "x", [])
    assert Path(prefix + BIN).read_bytes() == b""
    assert len(Path(prefix + IDX).read_bytes()) == 42
    assert read_as_megatron(prefix) == []
    shard = open_megatron(prefix)
    assert (len(shard), shard.num_tokens, shard.fingerprint) == (0, 0, FINGERPRINT)
    assert content_of_megatron(prefix).num_documents == 0


def test_only_empty_documents(tmp_path):
    rows: list[Document] = [([], "a", "en", "s", 0), ([], None, "sw", "s", 1)]
    prefix = write_megatron(tmp_path / "x", rows)
    assert read_as_megatron(prefix) == [[[]], [[]]]
    assert rows_of(open_megatron(prefix).batches()) == rows
    assert open_megatron(prefix).tokens(1).dtype == np.int32


def test_golden_bytes_of_uint16():
    rows: list[Document] = [([1, 2, 3], None, "en", "a", 0), ([4, 65_535], None, "en", "a", 1)]
    files = megatron_bytes([batch_of(rows)], dtype="uint16", vocab_size=65_536)
    assert files[BIN].hex() == "0100020003000400ffff"
    assert files[IDX].hex() == GOLDEN_IDX.replace("01" + "00" * 7 + "04", "01" + "00" * 7 + "08").replace("0c", "06")
    assert write_index(np.array([3, 2], np.int32), "uint16") == files[IDX]


ids_of_16_bits = st.lists(st.lists(st.integers(0, 65_535), max_size=20), max_size=30)


@given(ids_of_16_bits, st.lists(st.integers(0, 20), max_size=4))
def test_uint16_is_read_as_int32(tmp_path_factory, lists, cuts):
    rows: list[Document] = [(ids, str(i), "en", "s", i) for i, ids in enumerate(lists)]
    files = megatron_bytes([batch_of(rows)], dtype="uint16", vocab_size=65_536)
    assert megatron_bytes(dealt(batch_of(rows), cuts), dtype="uint16", vocab_size=65_536) == files
    prefix = str(tmp_path_factory.mktemp("shards") / "x_text_document")
    for suffix, data in files.items():
        place_of(prefix, suffix).write_bytes(data)
    assert read_as_megatron(prefix) == [[ids] for ids in lists]
    shard = open_megatron(prefix)
    assert (shard.dtype, shard.num_tokens) == ("uint16", sum(map(len, lists)))
    assert rows_of(shard.batches()) == rows
    for i in range(len(shard)):
        tokens = shard.tokens(i)
        assert (tokens.tolist(), tokens.dtype, tokens.flags.writeable) == (lists[i], np.int32, False)
    tokens, lengths = shard.span(1, 3)
    assert (tokens.tolist(), tokens.dtype) == ([id for ids in lists[1:3] for id in ids], np.int32)
    assert lengths.tolist() == list(map(len, lists[1:3]))
    # The same documents are the same content, however wide their ids are stored.
    wide = megatron_bytes([batch_of(rows)])
    for suffix in (BIN, IDX):
        place_of(prefix, suffix).unlink()
        place_of(prefix, suffix).write_bytes(wide[suffix])
    assert content_of_megatron(prefix).hexdigest() == content_of_rows(rows)


def content_of_rows(rows: list[Document]) -> str:
    content = ShardContent()
    add(content, batch_of(rows))
    return content.hexdigest()


@pytest.mark.parametrize(
    ("vocab_size", "wrong"), [(65_536, 65_536), (65_536, -1), (100_000, 65_536), (1000, 1000), (2**31 - 1, 70_000)]
)
def test_an_id_that_would_become_another_is_refused_before_anything_is_written(vocab_size, wrong):
    files = [io.BytesIO() for _ in range(2)]
    writer = MegatronShardWriter(*files, ShardSettings(FINGERPRINT, vocab_size, "zstd", "uint16"))
    with pytest.raises(FormatError, match=f"id {wrong}: the vocabulary has"):
        writer.write(batch_of([([1, 2], None, "en", "a", 0), ([wrong], None, "en", "a", 1)]))
    assert [file.getvalue() for file in files] == [b"", b""]


def blend_of(data: bytes) -> tuple[list[str], list[float]]:
    """(prefixes, weights) of a file for --data-args-path, as Megatron's get_blend_from_list understands it."""
    blend = data.decode().split()
    assert len(blend) % 2 == 0  # an odd number would be a list of prefixes without weights
    return [prefix.strip() for prefix in blend[1::2]], [float(weight) for weight in blend[::2]]


def test_the_files_for_blending():
    shards = [
        StoredShard(facts, 0, "")
        for facts in (
            ShardFacts("train-00000-00000", 0, "en", "train", 3, 500, 8),
            ShardFacts("train-00001-00000", 1, "en", "train", 2, 0, -1),  # empty documents alone: Megatron would stop
            ShardFacts("train-00000-00000", 0, "sw", "train", 1, 20, 8),
            ShardFacts("validation-00000-00000", 0, "sw", "validation", 1, 2, 8),
        )
    ]
    settings = ShardSettings(FINGERPRINT, 9, "zstd")
    files = MegatronFormat().folder_index(shards, settings)
    assert list(files) == ["data_path.train", "data_path.validation"]
    assert files["data_path.validation"] == b"2 sw/validation-00000-00000_text_document\n"
    prefixes = ["en/train-00000-00000_text_document", "sw/train-00000-00000_text_document"]
    assert blend_of(files["data_path.train"]) == (prefixes, [500.0, 20.0])
    assert MegatronFormat().folder_index(shards[1:2], settings) == {}


@given(documents, st.lists(st.integers(0, 20), max_size=4), st.sampled_from(COMPRESSIONS))
def test_read_gives_what_was_written(tmp_path_factory, rows, cuts, compression):
    files = megatron_bytes([batch_of(rows)], compression)
    assert megatron_bytes(dealt(batch_of(rows), cuts), compression) == files
    folder = tmp_path_factory.mktemp("shards")
    prefix = str(folder / "x_text_document")
    for suffix, data in files.items():
        place_of(prefix, suffix).write_bytes(data)
    assert read_as_megatron(prefix) == [[row[0]] for row in rows]
    shard = open_megatron(prefix)
    assert [(shard.tokens(i).tolist(), *shard.columns(i)) for i in range(len(shard))] == rows
    assert rows_of(shard.batches()) == rows
    assert shard.num_tokens == sum(len(row[0]) for row in rows)
    # The same documents are the same content in every format and with every codec.
    arrow = folder / "x.arrow"
    arrow.write_bytes(arrow_bytes([batch_of(rows)], compression))
    one, other = content_of_megatron(prefix), content_of("arrow", str(arrow))
    assert one.hexdigest() == other.hexdigest()
    assert (one.num_documents, one.num_tokens, one.max_token_id) == (
        other.num_documents,
        other.num_tokens,
        other.max_token_id,
    )


def test_many_documents_are_read_in_batches_and_checked_in_blocks(tmp_path):
    rows: list[Document] = [([i] * (i % 5), str(i), "en", "s", i) for i in range(9000)]
    prefix = write_megatron(tmp_path / "x", rows)
    shard = open_megatron(prefix)
    batches = list(shard.batches())
    assert [batch.num_documents for batch in batches] == [4096, 4096, 808]
    assert rows_of(batches) == rows
    data = Path(prefix + IDX).read_bytes()
    for position in (34 + 4 * 5000 + 1, 34 + 4 * 9000 + 8 * 8999, len(data) - 8, 34 + 12 * 9000 + 8 * 1000):
        Path(prefix + IDX).unlink()
        Path(prefix + IDX).write_bytes(with_flipped_bit(data, position, 0))
        with pytest.raises(FormatError, match=r"\.idx: byte \d+: (offset of sequence|bound of document) \d+ is"):
            read_index(prefix + IDX, checked_at_once=1000)


def test_tokens_are_views_of_the_file(tmp_path):
    shard = open_megatron(write_megatron(tmp_path / "x", EXAMPLE))
    one, again, other = shard.tokens(0), shard.tokens(0), shard.tokens(2)
    assert np.shares_memory(one, again)
    assert other.ctypes.data - one.ctypes.data == 12  # back to back, as in the file
    for tokens in (one, other):
        assert type(tokens) is np.ndarray
        assert tokens.dtype == np.int32
        assert not tokens.flags.owndata
        assert not tokens.flags.writeable


def test_documents_file_holds_the_other_columns(tmp_path):
    prefix = write_megatron(tmp_path / "x", EXAMPLE)
    beside = Documents(str(place_of(prefix, DOCUMENTS)))
    assert beside.fingerprint == FINGERPRINT
    assert [beside.columns(i) for i in range(len(beside))] == [row[1:] for row in EXAMPLE]
    assert beside.lengths.tolist() == [len(row[0]) for row in EXAMPLE]


def test_a_document_beyond_the_layout_is_refused_before_anything_is_written():
    files = [io.BytesIO() for _ in range(2)]
    writer = MegatronShardWriter(*files, ShardSettings(FINGERPRINT, 9, "zstd"))
    before = [file.getvalue() for file in files]
    batch = batch_of([([1], None, "en", "a", 0)])
    batch = batch._replace(offsets=np.array([0, MAX_DOCUMENT_TOKENS + 1], np.int64))
    with pytest.raises(FormatError, match=rf"{2**31} tokens: an \.idx file holds at most {2**31 - 1}"):
        writer.write(batch)
    assert [file.getvalue() for file in files] == before


def test_offsets_are_computed_in_64_bits():
    longest = np.full(3, MAX_DOCUMENT_TOKENS, np.int32)
    offsets = np.frombuffer(write_index(longest), "<i8", 3, 34 + 12)
    assert offsets.tolist() == [0, 4 * MAX_DOCUMENT_TOKENS, 8 * MAX_DOCUMENT_TOKENS]


@pytest.mark.parametrize("dtype", ["int32", "uint16"])
def test_every_flipped_bit_of_an_index_is_refused(tmp_path, dtype):
    rows = [([id % 1000 for id in row[0]], *row[1:]) for row in EXAMPLE]
    prefix = write_megatron(tmp_path / "x", rows, dtype=dtype, vocab_size=1000)
    data = Path(prefix + IDX).read_bytes()
    for position in range(len(data)):
        for bit in range(8):
            Path(prefix + IDX).unlink()
            Path(prefix + IDX).write_bytes(with_flipped_bit(data, position, bit))
            with pytest.raises(FormatError, match=r"x_text_document\.(idx|bin): "):
                open_megatron(prefix)


@pytest.mark.parametrize("suffix", [BIN, DOCUMENTS])
def test_a_flipped_bit_never_passes_for_the_content(tmp_path, suffix):
    prefix = write_megatron(tmp_path / "x", EXAMPLE)
    content = content_of_megatron(prefix).hexdigest()
    path = place_of(prefix, suffix)
    data = path.read_bytes()
    noticed = 0
    for position in range(0, len(data), 1 if suffix == BIN else 7):
        path.unlink()
        path.write_bytes(with_flipped_bit(data, position, position % 8))
        try:
            found = content_of_megatron(prefix).hexdigest()
        except FormatError:
            noticed += 1
            continue
        noticed += found != content
        assert found != content or rows_of(open_megatron(prefix).batches()) == EXAMPLE
    assert noticed == len(data) if suffix == BIN else noticed > 50


@pytest.mark.parametrize("suffix", [BIN, IDX, DOCUMENTS])
def test_a_cut_or_grown_file_is_refused(tmp_path, suffix):
    prefix = write_megatron(tmp_path / "x", EXAMPLE)
    path = place_of(prefix, suffix)
    data = path.read_bytes()
    for changed in [data[:size] for size in range(0, len(data), 13)] + [data[:-1], data + b"\0"]:
        path.unlink()
        path.write_bytes(changed)
        with pytest.raises(FormatError, match=r"x(_text_document\.(bin|idx)|\.documents)"):
            content_of_megatron(prefix)


def write_foreign(folder: Path, lengths: list[int], bounds: list[int], code: int = 4) -> str:
    """A data set as Megatron's own tool writes it with several sequences a document; its prefix."""
    width = 4 if code == 4 else 2
    starts = [width * sum(lengths[:i]) for i in range(len(lengths))]
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(lengths), len(bounds))
    index = head + struct.pack(f"<{len(lengths)}i{len(lengths)}q{len(bounds)}q", *lengths, *starts, *bounds)
    prefix = f"{folder}/foreign{PREFIX}"
    Path(prefix + IDX).write_bytes(index)
    Path(prefix + BIN).write_bytes(np.arange(1, sum(lengths) + 1, dtype=f"<u{width}").tobytes())
    return prefix


@pytest.mark.parametrize("code", [4, 8])
@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [
        ([3, 2, 4], [0, 2, 3]),
        ([3, 2, 4], [0, 3]),
        ([3, 0, 2], [0, 0, 1, 3, 3]),  # documents without sequences, and a sequence without ids
        ([3, 2], [0, 1, 2]),
        ([1] * 10, [0, 4, 4, 9, 10]),
        ([], [0, 0]),
    ],
)
def test_documents_of_several_sequences(tmp_path, lengths, bounds, code):
    """Only where no documents file says more: ours have one sequence a document."""
    prefix = write_foreign(tmp_path, lengths, bounds, code)
    expected = [list(itertools.chain(*document)) for document in read_as_megatron(prefix)]
    shard = open_megatron(prefix)
    assert [shard.tokens(row).tolist() for row in range(len(shard))] == expected
    ids = MegatronIds(prefix, joins=True)
    assert ids.lengths(0, len(ids)).tolist() == [len(one) for one in expected]
    joined, its_lengths = ids.span(0, len(ids))
    assert (joined.tolist(), its_lengths.sum()) == ([*itertools.chain(*expected)], sum(lengths))
    if bounds != [*range(len(lengths) + 1)]:
        with pytest.raises(FormatError, match="bound"):
            MegatronIds(prefix)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([0, 2, 1, 3], "byte 86: document 1 ends before it begins"),
        ([1, 2, 3], "byte 70: bound of document 0 is 1, expected 0"),
        ([0, 2], "byte 78: bound of document 1 is 2, expected 3"),
        ([0, 4, 3], "ends before it begins"),
        ([], "byte 26: 0 document bounds for 3 sequences"),
    ],
)
def test_bounds_that_are_no_documents(tmp_path, bounds, message):
    with pytest.raises(FormatError, match=message):
        open_megatron(write_foreign(tmp_path, [3, 2, 4], bounds))


def header(magic: bytes = b"MMIDIDX\0\0", version: int = 1, code: int = 4, num: int = 2, bounds: int = 3) -> bytes:
    return struct.pack("<9sQBQQ", magic, version, code, num, bounds)


GOLDEN_REST = bytes.fromhex(GOLDEN_IDX)[34:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: not an index file"),
        (b"MMIDIDX\0", "byte 0: not an index file"),
        (b"TNTIDX\0\0" + bytes(100), r"byte 0: .*older fairseq layout \(TNTIDX\)"),
        (header(magic=b"MMIDIDY\0\0") + GOLDEN_REST, "byte 0: not an index file"),
        (header()[:20], "byte 20: the file ends within its header"),
        (header(version=2) + GOLDEN_REST, "byte 9: index version 2"),
        (header(code=8) + GOLDEN_REST, "byte 50: offset of sequence 1 is 12, expected 6"),
        (header(code=5) + GOLDEN_REST, r"byte 17: dtype code 5, expected 4 \(int32\) or 8 \(uint16\)"),
        (header(code=0) + GOLDEN_REST, "byte 17: dtype code 0"),
        (header(num=3) + GOLDEN_REST, "byte 26: 3 document bounds for 3 sequences"),
        (header(bounds=2) + GOLDEN_REST, "byte 26: 2 document bounds for 2 sequences"),
        (header(num=2**64 - 2, bounds=2**64 - 1) + GOLDEN_REST, "byte 18: 18446744073709551614 sequences make"),
        (header(num=2**31, bounds=2**31 + 1) + GOLDEN_REST, "byte 18: 2147483648 sequences make"),
        (header() + GOLDEN_REST + bytes(2), "byte 18: .*the file has 84"),  # the multimodal layout's modes
        (header() + struct.pack("<2i5q", -1, 2, 0, 12, 0, 1, 2), "byte 34: sequence 0 has length -1"),
        (header() + struct.pack("<2i5q", 3, 2, 0, -12, 0, 1, 2), "byte 50: offset of sequence 1 is -12, expected 12"),
        (header() + struct.pack("<2i5q", 3, 2, 0, 8, 0, 1, 2), "byte 50: offset of sequence 1 is 8, expected 12"),
        (header() + struct.pack("<2i5q", 3, 2, 4, 16, 0, 1, 2), "byte 42: offset of sequence 0 is 4"),
        (header() + struct.pack("<2i5q", 3, 2, 0, 12, 0, 2, 2), "byte 66: bound of document 1 is 2, expected 1"),
        (header() + struct.pack("<2i5q", 3, 2, 0, 12, 0, 1, 3), "byte 74: bound of document 2 is 3"),
        (header() + struct.pack("<2i5q", 3, 3, 0, 12, 0, 1, 2), r"x\.bin: 20 bytes, its index accounts for 24"),
    ],
)
def test_forged_indexes_are_refused(tmp_path, data, message):
    Path(tmp_path / "x.bin").write_bytes(bytes.fromhex(GOLDEN_BIN))
    Path(tmp_path / "x.idx").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        MegatronIds(str(tmp_path / "x"))  # as beside a documents file
    assert str(tmp_path / "x.") in str(caught.value)
    assert isinstance(caught.value, VersionError) == ("version 2" in message)


def test_an_index_of_2_to_the_31_documents_costs_neither_time_nor_memory(tmp_path):
    """A sparse file: its size agrees with its header, but its zeros describe no documents."""
    path = tmp_path / "x.idx"
    num = 2**31
    with path.open("wb") as file:
        file.write(header(num=num, bounds=num + 1) + struct.pack("<i", 1))
        file.truncate(34 + 12 * num + 8 * (num + 1))
    with pytest.raises(FormatError, match="offset of sequence 1 is 0, expected 4"):
        read_index(str(path))


def test_lengths_beyond_any_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(megatron, "MAX_TOKENS", 10)
    (tmp_path / "x.idx").write_bytes(write_index(np.array([5, 6, 1], np.int32)))
    with pytest.raises(FormatError, match="sum up to 12 ids"):
        read_index(str(tmp_path / "x.idx"))


def test_files_of_other_writers_give_tokens_only(tmp_path):
    Path(tmp_path / "x.bin").write_bytes(bytes.fromhex(GOLDEN_BIN))
    Path(tmp_path / "x.idx").write_bytes(bytes.fromhex(GOLDEN_IDX))
    shard = open_megatron(str(tmp_path / "x"))
    assert [shard.tokens(i).tolist() for i in range(len(shard))] == [[1, 2, 3], [4, 5]]
    assert shard.fingerprint == ""
    with pytest.raises(FormatError, match=r"x\.bin: its documents file is not there"):
        shard.columns(0)


def test_files_of_different_shards_are_refused(tmp_path):
    prefix = write_megatron(tmp_path / "x", EXAMPLE)
    fewer = megatron_bytes([batch_of(EXAMPLE[:2])])
    place_of(prefix, DOCUMENTS).unlink()
    place_of(prefix, DOCUMENTS).write_bytes(fewer[DOCUMENTS])
    with pytest.raises(FormatError, match=r"x\.documents: 2 documents, .*\.bin has 4"):
        open_megatron(prefix).columns(0)
    Path(prefix + BIN).unlink()
    with pytest.raises(FormatError, match=r"x_text_document\.bin: cannot be opened"):
        open_megatron(prefix)


def test_content_digest_by_the_book():
    """The written definition, spelled out with hashlib alone."""
    rows: list[Document] = [([1, 2], "é", "en", "s", 3), ([], None, "sw", "", -1)]
    tokens = [b"\x02\0\0\0en" + struct.pack("<2i", 1, 2), b"\x02\0\0\0sw"]
    streams = [
        b"".join(hashlib.sha256(b"tokcore-document-tokens-v1\0" + rest).digest() for rest in tokens),
        b"\x01\x02\0\0\0\xc3\xa9" + b"\x00\0\0\0\0",
        b"\x01\x02\0\0\0en" + b"\x01\x02\0\0\0sw",
        b"\x01\x01\0\0\0s" + b"\x01\0\0\0\0",
        struct.pack("<2q", 3, -1),
    ]
    digests = b"".join(hashlib.sha256(stream).digest() for stream in streams)
    expected = hashlib.sha256(b"tokcore-shard-v1" + digests).hexdigest()
    content = ShardContent()
    add(content, batch_of(rows))
    assert content.hexdigest() == expected
