"""Other encodings than UTF-8: exact, the same in every version of Python, and named when a source says another."""

from __future__ import annotations

import codecs
import hashlib
import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import COMPRESS, read, reading, reasons

from tokcore_pipelines.reading import streams
from tokcore_pipelines.reading.input_range import FileRejected
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.encodings import ENCODINGS, OTHER_ENCODING_NAMES, SINGLE_BYTE
from tokcore_schemas.plan import InputFile

# sha256 of what the 256 bytes of each encoding stand for, "?" where it has no character.
TABLES = "3d812d617530d2bf79a29c782702a5d3e7cf998f723fc71f45f51abe320d909a"


def test_tables_are_fixed():
    """A codec that learns a character would change what a source's bytes mean."""
    digest = hashlib.sha256()
    for name in SINGLE_BYTE:
        table = [bytes([byte]).decode(name, "replace") for byte in range(256)]
        assert "".join(table[:128]) == bytes(range(128)).decode(), "the kernel's line feeds are ASCII"
        digest.update(f"{name} {''.join(table)}\n".encode())
    assert digest.hexdigest() == TABLES
    assert {name for _, name in OTHER_ENCODING_NAMES} <= set(ENCODINGS)
    assert not {other for other, _ in OTHER_ENCODING_NAMES} & set(ENCODINGS)


def encoded(text, name, mark=True):
    data = text.encode("utf-16-be" if name == "utf-16" else name)
    if name == "utf-16":
        return codecs.BOM_UTF16_BE + data
    return (codecs.BOM_UTF16_LE if mark else b"") + data if name == "utf-16-le" else data


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "utf-8"])
@pytest.mark.parametrize("format", ["jsonl", "csv", "text"])
def test_the_same_documents_as_in_utf8(name, format, monkeypatch):
    alphabet = "".join(c for c in map(chr, range(0x20, 0x600)) if c.encode(name, "ignore") and c not in '"\\,\x7f')
    texts = [alphabet[i : i + 50] for i in range(0, len(alphabet), 50)] + ["line 1", "\u0a0a\u010a" * ("16" in name)]
    texts = [text.strip() for text in texts if text.strip()]
    content = {
        "jsonl": "\n".join(orjson.dumps({"text": text}).decode() for text in texts),
        "csv": "text\r\n" + "".join(f'"{text}"\r\n' for text in texts),
        "text": "\n".join(texts),
    }[format]
    unit = "line" if format == "text" else ""
    how = reading(format=format, encoding=name, unit=unit, delimiter="," * (format == "csv"))
    expected = ([text.encode() for text in texts], [])
    stored = encoded(content, name)
    assert read(stored, how) == expected
    for compression, compress in COMPRESS.items():
        with_compression = reading(
            format=format, encoding=name, unit=unit, delimiter=how.delimiter, compression=compression
        )
        assert read(compress(stored), with_compression) == expected
    monkeypatch.setattr(streams, "BLOCK_BYTES", 3)
    assert read(stored, how) == expected


@given(
    st.text(st.sampled_from("ab\n\u0a0a\u010a😀é"), max_size=30),
    st.sampled_from(["utf-16", "utf-16-le"]),
    st.booleans(),
)
def test_utf16_without_text_lost(content, name, mark):
    got = read(encoded(content, name, mark), reading(format="text", encoding=name, unit="file"))
    assert got == ([content.encode()], [])


@given(st.binary(max_size=24), st.sampled_from([1, 2, 3, 5]), st.sampled_from(["reject", "replace"]))
@examples(500)
def test_any_bytes_as_utf16(data, block, policy):
    """The text, or a rejected record where the strict codec fails; the same in any blocks."""
    how = reading(format="text", encoding="utf-16-le", unit="file", invalid_utf8=policy)
    data = b"a\0" + data
    before = streams.BLOCK_BYTES
    streams.BLOCK_BYTES = block
    try:
        texts, rejects = read(data, how)
    finally:
        streams.BLOCK_BYTES = before
    assert (texts, rejects) == read(data, how)
    try:
        assert texts == [data.decode("utf-16-le").encode()]
    except UnicodeDecodeError:
        if policy == "reject":
            assert reasons(rejects) == [(0, "invalid_utf8")]
        else:
            assert "\ufffd" in texts[0].decode()


@pytest.mark.parametrize("name", SINGLE_BYTE)
def test_bytes_without_a_character_cost_a_record(name):
    """Any two of them in a row, too: some pairs of such bytes are UTF-8."""
    undefined = [byte for byte in range(256) if bytes([byte]).decode(name, "replace") == "\ufffd"]
    for pair in [(byte,) for byte in undefined] + list(itertools.product(undefined, repeat=2)):
        data = b"good\n" + bytes(pair) + b"\nlast\n"
        texts, rejects = read(data, reading(format="text", encoding=name))
        assert texts == [b"good", b"last"]
        assert [(r.reason, r.detail) for r in rejects] == [("invalid_utf8", f"the text has bytes that are not {name}")]
        texts, _ = read(data, reading(format="text", encoding=name, invalid_utf8="replace"))
        assert texts[1] == ("\ufffd" * len(pair)).encode()


def test_broken_utf16_costs_a_record():
    lines = ['{"text": "a"}\n', '{"text": "\ud800"}\n', '{"text": "b"}\n']
    data = b"".join(line.encode("utf-16-le", "surrogatepass") for line in lines)
    texts, rejects = read(data, reading(encoding="utf-16-le"))
    assert texts == [b"a", b"b"]
    assert [(r.record, r.reason, r.detail) for r in rejects] == [
        (1, "invalid_utf8", "the text has bytes that are not utf-16-le")
    ]
    assert read(data, reading(encoding="utf-16-le", invalid_utf8="replace"))[0] == [b"a", "\ufffd".encode(), b"b"]
    texts, rejects = read(data[: len(data) // 3 * 3 - 1], reading(encoding="utf-16-le"))
    assert (len(texts), len(rejects)) == (1, 2), "the end is cut within a character"


@pytest.mark.parametrize(
    ("encoding", "start", "fix"),
    [
        ("", codecs.BOM_UTF16_LE, 'UTF-16-LE: set encoding = "utf-16"'),
        ("", codecs.BOM_UTF16_BE, 'UTF-16-BE: set encoding = "utf-16"'),
        ("", codecs.BOM_UTF32_LE, "UTF-32: convert it"),
        ("", codecs.BOM_UTF32_BE, "UTF-32: convert it"),
        ("utf-16", codecs.BOM_UTF8, 'UTF-8: set encoding = "utf-8"'),
        ("utf-16", b"", 'set encoding = "utf-16-le" or "utf-16-be"'),
        ("utf-16-le", codecs.BOM_UTF16_BE, 'set encoding = "utf-16"'),
        ("utf-16-be", codecs.BOM_UTF16_LE, 'set encoding = "utf-16"'),
        ("latin-1", codecs.BOM_UTF8, 'set encoding = "utf-8", not "latin-1"'),
        ("cp1252", codecs.BOM_UTF16_LE, 'set encoding = "utf-16", not "cp1252"'),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_another_byte_order_mark_is_named(encoding, start, fix, block, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    data = start + '{"text": "a"}\n{"text": "b"}\n'.encode("utf-16-le")
    for where in (0, 10):  # every range of the file gives the same error
        if where and encoding.startswith("utf-16"):
            continue  # such a file is one range
        with pytest.raises(FileRejected, match="wrong_encoding: ") as raised:
            read(data, reading(encoding=encoding), start=where)
        assert fix in str(raised.value)
    with pytest.raises(FileRejected, match="wrong_encoding"):
        read(COMPRESS["gz"](data), reading(encoding=encoding, compression="gz"))


def test_what_looks_like_another_encoding_is_named():
    lines = '{"text": "déjà vu"}\n{"text": "fine"}\n'
    texts, rejects = read(lines.encode("latin-1"))
    assert texts == [b"fine"]
    fix = '; it looks like Windows-1252 or Latin-1: set encoding = "cp1252" or "latin-1"'
    assert rejects[0].detail == f"at byte 11 of the line{fix}"
    assert read(lines.encode("latin-1"), reading(encoding="latin-1"))[0] == ["déjà vu".encode(), b"fine"]
    (reject,) = read("déjà vu\n".encode("latin-1"), format="text")[1]
    assert reject.detail == f"the text is not UTF-8{fix}"
    _, rejects = read(lines.replace("é", "e").replace("à", "a").encode("utf-16-le"))
    assert {r.detail for r in rejects[:2]} == {
        'not a JSON value; it looks like UTF-16: set encoding = "utf-16-le" or "utf-16-be"'
    }
    (reject,) = read("日本\xff".encode()[:-1], format="text")[1]
    assert reject.detail == "the text is not UTF-8"


def test_only_files_with_lines_of_bytes_are_cut():
    def num_ranges(encoding):
        file = InputFile("a.jsonl", 1000, "", 0)
        return sum(len(item.ranges) for item in make_plan([file], [reading(unit="", encoding=encoding)], 100).items)

    assert num_ranges("") == num_ranges("latin-1") == num_ranges("koi8-r") == 10
    assert num_ranges("utf-16") == num_ranges("utf-16-le") == num_ranges("utf-16-be") == 1


def test_ranges_of_an_encoding_of_single_bytes():
    data = "\n".join(f'{{"text": "é{i}"}}' for i in range(20)).encode("latin-1")
    whole = read(data, reading(encoding="latin-1"))
    for cut in range(0, len(data), 7):
        parts = [read(data, reading(encoding="latin-1"), a, b) for a, b in ((0, cut), (cut, len(data)))]
        assert parts[0][0] + parts[1][0] == whole[0]
