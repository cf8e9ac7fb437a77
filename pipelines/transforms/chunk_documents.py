"""Cut documents into chunks for retrieval, in your own Beam pipelines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from tokcore.tokenizer.chunks import Chunker
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.transforms.checks import check_document, check_documents
from tokcore_pipelines.transforms.transforms import BATCH_BYTES
from tokcore_schemas.document import Document, DocumentChunk


@dataclasses.dataclass
class ChunkDocuments(beam.PTransform):
    """PCollection[Document] -> PCollection[DocumentChunk]. Keeps windows and timestamps; the order is unspecified.

    No chunk has more tokens than `tokens`; two share at most `overlap`. A chunk ends where a paragraph, a line or a
    sentence ends, if one does near, else with a word. Raises ConfigError for numbers that do not fit together, and for
    a tokenizer that changes text, TypeError for elements of another type. A text that is not UTF-8 fails the pipeline.

    >>> from tokcore_schemas import Document
    >>> tokenizer = Tokenizer.load("out/first")
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     documents = pipeline | beam.Create([Document("en", "a", "low lower. low low lower low")])
    ...     chunks = documents | ChunkDocuments(tokenizer, tokens=8, overlap=0)
    ...     _ = chunks | beam.Map(lambda chunk: print(chunk.chunk, repr(chunk.text)))
    0 'low lower. low low lower'
    1 ' low'
    """

    tokenizer: Tokenizer
    tokens: int = 512
    overlap: int = 64

    def __post_init__(self) -> None:
        super().__init__()
        Chunker(self.tokenizer, self.tokens, self.overlap)

    def expand(self, documents: beam.PCollection[Document]) -> beam.PCollection[DocumentChunk]:
        check_documents("ChunkDocuments", documents)
        import_in_workers(documents.pipeline)
        chunk = _ChunkBatch(self.tokenizer, self.tokens, self.overlap)
        return documents | "ChunkBatch" >> beam.ParDo(chunk).with_output_types(DocumentChunk)


class _ChunkBatch(beam.DoFn):
    def __init__(self, tokenizer: Tokenizer, tokens: int, overlap: int) -> None:
        self._tokenizer = tokenizer
        self._tokens, self._overlap = tokens, overlap

    def setup(self) -> None:
        self._chunker = Chunker(self._tokenizer, self._tokens, self._overlap)

    def start_bundle(self) -> None:
        self._waiting: list[tuple[Document, Any, Any]] = []
        self._waiting_bytes = 0

    def process(
        self, document: Document, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[WindowedValue]:
        check_document("ChunkDocuments", document)
        self._waiting.append((document, timestamp, window))
        self._waiting_bytes += len(document.text)
        if self._waiting_bytes >= BATCH_BYTES:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self._flush()

    def _flush(self) -> Iterator[WindowedValue]:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        texts = [one.text.encode() if isinstance(one.text, str) else one.text for one, _, _ in waiting]
        found = run_here(lambda: self._chunker.cut(texts))
        count_in_metrics("ChunkDocuments", {"documents": len(texts), "chunks": sum(map(len, found))})
        for (document, timestamp, window), chunks in zip(waiting, found, strict=True):
            for number, one in enumerate(chunks):
                chunk = DocumentChunk(document.lang, document.id, number, one.text.decode(), *one[1:])
                yield WindowedValue(chunk, timestamp, (window,))
