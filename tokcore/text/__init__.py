"""Text in, pre-tokens out.

texts: a batch of documents: start here. pretokenize: the pre-tokens of one text. pretokenizer: those of many.
patterns: named split patterns. pattern_presets: others with a name. regex_split: a split pattern of your own.
regex_tree: what it means.
regex_automaton: it as a table of states, for the kernel.
split_steps: pre-tokens by a list of steps, as tokenizer.json has. regex_spelling: how other engines are told it.
normalize: text before it is counted or encoded. normalizer_steps: normalizers with settings, as tokenizer.json has.
masking: e-mail addresses, keys and the like, which are not counted. mask_presets: what those are.
masked_texts: texts in which they are replaced.
code_points: texts as code points. byte_alphabet: order and printable names of the 256 bytes.
unicode: categories and lowercase of one pinned version. unicode_data: its tables.
scripts: the script of each character, for reports. bert_characters: what BERT's tokenizer does to a character.
bert_characters_data: its tables. sentencepiece_tables: SentencePiece's scripts, and its normalizer nmt_nfkc.
sentencepiece_data: their data, with nmt_nfkc.bin. text_steps: what is done to a text before its pieces are looked for.
engine_tables: what parts of tokenizers know of characters.
"""
