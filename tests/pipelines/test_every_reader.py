"""Every reader of ours passes the shipped suite; one of another distribution gets the checks of all."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.reading import read, reading, reasons

from tokcore.errors import FormatError, StageError
from tokcore.plugins.reader import Reader
from tokcore.testing import ReaderTests
from tokcore_pipelines.reading import plugins
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.store import storage

TEXTS = ["some text", "日本語", 'with "quotes", and a\ttabulator', "a"]


class OwnReader(Reader):
    """The documents that a build accepts of a file, by one of our readers."""

    def __init__(self, **settings):
        self._settings = reading(**settings)

    def read(self, file):
        texts, _ = read(file.read(), self._settings)
        yield from ({"text": text} for text in texts)


def make_csv(delimiter):
    sink = io.StringIO()
    csv.writer(sink, delimiter=delimiter).writerows([["text"], *([text] for text in TEXTS)])
    return sink.getvalue().encode()


def make_columns(write):
    sink = io.BytesIO()
    write(pa.table({"text": TEXTS}), sink)
    return sink.getvalue()


def write_arrow(table, sink):
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def make_answer(text):
    data = text.encode()
    head = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:x>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
    return head + b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n" % (len(data), data)


# Format -> (settings, a file of TEXTS, whether its end is proved)
FORMATS = {
    "jsonl": ({}, "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode(), False),
    "csv": ({"unit": "", "delimiter": ","}, make_csv(","), False),
    "tsv": ({"unit": "", "delimiter": "\t"}, make_csv("\t"), False),
    "text": ({"text": ""}, "".join(f"{text}\n" for text in TEXTS).encode(), False),
    "warc": ({"unit": "", "text": ""}, b"".join(map(make_answer, TEXTS)), False),
    "parquet": ({"unit": ""}, make_columns(pq.write_table), True),
    "arrow": ({"unit": ""}, make_columns(write_arrow), True),
}


class TestEveryReader(ReaderTests):
    @pytest.fixture(autouse=True, params=FORMATS)
    def choose(self, request):
        settings, data, self.proves_end = FORMATS[request.param]
        self.reader = OwnReader(format=request.param, **settings)
        self.files = {data: [{"text": text.encode()} for text in TEXTS]}


class Listed(Reader):
    """What a test says: a record, or the error that ends the file."""

    def __init__(self, records):
        self.records = records

    def read(self, file):
        assert file.read(3) + file.read() == b"any"
        for record in self.records:
            if isinstance(record, Exception):
                raise record
            yield record


class Table(dict):
    """A table of readers of other distributions."""

    def find_version(self, name):
        return "toy 1" if name in self else ""


@pytest.fixture
def listed(monkeypatch):
    def install(*records):
        monkeypatch.setattr(plugins, "READERS", Table(listed=Listed(records)))

    return install


HOW = {"format": "listed", "unit": "", "plugin": "toy 1"}


def test_its_records_are_checked_as_all_are(listed):
    good = {"text": "good", "id": 7, "lang": "sw"}
    listed(
        good,
        {"id": 1, "lang": "en"},
        {"text": 5, "id": 1, "lang": "en"},
        {**good, "id": None},
        {**good, "lang": "not a language"},
        {**good, "text": b"\xff"},
        {**good, "text": "\ud800"},
        {**good, "text": "much too long"},
        {**good, "text": "has <|end|>"},
    )
    how = {**HOW, "id": "id", "lang": "", "lang_field": "lang", "max_document_bytes": 11, "forbidden": ("<|end|>",)}
    texts, rejects = read(b"any", **how)
    assert texts == [b"good"]
    named = ["missing_text", "bad_text", "missing_id", "bad_lang", "invalid_utf8", "invalid_utf8"]
    assert reasons(rejects) == [*enumerate([*named, "document_too_large", "special_text"], 1)]
    assert rejects[0].detail == "field text; the record has id, lang"


def test_a_file_that_it_refuses_gives_nothing(listed):
    listed({"text": "one"}, FormatError("byte 5: damaged"))
    with pytest.raises(FormatError, match="corrupt: byte 5: damaged"):
        read(b"any", **HOW)


def test_another_version_than_the_plan_names_is_refused(listed):
    listed({"text": "one"})
    with storage.write_attempt("memory://input") as file:
        file.write(b"any")
    how = reading(**{**HOW, "plugin": "toy 2"})
    with pytest.raises(StageError, match=r"that of toy 2, and here is toy 1\. Install toy==2 wherever workers run"):
        list(read_documents(storage.stat("memory://input"), 0, 3, how))
