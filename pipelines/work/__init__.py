"""What a worker does with one work item. No Beam: worker processes import only this.

plan_inputs: what there is to do. inputs: lists files and pins them. work_items: cuts them into ranges, groups these.
read_source, write_bucket, sort_documents: what ReadDocuments and WriteShards do. commit_shards: the end of WriteShards.
item_reader: the documents of a work item, with its ledgers.
count_item, encode_item, decode_item: count it, tokenize it, compare its shards with its sources.
scatter_item, gather_part, scattered_runs: the two passes of a shuffle, and what lies between them.
pack_group: rows of one length, out of shards.
make_again: the shards of one work item or part, from the inputs alone.
plan_parts: the files through which work items reach workers.
collected_results: records of many work items in one object, for the driver.
make_jobs, encode_job: what workers are told.
language_totals: what manifests say of languages.
shard_streams: the shards of a work item. shard_attempt: one in the making.
digest_runs, token_count_runs: document digests and counts of token ids, as encoding leaves them for the driver.
result_keys: what stands in the names of files, so that other work never gets the same ones.
runs: the sorted runs that workers write, read back and merge.
worker_notes: which process of an engine did what.
semantics: versions that make earlier work stale.
"""
