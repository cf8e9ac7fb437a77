"""Texts in which spans are replaced: e-mail addresses, keys, what an expression of yours finds, what others found.

masking leaves such spans out of counts alone. Here the text itself changes, for whatever comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tokcore import kernel
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.regex_split import SECONDS_PER_TEXT, find_byte_positions, find_matches_with_regex
from tokcore.text.texts import Texts

CALLED = "mask pattern"  # as errors name a regular expression


class Span(NamedTuple):
    """A part of one text."""

    start: int  # bytes
    end: int
    kind: str


def find_spans(
    texts: Texts, presets: Sequence[str] = (), patterns: Sequence[tuple[str, str]] = ()
) -> dict[int, list[Span]]:
    """Number of a text -> the spans in it, for each that has some: of each kind for itself, so they may overlap.

    presets: names of MASK_PRESETS. patterns: (kind, regular expression); matches of no length are none.
    Raises StageError if an expression exceeds its time limit, ConfigError for one that is not valid.

    >>> from tokcore.text.texts import make_texts_from_strings
    >>> find_spans(make_texts_from_strings(["no", "a@b.org"]), ["email"], [("org", "org$")])
    {1: [Span(start=0, end=7, kind='email'), Span(start=4, end=7, kind='org')]}
    """
    found: dict[int, list[Span]] = {}
    if presets:
        names = list(MASK_PRESETS)
        masked = kernel.find_masked(presets, texts)
        for i in np.flatnonzero(np.diff(masked.firsts)).tolist():
            at = slice(int(masked.firsts[i]), int(masked.firsts[i + 1]))
            begin = int(texts.offsets[i])
            of_text = zip(
                masked.starts[at].tolist(), masked.ends[at].tolist(), masked.presets[at].tolist(), strict=True
            )
            found[i] = [Span(start - begin, end - begin, names[preset]) for start, end, preset in of_text]
    for kind, pattern in patterns:
        ends, are_matches, firsts = find_matches_with_regex(pattern, texts, SECONDS_PER_TEXT, called=CALLED)
        starts = np.concatenate([texts.offsets[:1], ends[:-1]])
        matches = np.flatnonzero(are_matches)
        holders = (np.searchsorted(firsts, matches, side="right") - 1).tolist()
        for i, start, end in zip(holders, starts[matches].tolist(), ends[matches].tolist(), strict=True):
            begin = int(texts.offsets[i])
            found.setdefault(i, []).append(Span(start - begin, end - begin, kind))
    return dict(sorted(found.items()))


def place_characters(text: bytes, spans: Sequence[tuple[int, int, str]]) -> list[Span] | None:
    """Spans in characters as spans in bytes; None if one of them is not inside of the text.

    A byte outside of well-formed UTF-8 is a character of its own.

    >>> place_characters("é@x".encode(), [(1, 3, "email")]), place_characters(b"a", [(0, 2, "email")])
    ([Span(start=2, end=4, kind='email')], None)
    """
    positions = find_byte_positions(text.decode("utf-8", "surrogateescape"))
    if any(not 0 <= start <= end < len(positions) for start, end, _ in spans):
        return None
    return [Span(int(positions[start]), int(positions[end]), kind) for start, end, kind in spans]


def replace_spans(text: bytes, spans: Sequence[Span], spell: Callable[[str], bytes]) -> bytes:
    """The text with each span replaced by what spell() gives for its kind.

    Spans that overlap are replaced as one, by the kind that begins first; of those, the longest; of equal ones, the
    first that is given.

    >>> replace_spans(b"to a@b.org or c", [Span(3, 10, "email"), Span(5, 10, "host")], lambda kind: kind.encode())
    b'to email or c'
    """
    parts: list[bytes] = []
    done = 0
    for start, end, kind in _join(spans):
        parts += [text[done:start], spell(kind)]
        done = end
    return b"".join([*parts, text[done:]])


def mask_texts(
    texts: Texts, spans: Mapping[int, Sequence[Span]], spell: Callable[[str], bytes]
) -> tuple[Texts, list[int]]:
    """(the texts with their spans replaced, which of them have changed), as replace_spans does it."""
    changed = [i for i in sorted(spans) if any(one.end > one.start for one in spans[i])]
    if not changed:
        return texts, []
    return texts.replace(changed, [replace_spans(texts.text(i), spans[i], spell) for i in changed]), changed


def _join(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for one in sorted((span for span in spans if span.end > span.start), key=lambda span: (span.start, -span.end)):
        if joined and one.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return joined
