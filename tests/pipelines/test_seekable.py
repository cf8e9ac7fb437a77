"""Seekable zstd, BGZF and xz, read from any place: the same text as from the start, or an error, never another text.

The files are written by hand, block by block; the oracle is the decompression of whole files.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from support.seekable_files import (
    BGZF_END,
    write_bgzf,
    write_bgzf_block,
    write_seekable_zstd,
    write_xz,
    write_zstd_table,
)

from tokcore_pipelines.reading import seekable, seekable_bgzf, streams
from tokcore_pipelines.reading.compressed import decompress
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.seekable import SeekableText
from tokcore_pipelines.store.read_file import _Blocks

KINDS = {
    "bgzf": ("gz", write_bgzf),
    "bgzf stored": ("gz", lambda texts: write_bgzf(texts, level=0)),
    "zstd": ("zst", write_seekable_zstd),
    "zstd, checksums in both": ("zst", lambda texts: write_seekable_zstd(texts, in_frames=True, with_sizes=True)),
    "zstd, checksums in frames": ("zst", lambda texts: write_seekable_zstd(texts, in_table=False, in_frames=True)),
    "zstd, no checksums": ("zst", lambda texts: write_seekable_zstd(texts, in_table=False)),
    "xz": ("xz", write_xz),
    "xz, sha256": ("xz", lambda texts: write_xz(texts, check=10)),
    "xz, no checks": ("xz", lambda texts: write_xz(texts, check=0)),
    "xz, streams": ("xz", lambda texts: b"".join(write_xz([text]) + bytes(4 * (len(text) % 3)) for text in texts)),
}
SOUND = [kind for kind in KINDS if "no check" not in kind]
EVERY_KIND = pytest.mark.parametrize("kind", list(KINDS))
EVERY_SOUND_KIND = pytest.mark.parametrize("kind", SOUND)

LINES = [b"one\n", b"", b"two\nthree", b" of it\n\n", b"f", b"our", b"", b"\nfive"]


class Stored(io.BytesIO):
    """A file that counts what is asked of it."""

    def __init__(self, data):
        super().__init__(data)
        self.reads = []

    def read(self, size=-1):
        data = super().read(size)
        self.reads.append(len(data))
        return data

    def size(self):
        return len(self.getbuffer())


def write(kind, texts):
    """(the file, its compression, whether it can be read from several places)."""
    compression, write_file = KINDS[kind]
    return write_file(texts), compression


def open_text(data, compression):
    return SeekableText(Stored(data), len(data), compression)


def find_extent(data, compression):
    with contextlib.suppress(FileRejected):
        return open_text(data, compression).extent
    return None


def read_all(text, size=1 << 20):
    """[(place, byte)] from the position on, read in pieces of a size."""
    found = []
    while piece := text.read(size):
        assert len(piece) <= size
        found += zip(range(text.tell() - len(piece), text.tell()), piece, strict=True)
    assert text.read(1) == b""
    assert text.tell() == text.extent
    return found


def read_lines(data, compression, places):
    """The lines of the ranges between places, in order."""
    found = []
    for start, end in itertools.pairwise(places):
        text = open_text(data, compression)
        found.append(b"".join(streams._read_line_blocks(text, *text.cut(start, end))))
    return found


# Blocks that share few bytes, some empty, some with line feeds where they meet.
TEXTS = st.lists(
    st.one_of(
        st.binary(max_size=4),
        st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\0\0"]), max_size=9).map(b"".join),
        st.integers(1, 3000).map(lambda n: (b"%d\n" % n) * 20),
    ),
    min_size=2,
    max_size=8,
)


@EVERY_KIND
@given(texts=TEXTS, size=st.sampled_from([1, 2, 7, 1 << 20]), data=st.data())
def test_any_place_gives_the_text_from_there_on(kind, texts, size, data):
    stored, compression = write(kind, texts)
    whole = b"".join(texts)
    assert b"".join(decompress(Stored(stored), compression)) == whole
    extent = find_extent(stored, compression)
    if extent is None:
        assert max(map(len, texts)) == len(whole) or (compression == "gz" and len(texts) == 1)
        return
    text = open_text(stored, compression)
    bytes_at = read_all(text, size)
    places = [place for place, _ in bytes_at]
    assert bytes(byte for _, byte in bytes_at) == whole
    assert places == sorted(set(places))
    assert compression == "gz" or places == [*range(len(whole))]
    assert all(0 <= place < extent == text.extent for place in places)
    near = [place + more for place in places for more in (-1, 0, 1) if place + more >= 0]
    for place in data.draw(st.lists(st.one_of(st.sampled_from([0, *near]), st.integers(0, extent)), max_size=5)):
        text.seek(place)
        assert read_all(text, size) == [one for one in bytes_at if one[0] >= place]


@EVERY_KIND
@given(texts=TEXTS, data=st.data())
def test_each_line_belongs_to_one_range(kind, texts, data):
    stored, compression = write(kind, texts)
    if (extent := find_extent(stored, compression)) is None:
        return
    cuts = data.draw(st.lists(st.integers(0, extent), max_size=6))
    places = [0, *sorted(cuts), extent]
    found = read_lines(stored, compression, places)
    assert b"".join(found) == b"".join(texts)
    assert all(lines.endswith(b"\n") for lines in [one for one in found if one][:-1])
    text = open_text(stored, compression)
    counted = [text.count_stored(*pair) for pair in itertools.pairwise(places)]
    assert sum(counted) == len(stored)
    assert min(counted) >= 0


@EVERY_KIND
def test_every_cut_of_a_small_file(kind):
    stored, compression = write(kind, LINES)
    extent = find_extent(stored, compression)
    step = 1 << 12 if compression == "gz" else 1
    starts = set()
    for place in range(0, extent + 1, step):
        first, last = read_lines(stored, compression, [0, place, extent])
        assert first + last == b"".join(LINES)
        starts.add(len(first))
    assert len(starts) >= 4


@EVERY_KIND
def test_ranges_of_about_a_size(kind):
    texts = [b"%06d\n" % i * (i % 7) * 180 for i in range(99)]
    stored, compression = write(kind, texts)
    text, whole = open_text(stored, compression), b"".join(texts)
    for range_bytes in (0, 1, 5000, 40_000, len(whole), 1 << 40):
        cuts = text.list_cuts(range_bytes)
        assert [*cuts] == sorted(set(cuts))
        assert cuts[-1] == text.extent
        assert len(cuts) == 1 or range_bytes < len(whole) or (compression == "gz" and range_bytes == len(whole))
        if range_bytes in (5000, 40_000):
            found = read_lines(stored, compression, [0, *cuts])
            assert b"".join(found) == whole
            # Of stored bytes alone one cannot tell how much text there is.
            assert len(found) >= (3 if kind != "bgzf" or range_bytes == 5000 else 1)
            assert compression == "gz" or range_bytes <= max(map(len, found)) <= range_bytes + 2 * 6 * 180 * 7


@EVERY_SOUND_KIND
def test_a_damaged_byte_is_found_or_changes_nothing(kind):
    """Each byte is damaged in turn. All ranges are read then; the whole file, if it can no longer be cut."""
    stored, compression = write(kind, LINES)
    whole, places = b"".join(LINES), None
    found = 0
    for at, flipped in itertools.product(range(len(stored)), (0x01, 0x80, 0xFF)):
        damaged = stored[:at] + bytes([stored[at] ^ flipped]) + stored[at + 1 :]
        try:
            extent = find_extent(damaged, compression)
            if extent is None:
                text = b"".join(decompress(Stored(damaged), compression))
                if compression == "gz":  # headers of gzip have no checksum: a longer one takes in what follows
                    continue
            else:
                places = [0, extent // 3, extent // 2, extent]
                text = b"".join(read_lines(damaged, compression, places))
        except FileRejected:
            found += 1
        else:
            assert text == whole, (at, flipped)
    assert places is not None
    assert found > len(stored)


@EVERY_KIND
def test_a_cut_file_is_left_to_the_reader_of_whole_files(kind):
    stored, compression = write(kind, LINES)
    for size in range(len(stored)):
        extent = find_extent(stored[:size], compression)
        if extent is not None:  # what is left is a file: of fewer streams, or up to another mark of the end
            text = b"".join(read_lines(stored[:size], compression, [0, extent // 2, extent]))
            assert text == b"".join(decompress(Stored(stored[:size]), compression))
            assert kind == "xz, streams" or stored[:size].endswith(BGZF_END)


@EVERY_KIND
def test_a_file_that_ends_before_it_should_while_it_is_read(kind):
    stored, compression = write(kind, [b"some text\n" * 50] * 4)
    text = open_text(stored, compression)
    text._blocks._file = Stored(stored[: len(stored) // 2])
    with pytest.raises(FileRejected, match=r"truncated|corrupt"):
        read_all(text)


@pytest.mark.parametrize("compression", ["none", "bz2", "gz", "zst", "xz"])
def test_what_cannot_be_read_from_several_places(compression):
    many = [b"a\n", b"b\n"]
    for texts in ([], [b""], [b"", b""], [b"a\nb\n"], [b"", b"a\nb\n", b""]):
        assert find_extent(write_bgzf(texts), compression) is None or (compression == "gz" and len(texts) > 1)
        assert find_extent(write_seekable_zstd(texts), compression) is None
        assert find_extent(write_xz(texts), compression) is None
    packer = zstandard.ZstdCompressor(write_checksum=True)
    without_table = packer.compress(b"a") + packer.compress(b"b")
    without_end = write_bgzf(many, end=b"")
    for data in (b"", b"a", b"text\n" * 99, without_table, without_end, BGZF_END, bytes(99)):
        assert find_extent(data, compression) is None
        with pytest.raises(FileRejected, match="does not say where its blocks are"):
            open_text(data, compression)


def rewrite_zstd(texts, entries, in_table=False, num=None):
    frames = [zstandard.ZstdCompressor(level=3).compress(text) for text in texts]
    packed = [struct.pack("<II", len(frame), len(text)) for frame, text in zip(frames, texts, strict=True)]
    return b"".join(frames) + write_zstd_table(entries(packed), in_table, num)


def test_a_zstd_table_that_lies():
    texts = [b"abc\n", b"defg\n", b"hi\n"]
    sizes = lambda entries: [struct.unpack("<II", entry) for entry in entries]  # noqa: E731
    pack = lambda rows: [struct.pack("<II", *row) for row in rows]  # noqa: E731

    def longer_text(entries):
        (a, x), (b, y), last = sizes(entries)
        return pack([(a, x + 1), (b, y - 1), last])

    def longer_frame(entries):
        (a, x), (b, y), last = sizes(entries)
        return pack([(a + 1, x), (b - 1, y), last])

    def joined(entries):
        (a, x), (b, _), last = sizes(entries)
        return pack([(a + b, x), last])

    def longer_last(entries):
        *others, (c, z) = sizes(entries)
        return pack([*others, (c, z + 1)])

    for lie in (longer_text, longer_frame, joined, longer_last):
        stored = rewrite_zstd(texts, lie)
        for start in (0, 1):
            text = open_text(stored, "zst")
            text.seek(start)
            with pytest.raises(FileRejected) as caught:
                read_all(text)
            assert caught.value.reason == "corrupt"
    lost = rewrite_zstd(texts, lambda entries: entries[:-1])
    assert find_extent(lost, "zst") is None
    assert find_extent(rewrite_zstd(texts, lambda entries: entries, num=1 << 31), "zst") is None
    wrong = write_seekable_zstd(texts)
    for at in (-9 - 1, -9 - 12 - 1, -9 - 24 - 1):  # a checksum of the table alone
        changed = wrong[:at] + bytes([wrong[at] ^ 1]) + wrong[at + 1 :]
        with pytest.raises(FileRejected, match="corrupt"):
            read_all(open_text(changed, "zst"))


def test_a_zstd_table_of_two_frames_in_one_entry_and_frames_that_hold_nothing():
    texts = [b"abc\n", b"defg\n", b"hi\n"]

    def joined(entries):
        (a, x), (b, y), last = (struct.unpack("<II", entry) for entry in entries)
        return [struct.pack("<II", a + b, x + y), struct.pack("<II", *last)]

    text = open_text(rewrite_zstd(texts, joined), "zst")
    assert bytes(byte for _, byte in read_all(text)) == b"".join(texts)
    frames = [zstandard.ZstdCompressor(level=3).compress(one) for one in texts]
    frames.insert(1, struct.pack("<II", 0x184D2A50, 3) + b"xyz")
    sums = [zstandard.ZstdCompressor(write_checksum=True).compress(one)[-4:] for one in texts]
    sums.insert(1, bytes(4))
    sizes = [4, 0, 5, 3]
    entries = [struct.pack("<II", len(one), size) + sum for one, size, sum in zip(frames, sizes, sums, strict=True)]
    text = open_text(b"".join(frames) + write_zstd_table(entries, True), "zst")
    assert bytes(byte for _, byte in read_all(text)) == b"".join(texts)


@pytest.mark.parametrize("change", [(1, 0), (0, 1), (4, 0), (0, -1)])
def test_an_xz_index_that_lies(change):
    def lie(sizes):
        (a, x), (b, y), *_ = sizes
        sizes[:2] = [(a + change[0], x + change[1]), (b - change[0], y - change[1])]

    stored = write_xz([b"abcde\n", b"fghij\n", b"k\n"], lie=lie)
    with pytest.raises(FileRejected) as expected:
        list(decompress(Stored(stored), "xz"))
    assert expected.value.reason == "corrupt"
    if (extent := find_extent(stored, "xz")) is not None:
        with pytest.raises(FileRejected) as caught:
            read_lines(stored, "xz", [0, 1, 9, extent])
        assert caught.value.reason == "corrupt"


def test_numbers_of_an_xz_index_that_no_file_has():
    def lie(sizes):
        sizes[:] = [(stored, (1 << 63) - 1) for stored, _ in sizes]

    assert find_extent(write_xz([b"abc\n", b"de\n"], lie=lie), "xz") is None


def test_what_looks_like_a_bgzf_block_within_one():
    """On purpose only: headers within a block that lead to its very end, and on. No wrong text is taken for it."""
    inner = write_bgzf_block(b"\nwrong\n", level=0)
    outer = bytearray(write_bgzf_block(b"right\n" + inner + b"\n", level=0))
    at = outer.find(inner)
    # The inner block now ends where the outer one does, so the headers from it on lead to the end of the file.
    forged = bytearray(inner)
    forged[16:18] = struct.pack("<H", len(outer) - at - 1)
    texts = [b"before\n", b"right\n" + bytes(forged) + b"\n", b"after\n"]
    stored = write_bgzf(texts, level=0)
    places = [0, (stored.find(bytes(forged))) << 16, len(stored) << 16]
    with pytest.raises(FileRejected, match=r"where a block seems to start|not a valid BGZF block|has not the size"):
        read_lines(stored, "gz", places)
    text = open_text(stored, "gz")
    with pytest.raises(FileRejected, match="where a block seems to start"):
        list(streams._read_line_blocks(text, *text.cut(places[0], places[1])))
    # Copied as it is, a BGZF file in a block leads nowhere.
    texts = [b"before\n", write_bgzf([b"x\n", b"y\n"]) + b"\n", b"after\n"]
    stored = write_bgzf(texts, level=0)
    for offset in range(len(stored)):
        assert b"".join(read_lines(stored, "gz", [0, offset << 16, len(stored) << 16])) == b"".join(texts)


def test_a_gzip_member_among_bgzf_blocks():
    stored = write_bgzf([b"a\n" * 99] * 3, end=b"") + gzip.compress(b"b\n") + write_bgzf([b"c\n"])
    with pytest.raises(FileRejected, match="no BGZF block at byte"):
        read_all(open_text(stored, "gz"))


def test_the_largest_blocks():
    texts = [bytes(1 << 16), b"x" * ((1 << 16) - 1) + b"\n", b"", b"y" * 65000 + b"\n", bytes(range(256)) * 200]
    stored = write_bgzf(texts)
    extent = find_extent(stored, "gz")
    bytes_at = read_all(open_text(stored, "gz"))
    assert bytes(byte for _, byte in bytes_at) == b"".join(texts)
    assert len({place for place, _ in bytes_at}) == sum(map(len, texts))
    for place in range(0, extent, extent // 50):
        assert b"".join(read_lines(stored, "gz", [0, place, extent])) == b"".join(texts)
    long = [b"x" * (1 << 16) + b"y", b"z"]  # more text than a block may hold
    with pytest.raises(FileRejected, match="corrupt"):
        read_all(open_text(write_bgzf([b"a", *long]), "gz"))


@EVERY_KIND
def test_text_over_the_limit_is_left_to_the_reader_of_whole_files(kind, monkeypatch):
    monkeypatch.setattr(seekable, "FREE_BYTES", 0)
    monkeypatch.setattr(seekable, "MAX_RATIO", 10)
    stored, compression = write(kind, [b"a" * 5000, b"b" * 5000])
    assert (find_extent(stored, compression) is None) == (len(stored) < 1000 and compression != "gz")


@EVERY_KIND
def test_few_and_small_reads(kind, monkeypatch):
    """Of a file of many blocks, a range reads its own, and planning reads its ends."""
    monkeypatch.setattr(seekable_bgzf, "READ_BYTES", 1 << 17)
    lines = [b"".join(b"%d %d\n" % (i, j * j) for j in range(3000)) for i in range(60)]
    stored, compression = write(kind, lines)
    file = Stored(stored)
    extent = SeekableText(file, len(stored), compression).extent
    most = 3 * 60 if kind == "xz, streams" else 3
    assert len(file.reads) <= most
    assert kind == "xz, streams" or sum(file.reads) <= 3 << 16
    file.reads.clear()
    text = SeekableText(file, len(stored), compression)
    found = b"".join(streams._read_line_blocks(text, *text.cut(extent // 2, extent // 2 + extent // 20)))
    assert 0 < found.count(b"\n") <= 60 / 20 * 3000 * 2
    assert found in b"".join(lines)
    assert kind == "xz, streams" or sum(file.reads) <= len(stored) // 10 + (10 << 16)


@EVERY_KIND
def test_requests_to_a_store(kind):
    """A request asks for eight megabytes, or to the end of the file: what lies beside each other is asked for once."""
    stored, compression = write(kind, [b"%d " % i * 9000 for i in range(40)])
    asked = []

    class Store:
        def cat_file(self, path, start, end):
            asked.append(start)
            return stored[start:end]

    extent = SeekableText(_Blocks(Store(), "a", len(stored)), len(stored), compression).extent
    assert len(asked) <= (80 if kind == "xz, streams" else 2)
    asked.clear()
    text = SeekableText(_Blocks(Store(), "a", len(stored)), len(stored), compression)
    text.read_start(4)
    assert b"".join(streams._read_line_blocks(text, *text.cut(extent // 3, extent // 2))) == b""  # all is one line
    assert kind == "xz, streams" or len(asked) <= 4


def test_a_raw_file():
    stored = write_seekable_zstd([b"abc", b"defg"])
    text = open_text(stored, "zst")
    assert text.readable()
    assert text.seekable()
    assert text.read(0) == b""
    room = bytearray(2)
    assert text.readinto(room) == 2
    assert room == b"ab"
    assert text.seek(-1, io.SEEK_END) == 6
    assert text.readall() == b"g"
    assert text.seek(-2, io.SEEK_CUR) == 5
    assert io.BufferedReader(text).read() == b"fg"
    with pytest.raises(ValueError, match="negative"):
        open_text(stored, "zst").seek(-1)
    text = open_text(stored, "zst")
    text.seek(99)
    assert text.read(1) == b""
    assert text.read_start(5) == b"abcde"
    assert text.read_start(99) == b"abcdefg"
    assert open_text(write_bgzf([b"a", b"", b"bc"]), "gz").read_start(4) == b"abc"
    assert text.cut(0, 0) == (0, 0)
    assert b"".join(streams._read_line_blocks(text, 0, 0)) == b""
