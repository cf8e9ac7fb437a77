"""Count and encode documents in your own Beam pipelines; read_documents and write_shards are what goes round them.

The stages of a build run the same code on input ranges of files.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from tokcore.errors import ConfigError
from tokcore.shards.token_batch import add_ids
from tokcore.text.masking import check_mask
from tokcore.text.normalize import Normalizer
from tokcore.text.patterns import DEFAULT_PATTERN
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.run.engines.merge_graph import AddUpRuns, KeyedRun
from tokcore_pipelines.store.attempts import Attempts, publish, remove_attempts
from tokcore_pipelines.transforms.checks import check_document, check_documents, check_ends
from tokcore_pipelines.work.combining import add_up_counts
from tokcore_pipelines.work.count_item import LanguageTables
from tokcore_pipelines.work.item_reader import LanguageTally
from tokcore_pipelines.work.key_ranges import HashedKeys
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.document import Document, EncodedDocument
from tokcore_schemas.refs import TableRef

# The kernel gets documents in batches of about this many bytes.
BATCH_BYTES = 4 << 20


@dataclasses.dataclass
class CountPretokens(beam.PTransform):
    """PCollection[Document] -> PCollection[TableRef]: one sorted Parquet table per language, FOLDER/LANG.parquet.

    Columns: pretoken (binary), count (uint64), documents (uint64). The order of the output is unspecified. Work in
    progress lies in FOLDER/_attempts, and is removed once all tables are there. While the pipeline is built, an input
    that is unbounded or in other windows than the global one raises ConfigError, one of other elements TypeError.

    >>> import pyarrow.parquet
    >>> from tokcore_schemas import Document
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     documents = pipeline | beam.Create([Document("en", None, "a cat"), Document("en", None, "a dog")])
    ...     tables = documents | CountPretokens("counts")
    >>> pyarrow.parquet.read_table("counts/en.parquet").to_pylist()[0]
    {'pretoken': b' cat', 'count': 1, 'documents': 1}
    """

    folder: str  # URL
    pattern: str = DEFAULT_PATTERN  # a named pattern or a regex
    max_pretoken_bytes: int = 1024
    memory_bytes: int = 512 << 20  # per worker thread; more spills to disk
    num_partitions: int = 1  # a power of two; does not change the table
    mask: Sequence[str] = ()  # names of MASK_PRESETS; pre-tokens that touch one of their spans are not counted
    normalize: Sequence[str] = ()  # steps of a normalizer, in order

    def __post_init__(self) -> None:
        super().__init__()
        Pretokenizer.of(self.pattern)
        if self.num_partitions < 1 or self.num_partitions & (self.num_partitions - 1):
            raise ConfigError(f"num_partitions = {self.num_partitions}: must be a power of two")
        self.mask = check_mask(self.mask)
        Normalizer(tuple(self.normalize))
        self._attempts = Attempts(self.folder, "counts", uuid.uuid4().hex, self.folder)

    def expand(self, documents: beam.PCollection[Document]) -> beam.PCollection[TableRef]:
        check_documents("CountPretokens", documents)
        check_ends("CountPretokens", documents)
        import_in_workers(documents.pipeline)
        published = (
            documents
            | "CountDocuments" >> beam.ParDo(_CountDocuments(self._attempts, self)).with_output_types(KeyedRun)
            | "MergeIntoTables" >> AddUpRuns(self._attempts, add_up_counts(HashedKeys(self.num_partitions)), TableRef)
            | "PublishTable" >> beam.ParDo(_PublishTable(self._attempts)).with_output_types(tuple[int, TableRef])
        )
        # A description of each table: as many as there are languages.
        return (
            published
            | "GroupAll" >> beam.GroupByKey()
            | "CleanUp" >> beam.ParDo(_CleanUp(self._attempts)).with_output_types(TableRef)
        )


class _CountDocuments(beam.DoFn):
    def __init__(self, attempts: Attempts, settings: CountPretokens) -> None:
        self._attempts = attempts
        self._pattern = settings.pattern
        self._max_pretoken_bytes = settings.max_pretoken_bytes
        self._memory_bytes = settings.memory_bytes
        self._ranges = HashedKeys(settings.num_partitions)
        self._mask = check_mask(settings.mask)
        self._normalize = tuple(settings.normalize)

    def setup(self) -> None:
        self._normalizer = Normalizer(self._normalize)
        self._pretokenizer = Pretokenizer.of(self._pattern)

    def start_bundle(self) -> None:
        name = f"bundle-{uuid.uuid4().hex[:12]}"
        self._tables = LanguageTables(self._attempts, name, self._max_pretoken_bytes, self._ranges, self._mask)
        self._waiting: dict[str, list[str | bytes]] = {}
        self._waiting_bytes = 0

    def process(self, document: Document) -> None:
        check_document("CountPretokens", document)
        self._waiting.setdefault(document.lang, []).append(document.text)
        self._waiting_bytes += len(document.text)
        if self._waiting_bytes >= BATCH_BYTES:
            self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        self._flush()
        for run in (run for file in self._tables.close() for run in file.list_runs()):
            yield WindowedValue((("", run.partition), run), MIN_TIMESTAMP, (GlobalWindow(),))

    def _flush(self) -> None:
        for lang, texts in self._waiting.items():
            given = make_texts_from_strings(texts)
            tally = LanguageTally()
            self._tables.add(CountKey(lang), self._normalizer.apply(given), self._pretokenizer, tally)
            count_in_metrics(
                "CountPretokens",
                {"documents": given.num_texts, "text_bytes": given.size_bytes, "pretokens": tally.num_pretokens},
            )
        self._tables.spill_if_over(self._memory_bytes)
        self._waiting, self._waiting_bytes = {}, 0


class _PublishTable(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, table: TableRef) -> Iterator[tuple[int, TableRef]]:
        run_here(lambda: publish(self._attempts, self._attempts.output, [table.file]))
        yield 0, table


class _CleanUp(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, group: tuple[int, Iterable[TableRef]]) -> Iterator[TableRef]:
        tables = list(group[1])
        remove_attempts(self._attempts)
        yield from tables


@dataclasses.dataclass
class EncodeDocuments(beam.PTransform):
    """PCollection[Document] -> PCollection[EncodedDocument]. Keeps windows and timestamps; the order is unspecified.

    Text that spells a special token is ordinary text. prepend, append: special tokens to put before and after each
    document. Raises ConfigError for a name in them that is not a special token, TypeError for elements of another type.

    >>> from tokcore_schemas import Document
    >>> tokenizer = Tokenizer.load("out/first")
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     documents = pipeline | beam.Create([Document("en", None, "lower")])
    ...     encoded = documents | EncodeDocuments(tokenizer, append=["<|endoftext|>"])
    ...     _ = encoded | beam.Map(lambda document: print(document.tokens.tolist()))
    [257, 259, 261]
    """

    tokenizer: Tokenizer
    append: Sequence[str] = ()
    prepend: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__init__()
        for name, texts in (("prepend", self.prepend), ("append", self.append)):
            if unknown := [text for text in texts if text not in self.tokenizer.specials]:
                raise ConfigError(f"{name}: {unknown[0]!r} is not a special token of the tokenizer")

    def expand(self, documents: beam.PCollection[Document]) -> beam.PCollection[EncodedDocument]:
        check_documents("EncodeDocuments", documents)
        import_in_workers(documents.pipeline)
        prepend, append = ([self.tokenizer.specials[text] for text in texts] for texts in (self.prepend, self.append))
        encode = _EncodeBatch(self.tokenizer, prepend, append)
        return documents | "EncodeBatch" >> beam.ParDo(encode).with_output_types(EncodedDocument)


class _EncodeBatch(beam.DoFn):
    def __init__(self, tokenizer: Tokenizer, prepend: list[int], append: list[int]) -> None:
        self._tokenizer = tokenizer
        self._prepend, self._append = prepend, append

    def start_bundle(self) -> None:
        self._waiting: list[tuple[Document, Any, Any]] = []
        self._waiting_bytes = 0

    def process(
        self, document: Document, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[WindowedValue]:
        check_document("EncodeDocuments", document)
        self._waiting.append((document, timestamp, window))
        self._waiting_bytes += len(document.text)
        if self._waiting_bytes >= BATCH_BYTES:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self._flush()

    def _flush(self) -> Iterator[WindowedValue]:
        texts = make_texts_from_strings(document.text for document, _, _ in self._waiting)
        encoded = self._tokenizer.encode_texts(texts)
        ids, offsets = add_ids(encoded.ids, encoded.offsets, self._prepend, self._append)
        count_in_metrics(
            "EncodeDocuments",
            {"documents": texts.num_texts, "text_bytes": texts.size_bytes, "tokens": len(ids)},
        )
        for i, (document, timestamp, window) in enumerate(self._waiting):
            tokens = ids[offsets[i] : offsets[i + 1]].copy()
            yield WindowedValue(EncodedDocument(document.lang, document.id, tokens), timestamp, (window,))
        self._waiting, self._waiting_bytes = [], 0
