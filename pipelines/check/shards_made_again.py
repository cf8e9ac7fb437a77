"""A stored shard beside the same one made again from its inputs: what differs, and what may. No Beam."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tokcore.errors import TokError
from tokcore.formats.arrow_columns import RecordBatches
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile, list_paths
from tokcore_pipelines.build.commit import find_package_versions, read_run_facts
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK
from tokcore_pipelines.history.tombstone_changes import list_planned_files
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_pipelines.store.opened_tombstones import link_files
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.refs import ShardRef


@contextlib.contextmanager
def make_again(stored: Stored, made: AnyManifest, number: int) -> Iterator[tuple[Attempts, Any]]:
    """Make a piece of a stage once more: the working folder, which goes at the end, and the record of the piece."""
    again = WORK[made.stage].again
    assert again is not None
    with storage.make_scratch_folder("tokcore-again-") as folder:
        link_files(stored.url, folder, list_planned_files(stored.url))
        attempts = Attempts(folder, made.stage, made.identity)
        yield attempts, again(stored, attempts, number)


class Compared(NamedTuple):
    """What comparing a shard found."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]  # what differs and may


def compare(
    output: str, attempts: Attempts, shard: ShardRef, again: Sequence[ShardRef], wrong: Sequence[str] = ()
) -> Compared:
    """Compare what a manifest says of a shard with the one made again in a working folder.

    again: the shards among which it must be. attempts: where they lie, of the stage that has the shard. wrong: in what
    its files are not those that were committed; these are the first problems.
    """
    stage = attempts.stage
    ref = next((one for one in again if one.facts.stem == shard.facts.stem), None)
    if ref is None:
        return Compared((*wrong, f"{stage}/{shard.facts.place}: its inputs give no such shard"), ())
    problems, notes = [*wrong], []
    if ref.facts != shard.facts:
        problems.append(f"{stage}/{shard.facts.place}: {shard.facts}, its inputs give {ref.facts}")
    made = {file.path: file for file in ref.files}
    for entry in shard.files:
        path = f"{stage}/{entry.path}"
        if entry.path not in made:
            problems.append(f"{path}: not made again")
        elif made[entry.path].content_sha256 != entry.content_sha256:
            problems.append(f"{path}: its inputs give other content than was committed")
        elif made[entry.path].sha256 != entry.sha256:
            changed = _describe_versions(output, stage) if _is_by_arrow(shard, entry.path) else ""
            told = f"{path}: the same content in other bytes"
            if changed:
                notes.append(f"{told}: {changed}")
            else:
                problems.append(f"{told}, with the same versions of the libraries that write them")
    if problems or notes:
        problems.extend(_find_first_difference(output, attempts, shard, ref))
    return Compared(tuple(problems), tuple(notes))


def _is_by_arrow(shard: ShardRef, path: str) -> bool:
    """Whether pyarrow writes the file, so that its bytes may be others with another version."""
    one = next((SHARD_FORMATS[name] for name, _ in find_main_files(shard) if path in _list_own(shard, name)), None)
    return one is None or one.has_columns  # files beside those of formats are Arrow's


def _list_own(shard: ShardRef, format: str) -> Sequence[str]:
    return list_paths(SHARD_FORMATS[format], shard.facts.stem)


def _describe_versions(output: str, stage: str) -> str:
    """The versions that were others when the stage was made; empty if none was."""
    then, now = read_run_facts(output, stage).packages, find_package_versions()
    return ", ".join(f"{name} {then.get(name)} then, {now[name]} now" for name in now if then.get(name) != now[name])


def _find_first_difference(output: str, attempts: Attempts, shard: ShardRef, ref: ShardRef) -> Iterator[str]:
    """The first document that is not the same in a stored file and the one made again; files beside that differ."""
    stage, again = attempts.stage, urls.join(attempts.output, "again")
    publish(attempts, again, ref.files)
    with copy_shard_if_remote(output, shard, stage) as stored:
        for name, path in find_main_files(ref):
            one, other = FormatFile(name, f"{stored}/{path}"), FormatFile(name, f"{again}/{path}")
            try:
                pairs = itertools.zip_longest(_read_documents(one), _read_documents(other))
                for row, (old, new) in enumerate(pairs):
                    if old != new:
                        source, ordinal = (new or old or ("", 0))[:2]
                        yield f"{stage}/{path}: document {row} ({source}, ordinal {ordinal}) is the first that differs"
                        break
            except (TokError, OSError) as error:
                yield f"{stage}/{path}: cannot be compared by document: {error}"
        of_formats = {path for name, _ in find_main_files(ref) for path in _list_own(ref, name)}
        for path in sorted({file.path for file in ref.files} - of_formats):
            try:
                if not _has_equal_rows(f"{stored}/{path}", f"{again}/{path}"):
                    yield f"{stage}/{path}: its rows are not those that follow from its inputs"
            except (TokError, OSError) as error:
                yield f"{stage}/{path}: cannot be compared by rows: {error}"


def _has_equal_rows(path: str, other: str) -> bool:
    one, two = RecordBatches(path), RecordBatches(other)
    return (
        one.schema.equals(two.schema, check_metadata=True)
        and len(one) == len(two)
        and all(one.decoded(number).equals(two.decoded(number)) for number in range(len(one)))
    )


def _read_documents(file: FormatFile) -> Iterator[tuple[str, int, str | None, str, bytes]]:
    """(source, ordinal, id, lang, tokens) of each document of a shard."""
    for batch in file.open().batches():
        for i in range(batch.num_documents):
            tokens = batch.tokens[batch.offsets[i] : batch.offsets[i + 1]].tobytes()
            yield batch.sources[i], int(batch.ordinals[i]), batch.ids[i], batch.langs[i], tokens
