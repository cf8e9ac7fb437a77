"""One shard that is made out of other shards, while it is written: rows of packed documents, parts of a mixture.

It has a file beside it that says where its documents came from, which its stage writes. No Beam.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

import numpy as np

from tokcore.formats.documents import DocumentsWriter, get_documents_path
from tokcore.formats.provenance import get_provenance_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, ShardWriter
from tokcore.shards.format_table import READING_ORDER, SHARD_FORMATS, FormatFile, list_paths, needs_documents
from tokcore.shards.token_batch import Offsets, ShardContent, TokenBatch, compute_document_digests
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.work.shard_files import ShardFiles
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import STAGES


class DerivedJob(Protocol):
    """What the workers of a stage that makes shards out of shards need to know."""

    @property
    def attempts(self) -> Attempts: ...
    @property
    def output(self) -> str:
        """URL of the build."""

    @property
    def made_from(self) -> str:
        """The stage whose shards are read."""

    @property
    def shards_sha256(self) -> str:
        """Of the manifest of that stage."""

    @property
    def settings(self) -> ShardSettings: ...
    @property
    def formats(self) -> tuple[str, ...]: ...
    @property
    def target_tokens(self) -> int: ...
    @property
    def result_key(self) -> str: ...


def read_named_shards(job: DerivedJob) -> list[ShardRef]:
    """The shards that are read. Raises StageError if their manifest is not the one that the stage was started with."""
    meanwhile = "shards were made from its shards"
    made: Any = read_manifest(job.output, STAGES[job.made_from], job.shards_sha256, meanwhile)
    return list_named_shards(made)


def read_batches(job: DerivedJob, shard: ShardRef) -> Iterator[TokenBatch]:
    """All documents of a shard, with the records that they came from only where its files say so themselves."""
    named = {file.path for file in shard.files}
    one = next(one for one in READING_ORDER if list_paths(one, shard.facts.stem)[0] in named)
    apart = get_provenance_path(shard.facts.stem)
    wanted = [get_documents_path(shard.facts.stem), *list_paths(one, shard.facts.stem)]
    with copy_if_remote(
        urls.join(job.output, job.made_from), [path for path in wanted if path in named and path != apart]
    ) as folder:
        reader = FormatFile(one.name, f"{folder}/{list_paths(one, shard.facts.stem)[0]}").open()
        yield from reader.batches()


def find_end(offsets: Offsets, start: int, room: int) -> int:
    """The end, excluded, of the documents from start on that go into a shard with room for `room` tokens.

    The first document that fills it is its last. offsets: of all documents.
    """
    reached = int(np.searchsorted(offsets, offsets[start] + room, side="left"))
    return min(max(reached, start + 1), len(offsets) - 1)


class DerivedShard:
    """One shard in every configured format, under attempt names, and open files beside it."""

    def __init__(self, job: DerivedJob, empty: ShardFacts, stack: contextlib.ExitStack, beside: str) -> None:
        """empty: the shard as it begins. beside: path of the file beside it, which is the caller's to write."""
        self._job = job
        self._empty = empty
        self._beside = beside
        self._files = ShardFiles(job.attempts, stack)
        self._content = ShardContent()
        stem, settings = empty.stem, job.settings
        formats = [SHARD_FORMATS[name] for name in job.formats]
        self._writers: list[ShardWriter] = [
            one.open_writer([self._files.new(path) for path in list_paths(one, stem)], settings) for one in formats
        ]
        if needs_documents(job.formats):
            file = self._files.new(get_documents_path(stem))
            self._writers.append(DocumentsWriter(file, settings.fingerprint, settings.vocab_size, settings.compression))
        self.beside: BinaryIO = self._files.new(beside)

    @property
    def num_documents(self) -> int:
        return self._content.num_documents

    @property
    def num_tokens(self) -> int:
        return self._content.num_tokens

    def write(self, documents: TokenBatch) -> None:
        """Append documents, as the shard has them."""
        for writer in self._writers:
            writer.write(documents)
        update_content(self._content, documents)

    def close(self, beside_sha256: str) -> ShardRef:
        """The finished shard. beside_sha256: of the content of the file beside it, which is complete."""
        for writer in self._writers:
            writer.close()
        content = self._content
        facts = dataclasses.replace(
            self._empty,
            documents=content.num_documents,
            tokens=content.num_tokens,
            max_token_id=content.max_token_id,
        )
        of_shard = content.hexdigest()
        files = self._files.finish(lambda path: beside_sha256 if path == self._beside else of_shard)
        return ShardRef(facts, of_shard, files)


def update_content(content: ShardContent, documents: TokenBatch) -> None:
    """Add documents to the digest of a shard."""
    content.update(documents, compute_document_digests(documents.langs, documents.tokens, documents.offsets))
