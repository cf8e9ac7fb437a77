"""`tokcore verify OUTPUT --removed FILE`: proof that documents are in no commit that can still be read.

Shards are read, and each document is looked up by its id, language and source. Count tables follow: a part's tables
were counted from the documents that are in its shards, which `tokcore verify` checks. Rejects are looked through for
the ids as text (tokcore_pipelines.history.find_quoted). Rows that stayed in place are read in every format: padding is
where the documents were.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.build.read_log import Log, locate_part, read_log
from tokcore_pipelines.build.tokenizers_beside import FOLDER, find_commit_of, list_beside
from tokcore_pipelines.check.rows_in_place import RowsInPlace, look_at_rows
from tokcore_pipelines.history.find_quoted import SpelledIds, read_quoted
from tokcore_pipelines.history.find_removed import find_removed
from tokcore_pipelines.history.named_ids import FoundNames, IdFile, Ids, make_wanted
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.opened_tombstones import EitherTombstones
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_schemas.commit_log import EXPIRE, Part
from tokcore_schemas.stage_manifests import LearnedConfig
from tokcore_schemas.stage_table import SHARDS, TOKENIZER


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """What a part still holds of what was removed."""

    path: str
    commits: tuple[int, ...]  # that have the part
    documents: int
    files: int  # of its plan
    rejects: int  # whose sample or detail spells an id, or whose file was removed
    rows: int = 0  # that stayed in place, and still have something of a document


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalReport:
    """What was found; nothing is left if problems is empty."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    held: tuple[Held, ...]
    names: int  # ids that were looked for
    commits: int  # that can be read, and were looked at
    masked_documents: int = 0  # that are padding in the rows of the newest commit
    masked_tokens: int = 0


def verify_removed(output: str, ids: Ids, options: RunOptions | None = None) -> RemovalReport:
    """Look for documents in all commits: those of these ids, and all that the log says were removed.

    options: how many workers read shards, if there are many documents. Raises ConfigError if there is no finished
    build, FormatError for a broken log or a damaged file.
    """
    with storage.make_scratch_folder("tokcore-names-") as folder:
        return _verify(read_log(output), ids, options or RunOptions(), folder)


def _verify(log: Log, ids: Ids, options: RunOptions, folder: str) -> RemovalReport:
    """As verify_removed. folder: a path, for ids that are too many for memory."""
    output, known = log.output, log.open_tombstones()
    many, few = (ids, ()) if isinstance(ids, IdFile) else (None, ids)
    wanted = make_wanted(log.tombstone_key, (("id", one) for one in few), many, folder)
    removed = EitherTombstones(wanted, known) if known is not None else wanted
    if known is None and not wanted.plain.num:
        return RemovalReport((), ("nothing was removed, and no id is given",), (), 0, log.newest + 1 - log.oldest)
    spelled = SpelledIds(ids, wanted)
    num_commits = log.newest + 1 - log.oldest
    reachable = log.reachable()
    documents = _count_documents(log, removed, options)
    rows = {part: look_at_rows(locate_part(output, part), removed, options) for part in reachable}
    held = [
        dataclasses.replace(_look(output, part, numbers, removed, spelled, documents[part]), rows=rows[part].wrong)
        for part, numbers in reachable.items()
    ]
    left = tuple(one for one in held if one.documents or one.files or one.rejects or one.rows)
    last = max((one.commits[-1] for one in left), default=0)
    # The states after the last one that holds something; if all do, that of a removal to come.
    keep = max(1, len([one for one in log.commits[last:] if one.why.command != EXPIRE]))
    problems = [_describe(log, one, keep) for one in left]
    if lacking := FoundNames(wanted, folder).list_missing(known, (), 0)[1]:
        problems.append(
            f"log: no commit removes {lacking:,} of the ids, so an update may bring them: run `tokcore remove`"
        )
    return RemovalReport(
        tuple(problems),
        (*_name_masked(rows), *_name_tokenizers(log, held)),
        left,
        wanted.plain.num,
        num_commits,
        sum(rows[part].documents for part in log.parts()),
        sum(rows[part].tokens for part in log.parts()),
    )


def _name_masked(rows: Mapping[Part, RowsInPlace]) -> Iterator[str]:
    """What took the place of removed documents in rows that stay where they are."""
    for part, one in rows.items():
        if one.documents and not one.wrong:
            yield (
                f"{part.path}: {format_count(one.documents, 'document')} in {format_count(one.rows, 'row')} "
                f"{'is' if one.documents == 1 else 'are'} padding in every format, {format_count(one.tokens, 'id')}"
            )


def _count_documents(log: Log, removed: TombstoneLookup, options: RunOptions) -> Counter[Part]:
    """Part -> documents in its shards that were removed."""
    of = {locate_part(log.output, part): part for part in log.reachable()}
    places = [(url, require_manifest(url, SHARDS)) for url in of]
    with contextlib.closing(Workers(options, ())) as workers:
        return Counter(of[url] for url, _ in find_removed(places, removed, workers))


def _look(
    output: str, part: Part, commits: Iterable[int], removed: TombstoneLookup, spelled: SpelledIds, documents: int
) -> Held:
    url = locate_part(output, part)
    gone = {file.uri for file in read_pinned_files(url) if removed.has("source", file.uri)}
    return Held(part.path, tuple(commits), documents, len(gone), _count_rejects(url, gone, spelled))


def _count_rejects(url: str, gone: Collection[str], spelled: SpelledIds) -> int:
    """The rejects of a part that are of removed files, or spell an id in what they quote."""
    return sum(file in gone or bool(quoted) for file, quoted in read_quoted(url, spelled))


def _describe(log: Log, held: Held, keep: int) -> str:
    what = [
        f"{format_count(number, noun)}{where}"
        for number, noun, where in (
            (held.documents, "document", " in shards and tables"),
            (held.files, "input file", ""),
            (held.rejects, "reject", ""),
            (held.rows, "row", " with ids or names of documents"),
        )
        if number
    ]
    first, last = held.commits[0], held.commits[-1]
    commits = f"commit {first}" if first == last else f"commits {first} to {last}"
    fix = "run `tokcore remove`" if last == log.newest else f"run `tokcore expire --keep {keep}`"
    return f"{held.path}: {commits}: {', '.join(what)} that should be gone: {fix}"


def _name_tokenizers(log: Log, held: Sequence[Held]) -> Iterator[str]:
    """The tokenizers that were learned from documents that are to be gone."""
    made = find_manifest(log.output, TOKENIZER)
    if made is not None and isinstance(made.config, LearnedConfig):
        yield from _name_tokenizer(f"tokenizer/ ({made.totals.fingerprint})", 0, log, held)
    for fingerprint, beside in list_beside(log.output).items():
        yield from _name_tokenizer(f"{FOLDER}/{fingerprint}", find_commit_of(log, beside), log, held)


def _name_tokenizer(name: str, number: int, log: Log, held: Sequence[Held]) -> Iterator[str]:
    """One tokenizer, which was learned from a commit, if that had such documents."""
    named = f"{name} was learned from commit {number}"
    fix = "build with another one if it must not have seen them"
    documents = sum(one.documents for one in held if number in one.commits)
    if documents:
        yield f"{named}, with {documents:,} of the documents: {fix}"
    elif number < log.oldest and any(one.removed for one in log.commits[number:]):
        yield f"{named}, which is expired and may have had the documents: {fix}"
