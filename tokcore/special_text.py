"""Text that spells special tokens: where it is, and how the text around it is encoded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tokcore.encoded import Encoded, compute_starts
from tokcore.texts import Texts


class SpecialSpan(NamedTuple):
    """Where a text spells a special token."""

    start: int  # in texts.data
    end: int
    id: int


def find_special(texts: Texts, allowed: Mapping[str, int]) -> list[SpecialSpan]:
    """Where texts spell one of these special tokens (text -> id), in order: the leftmost, of several the longest."""
    if not allowed or not texts.size_bytes:
        return []
    everything = texts.data[texts.offsets[0] : texts.offsets[-1]].tobytes()
    # Most batches spell none, and looking for one string is much faster than matching a pattern.
    if len(allowed) <= 8 and not any(text.encode() in everything for text in allowed):
        return []
    matcher = _compile_matcher(tuple(allowed))
    spans = []
    for i in range(texts.num_texts):
        start = int(texts.offsets[i])
        for match in matcher.finditer(texts.text(i)):
            spans.append(SpecialSpan(start + match.start(), start + match.end(), allowed[match.group().decode()]))
    return spans


@functools.lru_cache(maxsize=32)
def _compile_matcher(allowed: tuple[str, ...]) -> re.Pattern[bytes]:
    longest_first = sorted((text.encode() for text in allowed), key=lambda text: (-len(text), text))
    return re.compile(b"|".join(map(re.escape, longest_first)))


def encode_around(texts: Texts, spans: list[SpecialSpan], encode: Callable[[Texts], Encoded]) -> Encoded:
    """The ids of texts with the special token's id at each span, which is not a pre-token; encode does the rest.

    Each text is cut around its spans, and what is between them is encoded as a text of its own.
    """
    starts = np.array([span.start for span in spans], np.int64)
    ends = np.array([span.end for span in spans], np.int64)
    bounds = np.unique(np.concatenate([texts.offsets, starts, ends]))
    parts = encode(Texts(texts.data, bounds))
    special = np.searchsorted(bounds, starts)
    lengths, pretokens = np.diff(parts.offsets), parts.pretokens.copy()
    kept = np.ones(len(lengths), bool)
    kept[special] = False
    own = parts.ids[np.repeat(kept, lengths)]
    lengths[special], pretokens[special] = 1, 0
    is_special = np.repeat(~kept, lengths)
    ids = np.empty(int(lengths.sum()), np.int32)
    ids[~is_special] = own
    ids[is_special] = [span.id for span in spans]
    # A text's first part is where its offset is among the bounds; equal offsets are empty texts.
    first = np.searchsorted(bounds, texts.offsets)
    return Encoded(ids, compute_starts(lengths)[first], np.diff(compute_starts(pretokens)[first]))
