"""Fuzz the reading of artifacts: valid ones are made, damaged by seed, and read.

Reading may raise only errors of tokcore.errors, within 20 seconds and a memory limit. What can be read in spite of the
damage must be written again as it was. Each kind runs in a process of its own, so that its input is kept if it dies.
"""

from __future__ import annotations

import argparse
import base64
import bz2
import contextlib
import csv
import faulthandler
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz import tokenizer_files
from support.manifests import MANIFESTS
from support.vocabularies import spec_of_merges

from tokcore.errors import TokError
from tokcore.formats.arrow_shards import ArrowShard, ArrowShardWriter
from tokcore.formats.megatron import BIN, IDX, MegatronIds, write_index
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.tokenizers.tiktoken import read_rank_file, write_rank_file
from tokcore.learn.merges import Merge
from tokcore.shards.labels import label_strings, repeat_label
from tokcore.shards.token_batch import TokenBatch
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec
from tokcore_pipelines.reading import streams
from tokcore_pipelines.reading.input_range import REASONS, FileRejected, read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.plan import ReadSettings
from tokcore_schemas.stage_table import parse_manifest

HERE = Path(__file__).parent
MAX_MEMORY_BYTES = 4 << 30  # of address space: what was mapped before counts, too
MAX_SECONDS = 20

Read = Callable[[bytes, Path], None]


def _spec(normalizer: tuple[str, ...] = ("nfc",)) -> TokenizerSpec:
    merges = [(b"a", b"b"), (b"ab", b"a"), (b" ", b"a"), (b"\xc3", b"\xa9"), (b"aba", b"ab")]
    special = [SpecialToken("<|end|>", None, "document_end"), SpecialToken("<|pad|>", None, "padding")]
    return spec_of_merges([Merge(left, right, 9) for left, right in merges], {"name": "cl100k"}, normalizer, special)


def _use(spec: TokenizerSpec) -> None:
    tokenizer = Tokenizer(spec)
    text = "abab aba é 日本 <|end|>\0".encode()
    ids = tokenizer.encode(text)
    decoded = tokenizer.decode(ids)
    assert not tokenizer.lossless or decoded == tokenizer.normalized(text), "decoding gives the text"


def _tokcore_json(data: bytes, folder: Path) -> None:
    spec = TokenizerSpec.from_json_bytes(data, "tokcore.json")
    assert spec.to_json_bytes() == data, "a spec has one form"
    _use(spec)


def _tokenizer_json(data: bytes, folder: Path) -> None:
    spec = read_tokenizer_json(data, "tokenizer.json")
    _use(spec)
    again = read_tokenizer_json(write_tokenizer_json(spec), "again")
    assert again.fingerprint == spec.fingerprint, "written and read, it is the same"


def _rank_file(data: bytes, folder: Path) -> None:
    spec = read_rank_file(data, "ranks", {"name": "cl100k"})
    _use(spec)
    again = read_rank_file(write_rank_file(spec), "again", {"name": "cl100k"})
    assert again.fingerprint == spec.fingerprint, "written and read, it is the same"


def _manifest(data: bytes, folder: Path) -> None:
    manifest = parse_manifest(data, "manifest.json")
    assert parse_manifest(manifest.to_bytes(), "again") == manifest, "written and read, it is the same"


def _idx(data: bytes, folder: Path) -> None:
    (folder / f"shard{IDX}").write_bytes(data)
    shard = MegatronIds(str(folder / "shard"))
    lengths = np.array([len(shard.tokens(row)) for row in range(len(shard))], np.int32)
    assert lengths.sum() == shard.num_tokens == 36 // np.dtype(shard.dtype).itemsize, (
        "sequences are within the .bin file, and fill it"
    )
    assert write_index(lengths, shard.dtype) == data, "an index has one form"


def _arrow_shard(data: bytes, folder: Path) -> None:
    path = folder / "shard.arrow"
    path.write_bytes(data)
    shard = ArrowShard(str(path))
    num = sum(batch.num_documents for batch in shard.batches())
    assert num == len(shard)
    for row in range(min(num, 50)):
        shard.tokens(row)
        shard.columns(row)


def _decode(data: bytes, folder: Path) -> None:
    """data: ids of 4 bytes."""
    tokenizer = Tokenizer(_spec())
    ids = np.frombuffer(data[: len(data) // 4 * 4], "<i4")
    sound = bool(((ids >= 0) & (ids < tokenizer.vocab_size)).all())
    try:
        decoded = tokenizer.decode(ids)
    except TokError:
        assert not sound, "every id of the vocabulary is decoded"
        raise
    assert sound, "what is no id is refused"
    assert decoded == b"".join(tokenizer.token_bytes(int(id)) for id in ids)


def _example_shard() -> bytes:
    file = pa.BufferOutputStream()
    writer = ArrowShardWriter(file, "ab" * 32, "zstd")
    ordinals = np.arange(3, dtype=np.int64)
    tokens, offsets = np.arange(9, dtype=np.int32), np.array([0, 4, 4, 9], np.int64)
    writer.write(
        TokenBatch(tokens, offsets, ["a", None, "c"], label_strings(["en", "en", "de"]), repeat_label("x", 3), ordinals)
    )
    writer.close()
    return bytes(file.getvalue().to_pybytes())


def _example_manifest() -> bytes:
    return MANIFESTS["shards"].to_bytes()


# What the input of each reader holds: fields that need quotes, text of several bytes, and a record that is empty.
CORPUS = [("1", "plain"), ("2", 'a "quoted"\r\nline, or two'), ("3", "zwölf 日本 😀"), ("4", ""), ("5", "last\n\n")]
MAX_INPUT_DOCUMENT_BYTES = 1 << 12


def _documents(data: bytes, settings: ReadSettings) -> list[bytes]:
    """Read documents. Each record must be one or be rejected for a reason; a file is rejected before its first."""
    with storage.write_attempt("memory://fuzz-input") as file:
        file.write(data)
    texts: list[bytes] = []
    num_records = 0
    try:
        for batch in read_documents(storage.stat("memory://fuzz-input"), 0, len(data), settings):
            assert batch.num_records == batch.texts.num_texts + len(batch.rejects), "nothing is lost"
            assert all(reject.reason in REASONS for reject in batch.rejects), "reasons are named"
            texts += [batch.texts.text(i) for i in range(batch.texts.num_texts)]
            numbers = sorted([*batch.ordinals.tolist(), *(reject.record for reject in batch.rejects)])
            assert numbers == list(range(num_records, num_records + batch.num_records)), "records are numbered"
            num_records += batch.num_records
    except FileRejected:
        assert not num_records, "a file is rejected before anything of it is given out"
        raise
    assert all(len(text) <= MAX_INPUT_DOCUMENT_BYTES for text in texts)
    for text in texts:
        text.decode()  # must be UTF-8, whatever the bytes were
    return texts


def _input(format: str, **changes: Any) -> Read:
    """Reading an input file: the same documents whatever the size of the blocks."""
    settings = ReadSettings(
        **{
            "format": format,
            "compression": "none",
            "text": "" if format in ("text", "warc") else "text",
            "id": "",
            "lang": "en",
            "lang_field": "",
            "invalid_utf8": "reject",
            "max_document_bytes": MAX_INPUT_DOCUMENT_BYTES,
            "unit": "",
            "separator": "",
            **changes,
        }
    )

    def read(data: bytes, folder: Path) -> None:
        outcomes: list[list[bytes] | None] = []
        for size_bytes in (streams.BLOCK_BYTES, 3):
            with unittest.mock.patch.object(streams, "BLOCK_BYTES", size_bytes):
                try:
                    outcomes.append(_documents(data, settings))
                except FileRejected as error:
                    outcomes.append(None)  # with two kinds of damage, either may be found first
                    rejected = error
        assert outcomes[0] == outcomes[1], "blocks change nothing"
        if outcomes[0] is None:
            raise rejected

    return read


def _json_lines() -> bytes:
    return b"".join(json.dumps({"id": id, "text": text}).encode() + b"\n" for id, text in CORPUS)


def _messages() -> bytes:
    rows = ({"text": [{"role": id, "content": text}, {"content": None}, None]} for id, text in CORPUS)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _rows(delimiter: str) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([("id", "text"), *CORPUS])
    return out.getvalue().encode()


def _warc() -> bytes:
    records = []
    for kind, block in (("warcinfo", b"x: y"), *(("conversion", text.encode()) for _, text in CORPUS)):
        digest = base64.b32encode(hashlib.sha1(block, usedforsecurity=False).digest()).decode()
        head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Block-Digest: sha1:{digest}\r\nContent-Type: text/plain\r\n"
        records.append(f"{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n")
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nplain"
    head = "WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n"
    return b"".join(records) + f"{head}Content-Length: {len(answer)}\r\n\r\n".encode() + answer + b"\r\n\r\n"


# kind -> (how it is read, how a valid one is made)
KINDS: dict[str, tuple[Read, Callable[[], bytes]]] = {
    "tokcore_json": (_tokcore_json, lambda: _spec().to_json_bytes()),
    "tokenizer_json": (_tokenizer_json, lambda: write_tokenizer_json(_spec())),
    "rank_file": (_rank_file, lambda: write_rank_file(_spec(()))),
    "manifest": (_manifest, _example_manifest),
    "idx": (_idx, lambda: write_index(np.array([4, 0, 5], np.int32))),
    "arrow_shard": (_arrow_shard, _example_shard),
    "input_csv": (_input("csv", delimiter=","), lambda: _rows(",")),
    "input_tsv": (_input("tsv", delimiter="\t", quotes=False), lambda: _rows("\t")),
    "input_csv_gz": (_input("csv", delimiter=",", compression="gz"), lambda: gzip.compress(_rows(","), mtime=0)),
    "input_jsonl_bz2": (_input("jsonl", compression="bz2"), lambda: bz2.compress(_json_lines())),
    "input_jsonl_xz": (_input("jsonl", compression="xz"), lambda: lzma.compress(_json_lines()) + bytes(4)),
    "input_jsonl_utf16": (_input("jsonl", encoding="utf-16"), lambda: _json_lines().decode().encode("utf-16")),
    "input_jsonl_path": (_input("jsonl", text="text[*].content"), lambda: _messages()),
    "input_text_cp1252": (_input("text", unit="line", encoding="cp1252"), lambda: "Öl\nplain\n".encode("cp1252")),
    "input_warc": (_input("warc"), _warc),
    "input_warc_gz": (_input("warc", compression="gz"), lambda: gzip.compress(_warc(), mtime=0)),
    "decode": (_decode, lambda: Tokenizer(_spec()).encode("abab aba é").tobytes()),
} | tokenizer_files.KINDS


class Mutator:
    def __init__(self, seed: int, valid: bytes) -> None:
        self._chance, self._valid = random.Random(seed), valid
        try:
            self._json = isinstance(json.loads(valid), dict)
        except ValueError:
            self._json = False

    def next(self) -> bytes:
        chance = self._chance
        if self._json and chance.random() < 0.6:
            value = json.loads(self._valid)
            for _ in range(chance.choice([1, 1, 2, 5])):
                self._change_leaf(value)
            # In the form that we write, so that it is canonical where it can be.
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n"
        data = bytearray(self._valid)
        for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
            at = chance.randrange(len(data) + 1)
            kind = chance.randrange(6)
            if kind == 0:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            elif kind == 1:
                del data[at : at + chance.choice([1, 1, 8, 100])]
            elif kind == 2:
                data[at : at + 8] = chance.choice([0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1]).to_bytes(8, "little")
            elif kind == 3:
                data[at : at + 4] = chance.choice([0, 2**31 - 1, 2**31, 2**32 - 1]).to_bytes(4, "little")
            elif kind == 4 and data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            else:
                del data[at:]
        return bytes(data)

    def _change_leaf(self, value: Any) -> None:
        others = [None, True, 0, -1, 2**31, 2**63, 2**70, 1.5, "", "x", "(?:a+)+$", "[", [], [[]], {}, "a" * 999]
        while isinstance(value, dict | list) and value:
            key = self._chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
            if isinstance(value[key], dict | list) and value[key] and self._chance.random() < 0.9:
                value = value[key]
                continue
            if self._chance.random() < 0.2:
                del value[key]
            else:
                value[key] = self._chance.choice(others)
            return


def _attempt(read: Read, data: bytes, folder: Path) -> None:
    """Read. If only a checksum is wrong, read again with the right one."""
    try:
        read(data, folder)
    except TokError as error:
        right = re.search(r"(?:fingerprint|content gives) ([0-9a-f]{64})", str(error))
        wrong = re.search(r"(?:it says|its root is) ([0-9a-f]{64})", str(error))
        if right and wrong:
            with contextlib.suppress(TokError):
                read(data.replace(wrong[1].encode(), right[1].encode()), folder)


def _work(kind: str, seed: int, runs: int, seconds: float, current: Path) -> None:
    read, valid = KINDS[kind]
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"shard{BIN}").write_bytes(np.arange(9, dtype="<i4").tobytes())
        read(valid(), folder)  # a valid one must be readable
        kept = HERE / "regressions" / kind
        for file in sorted(kept.iterdir()) if kept.is_dir() else ():
            current.write_bytes(file.read_bytes())
            _attempt(read, file.read_bytes(), folder)
        mutator, end = Mutator(seed, valid()), time.monotonic() + seconds
        for _ in range(runs):
            if time.monotonic() > end:
                break
            data = mutator.next()
            current.write_bytes(data)
            faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
            _attempt(read, data, folder)
            faulthandler.cancel_dump_traceback_later()


def fuzz_artifacts(kinds: Sequence[str], seed: int, output: Path, runs: int = sys.maxsize, seconds: float = 1e9) -> str:
    """Returns what went wrong, "" if nothing did. If something did, the input is output/crash-KIND.

    runs, seconds: of each kind. One process tries them one after the other, because it takes a second to start.
    """
    output.mkdir(parents=True, exist_ok=True)
    told = ["--seed", str(seed), "--runs", str(runs), "--seconds", str(seconds), "--output", str(output.resolve())]
    command = [sys.executable, "-m", "fuzz.artifacts", *kinds, *told]
    done = subprocess.run(command, cwd=HERE.parent, stderr=subprocess.PIPE, text=True, env=_environment())
    if done.returncode == 0:
        return ""
    kept = ", ".join(str(path) for path in sorted(output.glob("crash-*")))
    return f"seed {seed}, the input is in {kept}: exit code {done.returncode}\n{done.stderr[-4000:]}"


def _environment() -> dict[str, str]:
    path = [str(HERE.parents[1]), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", choices=KINDS, nargs="+")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    for kind in given.kinds:
        current = given.output / f"crash-{kind}"
        _work(kind, given.seed, given.runs, given.seconds, current)
        current.unlink(missing_ok=True)
