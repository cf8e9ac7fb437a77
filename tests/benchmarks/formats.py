"""Benchmark the writers and readers of shard formats, beside our Arrow and the formats' own writers.

    PYTHONPATH=tests python tests/benchmarks/formats.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

The ids are those of cl100k for the texts of the corpus. Batches are as large as a build's, with ids of documents and
languages, which only formats with columns write. Own writers get the same documents as lists or arrays, whichever they
take faster, made before the clock starts; those of format_peers.py run in the environments that `make clients` has
made. Files are compared where the own writer leaves no choice. Arrow is compressed with zstd 1, as in a build. Formats
that say no bounds are read as one document.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import format_peers
import numpy as np
import texts
from measuring import ROOT, Options, Result, Table, interleaved, measured, program, timed, version
from tf_examples import make_example

from tokcore import Tokenizer
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import Rechunker, TokenBatch

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


def _write_parquet(folder: Path, documents: Documents) -> None:
    """Ids alone, at the default settings but for the codec."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in documents])]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(documents)))
    pq.write_table(pa.table({"input_ids": lists}), str(folder / "own.parquet"), compression="zstd")


def _write_nanogpt(folder: Path, documents: Documents) -> None:
    """As nanoGPT's prepare.py ends."""
    ids = np.memmap(folder / "own.bin", np.uint32, "w+", shape=(sum(map(len, documents)),))
    ids[:] = np.concatenate(documents)
    ids.flush()


def _write_llmc(folder: Path, documents: Documents) -> None:
    """As llm.c's scripts copy documents into one array, look at their ids, and write it."""
    ids = np.empty(sum(map(len, documents)), np.uint32)
    start = 0
    for document in documents:
        assert (document >= 0).all()
        assert (document < VOCAB_SIZE).all()
        ids[start : start + len(document)] = document
        start += len(document)
    with (folder / "own.llmc").open("wb") as file:
        file.write(np.array([20240801, 7, len(ids), *[0] * 253], np.int32).tobytes())
        file.write(ids.tobytes())


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
    "pyarrow, ids alone": ("pyarrow", "parquet", lambda ids: ids, _write_parquet),
    "nanoGPT's script": ("numpy", "nanogpt", lambda ids: ids, _write_nanogpt),
    "llm.c's script": ("numpy", "llmc", lambda ids: ids, _write_llmc),
}
# What own writers of OWN wrote, and our format that must have the same bytes.
SAME = {"own.array_record": "array_record", "own.bin": "nanogpt", "own.llmc": "llmc"}


def write_own(name: str, ids: str, folder: str) -> Result:
    """CPU time of a format's own writer for all documents, the second time."""
    flat, bounds = _load(ids)
    _, _, prepare, write = OWN[name]
    documents = [prepare(flat[start:end]) for start, end in itertools.pairwise(bounds.tolist())]
    write(Path(folder), documents)
    with timed() as cost:
        write(Path(folder), documents)
    return {"cpu": cost.cpu, "tokens": len(flat)}


def list_writers(ids: Path, folder: Path) -> dict[str, Callable[[], Result]]:
    """Our writers, each followed by the format's own ones that are installed."""
    jobs: dict[str, Callable[[], Result]] = {}
    for name in SHARD_FORMATS:
        jobs[name] = functools.partial(measured, write_ours, name=name, ids=ids, folder=folder)
        for own, (_, of_format, *_) in OWN.items():
            if of_format == name:
                jobs[_name(own)] = functools.partial(measured, write_own, name=own, ids=ids, folder=folder)
        for own, (environment, _, of_format, *_) in format_peers.WRITERS.items():
            python = ROOT / "build" / "clients" / environment / "bin" / "python"
            more = {"name": own, "ids": ids, "folder": folder / _name(own)}
            if of_format == name and python.exists():
                jobs[_name(own)] = functools.partial(measured, format_peers.write_own, python=python, **more)
    return jobs


def _name(own: str) -> str:
    return f"own writer: {own}"


def check_same_bytes(folder: Path, found: dict[str, Result]) -> None:
    """Own writers that leave no choice wrote our bytes."""
    files = {name: [folder / path for path in list_paths(one, STEM)] for name, one in SHARD_FORMATS.items()}
    for own, name in SAME.items():
        assert (folder / own).read_bytes() == files[name][0].read_bytes(), own
    for own, (_, _, name, *_) in format_peers.WRITERS.items():
        if "cpu" in found.get(_name(own), {}):
            theirs = [path.read_bytes() for path in sorted((folder / _name(own)).iterdir())]
            assert all(path.read_bytes() in theirs for path in files[name]), own


def tables(options: Options) -> list[Table]:
    """Writers, and readers."""
    ids = save_ids(options, texts.rank_file(options.vocab, options.work))
    folder = options.work / "shards"
    folder.mkdir()
    found = interleaved(options.rounds, list_writers(ids, folder))
    check_same_bytes(folder, found)
    packages = sorted({own[0] for own in OWN.values()})
    versions = [f"{package} {version(package)}" for package in packages]
    versions += [f"{result['distribution']} {result['version']}" for result in found.values() if "version" in result]
    missing = ", ".join(name for name in format_peers.WRITERS if _name(name) not in found) or "none"
    note = f"CPU nanoseconds per id. {', '.join(dict.fromkeys(versions))}. Not installed by make clients: {missing}."
    read = {name: functools.partial(measured, read_ours, name=name, folder=folder) for name in SHARD_FORMATS}
    return [
        _make_table("Writing a shard", found, note),
        _make_table("Reading all its documents", interleaved(options.rounds, read), "CPU nanoseconds per id."),
    ]


def _make_table(title: str, found: dict[str, Result], note: str) -> Table:
    arrow = found["arrow"]["cpu"] / found["arrow"]["tokens"]
    rows: list[list[object]] = []
    ours = ""  # what the own writers that follow are compared with
    for name, result in found.items():
        if "error" in result:
            rows.append([name, result["error"], "", ""])
            continue
        cost = result["cpu"] / result["tokens"]
        times = ""
        if name in SHARD_FORMATS:
            ours = name
        else:
            times = f"{cost / (found[ours]['cpu'] / found[ours]['tokens']):.1f}"
        rows.append([name, f"{cost * 1e9:.1f}", f"{arrow / cost:.2f}", times])
    return Table(title, ["format", "ns", "times as fast as our Arrow", "we are times as fast"], rows, note)


if __name__ == "__main__":
    program(__doc__, tables)
