"""Probes: how tokenizers cut numbers, indentation, data formats, reversed strings, identifiers, emoji and misspellings.

All inputs are fixed or drawn by hash, so a tokenizer always gets the same ones.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.look.report.estimates import DIGITS

_NUMBERS_OF_A_LENGTH = 100
_WORDS_OF_A_LANGUAGE = 200
_IDENTIFIERS = (
    *("getUserById", "get_user_by_id", "HTTPResponseCode", "XMLHttpRequest", "MAX_BUFFER_SIZE", "__init__"),
    *("isEmpty2D", "kebab-case-name", "utf8_decode", "i18n", "x86_64", "std::unordered_map"),
    *("System.out.println", "camelCaseOfMany"),
)
_EMOJI = {
    "grinning face": "😀",
    "thumbs up, medium skin": "👍🏽",
    "red heart": "❤️",
    "keycap 1": "1️⃣",
    "flag of Kenya": "🇰🇪",
    "rainbow flag": "🏳️‍🌈",
    "family of four": "👨‍👩‍👧‍👦",
    "woman astronaut, dark skin": "👩🏿‍🚀",
    "shaking face (Unicode 15)": "🫨",
}
_RECORD = {
    "name": "Amina Odhiambo",
    "age": 34,
    "languages": ["sw", "luo", "en"],
    "address": {"street": "12 Market Lane", "city": "Kisumu", "zip": "40100"},
    "active": True,
    "balance": -1250.75,
}
_FORMATS = {
    "JSON, compact": json.dumps(_RECORD, separators=(",", ":")),
    "JSON, 2 spaces": json.dumps(_RECORD, indent=2),
    "JSON, 4 spaces": json.dumps(_RECORD, indent=4),
    "YAML": (
        "name: Amina Odhiambo\nage: 34\nlanguages:\n  - sw\n  - luo\n  - en\naddress:\n  street: 12 Market Lane\n"
        "  city: Kisumu\n  zip: '40100'\nactive: true\nbalance: -1250.75\n"
    ),
}
_INDENTS = {
    **{f"{n} space{'s' * (n > 1)}": " " * n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24)},
    **{f"{n} tab{'s' * (n > 1)}": "\t" * n for n in (1, 2, 3, 4)},
}


def draw_number(digits: int, which: int) -> str:
    """A number of that many digits, drawn by a hash; its first digit is not 0.

    >>> [draw_number(5, which) for which in range(3)]
    ['50870', '57284', '24427']
    """
    drawn = int.from_bytes(hashlib.sha256(f"tokcore-probe-number {digits} {which}".encode()).digest())
    return str(10 ** (digits - 1) + drawn % (9 * 10 ** (digits - 1)))


def probe_tokenizer(tokenizer: Tokenizer, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Tokens of each probe. words: language -> words, as draw_words gives them."""
    count = tokenizer.count_tokens
    return {
        "numbers": [
            round(
                sum(count(draw_number(digits, which)) for which in range(_NUMBERS_OF_A_LENGTH)) / _NUMBERS_OF_A_LENGTH,
                DIGITS,
            )
            for digits in range(1, 21)
        ],
        "indentation": {name: count(f"\n{indent}return x") for name, indent in _INDENTS.items()},
        "formats": {name: count(text) for name, text in _FORMATS.items()},
        "identifiers": {name: count(name) for name in _IDENTIFIERS},
        "emoji": {name: count(text) for name, text in _EMOJI.items()},
        "words": {lang: _probe_words(tokenizer, of) for lang, of in words.items() if of},
    }


def list_emoji() -> dict[str, str]:
    """Name -> the emoji that is probed."""
    return dict(_EMOJI)


def list_formats() -> dict[str, str]:
    """Name -> the record in that format."""
    return dict(_FORMATS)


def draw_words(texts: Sequence[bytes]) -> list[str]:
    """Up to 200 words of texts: those of 4 to 20 letters with the smallest hashes, each once."""
    found = {
        word
        for text in texts
        for word in set(text.decode("utf-8", "replace").split())
        if len(word) >= 4 and 4 <= len(cut_letters(word)) <= 20
    }
    return sorted(found, key=lambda word: (_hash(word), word))[:_WORDS_OF_A_LANGUAGE]


def cut_letters(word: str) -> list[str]:
    """The letters of a word, each with the marks that follow it; [] if the word holds anything else.

    >>> cut_letters("किताब"), cut_letters("naïve"), cut_letters("x-ray")
    (['कि', 'ता', 'ब'], ['n', 'a', 'ï', 'v', 'e'], [])
    """
    letters: list[str] = []
    for character in word:
        kind = unicodedata.category(character)[0]
        if kind == "L":
            letters.append(character)
        elif kind == "M" and letters:
            letters[-1] += character
        else:
            return []
    return letters


def misspell(word: str) -> str:
    """The word under one edit, which its hash chooses: a letter left out, doubled, or changed places with the next.

    Letters that are equal do not change places: the first of them is doubled. Needs two letters or more.

    >>> misspell("language"), misspell("tokenizer"), misspell("corpus")
    ('languge', 'otkenizer', 'ocrpus')
    """
    letters = cut_letters(word)
    drawn = _hash(word)
    place = drawn // 3 % (len(letters) - 1)
    first, second = letters[place : place + 2]
    edit = drawn % 3
    if edit == 0:
        changed = [second]
    elif edit == 1 or first == second:
        changed = [first, first, second]
    else:
        changed = [second, first]
    return "".join([*letters[:place], *changed, *letters[place + 2 :]])


def reverse_word(word: str) -> str:
    """The word from its last letter to its first; marks stay with their letters.

    >>> reverse_word("किताब")
    'बताकि'
    """
    return "".join(reversed(cut_letters(word)))


def _probe_words(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, Any]:
    """Tokens of a word after a blank: as it is, reversed, and under one edit; the share of its tokens that stay."""
    plain = [Counter(tokenizer.encode(f" {word}").tolist()) for word in words]
    edited = [Counter(tokenizer.encode(f" {misspell(word)}").tolist()) for word in words]
    whole = sum(one.total() for one in plain)
    kept = sum((one & other).total() for one, other in zip(plain, edited, strict=True))
    num = len(words)
    return {
        "words": num,
        "tokens_per_word": round(whole / num, DIGITS),
        "reversed": round(sum(tokenizer.count_tokens(f" {reverse_word(word)}") for word in words) / num, DIGITS),
        "one_edit": round(sum(one.total() for one in edited) / num, DIGITS),
        "kept_share": round(kept / whole, DIGITS) if whole else None,
    }


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.sha256(b"tokcore-probe-word " + word.encode("utf-8", "replace")).digest()[:8])
