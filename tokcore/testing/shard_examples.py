"""Documents, and the shards that a format makes of them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import DocumentsWriter, find_documents
from tokcore.formats.shard_format import ShardFormat, ShardReader, ShardSettings, ShardWriter
from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests

FINGERPRINT = "ab" * 32

# (tokens, id, lang, source, ordinal)
Document = tuple[list[int], str | None, str, str, int]

_NAMES = (None, "", "a", "doc-1", "日本語", "é" * 40, "😀", "id with spaces\n", "nul\0inside")


def draw_documents(chance: np.random.Generator, vocab_size: int, most: int = 20) -> list[Document]:
    """Up to that many documents, many of them short or empty."""
    return [
        (
            chance.integers(0, chance.choice([min(300, vocab_size), vocab_size]), chance.integers(0, 9)).tolist(),
            _NAMES[chance.integers(len(_NAMES))],
            str(chance.choice(["en", "zh-Hant", "日"])),
            str(chance.choice(["a.jsonl", "é.txt"])),
            int(chance.integers(0, 2**63 - 1)),
        )
        for _ in range(chance.integers(0, most + 1))
    ]


def make_batch(rows: Sequence[Document]) -> TokenBatch:
    """The documents as one batch."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row[0]) for row in rows], out=offsets[1:])
    return TokenBatch(
        np.array([token for row in rows for token in row[0]], np.int32),
        offsets,
        [row[1] for row in rows],
        label_strings(row[2] for row in rows),
        label_strings(row[3] for row in rows),
        np.array([row[4] for row in rows], np.int64),
    )


def list_documents(batches: Iterable[TokenBatch]) -> list[Document]:
    """The documents of batches."""
    return [
        (
            batch.tokens[batch.offsets[i] : batch.offsets[i + 1]].tolist(),
            batch.ids[i],
            batch.langs[i],
            batch.sources[i],
            int(batch.ordinals[i]),
        )
        for batch in batches
        for i in range(batch.num_documents)
    ]


def cut_batch(batch: TokenBatch, cuts: Iterable[int]) -> list[TokenBatch]:
    """The batch in parts, cut at these documents."""
    bounds = [0, *sorted(min(cut, batch.num_documents) for cut in cuts), batch.num_documents]
    return [batch.slice(start, end) for start, end in itertools.pairwise(bounds)]


def make_files(one: ShardFormat, batches: Iterable[TokenBatch], settings: ShardSettings) -> dict[str, bytes]:
    """Suffix -> bytes of a shard's files in a format, and of its documents file where the format needs one."""
    files = [io.BytesIO() for _ in one.suffixes]
    writers: list[ShardWriter] = [one.open_writer(files, settings)]
    suffixes = list(one.suffixes)
    if not one.has_columns:
        files.append(io.BytesIO())
        suffixes.append(DOCUMENTS)
        writers.append(DocumentsWriter(files[-1], settings.fingerprint, settings.vocab_size, settings.compression))
    for batch in batches:
        for writer in writers:
            writer.write(batch)
    for writer in writers:
        writer.close()
    return {suffix: file.getvalue() for suffix, file in zip(suffixes, files, strict=True)}


def write_files(one: ShardFormat, stem: Path, rows: Sequence[Document], settings: ShardSettings) -> str:
    """Write a shard's files, its documents file among them. Returns the path that opens the shard."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, data in make_files(one, [make_batch(rows)], settings).items():
        Path(f"{stem}{suffix}").write_bytes(data)
    return f"{stem}{one.suffixes[0]}"


def open_files(one: ShardFormat, path: str) -> ShardReader:
    """A written shard, with its documents file if the format needs one."""
    return one.open_reader(path, None if one.has_columns else find_documents(path, (one.suffixes[0],)))


def compute_content(shard: ShardReader) -> str:
    """The digest of what is in a shard, its documents' names included."""
    content = ShardContent()
    for batch in shard.batches():
        content.update(batch, compute_document_digests(batch.langs, batch.tokens, batch.offsets))
    return content.hexdigest()


def flip_bit(data: bytes, position: int, bit: int) -> bytes:
    """The bytes with one bit that is another one."""
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]
