"""The named split patterns: their published texts, and the other published spellings of the same languages."""

from __future__ import annotations

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

# The spelling that each one's users publish. cl100k-2023 is the cl100k of before tiktoken added \s++$, which is also
# what Llama 3 took over.
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
}

# Other texts of the same languages: tiktoken's gpt2, and cl100k without the possessive interval, which Oniguruma
# reads as "groups of one to three, repeated".
_OTHER_SPELLINGS = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    PATTERNS["cl100k"].replace("{1,3}+", "{1,3}"): "cl100k",
}
_NAME_OF_TEXT = {text: name for name, text in reversed(PATTERNS.items())} | _OTHER_SPELLINGS


def named_pattern(text: str) -> str | None:
    r"""The named pattern of which text is a published spelling, None if there is none.

    >>> named_pattern(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    'gpt2'
    """
    return _NAME_OF_TEXT.get(text)
