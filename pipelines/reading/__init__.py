"""Input files become batches of documents; one module per format.

input_range: start here; reads one input range of any format.
records: the results: batches, rejected records and their reasons.
streams: a file's bytes, decompressed and checked to its end; the lines of a byte stream.
jsonl: JSON lines. plain: plain text. columns: parquet and Arrow. arrow_messages: how large an Arrow file unfolds.
peek, sniff: the start of a file, in bounded time: what it holds, its fields, its first documents.
"""
