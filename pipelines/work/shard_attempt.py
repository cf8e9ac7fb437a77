"""One shard while it is written, in every configured format, under attempt names."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from tokcore.formats.documents import DocumentsWriter, get_documents_path
from tokcore.formats.provenance import Places, ProvenanceWriter, get_provenance_path, hide_provenance
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardWriter
from tokcore.kernel import IdCounter, IdRows
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore.shards.format_table import SHARD_FORMATS, list_paths, needs_documents
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests, count_in_rows
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.encode_job import EncodeJob, Positions
from tokcore_pipelines.work.item_reader import LanguageTally
from tokcore_pipelines.work.shard_files import ShardFiles
from tokcore_schemas.refs import HashedDocuments, ShardEncoded, ShardRef


class ShardAttempt:
    """One shard in every configured format, under attempt names."""

    def __init__(self, job: EncodeJob, empty: ShardFacts, stack: contextlib.ExitStack) -> None:
        """empty: the shard as it begins; what it holds follows when it is closed."""
        self._empty = empty
        self._job = job
        self._files = ShardFiles(job.attempts, stack)
        self._content = ShardContent()
        self._tallies: dict[str, LanguageTally] = {}
        self._hashed = DocumentsDigest()
        self._ids = IdCounter()
        self._writers = self._open_writers()
        self._provenance = self._open_provenance()
        self.num_tokens = 0

    def _open_writers(self) -> list[ShardWriter]:
        job, stem = self._job, self._empty.stem
        settings = job.settings
        formats = [SHARD_FORMATS[name] for name in job.formats]
        new = self._files.new
        writers = [one.open_writer([new(path) for path in list_paths(one, stem)], settings) for one in formats]
        if needs_documents(job.formats):
            file = self._files.new(get_documents_path(stem))
            writers.append(DocumentsWriter(file, settings.fingerprint, settings.vocab_size, settings.compression))
        return writers

    def _open_provenance(self) -> ProvenanceWriter | None:
        if self._job.shuffle is None:
            return None
        return ProvenanceWriter(self._files.new(get_provenance_path(self._empty.stem)), self._job.settings.compression)

    def write(self, tokens: TokenBatch, pretokens: Positions, places: Places | None = None) -> None:
        """Append documents. pretokens: how many each document has. places: of a shuffle, where it put them."""
        if self._provenance is not None:
            assert places is not None
            self._provenance.write(tokens, places)
            tokens = hide_provenance(tokens, self._content.num_documents)
        self._ids.add(tokens.tokens, tokens.offsets)
        for writer in self._writers:
            writer.write(tokens)
        digests = compute_document_digests(tokens.langs, tokens.tokens, tokens.offsets)
        self._content.update(tokens, digests)
        self._hashed.add(digests)
        lengths = np.diff(tokens.offsets)
        unknown = None if self._job.unknown is None else count_in_rows(tokens, self._job.unknown)
        for lang, where in tokens.langs.by_label().items():
            tally = self._tallies.setdefault(lang, LanguageTally())
            tally.num_pretokens += int(pretokens[where].sum())
            tally.num_tokens += int(lengths[where].sum())
            if unknown is not None:
                tally.num_unknown += int(unknown[where].sum())
        self.num_tokens += len(tokens.tokens)

    def close(self) -> tuple[ShardEncoded, IdRows]:
        """The finished shard, and the counts of its ids, which need a file only if the shard is recorded."""
        for writer in self._writers:
            writer.close()
        provenance_sha256 = self._provenance.close() if self._provenance is not None else ""
        content = self._content.hexdigest()
        facts = dataclasses.replace(
            self._empty,
            documents=self._content.num_documents,
            tokens=self.num_tokens,
            max_token_id=self._content.max_token_id,
        )
        apart = get_provenance_path(facts.stem)
        files = self._files.finish(lambda path: provenance_sha256 if path == apart else content)
        reach("encode.shard")
        languages = {lang: tally.freeze() for lang, tally in sorted(self._tallies.items())}
        hashed = HashedDocuments(self._hashed.num_documents, self._hashed.hexdigest())
        return ShardEncoded(ShardRef(facts, content, files), languages, hashed, None), self._ids.take()
