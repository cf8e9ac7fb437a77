"""What a commit does to tombstones: a few stand in it, many go into files that it names.

A file is written once, before the commit, and never changed. A removal makes one of its new tombstones, and of those
of earlier files that have no more: so there are few files, however many removals. A restoration writes the files that
have what it takes back again without it; a compaction makes one file of several. What no commit names any more,
`tokcore expire` removes.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tokcore.shards.tombstone_files import (
    Hashes,
    HashFile,
    count,
    intersect,
    iterate_blocks,
    spell_records,
    subtract,
    unite,
    write_hashes,
)
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.history.make_commit import FileChange
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones, open_file
from tokcore_schemas.commit_log import Commit
from tokcore_schemas.stage_table import PLAN
from tokcore_schemas.tombstones import REMOVED, TombstoneFile, Tombstones, merge_tombstones, name_file

_NONE = "0" * 64  # in place of the sha256 of a file that is only planned
MAX_INLINE = 10_000  # tombstones that travel with each range that workers read


class TombstoneChange(NamedTuple):
    """What a commit does to tombstones. All but the files as Commit has it."""

    removed: tuple[str, ...]
    restored: tuple[str, ...]
    final: tuple[str, ...]
    files: FileChange
    after: Tombstones | None  # all that there are then

    @property
    def is_any(self) -> bool:
        """Whether it does anything."""
        return bool(self.removed or self.restored or self.final or any(self.files))


def bury(
    log: Log,
    wanted: OpenedTombstones,
    added: Collection[str],
    restored: Collection[str],
    *,
    is_final: bool,
    is_planned: bool = False,
) -> TombstoneChange:
    """Add the tombstones of names, and others beside them; take some back. Files are written, and no commit.

    added, restored: as of WithDuplicates. is_final: whether no later commit may take back those of wanted.
    is_planned: whether no file is written: its name then stands for it.
    """
    before = log.open_tombstones()
    files = FileWriter(log, before, is_planned)
    back = _take_back(files, before, OpenedTombstones(Tombstones(log.tombstone_key, (*restored,)), log.output))
    inline = {*(before.plain.hashes if before is not None else ())}
    if wanted.plain.files:

        def list_new() -> Iterator[Hashes]:
            known = _open_final(log, before) if is_final else [before.blocks()] if before is not None else []
            return subtract(wanted.blocks(), *known)

        if any(map(len, list_new())):
            files.add(list_new(), wanted.plain.num, is_final=is_final)
        return TombstoneChange((), back, (), files.change, files.list_after(inline - {*back}))
    new = {one for one in {*wanted.plain.hashes, *added} if before is None or one not in before}
    sealed = {one for one in wanted.plain.hashes if is_final and find_final(log, before, one) is None}
    beside = {*added, *(digest for pair in log.list_equal() for digest in pair)}
    after = {*new, *inline} - {*back}
    if len(after - beside) > MAX_INLINE:
        for names, final_too in ((sealed, True), (new - sealed, False)):
            if names:
                files.add(iterate_blocks(map(bytes.fromhex, names)), len(names), is_final=final_too)
        new, sealed, after = set(), set(), inline - {*back}
    return TombstoneChange(tuple(sorted(new)), back, tuple(sorted(sealed)), files.change, files.list_after(after))


def unbury(log: Log, wanted: OpenedTombstones, is_planned: bool = False) -> TombstoneChange:
    """Take those of these tombstones back that are there. Files are written, and no commit. is_planned: as of bury."""
    before = log.open_tombstones()
    files = FileWriter(log, before, is_planned)
    back = _take_back(files, before, wanted)
    inline = before.plain.hashes if before is not None else ()
    return TombstoneChange((), back, (), files.change, files.list_after({*inline} - {*back}))


def compact_tombstones(log: Log) -> FileChange:
    """One file, or one beside that of those which cannot be taken back, in place of several."""
    before = log.open_tombstones()
    files = FileWriter(log, before)
    for is_final in (False, True):
        if sum(file.final == is_final for file in files.now) > 1:
            files.add(iterate_blocks(()), sum(file.num for file in files.now), is_final=is_final)
    return files.change


def find_final(log: Log, before: OpenedTombstones | None, tombstone: str) -> Commit | None:
    """The commit from which on a tombstone cannot be taken back, or that added the file that says so; None if it can.

    before: those of the newest commit.
    """
    if (commit := log.find_final(tombstone)) is not None or before is None:
        return commit
    if (file := before.find_final(tombstone)) is None:
        return None
    return next(one for one in reversed(log.commits) if file in one.added_files)


def list_final(log: Log, wanted: OpenedTombstones) -> Iterator[str]:
    """Those of many tombstones that cannot be taken back."""
    return spell_records(intersect(wanted.blocks(), unite(*_open_final(log, log.open_tombstones()))))


class FileWriter:
    """Writes files of tombstones, and knows those that an output has then."""

    def __init__(self, log: Log, before: OpenedTombstones | None, is_planned: bool = False) -> None:
        """before: tombstones of the newest commit. is_planned: whether nothing is written, but only said."""
        self._is_planned = is_planned
        self._log = log
        self._opened = {} if before is None else dict(zip(before.plain.files, before.opened, strict=True))
        self._added: list[TombstoneFile] = []
        self._dropped: list[TombstoneFile] = []

    @property
    def now(self) -> list[TombstoneFile]:
        """Those of earlier commits that stay."""
        return [file for file in self._opened if file not in self._dropped]

    @property
    def change(self) -> FileChange:
        """What the commit is to say."""
        return FileChange(tuple(self._added), tuple(sorted(file.path for file in self._dropped)))

    def list_after(self, inline: Iterable[str]) -> Tombstones | None:
        """All tombstones that there are then."""
        return merge_tombstones(self._log.tombstone_key, inline, [*self.now, *self._added])

    def add(self, blocks: Iterable[Hashes], most: int, *, is_final: bool = False) -> None:
        """Write a file of these tombstones, and of those of earlier files that have no more.

        most: how many the blocks have, at most.
        """
        merged: list[TombstoneFile] = []
        for file in sorted((one for one in self.now if one.final == is_final), key=lambda one: one.num):
            if file.num > most:
                break
            most += file.num
            merged.append(file)
        blocks = unite(blocks, *(self._opened[file].blocks() for file in merged)) if merged else blocks
        holds = {sha256 for file in merged for sha256 in (file.sha256, *file.holds)}
        self._write(blocks, merged, tuple(sorted(holds)), is_final)

    def replace(self, file: TombstoneFile, blocks: Iterable[Hashes]) -> None:
        """Write a file again with these tombstones; without any there is none."""
        self._write(blocks, [file], (), file.final)

    def opened(self) -> Iterator[tuple[TombstoneFile, HashFile]]:
        """The files of earlier commits that stay."""
        return ((file, self._opened[file]) for file in self.now)

    def _write(
        self, blocks: Iterable[Hashes], instead: list[TombstoneFile], holds: tuple[str, ...], is_final: bool
    ) -> None:
        self._dropped += instead
        if self._is_planned:
            self._added.append(TombstoneFile(name_file(_NONE), _NONE, 0, holds, is_final))
            return
        made = write_file(self._log.output, blocks, holds, is_final)
        if made is None:
            return
        if made.path in {file.path for file in self._opened}:  # as it was
            self._dropped = [file for file in self._dropped if file.path != made.path]
        else:
            self._added.append(made)


def write_file(
    output: str, blocks: Iterable[Hashes], holds: tuple[str, ...] = (), is_final: bool = False
) -> TombstoneFile | None:
    """A file of tombstones of an output, under its final name; None if there are none."""
    if not urls.is_local(output):
        with tempfile.TemporaryFile() as file:
            made = write_hashes(file, blocks)
            file.seek(0)
            reach("bury.written")
            if made.num:
                with storage.write_once(urls.join(output, name_file(made.sha256))) as new:
                    shutil.copyfileobj(file, new)
                new.require_content(made.sha256)
                reach("bury.named")
    else:
        scratch = urls.join(output, FOLDER, REMOVED, uuid.uuid4().hex)
        with storage.write_attempt(scratch) as file:
            made = write_hashes(file, blocks)
        reach("bury.written")
        if made.num:
            storage.publish(scratch, urls.join(output, name_file(made.sha256)))
            reach("bury.named")
        else:
            storage.remove_file(scratch)
        storage.remove_empty_folders(urls.join(output, FOLDER))
    return TombstoneFile(name_file(made.sha256), made.sha256, made.num, holds, is_final) if made.num else None


def carry_files(source: str, target: str, removed: Iterable[Tombstones | None]) -> None:
    """Copy the files of tombstones of an output to another one, whose plan names them."""
    for file in {file for one in removed if one is not None for file in one.files}:
        write_file(target, open_file(source, file).blocks())


def list_named_files(log: Log) -> dict[str, TombstoneFile]:
    """Path -> file, of those that a commit which can be read has, or a part of one was read with."""
    removed = (log.tombstones(number) for number in range(log.oldest, log.newest + 1))
    of_parts = (list_planned_files(locate_part(log.output, part)) for part in log.reachable())
    of_commits = (one.files for one in removed if one is not None)
    return {file.path: file for files in (*of_commits, *of_parts) for file in files}


def list_planned_files(url: str) -> list[TombstoneFile]:
    """The files that a part, or an output, is read with. url: its own."""
    plan = find_manifest(url, PLAN)
    settings = plan.config.settings if plan is not None else ()
    return [file for one in settings if one.removed is not None for file in one.removed.files]


def _take_back(files: FileWriter, before: OpenedTombstones | None, wanted: OpenedTombstones) -> tuple[str, ...]:
    """Write files without these tombstones. Returns those that are inline."""
    if before is None or not wanted.plain.num:
        return ()
    for file, opened in [*files.opened()]:
        few = [one for one in map(bytes.fromhex, wanted.plain.hashes) if one in opened]
        if few or (wanted.plain.files and count(intersect(opened.blocks(), wanted.blocks()))):
            files.replace(file, subtract(opened.blocks(), wanted.blocks()))
    return tuple(one for one in before.plain.hashes if one in wanted)


def _open_final(log: Log, before: OpenedTombstones | None) -> list[Iterator[Hashes]]:
    """The blocks of all tombstones that cannot be taken back."""
    inline = iterate_blocks({bytes.fromhex(one) for commit in log.commits for one in commit.final})
    files = [] if before is None else zip(before.plain.files, before.opened, strict=True)
    return [inline, *(opened.blocks() for file, opened in files if file.final)]
