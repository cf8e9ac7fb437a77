"""What verification reads, in pieces that any executor does, and the sums of it: hashes, shards, tables, sources.

Each depth is asked of the parts of an output in which those before it found nothing. No Beam.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tokcore.count.token_counts import hash_content, make_table
from tokcore.errors import FormatError, TokError
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.build.count_corpus import name_tables
from tokcore_pipelines.build.recount_shards import HeldShards
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS, read_token_counts
from tokcore_pipelines.check.recount import compare_manifests, recount, recount_as_said, require_whole
from tokcore_pipelines.check.verification import PiecesOf, Verification
from tokcore_pipelines.check.verify_log import find_files_brought_back
from tokcore_pipelines.check.verify_order import Origins
from tokcore_pipelines.check.verify_pieces import (
    Part,
    list_files_to_hash,
    list_items_to_decode,
    list_pieces_to_make,
    list_pieces_to_measure,
    list_shards_to_read,
    list_tables_to_read,
)
from tokcore_pipelines.check.verify_shards import MOST_NAMED
from tokcore_pipelines.check.verify_tasks import (
    add_up_ids,
    decode_documents,
    hash_files,
    make_piece_again,
    measure_piece,
    read_made,
    read_shards,
    read_table,
)
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.token_count_runs import add_up_id_runs
from tokcore_schemas.refs import HashedDocuments, LanguageCounts, RunRef, ShardRef, TableRef
from tokcore_schemas.shard_entries import Afresh, iterate_item_shards
from tokcore_schemas.stage_table import COUNTS, REJECTED, SHARDS, WHOLE
from tokcore_schemas.verified import FilesHashed, IdsToAddUp, ItemsDecoded, PieceMade, ShardsRead, TableRead

_MOST_RUNS = 64  # of counts of token ids, that one process adds up


def hash_all(run: Verification, parts: Sequence[Part]) -> None:
    """Compare the bytes of all files with what was committed."""
    of = {part.path: part for part in parts}
    for piece, hashed in run.do("hash", hash_files, _of(parts, list_files_to_hash), FilesHashed):
        of[piece.part].problems.extend(hashed.problems)


def check_content(run: Verification, parts: Sequence[Part], quick: bool, decode: int | None) -> None:
    """That manifests, tables, shards and sources agree."""
    with run.progress.stage("compare", minor=True):
        for part in parts:
            with _telling(part):
                _compare(part, quick)
    if quick:
        return
    _read_all(run, _sound(parts))
    for name, work in WORK.items():
        if isinstance(work, DerivedWork) and (own := [part for part in _sound(parts) if name in part.stored.stages]):
            _make_all_again(run, name, work, own)
    if decode != 0:
        of = {part.path: part for part in _sound(parts)}
        pieces = _of([*of.values()], lambda part: list_items_to_decode(part, decode, run.num_at_once))
        for piece, decoded in run.do("decode", decode_documents, pieces, ItemsDecoded):
            of[piece.part].num_decoded += decoded.documents
            of[piece.part].problems.extend(decoded.problems)


def _of(parts: Sequence[Part], list_pieces: Callable[[Part], Iterator[Any]]) -> PiecesOf:
    return PiecesOf(lambda: (piece for part in parts for piece in list_pieces(part)))


def _sound(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.is_sound]


@contextlib.contextmanager
def _telling(part: Part) -> Iterator[None]:
    """What cannot be read in the block is a problem of the part."""
    try:
        yield
    except FormatError as error:
        part.problems.append(str(error))


def _compare(part: Part, quick: bool) -> None:
    stored = part.stored
    if stored.find(WHOLE) is not None:
        require_whole(stored)
    else:
        stored.require_spec_inside()
    stored.get(SHARDS)
    part.problems.extend(recount_as_said(stored, quick))


# ------------------------------------------------------------------------------------------------------ shards, tables


@dataclasses.dataclass(slots=True)
class _Sums:
    """What the shards of a part hold."""

    origins: Origins
    differing: dict[str, ShardRef] = dataclasses.field(default_factory=dict)  # by the path of the first file
    documents_of: Counter[str] = dataclasses.field(default_factory=Counter)  # by source
    languages: dict[str, LanguageCounts] = dataclasses.field(default_factory=dict)
    hashed: DocumentsDigest = dataclasses.field(default_factory=DocumentsDigest)
    runs: list[RunRef] = dataclasses.field(default_factory=list)

    def add(self, read: ShardsRead, attempts: Attempts) -> None:
        """Take what one more piece holds."""
        self.differing.update((shard.files[0].path, shard) for shard in read.differing)
        self.documents_of.update(read.documents_of)
        self.languages = add_up_languages([self.languages, read.languages])
        self.hashed.add_up(read.hashed.digest, read.hashed.documents)
        if read.ids is not None:
            self.runs.append(read.ids)
        if read.records is not None:
            self.origins.add(storage.read_bytes(attempts.url(read.records.attempt)))

    def _replace(self, said: Iterable[ShardRef]) -> Iterator[ShardRef]:
        return (self.differing.get(one.files[0].path, one) for one in said)

    def hold(self, run: Verification, part: Part) -> HeldShards:
        """The sums. Those over all shards of a part that was sampled are as its manifest says."""
        said = HeldShards.said_by(part.stored.get(SHARDS))
        held = dataclasses.replace(said, shards=Afresh(lambda: self._replace(said.shards)))
        if part.drawn is not None:
            return held
        hashed = HashedDocuments(self.hashed.num_documents, self.hashed.hexdigest())
        runs = self.runs
        while len(runs) > _MOST_RUNS:
            groups = [tuple(runs[first : first + _MOST_RUNS]) for first in range(0, len(runs), _MOST_RUNS)]
            pieces = PiecesOf(functools.partial(map, IdsToAddUp, groups))
            runs = [added for _, added in run.do("add up", add_up_ids, pieces, RunRef)]
        ids = add_up_id_runs(run.job.attempts, runs)
        return dataclasses.replace(
            held, languages=self.languages, hashed=hashed, token_counts=hash_content(make_table(ids))
        )


def _read_all(run: Verification, parts: Sequence[Part]) -> None:
    """Read shards and count tables, and recount the manifests of them. What was not drawn is as its manifest says."""
    of, tables = {part.path: part for part in parts}, defaultdict[str, dict[str, TableRef]](dict)
    with contextlib.ExitStack() as stack:
        sums = {
            part.path: _Sums(stack.enter_context(Origins(part.stored.get(SHARDS).totals.records.documents)))
            for part in parts
        }
        for piece, read in run.do("read", read_shards, _of(parts, list_shards_to_read), ShardsRead):
            part = of[piece.part]
            part.problems.extend(read.problems)
            part.brought_back.extend(read.brought_back)
            sums[piece.part].add(read, run.job.attempts)
        for piece, table in run.do("tables", read_table, _of(parts, list_tables_to_read), TableRead):
            of[piece.part].problems.extend(table.problems)
            if table.table is not None:
                tables[piece.part][piece.table.file.path] = table.table
        for part in parts:
            part.num_read = sums[part.path].documents_of.total()
            if sums[part.path].origins.has_twice():
                part.problems.append("shards: a record is there twice, as the provenance files say")
    for part in parts:
        with _telling(part):
            _recount(run, part, sums[part.path], tables[part.path])
        found = [*find_files_brought_back(part.stored.url, part.removed)] if part.removed is not None else []
        part.brought_back = [*found, *part.brought_back[:MOST_NAMED]] if part.is_sound else []


def _recount(run: Verification, part: Part, sums: _Sums, tables: dict[str, TableRef]) -> None:
    if not part.is_sound:
        return
    held, is_whole, counts = sums.hold(run, part), part.drawn is None, part.stored.find(COUNTS)
    named = [tables.get(one.file.path, one) for one in name_tables(counts)] if counts is not None else []
    records = {SHARDS.name: held, COUNTS.name: named, REJECTED.name: sums.documents_of if is_whole else None}
    for name, made in part.stored.stages.items():
        if name in records:
            part.problems.extend(recount(part.stored, made, records[name]))
    if is_whole and part.is_sound and hash_content(read_token_counts(part.stored.url)) != held.token_counts:
        part.problems.append(f"{SHARDS.name}/{TOKEN_COUNTS}: its counts are not those of the shards")


# ---------------------------------------------------------------------------------------------------------- made again


def _make_all_again(run: Verification, name: str, work: DerivedWork, parts: Sequence[Part]) -> None:
    """Make all pieces of a stage again, out of the shards of others, and compare all of their files and their sums.

    The files are known to be those that were committed. A piece is removed again once it is compared.
    """
    of, nums, measured_nums = {}, {}, {}
    for part in parts:
        try:
            nums[part.path] = work.count(part.stored)
            measured_nums[part.path] = work.measured.count(part.stored) if work.measured and not part.drawn else 0
            of[part.path] = part
        except TokError as error:
            part.problems.append(f"{name}: {error}")
    own = [*of.values()]
    records, measured = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
    pieces = _of(own, lambda part: list_pieces_to_make(part, part.stored.stages[name], nums[part.path]))
    for piece, made in run.do(work.title, make_piece_again, pieces, PieceMade):
        of[piece.part].problems.extend(made.problems)
        records[piece.part] += [read_made(work.record, made)] if made.record else []
    if work.measured is not None:
        pieces = _of(own, lambda part: list_pieces_to_measure(part, part.stored.stages[name], measured_nums[part.path]))
        for piece, made in run.do(f"measure {work.title}", measure_piece, pieces, PieceMade):
            of[piece.part].problems.extend(made.problems)
            measured[piece.part] += [read_made(work.measured.record, made)] if made.record else []
    for part in own:
        made_of = part.stored.stages[name]
        for number, shards in iterate_item_shards(made_of):
            if number not in range(nums[part.path]):
                part.problems += (f"{name}/{one.facts.place}: its inputs give no such shard" for one in shards)
        if part.drawn is None and len(records[part.path]) == nums[part.path]:
            try:
                totals, languages = work.sum_up(part.stored, records[part.path], measured[part.path])
            except TokError as error:
                part.problems.append(f"{name}: {error}")
            else:
                held = dataclasses.replace(made_of, totals=totals, languages=languages)
                part.problems.extend(compare_manifests(made_of, held))
