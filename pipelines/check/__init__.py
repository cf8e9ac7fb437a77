"""Whether an output is what was committed, and what mends it.

verify: is the output what was committed? verification: who reads it, and where records are. verify_pieces: in which
pieces. verify_tasks: what a worker does with one. verify_content: what all of them found, added up. verify_shards,
verify_order: what is asked of shards. recount: the manifests that its files give,
beside those that stand. sampled: a drawn share of it. whole_files: has each file its bytes?
chain: the manifests and the log that vouch for files.
verify_log: are commits and parts those of this output? verify_removed: is what was removed gone?
rows_in_place: also from rows that stayed?
verify_tombstones: are the files that say what was removed as commits name them?
verify_beside, repair_beside: are the tokenizers beside the output's own as they were learned? Their files, made again.
shards_made_again: a stored shard beside the same one made again. decoded_files: documents made out of tokens.
rebuild: make one shard again and compare. prove_file: a proof that a root covers a file.
repair: make what is gone or damaged again, and put it in its place.
fsck: do shards, from any writer, keep the rules of their formats? gc: remove unfinished work.
"""
