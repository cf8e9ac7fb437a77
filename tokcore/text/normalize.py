"""Normalize text before it is counted or encoded, by the pinned Unicode version, not the interpreter's.

Steps, applied in the order given:

    nfc nfd nfkc nfkd   the Unicode normalization forms
    lowercase           character by character, without context (Rust's and Hugging Face's rule for one character)
    strip_accents       remove marks (category M); decompose first (nfd) to reach precomposed letters
    strip_controls      remove control characters (category Cc) except TAB, LF and CR
    strip_invisible     remove characters without width or shape of their own: see INVISIBLE. ZERO WIDTH JOINER
                        and NON-JOINER (U+200D, U+200C) stay, because they change the shapes of their neighbours
    nmt_nfkc            SentencePiece's: what its table replaces, white space by blanks among it; ill-formed bytes
                        become U+FFFD
    bert bert-cased BERT's normalizers, uncased and cased, by the tables of tokcore.text.bert_characters: remove
    controls, make
                        white space blanks, put blanks around ideographs; uncased also remove accents and capitals
    {"type": ...}       a normalizer of tokenizer.json that has settings, by its JSON: see tokcore.text.normalizer_steps

nmt_nfkc and BERT's change or remove bytes outside of well-formed UTF-8; the other steps leave them unchanged.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import unicodedata2

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.text import unicode
from tokcore.text.normalizer_steps import make_step
from tokcore.text.sentencepiece_tables import NORMALIZER, load_charsmap
from tokcore.text.text_steps import PieceRules
from tokcore.text.texts import Texts, make_texts_from_strings

# Unicode's default-ignorable characters without the two joiners. Bidirectional controls, tags and variation selectors
# are among them.
INVISIBLE: tuple[tuple[int, int], ...] = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200B),  # zero width space
    (0x200E, 0x200F),  # left-to-right and right-to-left marks
    (0x202A, 0x202E),  # bidirectional embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidirectional isolates, deprecated controls
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFF8),  # unassigned, ignorable
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tags, variation selectors supplement
)


class Normalizer:
    """A sequence of steps. Immutable; equal and pickled by its steps.

    >>> Normalizer(["nfd", "strip_accents", "lowercase"]).apply_str("Élan")
    'elan'
    """

    def __init__(self, steps: Sequence[str]) -> None:
        """Raises ConfigError for an unknown step, or if unicodedata2 does not have the pinned version."""
        for step in steps:
            if step.startswith("{"):
                make_step(step)
            elif step not in _ALL_STEPS:
                nearest = difflib.get_close_matches(step, STEPS, 1)
                hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
                raise ConfigError(f"there is no normalizer step {step!r}: expected one of {', '.join(STEPS)}.{hint}")
        if steps and unicodedata2.unidata_version != unicode.VERSION:
            raise ConfigError(
                f"unicodedata2 has Unicode {unicodedata2.unidata_version}, the normalizers need {unicode.VERSION}:"
                f" pip install 'unicodedata2>={unicode.VERSION},<{int(unicode.VERSION.split('.')[0]) + 1}'"
            )
        self._steps = tuple(steps)

    @property
    def steps(self) -> tuple[str, ...]:
        return self._steps

    def apply_str(self, text: str) -> str:
        """The normalized text. A lone surrogate (an undecodable byte, by `surrogateescape`) stays as it is."""
        for step in self._steps:
            text = (make_step(step) if step.startswith("{") else _ALL_STEPS[step])(text)
        return text

    def apply(self, texts: Texts) -> Texts:
        """All texts normalized; the same object if no step can change any of them."""
        if not self._steps or (not self._changes_ascii and _is_ascii(texts)):
            return texts
        if any(step in _ALL_BATCH_STEPS for step in self._steps):
            return self._apply_in_turn(texts)
        if self.is_nfc:
            changed = kernel.list_unlike_nfc(texts)
            return texts if not changed else texts.replace(changed, [self._apply_bytes(texts.text(i)) for i in changed])
        normalized = [self._apply_bytes(texts.text(i)) for i in range(texts.num_texts)]
        offsets = np.zeros(texts.num_texts + 1, np.int64)
        np.cumsum(np.fromiter((len(t) for t in normalized), np.int64, len(normalized)), out=offsets[1:])
        return Texts(np.frombuffer(b"".join(normalized), np.uint8), offsets)

    @property
    def is_nfc(self) -> bool:
        """Whether it is the form NFC alone, in which most texts are."""
        return self._steps == ("nfc",)

    def apply_to_strings(self, strings: Sequence[str | bytes]) -> Sequence[str | bytes]:
        """The same of strings, by themselves where nothing changes them; for no steps, and a normalizer that is_nfc.

        Raises TypeError, with its position, for what is neither str nor bytes.
        """
        changed = kernel.list_unlike_nfc(strings) if self._steps else []
        if not changed:
            return strings
        normalized = [*strings]
        for i in changed:
            string = normalized[i]
            normalized[i] = self.apply_str(string) if isinstance(string, str) else self._apply_bytes(bytes(string))
        return normalized

    def _apply_in_turn(self, texts: Texts) -> Texts:
        for step in self._steps:
            texts = _ALL_BATCH_STEPS[step](texts) if step in _ALL_BATCH_STEPS else Normalizer([step]).apply(texts)
        return texts

    @property
    def _changes_ascii(self) -> bool:
        return not _KEEP_ASCII.issuperset(self._steps)

    def _apply_bytes(self, text: bytes) -> bytes:
        if not self._changes_ascii and text.isascii():
            return text
        return self.apply_str(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalizer) and self._steps == other._steps

    def __hash__(self) -> int:
        return hash(self._steps)

    def __repr__(self) -> str:
        return f"Normalizer({list(self._steps)})"


def _is_ascii(texts: Texts) -> bool:
    used = texts.data[texts.offsets[0] : texts.offsets[-1]]
    return bool(used.size == 0 or used.max() < 0x80)


def _make_form(name: str) -> Callable[[str], str]:
    def normalize(text: str) -> str:
        if text.isascii():
            return text
        normalized: str = unicodedata2.normalize(name, text)
        return normalized

    return normalize


def _lowercase(text: str) -> str:
    if text.isascii():
        return text.lower()
    # The interpreter's lower() is fast. The table decides for characters where the interpreter follows another Unicode
    # version or looks at the context.
    parts = _compile_interpreter_differs().split(text)
    table = unicode.map_lowercase()
    return "".join(part.translate(table) if i % 2 else part.lower() for i, part in enumerate(parts))


@functools.cache
def _compile_interpreter_differs() -> re.Pattern[str]:
    table = unicode.map_lowercase()
    differing = [c for c in range(0x110000) if chr(c).lower() != table.get(c, chr(c))]
    capital_sigma = 0x3A3  # lower() makes it another letter at the end of a word
    return _compile_any_of([(c, c) for c in [*differing, capital_sigma]])


def _compile_any_of(ranges: Sequence[tuple[int, int]]) -> re.Pattern[str]:
    return re.compile("([" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]+)")


def _make_strip(ranges: Callable[[], Sequence[tuple[int, int]]]) -> Callable[[str], str]:
    pattern = functools.cache(lambda: _compile_any_of(ranges()))
    return lambda text: pattern().sub("", text)


# Steps that remove characters -> the code points they remove, both ends included.
REMOVED: dict[str, Callable[[], Sequence[tuple[int, int]]]] = {
    "strip_accents": lambda: unicode.find_ranges("M"),
    "strip_controls": lambda: ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F)),
    "strip_invisible": lambda: INVISIBLE,
}


def _make_of_str(apply: Callable[[Texts], Texts]) -> Callable[[str], str]:
    def normalize(text: str) -> str:
        texts = make_texts_from_strings([text.encode("utf-8", "surrogateescape")])
        return apply(texts).text(0).decode("utf-8", "surrogateescape")

    return normalize


def name_space_step(add_dummy_prefix: bool, remove_extra_whitespaces: bool) -> str:
    """The step by which models that mark spaces do so; no build file names it.

    >>> Normalizer([name_space_step(True, True)]).apply_str(" a  b ")
    '▁a▁b'
    """
    prefix = "" if add_dummy_prefix else "-no-prefix"
    return f"metaspace{prefix}" + ("" if remove_extra_whitespaces else "-all-spaces")


@functools.cache
def _make_piece_normalizer(
    charsmap: bytes, add_dummy_prefix: bool, remove_extra_whitespaces: bool, escape_whitespaces: bool, chosen: str
) -> kernel.SentencepieceEncoder:
    """An encoder without pieces, for its normalizer. chosen: the kernel's implementation, which each has its own."""
    rules = PieceRules(charsmap, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, False)
    none = np.zeros(0, np.int32)
    nothing = make_texts_from_strings([])
    return kernel.SentencepieceEncoder(
        False, nothing, none, np.zeros(0, np.float32), np.zeros(0, np.uint8), 0, none, rules, 0
    )


def _apply_nmt_nfkc(texts: Texts) -> Texts:
    chosen = kernel.get_implementation()
    return _make_piece_normalizer(load_charsmap(), False, False, False, chosen).normalize(texts)


def _mark_spaces(texts: Texts, add_dummy_prefix: bool, remove_extra_whitespaces: bool) -> Texts:
    chosen = kernel.get_implementation()
    return _make_piece_normalizer(b"", add_dummy_prefix, remove_extra_whitespaces, True, chosen).normalize(texts)


BERT_STEPS: dict[str, Callable[[Texts], Texts]] = {
    "bert": functools.partial(kernel.normalize_bert, cased=False),
    "bert-cased": functools.partial(kernel.normalize_bert, cased=True),
}
_SPACE_STEPS: dict[str, Callable[[Texts], Texts]] = {
    name_space_step(prefix, removes): functools.partial(
        _mark_spaces, add_dummy_prefix=prefix, remove_extra_whitespaces=removes
    )
    for prefix in (True, False)
    for removes in (True, False)
}
# Steps that the kernel applies to a batch of texts.
BATCH_STEPS: dict[str, Callable[[Texts], Texts]] = {**BERT_STEPS, NORMALIZER: _apply_nmt_nfkc}
_ALL_BATCH_STEPS = {**BATCH_STEPS, **_SPACE_STEPS}

STEPS: dict[str, Callable[[str], str]] = {
    "nfc": _make_form("NFC"),
    "nfd": _make_form("NFD"),
    "nfkc": _make_form("NFKC"),
    "nfkd": _make_form("NFKD"),
    "lowercase": _lowercase,
    **{step: _make_strip(ranges) for step, ranges in REMOVED.items()},
    **{step: _make_of_str(apply) for step, apply in BATCH_STEPS.items()},
}
_ALL_STEPS = {**STEPS, **{step: _make_of_str(apply) for step, apply in _SPACE_STEPS.items()}}
_KEEP_ASCII = frozenset({"nfc", "nfd", "nfkc", "nfkd", "strip_accents", "strip_invisible"})
