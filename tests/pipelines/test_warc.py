"""WARC and WET: what warcio writes is read, and every record is a document, a reject or counted by its kind."""

from __future__ import annotations

import gzip
import io
from collections import Counter

import pytest
from support.reading import COMPRESS, COMPRESSIONS, read, reading, reasons
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tokcore_pipelines.reading import limits, streams, warc
from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.store import storage

# The library leaves temporary files to the garbage collector when it writes.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def how(**changes):
    return reading(**{"format": "warc", "unit": "", "text": "", **changes})


def skipped(data, **changes):
    with storage.write_attempt("memory://skipped") as file:
        file.write(data)
    counts: Counter[str] = Counter()
    for batch in read_documents(storage.stat("memory://skipped"), 0, len(data), how(**changes)):
        counts.update(batch.skipped)
    return counts


class Archive:
    """Records as the library writes them."""

    def __init__(self, gzipped=False):
        self.file = io.BytesIO()
        self.writer = WARCWriter(self.file, gzip=gzipped)

    def add(self, kind, payload, content_type="text/plain", http=None, **headers):
        uri = headers.pop("uri", "http://example.com/")
        record = self.writer.create_warc_record(
            uri,
            kind,
            io.BytesIO(payload),
            warc_content_type="application/http; msgtype=response" if http else content_type,
            http_headers=StatusAndHeaders(http[0], [("Content-Type", content_type), *http[1:]], "HTTP/1.1")
            if http
            else None,
            warc_headers_dict={name.replace("_", "-"): value for name, value in headers.items()},
        )
        self.writer.write_record(record)
        return self

    def info(self):
        self.writer.write_record(self.writer.create_warcinfo_record("a.warc", {"software": "x"}))
        return self

    @property
    def data(self):
        return self.file.getvalue()


def wet(gzipped=False):
    """As Common Crawl writes it."""
    archive = Archive(gzipped).info()
    for number, text in enumerate(["first", "zwölf\r\n\r\nWARC/1.0", "", "last" * 1000]):
        archive.add(
            "conversion",
            text.encode(),
            uri=f"http://example.com/{number}",
            WARC_Identified_Content_Language="deu,eng" if number == 1 else "eng",
        )
    return archive.data


TEXTS = [b"first", "zwölf\r\n\r\nWARC/1.0".encode(), b"", b"last" * 1000]


@pytest.mark.parametrize("block", [1, 2, 7, 100, 1 << 20])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_a_wet_file(block, kept, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    monkeypatch.setattr(limits, "KEPT_BYTES", kept)
    assert read(wet(), how()) == (TEXTS, [])
    assert read(wet(gzipped=True), how(compression="gz")) == (TEXTS, [])
    assert skipped(wet()) == {"warcinfo": 1}


def test_ids_and_languages_are_headers():
    with storage.write_attempt("memory://wet") as file:
        file.write(wet())
    settings = how(id="warc-target-uri", lang="", lang_field="WARC-Identified-Content-Language")
    (batch,) = read_documents(storage.stat("memory://wet"), 0, 0, settings)
    assert batch.ids == [f"http://example.com/{i}" for i in range(4)]
    assert list(batch.langs) == ["eng", "deu", "eng", "eng"]
    data = wet()
    expected = [
        record.rec_headers.get_header("WARC-Record-ID")
        for record in ArchiveIterator(io.BytesIO(data))
        if record.rec_type == "conversion"
    ]
    with storage.write_attempt("memory://wet") as file:
        file.write(data)
    (batch,) = read_documents(storage.stat("memory://wet"), 0, 0, how(id="WARC-Record-ID"))
    assert batch.ids == expected
    _, rejects = read(wet(), how(id="WARC-Concurrent-To"))
    assert [(r.reason, r.detail) for r in rejects] == [("missing_id", "header WARC-Concurrent-To")] * 4


def test_what_is_a_document_and_what_is_not():
    archive = Archive().info()
    archive.add("response", b"plain", http=("200 OK",))
    archive.add("request", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request")
    archive.add("response", b"<p>html", "text/html; charset=utf-8", http=("200 OK",))
    archive.add("metadata", b"x: y", "application/warc-fields")
    archive.add("resource", b"a file", "text/plain; charset=utf-8")
    archive.add("resource", b"PNG", "image/png")
    archive.add("response", b"gone", http=("404 Not Found",))
    archive.add("response", gzip.compress(b"packed"), http=("200 OK", ("Content-Encoding", "gzip")))
    archive.add("response", b"1\r\nx\r\n0\r\n\r\n", http=("200 OK", ("Transfer-Encoding", "chunked")))
    archive.add("conversion", b"part", WARC_Segment_Number="1")
    archive.add("continuation", b"part", WARC_Segment_Number="2")
    archive.file.write(raw(b"not http", kind="response").replace(b"text/plain", b"application/http"))
    archive.add("conversion", b"caf\xe9")
    archive.add("conversion", b"x" * 101)
    archive.add("conversion", b"y" * (2 << 20))
    archive.add("conversion", b"<|end|>")
    texts, rejects = read(archive.data, how(max_document_bytes=100, forbidden=("<|end|>",)))
    assert texts == [b"plain", b"a file"]
    assert [(r.record, r.reason, r.detail) for r in rejects] == [
        (
            1,
            "not_text",
            "a response record of type text/html: text is not extracted from HTML, read the WET files instead",
        ),
        (3, "not_text", "a resource record of type image/png"),
        (4, "not_text", "an HTTP answer 404"),
        (5, "not_text", "an HTTP answer stored with Content-Encoding gzip"),
        (6, "not_text", "an HTTP answer stored with Transfer-Encoding chunked"),
        (7, "not_text", "a part of a record in several segments, which are not put together"),
        (8, "not_text", "a part of a record in several segments, which are not put together"),
        (9, "not_text", "an HTTP answer whose headers cannot be read"),
        (10, "invalid_utf8", "the text is not UTF-8"),
        (11, "document_too_large", "101 bytes of text, max_document_bytes = 100"),
        (12, "document_too_large", "a record of 2097152 bytes, max_document_bytes = 100"),
        (13, "special_text", "the text spells <|end|> at byte 0"),
    ]
    assert skipped(archive.data) == {"warcinfo": 1, "request": 1, "metadata": 1}


def raw(block, *headers, kind="conversion"):
    lines = ["WARC/1.0", f"WARC-Type: {kind}", "Content-Type: text/plain", *headers]
    if not any(line.lower().startswith("content-length") for line in headers):
        lines.append(f"Content-Length: {len(block)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("stated", "is_sound"),
    [
        ("sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", True),
        ("sha1:vl2mmho4yxukfwv63yhtwsbm3gxksq2n", True),
        ("SHA-1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d", True),
        ("sha1:qvTGHdzF6KLavt4PO0gs2a6pQ00=", True),
        ("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", True),
        ("xxh3:abc", True),
        ("sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2A", False),
        ("sha1:", False),
        ("sha256:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", False),
    ],
)
@pytest.mark.parametrize("name", ["WARC-Block-Digest", "WARC-Payload-Digest"])
def test_digests_are_checked(stated, is_sound, name):
    texts, rejects = read(raw(b"a") + raw(b"hello", f"{name}: {stated}") + raw(b"b"), how())
    assert texts == ([b"a", b"hello", b"b"] if is_sound else [b"a", b"b"])
    assert [(r.record, r.reason) for r in rejects] == ([] if is_sound else [(1, "bad_digest")])
    if not is_sound:
        assert read(raw(b"", f"{name}: {stated}"), how())[0] == [], "of an empty record, too"


def test_a_changed_byte_of_a_record_is_found():
    """The library writes a digest of each record."""
    sound = wet()
    at = sound.index(b"first")
    texts, rejects = read(sound[:at] + b"F" + sound[at + 1 :], how())
    assert texts == TEXTS[1:]
    assert reasons(rejects) == [(0, "bad_digest")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (raw(b"hello", "Content-Length: 4"), "corrupt: the record at byte 0 is not 4 bytes long"),
        (raw(b"a") + raw(b"hello", "Content-Length: 6") + raw(b"c"), "corrupt: the record at byte 85 is not 6 bytes"),
        (raw(b"hello", "Content-Length: 6"), "corrupt: the record at byte 0 is not 6"),
        (raw(b"hello", "Content-Length: 9"), "truncated: the file ends within the record at byte 0"),
        (raw(b"hello", "Content-Length: 99999999999999999"), "truncated: the file ends within the record at byte 0"),
        (raw(b"a", "Content-Length: -1"), "corrupt: the WARC record at byte 0 has no valid Content-Length"),
        (raw(b"a", "Content-Length: 1", "content-length: 2"), "corrupt: the WARC record at byte 0 has no valid"),
        (raw(b"a").replace(b"Content-Length: 1", b"X: y"), "corrupt: the WARC record at byte 0 has no valid"),
        (raw(b"a") + b"garbage", "corrupt: no WARC record at byte 85"),
        (raw(b"a") + b"garbage\r\n\r\n", "corrupt: no WARC record at byte 85: garbage"),
        (raw(b"a") + b"WAR", "truncated: the file ends within the header of the record at byte 85"),
        (raw(b"a") + b"\r\n", "corrupt: no WARC record at byte 85"),
        (b"WARC/1.0\r\n" + b"x" * 3000, "corrupt: no WARC record at byte 0: its header does not end"),
        (b"WARC/1.0\r\n" + b"x" * 3000 + b"\r\n\r\n", "corrupt: no WARC record at byte 0: its header does not end"),
        (b"WARC/3.0\r\n\r\n", "corrupt: no WARC record at byte 0: WARC/3.0"),
        (b'{"text": "a"}\n', "corrupt: no WARC record at byte 0"),
    ],
)
@pytest.mark.parametrize("block", [1, 5, 1 << 20])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_broken_framing_rejects_the_file(data, message, block, kept, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    monkeypatch.setattr(limits, "KEPT_BYTES", kept)
    monkeypatch.setattr(warc, "MAX_HEADER_BYTES", 2000)
    with storage.write_attempt("memory://framing") as file:
        file.write(data)
    with pytest.raises(FileRejected, match=message):
        next(read_documents(storage.stat("memory://framing"), 0, len(data), how()))


def test_a_cut_file_is_rejected():
    """Cut at every byte: rejected, except where a record ends, which only the pinned size could show."""
    data = raw(b"hello") + raw(b"") + raw(b"last")
    ends = {0, len(raw(b"hello")), len(raw(b"hello") + raw(b""))}
    for cut in range(len(data)):
        if cut in ends:
            read(data[:cut], how())
            continue
        with pytest.raises(FileRejected, match="truncated"):
            read(data[:cut], how())
    stored = wet(gzipped=True)
    sizes = [len(stored)]
    for cut in range(1, len(stored)):
        try:
            read(stored[:cut], how(compression="gz"))
            sizes.append(cut)
        except FileRejected as error:
            assert error.reason == "truncated"  # noqa: PT017
    assert len(sizes) == 5, "the ends of the members, one for each record"


@COMPRESSIONS
def test_in_every_compression(compression):
    assert read(COMPRESS[compression](wet()), how(compression=compression)) == (TEXTS, [])
    with pytest.raises(FileRejected, match="truncated"):
        read(COMPRESS[compression](wet()[:-1]), how(compression=compression))
