"""Reading: every bad input costs only itself, and no file's end is taken on trust."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import gzip
import itertools
import json
import lzma
import os
import re
import struct
import time
import types
import zlib

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import COMPRESS, COMPRESSIONS, read, reading, reasons

from tokcore.errors import StageError
from tokcore_pipelines.reading import column_reader, compressed, limits, records, streams
from tokcore_pipelines.reading.input_range import FileRejected, make_read_settings, read_documents
from tokcore_pipelines.reading.jsonl import _replace_lone_surrogates
from tokcore_pipelines.reading.plain import read_plain_text
from tokcore_pipelines.reading.records import make_printable
from tokcore_pipelines.reading.streams import LongPiece, Pending, PieceLimit, split_lines
from tokcore_pipelines.store import storage


def lines(*records):
    return b"".join((r if isinstance(r, bytes) else orjson.dumps(r)) + b"\n" for r in records)


def doc(text="good", **fields):
    return {"text": text, **fields}


# JSON lines


BAD_LINES = [
    (b'{"text": "a"', "bad_json"),
    (b"{'text': 'a'}", "bad_json"),
    (b'{"text": "a"} x', "bad_json"),
    (b'{"text": "a", "n": NAN}', "bad_json"),
    (b'{"text": "a", "n": -NaN}', "bad_json"),
    (b'{"text": "a", "n": NaN1}', "bad_json"),
    (b'{"text": "a", "n": Infinity 1}', "bad_json"),
    (b'{"text": "a", "n": 01e999}', "bad_json"),
    (b'{"text": "a", "n": 1e999.5}', "bad_json"),
    (b'{"text": "a NaN', "bad_json"),
    (b'{"text": "a NaN \\', "bad_json"),
    (b'{"text": NaN}', "bad_text"),
    (b"NaN", "not_object"),
    (b'{"text": "raw \x01 control"}', "bad_json"),
    (b'{"text": "\\x41"}', "bad_json"),
    (b"\x00", "bad_json"),
    (b"[" * 100_000, "bad_json"),
    (b"[" * 5000 + b"]" * 5000, "bad_json"),
    (b'["text"]', "not_object"),
    (b'"text"', "not_object"),
    (b"null", "not_object"),
    (b"7", "not_object"),
    (b"{}", "missing_text"),
    (b'{"Text": "a"}', "missing_text"),
    (b'{"text": null}', "missing_text"),
    (b'{"text": 7}', "bad_text"),
    (b'{"text": true}', "bad_text"),
    (b'{"text": ["a"]}', "bad_text"),
    (b'{"text": {"a": "b"}}', "bad_text"),
    (b'{"text": "a\xff"}', "invalid_utf8"),
    (b'{"text": "a", "other": "\xc3"}', "invalid_utf8"),
    (b'{"text": "\xed\xa0\x80"}', "invalid_utf8"),
    (b'{"text": "\\ud800"}', "lone_surrogate"),
    (b'{"text": "\\udc00\\ud800"}', "lone_surrogate"),
    (b'{"text": "\\ud83d\\ud83d\\ude00"}', "lone_surrogate"),
    (b'{"text": "a", "other": "\\uDFFF"}', "lone_surrogate"),
    (b'{"text": "\\ud800", "b": }', "bad_json"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_bad_line_costs_only_itself(line, reason):
    texts, rejects = read(lines(doc("before"), line, doc("after"), line, doc("last")))
    assert texts == [b"before", b"after", b"last"]
    assert reasons(rejects) == [(1, reason), (3, reason)]


def test_all_bad_lines_together_in_every_compression():
    data = lines(*[part for line, _ in BAD_LINES for part in (line, doc("good"))])
    for compression, compress in (("none", bytes), *COMPRESS.items()):
        texts, rejects = read(compress(data), compression=compression)
        assert texts == [b"good"] * len(BAD_LINES)
        assert reasons(rejects) == [(2 * i, reason) for i, (_, reason) in enumerate(BAD_LINES)]


def test_ordinary_lines():
    """Blank lines are no records, an empty text is a document, CRLF and a missing last line feed are fine."""
    data = b'\xef\xbb\xbf{"text": "a"}\r\n\r\n  \t\n{"text": ""}\n\n{"text":"\\ud83d\\ude00\\n\xe2\x80\xa8"}'
    assert read(data) == ([b"a", b"", "😀\n\u2028".encode()], [])
    assert read(b"") == read(b"\n\r\n \n") == read(b"\xef\xbb\xbf") == ([], [])
    assert read(b'{"text": "a", "text": "b"}') == ([b"b"], [])


def test_byte_order_mark_elsewhere_is_content():
    texts, rejects = read(lines(doc("a"), b'\xef\xbb\xbf{"text": "b"}', doc("\ufeffc")))
    assert texts == [b"a", b"\xef\xbb\xbfc"]
    assert reasons(rejects) == [(1, "bad_json")]


def test_ids_and_languages():
    data = lines(
        doc(id="a", lang="en"),
        doc(id=17, lang="zh-Hant"),
        doc(id="", lang="sw"),
        doc(lang="en"),
        doc(id=None, lang="en"),
        doc(id=True, lang="en"),
        doc(id=1.5, lang="en"),
        doc(id=["a"], lang="en"),
        doc(id="x" * 70_000, lang="en"),
        doc(id=-(1 << 63), lang="en"),
        doc(id=(1 << 64) - 1, lang="en"),
        doc(id="b"),
        doc(id="b", lang=None),
        doc(id="b", lang="../etc"),
        doc(id="b", lang=""),
        doc(id="b", lang=["en"]),
    )
    with storage.write_attempt("memory://ids") as file:
        file.write(data)
    (batch,) = read_documents(storage.stat("memory://ids"), 0, len(data), reading(id="id", lang="", lang_field="lang"))
    assert batch.ids == ["a", "17", "", str(-(1 << 63)), str((1 << 64) - 1)]
    assert batch.langs == ["en", "zh-Hant", "sw", "en", "en"]
    assert reasons(batch.rejects) == [
        (3, "missing_id"),
        (4, "missing_id"),
        (5, "bad_id"),
        (6, "bad_id"),
        (7, "bad_id"),
        (8, "bad_id"),
        (11, "bad_lang"),
        (12, "bad_lang"),
        (13, "bad_lang"),
        (14, "bad_lang"),
        (15, "bad_lang"),
    ]


def test_nested_fields():
    data = lines({"a": {"b": "nested"}}, {"a.b": "exact", "a": {"b": "nested"}}, {"a": 7}, {"a": {"b": None}})
    texts, rejects = read(data, text="a.b")
    assert texts == [b"nested", b"exact"]
    assert reasons(rejects) == [(2, "missing_text"), (3, "missing_text")]


def test_policies_for_invalid_utf8():
    raw = b"a\xff\xe4\xb8 \xc3\xa9\xed\xa0\x80\x80"
    line = b'{"id": "k", "text": "' + raw + b'\\n\\u00e9"}'
    data = lines(doc("before", id="1"), line, b'{"id": "\xff", "text": "x"}', b'{"text": "\xff"', doc("after", id="2"))
    replaced = raw.decode(errors="replace").encode()
    tail = "\né".encode()
    assert read(data, id="id", invalid_utf8="replace") == (
        [b"before", replaced + tail, b"x", b"after"],
        [records.Reject(3, "bad_json", "not a JSON value", '{"text": "\\xff"')],
    )
    texts, rejects = read(data, id="id", invalid_utf8="bytes")
    assert texts == [b"before", raw + tail, b"after"]
    assert reasons(rejects) == [(2, "bad_id"), (3, "bad_json")]
    texts, rejects = read(data, id="id")
    assert texts == [b"before", b"after"]
    assert {r.reason for r in rejects} == {"invalid_utf8"}


@pytest.mark.parametrize("policy", ["replace", "bytes"])
@pytest.mark.parametrize(
    ("extra", "reason"),
    [(b'"\\ud800"', "lone_surrogate"), (b"nan", "bad_json"), (b"[" * 990 + b"]" * 990, "bad_json"), (b"[", "bad_json")],
)
def test_policies_do_not_weaken_the_parser(policy, extra, reason):
    line = b'{"text": "\xff", "extra": ' + extra + b"}"
    texts, rejects = read(lines(line, doc()), invalid_utf8=policy)
    if policy == "replace" and extra.startswith(b"[["):
        assert texts == ["\ufffd".encode(), b"good"]
    else:
        assert texts == [b"good"]
        assert reasons(rejects) == [(0, reason)]


@pytest.mark.parametrize("policy", ["reject", "replace", "bytes"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-2.5E+400", "1" + "0" * 5000])
def test_numbers_that_nobody_reads_may_be_any(policy, number):
    """As Python's json writes them by default. In the text they are text, and in a field that is read they are bad."""
    extra = f'"list": [{number}, 1], "deep": {{"x": {number}}}, "more": "{number} \\\\\\" {number}", "n":{number}'
    good = f'{{"text": "{number} 1e5", {extra}}}'.encode()
    bad = f'{{"id": {number}, "text": "", {extra}}}'.encode()
    texts, rejects = read(lines(good, b'{"text": "Infinity"}'), invalid_utf8=policy)
    assert (texts, rejects) == ([f"{number} 1e5".encode(), b"Infinity"], [])
    texts, rejects = read(lines(bad, b'{"text": "", "id": "1"}'), invalid_utf8=policy, id="id")
    assert (texts, reasons(rejects)) == ([b""], [(0, "bad_id")])
    if policy == "bytes":
        assert read(lines(good.replace(b" 1e5", b"\xff")), invalid_utf8=policy)[0] == [number.encode() + b"\xff"]


def test_such_numbers_take_no_longer():
    """Not even in a string that never ends, which holds what looks like the starts of many others."""
    started = time.process_time()
    slash = b"\\"
    for line in (
        b'"' + 2 * slash * 1_000_000 + b"NaN",
        b'{"a": "' + (slash + b'"') * 1_000_000 + b" NaN",
        b"9" * 2_000_000 + b"]",
        b"NaN " * 500_000,
    ):
        _, rejects = read(line)
        assert [one.reason for one in rejects] == ["bad_json"], line[:20]
    assert time.process_time() - started < 5


@given(st.binary())
def test_any_bytes_as_text_survive_the_bytes_policy(raw):
    text = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    text = b"".join(b"\\u%04x" % byte if byte < 32 else bytes([byte]) for byte in text)
    assert read(lines(b'{"text": "' + text + b'"}'), invalid_utf8="bytes") == ([raw], [])


@given(st.lists(st.sampled_from([r"\ud800", r"\udbff", r"\udc00", r"\\", r"\"", "u", "d800", r"\u0041", "x", r"\n"])))
def test_lone_surrogates_are_found_exactly(parts):
    line = ('"' + "".join(parts) + '"').encode()
    value = json.loads(line)
    repaired = orjson.loads(_replace_lone_surrogates(line))
    assert repaired == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)


def test_limit_of_a_document():
    data = lines(doc("x" * 10), doc("x" * 11), doc("é" * 5), doc("é" * 6), b'{"text": "' + b"\\u0041" * 10 + b'"}')
    texts, rejects = read(data, max_document_bytes=10)
    assert texts == [b"x" * 10, "é".encode() * 5, b"A" * 10]
    assert [(r.record, r.detail) for r in rejects] == [
        (1, "11 bytes of text, max_document_bytes = 10"),
        (3, "12 bytes of text, max_document_bytes = 10"),
    ]


def test_a_line_that_is_too_long_is_not_built(monkeypatch):
    longest = 0
    original = Pending.add

    def add(self, part):
        nonlocal longest
        original(self, part)
        longest = max(longest, len(self._bytes))

    monkeypatch.setattr(Pending, "add", add)
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(lines(doc("first")) + b'{"text": "')
    for _ in range(100):
        data += compressor.compress(b"a" * (1 << 20))
    data += compressor.compress(b'"}\n' + b" " * (40 << 20) + b"\n" + lines(doc("last"))) + compressor.flush()
    texts, rejects = read(data, compression="zst", max_document_bytes=1 << 20)
    assert texts == [b"first", b"last"]
    assert [(r.record, r.reason, r.detail) for r in rejects] == [
        (1, "document_too_large", "a line of 104857612 bytes, max_document_bytes = 1048576")
    ]
    assert rejects[0].sample == '{"text": "' + "a" * 190
    assert longest < 20 << 20


def test_escapes_do_not_make_a_document_too_long():
    """Twenty megabytes of document need sixty of escaped line."""
    text = "\u4e00" * (7 << 20)
    data = lines(json.dumps({"text": text}).encode(), doc())
    assert len(data) > 42 << 20
    assert read(data, max_document_bytes=21 << 20) == ([text.encode(), b"good"], [])


def test_a_bomb_meets_its_limit(monkeypatch):
    monkeypatch.setattr(streams, "FREE_BYTES", 1 << 20)
    bomb = zstandard.compress(bytes(4 << 20))
    with pytest.raises(FileRejected, match="over_limit: more than"):
        read(bomb, compression="zst")
    for compression, compress in COMPRESS.items():
        with pytest.raises(FileRejected, match="over_limit: more than"):  # the limit is for all pieces together
            read(compress(bytes(1 << 18)) * 16, compression=compression)


def test_special_text_is_rejected_where_forbidden():
    data = lines(doc("a<|end|>b"), doc("<|end>"), doc("<|other|>"))
    assert read(data)[1] == []
    texts, rejects = read(data, forbidden=("<|end|>", "<|other|>"))
    assert texts == [b"<|end>"]
    assert [(r.record, r.reason, r.detail) for r in rejects] == [
        (0, "special_text", "the text spells <|end|> at byte 1"),
        (2, "special_text", "the text spells <|other|> at byte 0"),
    ]


def test_batches_are_bounded():
    def sizes(data, **changes):
        with storage.write_attempt("memory://batches") as file:
            file.write(data)
        batches = read_documents(storage.stat("memory://batches"), 0, len(data), reading(**changes))
        return [(b.num_records, b.texts.size_bytes) for b in batches]

    assert sizes(lines(*[doc("x" * (1 << 20))] * 10)) == [(4, 4 << 20), (4, 4 << 20), (2, 2 << 20)]
    assert [n for n, _ in sizes(b"7\n" * 70_000)] == [1 << 16, 70_000 - (1 << 16)]


# ranges


LINE = st.sampled_from([b"a", b"bb", b"", b" ", b"\r", b"c\r", b"\xef\xbb\xbf", b"longer line"])


@given(
    st.lists(LINE), st.booleans(), st.booleans(), st.lists(st.integers(0, 60)), st.sampled_from([1, 2, 3, 7, 1 << 20])
)
@examples(400)
def test_any_cuts_give_every_record_once(parts, mark, ended, cuts, block):
    data = b"\xef\xbb\xbf" * mark + b"\n".join(parts) + b"\n" * ended
    json_data = b"\n".join(b'{"text": "%d"}' % i if p.strip() else p for i, p in enumerate(parts)) + b"\n" * ended
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = block
    try:
        for content, how in ((data, reading(format="text")), (json_data, reading())):
            bounds = [0, *sorted(min(c, len(content)) for c in cuts), len(content)]
            whole = read(content, how)[0]
            parts_read = [read(content, how, a, b)[0] for a, b in itertools.pairwise(bounds)]
            assert [t for texts in parts_read for t in texts] == whole
    finally:
        streams.BLOCK_BYTES = before
    expected = [p.removesuffix(b"\r") for p in b"\n".join(parts).split(b"\n")]
    if mark or not data.startswith(b"\xef\xbb\xbf"):
        assert read(data, format="text")[0] == [p for p in expected if p.strip()]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)), st.integers(1, 40))
def test_lines_do_not_depend_on_blocks(data, cuts, limit):
    """Blocks here are larger than the limit, so every piece must be looked at by itself."""
    bounds = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    blocks = [data[a:b] for a, b in itertools.pairwise(bounds)]
    long = PieceLimit(1 << 20, 1 << 20)
    got = [line for part in split_lines(blocks, long) for line in part]
    assert got == (data.removesuffix(b"\n").split(b"\n") if data else [])

    def whole(parts):
        pending = Pending(PieceLimit(3 * limit, limit))
        for part in parts:
            pending.add(part)
        return pending.take()

    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = 0
    try:
        assert whole(blocks) == whole([data])
    finally:
        streams.BLOCK_BYTES = before


@given(
    st.lists(st.sampled_from([rb"\u0041", rb"\u", rb"\\", b"\\", b"u00", b"41", b"x" * 5])),
    st.lists(st.integers(0, 90)),
)
def test_long_pieces_do_not_depend_on_parts(parts, cuts):
    data = b"".join(parts)
    bounds = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = 0
    try:
        for limit in (1, 5, 20, 50):
            pieces = []
            for cut in ([0, len(data)], bounds):
                pending = Pending(PieceLimit(3 * limit, limit))
                for a, b in itertools.pairwise(cut):
                    pending.add(data[a:b])
                pieces.append(pending.take())
            assert pieces[0] == pieces[1]
            unescaped = len(data) - 6 * len(re.findall(rb"\\u[0-9a-fA-F]{4}", data))
            assert isinstance(pieces[0], LongPiece) == (len(data) > 3 * limit or unescaped > limit)
    finally:
        streams.BLOCK_BYTES = before


# compressed streams


CONTENT = lines(doc("first"), doc("second " * 20), doc("last"))
WANTED = [b"first", b"second " * 20, b"last"]


def gz(data):
    return gzip.compress(data, mtime=0)


def zst(data, **options):
    return zstandard.ZstdCompressor(**options).compress(data)


def xz(data, check=lzma.CHECK_CRC64):
    return lzma.compress(data, check=check)


def skippable(data, number=0):
    return struct.pack("<II", 0x184D2A50 + number, len(data)) + data


def without_content_size(data):
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


ALL_FLAGS = b"\x1f\x8b\x08\x1e\0\0\0\0\0\xff\x03\0abcname\0comment\0"
SOUND = {
    "gz": [
        gz(CONTENT),
        gz(CONTENT[:30]) + gz(b"") + gz(CONTENT[30:]),
        gz(CONTENT) + bytes(512),
        b"".join(gz(CONTENT[i : i + 1]) for i in range(len(CONTENT))),
        b"\x1f\x8b\x08\x18\0\0\0\0\0\xffname\0comment\0" + gz(CONTENT)[10:],
        b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x03\0abc" + gz(CONTENT)[10:],
        ALL_FLAGS + struct.pack("<H", zlib.crc32(ALL_FLAGS) & 0xFFFF) + gz(CONTENT)[10:],
    ],
    "zst": [
        zst(CONTENT),
        zst(CONTENT[:30]) + zst(b"") + zst(CONTENT[30:], write_checksum=True),
        skippable(b"abc") + zst(CONTENT) + skippable(b"", 15),
        skippable(bytes(5000)) + zst(CONTENT[:7]) + skippable(bytes(5000)) + zst(CONTENT[7:]),
        without_content_size(CONTENT),
        b"".join(zst(CONTENT[i : i + 1]) for i in range(len(CONTENT))),
    ],
    "bz2": [
        bz2.compress(CONTENT),
        bz2.compress(CONTENT[:30]) + bz2.compress(b"") + bz2.compress(CONTENT[30:], 1),
        b"".join(bz2.compress(CONTENT[i : i + 1]) for i in range(len(CONTENT))),
    ],
    "xz": [
        lzma.compress(CONTENT),
        xz(CONTENT[:30], lzma.CHECK_CRC32) + xz(b"") + xz(CONTENT[30:], lzma.CHECK_SHA256) + bytes(4),
        xz(CONTENT, lzma.CHECK_NONE),
        xz(CONTENT[:7]) + bytes(8) + xz(CONTENT[7:]) + bytes(512),
        b"".join(xz(CONTENT[i : i + 1]) for i in range(len(CONTENT))),
    ],
}


@pytest.mark.parametrize(("compression", "stored"), [(c, s) for c in SOUND for s in SOUND[c]])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_sound_streams(compression, stored, kept, monkeypatch):
    monkeypatch.setattr(limits, "KEPT_BYTES", kept)
    assert read(stored, compression=compression) == (WANTED, [])


@COMPRESSIONS
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_streams_do_not_depend_on_block_sizes(compression, size, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", size)
    for name in ("READ_BYTES", "PIECE_BYTES", "_ZSTD_FEED_BYTES", "_FEED_BYTES"):
        monkeypatch.setattr(compressed, name, size)
    for stored in SOUND[compression]:
        assert read(stored, compression=compression) == (WANTED, [])


@COMPRESSIONS
@pytest.mark.parametrize("which", [0, 1, 2, -1])
def test_a_cut_stream_is_rejected(compression, which):
    """Cut at every byte: rejected, except where a member or frame ends, which only the pinned size could show."""
    stored = SOUND[compression][which]
    accepted, seen = set(), set()
    for cut in range(len(stored)):
        try:
            read(stored[:cut], compression=compression)
            accepted.add(cut)
        except FileRejected as error:
            seen.add(error.reason)
    assert seen == {"truncated"}
    pieces = {
        ("gz", 0): [],
        ("gz", 1): [gz(CONTENT[:30]), gz(b"")],
        ("gz", 2): [gz(CONTENT)] + [b"\0"] * 511,
        ("gz", -1): [],
        ("zst", 0): [],
        ("zst", 1): [zst(CONTENT[:30]), zst(b"")],
        ("zst", 2): [skippable(b"abc"), zst(CONTENT)],
        ("zst", -1): [zst(CONTENT[i : i + 1]) for i in range(len(CONTENT) - 1)],
        ("bz2", 0): [],
        ("bz2", 1): [bz2.compress(CONTENT[:30]), bz2.compress(b"")],
        ("bz2", 2): [bz2.compress(CONTENT[i : i + 1]) for i in range(len(CONTENT) - 1)],
        ("bz2", -1): [bz2.compress(CONTENT[i : i + 1]) for i in range(len(CONTENT) - 1)],
        ("xz", 0): [],
        ("xz", 1): [xz(CONTENT[:30], lzma.CHECK_CRC32), xz(b""), xz(CONTENT[30:], lzma.CHECK_SHA256)],
        ("xz", 2): [],
        ("xz", -1): [xz(CONTENT[i : i + 1]) for i in range(len(CONTENT) - 1)],
    }[compression, which]
    ends = {0} | {sum(map(len, pieces[: i + 1])) for i in range(len(pieces))}
    assert accepted == ends


@COMPRESSIONS
def test_a_cut_stream_is_rejected_before_anything_is_given_out(compression, monkeypatch):
    monkeypatch.setattr(limits, "KEPT_BYTES", 0)
    rng = np.random.default_rng(1)
    content = lines(*[doc(rng.bytes(500).hex()) for _ in range(9000)])
    stored = COMPRESS[compression](content)
    with storage.write_attempt("memory://cut") as file:
        file.write(stored[:-1])
    batches = read_documents(storage.stat("memory://cut"), 0, 0, reading(compression=compression))
    with pytest.raises(FileRejected):
        next(batches)


@COMPRESSIONS
def test_a_flipped_bit_is_found(compression):
    stored = COMPRESS[compression](CONTENT)
    for bit in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            texts, _ = read(bytes(flipped), compression=compression)
        except FileRejected:
            continue
        assert texts == WANTED, f"bit {bit} changed the text unseen"


@pytest.mark.parametrize(
    ("compression", "stored"),
    [
        ("gz", gz(CONTENT) + b"garbage"),
        ("gz", gz(CONTENT) + bytes(10) + b"x"),
        ("gz", gz(CONTENT) + bytes(10) + gz(CONTENT)),
        ("gz", gz(CONTENT) + b"\n"),
        ("gz", CONTENT),
        ("gz", bytes(20)),
        ("gz", zst(CONTENT)),
        ("gz", ALL_FLAGS + b"\0\0" + gz(CONTENT)[10:]),
        ("gz", b"\x1f\x8b\x08\x80" + gz(CONTENT)[4:]),
        ("zst", zst(CONTENT) + b"garbage"),
        ("zst", zst(CONTENT) + bytes(10)),
        ("zst", CONTENT),
        ("zst", gz(CONTENT)),
        ("bz2", bz2.compress(CONTENT) + b"garbage"),
        ("bz2", bz2.compress(CONTENT) + bytes(4)),
        ("bz2", CONTENT),
        ("bz2", xz(CONTENT)),
        ("xz", xz(CONTENT) + b"garbage of some length"),
        ("xz", xz(CONTENT) + bytes(4) + b"garbage of some length"),
        ("xz", xz(CONTENT) + bytes(3) + xz(CONTENT)),
        ("xz", bytes(4) + xz(CONTENT)),
        ("xz", lzma.compress(CONTENT, lzma.FORMAT_ALONE)),
        ("xz", CONTENT),
        ("xz", bz2.compress(CONTENT)),
    ],
)
def test_what_is_no_member_or_frame(compression, stored):
    with pytest.raises(FileRejected) as error:
        read(stored, compression=compression)
    assert error.value.reason == "corrupt"


def test_a_large_window_is_refused():
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=28, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    stored = compressor.compress(CONTENT) + compressor.flush()
    with pytest.raises(FileRejected, match="over_limit: a zstd frame wants a window"):
        read(stored, compression="zst")


def test_a_large_dictionary_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]
    with pytest.raises(FileRejected, match="over_limit: an xz stream wants more than"):
        read(lzma.compress(CONTENT, filters=filters), compression="xz")
    filters[0]["dict_size"] = 1 << 27
    assert read(lzma.compress(CONTENT, filters=filters), compression="xz") == (WANTED, [])


def test_an_xz_stream_with_a_check_of_unknown_kind():
    """The library would read it unchecked. Kind 2 of XZ has four bytes, as CRC32 has."""
    stored = bytearray(xz(CONTENT, lzma.CHECK_CRC32))
    stored[7] = stored[-3] = 2
    stored[8:12] = zlib.crc32(stored[6:8]).to_bytes(4, "little")
    stored[-12:-8] = zlib.crc32(stored[-8:-2]).to_bytes(4, "little")
    with pytest.raises(FileRejected, match="corrupt: an xz stream with a check of unknown kind 2"):
        read(bytes(stored), compression="xz")


def test_double_compression_is_not_undone():
    texts, rejects = read(zst(zst(CONTENT)), compression="zst")
    assert texts == []
    assert {r.reason for r in rejects} <= {"invalid_utf8", "bad_json"}


def test_many_empty_members():
    for compression, empty in (
        *((name, compress(b"")) for name, compress in COMPRESS.items()),
        ("zst", skippable(b"")),
    ):
        assert read(empty * 20_000, compression=compression) == ([], [])


def test_input_that_changes_is_no_rejection(tmp_path):
    """A cut file is rejected only if it was cut when it was planned."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gz(CONTENT))
    pin = storage.stat(str(path))
    os.truncate(path, 20)
    with pytest.raises(StageError, match="input changed"):
        list(read_documents(pin, 0, pin.size_bytes, reading(compression="gz")))


# plain text


def text(data, unit, **changes):
    return read(data, format="text", unit=unit, **changes)


def test_units_of_text():
    data = b"\xef\xbb\xbfone\r\ntwo\n\n \nthree\n\n\nfour\n"
    assert text(data, "file")[0] == [data[3:]]
    assert text(data, "line")[0] == [b"one", b"two", b"three", b"four"]
    assert text(data, "paragraph")[0] == [b"one\r\ntwo", b"three", b"four"]
    assert text(data, "separator", separator="\n\n\n")[0] == [b"one\r\ntwo\n\n \nthree", b"four"]
    for compression, compress in COMPRESS.items():
        assert text(compress(data), "paragraph", compression=compression)[0] == [b"one\r\ntwo", b"three", b"four"]


@pytest.mark.parametrize(
    "changes",
    [{"unit": "line"}, {"unit": "paragraph"}, {"separator": "\n"}, {"separator": "\n\n\n"}, {"separator": "--"}],
    ids=str,
)
def test_a_flood_of_line_breaks_takes_no_time(changes):
    """Of 64 MiB, 65 kB as stored, each line took its time: 19 s."""
    settings = reading(format="text", unit=changes.get("unit", "separator"), separator=changes.get("separator", ""))
    began = time.process_time()
    assert not any(batch.num_records for batch in read_plain_text([b"\n" * (1 << 20)] * 64, settings))
    assert time.process_time() - began < 1


def test_very_many_breaks_part_documents_as_one_does():
    breaks = (b"\n" * 1000, b" \r\n" * 700, b"\r\n" * 513 + b" \t\n", b"\n" * 3 + b" " * 9)
    data = b"a" + b"b".join(breaks) + b"c"
    expected = [b"a", b"b", b"b", b"b", b"c"]
    assert [one.strip() for one in text(data, "line")[0]] == expected
    assert [one.strip() for one in text(data, "separator", separator="\n")[0]] == expected
    assert text(data + b"\nd", "paragraph")[0] == [b"a", b"b ", b"b", b"b", b"         c\nd"]
    settings = reading(format="text", unit="paragraph")
    for size in (1, 7, 300):
        blocks = [data[i : i + size] for i in range(0, len(data), size)]
        assert sum(batch.num_records for batch in read_plain_text(blocks, settings)) == 5


def test_edges_of_text():
    assert text(b"", "file") == ([b""], [])
    assert text(b" \n", "file") == ([b" \n"], [])
    for unit in ("line", "paragraph", "separator"):
        assert text(b"", unit, separator="--") == text(b" \r\n\n", unit, separator="--") == ([], [])
    assert text(b"--a----b--\n", "separator", separator="--")[0] == [b"a", b"b"]
    assert text(b"a---b", "separator", separator="--")[0] == [b"a", b"-b"]


@given(st.text(alphabet="ab-\n", max_size=60), st.sampled_from(["--", "-", "\n\n\n", "-\n-"]), st.integers(1, 20))
def test_separators_do_not_depend_on_blocks(content, separator, block):
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = block
    try:
        got = text(content.encode(), "separator", separator=separator)[0]
    finally:
        streams.BLOCK_BYTES = before
    assert got == [p.strip("\n").encode() for p in content.split(separator) if p.strip()]


@pytest.mark.parametrize("unit", ["line", "paragraph", "separator"])
def test_bad_text_costs_only_itself(unit):
    data = b"good\n\nbad \xff\n\n" + b"x" * 101 + b"\n\n" + b"y" * (5 << 20) + b"\n\nlast\n"
    texts, rejects = text(data, unit, separator="\n\n", max_document_bytes=100)
    assert texts == [b"good", b"last"]
    assert reasons(rejects) == [(1, "invalid_utf8"), (2, "document_too_large"), (3, "document_too_large")]
    assert text(data, unit, separator="\n\n", invalid_utf8="bytes")[0][1] == b"bad \xff"
    assert text(data, unit, separator="\n\n", invalid_utf8="replace")[0][1] == "bad \ufffd".encode()


def test_a_file_that_is_too_large():
    assert text(b"x" * 100, "file", max_document_bytes=100) == ([b"x" * 100], [])
    for size in (101, 5 << 20):
        texts, rejects = text(b"x" * size, "file", max_document_bytes=100)
        assert texts == []
        assert reasons(rejects) == [(0, "document_too_large")]
    assert reasons(text(b" " * (5 << 20), "file", max_document_bytes=100)[1]) == [(0, "document_too_large")]


# parquet and Arrow


def parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def arrow(table, stream=False, **options):
    sink = pa.BufferOutputStream()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue().to_pybytes()


WRITERS = {
    "parquet": ("parquet", parquet),
    "parquet-groups": ("parquet", lambda t: parquet(t, row_group_size=2, compression="zstd", write_page_checksum=True)),
    "parquet-plain": ("parquet", lambda t: parquet(t, use_dictionary=False)),
    "arrow": ("arrow", arrow),
    "arrow-zstd": ("arrow", lambda t: arrow(t, compression="zstd")),
    "arrow-stream": ("arrow", lambda t: arrow(t, stream=True)),
}
WRITER = pytest.mark.parametrize("writer", list(WRITERS))


def rows(table, writer, **changes):
    name, write = WRITERS[writer]
    return read(write(table), format=name, **changes)


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]
DICTIONARIES = [pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())]


@WRITER
@pytest.mark.parametrize("kind", STRINGS + DICTIONARIES, ids=str)
def test_text_columns(writer, kind):
    values = ["first", "", None, "długi " * 50, "first", None, "last"]
    column = pa.array(values, pa.string()).cast(kind)
    table = pa.table({"other": pa.array(range(7)), "text": column, "more": pa.array([[1]] * 7)})
    try:
        got, rejects = rows(table, writer)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow cannot write {kind} as {writer}")
    assert got == [v.encode() for v in values if v is not None]
    assert reasons(rejects) == [(2, "missing_text"), (5, "missing_text")]


@WRITER
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array([1.5, None, 2.5]),
        pa.array([True, None, False]),
        pa.array([["a"], None, ["b"]]),
        pa.array([{"a": "b"}, None, {"a": "c"}]),
        pa.array([b"abc", None, b"abc"], pa.binary(3)),
    ],
    ids=lambda c: str(c.type),
)
def test_columns_that_are_no_text(writer, column):
    got, rejects = rows(pa.table({"text": column}), writer)
    assert got == []
    assert reasons(rejects) == [(0, "bad_text"), (1, "missing_text"), (2, "bad_text")]


@WRITER
def test_missing_columns(writer):
    table = pa.table({"other": ["a", "b", "c"]})
    assert reasons(rows(table, writer)[1]) == [(i, "missing_text") for i in range(3)]
    table = pa.table({"text": ["a", "b", "c"]})
    assert reasons(rows(table, writer, id="id")[1]) == [(i, "missing_id") for i in range(3)]
    assert reasons(rows(table, writer, lang_field="lang")[1]) == [(i, "bad_lang") for i in range(3)]
    assert rows(table.slice(0, 0), writer) == ([], [])
    assert reasons(rows(pa.table({"text": pa.nulls(3)}), writer)[1]) == [(i, "missing_text") for i in range(3)]


@WRITER
def test_columns_of_ids_and_languages(writer):
    name, write = WRITERS[writer]
    table = pa.table(
        {
            "meta": [{"lang": "en"}, {"lang": "sw"}, None, {"lang": "a/b"}, {"lang": "en"}],
            "text": ["a", "b", "c", "d", "e"],
            "id": pa.array([1, (1 << 64) - 1, 3, 4, None], pa.uint64()),
        }
    )
    data = write(table)
    with storage.write_attempt("memory://columns") as file:
        file.write(data)
    how = reading(format=name, id="id", lang="", lang_field="meta.lang")
    (batch,) = read_documents(storage.stat("memory://columns"), 0, len(data), how)
    assert (batch.ids, batch.langs) == (["1", str((1 << 64) - 1)], ["en", "sw"])
    assert reasons(batch.rejects) == [(2, "bad_lang"), (3, "bad_lang"), (4, "missing_id")]


@WRITER
def test_invalid_utf8_in_a_column_costs_a_record(writer):
    raw = pa.array([b"good", b"bad \xff", b"last"], pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 3, raw.buffers())})
    texts, rejects = rows(table, writer)
    assert texts == [b"good", b"last"]
    assert reasons(rejects) == [(1, "invalid_utf8")]
    assert rows(table, writer, invalid_utf8="bytes") == ([b"good", b"bad \xff", b"last"], [])
    assert rows(table, writer, invalid_utf8="replace") == ([b"good", "bad \ufffd".encode(), b"last"], [])


@WRITER
def test_a_cut_file_of_rows_is_rejected(writer):
    name, write = WRITERS[writer]
    table = pa.table({"text": ["first", "second", "third"], "id": ["a", "b", "c"]})
    stored = write(table)
    assert read(stored, format=name)[0] == [b"first", b"second", b"third"]
    for cut in range(len(stored)):
        with pytest.raises(FileRejected):
            read(stored[:cut], format=name)
    with pytest.raises(FileRejected):
        read(stored + b"x", format=name)


@WRITER
def test_large_files_of_rows_are_read_from_the_store(writer, monkeypatch):
    monkeypatch.setattr(limits, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(limits, "KEPT_BYTES", 0)
    table = pa.table({"text": [f"row {i}" for i in range(5000)]})
    texts, rejects = rows(table, writer)
    assert (texts, rejects) == ([b"row %d" % i for i in range(5000)], [])


def test_forged_offsets_are_found():
    """The library itself would read beyond the buffer, or give another row's text."""
    for kind, width in ((pa.string(), 4), (pa.large_string(), 8)):
        stored = arrow(pa.table({"text": pa.array(["first", "second"], kind)}))
        offsets = np.array([0, 5, 11], f"<i{width}").tobytes()
        for forged in ([0, 5, 1 << 30], [0, -5, 11], [0, 7, 5], [3, 2, 11]):
            assert stored.count(offsets) == 1
            with pytest.raises(FileRejected) as error:
                read(stored.replace(offsets, np.array(forged, f"<i{width}").tobytes()), format="arrow")
            assert error.value.reason == "corrupt"


def test_forged_dictionary_indices_are_found():
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), ["first", "second"])})
    stored = arrow(table)
    indices = np.array([1, 0], "<i4").tobytes()
    assert stored.count(indices) >= 1
    at = stored.rindex(indices, 0, stored.rindex(b"ARROW1") - 100)
    for forged in ([2, 0], [-1, 0], [1, 1 << 30]):
        broken = stored[:at] + np.array(forged, "<i4").tobytes() + stored[at + 8 :]
        with pytest.raises(FileRejected):
            read(broken, format="arrow")


@pytest.mark.parametrize("writer", ["parquet-groups", "arrow", "arrow-stream"])
def test_broken_files_of_rows_end_in_a_rejection_or_in_text(writer):
    """Any byte overwritten gives an ordinary exception or an ordinary result, whatever the libraries do with it."""
    name, write = WRITERS[writer]
    stored = write(pa.table({"text": ["first", "second", "third"]}))
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(stored)
        for at in rng.integers(0, len(stored), 2):
            broken[at] = rng.integers(256)
        with contextlib.suppress(FileRejected):
            read(bytes(broken), format=name)


def test_a_store_that_fails_under_parquet_is_not_a_rejection(monkeypatch, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(pa.table({"text": ["x" * 100] * 1000})))
    pin = storage.stat(str(path))
    monkeypatch.setattr(limits, "IN_MEMORY_BYTES", 0)
    serve = column_reader._Reader._serve

    def truncate_first(self, *arguments):
        os.truncate(path, 100)
        serve(self, *arguments)

    monkeypatch.setattr(column_reader._Reader, "_serve", truncate_first)
    with pytest.raises(StageError, match="input changed"):
        list(read_documents(pin, 0, pin.size_bytes, reading(format="parquet")))


# settings and samples


SOURCE = types.SimpleNamespace(
    text="body",
    id="name",
    lang="en",
    lang_field=None,
    invalid_utf8="replace",
    max_document_bytes=9,
    unit=None,
    separator=None,
    encoding="utf-8",
    delimiter=None,
    quotes=True,
    validation=False,
    group=None,
    name=None,
)


def test_settings_of_a_source():
    common = {"lang": "en", "invalid_utf8": "replace", "max_document_bytes": 9, "forbidden": ("<|end|>",)}
    fields = reading(text="body", id="name", unit="", **common)
    assert make_read_settings(SOURCE, "jsonl", "gz", ("<|end|>",)) == dataclasses.replace(fields, compression="gz")
    assert make_read_settings(SOURCE, "parquet", "gz", ("<|end|>",)) == dataclasses.replace(fields, format="parquet")
    whole = reading(format="text", compression="gz", text="", unit="file", **common)
    assert make_read_settings(SOURCE, "text", "gz", ("<|end|>",)) == whole
    cut = types.SimpleNamespace(**{**vars(SOURCE), "separator": "---"})
    assert make_read_settings(cut, "text", "gz", ("<|end|>",)) == dataclasses.replace(
        whole, unit="separator", separator="---"
    )


@given(st.binary(max_size=400))
def test_samples_are_harmless(data):
    sample = make_printable(data)
    assert len(sample.encode()) <= 200
    assert sample.isprintable() or all(c.isprintable() or ord(c) > 0xFF for c in sample)


def test_samples():
    assert make_printable("naïve 文 \\ \x1b[31m\r\n\u202e\u200b\x00\u2028".encode() + b"\xff") == (
        r"naïve 文 \\ \x1b[31m\r\n\u202e\u200b\x00\u2028\xff"
    )


def test_long_piece_tells_its_size():
    pending = Pending(PieceLimit(100, 100))
    for _ in range(3 << 4):
        pending.add(b"x" * (1 << 16))
    assert pending.take() == LongPiece(b"x" * 200, 3 << 20, False)
    assert not pending
