"""What WriteShards does with the documents of one bucket: sort them, tokenize them, write them to shards. No Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import numpy as np

from tokcore.shards.labels import label_strings, repeat_label
from tokcore.shards.token_batch import TokenBatch, add_ids
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.work.count_item import make_item_key
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.item_reader import LanguageTally
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.result_keys import make_bucket_key
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_pipelines.work.sort_documents import Sortable, SortedDocuments, sort_documents
from tokcore_pipelines.work.token_count_runs import write_id_run
from tokcore_schemas.document import Document
from tokcore_schemas.refs import ItemEncoded, StoredFile

_BATCH_BYTES = 4 << 20
_SORT_BYTES = 64 << 20
_ONE_STREAM = ("", "train")
_NO_FILE = StoredFile("", "", 0, "", "")


def write_bucket(
    job: EncodeJob, tokenizer: Tokenizer, bucket: int, documents: Iterable[Document], sort_bytes: int = _SORT_BYTES
) -> ItemEncoded:
    """Write the documents of a bucket to shards, sorted by id, then content; equal documents give equal bytes.

    sort_bytes: text that is sorted in memory; more goes through sorted files.
    """
    if (done := job.attempts.result(make_item_key(bucket), ItemEncoded)) is not None:
        return done
    tallies: dict[str, LanguageTally] = {}
    with sort_documents(documents, sort_bytes) as ordered, contextlib.ExitStack() as stack:
        streams = ShardStreams(job, bucket, make_bucket_key(job.settings_sha256, ordered), stack)
        first = 0
        for batch in _cut_into_batches(ordered):
            _write_batch(job, tokenizer, streams, batch, first)
            first += len(batch)
            for one in batch:
                tally = tallies.setdefault(one.lang, LanguageTally())
                tally.num_documents += 1
                tally.text_bytes += len(one.text)
        shards, counts = streams.close()
    read = {lang: tally.freeze() for lang, tally in tallies.items()}
    return job.attempts.record(
        make_item_key(bucket),
        ItemEncoded(
            item=bucket,
            ledgers=(),
            languages=add_up_languages([read, *(one.languages for one in shards)]),
            shards=tuple(one.shard for one in shards),
            hashed=add_up_hashed(one.hashed for one in shards),
            token_counts=write_id_run(job.attempts, f"bucket-{bucket:05d}", counts),
            special_text={},
            rejects=_NO_FILE,
        ),
    )


def _cut_into_batches(ordered: SortedDocuments) -> Iterator[list[Sortable]]:
    batch: list[Sortable] = []
    size = 0
    for one in ordered:
        batch.append(one)
        size += len(one.text)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_batch(
    job: EncodeJob, tokenizer: Tokenizer, streams: ShardStreams, batch: list[Sortable], first: int
) -> None:
    """Tokenize a batch, and write it to the shards. first: number of its first document in the bucket."""
    where = streams.unfinished([_ONE_STREAM] * len(batch))
    if not len(where):
        return
    chosen = [batch[i] for i in where.tolist()]
    ids, offsets, pretokens = tokenizer.encode_texts(make_texts_from_strings(one.text for one in chosen))
    ids, offsets = add_ids(ids, offsets, job.prepend, job.append)
    tokens = TokenBatch(
        tokens=ids,
        offsets=offsets,
        ids=[one.id.decode() if one.has_id else None for one in chosen],
        langs=label_strings(one.lang for one in chosen),
        sources=repeat_label("", len(chosen)),
        ordinals=where.astype(np.int64) + first,
    )
    streams.write(EncodedDocuments(tokens, pretokens), [_ONE_STREAM] * len(chosen))
