"""What people look at, of an output that stays as it is. report/ and view/ are rooms of their own.

show, show_document: a summary of an output; one document and its tokens.
diff, diff_commits: what differs between two outputs, or commits.
curve: bytes per token at every size of a vocabulary.
explained: tokens and the merges that made them, as JSON; cuts side by side.
audit: what is odd about a vocabulary. top_sources: the file that has most of each token id.
convert: shards in another format. chunk: chunks of documents, in a Parquet file.
evaluate, judged_texts: tokenizers on text that was not learned from, and who learned from it. parallel_text: premiums.
mix_search: weights for stated targets. search_chart: the path of that search, as a picture.
prune: a tokenizer without its least used tokens. vocab_map: a new vocabulary, spelled in an old one.
"""
