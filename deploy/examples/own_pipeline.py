"""Count, learn and encode in a Beam pipeline of your own: from lines of text to a tokenizer and tokens.

    python deploy/examples/own_pipeline.py 'corpus/*.txt' OUT --runner=FnApiRunner

Writes OUT/counts/en.parquet, OUT/tokenizer.json and OUT/tokens-*, a JSON list of ids for each line. Options of Beam
follow OUT.
"""

import shutil
import sys
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import ReadFromText, WriteToText

import tokcore
from pipelines import CountPretokens, EncodeDocuments
from schemas import Document

PATTERN = "o200k"
NUM_TOKENS = 512  # 256 bytes, and merges


def as_document(line: str) -> Document:
    """Beam learns the type from the annotation, and then passes documents without pickle."""
    return Document("en", None, line)


def main(files: str, out: str, *options: str) -> None:
    """Two pipelines, as encoding needs the tokenizer; learning runs between them, here."""
    with beam.Pipeline(argv=list(options)) as pipeline:
        documents = pipeline | ReadFromText(files) | beam.Map(as_document)
        _ = documents | CountPretokens(f"{out}/counts", pattern=PATTERN)
    shutil.rmtree(f"{out}/counts/_attempts")

    counts = pa.concat_tables(pq.read_table(path) for path in sorted(Path(out, "counts").glob("*.parquet")))
    merges = tokcore.learn_bpe(counts, NUM_TOKENS, allow_smaller=True)
    tokenizer = tokcore.Tokenizer.from_merges(merges, pattern=PATTERN, special={"<|endoftext|>": "document_end"})
    tokenizer.export("huggingface", f"{out}/tokenizer.json")

    with beam.Pipeline(argv=list(options)) as pipeline:
        documents = pipeline | ReadFromText(files) | beam.Map(as_document)
        encoded = documents | EncodeDocuments(tokenizer, append=["<|endoftext|>"])
        _ = encoded | beam.Map(lambda document: str(document.tokens.tolist())) | WriteToText(f"{out}/tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
