"""What workers of deduplication do: digests of a work item, the duplicates of a bucket, the list of a work item.

In the first pass each work item is read, and leaves a digest of each document in sorted runs, one for each bucket of
digests. Of equal ones in a run only the best is left: so a text that all documents share takes as many rows as there
are runs. In the second pass, the rows of a bucket from all work items are sorted, and all but the first of each digest
are duplicates. In the third, each work item gets the list of its own. No Beam.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.text.normalize import Normalizer
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import open_tombstones
from tokcore_pipelines.work.candidates import (
    DIGEST_BYTES,
    Candidates,
    Rows,
    find_staying,
    join_candidates,
    make_row_type,
    read_places,
    read_rows,
    sort_candidates,
    write_places,
    write_rows,
)
from tokcore_pipelines.work.choose_splits import choose_splits
from tokcore_pipelines.work.drop_lists import write_drops
from tokcore_pipelines.work.item_reader import ItemReader, keep_removed, mark_alone, mark_removed
from tokcore_pipelines.work.pieces import cut_pieces, spell_piece
from tokcore_schemas.plan import AssignedRange, Assignment
from tokcore_schemas.prefer import PIECES, TEXT, Preference, parse_preferences
from tokcore_schemas.refs import (
    DropPiece,
    ItemDigested,
    ItemDropped,
    ItemRun,
    JudgePart,
    PartJudged,
    RunRef,
)
from tokcore_schemas.shuffle import SPAN
from tokcore_schemas.stage_manifests import DedupConfig

# What waits in memory: about 80 MB of rows.
SPILL_DOCUMENTS = 1 << 20
_REMOVED, _ORDINARY, _BURIED = range(3)  # the first rank
_LAST = np.iinfo(np.uint64).max  # rank of a document that has no number


@dataclasses.dataclass(frozen=True, slots=True)
class DedupJob:
    """What every worker of deduplication needs to know."""

    attempts: Attempts
    config: DedupConfig
    base: str  # folder against which relative uris are resolved
    num_buckets: int
    result_key: str  # in the names of files
    max_languages: int = 0  # of a work item; 0: no limit

    @property
    def num_ranks(self) -> int:
        """Of each candidate: whether it, or its digest, was removed, then what is preferred."""
        return 1 + len(self.config.prefer)


def make_digested_key(item: int) -> str:
    """The record key of a work item of the first pass."""
    return f"digested-{item:05d}"


def make_judged_key(bucket: int) -> str:
    """The record key of a bucket."""
    return f"judged-{bucket:05d}"


def make_dropped_key(item: int) -> str:
    """The record key of a work item of the last pass."""
    return f"dropped-{item:05d}"


def name_drops(item: int, result_key: str) -> str:
    """The name of the file of the duplicates of a work item."""
    return f"item-{item:05d}-{result_key}.jsonl"


@freeing_memory
def digest_item(job: DedupJob, assignment: Assignment) -> ItemDigested:
    """The candidates of a work item, in an attempt file.

    Raises StageError for an input that cannot be read or has changed since it was planned.
    """
    key = make_digested_key(assignment.number)
    if (done := job.attempts.result(key, ItemDigested)) is not None:
        report_progress("read", assignment.size_bytes)
        return done
    preferences = parse_preferences(job.config.prefer)
    runs: list[RunRef] = []
    dropped: list[Rows] = []
    waiting: list[Candidates] = []
    num_documents = num_waiting = 0
    with job.attempts.new_file(f"{key}.digests") as new:

        def spill() -> None:
            joined = join_candidates(waiting, job.num_ranks)
            waiting.clear()
            rows = sort_candidates(joined.rows)
            stays = find_staying(rows) & (rows["prefer"][:, 0] != _BURIED)
            dropped.append(rows[~stays])
            rows = rows[stays]
            buckets = (rows["head"] // np.uint64(SPAN // job.num_buckets)) if job.num_buckets > 1 else rows["head"] * 0
            bounds = np.searchsorted(buckets, np.arange(job.num_buckets + 1, dtype=np.uint64)).tolist()
            for bucket in np.unique(buckets).tolist():
                own = Candidates(rows[bounds[bucket] : bounds[bucket + 1]], joined.langs)
                runs.append(write_rows(new.file, new.attempt, bucket, own))

        number_of = {(r.file, r.start): number for number, r in enumerate(assignment.ranges)}
        for r, batch in ItemReader(_with_removed(assignment), job.base, max_languages=job.max_languages):
            place = assignment.number, number_of[r.file, r.start]
            said = assignment.ranges[place[1]].settings.removed
            removed = open_tombstones(said, job.attempts.output) if said is not None else None
            found = make_candidates(job.config, preferences, r, batch, place, removed)
            waiting.append(found)
            num_waiting += len(found.rows)
            num_documents += len(found.rows)
            if num_waiting >= SPILL_DOCUMENTS:
                spill()
                num_waiting = 0
        if num_waiting:
            spill()
        places = write_places(new.file, new.attempt, np.concatenate([make_rows(0, preferences), *dropped]))
    reach("dedup.digested")
    return job.attempts.record(key, ItemDigested(assignment.number, num_documents, tuple(runs), places))


@freeing_memory
def judge_part(job: DedupJob, part: JudgePart) -> PartJudged:
    """The duplicates among the candidates of a bucket, by work item.

    Raises LedgerError if a run is not as the first pass wrote it.
    """
    key = make_judged_key(part.number)
    if (done := job.attempts.result(key, PartJudged)) is not None:
        return done
    runs = [read_rows(job.attempts, one.run, job.num_ranks) for one in part.runs]
    joined = join_candidates(runs, job.num_ranks)
    rows = sort_candidates(joined.rows)
    rows = rows[~find_staying(rows)]
    rows = rows[np.argsort(rows["item"], kind="stable")]
    dropped = []
    with job.attempts.new_file(f"{key}.places", skip_empty=True) as new:
        for item in np.unique(rows["item"]).tolist():
            low, high = np.searchsorted(rows["item"], [item, item + 1])
            dropped.append(ItemRun(item, write_places(new.file, new.attempt, rows[low:high])))
    reach("dedup.judged")
    return job.attempts.record(key, PartJudged(part.number, tuple(dropped)))


def list_drops(job: DedupJob, piece: DropPiece) -> ItemDropped:
    """Write the file of the duplicates of a work item. Raises LedgerError if a run is not as it was written."""
    key = make_dropped_key(piece.number)
    if (done := job.attempts.result(key, ItemDropped)) is not None:
        return done
    places = read_places(job.attempts, piece.runs)
    path = name_drops(piece.number, job.result_key)
    with job.attempts.new_final(path) as new:
        wanted = places[:, 1:] if job.config.by in PIECES else places[:, 1]
        new.file.write(write_drops(piece.places, places[:, 0], wanted))
    reach("dedup.listed")
    return job.attempts.record(key, ItemDropped(piece.number, new.stored(path), len(places)))


def make_rows(num: int, preferences: Sequence[Preference]) -> Rows:
    """Rows that are zero."""
    return np.zeros(num, make_row_type(1 + len(preferences)))


def _with_removed(assignment: Assignment) -> Assignment:
    """The work item with the documents that were removed from the output, whose duplicates stay away with them."""
    ranges = (dataclasses.replace(r, settings=dataclasses.replace(r.settings, removed=None)) for r in assignment.ranges)
    return dataclasses.replace(assignment, ranges=tuple(ranges))


def make_candidates(
    config: DedupConfig,
    preferences: Sequence[Preference],
    r: AssignedRange,
    batch: Batch,
    place: tuple[int, int],
    removed: TombstoneLookup | None = None,
) -> Candidates:
    """The candidates of a batch: a document without the field that is compared is none. place: item and range.

    removed: documents that come first, whatever is preferred, so that no duplicate of theirs takes their place; but
    those that were removed alone are no candidates. Digests that are among these are buried: all of them go.
    """
    which, pieces, digests = _digest_batch(config, r, batch)
    goes = np.zeros(batch.texts.num_texts, bool)
    if removed is not None:
        goes = mark_removed(batch.ids, batch.langs, removed)
        if (alone := mark_alone(batch.ids, batch.langs, removed)).any():
            stays = ~alone[which]
            digests = np.frombuffer(digests, f"V{DIGEST_BYTES}")[stays].tobytes()
            which, pieces = which[stays], pieces[stays]
    rows = make_rows(len(which), preferences)
    rows["head"], rows["tail"] = _split_numbers(digests)
    rows["prefer"][:, 0] = np.where(goes[which], _REMOVED, _ORDINARY)
    if removed is not None and config.by not in PIECES:
        buried = [spell_digest(removed, one) in removed for one in _cut_digests(digests)]
        rows["prefer"][np.array(buried, bool) & ~goes[which], 0] = _BURIED
    for number, preference in enumerate(preferences, 1):
        rows["prefer"][:, number] = _RANKS[preference.kind](preference, config, r, batch)[which]
    langs = sorted({batch.langs.names[code] for code in np.unique(batch.langs.codes).tolist()})
    number_of = np.array([langs.index(name) if name in langs else 0 for name in batch.langs.names], np.uint32)
    rows["lang"] = number_of[batch.langs.codes][which] if len(which) else 0
    # Without ids, keys of equal texts are equal, and to hash all text again is half of the work.
    if batch.ids is not None or config.by != TEXT or config.normalize:
        asked, which_of = np.unique(which, return_inverse=True)
        heads, tails = _split_numbers(b"".join(batch.compute_key(i)[:DIGEST_BYTES] for i in asked.tolist()))
        rows["key_head"], rows["key_tail"] = heads[which_of], tails[which_of]
    rows["item"], rows["range"] = place
    rows["ordinal"], rows["piece"] = batch.ordinals[which], pieces
    return Candidates(rows, tuple(langs))


Positions = npt.NDArray[np.int64]


def _digest_batch(config: DedupConfig, r: AssignedRange, batch: Batch) -> tuple[Positions, Positions, bytes]:
    """(the document of each digest, the number of the piece in it, or 0, the digests back to back)."""
    if config.by in PIECES:
        return _digest_pieces(config.by, r.settings.order, batch)
    which, digests = _digest_documents(config, batch)
    return which, np.zeros(len(which), np.int64), digests


def _digest_pieces(by: str, source: int, batch: Batch) -> tuple[Positions, Positions, bytes]:
    """Pieces are duplicates within a source alone. source: its number."""
    which: list[int] = []
    pieces: list[int] = []
    digests: list[bytes] = []
    of_source = hashlib.sha256(f"{source} ".encode())
    for i in range(batch.texts.num_texts):
        for number, piece in enumerate(cut_pieces(batch.texts.text(i), by)):
            if spelled := spell_piece(piece):
                hasher = of_source.copy()
                hasher.update(spelled)
                which.append(i)
                pieces.append(number)
                digests.append(hasher.digest()[:DIGEST_BYTES])
    return np.array(which, np.int64), np.array(pieces, np.int64), b"".join(digests)


def _digest_documents(config: DedupConfig, batch: Batch) -> tuple[Positions, bytes]:
    """(the documents that have one, their digests back to back)."""
    if config.by != TEXT:
        values = batch.fields[config.by]
        which = np.array([i for i, value in enumerate(values) if value is not None], np.int64)
        return which, b"".join(_digest(_spell(values[i])) for i in which.tolist())
    texts = Normalizer(config.normalize).apply(batch.texts)
    data, offsets = memoryview(texts.data), texts.offsets.tolist()  # type: ignore[arg-type]
    digests = [_digest(data[start:end]) for start, end in itertools.pairwise(offsets)]
    return np.arange(texts.num_texts), b"".join(digests)


def _cut_digests(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def spell_digest(removed: TombstoneLookup, digest: bytes) -> str:
    """The tombstone of the digest of a document."""
    return removed.spell("digest", digest.hex())


class NamedDocuments(NamedTuple):
    """Documents of a work item that are to be removed."""

    found: frozenset[str]  # tombstones that some have
    equal: frozenset[tuple[str, str]]  # (tombstone of the kind equal of an id, that of the digest of its document)


@freeing_memory
def find_named(config: DedupConfig, base: str, assignment: Assignment, wanted: TombstoneLookup) -> NamedDocuments:
    """The documents that have one of these tombstones, duplicates, which are in no shard, among them.

    Lines and paragraphs, and documents without the field that is compared, have no digest. Raises StageError for an
    input that cannot be read or has changed.
    """
    found: set[str] = set()
    equal: set[tuple[str, str]] = set()
    for _, batch in ItemReader(_with_removed(assignment), base):
        named = keep_removed(batch, wanted)
        found |= {one for lang in named.langs.by_label() if (one := wanted.spell("lang", lang)) in wanted}
        tombstones = [wanted.spell("id", one) if one is not None else "" for one in named.ids or ()]
        found |= {one for one in tombstones if one in wanted}
        if config.by in PIECES or named.ids is None:
            continue
        which, digests = _digest_documents(config, named)
        for i, digest in zip(which.tolist(), _cut_digests(digests), strict=True):
            if tombstones[i] in wanted:
                equal.add((wanted.spell("equal", named.ids[i] or ""), spell_digest(wanted, digest)))
    return NamedDocuments(frozenset(found), frozenset(equal))


def find_equal(config: DedupConfig, base: str, assignment: Assignment, digests: TombstoneLookup) -> frozenset[str]:
    """Tombstones of the ids of documents that have one of these digests. digests: tombstones of digests."""
    found: set[str] = set()
    for _, batch in ItemReader(assignment, base):
        if batch.ids is not None:
            which, own = _digest_documents(config, batch)
            for i, digest in zip(which.tolist(), _cut_digests(own), strict=True):
                if batch.ids[i] is not None and spell_digest(digests, digest) in digests:
                    found.add(digests.spell("id", batch.ids[i]))
    return frozenset(found)


def _spell(value: Any) -> bytes:
    """Whole numbers are equal however they are written."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).encode()


def _digest(data: Any) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _split_numbers(digests: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    return halves[:, 0], halves[:, 1]


Ranks = npt.NDArray[np.uint64]


def _rank_by_split(preference: Preference, config: DedupConfig, r: AssignedRange, batch: Batch) -> Ranks:
    splits = choose_splits(config, batch, slice(0, batch.texts.num_texts), r.settings.validation)
    return np.array([split != preference.name for split in splits], np.uint64)


def _rank_by_source(_preference: Preference, _config: DedupConfig, r: AssignedRange, batch: Batch) -> Ranks:
    return np.full(batch.texts.num_texts, r.settings.order, np.uint64)


def _rank_by_field(preference: Preference, _config: DedupConfig, _range: AssignedRange, batch: Batch) -> Ranks:
    """Numbers as floats, in their order; a document without one comes last."""
    values = batch.fields[preference.name]
    floats = np.array([0.0 if value is None else float(value) for value in values], np.float64) + 0.0
    floats = -floats + 0.0 if preference.descends else floats
    bits = floats.view(np.uint64)
    # So that their order as whole numbers is that of the floats.
    ranks = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))
    return np.where([value is None for value in values], _LAST, ranks)


_RANKS: dict[str, Callable[[Preference, DedupConfig, AssignedRange, Batch], Ranks]] = {
    "split": _rank_by_split,
    "source_order": _rank_by_source,
    "field": _rank_by_field,
}
