"""The stages of a build. No Beam here: a stage gives steps, and `run` does them.

In the order of work:
- build: one build file and one output; calls the stages in order. table: a row for each stage.
  stored: what a build left, each manifest read once.
- plan_corpus: pins the inputs in a manifest.
- source_checks, suggest_fixes: read the beginning of some files, and say what is wrong and what to write instead.
  guess_fields: which field is meant. samples: what was seen of them. whole_checks: what a build would find at its end.
- settle_languages: how language codes are spelled.
- count_corpus, make_tokenizer, encode_corpus, mix_corpus, pack_corpus, finish: one function for each
  stage, from manifests to a manifest.

After a build:
- update_output: makes what changed among the inputs a part of its own. remove_documents: takes documents out.
  restore_documents: takes that back. restored_files: what must be read again then. named_documents: names they take.
  expire_commits: gives commits up. compact_output: few large shards out of many.
  inherit: what a part takes over from the one whose place it takes. tell_workers: as its workers are told.
  held_files: the input files that it holds. make_commit: parts and commits. small_parts: small
  parts, each made by one worker.
  learn_beside, encode_commit: tokenizers from, and new outputs of, any commit. tokenizers_beside: those that are there.
  read_log: the commits of an output. output: what one holds, all parts added up.
  kept_parts: what was read of its parts.
  stored_config, learn_settings: settings, out of manifests.

What all stages share:
- stage: skips a stage, takes it over or makes it. commit: claims and manifests. item_steps: the steps over work items.
  named_files: are all files there?
- recognition: is a build finished, by its build file? standing: what an output holds already, and how it differs from
  this build. replacing: `--replace`. reuse: `--from`.

What they read and write:
- ledger: the sums that must balance.
- rejects: the files of rejected/. reject_causes: why most records were rejected.
- find_removed: documents in shards that were removed. find_quoted: rejects that quote ids.
- token_count_table: what the shards hold. tokenizer_files: what a tokenizer consists of.
- dataset_card: README.md of the output.
"""
