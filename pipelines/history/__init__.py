"""What becomes of an output after its build: it knows `build`, and `build` never knows it.

- update_output: makes what changed among the inputs a part of its own. make_commit: parts and commits.
  kept_weights: what a change does to a mixture. input_files_held: the input files that an output holds.
  small_parts: small parts, each made by one worker.
- remove_documents: takes documents out. named_documents: the names that it takes. find_removed: documents in shards
  that were removed. find_quoted: rejects that quote their ids. removed_duplicates: documents that are equal to them.
  removal_cost: what a removal would change. shards_as_before: what it leaves alone.
  named_ids: ids that may be too many for memory.
  tombstone_changes: what a commit does to tombstones, inline and in files.
- restore_documents: takes that back. restored_files: what must be read again then.
- expire_commits: gives commits up. compact_output: few large shards out of many.
- smaller_output, partitioned_output: a new output of a smaller vocabulary, or with other partitions, out of one alone.
- learn_beside, encode_commit: tokenizers from, and new outputs of, any commit.
"""
