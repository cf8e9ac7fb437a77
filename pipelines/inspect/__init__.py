"""Commands that look at data, or at an output, finished or not.

propose, build_text: a folder of data as a build file. language_names: languages that names tell.
estimate: what a build will take and give, from a sample. check_estimates: what it will lack.
verify, verify_manifests, verify_shards, shard_sums, verify_order, verify_derived: is the output what
was committed? chain: the manifests and the log that vouch for its files.
verify_written: is a folder of WriteShards what it says?
verify_log: are commits and parts those of this output? verify_removed: is what was removed gone?
verify_beside, repair_beside: are the tokenizers beside the output's own as they were learned? Their files, made again.
made_again: a stored shard beside the same one made again. decoded_files: documents that were made out of tokens.
rebuild: make one shard again and compare. prove_file: a proof that a root covers a file.
repair: make what is gone or damaged again, and put it in its place.
stored_shards: shards as local files, opened in every format.
convert: shards in another format. new_folder: a folder that appears at once, with all its files.
fsck: do shards, from any writer, keep the rules of their formats?
diff, diff_commits: what differs between two outputs, or commits. gc: remove unfinished work.
curve: bytes per token at every size of a vocabulary.
explained: tokens and the merges that made them, as lines and as JSON.
audit: what is odd about a vocabulary. top_sources: the file that has most of each token id.
"""
