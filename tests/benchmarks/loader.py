"""Benchmark the loader: shuffled batches of rows, beside a bare numpy memmap of random windows and other loaders.

    python tests/benchmarks/loader.py [--rounds 3]

The corpus is made: 64 million random ids in documents of about 700, in eight shards. Rows are first compared with the
files. The loaders of loader_peers.py are measured in the environments that `make clients` has made. The bare memmap
knows neither the bounds of documents nor an order without repetition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import loader_peers
import numpy as np
from measuring import (
    ROOT,
    Options,
    Result,
    Table,
    interleaved,
    measured,
    program,
    timed,
    version,
)

from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import TokenBatch
from tokcore.train.loader import Loader

NUM_SHARDS = 8
SHARD_TOKENS = 8_000_000
DOCUMENT_TOKENS = 700
VOCAB_SIZE = 50_000
BATCHES = 1000
SHAPES = ((2048, 8), (4096, 16))  # length, batch_size
ROWS_BATCHES = 60  # of formats that decode rows
PEER_BATCHES = 100
START_DOCUMENTS = 10_000_000

_FORMATS = ("megatron", "datatrove", "mds", "huggingface")


def write_shards(folder: Path, name: str, num_shards: int, lengths: np.ndarray[Any, Any]) -> Path:
    """Shards of random ids in a format; the same ids in each format."""
    one = SHARD_FORMATS[name]
    told = ShardSettings("", VOCAB_SIZE, "none")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    num = len(lengths)
    stored = []
    for number in range(num_shards):
        ids = np.random.default_rng(number).integers(0, VOCAB_SIZE, int(offsets[-1]), np.int32)
        labels = repeat_label("en", num)
        batch = TokenBatch(ids, offsets, [None] * num, labels, labels, np.arange(num))
        stem = f"train-{number:05d}-00000"
        paths = [folder / path for path in list_paths(one, stem)]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [path.open("wb") for path in paths]
        writer = one.open_writer(files, told)
        writer.write(batch)
        writer.close()
        for file in files:
            file.close()
        facts = ShardFacts(stem, 0, "", "train", num, int(offsets[-1]), VOCAB_SIZE - 1)
        stored.append(StoredShard(facts, paths[0].stat().st_size, "ab" * 32))
    for path, data in one.folder_index(stored, told).items():
        (folder / name / path).write_bytes(data)
    return folder / name


def _read_tokcore(folder: str, length: int, batch_size: int) -> Callable[[int], Any]:
    loader = Loader(folder, length, batch_size, seed=1)
    return lambda step: loader[step % len(loader)].tokens


def _read_memmap(folder: str, length: int, batch_size: int) -> Callable[[int], Any]:
    maps = [np.memmap(path, "<i4", "r") for path in sorted(Path(folder).glob("*.bin"))]
    chance = np.random.default_rng(1)

    def read(step: int) -> Any:
        ids = maps[chance.integers(len(maps))]
        return np.stack([ids[start : start + length] for start in chance.integers(0, len(ids) - length, batch_size)])

    return read


def _read_datasets(folder: str, length: int, batch_size: int) -> Callable[[int], Any]:
    """Random documents, as many as have the ids of a batch on average; not even cut into rows."""
    from datasets import load_from_disk

    rows = load_from_disk(folder)["train"].select_columns(["input_ids"]).with_format("numpy")
    chance = np.random.default_rng(1)
    num = -(-length * batch_size // DOCUMENT_TOKENS)

    def read(step: int) -> Any:
        return np.concatenate(rows[chance.integers(0, len(rows), num).tolist()]["input_ids"])

    return read


READERS: dict[str, tuple[str, Callable[[str, int, int], Callable[[int], Any]]]] = {
    "tokcore, Megatron": ("megatron", _read_tokcore),
    "tokcore, datatrove (uint16)": ("datatrove", _read_tokcore),
    "tokcore, mds": ("mds", _read_tokcore),
    "tokcore, huggingface": ("huggingface", _read_tokcore),
    "bare numpy memmap": ("megatron", _read_memmap),
    "datasets": ("huggingface", _read_datasets),
}


def read_batches(reader: str, folder: str, length: int, batch_size: int, num: int) -> Result:
    _, make = READERS[reader]
    return loader_peers.time_batches(make(folder, length, batch_size), num)


def list_jobs(folders: Mapping[str, Path], length: int, batch_size: int) -> dict[str, Callable[[], Result]]:
    """Our loader over formats, the bare memmap, and all other loaders."""
    shape = {"length": length, "batch_size": batch_size}
    jobs: dict[str, Callable[[], Result]] = {}
    for name, (of_format, _) in READERS.items():
        num = ROWS_BATCHES if SHARD_FORMATS[of_format].has_columns else BATCHES
        more = {"reader": name, "folder": folders[of_format], "num": num}
        jobs[name] = functools.partial(measured, read_batches, **shape, **more)
    for name, (environment, of_format, _) in loader_peers.PEERS.items():
        python = ROOT / "build" / "clients" / environment / "bin" / "python"
        documents = -(-length * batch_size // DOCUMENT_TOKENS)
        more = {"reader": name, "folder": folders[of_format], "num": PEER_BATCHES, "documents": documents}
        if python.exists():
            jobs[name] = functools.partial(measured, loader_peers.read_batches, python=python, **shape, **more)
    return jobs


def start(folder: str, documents: int) -> Result:
    """Time until the first batch is there."""
    with timed() as cost:
        loader = Loader(folder, 2048, 8)
        made = loader[0].tokens.shape
    assert made == (8, 2048)
    assert sum(file.num_documents for stream in loader._streams for file in stream._files) == documents
    return {"wall": cost.wall, "cpu": cost.cpu}


def check_rows(folder: Path) -> None:
    """Every row of the loader is a window of the files, each once."""
    length = 2048
    loader = Loader(folder, length, 64, seed=1)
    ids = np.concatenate([np.fromfile(path, "<i4") for path in sorted(folder.glob("*.bin"))])
    expected = ids[: len(ids) // length * length].reshape(-1, length)
    found = np.concatenate([batch.tokens for batch in loader])
    assert np.array_equal(np.unique(found, axis=0), np.unique(expected, axis=0))
    assert len(found) == len(expected)


def tables(options: Options) -> list[Table]:
    """Batches of each shape, and start-up."""
    lengths = np.random.default_rng(0).integers(1, 2 * DOCUMENT_TOKENS, SHARD_TOKENS // DOCUMENT_TOKENS)
    folders = {name: write_shards(options.work, name, NUM_SHARDS, lengths) for name in _FORMATS}
    check_rows(folders["megatron"])
    made = []
    for length, batch_size in SHAPES:
        found = interleaved(options.rounds, list_jobs(folders, length, batch_size))
        bare = found["bare numpy memmap"]["cpu"]
        rows = []
        for name, result in found.items():
            if "error" in result:
                rows.append([name, result["error"], "", ""])
            else:
                rows.append([name, f"{result['cpu']:.0f}", f"{bare / result['cpu']:.2f}", f"{result['mb']:.0f}"])
        missing = ", ".join(name for name in loader_peers.PEERS if name not in found) or "none"
        note = f"CPU microseconds per batch. datasets {version('datasets')}. Not installed by make clients: {missing}."
        title = f"Shuffled batches of {batch_size} rows of {length} ids"
        made.append(Table(title, ["loader", "µs", "times as fast as a bare memmap", "MB more"], rows, note))
    many = options.work / "many"
    shards = 100
    short = np.full(START_DOCUMENTS // shards, 4)
    write_shards(many, "megatron", shards, short)
    job = {"start": lambda: measured(start, folder=many / "megatron", documents=START_DOCUMENTS)}
    result = interleaved(options.rounds, job)["start"]
    row = [
        f"{START_DOCUMENTS:,}",
        shards,
        result.get("error") or f"{result['wall']:.2f}",
        f"{result.get('cpu', 0):.2f}",
    ]
    return [*made, Table("Start to first batch, no manifest", ["documents", "shards", "seconds", "CPU seconds"], [row])]


if __name__ == "__main__":
    program(__doc__, tables)
