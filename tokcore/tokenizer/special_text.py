"""Text that spells added tokens: where it is, and how the text around it is encoded."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, takewhile
from operator import eq
from typing import AnyStr, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.text.normalize import Normalizer
from tokcore.text.split_steps import is_word_character
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings
from tokcore.text.unicode import find_ranges
from tokcore.tokenizer.encoded_batch import Encoded, compute_starts
from tokcore.tokenizer.tokenizer_spec import SpecialToken

Flags = npt.NDArray[np.bool_]
_NOWHERE: Offsets = np.zeros(0, np.int64)


class SpecialSpan(NamedTuple):
    """Where a text spells an added token."""

    start: int  # in texts.data
    end: int
    id: int
    text: int  # its number


class SpecialSpans(NamedTuple):
    """Many of them, in order: int64, a row for each."""

    starts: Offsets
    ends: Offsets
    ids: Offsets
    texts: Offsets

    def where(self, flags: Flags) -> SpecialSpans:
        """Those that these flags name."""
        return self if flags.all() else SpecialSpans(*(column[flags] for column in self))

    def rows(self) -> list[SpecialSpan]:
        """One after the other."""
        return [*map(SpecialSpan, *(column.tolist() for column in self))]


_NO_SPANS = SpecialSpans(_NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE)


class Cut(NamedTuple):
    """Texts that are cut around added tokens, which are parts, too. No part is empty, but empty texts are."""

    texts: Texts  # the parts, normalized
    ids: Offsets  # int64, of each part the id of the added token that it is; -1 of text
    of: Offsets  # int64, of each part the number of its text, ascending
    outer: Offsets  # int64, of each part its number in its raw text
    inner: Offsets  # int64, of each part its number in that part, normalized
    num_texts: int  # before they were cut

    @property
    def begins(self) -> Flags:
        """Whether each part is the first of its text."""
        begins: Flags = (self.outer == 0) & (self.inner == 0)
        return begins

    def join(self, encoded: Encoded) -> Encoded:
        """The ids of the texts. encoded: of the parts; added tokens become their ids, and are no pre-tokens."""
        is_added = self.ids >= 0
        if len(self.ids) == self.num_texts and not is_added.any():
            return encoded
        lengths, pretokens = np.diff(encoded.offsets), np.where(is_added, 0, encoded.pretokens)
        own = encoded.ids[np.repeat(~is_added, lengths)]
        lengths[is_added] = 1
        places = np.repeat(is_added, lengths)
        ids = np.empty(int(lengths.sum()), np.int32)
        ids[~places] = own
        ids[places] = self.ids[is_added]
        firsts = np.searchsorted(self.of, np.arange(self.num_texts + 1))
        return Encoded(ids, compute_starts(lengths)[firsts], np.diff(compute_starts(pretokens)[firsts]))


class AddedTokens:
    """The special tokens of a tokenizer, and those that text always becomes: where texts spell them.

    They are found as Hugging Face's tokenizers finds them. Tokens of raw text come first; then the rest is normalized,
    and the others are looked for. Where a tokenizer has tokens that text always becomes, a special token that is not
    allowed is ordinary text as a whole: nothing is found within it.
    """

    def __init__(self, tokens: Iterable[SpecialToken], normalizer: Normalizer) -> None:
        """Raises FormatError if the normalized forms of tokens are not different, or empty."""
        self.ids: dict[str, int] = {}
        self.special_ids: dict[str, int] = {}
        self._always: set[int] = set()
        self._raw: dict[str, int] = {}
        self._normalized: dict[str, int] = {}
        self._normalizer = normalizer
        self._flagged: dict[int, SpecialToken] = {}
        tokens = list(tokens)
        for token in tokens:
            assert token.id is not None, "a finished tokenizer has an id for each"
            self.ids[token.text] = token.id
            if token.is_special:
                self.special_ids[token.text] = token.id
            else:
                self._always.add(token.id)
            if token.lstrip or token.rstrip or token.single_word:
                self._flagged[token.id] = token
            if not token.normalized:
                self._raw[token.text] = token.id
                continue
            form = normalizer.apply_str(token.text)
            if not form or form in self._normalized:
                what = f"becomes {form!r}, as another one does" if form else "is empty once it is normalized"
                raise FormatError(f"added token {token.text!r} is looked for in normalized text, and {what}")
            self._normalized[form] = token.id
        _check_strips(tokens)

    @property
    def has_always(self) -> bool:
        """Whether there are tokens that text always becomes."""
        return bool(self._always)

    def cut(self, texts: Texts, allowed: Mapping[str, int]) -> Cut:
        """Texts cut around what they always become, and around allowed special tokens (text -> id)."""
        raw = _cut_around(texts, self._find(texts, self._raw, allowed))
        raw = raw._replace(texts=self._normalizer.apply(raw.texts))
        if not self._normalized:
            return raw
        spans = self._find(raw.texts, self._normalized, allowed)
        inner = _cut_around(raw.texts, spans.where(raw.ids[spans.texts] < 0))
        ids = np.where(raw.ids[inner.of] < 0, inner.ids, raw.ids[inner.of])
        return Cut(inner.texts, ids, raw.of[inner.of], raw.outer[inner.of], inner.outer, texts.num_texts)

    def may_be_spelled(self, strings: Sequence[str | bytes]) -> bool:
        """Whether one of the strings may spell a token that text always becomes. Several times as fast as cut().

        Some are looked for in normalized text: strings that a normalizer changes are asked about once more after it.
        """
        return bool(self._always) and any(map(self._spells_always, strings))

    def may_spell_special(self, strings: Sequence[str]) -> bool:
        """Whether one of the strings may spell a special token. Several times as fast as cut()."""
        if not self.special_ids:
            return False
        if self._normalized:
            return True
        firsts = self._first_characters
        found = [string for string in strings if any(map(string.__contains__, firsts))]
        return any(self._special_matcher.search(string.encode(errors="replace")) for string in found)

    @functools.cached_property
    def _first_characters(self) -> tuple[str, ...]:
        """What special tokens begin with: the whole of what all share, or the first character of each."""
        texts = [*self.special_ids]
        first, last = min(texts), max(texts)
        shared = sum(1 for _ in takewhile(bool, map(eq, first, last)))
        return (first[:shared],) if shared else tuple(sorted({text[0] for text in texts}))

    def _spells_always(self, string: str | bytes) -> bool:
        prefix, matcher, matcher_of_bytes = self._always_matchers
        if isinstance(string, str):
            return prefix in string and matcher.search(string) is not None
        return not isinstance(string, bytes) or matcher_of_bytes.search(string) is not None

    @functools.cached_property
    def _always_matchers(self) -> tuple[str, re.Pattern[str], re.Pattern[bytes]]:
        """What all tokens that text always becomes begin with, and what finds one of them."""
        texts = [text for text, id in (*self._raw.items(), *self._normalized.items()) if id in self._always]
        first, last = min(texts), max(texts)  # what these two begin with, all do
        shared = sum(1 for _ in takewhile(bool, map(eq, first, last)))
        prefix = first[:shared]
        return prefix, re.compile(_spell_any(texts)), re.compile(_spell_any([t.encode() for t in texts]))

    def cut_text(self, text: bytes, allowed: Mapping[str, int]) -> list[bytes | int] | None:
        """One text cut around allowed special tokens: bytes and ids in turn. Of texts that nothing changes.

        None where tokens are looked for in normalized text, or with what is around them, for which cut() is.
        """
        if self._normalized or self._flagged:
            return None
        matcher = self._special_matcher if allowed is self.special_ids else _compile_matcher(tuple(allowed))
        parts: list[bytes | int] = []
        start = 0
        for match in matcher.finditer(text):
            parts += (text[start : match.start()], allowed[match.group().decode()])
            start = match.end()
        return [*parts, text[start:]]

    @functools.cached_property
    def _special_matcher(self) -> re.Pattern[bytes]:
        return _compile_matcher(tuple(self.special_ids))

    def list_spelled(self, texts: Texts) -> list[int]:
        """The ids of all added tokens that texts spell, special or not, in order."""
        if self._normalized:
            ids = self.cut(texts, self.special_ids).ids
            return [id for id in ids.tolist() if id >= 0]
        spelled: list[int] = self._fit(texts, find_special(texts, self._raw)).ids.tolist()
        return spelled

    def _find(self, texts: Texts, known: Mapping[str, int], allowed: Mapping[str, int]) -> SpecialSpans:
        wanted = {*allowed.values()}
        if not self._always:
            known = {text: id for text, id in known.items() if id in wanted}
            return self._fit(texts, find_special(texts, known))
        if not any(id in self._always or id in wanted for id in known.values()):
            return _NO_SPANS
        spans = (self._raw_finder if known is self._raw else self._normalized_finder).find(texts)
        ordinary = [id for id in self.special_ids.values() if id not in wanted]
        return self._fit(texts, spans.where(~np.isin(spans.ids, ordinary)) if ordinary else spans)

    @functools.cached_property
    def _raw_finder(self) -> _Finder:
        return _Finder(self._raw)

    @functools.cached_property
    def _normalized_finder(self) -> _Finder:
        return _Finder(self._normalized)

    def _fit(self, texts: Texts, spans: SpecialSpans) -> SpecialSpans:
        """The spans with the white space that they take, less those that must be words of their own and are not."""
        if not self._flagged or not np.isin(spans.ids, [*self._flagged]).any():
            return spans
        fitted: list[SpecialSpan] = []
        for span in spans.rows():
            token = self._flagged.get(span.id)
            if token is None:
                fitted.append(span)
                continue
            low, high = (int(offset) for offset in texts.offsets[span.text : span.text + 2])
            last = fitted[-1] if fitted and fitted[-1].text == span.text else None
            text = texts.data[low:high]
            start, end = span.start - low, span.end - low
            if token.single_word and (
                _is_word(text[max(start - 4, 0) : start], -1) or _is_word(text[end : end + 4], 0)
            ):
                continue
            if token.lstrip:
                first = 0 if last is None else last.end - low
                while (width := _find_white(text[max(start - 3, first) : start], at_end=True)) > 0:
                    start -= width
            if token.rstrip:
                while (width := _find_white(text[end : end + 3], at_end=False)) > 0:
                    end += width
            fitted.append(span._replace(start=start + low, end=end + low))
        return SpecialSpans(*np.array(fitted, np.int64).reshape(-1, 4).T.copy())


def _check_strips(tokens: Sequence[SpecialToken]) -> None:
    """Raise FormatError if one token takes white space after it, and another begins with it: theirs repeats text."""
    for taker in [token for token in tokens if token.rstrip]:
        for token in tokens:
            if taker.normalized == token.normalized and _find_white(
                np.frombuffer(token.text.encode(), np.uint8), at_end=False
            ):
                raise FormatError(
                    f"added token {taker.text!r} has rstrip, and {token.text!r} begins with white space, which both "
                    f"would take: remove one of them, or set rstrip to false"
                )


_WHITE = frozenset(chr(c).encode() for first, last in find_ranges("White_Space") for c in range(first, last + 1))


def _find_white(text: npt.NDArray[np.uint8], *, at_end: bool) -> int:
    """The number of bytes of the white-space character that a text begins or ends with; 0 if it is none."""
    data = text.tobytes()
    parts = ((data[-width:] if at_end else data[:width]) for width in range(1, min(len(data), 3) + 1))
    return next((len(part) for part in parts if part in _WHITE), 0)


def _is_word(text: npt.NDArray[np.uint8], place: int) -> bool:
    """Whether the first (0) or the last (-1) character of some bytes is one of a word."""
    characters = text.tobytes().decode("utf-8", "surrogateescape")
    return bool(characters) and is_word_character(characters[place])


class _Finder:
    """Finds added tokens (text -> id) in texts: the leftmost, of several the longest."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._ids: Offsets = np.array([*known.values()], np.int64)
        self._finder = kernel.StringFinder(make_texts_from_strings([*known]))

    def find(self, texts: Texts) -> SpecialSpans:
        """Where they are spelled, in order."""
        found = self._finder.find(texts)
        return SpecialSpans(found.starts, found.ends, self._ids[found.strings], found.texts)


def find_special(texts: Texts, allowed: Mapping[str, int]) -> SpecialSpans:
    """Where texts spell one of these added tokens (text -> id), in order: the leftmost, of several the longest."""
    if not allowed or not texts.size_bytes:
        return _NO_SPANS
    # Most batches spell none, and looking for one string is several times as fast as looking for all at once.
    if len(allowed) <= 8:
        everything = texts.data[texts.offsets[0] : texts.offsets[-1]].tobytes()
        if not any(text.encode() in everything for text in allowed):
            return _NO_SPANS
    return _make_finder(tuple(allowed.items())).find(texts)


@functools.lru_cache(maxsize=32)
def _make_finder(allowed: tuple[tuple[str, int], ...]) -> _Finder:
    return _Finder(dict(allowed))


@functools.lru_cache(maxsize=32)
def _compile_matcher(allowed: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(_spell_any([text.encode() for text in allowed]))


_MOST_NESTED = 100  # groups in a regular expression: `re` takes a few times as many


def _spell_any(texts: Sequence[AnyStr]) -> AnyStr:
    """A regular expression of the longest of these texts that is found, as a trie: thousands of texts begin alike.

    >>> _spell_any(["ab", "abc", "x"])
    '(?:ab(?:c)?|x)'
    """
    nothing = texts[0][:0]
    try:
        return _spell_trie(sorted(set(texts)), 0, 0)
    except RecursionError:
        longest_first = sorted(texts, key=lambda text: (-len(text), text))
        return (b"|" if isinstance(nothing, bytes) else "|").join(map(re.escape, longest_first))


def _spell_trie(texts: Sequence[AnyStr], start: int, depth: int) -> AnyStr:
    """What follows place start in texts, which are ascending and equal up to there."""
    if depth > _MOST_NESTED:
        raise RecursionError
    first, last = texts[0], texts[-1]
    end = start + sum(1 for _ in takewhile(bool, map(eq, first[start:], last[start:])))
    shared = re.escape(first[start:end])
    if len(texts) == 1:
        return shared
    ends_here = len(first) == end
    parts: list[AnyStr] = []
    for _, alike in groupby(texts[ends_here:], lambda text: text[end : end + 1]):
        parts.append(_spell_trie(list(alike), end, depth + 1))
    if isinstance(first, bytes):
        return shared + b"(?:" + b"|".join(parts) + (b")?" if ends_here else b")")
    return shared + "(?:" + "|".join(parts) + (")?" if ends_here else ")")


def _cut_around(texts: Texts, spans: SpecialSpans) -> Cut:
    """The parts of texts around these spans; the texts themselves if there are none."""
    bounds = texts.offsets
    of = np.arange(texts.num_texts)
    if len(spans.ids):
        bounds = np.sort(np.concatenate([bounds, spans.starts, spans.ends]), kind="stable")  # three runs
        bounds = bounds[np.concatenate([[True], np.diff(bounds) > 0])]
        of = np.maximum(np.searchsorted(texts.offsets, bounds[:-1], side="right") - 1, 0)
    ids = np.full(len(of), -1, np.int64)
    ids[np.searchsorted(bounds, spans.starts)] = spans.ids
    outer = np.arange(len(of)) - np.searchsorted(of, of)
    return Cut(Texts(texts.data, bounds), ids, of, outer, np.zeros_like(of), texts.num_texts)
