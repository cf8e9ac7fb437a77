"""Words: how many are one token, and what their tokens become when they are misspelled. All draws are by hash."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tokcore.evaluate.spread import DIGITS
from tokcore.text.scripts import SCRIPTS, find_scripts
from tokcore.tokenizer.tokenizer import Tokenizer

LEAST_WORDS = 20  # of a language of which words are told
_WORDS_OF_A_LANGUAGE = 200  # that are misspelled
# Scripts that put no blanks between words: what stands between blanks there is a phrase.
_WITHOUT_BLANKS = frozenset(
    ("Han and kana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Javanese", "Balinese")
)


def count_words(texts: Iterable[bytes]) -> Counter[str]:
    """How often each word of letters alone stands between white space, of scripts that put blanks between words.

    >>> dict(count_words(["one two one, 3 水 two".encode()]))
    {'one': 1, 'two': 2}
    """
    found: Counter[str] = Counter()
    for text in texts:
        found.update(text.decode("utf-8", "replace").split())
    words = [word for word in found if cut_letters(word)]
    if not words:
        return Counter()
    codes = np.array([ord(word[0]) for word in words], np.uint32)
    scripts = find_scripts(codes, np.arange(len(codes), dtype=np.int64)).tolist()
    has_blanks = [SCRIPTS[script] not in _WITHOUT_BLANKS for script in scripts]
    return Counter({word: found[word] for word, has in zip(words, has_blanks, strict=True) if has})


def measure_retention(tokenizer: Tokenizer, words: Counter[str]) -> float | None:
    """The share of the words that are one token, a blank before them included; None of fewer than 20 different ones.

    Words count as often as they occur. After TokLens (2026), which calls it single-token retention.
    """
    if len(words) < LEAST_WORDS:
        return None
    encoded = tokenizer.encode_strings([f" {word}" for word in words])
    counts = np.fromiter(words.values(), np.int64, len(words))
    return round(int(counts[np.diff(encoded.offsets) == 1].sum()) / int(counts.sum()), DIGITS)


def draw_words(words: Iterable[str]) -> list[str]:
    """Up to 200 of these words: those of 4 to 20 letters with the smallest hashes."""
    found = {word for word in words if len(word) >= 4 and 4 <= len(cut_letters(word)) <= 20}
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


def probe_words(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, Any]:
    """Tokens of a word after a blank: as it is, reversed, and under one edit; the share of its tokens that stay.

    words: at least one.
    """
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
