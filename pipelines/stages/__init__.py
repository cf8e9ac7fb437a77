"""The stages of a build, in the order of work. No Beam; `graph` is imported when a stage has work for it.

build: the composition: plan, count, learn, encode, and the build's manifest.
plan: list and pin the inputs. learn: count tables to a tokenizer.
ledger, rejects: every record accounted for. documents_digest, token_counts: what the shards hold.
commit: files and manifests get their final names. semantics: what makes earlier work stale.
"""
