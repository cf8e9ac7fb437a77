"""What a worker does with a work item that a part takes over from the part before: no source is read. No Beam.

Shards are read once, in the format that is read fastest, and compared with what the part before says of them; their
files are linked, or copied in an object store. Sums over all inherited items are in the record of one of them: those of
the part before, less what leaves (tokcore_pipelines.work.left_out_documents).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tokcore.errors import LedgerError, StageError
from tokcore.kernel import IdCounter, IdRows
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.parallel_requests import MOST_FILES, run_at_once
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files
from tokcore_pipelines.work.item_reader import write_rejects_to
from tokcore_pipelines.work.read_shards import check_batches
from tokcore_schemas.inheritance import SUMS_KEY, InheritedItem, InheritedSums, make_inherited_key
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import HashedDocuments, LanguageCounts, ShardRef, StoredFile, spell_shard_name


class Inherited(NamedTuple):
    """An inherited work item."""

    item: InheritedItem
    rejects: StoredFile


def find_inherited(attempts: Attempts, assignment: Assignment) -> Inherited | None:
    """What the part before says of a work item, with the file of its rejects; None if it is to be read."""
    item = attempts.result(make_inherited_key(assignment.number), InheritedItem)
    if item is None:
        return None
    with attempts.new_file(f"item-{assignment.number:05d}.rejects", skip_empty=True) as rejects:
        for reject in item.rejects:
            write_rejects_to(rejects.file)(reject)
    report_progress("read", assignment.size_bytes)
    return Inherited(item, rejects.stored(""))


def require_inherited_sums(attempts: Attempts) -> InheritedSums:
    """The sums of the part before, and what is to be taken away. Raises StageError if the record is gone."""
    if (less := attempts.result(SUMS_KEY, InheritedSums)) is None:
        raise StageError(f"stage {attempts.stage}: there is no record of what is inherited. Run the command again.")
    return less


def subtract_languages(
    total: Mapping[str, LanguageCounts], gone: Mapping[str, LanguageCounts]
) -> dict[str, LanguageCounts]:
    """What is left of the totals of each language; a language of which nothing is left is left out.

    Raises LedgerError if more would be taken away than there is.
    """
    left = {}
    for lang in sorted({*total, *gone}):
        had, less = total.get(lang, LanguageCounts(0, 0)), gone.get(lang, LanguageCounts(0, 0))
        values = [a - b for a, b in zip(had.values(), less.values(), strict=True)]
        if min(values) < 0:
            raise LedgerError(f"{lang}: {less} are to be taken away from {had}")
        if any(values):
            left[lang] = LanguageCounts(*values)
    return left


def subtract_counts(total: Mapping[str, int], gone: Mapping[str, int]) -> dict[str, int]:
    """What is left of numbers with names, without zeros. Raises LedgerError if less than nothing would be."""
    left = {name: total.get(name, 0) - gone.get(name, 0) for name in sorted({*total, *gone})}
    if any(number < 0 for number in left.values()):
        raise LedgerError(f"{dict(gone)} are to be taken away from {dict(total)}")
    return {name: number for name, number in left.items() if number}


# --------------------------------------------------------------------------------------------------- inherited shards


class TakenOver(NamedTuple):
    """Shards of an inherited work item, and what is added up over their documents."""

    shards: tuple[ShardRef, ...]
    hashed: HashedDocuments
    token_counts: IdRows


def take_over_shards(
    attempts: Attempts, output: str, number: int, shards: Sequence[ShardRef], result_key: str
) -> TakenOver:
    """Give shards of another part of the output the names that they would have if this work item had been read.

    Raises StageError for one that is damaged.
    """
    hashed, ids = DocumentsDigest(), IdCounter()
    taken = []
    for shard in shards:
        with copy_shard_if_remote(output, shard) as folder:
            batches = find_main_files(shard, folder)[0].open().batches()
            for batch, digests in check_batches(output, shard, batches):
                hashed.add(digests)
                ids.add(batch.tokens, batch.offsets)
            name = spell_shard_name(shard.facts.split, number, int(shard.facts.shard.rpartition("-")[2]))
            taken.append(take_over_files(attempts, output, folder, number, shard, name, result_key))
        reach("inherit.shard")
    attempts.sync()
    return TakenOver(tuple(taken), HashedDocuments(hashed.num_documents, hashed.hexdigest()), ids.take())


def take_over_files(
    attempts: Attempts,
    output: str,
    folder: str,
    number: int,
    shard: ShardRef,
    name: str,
    result_key: str,
    stage: str = "shards",
) -> ShardRef:
    """Give a shard of another part of the output another name. number: of the work item or part that has it now.

    folder: on this machine, with the files, or copies of them. stage: that wrote them.
    """
    old = shard.facts
    facts = dataclasses.replace(old, shard=name, item=number, result_key=result_key)

    def take_over(file: StoredFile) -> StoredFile:
        url = urls.join(output, stage, file.path)
        return attempts.take_over(url, file, file.path.replace(old.stem, facts.stem), f"{folder}/{file.path}")

    return ShardRef(facts, shard.content_sha256, tuple(run_at_once(take_over, shard.files, MOST_FILES)))
