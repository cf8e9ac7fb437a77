"""Tokenizers: text to token ids, and back.

tokenizer: encodes and decodes: start here. vocabulary: its base class: ids, names and roles of tokens.
tokenizer_spec: what decides the ids; tokcore.json. shared_tables: what equal tokenizers of a process share.
special_text: text that spells added tokens. encoded_batch: the ids of a batch: as lists, cut, padded.
stream_decoder: decodes ids as they come. token_ids: ids as callers give them.
smaller: fewer merges, and what becomes of ids. encode_again: documents under another tokenizer.
chunks: parts of documents for retrieval. pruned: without the least used tokens.
token_spans: where tokens lie in their text; text_spans: in the texts of a batch, as they were given.
model_inputs: what models are given: ids with special tokens around them, cut, padded. text_template: which these are.
sampling: ids that are drawn: dropout, sampling, the best cuts.
"""

# Until the rooms came, a module stood here: what was imported from it is still found, when it is asked for.
_OF_THE_MODULE = {"Tokenizer"}


def __getattr__(name: str) -> object:
    if name not in _OF_THE_MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokcore.tokenizer import tokenizer

    return getattr(tokenizer, name)
