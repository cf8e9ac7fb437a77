"""One module per input format; `pipelines.read` is the way in.

records: what reading gives: batches, rejects, reasons.
streams: the bytes of a file, decompressed, with its end proven; lines of a byte stream.
jsonl, plain, columns: JSON lines; plain text; parquet and Arrow.
"""
