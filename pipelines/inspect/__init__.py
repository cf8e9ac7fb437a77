"""Commands that look at an output, finished or not.

verify, verify_manifests, verify_shards: is it what was committed? rebuild: make one shard again and compare.
repair: make what is gone or damaged again, and put it in its place.
stored_shards: shards as local files, opened in every format.
diff: what differs between two outputs. audit: what is odd about a vocabulary. gc: remove unfinished work.
"""
