"""What learning does with counts: languages are weighed, and merges are learned.

language_weights: the integer weight of each language. merges: the merges of BPE.
piece_rules: what the learners of SentencePiece's models are told.
"""
