"""One shard of the encode stage while it is written, with what its documents add to the totals of their work item."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from tokcore.formats.provenance import Places, hide_provenance
from tokcore.formats.shard_facts import ShardFacts
from tokcore.kernel import IdCounter, IdRows
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore.shards.token_batch import TokenBatch, count_in_rows
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.encode_job import EncodeJob, Positions
from tokcore_pipelines.work.item_reader import LanguageTally
from tokcore_pipelines.work.new_shard import NewShard, name_provenance
from tokcore_schemas.refs import HashedDocuments, ShardEncoded


class EncodedDocuments(NamedTuple):
    """Documents as ids. pretokens: how many each has. places: where a shuffle put each; None: it did not."""

    tokens: TokenBatch
    pretokens: Positions
    places: Places | None = None

    def take(self, where: Positions) -> EncodedDocuments:
        """The documents at these positions, in that order."""
        places = None if self.places is None else self.places[where]
        return EncodedDocuments(self.tokens.take(where.tolist()), self.pretokens[where], places)

    def slice(self, start: int, end: int) -> EncodedDocuments:
        """Documents start to end, end excluded."""
        places = None if self.places is None else self.places[start:end]
        return EncodedDocuments(self.tokens.slice(start, end), self.pretokens[start:end], places)


class ShardAttempt:
    """One shard in every configured format, under attempt names."""

    def __init__(self, job: EncodeJob, empty: ShardFacts, stack: contextlib.ExitStack) -> None:
        """empty: the shard as it begins; what it holds follows when it is closed."""
        beside = None if job.config.shuffle is None else name_provenance(job, empty)
        self._shard = NewShard(job, empty, stack, beside)
        self._unknown = job.unknown
        self._tallies: dict[str, LanguageTally] = {}
        self._hashed = DocumentsDigest()
        self._ids = IdCounter()

    @property
    def num_tokens(self) -> int:
        return self._shard.num_tokens

    def write(self, some: EncodedDocuments) -> None:
        """Append documents."""
        tokens = some.tokens
        if self._shard.beside is not None:
            self._shard.beside.write(tokens, some.places)
            tokens = hide_provenance(tokens, self._shard.num_documents)
        self._ids.add(tokens.tokens, tokens.offsets)
        self._hashed.add(self._shard.write(tokens))
        lengths = np.diff(tokens.offsets)
        unknown = None if self._unknown is None else count_in_rows(tokens, self._unknown)
        for lang, where in tokens.langs.by_label().items():
            tally = self._tallies.setdefault(lang, LanguageTally())
            tally.num_pretokens += int(some.pretokens[where].sum())
            tally.num_tokens += int(lengths[where].sum())
            if unknown is not None:
                tally.num_unknown += int(unknown[where].sum())

    def close(self) -> tuple[ShardEncoded, IdRows]:
        """The finished shard, and the counts of its ids, which need a file only if the shard is recorded."""
        shard = self._shard.close()
        reach("encode.shard")
        languages = {lang: tally.freeze() for lang, tally in sorted(self._tallies.items())}
        hashed = HashedDocuments(self._hashed.num_documents, self._hashed.hexdigest())
        return ShardEncoded(shard, languages, hashed, None), self._ids.take()
