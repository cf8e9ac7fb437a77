"""Decompression bombs and the like: each ends in a named rejection, within bounded memory and time.

Each is read in a process of its own, whose peak of resident memory and CPU time are measured. Parquet and Arrow files
are also decoded in that process, not in a reader of its own.
"""

from __future__ import annotations

import gzip
import json
import lzma
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from support.builds import ROOT

MB = 1 << 20
SECONDS = 30  # of CPU time: these inputs take up to 6; quadratic work would take minutes

READ = """
import dataclasses, json, sys, time
from tokcore_pipelines.store import storage
from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_schemas.plan import ReadSettings
from tokcore_pipelines.reading.columns import decode_columns
from tokcore_pipelines.reading.row_file import RowFile
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
path, settings = sys.argv[1], json.loads(sys.argv[2])
before, started = peak(), time.process_time()
records, documents, reasons = 0, 0, []
try:
    pin, settings = storage.stat(path), ReadSettings(**settings)
    if settings.format in ("parquet", "arrow"):
        batches = decode_columns(RowFile(storage.open_pinned(pin)), settings)
    else:
        batches = read_documents(pin, 0, pin.size_bytes, settings)
    for batch in batches:
        records += batch.num_records
        documents += batch.texts.num_texts
        reasons += [reject.reason for reject in batch.rejects]
except FileRejected as error:
    reasons.append("file: " + error.reason)
print(json.dumps([records, documents, sorted(set(reasons)), peak() - before, time.process_time() - started]))
"""


def read(path: Path, max_mb: int, seconds: float = SECONDS, **changes) -> tuple[int, int, list[str]]:
    """(records, documents, reasons) of a file; asserts what reading it may cost."""
    suffix = path.name.split(".")
    settings = {
        "format": suffix[1],
        "compression": suffix[2] if len(suffix) > 2 else "none",
        "text": "text",
        "id": "",
        "lang": "en",
        "lang_field": "",
        "invalid_utf8": "reject",
        "max_document_bytes": 1 << 28,
        "unit": "line",
        "separator": "",
        **changes,
    }
    command = [sys.executable, "-c", READ, str(path), json.dumps(settings)]
    for _ in range(2):  # a second chance on a busy machine, where even CPU time varies
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        records, documents, reasons, memory, spent = json.loads(done.stdout)
        if spent <= seconds:
            break
    print(f"{path.name} {changes}: {records} records, {reasons}, {memory / MB:.0f} MB, {spent:.1f} s")
    assert memory <= max_mb * MB, f"{memory / MB:.0f} MB"
    assert spent <= seconds, f"{spent} s"
    return records, documents, reasons


def frame(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def member(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def write(folder: Path, name: str, *parts: bytes) -> Path:
    (folder / name).write_bytes(b"".join(parts))
    return folder / name


# ------------------------------------------------------------------------------------------------------------- streams

GOOD = b'{"text": "good"}\n'


def xz_stream(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


@pytest.mark.parametrize(("compression", "compress"), [("zst", frame), ("gz", member), ("xz", xz_stream)])
def test_a_line_of_a_gigabyte(tmp_path, compression, compress):
    """It costs only itself: no more of it is kept than max_document_bytes, 256 MiB by default, allows."""
    line = [compress(b'{"text": "'), *[compress(b"x" * (64 * MB))] * 16, compress(b'"}\n')]
    path = write(tmp_path, f"a.jsonl.{compression}", compress(GOOD), *line, compress(GOOD))
    assert read(path, 800) == (3, 2, ["document_too_large"])
    assert read(path, 400, max_document_bytes=MB) == (3, 2, ["document_too_large"])


@pytest.mark.parametrize("unit", ["line", "paragraph", "separator", "file"])
def test_a_text_without_end(tmp_path, unit):
    path = write(tmp_path, "a.text.zst", *[frame(b"x" * (64 * MB))] * 4)
    got = read(path, 400, unit=unit, separator="--" if unit == "separator" else "", max_document_bytes=MB)
    assert got == (1, 0, ["document_too_large"])


def test_a_gigabyte_of_line_feeds(tmp_path):
    path = write(tmp_path, "a.jsonl.zst", *[frame(b"\n" * (32 * MB))] * 4)
    assert read(path, 400) == (0, 0, [])


def test_more_than_any_text_unfolds_into(tmp_path):
    """Five gigabytes of zeros in 27 kB: the limit is 4 GiB and 256 bytes for each stored byte."""
    path = write(tmp_path, "a.jsonl.zst", *[frame(bytes(512 * MB))] * 10)
    assert path.stat().st_size < 1 * MB
    assert read(path, 400) == (0, 0, ["file: over_limit"])


@pytest.mark.parametrize(
    "header",
    [
        b"\x00" + bytes([(31 - 10) << 3]),  # a window of 2 GiB
        b"\x00" + bytes([(41 - 10) << 3 | 7]),  # of 3.75 TiB
        b"\xe0" + struct.pack("<Q", 1 << 40),  # one segment: the window is the content, of a terabyte
    ],
)
def test_a_window_that_is_too_large(tmp_path, header):
    path = write(tmp_path, "a.jsonl.zst", b"\x28\xb5\x2f\xfd" + header + b"\x01\x00\x00")
    assert read(path, 50) == (0, 0, ["file: over_limit"])


def test_a_gzip_header_without_end(tmp_path):
    path = write(tmp_path, "a.jsonl.gz", b"\x1f\x8b\x08\x08" + bytes(6), b"n" * (64 * MB))
    assert read(path, 50) == (0, 0, ["file: over_limit"])


def test_many_members_that_hold_nothing(tmp_path):
    for name, empty in (("a.jsonl.gz", member(b"")), ("a.jsonl.zst", frame(b""))):
        assert read(write(tmp_path, name, empty * 300_000), 100) == (0, 0, [])


@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("policy", ["reject", "replace"])
def test_nesting(tmp_path, opened, policy):
    line = opened * 1_000_000 + b"\xff\n"
    path = write(tmp_path, "a.jsonl", GOOD, opened * 1_000_000, b"\n", line, GOOD)
    records, documents, reasons = read(path, 200, invalid_utf8=policy)
    assert (records, documents) == (4, 2)
    assert set(reasons) <= {"bad_json", "invalid_utf8"}


# ----------------------------------------------------------------------------------------------------- rows of columns


def parquet(folder: Path, table: pa.Table, **options) -> Path:
    pq.write_table(table, folder / "a.parquet", **{"compression": "zstd", **options})
    return folder / "a.parquet"


def test_a_long_value_that_every_row_repeats(tmp_path):
    """Ten megabytes in the dictionary, 100,000 rows that refer to them: a terabyte of text in a few kilobytes."""
    value = pa.array(["x" * (10 * MB)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), value)
    path = parquet(tmp_path, pa.table({"text": column}))
    assert path.stat().st_size < MB
    assert read(path, 700) == (0, 0, ["file: over_limit"])


def test_a_value_that_is_no_bomb_because_rows_repeat_it(tmp_path):
    """Repeating one paragraph in every row is not hostile."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(50_000, np.int32)), pa.array(["x" * 1000]))
    assert read(parquet(tmp_path, pa.table({"text": column})), 300) == (50_000, 50_000, [])


def test_a_column_that_unfolds(tmp_path):
    """Half a gigabyte of one letter in some kilobytes."""
    column = pa.array(["x" * (8 * MB)] * 64, pa.large_string())
    path = parquet(tmp_path, pa.table({"text": column}), use_dictionary=False)
    assert path.stat().st_size < MB
    assert read(path, 100) == (0, 0, ["file: over_limit"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_an_arrow_batch_that_unfolds(tmp_path, stream, as_dictionary):
    """Half a gigabyte of one letter in some kilobytes: refused by the sizes of buffers, before any is expanded."""
    column = pa.array(["x" * (8 * MB)] * 64, pa.large_string())
    if as_dictionary:
        column = pa.DictionaryArray.from_arrays(pa.array(np.arange(64, dtype=np.int32)), column)
    table = pa.table({"text": column})
    path = tmp_path / "a.arrow"
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    assert path.stat().st_size < MB
    assert read(path, 50) == (0, 0, ["file: over_limit"])
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<q", 512 * MB), struct.pack("<q", 1 << 46)))
    assert read(path, 50) == (0, 0, ["file: over_limit"])


FORGE = """
import json, sys
from tokcore_pipelines.store import storage
from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.reading.column_reader import _idle
from tokcore_schemas.plan import ReadSettings
def peak():
    status = open(f"/proc/{_idle[0]._process.pid}/status")
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) << 10
settings = ReadSettings(**json.loads(sys.argv[2]))
data = open(sys.argv[1], "rb").read()
sound, outcomes = None, {}
for at in range(-1, len(data)):
    forged = bytearray(data)
    if at >= 0:
        forged[at] = 0x7F if at % 2 else 0xFF if forged[at] != 0xFF else 0x80
    with storage.write_attempt("memory://forged") as file:
        file.write(bytes(forged))
    pin = storage.stat("memory://forged")
    try:
        batches = list(read_documents(pin, 0, pin.size_bytes, settings))
        outcome = f"{sum(batch.texts.num_texts for batch in batches)} documents"
    except FileRejected as error:
        outcome = error.reason
    if at < 0:
        before, process = peak(), _idle[0]._process.pid
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
assert _idle[0]._process.pid == process, "it is the one that read them all"
print(json.dumps([outcomes, peak() - before]))
"""


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_every_byte_forged(tmp_path, kind):
    """Counts, sizes, offsets, types: whatever a forged byte is, reading gives a reason or text, without much memory."""
    table = pa.table({"text": pa.array(["first", "second", "first"]).dictionary_encode()})
    path = tmp_path / "a"
    if kind == "parquet":
        pq.write_table(table, path, compression="zstd", store_schema=False)
    else:
        new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with new(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
    settings = {"format": "parquet" if kind == "parquet" else "arrow", "compression": "none", "text": "text", "id": ""}
    settings |= {"lang": "en", "lang_field": "", "invalid_utf8": "reject", "max_document_bytes": 1 << 28}
    command = [sys.executable, "-c", FORGE, str(path), json.dumps({**settings, "unit": "", "separator": ""})]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes, memory = json.loads(done.stdout)
    print(kind, path.stat().st_size, "bytes", outcomes, f"{memory / MB:.0f} MB")
    assert sum(outcomes.values()) == path.stat().st_size + 1
    assert {"3 documents", "corrupt"} <= set(outcomes)
    assert memory < 300 * MB
