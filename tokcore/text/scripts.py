"""The script of each character of a text, for reports. Han, Hiragana and Katakana are one script, as in the tables.

A character that belongs to no script, such as a space or a digit, counts as of the script of the character before it;
at the start of a text, of the first one after it.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from tokcore.text.sentencepiece_tables import INHERITED, load_scripts
from tokcore.text.texts import Offsets

Numbers = npt.NDArray[np.int64]

NO_SCRIPT = "none"

# A letter of each script that is named. All others are "other".
_NAMED_LETTERS = (
    "Latin=a; Greek=α; Cyrillic=ж; Armenian=ա; Hebrew=א; Arabic=ع; Syriac=ܐ; Thaana=ހ; Nko=ߊ; "
    "Devanagari=क; Bengali=ক; Gurmukhi=ਕ; Gujarati=ક; Oriya=କ; Tamil=க; Telugu=క; Kannada=ಕ; "
    "Malayalam=ക; Sinhala=ක; Thai=ก; Lao=ກ; Tibetan=ཀ; Myanmar=က; Georgian=ა; Hangul=한; Ethiopic=አ; "
    "Cherokee=Ꭰ; Canadian Aboriginal=ᐁ; Ogham=ᚐ; Runic=ᚠ; Khmer=ក; Mongolian=ᠠ; Han and kana=漢; "
    "Bopomofo=ㄅ; Yi=ꀀ; Tifinagh=ⴰ; Coptic=ⲁ; Gothic=𐌰; Javanese=ꦏ; Balinese=ᬓ; Ol Chiki=ᱚ; Vai=ꔀ; "
    "Adlam=𞤀; Glagolitic=Ⰰ; Meetei Mayek=ꯀ; Braille=⠁"
)
_LETTERS = dict(pair.split("=") for pair in _NAMED_LETTERS.split("; "))
SCRIPTS = (*_LETTERS, "other", NO_SCRIPT)


@functools.cache
def _number_of_code_point() -> npt.NDArray[np.uint8]:
    """Code point -> place in SCRIPTS."""
    tables = load_scripts()
    lengths = np.diff(np.append(tables.starts.astype(np.int64), 0x110000))
    raw = np.repeat(tables.numbers, lengths)
    named = np.full(256, SCRIPTS.index("other"), np.uint8)
    for place, letter in enumerate(_LETTERS.values()):
        named[raw[ord(letter)]] = place
    for none in (raw[ord(" ")], INHERITED):
        named[none] = SCRIPTS.index(NO_SCRIPT)
    found: npt.NDArray[np.uint8] = named[raw]
    return found


def find_scripts(code_points: npt.NDArray[np.uint32], starts: Offsets) -> Numbers:
    """The place in SCRIPTS of each character's script. NO_SCRIPT only of texts in which no character has one.

    starts: int64, where each text begins, ascending; the first is 0. No text is empty.

    >>> codes = np.array([ord(c) for c in "1 a,ж!2 3"], np.uint32)
    >>> [SCRIPTS[i] for i in find_scripts(codes, np.array([0, 6])).tolist()]
    ['Latin', 'Latin', 'Latin', 'Latin', 'Cyrillic', 'Cyrillic', 'none', 'none', 'none']
    """
    own = _number_of_code_point()[np.minimum(code_points, 0x10FFFF)].astype(np.int64)
    places = np.arange(len(own))
    has_own = own != SCRIPTS.index(NO_SCRIPT)
    before = np.maximum.accumulate(np.where(has_own, places, -1))
    after = np.minimum.accumulate(np.where(has_own, places, len(own))[::-1])[::-1]
    text = np.searchsorted(starts, places, side="right") - 1
    ends = np.append(starts[1:], len(own))
    chosen = np.where(before >= starts[text], before, np.where(after < ends[text], after, places))
    found: Numbers = own[chosen]
    return found
