"""Token shards as one sequence of documents, in whatever format they are.

opened_shards: opens and reads them: start here. token_batch: documents as token ids, with columns.
labels: strings of which few differ, as codes. partitions: folders by values of documents.
commits: the parts of an output that was updated.
followed_shards: what each new commit brings. format_table: the formats, one line each.
shard_writing: one shard in several formats. conversion: from one format to another. shard_checks: the rules of formats.
documents_digest: one digest of any documents. tombstones: what was removed, as keyed hashes. tombstone_files: many.
tombstone_lookup: whether names have one.
"""

# Until the rooms came, a module stood here: what was imported from it is still found, when it is asked for.
_OF_THE_MODULE = {"Shards", "open_shards"}


def __getattr__(name: str) -> object:
    if name not in _OF_THE_MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokcore.shards import opened_shards

    return getattr(opened_shards, name)
