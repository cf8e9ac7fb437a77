"""What a worker does with one work item. No Beam: worker processes import only this.

pin_test_items: filters, with the files of test items. pin_attributes: tables that hold fields, the same.
plan_inputs: what there is to do. inputs: lists files and pins them. work_items: cuts them into ranges, groups these.
cut_points: where files are cut that can be rejected whole. prove_range: reads a range of one before anything counts.
read_source, write_bucket, sort_documents: what ReadDocuments and WriteShards do. commit_shards: the end of WriteShards.
item_reader: the documents of a work item, with its ledgers. read_tokens: documents whose source is gone.
read_plan, read_shards: the work items and the documents of an output, read back.
count_item, encode_item, decode_item: count it, tokenize it, compare its shards with its sources.
find_duplicates, candidates: the passes that find duplicates, and what lies between them. drop_lists: what they leave.
pieces: lines and paragraphs of texts, which may be duplicates, too.
choose_splits: which of its documents are for validation.
inherit_item: takes its results over from another part of the output instead. shards_without_removed: some of its
documents, if others were removed. left_out_documents: what another part has, and the new one has not.
scatter_item, gather_part, scattered_runs: the two passes of a shuffle, and what lies between them.
survey_shards: which shuffled shards keep their documents. gather_beside: the second pass, out of these and new ones.
take_apart: shards of a smaller vocabulary, out of those of a larger one.
mix_part: mixtures, out of shuffled shards, which ordered_shards reads. pack_group: rows of one length, out of shards;
row_gaps: where removed documents were in them.
derived_shards: how both read shards.
learn_model: tokenizers, out of count tables; learn_on_worker: on an engine. learn_memory: whether there is enough.
  learn_from_disk: where there is not. learn_rounds: the same by all slices. mix_by_level: weights of counts by more
  than language.
  search_rows: count tables in memory, for many small tokenizers.
counted_parts: the count tables of all parts of an output. summed_totals: totals of parts together.
plan_parts: the files through which work items reach workers. combining: what an engine may do with what they leave.
item_results: what workers recorded, as the driver reads it. collected_results: records of many in one object.
make_jobs, encode_job: what workers are told.
language_totals: what manifests say of languages.
new_shard: shards in the making, of all stages. shard_streams: those of a work item. shard_attempt: one of these.
hashed_documents, token_count_runs: digests of documents, counts of token ids, as encoding leaves them for the driver.
result_keys: what stands in the names of files, so that other work never gets the same ones.
runs: the sorted runs that workers write, read back and merge. merge_tree: in which order.
key_ranges: which rows of all tables are merged together. range_tables: the last merge, into tables.
stored_tables: their files.
worker_notes: which process of an engine did what. measure_items: what became of a work item, as counters.
semantics: versions that make earlier work stale.
"""
