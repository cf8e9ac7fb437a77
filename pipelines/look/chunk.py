"""`tokcore chunk`: chunks of documents for retrieval, a row of a Parquet file each.

Documents are read as a build reads them, or are decoded from the shards of an output. How they are cut is in
tokcore.tokenizer.chunks.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.errors import ConfigError, FormatError
from tokcore.shards.opened_shards import open_shards
from tokcore.tokenizer.chunks import Chunker
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_pipelines.work.read_shards import count_around
from tokcore_pipelines.work.read_source import list_source_items
from tokcore_schemas.refs import RejectRef
from tokcore_schemas.stage_table import SHARDS, WHOLE

SCHEMA = pa.schema(
    [
        pa.field("document", pa.string()),  # null if the source names none
        pa.field("lang", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("ordinal", pa.int64(), nullable=False),  # with the source, where the document came from
        pa.field("chunk", pa.int32(), nullable=False),  # number within the document
        pa.field("text", pa.string(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("byte_start", "byte_end", "token_start", "token_end", "num_tokens")
        ),
    ]
)
_BATCH_BYTES = 4 << 20


class _Named(NamedTuple):
    """A document, and where it came from."""

    id: str | None
    lang: str
    source: str
    ordinal: int
    text: bytes


@dataclasses.dataclass(slots=True)
class Chunked:
    """What was read and written."""

    output: str
    documents: int = 0
    chunks: int = 0
    tokens: int = 0  # of all chunks
    rejected: dict[str, int] = dataclasses.field(default_factory=dict)  # reason -> records or files


def find_output_tokenizer(url: str) -> Tokenizer | None:
    """The tokenizer of the output at a URL; None if there is no finished build."""
    return Tokenizer(load_spec(url)) if find_manifest(url, WHOLE) is not None else None


def chunk_output(output: str, chunker: Chunker, target: str) -> Chunked:
    """Chunk the documents of an output into a Parquet file. Raises ConfigError if its tokens do not give back text."""
    spec = load_spec(output)
    if not spec.keeps_text:
        raise ConfigError(
            f"{redact(output)}: its tokenizer normalizes text, or leaves some of it out, so its shards do not give "
            f"back the text. Name the files that it was built from"
        )
    done = Chunked(target)
    return _write(_read_output(output, Tokenizer(spec)), chunker, target, done)


def _read_output(output: str, tokenizer: Tokenizer) -> Iterator[_Named]:
    before, after = count_around(require_manifest(output, SHARDS, "build").config)
    where = str(urls.get_local_path(output)) if urls.is_local(output) else output
    shards = open_shards(where, "all")
    for number, tokens in enumerate(shards):
        own = shards.document(number)
        yield _Named(own.id, own.lang, own.source, own.ordinal, tokenizer.decode(tokens[before : len(tokens) - after]))


def chunk_files(settings: Mapping[str, Any], base: str, chunker: Chunker, target: str) -> Chunked:
    """Chunk the documents of files into a Parquet file.

    settings: those of a [[source]] of a build file. base: folder against which relative patterns are resolved.
    Raises ConfigError for wrong settings, StageError for files that cannot be read.
    """
    done = Chunked(target)

    def reject(one: RejectRef) -> None:
        done.rejected[one.reason] = done.rejected.get(one.reason, 0) + 1

    def read() -> Iterator[_Named]:
        for _, assignment in sorted(list_source_items(settings, base), key=lambda item: item[1].number):
            for source, batch in ItemReader(assignment, base, reject):
                for i in range(batch.texts.num_texts):
                    place = int(batch.ordinals[i]) + source.start
                    yield _Named(batch.get_id(i), batch.langs[i], source.uri, place, batch.texts.text(i))

    return _write(read(), chunker, target, done)


def _write(documents: Iterable[_Named], chunker: Chunker, target: str, done: Chunked) -> Chunked:
    about = {"tokens": chunker.most, "overlap": chunker.overlap, "tokenizer": chunker.fingerprint}
    schema = SCHEMA.with_metadata({"tokcore.chunks": json.dumps(about)})
    with storage.write_attempt(target) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in _gather(documents):
            rows = [*_list_rows(batch, chunker)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
            done.documents += len(batch)
            done.chunks += len(rows)
            done.tokens += sum(row["num_tokens"] for row in rows)
    return done


def _gather(documents: Iterable[_Named]) -> Iterator[list[_Named]]:
    batch: list[_Named] = []
    size = 0
    for one in documents:
        batch.append(one)
        size += len(one.text)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _list_rows(batch: Sequence[_Named], chunker: Chunker) -> Iterator[dict[str, Any]]:
    try:
        found = chunker.cut([one.text for one in batch])
    except FormatError as error:
        first = batch[0]
        raise FormatError(f"of the documents from {first.source}, {first.ordinal} on, {error}") from error
    for one, chunks in zip(batch, found, strict=True):
        for number, chunk in enumerate(chunks):
            yield {
                "document": one.id,
                "lang": one.lang,
                "source": one.source,
                "ordinal": one.ordinal,
                "chunk": number,
                "text": chunk.text.decode(),
                "byte_start": chunk.start,
                "byte_end": chunk.end,
                "token_start": chunk.first_token,
                "token_end": chunk.last_token,
                "num_tokens": chunk.num_tokens,
            }
