r"""GGUF, llama.cpp's files: the vocabulary alone, which its converters and `vocab_only` read.

A file is "GGUF", the version, the number of tensors (none) and of keys, then for each key its name, type and value.
All numbers are little-endian; strings have their length before them, as 64 bits. Of a split pattern the file holds only
the name by which llama.cpp knows it (tokenizer.ggml.pre), so that others are refused. Scores belong to pieces of
SentencePiece (its BPE is "llama" there, its Unigram "t5"), merges to BPE of bytes ("gpt2"); WordPiece ("bert") has
neither.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.gpt2 import make_vocabulary, spell_merges
from tokcore.models.bpe import MergesModel
from tokcore.models.model import Unreachable, find_unlike_themselves
from tokcore.models.sentencepiece.piece_text import BYTE, UNUSED, USER_DEFINED
from tokcore.models.sentencepiece.scored_pieces import is_piece_model, require_pieces
from tokcore.models.wordpiece.longest_match import find_wordpiece, require_wordpiece
from tokcore.text.patterns import PATTERNS
from tokcore.text.split_steps import StepList
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

FILE_NAME = "tokenizer.gguf"
VERSION = 3
_UINT8, _UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 0, 4, 5, 6, 7, 8, 9
_PACKED = {_UINT8: "B", _UINT32: "I", _INT32: "i", _FLOAT32: "f", _BOOL: "?"}
# Types of tokens, which have the numbers of SentencePiece's.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

_SPACE = "\u2581"

_ID_KEYS = {
    "document_begin": "bos",
    "document_end": "eos",
    "padding": "padding",
    "unknown": "unknown",
    "separator": "seperator",  # as they spell it
    "mask": "mask",
    "classifier": "cls",
}
_ROLE_OF_BERT = {"separator": "document_end", "classifier": "document_begin"}


class Known(NamedTuple):
    """A split pattern that llama.cpp knows.

    name: tokenizer.ggml.pre. takes_whole: a pre-token that is a token is taken as it is there. differs: what else is
    done there than the pattern says.
    """

    name: str
    takes_whole: bool = False
    differs: str = ""


_CAPITALS = "it cuts words before capitals of ASCII only, so that words such as MacOS in other scripts have other ids"


def _list_steps(*splits: str) -> str:
    made = [{"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated"} for one in splits]
    return StepList([*made, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]).text


_QWEN35 = (
    PATTERNS["qwen2"].replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
)
_DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    # The line breaks are characters there, not escapes.
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
# (kind, text) of Pretokenizer.spec -> how llama.cpp knows it, first where a pre-token is no token of its own.
_KNOWN: Mapping[tuple[str, str], tuple[Known, ...]] = {
    ("name", "gpt2"): (Known("gpt-2"),),
    ("name", "llama3"): (Known("dbrx"), Known("llama-bpe", takes_whole=True)),
    ("name", "cl100k-2023"): (Known("dbrx"), Known("llama-bpe", takes_whole=True)),
    ("name", "qwen2"): (Known("qwen2"),),
    ("name", "o200k"): (Known("gpt-4o", differs=_CAPITALS),),
    ("name", "tekken"): (Known("tekken", takes_whole=True, differs=_CAPITALS),),
    ("regex", _QWEN35): (Known("qwen35"),),
    ("steps", _list_steps(*_DEEPSEEK)): (Known("deepseek-v3"),),
    (
        "steps",
        StepList(
            [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ]
        ).text,
    ): (Known("starcoder"),),
}
_NEAREST = {"cl100k": "cl100k-2023 (llama3), which differs at the white space that ends a text", "nanochat": "llama3"}


def write_gguf(spec: TokenizerSpec) -> bytes:
    """The file. Raises FormatError, naming the part, for a tokenizer that llama.cpp would read otherwise."""
    if is_bert := find_wordpiece(spec.model) is not None:
        keys = _list_words(spec)
    else:
        keys = _list_pieces(spec) if is_piece_model(spec.model) else _list_merges(spec)
    keys = [("general.architecture", _STRING, "llama"), ("general.name", _STRING, "tokcore tokenizer"), *keys]
    for role, name in _ID_KEYS.items():
        ids = [token.id for token in spec.special if token.role == role]
        if not ids and is_bert:  # which ends texts with what separates them, and begins them with what is classified
            ids = [token.id for token in spec.special if token.role == _ROLE_OF_BERT.get(role)]
        keys += [(f"tokenizer.ggml.{name}_token_id", _UINT32, ids[0])] if ids else []
    keys += [(f"tokenizer.ggml.add_{side}_token", _BOOL, False) for side in ("bos", "eos")]
    if spec.chat_template:
        keys.append(("tokenizer.chat_template", _STRING, spec.chat_template))
    written = b"".join(
        _write_string(name) + struct.pack("<I", kind) + _write(kind, value) for name, kind, value in keys
    )
    return b"GGUF" + struct.pack("<IQQ", VERSION, 0, len(keys)) + written


def describe_left_out(spec: TokenizerSpec) -> str:
    """What llama.cpp does otherwise, or does not learn from the file; empty if there is nothing."""
    said = []
    if (words := find_wordpiece(spec.model)) is not None:
        if words.max_characters:
            said.append(f"llama.cpp has no limit of characters, so words of more than {words.max_characters} differ")
        if spec.normalizer == ("bert",):
            said.append(
                "llama.cpp removes spacing marks beside accents, and takes no Hangul apart, so that texts of Hindi, "
                "Bengali, Khmer, Korean and their like differ: bert-cased is exact"
            )
    elif is_piece_model(spec.model):
        if (pieces := require_pieces(spec.model, "a GGUF file")).is_unigram:
            said.append("llama.cpp adds up scores as float64, so ids differ where two cuts are equal but for rounding")
            if not pieces.text_rules.remove_extra_whitespaces and pieces.text_rules.add_dummy_prefix:
                said.append("it puts no blank before a text of blanks alone")
    else:
        if differs := _find_known(spec).differs:
            said.append(f"llama.cpp knows the split pattern, but {differs}")
        if spec.normalizer:
            said.append(f"llama.cpp does not normalize: text has to be in the form {', '.join(spec.normalizer)} before")
    if not spec.texts_of("document_end"):
        said.append("no token has the role document_end: llama.cpp takes another one for the end of a text")
    return "; ".join(said)


def _list_merges(spec: TokenizerSpec) -> list[tuple[str, int, Any]]:
    spec.model.as_bpe()  # says why a model is none
    if any(step != "nfc" for step in spec.normalizer):
        raise FormatError(f"a GGUF file cannot hold the normalizer {', '.join(spec.normalizer)}: llama.cpp has none")
    known = _find_known(spec)
    kinds = dict.fromkeys(make_vocabulary(spec).values(), _NORMAL) | _list_special_types(spec)
    texts = {id: text for text, id in make_vocabulary(spec).items()}
    texts |= {token.id: token.text for token in spec.special if token.id is not None}
    size = spec.vocab_size
    return [
        ("tokenizer.ggml.model", _STRING, "gpt2"),
        ("tokenizer.ggml.pre", _STRING, known.name),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, [texts.get(id, f"[PAD{id}]") for id in range(size)])),
        ("tokenizer.ggml.token_type", _ARRAY, (_INT32, [kinds.get(id, _UNUSED) for id in range(size)])),
        ("tokenizer.ggml.merges", _ARRAY, (_STRING, [" ".join(pair) for pair in spell_merges(spec)])),
    ]


def _list_special_types(spec: TokenizerSpec) -> dict[int, int]:
    """id -> type. Raises FormatError for an added token whose flags llama.cpp does not know."""
    kinds = {}
    for token in spec.special:
        if not token.is_special and (token.lstrip or token.rstrip or token.single_word):
            raise FormatError(
                f"added token {token.text!r} takes white space, or stands only as a word of its own: a GGUF file "
                f"cannot say that"
            )
        assert token.id is not None
        kinds[token.id] = _CONTROL if token.is_special else _USER_DEFINED
    return kinds


def _find_known(spec: TokenizerSpec) -> Known:
    """How llama.cpp knows the split pattern. Raises FormatError where it does not, or would give other ids."""
    ((kind, text),) = spec.pattern.items()
    named = _KNOWN.get((kind, text), ())
    if not named:
        nearest = _NEAREST.get(text, "gpt2, llama3, qwen2 and o200k")
        raise FormatError(
            f"llama.cpp knows no split pattern like {spec.pattern_name}: the nearest that it knows: {nearest}. A "
            f"tokenizer with one of these can be exported"
        )
    whole = spec.model.as_bpe().whole
    if same := [one for one in named if one.takes_whole == whole]:
        return same[0]
    if unlike := _list_unlike_merges(spec):
        does, others = ("merges it", "takes it as it is") if whole else ("takes it as it is", "merges it")
        raise FormatError(
            f"llama.cpp's {named[0].name} {does} where a pre-token is a token; this tokenizer {others}, which is "
            f"another thing for the token {unlike[0].id}"
        )
    return named[0]


def _list_unlike_merges(spec: TokenizerSpec) -> list[Unreachable]:
    """The tokens whose bytes merge to others: without any, taking pre-tokens whole changes nothing."""
    model = spec.model.as_bpe()
    merging = MergesModel(tuple(model.tokens), model.ids, model.merge_pairs(), ignore_merges=False)
    encoder = merging.encoder(None, 0)
    return find_unlike_themselves(
        merging,
        lambda texts: encoder.encode_pieces(texts, texts.offsets[1:], np.arange(texts.num_texts + 1), 1),
    )


def _list_pieces(spec: TokenizerSpec) -> list[tuple[str, int, Any]]:
    model = require_pieces(spec.model, "a GGUF file")
    rules = model.text_rules
    wrong = {
        f"it has the normalizer {', '.join(spec.normalizer)}": bool(spec.normalizer),
        "white space is at the end of pieces": rules.whitespace_is_suffix,
    }
    if model.is_unigram:
        wrong |= {
            "unknown text becomes bytes (byte_fallback = false learns a vocabulary without them)": BYTE in model.types,
            "it has pieces of the user, which have another score there": USER_DEFINED in model.types,
            "it has pieces that are not to be used": UNUSED in model.types,
            "it keeps white space as it is": not rules.escape_whitespaces,
            "remove_extra_whitespaces is set, and add_dummy_prefix is not": (
                rules.remove_extra_whitespaces and not rules.add_dummy_prefix
            ),
        }
    else:
        wrong |= {
            "its table replaces characters (nmt_nfkc)": bool(rules.charsmap),
            "remove_extra_whitespaces is set": rules.remove_extra_whitespaces,
            "it lacks the pieces of bytes": BYTE not in model.types,
        }
    if reasons := [text for text, is_so in wrong.items() if is_so]:
        raise FormatError(f"llama.cpp would not give these ids: {reasons[0]}. Export to sentencepiece instead")
    special = {token.id: token for token in spec.special}
    columns = zip(model.ids.tolist(), model.tokens, model.scores.tolist(), model.types.tolist(), strict=True)
    rows = {id: (text.decode(), score, kind) for id, text, score, kind in columns}
    for id, token in special.items():
        rows[id or 0] = (token.text, 0.0, _UNKNOWN if id == model.unknown else _CONTROL)
    listed = [rows.get(id, (f"[PAD{id}]", -1e4, _UNUSED)) for id in range(spec.vocab_size)]
    texts, scores, kinds = zip(*listed, strict=True)
    return [
        ("tokenizer.ggml.model", _STRING, "t5" if model.is_unigram else "llama"),
        ("tokenizer.ggml.pre", _STRING, "default"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, texts)),
        ("tokenizer.ggml.scores", _ARRAY, (_FLOAT32, scores)),
        ("tokenizer.ggml.token_type", _ARRAY, (_INT32, kinds)),
        ("tokenizer.ggml.add_space_prefix", _BOOL, rules.add_dummy_prefix),
        *([("tokenizer.ggml.remove_extra_whitespaces", _BOOL, True)] if rules.remove_extra_whitespaces else []),
        *([("tokenizer.ggml.precompiled_charsmap", _ARRAY, (_UINT8, rules.charsmap))] if rules.charsmap else []),
    ]


_CASED = {("bert",): False, ("bert-cased",): True}


def _list_words(spec: TokenizerSpec) -> list[tuple[str, int, Any]]:
    """Of WordPiece. A token that begins a word has U+2581 before it there, and one that goes on has nothing."""
    model = require_wordpiece(spec.model, "a GGUF file")
    if spec.pattern != {"name": "bert"} or spec.normalizer not in _CASED:
        raise FormatError(
            f"llama.cpp splits words as BERT does (pattern bert, normalizer bert or bert-cased), and this tokenizer "
            f"has {spec.pattern_name} and {', '.join(spec.normalizer) or 'none'}"
        )
    names = dict(zip(model.ids.tolist(), model.names, strict=True))
    goes_on = {id for id, name in names.items() if name.startswith(model.prefix) and name != model.prefix}
    texts = {id: name[len(model.prefix) :] if id in goes_on else f"{_SPACE}{name}" for id, name in names.items()}
    kinds = dict.fromkeys(texts, _NORMAL) | _list_special_types(spec)
    texts |= {token.id: token.text for token in spec.special if token.id is not None}
    if model.unknown is not None:
        kinds[model.unknown] = _UNKNOWN
    listed = [texts.get(id, f"[PAD{id}]") for id in range(spec.vocab_size)]
    first = {text: id for id, text in reversed([*enumerate(listed)])}
    for id, text in enumerate(listed):
        if first[text] != id or (id in goes_on and text.startswith(_SPACE)):
            raise FormatError(
                f"token {id} would be {text!r:.80} in a GGUF file, which stands for another one, too: llama.cpp knows "
                f"tokens by their texts"
            )
    keys = [
        ("tokenizer.ggml.model", _STRING, "bert"),
        ("tokenizer.ggml.pre", _STRING, "default"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, listed)),
        ("tokenizer.ggml.token_type", _ARRAY, (_INT32, [kinds.get(id, _UNUSED) for id in range(spec.vocab_size)])),
        ("tokenizer.ggml.add_sep_token", _BOOL, False),
    ]
    return keys + [
        (f"tokenizer.ggml.normalizer.{name}", _BOOL, not _CASED[spec.normalizer])
        for name in ("lowercase", "strip_accents")
    ]


def _write(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _write_string(value)
    if kind == _ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + _write_values(inner, values)
    return struct.pack(f"<{_PACKED[kind]}", value)


def _write_values(kind: int, values: Iterable[Any]) -> bytes:
    return values if isinstance(values, bytes) else b"".join(_write(kind, one) for one in values)


def _write_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
