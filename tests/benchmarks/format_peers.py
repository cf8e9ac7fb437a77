"""The writers that need torch, for formats.py. Each runs in its environment of `make clients`, without tokcore.

Each gets the documents as what it takes fastest, made before the clock starts: tensors, arrays or lists.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Result, timed, version

Documents = list[Any]


def _take_tensor(ids: Any) -> Any:
    import torch

    return torch.from_numpy(ids.copy())


def _write_megatron(folder: Path, documents: Documents) -> None:
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    writer = IndexedDatasetBuilder(str(folder / "own.bin"), dtype=np.int32)
    for ids in documents:
        writer.add_document(ids, [len(ids)])
    writer.finalize(str(folder / "own.idx"))


def _write_streaming(folder: Path, documents: Documents) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"tokens": "ndarray:int32"}, size_limit=None) as writer:
        for ids in documents:
            writer.write({"tokens": ids})


def _write_datatrove(folder: Path, documents: Documents) -> None:
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    writer = TokenizedFile(str(folder), "own.ds", token_size=4)
    for ids in documents:
        writer.write(ids, None)
    writer.close()


def _write_datatrove_bytes(folder: Path, documents: Documents) -> None:
    """As its merger writes: it checks no id."""
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    writer = TokenizedFile(str(folder), "own.ds", token_size=4)
    for ids in documents:
        writer.write_bytes(ids.tobytes())
    writer.close()


def _write_litdata(folder: Path, documents: Documents) -> None:
    from litdata import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes=1 << 31, item_loader=TokensLoader())
    for i, ids in enumerate(documents):
        writer.add_item(i, ids)
    writer.done()


# Name -> (environment, distribution, our format, what it takes of a document, its writer).
WRITERS: dict[str, tuple[str, str, str, Callable[[Any], Any], Callable[[Path, Documents], None]]] = {
    "megatron-core": ("megatron", "megatron-core", "megatron", lambda ids: ids, _write_megatron),
    "MosaicML streaming": ("mds", "mosaicml-streaming", "mds", lambda ids: ids, _write_streaming),
    "datatrove": ("datatrove", "datatrove", "datatrove", lambda ids: ids.tolist(), _write_datatrove),
    "datatrove, bytes": ("datatrove", "datatrove", "datatrove", lambda ids: ids, _write_datatrove_bytes),
    "litdata": ("litdata", "litdata", "litdata", _take_tensor, _write_litdata),
}


def write_own(name: str, ids: str, folder: str) -> Result:
    """CPU time of the writer for all documents, the second time; its files stay in the folder."""
    _, distribution, _, prepare, write = WRITERS[name]
    arrays = np.load(ids)
    flat = arrays["ids"].astype(np.int32)
    documents = [prepare(flat[start:end]) for start, end in itertools.pairwise(arrays["bounds"].tolist())]
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir(parents=True)
        with timed() as cost:
            write(Path(folder), documents)
    told = {"distribution": distribution, "version": version(distribution)}
    return {"cpu": cost.cpu, "tokens": len(flat), **told}
