"""The tasks of learning that several hosts share, where the rows of the count tables do not fit in memory. No Beam.

The pre-tokens are dealt by a hash, with their weighted counts, into parts. A round is one of tokcore.learn.rounds. Each
part gives bounds of the counts of its pairs, which are added up. Then it cuts its words at pairs below the floor, and
gives the pieces. From the pieces of all parts the next merges are learned. So the memory of a host bounds what hosts
exchange: 8 bytes for each bound, and about 40 for each piece. Any host may do any task, once or twice: a lost host's
words are read where they lie, and the merges so far are applied to them again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.count.keyed_runs import merge_keyed_rows
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import join_blocks
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.errors import LearnError, LedgerError, StageError
from tokcore.learn.rounds import MergesSoFar, RoundSizes, TooLittleRoomError, find_highest, show_rows
from tokcore_pipelines.local.cores import count_cores
from tokcore_pipelines.local.terminal import format_size
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.item_results import read_record
from tokcore_pipelines.work.key_ranges import HashedKeys
from tokcore_pipelines.work.merge_tree import gather_runs, reduce_to_few
from tokcore_pipelines.work.runs import read_section, read_sections, write_run_file, write_section
from tokcore_pipelines.work.stored_tables import read_table_file
from tokcore_schemas.refs import RunFile, RunRef

T = TypeVar("T")

_MAX_WINDOWS = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class RoundsJob:
    """What is learned, and in how much room."""

    attempts: Attempts
    num_groups: int  # of tables
    num_parts: int  # of pre-tokens; a power of two
    part_sizes: RoundSizes  # room of a part in a round
    whole_sizes: RoundSizes  # room of what is learned from
    dealt_rows: int  # that are held while tables are dealt
    threads: int  # of the one task that learns; 0: all that it may use
    num_merges: int
    min_count: int
    min_documents: int
    max_token_bytes: int
    ends_words: bool
    enough_bytes: int  # of memory: with so much, one host learns alone


@dataclasses.dataclass(frozen=True, slots=True)
class TableGroup:
    """Count tables that one task deals."""

    number: int
    tables: tuple[tuple[str, int], ...]  # (URL, weight)

    @property
    def key(self) -> str:
        """Of the record."""
        return f"dealt-{self.number:03d}"


@dataclasses.dataclass(frozen=True, slots=True)
class DealtTables:
    """The record of a group: its rows with weighted counts, a run for each part in each file."""

    files: tuple[RunFile, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PartOfWords:
    """A part of the pre-tokens."""

    number: int

    @property
    def key(self) -> str:
        """Of the record."""
        return f"words-{self.number:03d}"


@dataclasses.dataclass(frozen=True, slots=True)
class GatheredWords:
    """The record of a part: its pre-tokens, each once."""

    run: RunRef
    rows: int
    size_bytes: int  # of pre-tokens


@dataclasses.dataclass(frozen=True, slots=True)
class PartOfRound:
    """What a part does in a round: `bounds`, then `pieces`; what is done once in it: `floor`, then `merges`."""

    what: str
    round: int  # from 1
    part: int = 0

    @property
    def key(self) -> str:
        """Of the record."""
        return f"{self.what}-{self.round:03d}-{self.part:03d}"


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayFile:
    """An attempt file that holds numbers."""

    attempt: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class PartBounds:
    """The record of `bounds`."""

    file: ArrayFile
    windows: int  # pairs of neighbours in all words, each as often as its word


@dataclasses.dataclass(frozen=True, slots=True)
class RoundFloor:
    """The record of `floor`: where pieces begin, and bounds over all parts."""

    file: ArrayFile
    floor: int


@dataclasses.dataclass(frozen=True, slots=True)
class PartPieces:
    """The record of `pieces`."""

    symbols: ArrayFile
    offsets: ArrayFile
    counts: ArrayFile
    limit: tuple[int, int]  # a PairLimit, which the part had to raise


@dataclasses.dataclass(frozen=True, slots=True)
class RoundMerges:
    """The record of `merges`: all that were found so far."""

    left: ArrayFile
    right: ArrayFile
    counts: ArrayFile
    known: tuple[int, int]  # see MergesSoFar
    num: int
    pieces: int  # that were left of the words


def deal_tables(job: RoundsJob, group: TableGroup) -> DealtTables:
    """Weigh the rows of some tables, and deal them into parts. Raises LearnError for counts that are too large."""

    def make() -> DealtTables:
        rows = merge_many_rows(
            [read_table_file(url) for url, _ in group.tables], [weight for _, weight in group.tables]
        )
        dealer = HashedKeys(job.num_parts)
        files: list[RunFile] = []
        for some in _gather(rows, job.dealt_rows):
            with job.attempts.new_file(f"{group.key}-{len(files):03d}.runs") as new:
                files.append(write_run_file(new.file, new.attempt, dealer.deal([("", some)])))
        reach("learn.dealt")
        return DealtTables(tuple(files))

    return _do(job, group.key, DealtTables, make)


def gather_words(job: RoundsJob, part: PartOfWords) -> GatheredWords:
    """The pre-tokens of a part out of all tables, each once. Raises LearnError for counts that are too large."""

    def make() -> GatheredWords:
        groups = (
            read_record(job.attempts, TableGroup(number, ()).key, DealtTables) for number in range(job.num_groups)
        )
        files = [file for group in groups for file in group.files]
        runs = reduce_to_few(job.attempts, gather_runs(files).get(part.number, ()))
        sizes = [0, 0]

        def thin() -> Iterator[tuple[str, CountRows]]:
            for _, every in merge_keyed_rows(read_sections(job.attempts, runs)):
                rows = every.seen_in(job.min_documents)
                sizes[0] += rows.num_rows
                sizes[1] += rows.keys.size_bytes
                yield "", CountRows(rows.keys, rows.counts, np.zeros(rows.num_rows, np.uint64))

        try:
            with job.attempts.new_file(f"{part.key}.run") as new:
                run = write_section(new.file, new.attempt, part.number, thin())
        except OverflowError as error:
            raise LearnError(f"weighted counts are too large: {error}. Use smaller weights.") from error
        return GatheredWords(run, *sizes)

    return _do(job, part.key, GatheredWords, make)


def bound_part(job: RoundsJob, piece: PartOfRound) -> PartBounds:
    """Bounds of the counts of a part's pairs. Raises LearnError if counts are too large to add up."""

    def make() -> PartBounds:
        one = _begin(job, piece.round, job.part_sizes)
        show_rows(one, _read_words(job, piece.part))
        reach("learn.bounds")
        return PartBounds(_write(job, f"{piece.key}.u64", one.bounds), one.num_windows)

    return _do(job, piece.key, PartBounds, make)


def choose_floor(job: RoundsJob, piece: PartOfRound) -> RoundFloor:
    """Add up the bounds of all parts. Raises LearnError if counts are too large to add up."""

    def make() -> RoundFloor:
        bounds = np.zeros(1 << job.whole_sizes.bound_bits, np.uint64)
        windows = 0
        for part in range(job.num_parts):
            told = read_record(job.attempts, PartOfRound("bounds", piece.round, part).key, PartBounds)
            windows += told.windows
            if windows > _MAX_WINDOWS:
                raise LearnError(
                    "the counts of the table are too large: the pairs of the table are more than 2**63 - 1. "
                    "Divide them by a common factor."
                )
            bounds += _read(job, told.file, np.uint64)
        floor = read_merges(job, piece.round - 1).guess_floor(int(bounds.max()), job.num_merges, job.min_count)
        return RoundFloor(_write(job, f"{piece.key}.u64", bounds), floor)

    return _do(job, piece.key, RoundFloor, make)


def cut_part(job: RoundsJob, piece: PartOfRound) -> PartPieces:
    """The pieces of a part's words."""

    def make() -> PartPieces:
        floor = read_record(job.attempts, PartOfRound("floor", piece.round).key, RoundFloor)
        one = _begin(job, piece.round, job.part_sizes)
        one.bounds = _read(job, floor.file, np.uint64)
        one.begin_pieces(floor.floor)
        for rows in _read_words(job, piece.part):
            one.add_pieces(rows.keys, rows.counts)
        pieces, raised = one.pieces, one.limit
        reach("learn.pieces")
        symbols, offsets, counts = (_write(job, f"{piece.key}.columns", column) for column in pieces)
        return PartPieces(symbols, offsets, counts, raised)

    return _do(job, piece.key, PartPieces, make)


def learn_merges(job: RoundsJob, piece: PartOfRound) -> RoundMerges:
    """The next merges. Raises LearnError if the room is too small to find any."""

    def make() -> RoundMerges:
        so_far = read_merges(job, piece.round - 1)
        floor = read_record(job.attempts, PartOfRound("floor", piece.round).key, RoundFloor)
        parts = [
            read_record(job.attempts, PartOfRound("pieces", piece.round, part).key, PartPieces)
            for part in range(job.num_parts)
        ]
        one = _begin(job, piece.round, job.whole_sizes)
        one.bounds = _read(job, floor.file, np.uint64)
        one.begin_pieces(*find_highest(kernel.PairLimit(*part.limit) for part in parts))
        for part in parts:
            one.add_cut_pieces(
                kernel.Pieces(
                    _read(job, part.symbols, np.uint32),
                    _read(job, part.offsets, np.int64),
                    _read(job, part.counts, np.uint64),
                )
            )
        num_pieces = one.num_pieces
        try:
            found = so_far.learn(one, job.num_merges, job.threads or count_cores())
        except TooLittleRoomError as error:
            raise LearnError(f"{error} {format_size(job.enough_bytes)} are enough to learn in memory.") from error
        reach("learn.merges")
        left, right, counts = (_write(job, f"{piece.key}.columns", column) for column in found[:3])
        return RoundMerges(left, right, counts, found.known, len(found.left), num_pieces)

    made = _do(job, piece.key, RoundMerges, make)
    _remove_files(job, piece.round)
    return made


def read_merges(job: RoundsJob, number: int) -> MergesSoFar:
    """What rounds have found, up to the one of that number; 0: nothing yet."""
    if not number:
        return MergesSoFar()
    found = read_record(job.attempts, PartOfRound("merges", number).key, RoundMerges)
    left, right = (_read(job, file, np.int32) for file in (found.left, found.right))
    return MergesSoFar(left, right, _read(job, found.counts, np.uint64), kernel.PairLimit(*found.known))


def _begin(job: RoundsJob, number: int, sizes: RoundSizes) -> kernel.FloorRound:
    so_far = read_merges(job, number - 1)
    return so_far.begin_round(
        sizes, job.max_token_bytes, job.threads if sizes is job.whole_sizes else 1, job.ends_words
    )


def _do(job: RoundsJob, key: str, cls: type[T], make: Callable[[], T]) -> T:
    """The record of a task: what make gives, unless there is one."""
    if (done := job.attempts.result(key, cls)) is not None:
        return done
    try:
        return job.attempts.record(key, make())
    except (StageError, LedgerError):
        # Another host may have been faster, and its files are removed when the round is over.
        if (done := job.attempts.result(key, cls)) is not None:
            return done
        raise


def _remove_files(job: RoundsJob, number: int) -> None:
    """Remove what parts gave in a round that is over: all rounds together may be more than all pre-tokens."""
    floor = job.attempts.result(PartOfRound("floor", number).key, RoundFloor)
    files = [] if floor is None else [floor.file]
    for part in range(job.num_parts):
        if (bounds := job.attempts.result(PartOfRound("bounds", number, part).key, PartBounds)) is not None:
            files.append(bounds.file)
        if (pieces := job.attempts.result(PartOfRound("pieces", number, part).key, PartPieces)) is not None:
            files += pieces.symbols, pieces.offsets, pieces.counts
    for file in files:
        storage.remove_file(job.attempts.url(file.attempt))


def _gather(blocks: Iterator[CountRows], num_rows: int) -> Iterator[CountRows]:
    """The same rows, at least num_rows at a time but for the last ones."""
    held: list[CountRows] = []
    for rows in blocks:
        held.append(rows)
        if sum(one.num_rows for one in held) >= num_rows:
            yield join_blocks(held)
            held = []
    if held:
        yield join_blocks(held)


def _read_words(job: RoundsJob, part: int) -> Iterator[CountRows]:
    words = read_record(job.attempts, PartOfWords(part).key, GatheredWords)
    return (rows for _, rows in read_section(job.attempts, words.run))


def _write(job: RoundsJob, name: str, column: npt.NDArray[Any]) -> ArrayFile:
    with job.attempts.new_file(name) as new:
        new.file.write(column.tobytes())
    return ArrayFile(new.attempt, new.file.sha256)


def _read(job: RoundsJob, file: ArrayFile, dtype: Any) -> npt.NDArray[Any]:
    """The numbers of a file. Raises LedgerError unless they are those that were written."""
    url = job.attempts.url(file.attempt)
    data = storage.read_bytes(url)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise LedgerError(f"{redact(url)}: not the numbers that were written there")
    return np.frombuffer(data, dtype)


def list_groups(tables: Sequence[tuple[str, int, int]], most: int) -> list[TableGroup]:
    """Deal the files of tables into groups that have about equally many rows.

    tables: (URL, weight, rows) of each file. most: the number of groups, or fewer if there are fewer files.

    >>> [len(group.tables) for group in list_groups([("a", 1, 5), ("b", 1, 3), ("c", 1, 1)], 2)]
    [1, 2]
    """
    groups: list[list[tuple[str, int]]] = [[] for _ in range(min(most, len(tables)))]
    sizes = [0] * len(groups)
    for url, weight, rows in sorted(tables, key=lambda one: (-one[2], one[0])):
        least = sizes.index(min(sizes))
        groups[least].append((url, weight))
        sizes[least] += rows
    return [TableGroup(number, tuple(group)) for number, group in enumerate(groups)]
