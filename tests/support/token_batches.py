"""Token batches for tests: hypothesis strategies, a fixed example, and shards written from them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import DocumentsWriter
from tokcore.formats.shard_format import ShardReader, ShardSettings
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile
from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests

FINGERPRINT = "ab" * 32
VOCAB_SIZE = 2**31

NAMES = ["", "a", "doc-1", "日本語", "é" * 40, "😀", "id with spaces\n", "nul\0inside"]

# (tokens, id, lang, source, ordinal)
Document = tuple[list[int], str | None, str, str, int]

documents = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 300), max_size=8),
        st.none() | st.sampled_from(NAMES) | st.text(max_size=4).filter(lambda s: s.isprintable()),
        st.sampled_from(["en", "zh-Hant", "日"]),
        st.sampled_from(["a.jsonl", "é.txt"]),
        st.integers(0, 2**63 - 1),
    ),
    max_size=20,
)

EXAMPLE: list[Document] = [
    ([1, 2, 3], "one", "en", "a.jsonl", 0),
    ([], None, "en", "a.jsonl", 7),
    ([2**31 - 1, 0], "日本語", "zh", "é/b.jsonl.zst", 2**40),
    ([5], "", "zh", "é/b.jsonl.zst", 2**40 + 1),
]


def batch_of(rows: Sequence[Document]) -> TokenBatch:
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


def rows_of(batches: Iterable[TokenBatch]) -> list[Document]:
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


def dealt(batch: TokenBatch, cuts: Iterable[int]) -> list[TokenBatch]:
    """The batch in parts, cut at these documents."""
    bounds = [0, *sorted(min(cut, batch.num_documents) for cut in cuts), batch.num_documents]
    return [batch.slice(start, end) for start, end in itertools.pairwise(bounds)]


def shard_bytes(
    name: str,
    batches: Iterable[TokenBatch],
    compression: str = "zstd",
    fingerprint: str = FINGERPRINT,
    vocab_size: int = VOCAB_SIZE,
    dtype: str = "int32",
) -> dict[str, bytes]:
    """Suffix -> bytes of a shard's files in a format, and of its documents file where the format needs one."""
    one = SHARD_FORMATS[name]
    files = [io.BytesIO() for _ in one.suffixes]
    writers = [one.open_writer(files, ShardSettings(fingerprint, vocab_size, compression, dtype))]
    suffixes = list(one.suffixes)
    if not one.has_columns:
        files.append(io.BytesIO())
        suffixes.append(DOCUMENTS)
        writers.append(DocumentsWriter(files[-1], fingerprint, vocab_size, compression))
    for batch in batches:
        for writer in writers:
            writer.write(batch)
    for writer in writers:
        writer.close()
    return {suffix: file.getvalue() for suffix, file in zip(suffixes, files, strict=True)}


def arrow_bytes(batches: Iterable[TokenBatch], compression: str = "zstd", fingerprint: str = FINGERPRINT) -> bytes:
    return shard_bytes("arrow", batches, compression, fingerprint)[".arrow"]


def write_shard(name: str, stem: Path, rows: Sequence[Document], fingerprint: str = FINGERPRINT, **more: Any) -> str:
    """Write a shard's files, with its documents file beside them; returns the path that opens the shard."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, data in shard_bytes(name, [batch_of(rows)], "zstd", fingerprint, **more).items():
        Path(f"{stem}{suffix}").write_bytes(data)
    return f"{stem}{SHARD_FORMATS[name].suffixes[0]}"


def write_megatron(stem: Path, rows: Sequence[Document], fingerprint: str = FINGERPRINT, **more: Any) -> str:
    """Write a shard for Megatron; returns the path of its .bin file, without .bin."""
    return write_shard("megatron", stem, rows, fingerprint, **more).removesuffix(".bin")


def write_arrow(path: Path, rows: Sequence[Document], compression: str = "zstd", fingerprint: str = FINGERPRINT) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(arrow_bytes([batch_of(rows)], compression, fingerprint))
    return str(path)


def with_flipped_bit(data: bytes, position: int, bit: int) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


def add(content: ShardContent, batch: TokenBatch) -> None:
    """Add documents with their digests."""
    content.update(batch, compute_document_digests(batch.langs, batch.tokens, batch.offsets))


def open_shard(name: str, path: str) -> ShardReader:
    """A written shard, with its documents file if the format needs one."""
    return FormatFile(name, path).open()


def content_of(name: str, path: str) -> ShardContent:
    """What is in a written shard, its documents file included."""
    content = ShardContent()
    for batch in open_shard(name, path).batches():
        add(content, batch)
    return content
