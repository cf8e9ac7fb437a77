"""The named split patterns: their published texts, and other published texts that split in the same way."""

from __future__ import annotations

from tokcore.text.bert_characters import write_pattern

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

# Each pattern as its users publish it. cl100k-2023 is cl100k before tiktoken added \s++$; Llama 3 uses the same.
PATTERNS: dict[str, str] = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "cl100k-2023": _LLAMA3,
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTIONS}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "llama3": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
    "nanochat": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "tekken": (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # BERT's has no text of its own: this one says the same.
    "bert": write_pattern(),
    # SentencePiece's words, in text whose spaces are U+2581.
    "metaspace": "▁[^▁]*|[^▁]+",
}

_HAN_OR_KANA = "[一-龥぀-ゟ゠-ヿ]"


def _spell_words(inside: bool) -> str:
    """DeepSeek V3's words and signs, and what is neither, of the characters in _HAN_OR_KANA, or of all others."""
    where = f"(?={_HAN_OR_KANA})" if inside else f"(?!{_HAN_OR_KANA})"
    classes = r"[\p{L}\p{M}]", r"[\p{P}\p{S}]", r"[^\s\p{L}\p{M}\p{N}\p{P}\p{S}]"
    marked, sign, odd = (f"(?:{where}{one})" for one in classes)
    words = rf"{odd}?{marked}+|{sign}+" if inside else rf"(?:{odd}|[^\S\r\n])?{marked}+| ?{sign}+[\r\n]*"
    return rf"{words}|{odd}+(?={odd}{marked})|{odd}+"


# Lists of steps that the kernel runs as one pattern: its name there -> an expression that cuts as they do.
PATTERNS_OF_STEPS: dict[str, str] = {
    "deepseek": (
        rf"\p{{N}}{{1,3}}|{_spell_words(inside=True)}|[!-/:-@\[-`{{-~][A-Za-z]+|{_spell_words(inside=False)}"
        rf"|\s*[\r\n]+|\s+(?=\p{{N}}|{_HAN_OR_KANA})|\s+(?!\S)|\s+"
    )
}
# The expressions that these lists isolate one after the other. A ByteLevel step that does not cut follows.
SPLITS_OF_STEPS: dict[str, tuple[str, ...]] = {
    "deepseek": (
        r"\p{N}{1,3}",
        f"{_HAN_OR_KANA}+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
        "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    )
}

DEFAULT_PATTERN = "o200k"

# Other texts of the same patterns: tiktoken's gpt2, and cl100k without the possessive interval, which Oniguruma would
# read as "groups of one to three, repeated".
_OTHER_SPELLINGS = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    PATTERNS["cl100k"].replace("{1,3}+", "{1,3}"): "cl100k",
}
_NAME_OF_TEXT = {text: name for name, text in reversed(PATTERNS.items())} | _OTHER_SPELLINGS


def find_named_pattern(text: str) -> str | None:
    r"""The name of the pattern that text is a published spelling of; None if there is none.

    >>> find_named_pattern(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    'gpt2'
    """
    return _NAME_OF_TEXT.get(text)
