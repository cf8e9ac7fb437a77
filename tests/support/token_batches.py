"""Token batches for tests: hypothesis strategies, a fixed example, and shards written from them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tokcore.formats.arrow_shards import ArrowShard, ArrowShardWriter
from tokcore.formats.megatron import BIN, DOCUMENTS, IDX, MegatronShard, MegatronShardWriter
from tokcore.labels import label_strings
from tokcore.token_batch import ShardContent, TokenBatch, document_digests

FINGERPRINT = "ab" * 32

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


def arrow_bytes(batches: Iterable[TokenBatch], compression: str = "zstd", fingerprint: str = FINGERPRINT) -> bytes:
    file = io.BytesIO()
    writer = ArrowShardWriter(file, fingerprint, compression)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return file.getvalue()


def megatron_bytes(
    batches: Iterable[TokenBatch], compression: str = "zstd", fingerprint: str = FINGERPRINT
) -> dict[str, bytes]:
    """Suffix -> bytes of the file."""
    files = {suffix: io.BytesIO() for suffix in (BIN, IDX, DOCUMENTS)}
    writer = MegatronShardWriter(files[BIN], files[IDX], files[DOCUMENTS], fingerprint, compression)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return {suffix: file.getvalue() for suffix, file in files.items()}


def write_arrow(path: Path, rows: Sequence[Document], compression: str = "zstd", fingerprint: str = FINGERPRINT) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(arrow_bytes([batch_of(rows)], compression, fingerprint))
    return str(path)


def write_megatron(prefix: Path, rows: Sequence[Document], fingerprint: str = FINGERPRINT) -> str:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for suffix, data in megatron_bytes([batch_of(rows)], "zstd", fingerprint).items():
        Path(f"{prefix}{suffix}").write_bytes(data)
    return str(prefix)


def with_flipped_bit(data: bytes, position: int, bit: int) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


def add(content: ShardContent, batch: TokenBatch) -> None:
    """Add documents with their digests."""
    content.update(batch, document_digests(batch.langs, batch.tokens, batch.offsets))


def content_of_arrow(path: str) -> ShardContent:
    """What is in a written Arrow shard."""
    return _content_of(ArrowShard(path))


def content_of_megatron(prefix: str) -> ShardContent:
    """What is in a written Megatron shard, its documents file included."""
    return _content_of(MegatronShard(prefix))


def _content_of(shard: ArrowShard | MegatronShard) -> ShardContent:
    content = ShardContent()
    for batch in shard.batches():
        add(content, batch)
    return content
