"""What a worker of the encode stage does: tokenize one work item into shards. No Beam.

A work item writes whole documents and closes a shard at the first document that reaches the target, so boundaries
depend on plan and documents only. As in the count stage, records in the attempt folder carry the results: one for
the item, and before that one for each shard that is full.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.reading.input_range import Batch
from pipelines.store import storage
from pipelines.store.attempts import Attempts, NewFile, key_of
from pipelines.store.crashpoints import reached
from pipelines.store.redaction import redact
from pipelines.work.count_item import item_key
from pipelines.work.item_reader import ItemReader, LanguageTally, by_language, taken
from pipelines.work.runs import write_section
from schemas.document import document_key, selected
from schemas.plan import AssignedRange, Assignment
from schemas.refs import ItemEncoded, LanguageCounts, RunRef, ShardEncoded, ShardRef
from tokcore import token_counts
from tokcore.canonical import sha256_hex
from tokcore.errors import IdentityError, LedgerError, StageError
from tokcore.formats.arrow_shards import ArrowShardWriter
from tokcore.formats.megatron import BIN, DOCUMENTS, IDX, MegatronShardWriter
from tokcore.pretoken_rows import CountRows
from tokcore.texts import Texts
from tokcore.token_batch import ShardContent, TokenBatch, document_digests, with_appended
from tokcore.tokenizer import Tokenizer
from tokcore.tokenizer_spec import TokenizerSpec

# Digests are spread evenly by their first byte; a partition is an interval of them, so partitions in order are sorted.
DIGEST_BYTES = 32

Stream = tuple[str, str]  # (language, or empty where shards hold all; split)
Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob:
    """What every worker of the encode stage needs to know."""

    attempts: Attempts
    base: str  # folder against which relative uris are resolved
    tokenizer: str  # URL of tokcore.json
    fingerprint: str
    append: tuple[int, ...]  # ids behind each document
    special_text: str  # ordinary | special (reject is the reader's)
    formats: tuple[str, ...]
    target_tokens: int
    by_lang: bool
    validation: str  # exact decimal
    seed: int
    compression: str
    num_partitions: int
    tokenizer_sha256: str = ""  # of that file, if it was checked before


def digests_key(partition: int) -> str:
    """The record key of one partition of the document digests."""
    return f"digests-{partition:03d}"


@functools.lru_cache(maxsize=2)
def _tokenizer(url: str, sha256: str, fingerprint: str) -> Tokenizer:
    tokenizer = Tokenizer(TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, sha256))
    if tokenizer.fingerprint != fingerprint:
        raise IdentityError(
            f"{url}: its fingerprint is {tokenizer.fingerprint}, the build was started with {fingerprint}"
        )
    return tokenizer


ID_COUNTS_KEY = "id-counts"  # the record key of the counts of ids, all added up


def shard_key(stream: Stream, item: int, number: int) -> str:
    """The record key of a shard that was finished before its work item was."""
    return "-".join(("shard", *filter(None, stream), f"{item:05d}", f"{number:05d}"))


def encode_item(job: EncodeJob, assignment: Assignment) -> ItemEncoded:
    """Tokenize a work item into shards. Of an interrupted attempt the finished shards stand: their documents are read
    again, since what follows in a stream cannot be found otherwise, but not tokenized.

    Raises StageError for an input that cannot be read or has changed, IdentityError for another tokenizer.
    """
    key = item_key(assignment.number)
    if (done := job.attempts.result(key, ItemEncoded)) is not None:
        return done
    tokenizer = _tokenizer(job.tokenizer, job.tokenizer_sha256, job.fingerprint)
    spelled: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        rejects = stack.enter_context(job.attempts.new_file(f"item-{assignment.number:05d}.rejects"))
        reader = ItemReader(assignment, job.base, rejects.file)
        streams = _Streams(job, assignment.number, stack)
        for source, batch in reader:
            for part in _slices(batch.texts):
                texts = Texts(batch.texts.data, batch.texts.offsets[part.start : part.stop + 1])
                spelled.update(tokenizer.spelled_special(texts))
                langs = batch.langs[part]
                of = streams.of(langs, _splits(job, batch, part))
                where = streams.unfinished(of)
                if len(where):
                    tokens, pretokens = _encode(job, tokenizer, source, batch, part, texts, where)
                    streams.write(source.file, tokens, pretokens, [of[i] for i in where.tolist()])
        shards = streams.close()
    reached("encode.item")
    counts = _id_counts(job, assignment, shards)
    return job.attempts.record(
        key,
        ItemEncoded(
            item=assignment.number,
            ledgers=tuple(reader.ledgers),
            languages=_languages(reader.languages(), shards),
            shards=tuple(one.shard for one in shards),
            digests=tuple(run for one in shards for run in one.digests),
            id_counts=write_counts(job.attempts, f"item-{assignment.number:05d}", counts),
            special_text=dict(sorted(spelled.items())),
            rejects=rejects.stored(""),
        ),
    )


def _id_counts(
    job: EncodeJob, assignment: Assignment, shards: Sequence[_Closed | ShardEncoded]
) -> token_counts.IdCounts:
    """The sum over all shards, of which one recorded one is in memory at a time, and what was read of each source."""
    parts = [one.id_counts for one in shards if isinstance(one, _Closed)]
    for one in shards:
        if isinstance(one, ShardEncoded):
            parts = [token_counts.add_up([*parts, read_counts(job.attempts, one.id_counts)])]
    return token_counts.add_up(
        [*parts, *(token_counts.covered(r.file, r.end - r.start, r.size_bytes) for r in assignment.ranges)]
    )


def _languages(
    read: Mapping[str, LanguageCounts], shards: Sequence[_Closed | ShardEncoded]
) -> dict[str, LanguageCounts]:
    """What was read of each language, with what its documents became in the shards."""
    totals = dict(read)
    for one in shards:
        for lang, counts in one.languages.items():
            totals[lang] += counts
    return totals


def _slices(texts: Texts, slice_bytes: int = 4 << 20) -> Iterator[slice]:
    """Runs of documents of about slice_bytes, so that memory follows neither the batch nor the number of tokens."""
    start = 0
    while start < texts.num_texts:
        limit = texts.offsets[start] + slice_bytes
        end = max(start + 1, int(np.searchsorted(texts.offsets, limit, side="right")) - 1)
        yield slice(start, end)
        start = end


def _encode(
    job: EncodeJob,
    tokenizer: Tokenizer,
    source: AssignedRange,
    batch: Batch,
    part: slice,
    texts: Texts,
    where: Positions,
) -> tuple[TokenBatch, Positions]:
    """The documents at these positions of a part of the batch, and how many pre-tokens each has. texts: of the part."""
    encode = tokenizer.encode_texts_with_special if job.special_text == "special" else tokenizer.encode_texts
    ids, offsets, pretokens = encode(taken(texts, where))
    ids, offsets = with_appended(ids, offsets, job.append)
    at = (where + part.start).tolist()
    return (
        TokenBatch(
            tokens=ids,
            offsets=offsets,
            ids=[batch.ids[i] for i in at] if batch.ids is not None else [None] * len(at),
            langs=[batch.langs[i] for i in at],
            sources=[source.uri] * len(at),
            # The record's number in its range, plus the range's first byte: unique and ascending within a file.
            ordinals=batch.ordinals[at] + source.start,
        ),
        pretokens,
    )


def _splits(job: EncodeJob, batch: Batch, part: slice) -> list[str]:
    share = Decimal(job.validation)
    if share == 0:
        return ["train"] * (part.stop - part.start)
    out = []
    for i in range(part.start, part.stop):
        identifier = batch.ids[i] if batch.ids is not None else None
        key = document_key(batch.langs[i], identifier, batch.texts.text(i))
        out.append("validation" if selected(key, job.seed, "validation", share) else "train")
    return out


class _Streams:
    """One sequence of shards per split, and per language where shards are kept apart by language."""

    def __init__(self, job: EncodeJob, item: int, stack: contextlib.ExitStack) -> None:
        self._job = job
        self._item = item
        self._stack = stack
        self._open: dict[Stream, _Shard] = {}
        self._finished: dict[Stream, list[ShardEncoded]] = {}
        self._ahead: dict[Stream, int] = {}  # documents that come by and are in a shard of an earlier attempt

    def of(self, langs: Sequence[str], splits: Sequence[str]) -> list[Stream]:
        """The stream of each document."""
        return list(zip(langs if self._job.by_lang else [""] * len(langs), splits, strict=True))

    def unfinished(self, streams: Sequence[Stream]) -> Positions:
        """Positions of the next documents that no finished shard of an earlier attempt holds; call once for each."""
        for stream in dict.fromkeys(streams):
            if stream not in self._finished:
                self._finished[stream] = self._resumed(stream)
                self._ahead[stream] = sum(one.shard.num_documents for one in self._finished[stream])
        if not any(self._ahead.values()):
            return np.arange(len(streams))
        where = []
        for i, stream in enumerate(streams):
            if self._ahead[stream]:
                self._ahead[stream] -= 1
            else:
                where.append(i)
        return np.asarray(where, np.int64)

    def write(self, file: int, tokens: TokenBatch, pretokens: Positions, streams: Sequence[Stream]) -> None:
        """Documents of one file. file: its place in the plan."""
        distinct = dict.fromkeys(streams)
        for stream in distinct:
            if len(distinct) == 1:
                self._write_stream(stream, file, tokens, pretokens)
            else:
                where = [i for i, s in enumerate(streams) if s == stream]
                self._write_stream(stream, file, tokens.take(where), pretokens[where])

    def close(self) -> tuple[_Closed | ShardEncoded, ...]:
        """All shards of the item, the last ones closed. Raises StageError if an earlier attempt read more documents."""
        last = {stream: shard.close() for stream, shard in self._open.items()}
        self._open.clear()
        if any(self._ahead.values()):
            raise StageError(
                f"work item {self._item}: {sum(self._ahead.values())} documents fewer than an earlier attempt read"
            )
        shards: list[_Closed | ShardEncoded] = []
        for stream in sorted(self._finished):
            shards += self._finished[stream]
            shards += [last[stream]] if stream in last else []
        return tuple(shards)

    def _resumed(self, stream: Stream) -> list[ShardEncoded]:
        shards: list[ShardEncoded] = []
        while (one := self._job.attempts.result(self._key(stream, len(shards)), ShardEncoded)) is not None:
            shards.append(one)
        return shards

    def _key(self, stream: Stream, number: int) -> str:
        return shard_key(stream, self._item, number)

    def _write_stream(self, stream: Stream, file: int, tokens: TokenBatch, pretokens: Positions) -> None:
        start = 0
        finished = self._finished[stream]
        while start < len(tokens.langs):
            shard = self._open.get(stream)
            if shard is None:
                shard = self._open[stream] = _Shard(self._job, stream, self._item, len(finished), self._stack)
            room = self._job.target_tokens - shard.num_tokens
            # The first document that reaches the target is the shard's last.
            reached = int(np.searchsorted(tokens.offsets, tokens.offsets[start] + room, side="left"))
            end = min(max(reached, start + 1), len(tokens.langs))
            shard.write(file, tokens.slice(start, end), pretokens[start:end])
            if shard.num_tokens >= self._job.target_tokens:
                # Recorded at once: an attempt that dies later, however large its item, loses the shard it is at.
                closed = self._open.pop(stream).close().encoded(self._job.attempts)
                finished.append(self._job.attempts.record(self._key(stream, len(finished)), closed))
            start = end


class _Shard:
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
        self._ids = token_counts.SourceCounter()
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

    def write(self, file: int, tokens: TokenBatch, pretokens: Positions) -> None:
        self._ids.add(file, tokens.tokens, tokens.offsets)
        for writer in (self._arrow, self._megatron):
            if writer is not None:
                writer.write(tokens)
        digests = document_digests(tokens.langs, tokens.tokens, tokens.offsets)
        self._content.update(tokens, digests)
        self._digests += digests
        lengths = np.diff(tokens.offsets)
        for lang, where in by_language(tokens.langs).items():
            tally = self._tallies.setdefault(lang, LanguageTally())
            tally.num_pretokens += int(pretokens[where].sum())
            tally.num_tokens += int(lengths[where].sum())
        self.num_tokens += len(tokens.tokens)

    def close(self) -> _Closed:
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
        digests = _write_digests(self._job, self.name, self._digests)
        return _Closed(shard, languages, digests, self._ids.take())


@dataclasses.dataclass(frozen=True, slots=True)
class _Closed:
    """ShardEncoded, but for the counts of ids: only those of a shard that is recorded need a file."""

    shard: ShardRef
    languages: dict[str, LanguageCounts]
    digests: tuple[RunRef, ...]
    id_counts: token_counts.IdCounts

    def encoded(self, attempts: Attempts) -> ShardEncoded:
        """To be recorded; writes the counts of ids."""
        counts = write_counts(attempts, self.shard.name, self.id_counts)
        return ShardEncoded(self.shard, self.languages, self.digests, counts)


def _write_digests(job: EncodeJob, shard: str, digests: list[bytes]) -> tuple[RunRef, ...]:
    """Sorted runs of (digest, how often), one per partition, in one attempt file."""
    ordered = np.sort(np.frombuffer(b"".join(digests), f"S{DIGEST_BYTES}"))
    # numpy's S type compares as bytes but drops trailing zeros when asked for a value, so only its buffer is used
    packed = ordered.view(np.uint8).reshape(-1, DIGEST_BYTES)
    first = np.flatnonzero(np.concatenate(([True], (packed[1:] != packed[:-1]).any(axis=1))))
    unique = packed[first]
    counts = np.diff(np.append(first, len(packed))).astype(np.uint64)
    partition = unique[:, 0].astype(np.int64) * job.num_partitions // 256
    runs = []
    with job.attempts.new_file(f"{shard}.digests") as new:
        for p in np.unique(partition).tolist():
            where = partition == p
            keys = np.ascontiguousarray(unique[where])
            texts = Texts(keys.reshape(-1), np.arange(len(keys) + 1) * DIGEST_BYTES)
            rows = CountRows(texts, counts[where], counts[where])
            runs.append(write_section(new.file, new.attempt, "", p, [rows]))
    return tuple(runs)


def write_counts(attempts: Attempts, name: str, counts: token_counts.IdCounts) -> RunRef:
    """Counts of token ids in an attempt file of their own."""
    with attempts.new_file(f"{name}.ids") as new:
        num_ids = token_counts.write_id_counts(new.file, counts)
    return RunRef("", 0, new.attempt, 0, new.file.size_bytes, num_ids, new.file.sha256)


def read_counts(attempts: Attempts, run: RunRef) -> token_counts.IdCounts:
    """The inverse of write_counts. Raises LedgerError unless they are what was written."""
    url = attempts.url(run.attempt)
    data = storage.read_bytes(url)
    if sha256_hex(data) != run.sha256:
        raise LedgerError(f"{redact(url)}: not the counts that were written there")
    return token_counts.read_id_counts(io.BytesIO(data))


def merge_counts(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One file, named after its content, with the sums of several."""
    record_key = key_of("merge-ids", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        return done
    merged = write_counts(attempts, "merge", token_counts.add_up([read_counts(attempts, run) for run in runs]))
    return attempts.record(record_key, attempts.name_by_content(merged))
