"""One file for each format of token shards, with its layout at its head; and what several share.

shard_format: what a format must do: start here. shard_facts: what manifests say of a shard. arrow_shards: Arrow.
parquet_shards: Parquet. saved_datasets: Hugging Face datasets. row_shards: a row for each document.
arrow_columns: Arrow files of documents. megatron: Megatron. nanogpt: nanoGPT. llmc: llm.c. olmo: OLMo-core.
datatrove: datatrove. litdata: litdata. mds: MosaicML's streaming. flat_ids: ids back to back.
array_record: Grain and MaxText. riegeli: its blocks and chunks. varints: its integers.
protobuf: messages, read strictly. documents: documents files. metadata: columns of the user's own.
provenance: where the documents of a shuffled build came from. pieces: what packed rows are made of.
files_beside_shards: finds these three. partition_names: names of folders. foreign_rows: rows that others wrote.
"""
