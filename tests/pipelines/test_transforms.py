"""Counting and encoding in a user's own pipeline, and what its workers send each other."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from support import eager
from support.builds import ROOT, texts
from support.vocabularies import spec_of_merges

import tokcore
from tokcore.errors import ConfigError
from tokcore.tokenizer.chunks import Chunker
from tokcore.tokenizer.tokenizer_spec import SpecialToken
from tokcore_pipelines import ChunkDocuments, CountPretokens, EncodeDocuments
from tokcore_pipelines.run.engines.coders import DocumentCoder, EncodedDocumentCoder
from tokcore_schemas import Document, DocumentChunk, EncodedDocument

DOCUMENTS = [Document(lang, f"{lang}-{i}", text) for lang in ("en", "ru") for i, text in enumerate(texts(lang, 20))]


def pipeline(*options: str) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options]))


@pytest.mark.parametrize("seed", range(5))
def test_count_pretokens_on_a_hostile_runner(seed, tmp_path):
    """Bundles of any size in any order, repeated, abandoned half-way, two at the same time; sums in any tree."""
    eager.seed(seed, share=0.7, concurrent=seed % 2 == 1)
    with beam.Pipeline(options=PipelineOptions(list(eager.RUNNER))) as p:
        _ = p | beam.Create(DOCUMENTS) | beam.Reshuffle() | CountPretokens(str(tmp_path), num_partitions=2)
    for lang in ("en", "ru"):
        table = pq.read_table(tmp_path / f"{lang}.parquet")
        assert table.equals(tokcore.count_pretokens([d.text for d in DOCUMENTS if d.lang == lang]).combine_chunks())


def learned() -> tokcore.Tokenizer:
    merges = tokcore.learn_bpe(tokcore.count_pretokens([d.text for d in DOCUMENTS]), vocab_size=300)
    return tokcore.Tokenizer(spec_of_merges(merges, {"name": "cl100k"}, (), [SpecialToken("<|end|>", None)]))


@pytest.mark.parametrize("options", [(), ("--direct_runner_bundle_repeat=1",), ("--direct_num_workers=3",)])
@pytest.mark.parametrize("num_partitions", [1, 4])
def test_count_pretokens(options, num_partitions, tmp_path):
    with pipeline(*options) as p:
        tables = (
            p | beam.Create(DOCUMENTS) | beam.Reshuffle() | CountPretokens(str(tmp_path), num_partitions=num_partitions)
        )

        def check(found):
            assert sorted(table.lang for table in found) == ["en", "ru"]

        assert_that(tables, check)
    for lang in ("en", "ru"):
        table = pq.read_table(tmp_path / f"{lang}.parquet")
        assert table.equals(tokcore.count_pretokens([d.text for d in DOCUMENTS if d.lang == lang]).combine_chunks())


def test_count_with_a_pattern_of_ones_own(tmp_path):
    with pipeline() as p:
        _ = p | beam.Create(DOCUMENTS) | CountPretokens(str(tmp_path), pattern=r"\p{L}+|[^\p{L}]+")
    expected = tokcore.count_pretokens([d.text for d in DOCUMENTS if d.lang == "en"], pattern=r"\p{L}+|[^\p{L}]+")
    assert pq.read_table(tmp_path / "en.parquet").equals(expected.combine_chunks())


def test_encode_documents():
    tokenizer = learned()
    with pipeline() as p:
        encoded = p | beam.Create(DOCUMENTS) | EncodeDocuments(tokenizer, append=["<|end|>"])

        def check(found):
            end = tokenizer.special_id("<|end|>")
            by_id = {document.id: document for document in found}
            assert len(found) == len(by_id) == len(DOCUMENTS)
            for document in DOCUMENTS:
                tokens = by_id[document.id].tokens
                assert tokens.dtype == np.int32
                assert tokens.tolist() == [*tokenizer.encode(document.text).tolist(), end]

        assert_that(encoded, check)


def test_encoding_keeps_windows_and_bytes():
    tokenizer = learned()
    documents = [TimestampedValue(Document("en", str(i), b"\xff bytes"), i * 10) for i in range(4)]
    with pipeline() as p:
        windows = (
            p
            | beam.Create(documents)
            | beam.WindowInto(FixedWindows(10))
            | EncodeDocuments(tokenizer)
            | beam.Map(lambda d, w=beam.DoFn.WindowParam: (d.id, int(w.start), tokenizer.decode(d.tokens)))
        )

        def check(found):
            assert sorted(found) == [(str(i), i * 10, b"\xff bytes") for i in range(4)]

        assert_that(windows, check)


@pytest.mark.parametrize("name", ["own_pipeline.py", "read_from_text.py"])
def test_text_files_to_tables_and_tokens(tmp_path, name):
    """The examples, as their reader runs them."""
    lines = [line for lang in ("en", "ru") for text in texts(lang, 10) for line in text.splitlines() if line]
    for number, part in enumerate((lines[::2], lines[1::2])):
        (tmp_path / f"{number}.txt").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    example, out = ROOT / "deploy" / "examples" / name, tmp_path / "out"
    arguments = [sys.executable, str(example), str(tmp_path / "*.txt"), str(out), "--runner=FnApiRunner"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = tokcore.count_pretokens(lines, pattern="o200k")
    assert pq.read_table(out / "counts" / "en.parquet").equals(table.combine_chunks())
    assert sorted(path.name for path in (out / "counts").iterdir()) == ["en.parquet"]
    merges = tokcore.learn_bpe(table, 512, allow_smaller=True)
    tokenizer = tokcore.Tokenizer.from_merges(merges, pattern="o200k", special={"<|endoftext|>": "document_end"})
    imported = tokcore.Tokenizer.from_huggingface(out / "tokenizer.json")
    assert imported.vocab == tokenizer.vocab
    written = [json.loads(line) for path in out.glob("tokens-*") for line in path.read_text().splitlines()]
    expected = sorted([*tokenizer.encode(line).tolist(), tokenizer.eos_id] for line in lines)
    assert sorted(written) == expected
    if name == "own_pipeline.py":
        assert sorted(row.tolist() for row in tokcore.open_shards(out)) == expected


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (beam.WindowInto(FixedWindows(10)), "its input is in FixedWindows, and a table counts all documents"),
        (beam.WindowInto(Sessions(10)), "its input is in Sessions"),
        (
            beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
            ),
            "its input fires at Repeatedly.*, and a table is written once",
        ),
    ],
)
def test_windows_are_refused_where_the_pipeline_is_built(tmp_path, window, message):
    documents = pipeline() | beam.Create(DOCUMENTS) | window
    with pytest.raises(ConfigError, match=f"CountPretokens: {message}"):
        _ = documents | CountPretokens(str(tmp_path))
    _ = documents | EncodeDocuments(learned())  # keeps windows


def test_back_in_the_global_window_documents_are_counted(tmp_path):
    with pipeline() as p:
        windowed = p | beam.Create(DOCUMENTS) | beam.WindowInto(FixedWindows(10))
        _ = windowed | "Back" >> beam.WindowInto(GlobalWindows()) | CountPretokens(str(tmp_path))
    expected = tokcore.count_pretokens([d.text for d in DOCUMENTS if d.lang == "en"]).combine_chunks()
    assert pq.read_table(tmp_path / "en.parquet").equals(expected)


def test_unbounded_input_is_refused_where_the_pipeline_is_built(tmp_path):
    documents = pipeline() | PeriodicImpulse() | beam.Map(_document_of)
    with pytest.raises(ConfigError, match="CountPretokens: its input is unbounded"):
        _ = documents | CountPretokens(str(tmp_path))
    _ = documents | EncodeDocuments(learned())


def _document_of(_element) -> Document:
    return DOCUMENTS[0]


@pytest.mark.parametrize("options", [(), ("--direct_num_workers=3",)])
def test_chunk_documents(options):
    """As the chunker itself cuts them, in any bundles."""
    tokenizer = learned()
    chunker = Chunker(tokenizer, 40, 8)
    expected = [
        DocumentChunk(one.lang, one.id, number, chunk.text.decode(), *chunk[1:])
        for one in DOCUMENTS
        for number, chunk in enumerate(chunker.cut([one.text.encode()])[0])
    ]
    assert len(expected) > len(DOCUMENTS)
    with pipeline(*options) as p:
        chunks = p | beam.Create(DOCUMENTS) | beam.Reshuffle() | ChunkDocuments(tokenizer, 40, 8)
        assert_that(chunks, lambda found: _require_equal(found, expected))
    with pytest.raises(ConfigError, match="overlap = 30: expected 0 to 20"):
        ChunkDocuments(tokenizer, 40, 30)


def _require_equal(found, expected):
    assert sorted(found, key=lambda one: (one.lang, one.id, one.chunk)) == sorted(
        expected, key=lambda one: (one.lang, one.id, one.chunk)
    )


@pytest.mark.parametrize("name", ["CountPretokens", "EncodeDocuments"])
@pytest.mark.parametrize(("wrong", "found"), [("text", "str"), (("en", None, "text"), "Tuple"), (5, "int")])
def test_elements_of_another_type_are_refused_where_the_pipeline_is_built(tmp_path, name, wrong, found):
    elements = pipeline() | beam.Create([wrong])
    with pytest.raises(
        TypeError, match=f"{name}: expected a PCollection of tokcore_schemas.Document, found one of {found}"
    ):
        _ = elements | _transform(name, tmp_path)


@pytest.mark.parametrize("name", ["CountPretokens", "EncodeDocuments"])
@pytest.mark.parametrize(
    ("wrong", "found"), [("text", "str: 'text'"), (("en", None, "text"), "tuple"), (None, "NoneType")]
)
def test_elements_of_unknown_type_are_refused_when_they_come(tmp_path, name, wrong, found):
    p = pipeline()
    elements = p | beam.Create([DOCUMENTS[0]]) | beam.Map(lambda _: wrong).with_output_types(Any)
    _ = elements | _transform(name, tmp_path)
    with pytest.raises(Exception, match=f"{name}: expected elements of type tokcore_schemas.Document, found {found}"):
        p.run().wait_until_finish()


def _transform(name, folder):
    return CountPretokens(str(folder)) if name == "CountPretokens" else EncodeDocuments(learned())


def test_arguments_are_checked_where_they_are_given(tmp_path):
    with pytest.raises(ConfigError, match="power of two"):
        CountPretokens(str(tmp_path), num_partitions=3)
    with pytest.raises(ConfigError, match="cl100k"):
        CountPretokens(str(tmp_path), pattern="cl100")
    with pytest.raises(ConfigError, match="not a special token"):
        EncodeDocuments(learned(), append=["<|nothing|>"])


@pytest.mark.parametrize(
    "document",
    [
        Document("en", "", ""),
        Document("zh", "é\n", "的\0"),
        Document("en", "1", b"\xff"),
        Document("en", None, b""),
        Document("en", "None", "x"),
    ],
)
def test_document_coder(document):
    assert DocumentCoder().decode(DocumentCoder().encode(document)) == document


def test_encoded_document_coder():
    document = EncodedDocument("en", "x", np.array([1, 2**31 - 1], np.int32))
    again = EncodedDocumentCoder().decode(EncodedDocumentCoder().encode(document))
    assert (again.lang, again.id, again.tokens.tolist()) == ("en", "x", [1, 2**31 - 1])
    assert again.tokens.dtype == np.int32
    assert EncodedDocumentCoder().decode(EncodedDocumentCoder().encode(document._replace(id=None))).id is None
