"""csv and tsv: the same rows as the csv module's, and no bad quote loses a document unnoticed."""

from __future__ import annotations

import csv
import io
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import COMPRESS, COMPRESSIONS, read, reading, reasons

from tokcore_pipelines.reading import compressed, limits, streams
from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.store import storage


def how(**changes):
    return reading(**{"format": "csv", "unit": "", "delimiter": ",", **changes})


def rows(data, **changes):
    return read(data, how(**changes))


def written(table, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(table)
    return out.getvalue().encode()


TEXT = st.text(st.sampled_from('ab",\t;\n\r é日\0'), max_size=8)


@given(
    st.lists(st.tuples(TEXT, TEXT), max_size=6),
    st.sampled_from(",\t;"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.booleans(),
    st.sampled_from([1, 2, 3, 7, 1 << 20]),
)
@examples(300)
def test_what_the_csv_module_writes_is_read(table, delimiter, line_end, quoting, ended, block):
    """The same documents as from JSON lines, whatever the size of blocks."""
    if quoting == csv.QUOTE_MINIMAL:  # the module does not always quote a carriage return
        table = [(name.replace("\r", ""), text.replace("\r", "")) for name, text in table]
    options = {"delimiter": delimiter, "lineterminator": line_end, "quoting": quoting}
    data = written([("id", "text"), *table], **options)
    data = data if ended else data.removesuffix(line_end.encode())
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = block
    try:
        got = outcome(data, how(delimiter=delimiter, id="id"))
    finally:
        streams.BLOCK_BYTES = before
    json_lines = b"".join(orjson.dumps({"id": name, "text": text}) + b"\n" for name, text in table)
    assert got == outcome(json_lines, reading(id="id"))


def outcome(data, settings):
    with storage.write_attempt("memory://rows") as file:
        file.write(data)
    batches = list(read_documents(storage.stat("memory://rows"), 0, len(data), settings))
    return [
        (batch.texts.text(i), batch.ids[i], int(batch.ordinals[i]))
        for batch in batches
        for i in range(batch.texts.num_texts)
    ] + [tuple(reject) for batch in batches for reject in batch.rejects]


@given(st.lists(st.sampled_from(["a", '"', ",", " ", "\n", "\r\n"]), max_size=20), st.sampled_from([1, 2, 5, 1 << 20]))
@examples(1000)
def test_any_rows_are_split_as_the_csv_module_splits_them(parts, block):
    """Or the file is rejected, in the cases where the strict module stops too."""
    data = "text,x\n" + "".join(parts)
    reader = csv.reader(io.StringIO(data, newline=""), strict=True)
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = block
    try:
        texts, rejects = rows(data.encode())
    except FileRejected as error:
        assert re.match("(corrupt: line|truncated: the quote)", str(error))  # noqa: PT017 - of a reader
        with pytest.raises(csv.Error, match=r"expected after|unexpected end"):
            list(reader)
        return
    finally:
        streams.BLOCK_BYTES = before
    found = [row for row in reader if row][1:]
    assert texts == [row[0].encode() for row in found if len(row) == 2]
    assert reasons(rejects) == [(i, "bad_row") for i, row in enumerate(found) if len(row) != 2]


@given(st.text(st.sampled_from('a",\n\r'), max_size=20))
def test_a_carriage_return_alone_never_hides_a_row(content):
    try:
        texts, rejects = rows(b"text\n" + content.encode())
    except FileRejected:
        return
    found = b"".join(texts) + "".join(r.sample for r in rejects).replace("\\r", "").encode()
    assert found.count(b"a") >= content.count("a")


def test_rows_of_other_lengths_are_rejected_one_by_one():
    data = b'id,text\n1,one\n2\n\n3,three,x\n4,"fo\nur"\n5,five\n'
    texts, rejects = rows(data)
    assert texts == [b"one", b"fo\nur", b"five"]
    assert [(r.record, r.reason, r.detail, r.sample) for r in rejects] == [
        (1, "bad_row", "1 fields, and the header names 2", "2"),
        (2, "bad_row", "3 fields, and the header names 2", "3,three,x"),
    ]


def test_fields_that_are_not_there():
    texts, rejects = rows(b"id,Text\n1,one\n2,two\n")
    assert texts == []
    assert [(r.reason, r.detail) for r in rejects] == [("missing_text", "field text; the header names id, Text")] * 2
    assert rows(b"text,lang\na,en\nb,../x\n", lang="", lang_field="lang")[0] == [b"a"]
    _, rejects = rows(b"text\na\n", id="id")
    assert [(r.reason, r.detail) for r in rejects] == [("missing_id", "field id; the header names text")]
    with pytest.raises(FileRejected, match="corrupt: the header names text 2 times"):
        rows(b"text,text\na,b\n")
    assert rows(b"x,text,x\na,b,c\n")[0] == [b"b"]


def test_edges_of_rows():
    assert rows(b"") == rows(b"\n\r\n") == rows(b"text\n") == rows(b"\xef\xbb\xbftext") == ([], [])
    assert rows(b'\xef\xbb\xbf"text"\r\n""\r\n\r\n a \r\n"nul \0"')[0] == [b"", b" a ", b"nul \0"]
    assert rows(b'text,x\n5" disk,a"b\n')[0] == [b'5" disk']
    assert rows(b"text;x\na,b;1\n", delimiter=";")[0] == [b"a,b"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'text\na\n"b\n', "truncated: the quote that opens on line 3 is not closed"),
        (b'text\n"a"\n"b""\n""', "truncated: the quote that opens on line 3 is not closed"),
        (b'text\n"a\n\n"\n"b" x\n', "corrupt: line 5: a quoted field goes on"),
        (b'text\n"a"b"\n', "corrupt: line 2: a quoted field goes on"),
        (b'text\n"a"\r"b"\n', "corrupt: line 2: a quoted field goes on"),
        (b"text\ra\rb\r", "corrupt: a carriage return in the header"),
    ],
)
@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_bad_quoting_rejects_the_file(data, message, block, kept, monkeypatch):
    """It is rejected before any document is read from it, even if it is too large to keep in memory."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    monkeypatch.setattr(limits, "KEPT_BYTES", kept)
    with storage.write_attempt("memory://quotes") as file:
        file.write(data)
    with pytest.raises(FileRejected, match=message):
        next(read_documents(storage.stat("memory://quotes"), 0, len(data), how()))


def test_quotes_that_are_ordinary_characters():
    data = b'text\tx\n"Hello\t1\n"a" b\t"\nc""\t2\n'
    assert rows(data, format="tsv", delimiter="\t", quotes=False) == ([b'"Hello', b'"a" b', b'c""'], [])
    with pytest.raises(FileRejected, match="set quotes = false"):
        rows(data, format="tsv", delimiter="\t")


def test_a_row_that_is_too_long_costs_only_itself():
    long = b'"' + b'x,""\n' * (1 << 19) + b'"'
    data = b'text\n"a"\n' + long * 9 + b'\n"' + b"y" * 11 + b'"\n"c"\n'
    data = data.replace(b'""\n""', b'""\n""')  # quotes of adjoining parts are doubled, so it is one field
    texts, rejects = rows(data, max_document_bytes=10)
    assert texts == [b"a", b"c"]
    assert [(r.record, r.reason) for r in rejects] == [(1, "document_too_large"), (2, "document_too_large")]
    assert "a row of" in rejects[0].detail


def test_invalid_utf8_in_a_row():
    data = b"text,x\ngood,1\nbad \xff\xfe!,2\ncaf\xe9,3\nfine,\xff\n"
    texts, rejects = rows(data)
    assert texts == [b"good", b"fine"]
    assert reasons(rejects) == [(1, "invalid_utf8"), (2, "invalid_utf8")]
    assert rejects[1].detail.endswith('it looks like Windows-1252 or Latin-1: set encoding = "cp1252" or "latin-1"')
    assert rows(data, invalid_utf8="bytes")[0] == [b"good", b"bad \xff\xfe!", b"caf\xe9", b"fine"]
    assert rows(data, invalid_utf8="replace")[0][1] == "bad \ufffd\ufffd!".encode()


@COMPRESSIONS
def test_compressed_rows_prove_both_ends(compression, monkeypatch):
    data = b'text\nfirst\n"sec\nond"\nlast\n'
    stored = COMPRESS[compression](data)
    assert rows(stored, compression=compression) == ([b"first", b"sec\nond", b"last"], [])
    for cut in range(1, len(stored)):
        with pytest.raises(FileRejected):
            rows(stored[:cut], compression=compression)
    with pytest.raises(FileRejected, match="truncated: the quote"):
        rows(COMPRESS[compression](data[:13]), compression=compression)
    monkeypatch.setattr(limits, "KEPT_BYTES", 0)
    monkeypatch.setattr(compressed, "READ_BYTES", 7)
    assert rows(stored, compression=compression) == ([b"first", b"sec\nond", b"last"], [])
