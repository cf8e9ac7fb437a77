"""The stages of a build, in the order of work. No Beam; `graph` is imported when a stage has work for it.

build: one build file and one output; calls the stages in order.
plan, inputs: list and pin the inputs. source_checks, mends: look at their start, and say what to write instead.
work_items: cut them into ranges, and deal these into work items.
count_corpus, make_tokenizer (with learn), encode_corpus, finish: a function each, from manifests to a manifest.
stage: what all of them do: find what stands, or make, claim, publish and commit it. commit: claims and manifests.
standing: what an output holds of a build, and what differs. replacing, reuse: make a stage again, or take it over from
another output. named_files: whether files are there.
results, ledger, rejects: what workers recorded; every record accounted for, and committed. reject_causes: why most of
what was rejected was.
documents_digest, token_counts: what the shards hold. semantics: what makes earlier work stale.
"""
