"""What people ask of a vocabulary and of a text.

explain: the merges that made each token of a text. odd_tokens: tokens that no text becomes.
token_search: where a text begins among ids. vocabulary_curve: tokens at every size of a vocabulary.
progress_bar: how far something is, for those who wait.
vocabulary_map: the tokens of a vocabulary, spelled in another one.
"""
