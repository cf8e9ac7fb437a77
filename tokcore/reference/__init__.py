"""The kernel in plain Python: slow, obvious, and the oracle of the tests. Read these files first.

reference: scanning, counting, BPE, word pieces, digests. reference_sentencepiece: SentencePiece's encoders.
reference_converted: a tokenizer.json made from one of its models. reference_pieces: its learners.
reference_fewest: PathPiece's learner. reference_floors: rounds of learning. reference_sampling: ids that are drawn.
reference_ngram: bits of an n-gram model. reference_decoding: ids to text. arrays: lists out of arrays, and back.
as_native: all of it, under the names of the native module.
"""
