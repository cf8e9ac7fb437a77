"""What a worker does before a part takes over shuffled shards: look which of them keep all of their documents. No Beam.

Documents leave with the files that are gone or changed, and by tombstones; a provenance file says which file each came
from. Every shard is read once here and compared with its manifest, so what is taken over later is known to be sound.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.formats.provenance import get_provenance_path
from tokcore.kernel import IdCounter
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore.shards.token_batch import TokenBatch, count_in_rows
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.store.attempts import Attempts, NewFile
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import open_tombstones
from tokcore_pipelines.work.derived_shards import ShardSource, list_shards_by_item, require_file
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.inherit_item import require_inherited_sums
from tokcore_pipelines.work.item_reader import LanguageTally, mark_removed
from tokcore_pipelines.work.ordered_shards import OrderedShards
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_pipelines.work.token_count_runs import append_id_run
from tokcore_schemas.inheritance import ShuffledBefore
from tokcore_schemas.refs import HashedDocuments, PartSurveyed, PartToSurvey, ShardEncoded, ShardRef, ShardSurveyed
from tokcore_schemas.stage_table import SHARDS


class Before(NamedTuple):
    """The shuffled shards of the part before, and which documents leave them."""

    source: ShardSource
    facts: ShuffledBefore
    leaving: frozenset[str]  # uris of files

    def mark_leaving(self, batch: TokenBatch) -> npt.NDArray[np.bool_]:
        """Whether each document leaves. batch: with the records that documents came from."""
        leaves = np.array([uri in self.leaving for uri in batch.sources.names], bool)[batch.sources.codes]
        if self.facts.removed is not None:
            leaves |= mark_removed(batch.ids, batch.langs, open_tombstones(self.facts.removed, self.source.output))
        return leaves


def find_before(attempts: Attempts) -> Before:
    """What is taken over. Raises StageError if there is no record of it."""
    less = require_inherited_sums(attempts)
    assert less.shuffled is not None
    source = ShardSource(less.output, SHARDS.name, less.shuffled.sha256)
    return Before(source, less.shuffled, frozenset(less.shuffled.leaving))


def make_surveyed_key(part: int) -> str:
    """The record key of a part of the shuffle before."""
    return f"surveyed-{part:05d}"


@freeing_memory
def survey_part(job: EncodeJob, part: PartToSurvey) -> PartSurveyed:
    """Look at the shards of a part of the shuffle before. Raises StageError for one that is damaged."""
    key = make_surveyed_key(part.number)
    if (done := job.attempts.result(key, PartSurveyed)) is not None:
        return done
    before = find_before(job.attempts)
    ordered = OrderedShards(before.source, before.facts.num_parts)
    shards = list_shards_by_item(before.source).get(part.number, [])
    with job.attempts.new_file(f"surveyed-{part.number:05d}.ids", skip_empty=True) as new:
        surveyed = PartSurveyed(part.number, tuple(_survey_shard(job, before, ordered, shard, new) for shard in shards))
    reach("inherit.surveyed")
    return job.attempts.record(key, surveyed)


def _survey_shard(
    job: EncodeJob, before: Before, ordered: OrderedShards, shard: ShardRef, new: NewFile
) -> ShardSurveyed:
    """new: gets the counts of ids of the shard, if it stays as it is."""
    output, stem = before.source.output, shard.facts.stem
    require_file(before.source, shard, get_provenance_path(stem))
    provenance = ordered.get_provenance(shard)
    tallies = defaultdict[str, LanguageTally](LanguageTally)
    ids, hashed, at, leaving_tokens, num_leaving = IdCounter(), DocumentsDigest(), 0, 0, 0
    for batch, digests in read_shard(output, shard):
        leaves = before.mark_leaving(provenance.restore(batch, at))
        at += batch.num_documents
        lengths = np.diff(batch.offsets)
        leaving_tokens += int(lengths[leaves].sum())
        num_leaving += int(leaves.sum())
        if num_leaving:
            continue
        ids.add(batch.tokens, batch.offsets)
        hashed.add(digests)
        unknown = count_in_rows(batch, job.unknown) if job.unknown is not None else np.zeros_like(lengths)
        for lang, where in batch.langs.by_label().items():
            tallies[lang].num_tokens += int(lengths[where].sum())
            tallies[lang].num_unknown += int(unknown[where].sum())
    first, last = (provenance.places[i].tobytes().hex() for i in (0, -1))
    if num_leaving:
        return ShardSurveyed(first, last, leaving_tokens, None)
    whole = ShardEncoded(
        shard,
        {lang: tally.freeze() for lang, tally in sorted(tallies.items())},
        HashedDocuments(hashed.num_documents, hashed.hexdigest()),
        append_id_run(new, ids.take()),
    )
    return ShardSurveyed(first, last, 0, whole)
