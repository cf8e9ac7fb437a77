"""What learning does with counts: languages are weighed, and merges are learned.

train_tokenizer: from texts in memory to a tokenizer, in one call. language_weights: the integer weight of each
language. level_shares: the same by level, such as languages and their sources. language_groups: families and scripts.
parity: weights that follow the premium. parallel_text: the sentences that tell it. parallel_names: whose they are.
mix_search: which weights are tried for stated targets. weighted_rows: what models learn from.
merges: the merges of BPE. rounds: the same from rows that do not fit in memory.
piece_rules: what the learners of SentencePiece's models are told.
"""
