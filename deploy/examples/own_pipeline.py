"""Read, count, learn and encode in a Beam pipeline of your own: from lines of text to a tokenizer and token shards.

    python deploy/examples/own_pipeline.py 'corpus/*.txt' OUT --runner=FnApiRunner

Writes OUT/counts/en.parquet, OUT/tokenizer.json, OUT/shards and OUT/tokens-*, a JSON list of ids for each line. Options
of Beam follow OUT; deploy/README.md has those of each engine.
"""

import sys
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import WriteToText

import tokcore
from tokcore_pipelines import CountPretokens, EncodeDocuments, ReadDocuments, WriteShards

PATTERN = "o200k"
NUM_TOKENS = 512  # 256 bytes, and merges


def main(files: str, out: str, *options: str) -> None:
    """Two pipelines, as encoding needs the tokenizer; learning runs between them, here."""
    with beam.Pipeline(argv=list(options)) as pipeline:
        documents, _ = pipeline | ReadDocuments(files, lang="en", unit="line")
        _ = documents | CountPretokens(f"{out}/counts", pattern=PATTERN)

    counts = pa.concat_tables(pq.read_table(path) for path in sorted(Path(out, "counts").glob("*.parquet")))
    merges = tokcore.learn_bpe(counts, NUM_TOKENS, allow_smaller=True)
    tokenizer = tokcore.Tokenizer.from_merges(merges, pattern=PATTERN, special={"<|endoftext|>": "document_end"})
    tokenizer.export("huggingface", f"{out}/tokenizer.json")

    with beam.Pipeline(argv=list(options)) as pipeline:
        documents, rejected = pipeline | ReadDocuments(files, lang="en", unit="line")
        _ = rejected | beam.Map(lambda record: print(record.source, record.record, record.reason))
        _ = documents | WriteShards(out, tokenizer, num_buckets=2, append=["<|endoftext|>"])
        encoded = documents | EncodeDocuments(tokenizer, append=["<|endoftext|>"])
        _ = encoded | beam.Map(lambda document: str(document.tokens.tolist())) | WriteToText(f"{out}/tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
