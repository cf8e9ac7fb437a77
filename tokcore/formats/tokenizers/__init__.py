"""Tokenizers in the files of other libraries.

exports: the formats that are written, by name: start here. foreign: tells files by their content.
as_earlier_releases: what earlier releases made of them. huggingface: tokenizer.json.
long_lists: its vocabulary and merges, which the kernel reads.
wordpiece_json: its parts for WordPiece. word_level_json: for words and characters.
symbol_bpe_json: for BPE of other symbols than the 256 bytes.
byte_unigram_json: for Unigram in byte form. converted_json: for what was made from a .model.
converted_pieces: makes that from a .model. json_floats: its numbers. sentencepiece: .model files.
tiktoken: rank files. tekken: Mistral's tekken.json. gguf: llama.cpp's file. gpt2: vocab.json and merges.txt.
vocabulary_files: reads that pair. bert: vocab.txt. byt5: ByT5's folder. youtokentome: YouTokenToMe's files.
transformers: what transformers keeps beside tokenizer.json. token_bytes: token_bytes.npy.
"""
