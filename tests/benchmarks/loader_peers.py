"""The loaders that need torch, for loader.py. Each runs in its environment of `make clients`, without tokcore.

A call gives the ids of a batch. MosaicML's samples are documents: it gives as many as have the ids of a batch on
average, not cut into rows.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import Result, memory_before, peak_mb, timed

Read = Callable[[int], Any]


def _read_datatrove(folder: str, length: int, batch_size: int, _documents: int) -> Read:
    """In an order that a sampler has drawn: its own shuffle is of files alone."""
    import numpy as np
    from datatrove.utils.dataset import DatatroveFolderDataset

    rows = DatatroveFolderDataset(folder, length - 1, "*.ds", token_size=2, shuffle=True)
    order = np.random.default_rng(1).permutation(len(rows)).tolist()
    return lambda step: [rows[order[(step * batch_size + i) % len(order)]]["input_ids"] for i in range(batch_size)]


def _read_megatron(folder: str, length: int, batch_size: int, _documents: int) -> Read:
    """One shard, without the layer that blends several."""
    import numpy as np
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class Tokenizer:
        """As much of one as the dataset asks for."""

        eod = pad = 0
        vocab_size = 1 << 16
        unique_identifiers = {"class": "none"}  # noqa: RUF012 - as theirs

    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=length,
        blend=([folder], None),
        split="1",
        path_to_cache=tempfile.mkdtemp(dir=Path(folder).parent),
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    path = str(min(Path(folder).glob("*.bin")).with_suffix(""))
    indexed = IndexedDataset(path)
    rows = GPTDataset(indexed, path, np.arange(len(indexed), dtype=np.int32), None, Split.train, config)
    num = len(rows)
    return lambda step: [rows[(step * batch_size + i) % num]["tokens"] for i in range(batch_size)]


def _read_streaming(folder: str, _length: int, batch_size: int, documents: int) -> Read:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    dataset = StreamingDataset(local=folder, split="train", shuffle=True, batch_size=batch_size)
    samples = iter(dataset)

    def read(_step: int) -> list[Any]:
        nonlocal samples
        found = [sample["tokens"] for sample in itertools.islice(samples, documents)]
        if len(found) < documents:
            samples = iter(dataset)
        return found

    return read


# Name -> (environment, our format that it reads, how).
PEERS: dict[str, tuple[str, str, Callable[[str, int, int, int], Read]]] = {
    "datatrove": ("datatrove", "datatrove", _read_datatrove),
    "Megatron's GPTDataset": ("megatron", "megatron", _read_megatron),
    "MosaicML streaming": ("mds", "mds", _read_streaming),
}


def time_batches(read: Read, num: int) -> Result:
    """CPU time of num batches, after some that are not measured."""
    for step in range(num // 4):
        read(step)
    before = memory_before()
    with timed() as cost:
        for step in range(num // 4, num + num // 4):
            read(step)
    return {"cpu": cost.cpu / num * 1e6, "mb": peak_mb() - before}


def read_batches(reader: str, folder: str, length: int, batch_size: int, documents: int, num: int) -> Result:
    _, _, make = PEERS[reader]
    return time_batches(make(folder, length, batch_size, documents), num)
