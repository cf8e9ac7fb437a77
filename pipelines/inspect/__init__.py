"""Commands that look at an output, finished or not.

verify, verify_manifests, verify_shards: is it what was committed? rebuild: make one shard again and compare.
stored_shards: shards as local files, opened in every format.
diff: what differs between two outputs. audit: what is odd about a vocabulary. gc: remove unfinished work.
"""
