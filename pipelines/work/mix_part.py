"""What a worker does for a mixture: measure a part of the shuffled shards, then write a part of the mixture. No Beam.

A part of the mixture is made segment by segment (tokcore_schemas.copies). Each segment gets the copies of documents of
a few segments of the shuffle, puts them in the order of their places, and hands them to the open shards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.partition_names import Partitioning
from tokcore.formats.provenance import Places, get_provenance_path, hide_provenance
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.labels import repeat_label
from tokcore.shards.partitions import label_partitions
from tokcore.shards.token_batch import TokenBatch, join_batches
from tokcore.train.document_shares import Copies
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.local.open_files import allow_open_files
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote
from tokcore_pipelines.work.derived_shards import ShardSource, list_shards_by_item, require_file
from tokcore_pipelines.work.encode_job import Positions, ShardJob, Stream
from tokcore_pipelines.work.inherit_item import take_over_files
from tokcore_pipelines.work.new_shard import NewShard, ShardSequence, begin_facts, name_provenance
from tokcore_pipelines.work.ordered_shards import OrderedShards
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_pipelines.work.scattered_runs import find_order
from tokcore_schemas.copies import NUM_CELLS, find_cells, get_tails, place_copies, reverse_copy
from tokcore_schemas.refs import (
    Measured,
    MixedSums,
    MixPart,
    PartMeasured,
    PartMixed,
    ShardRef,
)
from tokcore_schemas.stage_manifests import MixtureConfig
from tokcore_schemas.stage_table import PLAN

_WRITTEN_DOCUMENTS = 4096

Group = tuple[str, str, str]  # (language, name of the source or "", partition or "")


class MixedBefore(NamedTuple):
    """The mixture of the part whose place this one takes, made in the same way but for what is decided."""

    source: ShardSource  # the shuffled shards
    mixed: ShardSource
    num_source_parts: int
    num_parts: int
    num_segments: int
    copies: Mapping[str, Copies]


@dataclasses.dataclass(frozen=True, slots=True)
class MixJob(ShardJob[MixtureConfig]):
    """What every worker of the stage needs to know."""

    source: ShardSource
    plan_sha256: str  # of the plan's manifest, which has the names of sources
    by_lang: bool
    partitioning: Partitioning | None
    receipts_by: Partitioning | None  # the partitions that documents are counted by; None: there are none
    num_source_parts: int  # of the shuffle
    result_key: str
    # What is decided once all parts of the shuffle are measured.
    num_parts: int = 0
    num_segments: int = 0
    copies: Mapping[str, Copies] = dataclasses.field(default_factory=dict)  # of languages, or of sources
    before: MixedBefore | None = None  # what may be taken over

    def find_copies(self, group: Group) -> Copies:
        """How often the training documents of a group come. Raises FormatError for an unknown one."""
        name = name_mixed(self.config, *group)
        if name not in self.copies:
            raise FormatError(f"mixed/manifest.json: does not say how often documents of {name!r} come")
        return self.copies[name]


def name_mixed(config: MixtureConfig, lang: str, source: str, partition: str) -> str:
    """The one of the three that documents are mixed by, or what they are at each level."""
    if config.levels is not None:
        return config.levels.name_path(config.levels.find_path(lang, source, partition))
    return partition if config.partition_keys else source if config.over == "sources" else lang


def make_measured_key(part: int) -> str:
    """The record key of a measured part of the shuffle."""
    return f"measured-{part:05d}"


def make_mixed_key(part: int) -> str:
    """The record key of a part of the mixture."""
    return f"mixed-{part:05d}"


# ----------------------------------------------------------------------------------------------------------- first pass


@freeing_memory
def measure_part(job: MixJob, part: MixPart) -> PartMeasured:
    """Count the documents and tokens of each group in a part of the shuffle, and record them."""
    key = make_measured_key(part.number)
    if (done := job.attempts.result(key, PartMeasured)) is not None:
        return done
    measured = count_part(job, part.number)
    reach("mix.measured")
    return job.attempts.record(key, measured)


def count_part(job: MixJob, number: int) -> PartMeasured:
    """What measure_part records."""
    names = read_source_names(job.source.output, job.plan_sha256)
    totals: dict[Group, tuple[int, int]] = {}
    cells: dict[Group, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    validation = [0, 0]
    with contextlib.closing(OrderedShards(job.source, job.num_source_parts)) as shards:
        for split, batch, places in shards.read(number):
            lengths = np.diff(batch.offsets)
            if split == "validation":
                validation[0] += batch.num_documents
                validation[1] += int(lengths.sum())
                continue
            of_cells = find_cells(places)
            for group, where in _group_documents(job, batch, names):
                documents, tokens = totals.get(group, (0, 0))
                totals[group] = documents + len(where), tokens + int(lengths[where].sum())
                added = cells.setdefault(group, np.zeros(NUM_CELLS, np.int64))
                np.add.at(added, of_cells[where], lengths[where])
    measured = (
        Measured(lang, source, *of, tuple(cells[lang, source, partition].tolist()), partition=partition)
        for (lang, source, partition), of in sorted(totals.items())
    )
    return PartMeasured(number, validation[0], validation[1], tuple(measured))


@functools.lru_cache(maxsize=2)
def read_source_names(output: str, plan_sha256: str) -> Mapping[str, str]:
    """Uri -> name of its source, for files of sources with a name.

    plan_sha256: of the plan's manifest. Raises StageError if it is another one.
    """
    settings = read_manifest(output, PLAN, plan_sha256, "a mixture was made").config.settings
    if not any(one.name for one in settings):
        return {}
    files = read_pinned_files(output)
    return {file.uri: settings[file.settings].name for file in files if settings[file.settings].name}


def _group_documents(job: MixJob, batch: TokenBatch, names: Mapping[str, str]) -> list[tuple[Group, Positions]]:
    """The positions of the documents of each language, source and partition."""
    named = [names.get(uri, "") for uri in batch.sources.names]
    distinct = sorted(set(named))
    code_of = np.array([distinct.index(name) for name in named], np.int64)
    partitions = repeat_label("", batch.num_documents)
    if job.receipts_by is not None:
        partitions = label_partitions(job.receipts_by, batch.langs, batch.metadata)
    pairs = batch.langs.codes.astype(np.int64) * len(distinct) + code_of[batch.sources.codes]
    found, codes = np.unique(pairs * len(partitions.names) + partitions.codes, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(found) + 1)).tolist()
    groups = []
    for number, code in enumerate(found.tolist()):
        pair, partition = divmod(code, len(partitions.names))
        lang, source = divmod(pair, len(distinct))
        group = (batch.langs.names[lang], distinct[source], partitions.names[partition])
        groups.append((group, order[bounds[number] : bounds[number + 1]]))
    return groups


# ---------------------------------------------------------------------------------------------------------- second pass


class Mixed(NamedTuple):
    """Documents of a mixture, in its order."""

    tokens: TokenBatch
    places: Places
    is_validation: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def take(self, where: Positions) -> Mixed:
        """The documents at these positions, in that order."""
        return Mixed(self.tokens.take(where.tolist()), self.places[where], self.is_validation[where])

    def slice(self, start: int, end: int) -> Mixed:
        """Documents start to end, end excluded."""
        return Mixed(self.tokens.slice(start, end), self.places[start:end], self.is_validation[start:end])


@freeing_memory
def mix_part(job: MixJob, part: MixPart) -> PartMixed:
    """Write the shards of a part of the mixture."""
    key = make_mixed_key(part.number)
    if (done := job.attempts.result(key, PartMixed)) is not None:
        return done
    if (taken := _take_over_part(job, part)) is not None:
        return job.attempts.record(key, taken)
    tally = Tally()
    if job.partitioning is not None:
        allow_open_files()
    with contextlib.ExitStack() as stack:
        streams: dict[Stream, ShardSequence[_MixedShard, ShardRef]] = {}

        def begin(stream: Stream, number: int) -> _MixedShard:
            return _MixedShard(job, begin_facts(stream, part.number, number, job.result_key), stack)

        for some in iterate_part(job, part.number, tally):
            for stream, own in deal_documents(job, some):
                if stream not in streams:
                    streams[stream] = ShardSequence(job.config.target_tokens, functools.partial(begin, stream))
                streams[stream].write(own, own.tokens.offsets)
        shards = tuple(shard for stream in sorted(streams) for shard in streams[stream].close())
    reach("mix.part")
    return job.attempts.record(key, PartMixed(part.number, shards, tally.sum_up()))


class Tally:
    """What becomes of the training documents of each language, source and partition."""

    def __init__(self) -> None:
        self._sums: dict[Group, list[int]] = {}

    def add(self, group: Group, copy: int, taken: int, tokens: int, passed_over: int) -> None:
        """Count documents that are taken for a copy, their tokens, and those that are not."""
        own = self._sums.setdefault(group, [0, 0, 0, 0])
        own[0] += taken
        own[1] += tokens
        if copy == 0:
            own[2] += passed_over
        else:
            own[3] += taken

    def sum_up(self) -> tuple[MixedSums, ...]:
        """The sums, in the order of languages, sources and partitions."""
        return tuple(
            MixedSums(lang, source, documents, tokens, left_out, repeated, partition)
            for (lang, source, partition), (documents, tokens, left_out, repeated) in sorted(self._sums.items())
        )


def iterate_part(job: MixJob, number: int, tally: Tally) -> Iterator[Mixed]:
    """The documents of a part of the mixture in order, some at a time; the tally is complete at the end."""
    names = read_source_names(job.source.output, job.plan_sha256)
    num_segments = job.num_segments
    with contextlib.closing(OrderedShards(job.source, job.num_source_parts)) as shards:
        for segment, copies_of in _list_segments(job, number):
            found: list[Mixed] = []
            for source, copies in copies_of.items():
                for split, batch, places in shards.read(source, num_segments, reader=source ^ segment):
                    for copy, where in _choose_documents(job, split, batch, places, copies, names, tally):
                        moved = place_copies(places[where], copy, segment, num_segments)
                        is_validation = np.full(len(where), split == "validation")
                        own = batch if len(where) == batch.num_documents else batch.take(where.tolist())
                        found.append(Mixed(own, moved, is_validation))
            if not found:
                continue
            ordered = _put_in_order(found)
            del found
            # A few at a time, because writers copy what they get.
            for first in range(0, len(ordered.places), _WRITTEN_DOCUMENTS):
                yield ordered.slice(first, min(first + _WRITTEN_DOCUMENTS, len(ordered.places)))


def _list_segments(job: MixJob, number: int) -> Iterator[tuple[int, dict[int, list[int]]]]:
    """(segment of a part of the mixture, segment of the shuffle that it is made of -> numbers of copies)."""
    num_segments, per_part = job.num_segments, job.num_segments // job.num_parts
    most = max([1, *(one.most for one in job.copies.values())])
    for segment in range(number * per_part, (number + 1) * per_part):
        copies_of: dict[int, list[int]] = {}
        for copy in range(most):
            copies_of.setdefault(segment ^ reverse_copy(copy, num_segments), []).append(copy)
        yield segment, copies_of


def _choose_documents(
    job: MixJob,
    split: str,
    batch: TokenBatch,
    places: Places,
    copies: Sequence[int],
    names: Mapping[str, str],
    tally: Tally,
) -> Iterator[tuple[int, Positions]]:
    """(copy, positions of the documents that are taken for it), for each of the copies that has any."""
    if split == "validation":
        if 0 in copies:
            yield 0, np.arange(batch.num_documents)
        return
    groups, lengths, tails = _group_documents(job, batch, names), np.diff(batch.offsets), get_tails(places)
    for copy in copies:
        is_taken = np.zeros(batch.num_documents, bool)
        for group, where in groups:
            whole, cut = job.find_copies(group)
            if copy < whole:
                is_taken[where] = True
            elif copy == whole and cut:
                is_taken[where] = tails[where] < np.uint64(cut)
            own = where[is_taken[where]]
            tally.add(group, copy, len(own), int(lengths[own].sum()), len(where) - len(own))
        if is_taken.any():
            yield copy, np.flatnonzero(is_taken)


def _put_in_order(parts: Sequence[Mixed]) -> Mixed:
    joined = Mixed(
        join_batches([part.tokens for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.is_validation for part in parts]),
    )
    return joined.take(find_order(joined.tokens, joined.places))


def deal_documents(job: MixJob, some: Mixed) -> Iterator[tuple[Stream, Mixed]]:
    """The documents of each language or partition, if shards are kept apart by these, and split."""
    folders = some.tokens.langs if job.by_lang else repeat_label("", len(some.places))
    if job.partitioning is not None:
        folders = label_partitions(job.partitioning, some.tokens.langs, some.tokens.metadata)
    for folder, where in folders.by_label().items():
        for split, wanted in (("train", False), ("validation", True)):
            own = where[some.is_validation[where] == wanted]
            if len(own):
                yield (folder, split), some if len(own) == len(some.places) else some.take(own)


# ----------------------------------------------------------------------------------------------------------- taken over


def _take_over_part(job: MixJob, part: MixPart) -> PartMixed | None:
    """A part out of the mixture before, if that has the same documents there; else None.

    Raises StageError if its shards are damaged.
    """
    before = job.before
    if before is None or (before.num_parts, before.num_segments) != (job.num_parts, job.num_segments):
        return None
    as_before = dataclasses.replace(job, copies=before.copies)
    own, theirs = ([*_list_segments(one, part.number)] for one in (job, as_before))
    read = {source for segments in (own, theirs) for _, copies_of in segments for source in copies_of}
    if not {source * job.num_source_parts // job.num_segments for source in read} <= _find_equal_parts(job):
        return None
    names, tally = read_source_names(job.source.output, job.plan_sha256), Tally()
    with contextlib.closing(OrderedShards(job.source, job.num_source_parts)) as ordered:
        for (segment, copies_of), (_, had) in zip(own, theirs, strict=True):
            for source in {**copies_of, **had}:
                for split, batch, places in ordered.read(source, job.num_segments, reader=source ^ segment):
                    told = (split, batch, places)
                    chosen = [*_choose_documents(job, *told, copies_of.get(source, ()), names, tally)]
                    if job.copies == before.copies:
                        continue
                    others = [*_choose_documents(as_before, *told, had.get(source, ()), names, Tally())]
                    if [(copy, where.tolist()) for copy, where in chosen] != [(c, w.tolist()) for c, w in others]:
                        return None
    taken = []
    for shard in list_shards_by_item(before.mixed).get(part.number, []):
        for _ in read_shard(before.mixed.output, shard, before.mixed.stage):
            pass
        require_file(before.mixed, shard, get_provenance_path(shard.facts.stem))
        with copy_shard_if_remote(before.mixed.output, shard, before.mixed.stage) as folder:
            told_of = (job.attempts, before.mixed.output, folder, part.number, shard, shard.facts.shard)
            taken.append(take_over_files(*told_of, job.result_key, before.mixed.stage))
        reach("inherit.shard")
    job.attempts.sync()
    return PartMixed(part.number, tuple(taken), tally.sum_up())


def _find_equal_parts(job: MixJob) -> frozenset[int]:
    """The parts of the shuffle that have the shards that they had."""
    assert job.before is not None
    if job.before.num_source_parts != job.num_source_parts:
        return frozenset()
    return _compare_parts(job.source, job.before.source, job.num_source_parts)


@functools.lru_cache(maxsize=1)
def _compare_parts(source: ShardSource, before: ShardSource, num_parts: int) -> frozenset[int]:
    described = (
        {number: [_describe_shard(shard) for shard in shards] for number, shards in list_shards_by_item(one).items()}
        for one in (source, before)
    )
    own, theirs = described
    return frozenset(number for number in range(num_parts) if own.get(number) == theirs.get(number))


def _describe_shard(shard: ShardRef) -> tuple[str, str, str]:
    """Which documents a shuffled shard has, and where each came from."""
    path = get_provenance_path(shard.facts.stem)
    [provenance] = [file.content_sha256 for file in shard.files if file.path == path]
    return shard.facts.place, shard.content_sha256, provenance


class _MixedShard:
    """One shard of a mixture, and its provenance file."""

    def __init__(self, job: MixJob, empty: ShardFacts, stack: contextlib.ExitStack) -> None:
        self._shard = NewShard(job, empty, stack, name_provenance(job, empty))

    @property
    def num_tokens(self) -> int:
        return self._shard.num_tokens

    def write(self, some: Mixed) -> None:
        self._shard.beside.write(some.tokens, some.places)
        self._shard.write(hide_provenance(some.tokens, self._shard.num_documents))

    def close(self) -> ShardRef:
        shard = self._shard.close()
        reach("mix.shard")
        return shard
