"""The pre-tokenizers of published tokenizer.json files, and small files of these shapes."""

from __future__ import annotations

from typing import Any


def split(text: str, behavior: str = "Isolated", invert: bool = False, kind: str = "Regex") -> dict[str, Any]:
    """A Split step."""
    return {"type": "Split", "pattern": {kind: text}, "behavior": behavior, "invert": invert}


def byte_level(*, prefix: bool = False, splits: bool = True) -> dict[str, Any]:
    """A ByteLevel step."""
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": splits}


def _list(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [*steps]}


_DIGITS = {"type": "Digits", "individual_digits": True}
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

# What uses them -> the part, as it is there.
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "deepseek-v3": _list(
        split(r"\p{N}{1,3}"),
        split("[一-龥぀-ゟ゠-ヿ]+"),
        split(
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
        ),
        byte_level(splits=False),
    ),
    "deepseek-coder": _list(
        split("[\r\n]"),
        split("\\s?\\p{L}+"),
        split("\\s?\\p{P}+"),
        split("[一-龥ࠀ-一가-퟿]+"),
        _DIGITS,
        byte_level(splits=False),
    ),
    "deepseek-llm": _list(split("\\s?[!-/:-~！-／：-～‘-‟　-。]+"), split("\\s+$"), _DIGITS, byte_level(splits=False)),
    "bloom": _list(split(" ?[^(\\s|[.,!?…。，、।۔،])]+"), byte_level(splits=False)),
    "qwen3.5": _list(
        split(
            _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        byte_level(splits=False),
    ),
    "starcoder, smollm, granite, command-r": _list(_DIGITS, byte_level()),
    "falcon": _list(
        {"type": "Punctuation", "behavior": "Contiguous"},
        byte_level(),
        {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"),
    ),
    "roberta with a blank first": byte_level(prefix=True),
    "clip": _list(
        split(
            r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
            "Removed",
            True,
        ),
        byte_level(),
    ),
    "gemma": split(" ", "MergedWithPrevious", kind="String"),
    "quick tour": {"type": "Whitespace"},
    "gpt": {"type": "BertPreTokenizer"},
    "words": _list({"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "-"}),
    "fixed": {"type": "FixedLength", "length": 3},
    "kimi": _list(
        split(
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        byte_level(splits=False),
    ),
    "word characters": split(r"\w+|[^\w\s]", "Removed", True),
    "llama without a model of SentencePiece": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "albert": _list({"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "split": False}),
    "scripts": {"type": "UnicodeScripts"},
}
