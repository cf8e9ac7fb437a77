"""One shard while it is written, in every configured format, under attempt names."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from pipelines.store.attempts import Attempts, NewFile
from pipelines.store.crashpoints import reached
from pipelines.work.digest_runs import write_digests
from pipelines.work.encode_job import EncodeJob, Positions, Stream
from pipelines.work.item_reader import LanguageTally
from pipelines.work.token_count_runs import write_id_run
from schemas.refs import LanguageCounts, RunRef, ShardEncoded, ShardRef
from tokcore.formats.arrow_shards import ArrowShardWriter
from tokcore.formats.megatron import BIN, DOCUMENTS, IDX, MegatronShardWriter
from tokcore.kernel import IdCounter, IdRows
from tokcore.token_batch import ShardContent, TokenBatch, document_digests


class ShardAttempt:
    """One shard in every configured format, under attempt names."""

    def __init__(self, job: EncodeJob, stream: Stream, item: int, number: int, stack: contextlib.ExitStack) -> None:
        self._lang, self._split = stream
        self.name = f"{self._split}-{item:05d}-{number:05d}"
        folder = f"{self._lang}/" if self._lang else ""
        self._files: dict[str, NewFile] = {}
        # Closed by close(), or by the stack when the item fails half-way.
        self._stack = stack.enter_context(contextlib.ExitStack())
        self._content = ShardContent()
        self._tallies: dict[str, LanguageTally] = {}
        self._digests: list[bytes] = []
        self._ids = IdCounter()
        self._job = job
        self._arrow: ArrowShardWriter | None = None
        self._megatron: MegatronShardWriter | None = None
        if "arrow" in job.formats:
            file = self._new(f"arrow/{folder}{self.name}.arrow")
            self._arrow = ArrowShardWriter(file, job.fingerprint, job.compression)
        if "megatron" in job.formats:
            prefix = f"megatron/{folder}{self.name}_text_document"
            self._megatron = MegatronShardWriter(
                self._new(prefix + BIN),
                self._new(prefix + IDX),
                self._new(prefix + DOCUMENTS),
                job.fingerprint,
                job.compression,
            )
        self.num_tokens = 0

    def _new(self, path: str) -> Any:
        self._files[path] = self._stack.enter_context(self._job.attempts.new_file(path))
        return self._files[path].file

    def write(self, tokens: TokenBatch, pretokens: Positions) -> None:
        self._ids.add(tokens.tokens, tokens.offsets)
        for writer in (self._arrow, self._megatron):
            if writer is not None:
                writer.write(tokens)
        digests = document_digests(tokens.langs, tokens.tokens, tokens.offsets)
        self._content.update(tokens, digests)
        self._digests += digests
        lengths = np.diff(tokens.offsets)
        for lang, where in tokens.langs.by_label().items():
            tally = self._tallies.setdefault(lang, LanguageTally())
            tally.num_pretokens += int(pretokens[where].sum())
            tally.num_tokens += int(lengths[where].sum())
        self.num_tokens += len(tokens.tokens)

    def close(self) -> ClosedShard:
        for writer in (self._arrow, self._megatron):
            if writer is not None:
                writer.close()
        self._stack.close()
        reached("encode.shard")
        content = self._content.hexdigest()
        shard = ShardRef(
            name=self.name,
            lang=self._lang,
            split=self._split,
            num_documents=self._content.num_documents,
            num_tokens=self.num_tokens,
            max_token_id=self._content.max_token_id,
            content_sha256=content,
            files=tuple(new.stored(path, content) for path, new in sorted(self._files.items())),
        )
        languages = {lang: tally.freeze() for lang, tally in sorted(self._tallies.items())}
        digests = write_digests(self._job.attempts, self.name, self._digests, self._job.num_partitions)
        return ClosedShard(shard, languages, digests, self._ids.take())


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedShard:
    """ShardEncoded, with the counts of ids in memory: they need a file only once the shard is recorded."""

    shard: ShardRef
    languages: dict[str, LanguageCounts]
    digests: tuple[RunRef, ...]
    token_counts: IdRows

    def encoded(self, attempts: Attempts) -> ShardEncoded:
        """To be recorded; writes the counts of ids."""
        counts = write_id_run(attempts, self.shard.name, self.token_counts)
        return ShardEncoded(self.shard, self.languages, self.digests, counts)
