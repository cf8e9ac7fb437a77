"""What `tokcore report` computes and shows: README.md beside this file says what each number means.

compose: the whole report as one value. corpus_facts, origin, health: from manifests, tables and the audit.
shard_pass: one pass over all shards, exact totals and texts drawn by hash. text_measures: what drawn texts measure.
metadata_tally: what columns of [metadata] hold.
estimates: ratios with margins. tokenizer_tables: tokenizers beside each other.
verdict: what a report says first, in words. report_files: the page and its numbers, as JSON, are written.
vocabulary_facts, merge_history: what a vocabulary is like. probes: fixed inputs. money: what tokens cost.
page: the page. corpus_sections, tokenizer_sections, evaluation_section,
health_and_money_sections: its parts. html_parts: values become
HTML, escaped.
chart_specs: what Vega-Lite draws.
"""
