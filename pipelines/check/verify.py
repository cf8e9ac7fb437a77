"""Verification: an output is exactly what was committed, its parts agree, and its tokens are the source's text.

Three depths, each of which needs what the one before found sound: hashes of everything that is stored, and that the
manifests agree (`quick` stops here); what tokenizer, tables and shards say of each other, read out of the files
themselves; and, with `decode`, the pinned inputs, read again and compared document by document.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tokcore.errors import ConfigError, TokError
from tokcore.files.jsonable import to_jsonable
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.commit import MANIFEST, find_written, get_path_below, require_output
from tokcore_pipelines.build.dataset_card import CARD
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.chain import MANY_SHARDS, Manifests, read_build, read_chain, read_manifests, require_commit
from tokcore_pipelines.check.sampled import Drawn, Sample, check_sizes, count_pieces, get_piece
from tokcore_pipelines.check.verification import open_verification
from tokcore_pipelines.check.verify_beside import CheckedBeside, check_beside
from tokcore_pipelines.check.verify_content import check_content, hash_all
from tokcore_pipelines.check.verify_log import check_commit_card, check_kind
from tokcore_pipelines.check.verify_pieces import Part, may_be_unnamed
from tokcore_pipelines.check.verify_tombstones import NO_TOMBSTONES, check_tombstones
from tokcore_pipelines.history.expire_commits import list_expired
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.packed_listing import PackedListing
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import OWN, PARTS, hash_parts, is_of_history, name_commit
from tokcore_schemas.stage_manifests import ShardsManifest
from tokcore_schemas.stage_table import BUILD, SHARDS, STAGES, TOKENIZER
from tokcore_schemas.tombstones import REMOVED

_OF_WATCHERS = f"{FOLDER}/{WATCHERS}/"


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What verification found; the output is sound if problems is empty."""

    problems: tuple[str, ...]
    root: str  # as recomputed from the manifests; empty if the build's cannot be read
    num_files: int
    size_bytes: int
    seconds: float
    num_read: int  # documents read out of the shards
    num_decoded: int  # documents compared with their source
    lossless: bool  # whether tokens give back their text; if not, the source was encoded again
    num_leftovers: int  # files of unfinished work, which `tokcore gc` removes
    totals: dict[str, Any]  # of the build, as JSON
    num_pieces: int = 0  # that a sample was drawn from; 0 if all was looked at
    num_drawn: int = 0
    seed: int = 0


def verify(
    output: str,
    *,
    decode: int | None = 0,
    root: str = "",
    quick: bool = False,
    base: str = "",
    at: int | None = None,
    sample: Sample | None = None,
    work: str = "",
    options: RunOptions | None = None,
    progress: StageProgress | None = None,
) -> Report:
    """Check an output against its manifests, these against its content, and documents against their source.

    decode: how many documents of each part, spread over it; None for all. quick: hash what is stored, and no more.
    base: folder of the build file, against which relative input uris are resolved; only needed to decode. at: the
    number of a commit; None: the newest. Of other commits, only their files in the log are looked at.
    sample: the share of shards and count tables to look at; None for all. Of the others only sizes are compared, and
    sums over all of them are taken as they are said. work: URL of a folder where records of what was looked at stay, so
    that the next run goes on from there. Raises ConfigError if output, or the commit, does not exist, or if slices or
    an engine lack a work folder; StageError if an input changed.
    """
    started = time.monotonic()
    require_output(output)
    if sample is not None and decode is None:
        raise ConfigError("--sample: --decode all reads every source; give a number of documents")
    options, progress = options or RunOptions(), progress or StageProgress(-1)
    with progress.stage("look", minor=True):
        build, _ = first = read_build(output)
        if build is not None and build.totals.shards >= MANY_SHARDS:  # reading their manifest takes seconds
            progress.say(f"look       at what manifest.json names: {build.totals.shards:,} shards, and all other files")
        written = None if build is not None else _find_written(output)
        if build is None and written is None and (above := _find_output_above(output)):
            raise ConfigError(f"{redact(output)}: is the folder of a stage. Name its output: {redact(above)}")
        chain = read_chain(output, first)
        there = storage.list_footprints(output)
    if written is not None and (decode != 0 or at is not None):
        raise ConfigError(f"{redact(output)}: WriteShards made it: it has no commits, and no sources to decode")
    log, problems, own, removed = chain.log, [*chain.breaks], chain.own, None
    unread = [*own.problems.values()]
    beside = check_beside(log, there, problems) if log is not None else CheckedBeside(frozenset(), 0, 0, 0)
    buried = check_tombstones(log) if log is not None and not problems and not unread else NO_TOMBSTONES
    if written is not None:
        own, problems = Manifests({SHARDS.name: written}, {}), []
    if log is None or unread or problems or (not log.commits and not at):
        apart = beside.paths
        if log is not None and log.commits:  # what the card says cannot be told, but whether it is a file
            apart |= {CARD}
            problems.extend(check_kind(output, CARD))
        log, parts = None, [_look(output, OWN, own, there, apart, base)]
    else:
        require_commit(log, at)
        problems += check_commit_card(log) if at is None else []  # the card is of the newest commit
        if not quick and sample is None and not buried.problems:
            removed = log.open_tombstones(at)
        with progress.stage("look", minor=True):
            parts = [
                _look(output, one.path, own, there, beside.paths | {CARD}, base)
                if one.path == OWN
                else _look(output, one.path, read_manifests(locate_part(output, one)), there.below(one.path), (), base)
                for one in log.parts(at)
            ]
    for part in parts:
        part.removed = removed
        _check_names(part)
        if sample is not None:
            _draw(part, sample)
    with open_verification(output, own.head, base, work, options, progress) as run:
        if removed is not None and log is not None:
            run.job = dataclasses.replace(run.job, at=log.newest if at is None else at)
        hash_all(run, parts)
        if log is None:
            _check_root(parts[0], root)
        check_content(run, [part for part in parts if part.is_sound], quick, decode)
    for part in parts:
        prefix = "" if part.path == OWN else f"{part.path}/"
        problems += (f"{prefix}{problem}" for problem in (*part.brought_back, *part.problems))
    if log is not None:
        found_root = hash_parts(log.parts(at))
        if root and found_root != root:
            number = log.newest if at is None else at
            problems.append(f"{name_commit(number)}: its root is {found_root}, expected {root}")
        totals: Any = log.totals(at) if at != 0 else log.build.totals
    else:
        head = parts[0].made.head
        found_root, totals = _find_root(parts[0]), head.totals if head is not None else {}
    unnamed = {*_list_unnamed(log, there, buried.named)} if log is not None else ()
    problems += buried.problems
    return Report(
        problems=tuple(dict.fromkeys(problems)),
        root=found_root,
        num_files=sum(part.num_named for part in parts)
        + beside.num_files
        + len(buried.named)
        + (log.newest if log is not None else 0),
        size_bytes=sum(part.size_bytes for part in parts) + beside.size_bytes + buried.size_bytes,
        seconds=time.monotonic() - started,
        num_read=sum(part.num_read for part in parts),
        num_decoded=sum(part.num_decoded for part in parts),
        lossless=all(bool(part.problems) or part.stored.is_lossless for part in parts),
        num_leftovers=sum(map(_count_leftovers, parts)) + len(unnamed) + beside.num_leftovers,
        totals=to_jsonable(totals),
        num_pieces=sum(count_pieces(part.manifests.values()) for part in parts) if sample is not None else 0,
        num_drawn=sum(len(of) for part in parts if part.drawn is not None for of in part.drawn.of.values()),
        seed=sample.seed if sample is not None else 0,
    )


def _find_output_above(folder: str) -> str:
    """The URL of the output that has a stage in this folder; empty if none has."""
    above, _, name = folder.rstrip("/").rpartition("/")
    return above if name in STAGES and storage.exists(urls.join(above, MANIFEST)) else ""


def _find_written(output: str) -> ShardsManifest | None:
    """As find_written; None for what cannot be read, which is a problem found elsewhere."""
    with contextlib.suppress(TokError):
        return find_written(output)
    return None


def _list_unnamed(log: Log, there: Collection[str], buried: Collection[str]) -> Iterator[str]:
    """The files of parts, and of tombstones, that no commit that can be read names. buried: those that one does."""
    yield from (path for path in there if path.startswith(f"{REMOVED}/") and path not in buried)
    named = {part.path for part in log.reachable()}
    yield from (path for path in there if path.startswith(f"{PARTS}/") and "/".join(path.split("/")[:2]) not in named)
    yield from list_expired(log, there)


def _look(output: str, path: str, made: Manifests, there: PackedListing, apart: Collection[str], base: str) -> Part:
    """A part of the output. there: all that is below the part. apart: as Part has it."""
    present = there.without(lambda name: is_of_history(name) or name in apart)
    # Without the build's, nothing vouches for the manifests of its stages.
    manifests = made.found if made.head is not None else {}
    problems = [*made.problems.values()] if manifests else [made.problems[BUILD]]
    url = output if path == OWN else f"{output}/{path}"
    return Part(path, made, Stored(url, manifests, base), present, apart, problems=problems)


def _check_names(part: Part) -> None:
    """Count the paths that the manifests name, their own included; what is named twice or not at all is a problem."""
    if (head := part.made.head) is None:  # a problem already; what the others name is not known
        part.num_named = 1
        return
    unread = set(head.inputs) - set(part.manifests)
    is_named, gone = bytearray(len(part.there)), set[str]()  # gone: what a manifest names, and is not there

    def name(path: str) -> bool:
        if (number := part.there.find_number(path)) is not None:
            is_first, is_named[number] = not is_named[number], True
        else:
            is_first = path not in gone
            gone.add(path)
        part.num_named += is_first
        return is_first

    for stage in part.manifests:
        name(get_path_below(stage, MANIFEST))
    if head.stage != BUILD:
        name(get_path_below(TOKENIZER.name, FILE_NAME))
    for stage, made in part.manifests.items():
        for entry in made.list_files():
            path = get_path_below(stage, entry.path)
            if not name(path):
                part.problems.append(f"{path}: named twice")
            part.size_bytes += entry.size_bytes
    for number, path in enumerate(part.there):
        if not is_named[number] and path.split("/")[0] not in unread and not may_be_unnamed(path):
            part.problems.append(f"{path}: no manifest names it")


def _draw(part: Part, sample: Sample) -> None:
    """Draw what is looked at, and compare the sizes of all other files."""
    part.drawn = Drawn({name: sample.draw(made) for name, made in part.manifests.items()})
    left_out = (
        (stage, file)
        for stage, made in part.manifests.items()
        for entry in made.files
        if (piece := get_piece(entry)) is not None and not part.has_drawn(stage, piece)
        for file in entry.list_files()
    )
    part.problems.extend(check_sizes(part.there, left_out))


def _check_root(part: Part, root: str) -> None:
    if part.made.head is not None and root and (found := _find_root(part)) != root:
        where = get_path_below(part.made.head.stage, MANIFEST)
        part.problems.append(f"{where}: its root is {found}, expected {root}")


def _find_root(part: Part) -> str:
    head = part.made.head
    return (head.root or head.content_id()) if head is not None else ""


def _count_leftovers(part: Part) -> int:
    """Files of unfinished work."""
    return sum(path.startswith(f"{FOLDER}/") and not path.startswith(_OF_WATCHERS) for path in part.there)


def describe_problems(problems: Sequence[str], limit: int = 20) -> list[str]:
    """The first problems, a line each, and how many more there are."""
    return [*problems[:limit], *([f"... and {len(problems) - limit} more"] if len(problems) > limit else [])]
