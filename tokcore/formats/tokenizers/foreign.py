"""The one door to tokenizer files. Their content says what they are; their names do not matter."""

from __future__ import annotations

import orjson

from tokcore.errors import FormatError
from tokcore.files.garbage import no_collection
from tokcore.formats.tokenizers.bert import is_vocab_txt, read_vocab_txt
from tokcore.formats.tokenizers.byt5 import is_byt5_config, read_byt5_config
from tokcore.formats.tokenizers.huggingface import read_tokenizer_content, read_usual_json
from tokcore.formats.tokenizers.sentencepiece import FILE_NAME, is_sentencepiece_model, read_sentencepiece_model
from tokcore.formats.tokenizers.tekken import is_tekken, read_tekken
from tokcore.formats.tokenizers.tiktoken import find_published, is_rank_file, read_published
from tokcore.formats.tokenizers.youtokentome import is_youtokentome_model, read_youtokentome_model
from tokcore.tokenizer.tokenizer_spec import FORMAT, TokenizerSpec

# In a folder without tokcore.json, the first of these that is there. ByT5's folder has the last one alone.
FOLDER_NAMES = ("tokenizer.json", "tekken.json", FILE_NAME, "vocab.txt", "tokenizer_config.json")


def tells_itself(data: bytes) -> bool:
    """Whether read_tokenizer_file can read a file. Of rank files it can read published ones, whose pattern is known."""
    others = is_sentencepiece_model(data) or is_json(data) or is_youtokentome_model(data) or is_vocab_txt(data)
    return others or find_published(data) is not None


def is_json(data: bytes) -> bool:
    """Whether a file is a JSON object, by its first character."""
    return data[:64].lstrip().startswith(b"{")


@no_collection()
def read_tokenizer_file(data: bytes, name: str, *, as_before: bool = False) -> TokenizerSpec:
    """The tokenizer of a tokcore.json, tokenizer.json, tekken.json, tokenizer_config.json of ByT5, vocab.txt, .model of
    SentencePiece, model of YouTokenToMe, or published rank file.

    name: the file's, for errors. as_before: see read_tokenizer_json. Raises FormatError, naming the field, for a file
    that is damaged, is none of these, or cannot be followed exactly; VersionError for another release's tokcore.json.
    """
    if is_sentencepiece_model(data):
        return read_sentencepiece_model(data, name)
    if is_json(data):
        return _read_json(data, name, as_before)
    if is_youtokentome_model(data):
        return read_youtokentome_model(data, name)
    if is_vocab_txt(data):
        return read_vocab_txt(data, name)
    if is_rank_file(data):
        return read_published(data, name)
    raise FormatError(
        f"{name}: expected a tokcore.json, tokenizer.json, tekken.json, a model of SentencePiece or YouTokenToMe, a "
        f"vocab.txt with [UNK], or a rank file, and found {data[:40]!r}"
    )


def _read_json(data: bytes, name: str, as_before: bool) -> TokenizerSpec:
    if f'"format":"{FORMAT}"'.encode() in data:
        return TokenizerSpec.from_json_bytes(data, name)
    if (spec := read_usual_json(data, name, as_before)) is not None:
        return spec
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{name}: not JSON: {error}") from error
    if is_tekken(content):
        return read_tekken(content, name, as_before=as_before)
    if is_byt5_config(content):
        return read_byt5_config(content, name)
    if content.keys() & {"model", "added_tokens"}:
        return read_tokenizer_content(content, data, name, as_before)
    return TokenizerSpec.from_json_bytes(data, name)
