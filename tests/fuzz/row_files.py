"""Fuzz the reading of parquet and Arrow files: valid ones are made, damaged by seed, and read as a build reads them.

Each file ends in documents and rejected records, or is rejected itself; a second read must give the same. What is
accepted has as many records as the file says. The process that reads must survive, within 20 seconds per file and a
memory limit. The processes that decode may die, and are counted.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.plan import ReadSettings

HERE = Path(__file__).parent
KINDS = ("parquet", "arrow")
MAX_MEMORY_BYTES = 4 << 30  # of address space, in the process that reads and in those that decode
MAX_SECONDS = 20

_TEXTS = ["first", "", "second text", None, "długi tekst " * 6, "first", "last"]
_NUM = len(_TEXTS)
_META = [{"lang": "en", "more": [1]}, None, {"lang": "sw", "more": []}, *[{"lang": "en", "more": [2, 3]}] * (_NUM - 3)]
_NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 127, 128, 255, 256, 2**15, 2**16 - 1]
_NUMBERS += [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def _tables() -> dict[str, pa.Table]:
    ids = pa.array(range(_NUM), pa.int64())
    texts = pa.array(_TEXTS, pa.string())
    langs = pa.array(["en", "sw", "en", None, "en", "sw", "de"])
    struct = pa.StructArray.from_arrays([langs, texts], ["lang", "body"])
    return {
        "nested": pa.table({"id": ids, "text": texts, "meta": _META}),
        "flat": pa.table({"id": ids, "text": texts}),
        "dictionary": pa.table({"id": ids, "text": texts.dictionary_encode(), "meta": struct}),
        "large": pa.table({"text": texts.cast(pa.large_string()), "id": ids.cast(pa.string())}),
        "views": pa.table(
            {"id": ids, "text": pa.array([x and x * 3 for x in _TEXTS], pa.string_view()), "meta": struct}
        ),
        "lists": pa.table({"more": pa.array([[["a"]], [[]], None, [], [["b", "c"]], [[]], []]), "text": texts}),
    }


def _parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def _arrow(table: pa.Table, new: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=3)
    return bytes(sink.getvalue())


def examples(kind: str) -> list[bytes]:
    """Valid files with what the format offers: encodings, codecs, pages, nesting, dictionaries, checksums."""
    tables = _tables()
    if kind == "arrow":
        return [
            _arrow(table, new, compression=compression, emit_dictionary_deltas=True)
            for new in (pa.ipc.new_file, pa.ipc.new_stream)
            for table in tables.values()
            for compression in (None, "zstd", "lz4")
        ]
    plain: dict[str, Any] = {"use_dictionary": False}
    delta = {"text": "DELTA_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}
    lengths = {"text": "DELTA_LENGTH_BYTE_ARRAY", "id": "BYTE_STREAM_SPLIT"}
    return [
        *(_parquet(table) for name, table in tables.items() if name != "views"),
        _parquet(tables["nested"], **plain, compression="zstd", row_group_size=3),
        _parquet(tables["nested"], **plain, compression="none", data_page_version="2.0", store_schema=False),
        _parquet(tables["nested"], compression="gzip", data_page_version="2.0", data_page_size=16),
        _parquet(tables["flat"], **plain, compression="lz4", column_encoding=delta),
        _parquet(tables["flat"], **plain, compression="brotli", column_encoding=lengths),
        _parquet(tables["nested"], write_page_index=True, write_page_checksum=True, store_schema=False),
        _parquet(tables["dictionary"], compression="none", row_group_size=2),
    ]


class Mutator:
    """Damages examples, mostly their numbers; half of the damage to a parquet file is in its footer."""

    def __init__(self, kind: str, seed: int) -> None:
        self._chance = random.Random(f"{kind}-{seed}")
        self._examples = examples(kind)
        self._is_parquet = kind == "parquet"

    def next(self) -> bytes:
        chance = self._chance
        data = bytearray(chance.choice(self._examples))
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 5, 9])):
            self._damage(data)
        return bytes(data)

    def _damage(self, data: bytearray) -> None:
        chance, size = self._chance, len(data)
        if size < 32:
            return
        footer = self._footer(data)
        at = chance.randrange(size - footer, size) if footer and chance.random() < 0.5 else chance.randrange(size)
        if not self._is_parquet and chance.random() < 0.7:
            at &= ~3  # flatbuffers and buffers are aligned
        width = chance.choice([1, 2, 4, 8])
        value = int.from_bytes(data[at : at + width], "little")
        kind = chance.randrange(9)
        if kind < 3:
            data[at] = chance.randrange(256)
        elif kind == 3:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 4:
            self._put(data, at, width, chance.choice(_NUMBERS))
        elif kind == 5:
            self._put(data, at, width, value + chance.choice([1, -1, 2, -2, 4, -4, 8, -8, 64]))
        elif kind == 6:
            source = chance.randrange(size)
            piece = data[source : source + width]
            data[at : at + len(piece)] = piece[: size - at]
        elif kind == 7 and footer:
            self._put_varint(data, min(at, size - 9), footer)
        elif kind == 8 and chance.random() < 0.3:
            data[at : at + chance.choice([0, 1, 2, 8])] = chance.randbytes(chance.choice([0, 1, 2, 8]))

    def _footer(self, data: bytearray) -> int:
        """The size of a parquet file's footer; 0 for another file, or if the footer is damaged too much."""
        size = int.from_bytes(data[-8:-4], "little") + 8
        return size if self._is_parquet and size < len(data) else 0

    @staticmethod
    def _put(data: bytearray, at: int, width: int, value: int) -> None:
        fits = min(width, len(data) - at)
        data[at : at + fits] = (value % (1 << 8 * fits)).to_bytes(fits, "little")

    def _put_varint(self, data: bytearray, at: int, footer: int) -> None:
        """Replace a number by one of any length, and correct the length of the footer."""
        end = at
        while end < len(data) - 9 and data[end] & 0x80:
            end += 1
        value = self._chance.choice(_NUMBERS) if self._chance.random() < 0.5 else self._chance.randrange(200)
        new = bytearray()
        while value > 127:
            new.append(value & 127 | 128)
            value >>= 7
        before = len(data)
        data[at : end + 1] = [*new, value]
        if at >= before - footer:
            self._put(data, len(data) - 8, 4, max(0, footer - 8 + len(data) - before))


def _settings(kind: str, number: int) -> ReadSettings:
    return ReadSettings(
        format="parquet" if kind == "parquet" else "arrow",
        compression="none",
        text={5: "more[*][*]", 6: "meta.body"}.get(number % 7, "text"),
        id="id" if number % 2 else "",
        lang="" if number % 4 > 1 else "en",
        lang_field="meta.lang" if number % 4 > 1 else "",
        invalid_utf8="reject",
        max_document_bytes=1 << 20,
        unit="",
        separator="",
    )


def _read(path: Path, settings: ReadSettings) -> tuple[str, int, str]:
    """(outcome, records, digest of all that was read)."""
    pin = storage.stat(str(path))
    digest, num_records = hashlib.sha256(), 0
    try:
        for batch in read_documents(pin, 0, pin.size_bytes, settings):
            numbers = sorted([*batch.ordinals.tolist(), *(reject.record for reject in batch.rejects)])
            assert numbers == list(range(num_records, num_records + batch.num_records)), (
                "each record is one or the other"
            )
            num_records += batch.num_records
            documents = [
                (batch.texts.text(i), batch.ids and batch.ids[i], batch.langs[i]) for i in range(len(batch.langs))
            ]
            digest.update(repr([documents, batch.rejects]).encode())
    except FileRejected as error:
        return error.reason, 0, str(error)
    return "read", num_records, digest.hexdigest()


def _promised(kind: str, path: Path) -> int:
    """The records that a file claims to have. It was read to its end before, though perhaps not in all columns."""
    if kind == "parquet":
        return int(pq.ParquetFile(path).metadata.num_rows)
    data = path.read_bytes()
    is_file = data.startswith(b"ARROW1")
    open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
    num_columns = len(open_reader(data).schema)
    for columns in [[column] for column in range(num_columns)] or [[]]:
        reader = open_reader(data, options=pa.ipc.IpcReadOptions(included_fields=columns))
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # the read may have left out this column
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            return sum(batch.num_rows for batch in batches)
    raise AssertionError("no column can be read")


def _attempt(kind: str, path: Path, settings: ReadSettings) -> str:
    first, again = _read(path, settings), _read(path, settings)
    assert first == again, f"read twice: {first}, then {again}"
    if first[0] == "read":
        assert first[1] == _promised(kind, path), "no record is lost"
    return first[0]


def _work(kind: str, seed: int, runs: int, seconds: float, current: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    outcomes: collections.Counter[str] = collections.Counter()

    def attempt(data: bytes, number: int) -> str:
        current.write_bytes(data)
        faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
        outcome = _attempt(kind, current, _settings(kind, number))
        faulthandler.cancel_dump_traceback_later()
        return outcome

    for example in examples(kind):
        assert attempt(example, 1) == "read"
    for file in sorted((HERE / "regressions" / kind).iterdir()):
        for number in range(4):
            attempt(file.read_bytes(), number)
    mutator, end = Mutator(kind, seed), time.monotonic() + seconds
    for number in range(runs):
        if time.monotonic() > end:
            break
        outcome = attempt(mutator.next(), number)
        outcomes[outcome] += 1
        if outcome == "reader_crashed":
            (current.parent / f"{kind}-{seed}-{number}").write_bytes(current.read_bytes())
    print(", ".join(f"{num} {outcome}" for outcome, num in outcomes.most_common()), flush=True)


def fuzz_row_files(kind: str, seed: int, output: Path, runs: int = sys.maxsize, seconds: float = 1e9) -> str:
    """Returns what went wrong, "" if nothing did; the input is then output/crash-KIND. Prints what became of files."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as stderr:
        current = (output / f"crash-{kind}").resolve()
        command = [sys.executable, "-m", "fuzz.row_files", kind, str(seed), str(runs), str(seconds), str(current)]
        path = os.pathsep.join(filter(None, [str(HERE.parents[1]), str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            command, cwd=HERE.parent, stderr=stderr, env={**os.environ, "PYTHONPATH": path}, check=False
        )
        if done.returncode == 0:
            current.unlink(missing_ok=True)
            return ""
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
    return f"seed {seed}, the input is in {current}: exit code {done.returncode}\n{said[-4000:]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("runs", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("current", type=Path)
    given = parser.parse_args()
    _work(given.kind, given.seed, given.runs, given.seconds, given.current)
