"""Count, learn and encode what a source of Beam's reads: a document for each line of text files.

    python deploy/examples/read_from_text.py 'corpus/*.txt' OUT --runner=FnApiRunner

Any other source does as well: what matters is a PCollection of tokcore_schemas.Document. Writes OUT/counts/en.parquet,
OUT/tokenizer.json and OUT/tokens-*, a JSON list of ids for each line. Options of Beam follow OUT.
"""

import sys

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io import ReadFromText, WriteToText

import tokcore
from tokcore_pipelines import CountPretokens, EncodeDocuments
from tokcore_schemas import Document

PATTERN = "o200k"
NUM_TOKENS = 512  # 256 bytes, and merges


def make_document(line: str) -> Document:
    """A document without an id."""
    return Document("en", None, line.encode())


def main(files: str, out: str, *options: str) -> None:
    """Two pipelines, as encoding needs the tokenizer; learning runs between them, here."""
    with beam.Pipeline(argv=list(options)) as pipeline:
        documents = pipeline | ReadFromText(files) | beam.Map(make_document)
        _ = documents | CountPretokens(f"{out}/counts", pattern=PATTERN)

    merges = tokcore.learn_bpe(pq.read_table(f"{out}/counts/en.parquet"), NUM_TOKENS, allow_smaller=True)
    tokenizer = tokcore.Tokenizer.from_merges(merges, pattern=PATTERN, special={"<|endoftext|>": "document_end"})
    tokenizer.export("huggingface", f"{out}/tokenizer.json")

    with beam.Pipeline(argv=list(options)) as pipeline:
        documents = pipeline | ReadFromText(files) | beam.Map(make_document)
        encoded = documents | EncodeDocuments(tokenizer, append=["<|endoftext|>"])
        _ = encoded | beam.Map(lambda document: str(document.tokens.tolist())) | WriteToText(f"{out}/tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
