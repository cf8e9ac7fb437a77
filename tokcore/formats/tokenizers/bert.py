"""BERT's files: vocab.txt (a token on each line, its id is the line's number), and the folder for AutoTokenizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import format_indented, write_tokenizer_json
from tokcore.formats.tokenizers.transformers import write_tokenizer_config
from tokcore.models.wordpiece.learned_wordpiece import BERT_ROLES, UNKNOWN_TEXT
from tokcore.models.wordpiece.longest_match import MAX_CHARACTERS, PREFIX, WordpieceModel, require_wordpiece
from tokcore.tokenizer.tokenizer_spec import MASK, SpecialToken, TokenizerSpec

MASK_TEXT = "[MASK]"


def is_vocab_txt(data: bytes) -> bool:
    """Whether a file is a vocab.txt: one of its lines is [UNK]."""
    return UNKNOWN_TEXT.encode() in data.split()


def read_vocab_txt(data: bytes, name: str, normalizer: Sequence[str] = ()) -> TokenizerSpec:
    """The tokenizer of a vocab.txt; name is the file's, for errors.

    normalizer: steps, which the file does not name; none: those of uncased BERT.
    Raises FormatError, with the line, for what is not UTF-8, empty or twice there, and for a file without [UNK].
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        where = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{name}: line {where}: byte {error.start} is not UTF-8") from error
    if lines[-1] == "":
        lines.pop()
    id_of: dict[str, int] = {}
    for id, line in enumerate(lines):
        token = line.removesuffix("\r")
        if not token or token in id_of:
            found = f"the token {token!r} stands on line {id_of[token] + 1} already" if token else "it is empty"
            raise FormatError(f"{name}: line {id + 1}: {found}")
        id_of[token] = id
    if UNKNOWN_TEXT not in id_of:
        raise FormatError(f"{name}: no line is {UNKNOWN_TEXT}: unknown text would have no id")
    special = tuple(SpecialToken(text, id_of[text], role) for text, role in BERT_ROLES.items() if text in id_of)
    ordinary = [(text, id) for text, id in id_of.items() if text not in BERT_ROLES]
    model = WordpieceModel(
        tuple(text.encode() for text, _ in ordinary),
        np.array([id for _, id in ordinary], np.int32),
        id_of[UNKNOWN_TEXT],
    )
    try:
        return TokenizerSpec(tuple(normalizer) or ("bert",), {"name": "bert"}, model, special)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error


def write_bert_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of vocab.txt, tokenizer.json and tokenizer_config.json, from which AutoTokenizer makes BERT's.

    Raises FormatError for a tokenizer that is none of BERT's kind, naming what is in the way.
    """
    model = _check_is_bert(spec)
    names = [*zip(model.ids.tolist(), model.names, strict=True), *((token.id, token.text) for token in spec.special)]
    names.sort(key=lambda one: one[0] or 0)
    vocab = "".join(f"{text}\n" for _, text in names).encode()
    content = orjson.loads(write_tokenizer_json(spec))
    content["post_processor"] = _make_template(spec)
    return [
        ("vocab.txt", vocab),
        ("tokenizer.json", format_indented(content)),
        ("tokenizer_config.json", _write_config(spec)),
    ]


def describe_left_out(spec: TokenizerSpec) -> str:
    """What a reader of the files does not learn from them: nothing."""
    return ""


def _check_is_bert(spec: TokenizerSpec) -> WordpieceModel:
    model = require_wordpiece(spec.model, "BERT's files")
    if (model.prefix, model.max_characters) != (PREFIX, MAX_CHARACTERS):
        raise FormatError(
            f"vocab.txt has the prefix {PREFIX} and the limit of {MAX_CHARACTERS} characters, and this tokenizer has "
            f"{model.prefix!r} and {model.max_characters}: export to huggingface instead"
        )
    if spec.pattern.get("name") != "bert" or spec.normalizer not in (("bert",), ("bert-cased",)):
        raise FormatError(
            f"BERT's files know the pattern bert and the normalizers bert and bert-cased, and this tokenizer has "
            f"{spec.pattern_name} and {list(spec.normalizer)}"
        )
    if spec.vocab_size != len(model.tokens) + len(spec.special):
        raise FormatError("vocab.txt has a line for each id, and some ids of this tokenizer are unused")
    spec.require_all_special("vocab.txt")
    missing = [text for text in BERT_ROLES if text not in {token.text for token in spec.special}]
    if missing:
        raise FormatError(f"BERT needs the special token {missing[0]}, which this tokenizer lacks")
    return model


def _make_template(spec: TokenizerSpec) -> dict[str, Any]:
    ids = {token.text: token.id for token in spec.special}
    cls, sep = ({"SpecialToken": {"id": text, "type_id": 0}} for text in ("[CLS]", "[SEP]"))
    texts = [{"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate("AB")]
    return {
        "type": "TemplateProcessing",
        "single": [cls, texts[0], sep],
        "pair": [cls, texts[0], sep, texts[1], {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
        "special_tokens": {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in ("[CLS]", "[SEP]")},
    }


def _write_config(spec: TokenizerSpec) -> bytes:
    # Releases until 2026-11-27 gave [MASK] no role.
    special = [dataclasses.replace(one, role=MASK) if one.text == MASK_TEXT else one for one in spec.special]
    more = {"do_lower_case": spec.normalizer == ("bert",), "strip_accents": None, "tokenize_chinese_chars": True}
    named = dataclasses.replace(spec, special=tuple(special))
    return write_tokenizer_config(named, more=more | {"tokenizer_class": "BertTokenizer"})
