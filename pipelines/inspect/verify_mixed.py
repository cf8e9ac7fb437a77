"""What verification asks of a mixture: it is made again out of the shards, and compared with what is there.

Shards are verified before. So a mixture that is equal to the one that follows from them is right: what is taken, what
comes again, and in which order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.inspect.stored_shards import (
    has_content,
    hash_documents,
    naming_stored_files,
    open_documents,
    open_formats,
    open_provenance,
)
from pipelines.inspect.verify_derived import check_folder_indexes, check_shard_entries
from pipelines.stages.mix_corpus import Decision, add_up_sums, decide, find_unmixed, read_decision, sum_up_mixture
from pipelines.store.main_files import copy_shard_if_remote
from pipelines.work.derived_shards import find_end, update_content
from pipelines.work.encode_job import Stream
from pipelines.work.mix_part import Mixed, MixJob, Tally, deal_documents, iterate_part
from schemas.refs import MixedSums, PartMeasured, ShardRef
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import MixtureManifest, ShardsManifest
from tokcore.errors import TokError
from tokcore.formats.provenance import Provenance, get_provenance_path, hide_provenance
from tokcore.jsonable import to_jsonable
from tokcore.token_batch import ShardContent

_FOLDER = "mixed"
_MANIFEST = "mixed/manifest.json"


@dataclasses.dataclass(slots=True)
class FoundPart:
    """What a part of a mixture holds, and what is wrong with it."""

    problems: list[str] = dataclasses.field(default_factory=list)
    sums: tuple[MixedSums, ...] = ()
    num_documents: int = 0


def check_mixed_manifest(made: MixtureManifest | None, shards: ShardsManifest, vocab_size: int) -> Iterator[str]:
    """That the manifest has the shards, sums and indexes that its configuration and the build's shards give it."""
    if made is None:
        return
    written, totals = list_named_shards(made), made.totals
    yield from check_shard_entries(made, written)
    for shard in written:
        facts = shard.facts
        if not 0 <= facts.item < totals.parts or facts.split not in ("train", "validation"):
            yield f"{_MANIFEST}: {facts.shard}: of part {facts.item} of {totals.parts}, split {facts.split!r}"
        if (shards.config.by == "lang") != bool(facts.lang):
            yield f"{_MANIFEST}: {facts.shard}: is of language {facts.lang!r}, shards are by {shards.config.by}"
    held = (len(written), *(sum(getattr(one.facts, name) for one in written) for name in ("documents", "tokens")))
    if held != (totals.shards, totals.documents, totals.tokens):
        yield f"{_MANIFEST}: its totals are not those of its shards"
    if wrong := find_unmixed(totals, made.languages, shards):
        yield f"{_MANIFEST}: {wrong}"
    if totals.fingerprint != shards.totals.fingerprint:
        yield f"{_MANIFEST}: names another tokenizer than the shards"
    yield from check_folder_indexes(made, written, vocab_size)


def check_decision(
    made: MixtureManifest, shards: ShardsManifest, measured: Sequence[PartMeasured]
) -> tuple[Decision, list[str]]:
    """What follows from the shards, and where the manifest says something else. measured: all parts of the shuffle."""
    decided, said = decide(made.config, shards, measured), read_decision(made)
    problems = [
        f"{_MANIFEST}: {name} {getattr(said, name)!r:.200}, from the shards follows {getattr(decided, name)!r:.200}"
        for name in Decision._fields
        if getattr(said, name) != getattr(decided, name)
    ]
    return decided, problems


def check_receipts(
    made: MixtureManifest, decided: Decision, measured: Sequence[PartMeasured], parts: Sequence[FoundPart]
) -> Iterator[str]:
    """That totals and receipts are those of the documents. parts: all of them, checked."""
    sums = add_up_sums(part.sums for part in parts)
    totals, languages = sum_up_mixture(
        made.config, decided, measured, sums, list_named_shards(made), made.totals.fingerprint
    )
    for name, said, held in (("totals", made.totals, totals), ("languages", made.languages, languages)):
        if said != held:
            yield f"{_MANIFEST}: its {name} are {to_jsonable(said)!r:.300}, expected {to_jsonable(held)!r:.300}"


def check_mixed_part(output: str, job: MixJob, number: int, shards: Sequence[ShardRef]) -> FoundPart:
    """Make a part again and compare its documents with every file. shards: of the part, in order."""
    found, tally = FoundPart(), Tally()
    waiting: dict[Stream, list[ShardRef]] = {}
    for shard in shards:
        waiting.setdefault((shard.facts.lang, shard.facts.split), []).append(shard)
    open_shards: dict[Stream, _Compared] = {}
    try:
        for some in iterate_part(job, number, tally):
            found.num_documents += len(some.places)
            for stream, own in deal_documents(job, some):
                if found.problems:
                    break
                _compare(output, job, stream, own, waiting, open_shards, found)
        for one in open_shards.values():
            one.close(found)
        if not found.problems:
            for shard in (shard for own in waiting.values() for shard in own):
                found.problems.append(f"{_FOLDER}/{shard.facts.place}: has documents that follow from no shard")
    except TokError as error:
        found.problems.append(f"{_FOLDER}: part {number}: {error}")
    finally:
        for one in open_shards.values():
            one.release()
    found.sums = tally.sum_up()
    return found


def _compare(
    output: str,
    job: MixJob,
    stream: Stream,
    some: Mixed,
    waiting: dict[Stream, list[ShardRef]],
    open_shards: dict[Stream, _Compared],
    found: FoundPart,
) -> None:
    """Compare the next documents of a stream with its shards, each of which ends as it would when it is written."""
    start, num = 0, len(some.places)
    while start < num and not found.problems:
        if stream not in open_shards:
            if not waiting.get(stream):
                found.problems.append(f"{_FOLDER}: documents of {stream} are in no shard")
                return
            open_shards[stream] = _Compared(output, waiting[stream].pop(0))
        shard = open_shards[stream]
        end = find_end(some.tokens.offsets, start, job.target_tokens - shard.content.num_tokens)
        shard.compare(some.slice(start, end), found)
        if shard.content.num_tokens >= job.target_tokens:
            open_shards.pop(stream).close(found)
        start = end


class _Compared:
    """A stored shard that is compared with the documents that follow, a few at a time."""

    def __init__(self, output: str, shard: ShardRef) -> None:
        self.content = ShardContent()
        self._shard = shard
        self._copies = copy_shard_if_remote(output, shard, _FOLDER)
        self._folder = self._copies.__enter__()
        with naming_stored_files(self._folder, _FOLDER):
            self._opened = open_formats(self._folder, shard)
            self._documents = open_documents(self._folder, shard)
            self._provenance = open_provenance(self._folder, shard)

    def compare(self, some: Mixed, found: FoundPart) -> None:
        with naming_stored_files(self._folder, _FOLDER):
            self._compare(some, found)

    def _compare(self, some: Mixed, found: FoundPart) -> None:
        first = self.content.num_documents
        last = first + len(some.places)
        tokens = hide_provenance(some.tokens, first)
        place = f"{_FOLDER}/{self._shard.facts.place}"
        if not _has_provenance(self._provenance, some, first, last):
            found.problems.append(f"{place}: its provenance file is not that of the documents from {first} on")
        for one in self._opened:
            told, lengths = one.reader.span(first, last)
            if not (np.array_equal(lengths, np.diff(tokens.offsets)) and np.array_equal(told, tokens.tokens)):
                found.problems.append(f"{_FOLDER}/{one.path}: from document {first} on, not the documents that follow")
        if self._documents is not None and not np.array_equal(
            self._documents.lengths[first:last], np.diff(tokens.offsets)
        ):
            found.problems.append(f"{place}: its documents file has other lengths from document {first} on")
        update_content(self.content, tokens)

    def close(self, found: FoundPart) -> None:
        """Compare what is known once all documents were there."""
        if not found.problems:
            with naming_stored_files(self._folder, _FOLDER):
                self._compare_whole(found)
        self.release()

    def _compare_whole(self, found: FoundPart) -> None:
        content, shard = self.content, self._shard
        place = f"{_FOLDER}/{shard.facts.place}"
        if not has_content(shard, content):
            found.problems.append(f"{place}: its content is not what the manifest says")
        for one in self._opened:
            if len(one.reader) != content.num_documents:
                found.problems.append(
                    f"{_FOLDER}/{one.path}: {len(one.reader)} documents, expected {content.num_documents}"
                )
            elif hash_documents(one) != content.hexdigest():
                found.problems.append(f"{_FOLDER}/{one.path}: its documents are described otherwise than they are")
        path = get_provenance_path(shard.facts.stem)
        said = next((file.content_sha256 for file in shard.files if file.path == path), "")
        if len(self._provenance) != content.num_documents or self._provenance.hash_content() != said:
            found.problems.append(f"{_FOLDER}/{path}: its content is not what the manifest says")

    def release(self) -> None:
        """Remove copies of the shard, if there are any."""
        self._copies.__exit__(None, None, None)


def _has_provenance(provenance: Provenance, some: Mixed, first: int, last: int) -> bool:
    return (
        len(provenance) >= last
        and provenance.sources[first:last] == some.tokens.sources
        and np.array_equal(provenance.ordinals[first:last], some.tokens.ordinals)
        and np.array_equal(provenance.places[first:last], some.places)
    )
