"""The log of an output: commits, each of which says which parts the output has from now on.

A part is an output of its own, made by one build of some of the files. Commit 0 is the build that made the output; its
one part is the output's own folder. Leaves to others: making parts, reading the log
(tokcore_pipelines.build.read_log).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tokcore.errors import FormatError
from tokcore.files.canonical_json import (
    COMMIT_FORMAT,
    COMMIT_VERSION,
    COMMIT_VERSIONS,
    hash_sha256,
    parse_canonical,
    write_canonical_json,
)
from tokcore.files.jsonable import from_jsonable, require_version, to_jsonable, written_unless
from tokcore_schemas.merkle import hash_tree
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.tombstones import REMOVED, TombstoneFile

LOG = "log"
PARTS = "parts"
EXPIRE = "expire"  # the command of a commit after which earlier ones cannot be read
OWN = "."  # the path of the part that is the output's own folder

_KEY_DIGITS = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One part of an output, by the manifest of the build that made it."""

    path: str  # of its folder, below the output
    sha256: str  # of its manifest.json
    root: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why there is a commit: what became of input files, and of documents, since the one before."""

    command: str
    new: int = 0  # files
    changed: int = 0
    vanished: int = 0  # files whose documents were removed
    read_again: int = 0  # files that were as before, but read for a part that took another's place
    removed: int = written_unless(0)  # documents that tokcore remove took away
    came: int = written_unless(0)  # equal documents that took the place of some of these
    restored: int = written_unless(0)  # tombstones that tokcore restore took back
    reason: str = written_unless("")  # of a removal or a restoration, as whoever asked for it gave it
    by: str = written_unless("")  # and who that was
    kept_weights: bool = written_unless(False)  # documents come in the mixture as often as before, whatever sizes are
    # Of an output of which each commit is one part: its shards, with those of its mixture and rows, and how many of
    # them have the bytes that they had.
    shards: int = written_unless(0)
    shards_as_before: int = written_unless(0)
    in_place_rows: bool = written_unless(False)  # rows stay, with padding where removed documents were

    def describe_files(self) -> str:
        """What became of files, in words; empty if nothing did.

        >>> Reason("update", 3, 1, 0, 0).describe_files()
        'files 3 new, 1 changed'
        """
        words = {"new": "new", "changed": "changed", "vanished": "removed", "read_again": "read again"}
        said = [f"{getattr(self, key):,} {word}" for key, word in words.items() if getattr(self, key)]
        return f"files {', '.join(said)}" if said else ""


@dataclasses.dataclass(frozen=True, slots=True)
class CommitTotals:
    """What all parts of a commit hold together."""

    files: int  # of the input
    records: int
    documents: int
    text_bytes: int
    tokens: int
    shards: int
    documents_digest: str
    removed: int = written_unless(0)  # of the records, those that tombstones leave out


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """log/NUMBER.json: one state of an output, and how it came from the one before."""

    number: int
    previous: str  # sha256 of the file of the commit before: log/(NUMBER - 1).json, or manifest.json of the build
    why: Reason
    added: tuple[Part, ...]
    dropped: tuple[str, ...]  # paths of parts
    parts: tuple[Part, ...]  # all that the output has now, in the order in which they were added
    root: str  # Merkle root over the roots of parts
    totals: CommitTotals
    # Tombstones that this commit adds to those of earlier ones (tokcore_schemas.tombstones).
    removed: tuple[str, ...] = written_unless(())
    restored: tuple[str, ...] = written_unless(())  # those that it takes back
    # (tombstone of the kind equal, that of a digest which stays away as long as the first is there), sorted.
    equal: tuple[tuple[str, str], ...] = written_unless(())
    final: tuple[str, ...] = written_unless(())  # those that no later commit may take back
    # Of tombstones that are too many to stand here: files that it adds, and paths of those that hold no more.
    added_files: tuple[TombstoneFile, ...] = written_unless(())
    dropped_files: tuple[str, ...] = written_unless(())
    oldest: int = written_unless(0)  # commit that can be read from now on; 0: all can
    format: str = COMMIT_FORMAT
    format_version: int = COMMIT_VERSION

    @property
    def has_removed(self) -> bool:
        """Whether it adds tombstones."""
        return bool(self.removed or self.added_files)

    def to_bytes(self) -> bytes:
        """The content of the file: canonical, the same bytes for the same commit."""
        return write_canonical_json(to_jsonable(self))


def parse_commit(data: bytes, name: str) -> Commit:
    """The commit in these bytes. name: the file's. Raises FormatError unless it is what tokcore writes."""
    value = parse_canonical(data, name)
    require_version(value, name, COMMIT_FORMAT, *COMMIT_VERSIONS)
    commit = from_jsonable(Commit, value, name)
    if commit.to_bytes() != data:
        raise FormatError(f"{name}: not a commit as tokcore writes it: a field is missing, or says nothing")
    return commit


def name_commit(number: int) -> str:
    """The path of a commit's file, below the output.

    >>> name_commit(0), name_commit(12)
    ('manifest.json', 'log/12.json')
    """
    return f"{LOG}/{number}.json" if number else "manifest.json"


def find_number(path: str) -> int | None:
    """The number of the commit, 1 or more, whose file is at a path below the output; None if it is another file.

    >>> find_number("log/12.json"), find_number("log/012.json"), find_number("log/a.json")
    (12, None, None)
    """
    digits = path.removeprefix(f"{LOG}/").removesuffix(".json")
    is_one = digits.isascii() and digits.isdecimal() and digits[0] != "0"
    return int(digits) if is_one and path == name_commit(int(digits)) else None


def is_of_history(path: str) -> bool:
    """Whether a path below an output is a commit's file, or in the folder of parts or of tombstones.

    >>> is_of_history("log/1.json"), is_of_history("parts/0a1b2c3d4e5f/README.md"), is_of_history("log/notes.txt")
    (True, True, False)
    """
    return path.startswith((f"{PARTS}/", f"{REMOVED}/")) or find_number(path) is not None


def name_part(plan_identity: str, kept: Mapping[str, str] | None = None, in_place_of: str = "") -> str:
    """The path of the part that was made from the plan of that identity, below the output.

    kept, in_place_of: as of the settings of its mixture and its rows: with others, the same plan gives another part.
    """
    if kept is not None or in_place_of:
        told: dict[str, object] = {"plan": plan_identity, "kept": dict(kept) if kept is not None else None}
        told |= {"in_place_of": in_place_of} if in_place_of else {}
        plan_identity = hash_sha256(write_canonical_json(told))
    return f"{PARTS}/{plan_identity[:_KEY_DIGITS]}"


def describe_part(path: str, build: BuildManifest) -> Part:
    """A part as commits name it. build: the manifest of its build."""
    return Part(path, hash_sha256(build.to_bytes()), build.root)


def hash_parts(parts: Sequence[Part]) -> str:
    """The root of a commit of these parts; of one part, its own."""
    return hash_tree([bytes.fromhex(part.root) for part in parts]).hex()


def sum_up_part(build: BuildManifest) -> CommitTotals:
    """The totals of a commit of one part. build: its manifest."""
    totals = build.totals
    return CommitTotals(
        files=totals.files.planned,
        records=totals.records.read,
        documents=totals.records.documents,
        text_bytes=totals.text_bytes,
        tokens=totals.tokens,
        shards=totals.shards,
        documents_digest=totals.documents_digest,
        removed=totals.records.removed,
    )


def add_up_totals(parts: Iterable[CommitTotals]) -> CommitTotals:
    """The totals of a commit. parts: the totals of each of its parts."""
    from tokcore.shards.documents_digest import DocumentsDigest  # loads the kernel, which reading a log does not need

    parts = list(parts)
    digest = DocumentsDigest()
    for part in parts:
        digest.add_up(part.documents_digest, part.documents)
    numbers = [field.name for field in dataclasses.fields(CommitTotals) if field.name != "documents_digest"]
    sums = {name: sum(getattr(part, name) for part in parts) for name in numbers}
    return CommitTotals(**sums, documents_digest=digest.hexdigest())


def sum_up_parts(builds: Iterable[BuildManifest]) -> CommitTotals:
    """As add_up_totals. builds: the manifests of the parts."""
    return add_up_totals(map(sum_up_part, builds))
