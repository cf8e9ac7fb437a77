"""Reads shards with one trainer's own reader, and compares every document with what tokcore wrote.

    python read.py READER SHARDS EXPECTED.npz

Runs in an environment that has the reader and torch, but not tokcore. SHARDS: a build's folder of shards. EXPECTED.npz:
for each split, `SPLIT` (ids of all documents in the order of the shards, back to back), `SPLIT_lengths` (of documents)
and `SPLIT_shards` (documents of each shard). Prints the versions and what was compared, as JSON in its last line.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 128  # ids that readers of fixed lengths give at a time


class Expected:
    """The documents of a split, by shard."""

    def __init__(self, arrays: Mapping[str, Any], split: str) -> None:
        self.ids = arrays[split]
        self.ends = np.cumsum(arrays[f"{split}_lengths"])
        self.last = np.cumsum(arrays[f"{split}_shards"])  # documents up to the end of each shard

    def documents(self) -> Iterator[Any]:
        return iter(np.split(self.ids, self.ends[:-1]))

    def shards(self) -> Iterator[tuple[Any, Any]]:
        """Of each shard its ids, and where its documents end in them."""
        first = start = 0
        for last in self.last.tolist():
            end = int(self.ends[last - 1])
            yield self.ids[start:end], self.ends[first:last] - start
            first, start = last, end


def read_streaming(shards: Path, split: str, expected: Expected) -> int:
    """MosaicML's StreamingDataset, local and from S3: every document, by number."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    bucket = _upload(shards / "mds" / split, f"{os.environ['TOKCORE_CLIENTS_S3']}/mds/{split}")
    with tempfile.TemporaryDirectory() as copies:
        for places in ({"local": str(shards / "mds")}, {"remote": bucket.rpartition("/")[0], "local": copies}):
            clean_stale_shared_memory()
            dataset = StreamingDataset(**places, split=split, shuffle=False, batch_size=1)
            documents = list(expected.documents())
            assert len(dataset) == len(documents)
            for i, ids in enumerate(documents):
                found = dataset[i]["tokens"]
                assert found.dtype == np.int32
                assert np.array_equal(found, ids), i
    return len(documents)


def _upload(folder: Path, url: str) -> str:
    """Puts the files of a folder into a bucket; the URL."""
    import boto3

    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    store = boto3.client("s3")
    for file in folder.iterdir():
        store.upload_file(str(file), bucket, f"{prefix}/{file.name}")
    return url


def read_litdata(shards: Path, split: str, expected: Expected) -> int:
    """litdata's TokensLoader: blocks of each chunk in order; its tail is shorter than a block and not given."""
    from litdata import StreamingDataset, TokensLoader

    dataset = StreamingDataset(
        str(shards / "litdata" / split), item_loader=TokensLoader(block_size=BLOCK), shuffle=False
    )
    number = 0
    for ids, _ in expected.shards():
        for start in range(0, len(ids) - len(ids) % BLOCK, BLOCK):
            assert np.array_equal(dataset[number].numpy(), ids[start : start + BLOCK]), number
            number += 1
    assert len(dataset) == number
    assert number
    return number * BLOCK


def read_datatrove(shards: Path, split: str, expected: Expected) -> int:
    """datatrove's folder of tokenized files, with the position of each token in its document, from the index."""
    from datatrove.utils.dataset import DatatroveFileDataset, DatatroveFolderDataset

    folder = shards / "datatrove"
    dataset = DatatroveFolderDataset(str(folder), BLOCK - 1, f"{split}-*.ds", token_size=2, return_positions=True)
    number = 0
    for ids, ends in expected.shards():
        starts = np.concatenate([[0], ends[:-1]])
        place = np.arange(len(ids)) - np.repeat(starts, ends - starts)
        for start in range(0, len(ids) - len(ids) % BLOCK, BLOCK):
            row = dataset[number]
            assert np.array_equal(row["input_ids"].numpy(), ids[start : start + BLOCK]), number
            # The first document of a window is counted from the window's start.
            within = np.minimum(place[start : start + BLOCK], np.arange(BLOCK))
            assert np.array_equal(row["positions"].numpy(), within), number
            number += 1
    assert len(dataset) == number
    files = [DatatroveFileDataset(str(file), BLOCK) for file in sorted(folder.glob(f"{split}-*.ds"))]
    assert [file.fsize // 2 for file in files] == [len(ids) for ids, _ in expected.shards()]
    return number * BLOCK


def read_olmo(shards: Path, split: str, expected: Expected) -> int:
    """OLMo-core: bounds from the table, and from the ids of the documents' end; then its dataset of documents."""
    from olmo_core.data import NumpyFSLDataset
    from olmo_core.data.utils import iter_document_indices, load_array_slice

    files = sorted((shards / "olmo").glob(f"{split}-*.npy"))
    number = 0
    for file, (ids, ends) in zip(files, expected.shards(), strict=True):
        bounds = list(iter_document_indices(str(file)))
        assert [end for _, end in bounds] == ends.tolist()
        eos = int(ids[-1])
        assert list(iter_document_indices(str(file), eos_token_id=eos, dtype=np.uint16)) == bounds
        for start, end in bounds:
            assert np.array_equal(load_array_slice(str(file), start, end, np.uint16), ids[start:end])
        number += len(bounds)
    dataset = NumpyFSLDataset(
        *map(str, files), sequence_length=BLOCK, pad_token_id=eos, eos_token_id=eos, vocab_size=eos + 1, dtype=np.uint16
    )
    dataset.prepare()
    blocks = [
        ids[start : start + BLOCK] for ids, _ in expected.shards() for start in range(0, len(ids) - BLOCK + 1, BLOCK)
    ]
    assert len(dataset) == len(blocks)
    for i, ids in enumerate(blocks):
        assert np.array_equal(dataset[i]["input_ids"].numpy(), ids), i
    return number


def read_megatron(shards: Path, split: str, expected: Expected) -> int:
    """megatron-core's IndexedDataset: every document of every shard."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    number = 0
    paths = sorted((shards / "megatron").glob(f"{split}-*.bin"))
    for path, (ids, ends) in zip(paths, expected.shards(), strict=True):
        dataset = IndexedDataset(str(path.with_suffix("")))
        found = [dataset[i] for i in range(len(dataset))]
        assert [len(one) for one in found] == np.diff(ends, prepend=0).tolist()
        assert np.array_equal(np.concatenate(found), ids)
        assert dataset.document_indices.tolist() == list(range(len(ends) + 1))
        number += len(found)
    return number


def read_huggingface(shards: Path, split: str, expected: Expected) -> int:
    """datasets, as torch tensors: every document."""
    from datasets import load_from_disk

    dataset = load_from_disk(str(shards / "huggingface"))[split].with_format("torch")
    documents = list(expected.documents())
    assert len(dataset) == len(documents)
    for i, ids in enumerate(documents):
        assert np.array_equal(dataset[i]["input_ids"].numpy(), ids), i
    return len(documents)


# Name -> (distribution, reader).
READERS: Mapping[str, tuple[str, Callable[[Path, str, Expected], int]]] = {
    "datatrove": ("datatrove", read_datatrove),
    "huggingface": ("datasets", read_huggingface),
    "litdata": ("litdata", read_litdata),
    "megatron": ("megatron-core", read_megatron),
    "mds": ("mosaicml-streaming", read_streaming),
    "olmo": ("ai2-olmo-core", read_olmo),
}


def main(name: str, shards: str, expected: str) -> None:
    distribution, read = READERS[name]
    arrays = np.load(expected)
    with tempfile.TemporaryDirectory() as folder:
        # A copy without sidecars; readers may also leave files of their own.
        own = Path(shutil.copytree(Path(shards, name), Path(folder, name))).parent
        numbers = {split: read(own, split, Expected(arrays, split)) for split in ("train", "validation")}
    versions = {package: importlib.metadata.version(package) for package in (distribution, "torch")}
    unit = "ids" if name in ("litdata", "datatrove") else "documents"
    print(json.dumps({"versions": versions, "compared": numbers, "unit": unit}))


if __name__ == "__main__":
    main(*sys.argv[1:])
