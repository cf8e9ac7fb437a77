"""Token batches for tests: hypothesis strategies, a fixed example, and shards written from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tokcore.formats.shard_format import ShardReader, ShardSettings
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests
from tokcore.testing.shard_examples import FINGERPRINT, Document, make_files
from tokcore.testing.shard_examples import cut_batch as dealt
from tokcore.testing.shard_examples import flip_bit as with_flipped_bit
from tokcore.testing.shard_examples import list_documents as rows_of
from tokcore.testing.shard_examples import make_batch as batch_of

__all__ = [
    "EXAMPLE",
    "FINGERPRINT",
    "Document",
    "add",
    "arrow_bytes",
    "batch_of",
    "content_of",
    "dealt",
    "documents",
    "open_shard",
    "rows_of",
    "shard_bytes",
    "with_flipped_bit",
    "write_arrow",
    "write_megatron",
    "write_shard",
]

VOCAB_SIZE = 2**31

NAMES = ["", "a", "doc-1", "日本語", "é" * 40, "😀", "id with spaces\n", "nul\0inside"]

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


def shard_bytes(
    name: str,
    batches: Iterable[TokenBatch],
    compression: str = "zstd",
    fingerprint: str = FINGERPRINT,
    vocab_size: int = VOCAB_SIZE,
    dtype: str = "int32",
) -> dict[str, bytes]:
    """Suffix -> bytes of a shard's files in a format, and of its documents file where the format needs one."""
    return make_files(SHARD_FORMATS[name], batches, ShardSettings(fingerprint, vocab_size, compression, dtype))


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
