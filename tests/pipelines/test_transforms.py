"""Counting and encoding in a pipeline of one's own, and what travels between its workers."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from support import eager
from support.builds import texts
from support.vocabularies import spec_of_merges

import tokcore
from pipelines import CountPretokens, EncodeDocuments
from pipelines.graph.coders import DocumentCoder, EncodedDocumentCoder
from schemas import Document, EncodedDocument
from tokcore.errors import ConfigError
from tokcore.tokenizer_spec import SpecialToken

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
