"""The log of an output, read: what the output holds at a commit. No Beam."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.files.canonical_json import COMMIT_FILES_VERSION, hash_sha256
from tokcore.shards.tombstones import make_key
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones, open_tombstones
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import (
    EXPIRE,
    LOG,
    OWN,
    Commit,
    CommitTotals,
    Part,
    describe_part,
    find_number,
    hash_parts,
    name_commit,
    parse_commit,
    sum_up_part,
)
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import WHOLE
from tokcore_schemas.tombstones import TombstoneFile, Tombstones, leave_out_held, merge_tombstones, name_file

_RESTORING = ("restore", "remove")  # commands whose commits may take tombstones back


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """The commits of an output after its build, in their order, as far as the log is unbroken.

    Only the newest one has its parts. Each other would hold all of its own, and a watcher that lives long would hold
    the square of its commits: parts() makes them again from what each adds and drops.
    """

    output: str  # URL
    build: BuildManifest  # commit 0
    commits: tuple[Commit, ...]
    gap: int = 0  # the number of a commit that is missing although a later one is there; 0: none is

    @property
    def newest(self) -> int:
        """The number of the newest commit."""
        return len(self.commits)

    @property
    def oldest(self) -> int:
        """The number of the oldest commit that can be read."""
        return self.commits[-1].oldest if self.commits else 0

    def totals(self, at: int | None = None) -> CommitTotals:
        """What the documents of a commit add up to; at as of parts."""
        number = self.newest if at is None else at
        return self.commits[number - 1].totals if number else sum_up_part(self.build)

    def root(self, at: int | None = None) -> str:
        """The root of a commit; at as of parts."""
        number = self.newest if at is None else at
        return self.commits[number - 1].root if number else self.build.root

    def reachable(self) -> dict[Part, list[int]]:
        """Part -> the commits that have it, of all commits that can be read."""
        found: dict[Part, list[int]] = {}
        for number, parts in enumerate(self._list_parts()):
            if number >= self.oldest:
                for part in parts:
                    found.setdefault(part, []).append(number)
        return found

    def parts(self, at: int | None = None) -> tuple[Part, ...]:
        """What the output holds at a commit; None: at the newest."""
        number = self.newest if at is None else at
        if number == self.newest and self.commits:
            return self.commits[-1].parts
        return next(itertools.islice(self._list_parts(), number, None))

    def _list_parts(self) -> Iterator[tuple[Part, ...]]:
        """The parts of each commit, from commit 0."""
        parts: tuple[Part, ...] = (describe_part(OWN, self.build),)
        yield parts
        for commit in self.commits:
            parts = follow_parts(parts, commit)
            yield parts

    def add(self, commit: Commit) -> Log:
        """The log with the commit that follows."""
        before = [dataclasses.replace(one, parts=()) for one in self.commits[-1:]]
        return Log(self.output, self.build, (*self.commits[:-1], *before, commit))

    def list_equal(self) -> list[tuple[str, str]]:
        """(tombstone of the kind equal, that of the digest of its document), of all removals."""
        return [pair for commit in self.commits for pair in commit.equal]

    def list_buried(self) -> set[str]:
        """The tombstones of all commits, those that were taken back included."""
        return {one for commit in self.commits for one in commit.removed}

    def find_final(self, tombstone: str) -> Commit | None:
        """The commit from which on a tombstone cannot be taken back; None if it can."""
        return next((commit for commit in self.commits if tombstone in commit.final), None)

    def tombstones(self, at: int | None = None) -> Tombstones | None:
        """What was removed up to a commit, None if nothing was; at as of parts."""
        number = self.newest if at is None else at
        hashes: set[str] = set()
        files: dict[str, TombstoneFile] = {}
        for commit in self.commits[:number]:
            hashes |= {*commit.removed}
            hashes -= {*commit.restored}
            files = {path: file for path, file in files.items() if path not in commit.dropped_files}
            files |= {file.path: file for file in commit.added_files}
        return merge_tombstones(self.tombstone_key, hashes, files.values())

    def open_tombstones(self, at: int | None = None) -> OpenedTombstones | None:
        """As tombstones, to be looked up."""
        found = self.tombstones(at)
        return open_tombstones(found, self.output, is_hashed=True) if found is not None else None

    def list_tombstone_files(self) -> dict[str, TombstoneFile]:
        """Path -> file, of all files of tombstones that commits have added."""
        return {file.path: file for commit in self.commits for file in commit.added_files}

    @property
    def tombstone_key(self) -> str:
        """The key of the tombstones of this output."""
        first = next((commit for commit in self.commits if commit.has_removed), None)
        is_old = first is not None and first.format_version == 1
        return make_key(hash_sha256(self.build.to_bytes()) if is_old else self.build.root)

    def hash_newest(self) -> str:
        """sha256 of the file of the newest commit, which the next one names."""
        return self.hash_commit(self.newest)

    def hash_commit(self, number: int) -> str:
        """sha256 of the file of a commit; of 0, of the build's manifest."""
        if not number:
            return hash_sha256(self.build.to_bytes())
        commit = self.commits[number - 1]
        if number < self.newest:
            commit = dataclasses.replace(commit, parts=self.parts(number))
        return hash_sha256(commit.to_bytes())


def read_log(output: str, at: int | None = None, known: Log | None = None) -> Log:
    """The log of an output. at: the commit that is wanted; None: the newest. known: what was read of it before.

    Raises ConfigError if there is no finished build, or no such commit; FormatError for a commit that does not follow
    from the one before.
    """
    log = known or Log(output, require_manifest(output, WHOLE), ())
    numbers = list_numbers(output)
    if len(numbers) < log.newest:
        log = Log(output, log.build, ())  # commits are gone that were there: what is left is read from its beginning
    following = range(log.newest + 1, len(numbers) + 1)
    names = [name_commit(number) for number in following if numbers[number - 1] == number]
    files = run_at_once(lambda name: storage.read_bytes(urls.join(output, name)), names)
    for name, data in zip(names, files, strict=True):
        commit = parse_commit(data, f"{redact(output)}: {name}")
        if problem := describe_break(log, commit):
            raise FormatError(f"{redact(output)}: {name}: {problem}. `tokcore verify` says more")
        log = log.add(commit)
    log = dataclasses.replace(log, gap=log.newest + 1 if len(numbers) > log.newest else 0)
    if at is not None and not 0 <= at <= log.newest:
        raise ConfigError(f"at = {at}: {redact(output)} has the commits 0 to {log.newest}")
    if at is not None and at < log.oldest:
        raise ConfigError(f"at = {at}: {redact(output)}: that commit is expired; the oldest is {log.oldest}")
    return log


def list_numbers(output: str) -> list[int]:
    """The numbers of the commits whose files are there, ascending: 1, 2 and so on in an unbroken log."""
    found = (find_number(f"{LOG}/{path}") for path in storage.list_tree(urls.join(output, LOG)))
    return sorted(number for number in found if number is not None)


def has_commits(output: str) -> bool:
    """Whether the output has changed since its build."""
    return storage.exists(urls.join(output, name_commit(1)))


def is_updated(url: str) -> bool:
    """Whether an output has changed since its build; not if that cannot be known: the command says what is wrong."""

    with contextlib.suppress(TokError):
        return has_commits(url)
    return False


def follow_parts(parts: Iterable[Part], commit: Commit) -> tuple[Part, ...]:
    """The parts of a commit, by what it adds to those of the commit before and drops of them."""
    dropped = {*commit.dropped}
    return *(part for part in parts if part.path not in dropped), *commit.added


def describe_break(log: Log, commit: Commit) -> str:
    """Why a commit does not follow from a log; empty if it does. Parts are not looked at."""
    if commit.number != log.newest + 1:
        return f"says that it is commit {commit.number}"
    if commit.previous != log.hash_newest():
        return f"does not follow from {name_commit(log.newest)}: one of the two was changed, or is of another log"
    before = log.parts()
    if not {*commit.dropped} <= {part.path for part in before}:
        return "drops a part that the commit before does not have"
    parts = follow_parts(before, commit)
    if commit.parts != parts or len({part.path for part in parts}) < len(parts):
        return "its parts are not those of the commit before, with what it adds and without what it drops"
    if commit.root != hash_parts(parts):
        return "its root does not follow from its parts"
    if not log.oldest <= commit.oldest < commit.number or (commit.oldest > log.oldest and commit.why.command != EXPIRE):
        return f"says that commit {commit.oldest} is the oldest, before it {log.oldest} was"
    if problem := _describe_tombstones(log, commit):
        return problem
    return ""


def _describe_tombstones(log: Log, commit: Commit) -> str:
    """Why the tombstones of a commit do not follow from a log; empty if they do. Files are named, and not read."""
    if not (commit.has_removed or commit.restored or commit.final or commit.dropped_files or commit.equal):
        return ""
    removed = log.tombstones()
    there = {*removed.hashes} if removed is not None else set()
    files = {file.path for file in removed.files} if removed is not None else set()
    has_files = bool(files or commit.added_files)
    is_final = {one for before in log.commits for one in before.final}
    if not is_final.isdisjoint(commit.restored):
        return "takes tombstones back that an earlier commit says are final"
    known = {*commit.final} if has_files else there | {*commit.removed}
    if list(commit.final) != sorted({*commit.final} & known - is_final):
        return "its final tombstones are not sorted, not there, or final already"
    if list(commit.removed) != sorted({*commit.removed} - there):
        return "its tombstones are not sorted, or are there already"
    if list(commit.restored) != sorted({*commit.restored} & there):
        return "takes tombstones back that are not sorted, or not there"
    added = {file.path for file in commit.added_files}
    if len(added) < len(commit.added_files) or any(one.path != name_file(one.sha256) for one in commit.added_files):
        return "a file of tombstones that it adds has not the name that follows from its sha256"
    if not {*commit.dropped_files} <= files or not added.isdisjoint(files - {*commit.dropped_files}):
        return "adds files of tombstones that are there already, or drops some that are not"
    dropped = [file for file in (removed.files if removed is not None else ()) if file.path in commit.dropped_files]
    if leave_out_held((one for one in dropped if one.final), [one for one in commit.added_files if one.final]):
        return "drops a file of tombstones that cannot be taken back"
    if commit.why.command not in _RESTORING and leave_out_held(dropped, commit.added_files):
        return "drops a file of tombstones, and adds none that holds these, too"
    if bool(added or commit.dropped_files) != (commit.format_version == COMMIT_FILES_VERSION):
        return f"is of format_version {commit.format_version}, but {COMMIT_FILES_VERSION} is for files of tombstones"
    buried = {*commit.removed, *log.list_buried(), *(itertools.chain(*commit.equal) if has_files else ())}
    if list(commit.equal) != sorted({*commit.equal}) or not buried.issuperset(itertools.chain(*commit.equal)):
        return "its digests are not sorted, or not among its tombstones"
    return ""


def locate_part(output: str, part: Part) -> str:
    """The URL of a part."""
    return output if part.path == OWN else urls.join(output, part.path)


def read_part(output: str, part: Part) -> BuildManifest:
    """The manifest of a part's build. Raises ConfigError if it is gone, FormatError if it is another one."""
    build = require_manifest(locate_part(output, part), WHOLE, "update")
    if describe_part(part.path, build) != part:
        raise FormatError(f"{redact(output)}: {part.path}/manifest.json: not the one that the log names")
    return build
