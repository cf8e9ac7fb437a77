"""One shard while it is written, in several formats at once. Leaves to others where its files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import BinaryIO

from tokcore.formats.documents import DocumentsWriter, get_documents_path
from tokcore.formats.metadata import fit_metadata
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, ShardWriter
from tokcore.shards.format_table import find_format, list_paths, needs_documents
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests


class ShardInFormats:
    """Writes the same documents in every format, and a documents file if one of them needs it."""

    def __init__(
        self, empty: ShardFacts, formats: Sequence[str], settings: ShardSettings, new: Callable[[str], BinaryIO]
    ) -> None:
        """empty: the shard as it begins. new: a file to write, by its path below the folder of all shards."""
        self._empty = empty
        self._metadata = settings.metadata
        self.content = ShardContent()
        stem = empty.stem
        self._writers: list[ShardWriter] = [
            one.open_writer([new(path) for path in list_paths(one, stem)], settings)
            for one in map(find_format, formats)
        ]
        if needs_documents(formats):
            file = new(get_documents_path(stem))
            told = (settings.fingerprint, settings.vocab_size, settings.compression, settings.metadata)
            self._writers.append(DocumentsWriter(file, *told))

    def write(self, documents: TokenBatch) -> list[bytes]:
        """Append documents, as the shard has them; return their digests."""
        own = fit_metadata(documents.metadata, self._metadata, documents.num_documents)
        documents = documents._replace(metadata=own)
        for writer in self._writers:
            writer.write(documents)
        digests = compute_document_digests(documents.langs, documents.tokens, documents.offsets)
        self.content.update(documents, digests)
        return digests

    def close(self) -> ShardFacts:
        """What the shard holds. Its files are complete, and not closed."""
        for writer in self._writers:
            writer.close()
        held = self.content
        return dataclasses.replace(
            self._empty, documents=held.num_documents, tokens=held.num_tokens, max_token_id=held.max_token_id
        )
