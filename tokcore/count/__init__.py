"""Counts of pre-tokens and of token ids, in memory and in tables.

counting: counts the pre-tokens of texts: start here. pretoken_rows: counts in memory.
pretoken_tables: counts in files. keyed_runs: those of many tables in one.
sum_of_runs: the sum of many files, of which few are open.
signed_rows: counts taken away. count_tables: what a build counted, as open_counts gives it.
text_sources: the texts that people hold in memory. language_counts: counts them by language, in bounded memory.
token_counts: counts of token ids. key_filter: which byte strings were seen, in bounded memory.
"""
