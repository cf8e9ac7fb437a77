"""Input files to batches of documents; one module per format.

input_range: the way in: one input range, whatever its format.
records: what reading gives: batches, rejects, reasons.
streams: the bytes of a file, decompressed, with its end proven; lines of a byte stream.
jsonl, plain, columns: JSON lines; plain text; parquet and Arrow.
"""
