"""Write documents to committed token shards in your own Beam pipelines."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam

from tokcore.errors import ConfigError
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.store.attempts import Attempts, remove_attempts
from tokcore_pipelines.transforms.checks import check_document, check_documents, check_ends
from tokcore_pipelines.work.commit_shards import commit_shards
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.make_jobs import make_encode_job
from tokcore_pipelines.work.sort_documents import choose_bucket
from tokcore_pipelines.work.write_bucket import write_bucket
from tokcore_schemas.document import Document
from tokcore_schemas.refs import ItemEncoded, ShardsCommitted
from tokcore_schemas.stage_manifests import ShardsConfig


@dataclasses.dataclass
class WriteShards(beam.PTransform):
    """PCollection[Document] -> PCollection[ShardsCommitted]: one element, after FOLDER/shards has its manifest.

    A hash of (lang, id), or of (lang, text) of documents without id, deals documents into buckets. A bucket is sorted
    by id, then content, and becomes one shard, or several where it reaches target_tokens. So equal documents give
    equal bytes, in any order, in any bundles and on any runner. tokcore.open_shards(FOLDER) reads them.

    While the pipeline is built, an input that is unbounded, in other windows than the global one or with a trigger
    raises ConfigError, one of other elements TypeError. A folder that holds other shards fails the pipeline with
    ConfigError; the same shards are left alone. Without any document, nothing is written.

    >>> from tokcore_schemas import Document
    >>> tokenizer = Tokenizer.load("out/first")
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     documents = pipeline | beam.Create([Document("en", "a", "lower"), Document("en", "b", "low")])
    ...     _ = documents | WriteShards("mine", tokenizer, append=["<|endoftext|>"])
    >>> import tokcore
    >>> [row.tolist() for row in tokcore.open_shards("mine")]
    [[257, 259, 261], [257, 261]]
    """

    folder: str  # URL
    tokenizer: Tokenizer
    num_buckets: int = 1  # one worker sorts a bucket and writes its shards
    formats: Sequence[str] = ("arrow",)
    target_tokens: int = 1 << 27
    append: Sequence[str] = ()  # special tokens after each document
    prepend: Sequence[str] = ()  # special tokens before each document
    compression: str = "zstd"

    def __post_init__(self) -> None:
        super().__init__()
        for name, value in (("num_buckets", self.num_buckets), ("target_tokens", self.target_tokens)):
            if value < 1:
                raise ConfigError(f"{name} = {value}: must be at least 1")
        if unknown := [name for name in self.formats if name not in SHARD_FORMATS]:
            raise ConfigError(f"formats: {unknown[0]!r}: expected some of {', '.join(SHARD_FORMATS)}")
        self._config = ShardsConfig(
            formats=tuple(sorted(self.formats)),
            plugins=SHARD_FORMATS.find_versions(self.formats),
            target_tokens=self.target_tokens,
            by="plan",
            validation="0",
            compression=self.compression,
            append=tuple(self.append),
            special_text="ordinary",
            prepend=tuple(self.prepend),
        )
        attempts = Attempts(self.folder, "shards", uuid.uuid4().hex)
        self._job = make_encode_job(self._config, attempts, "", "", "", self.tokenizer.spec)

    def expand(self, documents: beam.PCollection[Document]) -> beam.PCollection[ShardsCommitted]:
        check_documents("WriteShards", documents)
        check_ends("WriteShards", documents)
        import_in_workers(documents.pipeline)
        return (
            documents
            | "DealDocument" >> beam.ParDo(_DealDocument(self.num_buckets)).with_output_types(tuple[int, Document])
            | "GroupByBucket" >> beam.GroupByKey()
            | "WriteBucket"
            >> beam.ParDo(_WriteBucket(self._job, self.tokenizer)).with_output_types(tuple[int, ItemEncoded])
            | "GroupAll" >> beam.GroupByKey()  # descriptions of shards: as many as there are buckets
            | "Commit"
            >> beam.ParDo(_Commit(self._job, self._config, self.tokenizer)).with_output_types(ShardsCommitted)
        )


class _DealDocument(beam.DoFn):
    def __init__(self, num_buckets: int) -> None:
        self._num_buckets = num_buckets

    def process(self, document: Document) -> Iterator[tuple[int, Document]]:
        check_document("WriteShards", document)
        yield choose_bucket(document, self._num_buckets), document


class _WriteBucket(beam.DoFn):
    def __init__(self, job: EncodeJob, tokenizer: Tokenizer) -> None:
        self._job = job
        self._tokenizer = tokenizer

    def process(self, group: tuple[int, Iterable[Document]]) -> Iterator[tuple[int, ItemEncoded]]:
        bucket, documents = group
        written = run_here(lambda: write_bucket(self._job, self._tokenizer, bucket, documents))
        counts = written.languages.values()
        count_in_metrics(
            "WriteShards",
            {
                "documents": sum(one.num_documents for one in counts),
                "text_bytes": sum(one.text_bytes for one in counts),
                "tokens": sum(one.num_tokens for one in counts),
            },
        )
        yield 0, written


class _Commit(beam.DoFn):
    def __init__(self, job: EncodeJob, config: ShardsConfig, tokenizer: Tokenizer) -> None:
        self._job = job
        self._config = config
        self._tokenizer = tokenizer

    def process(self, group: tuple[int, Iterable[ItemEncoded]]) -> Iterator[ShardsCommitted]:
        items = list(group[1])
        committed = run_here(lambda: commit_shards(self._job, self._config, self._tokenizer.spec, items))
        remove_attempts(self._job.attempts)
        yield committed
