"""One build: its stages, from a plan to a root. No Beam here: a stage gives steps, and `run` does them.

In the order of work:
- build: one build file and one output; calls the stages in order. table: a row for each stage.
- open_build: the build that a user names, on a command line or in Python. named_paths: the paths that users name.
- plan_corpus: pins the inputs in a manifest.
- source_checks, suggest_fixes: read the beginning of some files, and say what is wrong and what to write instead.
  guess_fields: which field is meant. samples: what was seen of them. filter_samples: what filters would drop of these.
  map_samples: what steps of [[map]] would make of these.
  mask_samples: what a mask would find in them. duplicate_samples: which of them are duplicates.
  whole_checks: what a build would find at its end. long_files: files that one worker reads when all else is done.
  counted_samples: what they tell of all files. learn_need: how much memory learning will need.
- learn_together: learning by all slices, where rows do not fit in the memory of one.
- settle_languages: how language codes are spelled. settle_counting: what count tables tell apart.
- identities: which release an identity follows from. recount_shards: what a manifest of shards has to say.
- prove_files: of files that are cut and can be rejected whole, all ranges count, or none. file_rejections: which fail.
- dedup_corpus, count_corpus, make_tokenizer, encode_corpus, mix_corpus, pack_corpus, finish: one function for each
  stage, from manifests to a manifest.

What all stages share:
- stage: skips a stage, takes it over or makes it. commit: claims and manifests. item_steps: the steps over work items.
  shard_files: the files of those that write shards.
- finished_build: is a build finished, by its build file? existing_output: what an output holds already, and how it
  differs from this build. missing_files: are all files there? replace_stages: `--replace`. reuse_output: `--from`.
  smaller_size: the same, where the other output has a larger vocabulary.
- inherited_items: what a part takes over from the one whose place it takes. inherited_records: as its workers are told.
  derived_before: which mixture and rows it may take over.

What outputs hold, read back:
- stored: what a build left, each manifest read once. output: what an output holds, all parts added up.
- read_log: the commits of an output. cached_parts: what was read of its parts. tokenizers_beside: those that are there.
- stored_config, learn_settings: settings, out of manifests.

What they read and write:
- ledger: the sums that must balance. counted_items, encoded_items: what is kept of work items, and of their shards.
- rejects: the files of rejected/. overlap_receipt: that of test items. reject_causes: why most records were rejected.
- token_count_table: what the shards hold. tokenizer_files: what a tokenizer consists of.
- mixed_levels: what a mix by levels came to. dataset_card: README.md of the output.
"""
