"""How good a tokenizer is on given texts. Definitions and sources: docs/reference/evaluation.md.

evaluation: all measures of several tokenizers on the same texts. measures: which there are, in the order of tables.
spread: evenness of ids and of languages. word_cuts: words that are one token, words under change.
boundaries: identifiers, operators, indentation. digit_cuts: how numbers are cut. token_starts: where tokens begin.
residues: tokens that are nearly always merged on. overlap: what two languages share.
ngram: bits per byte of an n-gram model of the tokens. prediction: those of tokenizers of the same size.
"""
