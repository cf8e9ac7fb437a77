r"""Split patterns that have a name and are no published ones: for numbers, identifiers and source code.

A preset is short for a regular expression or a list of steps, which is what tokenizers know of it: their spec does not
name it. All run in the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tokcore.text.patterns import PATTERNS

_MARKED = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_REST = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _spell_steps(*expressions: str) -> str:
    splits = [{"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated"} for one in expressions]
    return json.dumps([*splits, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}])


# Of Chinese and Japanese: Han characters, marks of repetition, Hiragana, Katakana. As ranges, because programs differ
# in which characters they know to be Han.
_IDEOGRAPHS = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINERS = r"\u200c\u200d\u0f0b\u0f0c"  # zero width non-joiner and joiner, tsheg and the tsheg that does not break
_NO_LETTERS = rf"\p{{N}}\p{{P}}\p{{S}}\p{{Z}}\p{{C}}{_IDEOGRAPHS}"
# Letters of words and marks, without capitals and without small letters.
_LOWER, _UPPER = rf"[^\p{{Lu}}\p{{Lt}}{_NO_LETTERS}]", rf"[^\p{{Ll}}{_NO_LETTERS}]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

# name -> Pretokenizer.spec, but for the form of its JSON.
PRESETS: Mapping[str, Mapping[str, str]] = {
    # Numbers in groups of three from the right, as they are read: 12|345|678. The rest by o200k.
    "digits-from-right": {"steps": _spell_steps(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", PATTERNS["o200k"])},
    # o200k, but a word also ends where another one begins in capitals: parse|HTTP|Response|Code.
    "camel-case": {
        "regex": r"[^\r\n\p{L}\p{N}]?(?:[\p{Lu}\p{Lt}\p{M}]+(?![\p{Ll}\p{M}])"
        rf"|[\p{{Lu}}\p{{Lt}}]?[{_MARKED}]+)(?i:'s|'t|'re|'ve|'m|'ll|'d)?" + _REST
    },
    # No merge crosses / . or ->, runs of which stand alone. A line break keeps the indentation that follows it.
    "code": {
        "regex": r"\s*[\r\n][ \t]*|->|/+|\.+"
        rf"|[^\r\n\p{{L}}\p{{N}}/.]?(?:[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[{_MARKED}]+"
        rf"|[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[{_MARKED}]*)"
        r"|\p{N}{1,3}| ?(?:[^\s\p{L}\p{N}/.-]|-(?!>))+|\s+(?!\S)|\s+"
    },
    # o200k, but a word goes on after a joiner. Chinese and Japanese, whose phrases have no spaces, are words of their
    # own and cut after eight characters. A line break keeps the indentation that follows it.
    "multilingual": {
        "regex": rf"[^\r\n\p{{L}}\p{{N}}]?[{_IDEOGRAPHS}]{{1,8}}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}(?:{_LOWER}|[{_JOINERS}])*{_SHORT}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+(?:[\r\n]+(?![ \t]))?|\s*[\r\n][ \t]*|\s+(?!\S)|\s+"
    },
}
