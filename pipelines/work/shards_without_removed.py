"""Shards of a work item, written again without the documents that were removed: no source is read. No Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from tokcore_pipelines.store.opened_tombstones import open_tombstones
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.inherit_item import TakenOver
from tokcore_pipelines.work.item_reader import mark_removed
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ShardRef


def thin_shards(
    job: EncodeJob, output: str, assignment: Assignment, shards: Sequence[ShardRef], result_key: str
) -> TakenOver:
    """Shards of another part of the output, with the tokens that they have, cut as if the work item had been read.

    assignment: its tombstones say what was removed. Raises StageError for a shard that is damaged.
    """
    settings = assignment.ranges[0].settings
    assert settings.removed is not None
    removed = open_tombstones(settings.removed, output)
    with contextlib.ExitStack() as stack:
        # Nothing is recorded before all shards were compared with their manifest.
        streams = ShardStreams(job, assignment.number, result_key, stack, resumes=False)
        for shard in shards:
            stream = (shard.facts.folder, shard.facts.split)
            for batch, _ in read_shard(output, shard):
                left = batch.take(np.flatnonzero(~mark_removed(batch.ids, batch.langs, removed)).tolist())
                if of := [stream] * left.num_documents:
                    streams.unfinished(of)
                    # Pre-tokens follow from the sums of the part before.
                    streams.write(EncodedDocuments(left, np.zeros(len(of), np.int64)), of)
        written, counts = streams.close()
    return TakenOver(tuple(one.shard for one in written), add_up_hashed(one.hashed for one in written), counts)
