"""Benchmark the writers and readers of shard formats, beside our Arrow and the formats' own writers.

    PYTHONPATH=tests python tests/benchmarks/formats.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

The ids are those of cl100k for the texts of the corpus. Batches are as large as a build's, with ids of documents and
languages, which only formats with columns write. Own writers get the same documents as lists or arrays, whichever they
take faster, made before the clock starts. Files are first compared where the own writer leaves no choice. Arrow is
compressed with zstd 1, as in a build. Formats that say no bounds are read as one document.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import texts
from measuring import Options, Result, Table, interleaved, measured, program, timed, version
from tf_examples import make_example

from tokcore import Tokenizer
from tokcore.format_table import SHARD_FORMATS, list_paths
from tokcore.formats.shard_format import ShardFacts, ShardSettings, StoredShard
from tokcore.labels import repeat_label
from tokcore.token_batch import Rechunker, TokenBatch

VOCAB_SIZE = 100_277
MOST_TOKENS = 1 << 22
BATCH_TOKENS, BATCH_CHARS = 1 << 19, 1 << 24
BATCH_DOCUMENTS = 4096
READ_DOCUMENTS = 1024
STEM = "train-00000-00000"


def save_ids(options: Options, ranks: Path) -> Path:
    """The ids of the corpus, and where documents begin and the last ends."""
    arrays = texts.prepare(options.corpus, options.work, options.limit_mb)
    tokenizer = Tokenizer.from_tiktoken(str(ranks), pattern="cl100k")
    found = tokenizer.encode_batch(texts.load(*arrays.values()))
    offsets = found.offsets.to_numpy().astype(np.int64)
    # A small corpus is taken several times.
    times = max(1, MOST_TOKENS // int(offsets[-1]))
    lengths = np.tile(np.diff(offsets), times)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    path = options.work / "ids.npz"
    np.savez(path, ids=np.tile(found.values.to_numpy(), times), bounds=bounds)
    return path


def _load(path: str) -> tuple[Any, Any]:
    arrays = np.load(path)
    return arrays["ids"], arrays["bounds"]


def _make_batches(path: str) -> list[TokenBatch]:
    ids, bounds = _load(path)
    num = len(bounds) - 1
    names = [f"document-{i}" for i in range(num)]
    whole = TokenBatch(ids, bounds, names, repeat_label("en", num), repeat_label("corpus", num), np.arange(num))
    chunks = Rechunker(BATCH_TOKENS, BATCH_DOCUMENTS, BATCH_CHARS)
    return [*chunks.add(whole), *chunks.rest()]


def _write_ours(name: str, folder: Path, batches: list[TokenBatch]) -> None:
    one = SHARD_FORMATS[name]
    paths = [folder / path for path in list_paths(one, STEM)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.open("wb") for path in paths]
    settings = ShardSettings("", VOCAB_SIZE, "zstd")
    writer = one.open_writer(files, settings)
    for batch in batches:
        writer.write(batch)
    writer.close()
    for file in files:
        file.close()
    num, tokens = sum(batch.num_documents for batch in batches), sum(batch.num_tokens for batch in batches)
    facts = ShardFacts(STEM, 0, "", "train", num, tokens, VOCAB_SIZE - 1)
    for path, data in one.folder_index([StoredShard(facts, paths[0].stat().st_size, "ab" * 32)], settings).items():
        (folder / name / path).write_bytes(data)


def write_ours(name: str, ids: str, folder: str) -> Result:
    """CPU time of our writer for all documents, the second time."""
    batches = _make_batches(ids)
    _write_ours(name, Path(folder), batches)
    with timed() as cost:
        _write_ours(name, Path(folder), batches)
    return {"cpu": cost.cpu, "tokens": sum(batch.num_tokens for batch in batches)}


def read_ours(name: str, folder: str) -> Result:
    """CPU time of reading all ids, some documents at a time as conversions do, the second time."""
    path = Path(folder, list_paths(SHARD_FORMATS[name], STEM)[0])
    for _ in range(2):
        with timed() as cost:
            reader = SHARD_FORMATS[name].open_reader(str(path), None)
            tokens = 0
            for start in range(0, len(reader), READ_DOCUMENTS):
                ids, _ = reader.span(start, min(len(reader), start + READ_DOCUMENTS))
                tokens += len(ids)
                _ = int(ids.max(initial=0))  # of a map, all pages
    return {"cpu": cost.cpu, "tokens": tokens}


Documents = list[Any]  # an array of ids each


def _write_array_record(folder: Path, documents: Documents) -> None:
    """From lists: protobuf takes them faster than arrays."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / "own.array_record"), "group_size:1,uncompressed")
    for ids in documents:
        writer.write(make_example(ids))
    writer.close()


def _write_serialized(folder: Path, documents: Documents) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / "own.array_record"), "group_size:1,uncompressed")
    for record in documents:
        writer.write(record)
    writer.close()


def _write_datasets(folder: Path, documents: Documents) -> None:
    from datasets import Dataset, Features, List, Value

    features = Features({"input_ids": List(Value("int32"))})
    Dataset.from_dict({"input_ids": documents}, features).save_to_disk(str(folder / "own"))


# Name -> (distribution, our format, what it takes of a document, its writer).
OWN: dict[str, tuple[str, str, Callable[[Any], Any], Callable[[Path, Documents], None]]] = {
    "array_record": ("array_record", "array_record", lambda ids: ids.tolist(), _write_array_record),
    "array_record, Examples given": (
        "array_record",
        "array_record",
        lambda ids: make_example(ids.tolist()),
        _write_serialized,
    ),
    "datasets": ("datasets", "huggingface", lambda ids: ids, _write_datasets),
}


def write_own(name: str, ids: str, folder: str) -> Result:
    """CPU time of a format's own writer for all documents, the second time."""
    flat, bounds = _load(ids)
    _, _, prepare, write = OWN[name]
    documents = [prepare(flat[start:end]) for start, end in itertools.pairwise(bounds.tolist())]
    write(Path(folder), documents)
    with timed() as cost:
        write(Path(folder), documents)
    return {"cpu": cost.cpu, "tokens": len(flat)}


def tables(options: Options) -> list[Table]:
    """Writers, and readers."""
    ids = save_ids(options, texts.rank_file(options.vocab, options.work))
    folder = options.work / "shards"
    folder.mkdir()
    written: dict[str, Callable[[], Result]] = {}
    read: dict[str, Callable[[], Result]] = {}
    for name in SHARD_FORMATS:
        written[name] = functools.partial(measured, write_ours, name=name, ids=ids, folder=folder)
        read[name] = functools.partial(measured, read_ours, name=name, folder=folder)
    for name in OWN:
        written[f"own writer: {name}"] = functools.partial(measured, write_own, name=name, ids=ids, folder=folder)
    found = interleaved(options.rounds, written)
    same = (folder / "own.array_record").read_bytes()
    assert same == (folder / "array_record" / f"{STEM}.array_record").read_bytes()
    versions = ", ".join(f"{package} {version(package)}" for package in sorted({own[0] for own in OWN.values()}))
    note = f"CPU nanoseconds per id. {versions}."
    return [
        _make_table("Writing a shard", found, note),
        _make_table("Reading all its documents", interleaved(options.rounds, read), note),
    ]


def _make_table(title: str, found: dict[str, Result], note: str) -> Table:
    arrow = found["arrow"]["cpu"] / found["arrow"]["tokens"]
    rows: list[list[object]] = []
    for name, result in found.items():
        if "error" in result:
            rows.append([name, result["error"], ""])
        else:
            cost = result["cpu"] / result["tokens"]
            rows.append([name, f"{cost * 1e9:.1f}", f"{arrow / cost:.2f}"])
    return Table(title, ["format", "ns", "times as fast as our Arrow"], rows, note)


if __name__ == "__main__":
    program(__doc__, tables)
