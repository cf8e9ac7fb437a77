"""Input files become batches of documents; one module for each format.

input_range: start here; reads one input range of any format. as_written: before anything is settled or left out.
records: the result: batches, rejected records and their reasons. fields: documents out of named fields.
streams: a file's bytes and its lines. compressed: gz, zst, bz2, xz. utf8: other encodings than UTF-8.
seekable: compressed files that are read from several places. seekable_zstd, seekable_bgzf, seekable_xz: where their
blocks are. seekable_blocks: what these share.
maps, map_again: what functions of the user make of documents. masks: which spans texts do not keep. span_fields:
those that a field holds. filters: which documents are kept. overlaps: the test items with which these may
share no run of words. metadata: fields that go with each document into shards. attributes: those that tables beside
the inputs hold. beside: where these tables and items are.
limits: how much a file may unfold to, and why nothing is given out before a file proves its end.

jsonl, json_line: JSON lines. plain: text. delimited: csv and tsv. warc: WARC and WET. columns: Parquet and Arrow.
plugins: by readers of other distributions.
row_file, arrow_messages, parquet_layout, thrift: check a Parquet or Arrow file before the library reads it.
list_texts: texts in lists of a column. column_ids: ids of columns of any type.
column_reader, column_reader_process, column_reader_messages: run columns in a process of its own, which may crash.

peek, sniff, column_names: the beginning of a file, in bounded time: what it holds, its fields, its first documents.
"""
