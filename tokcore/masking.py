"""Masking: what a text holds of e-mail addresses, keys, cards and the like is not counted, so not learned from.

The whole text is split as the encoder will split it; a pre-token that touches a masked span is then left out, and all
others are counted as if nothing were masked. Leaves to others: what a preset matches (mask_presets, kernel) and
counting itself (kernel.Counter). Encoding knows nothing of masks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.mask_presets import MASK_PRESETS
from tokcore.pretokenize import Pretokenizer
from tokcore.texts import Offsets, Texts


class Masked(NamedTuple):
    """What was left out."""

    size_bytes: int  # of the pre-tokens that touch a masked span
    matches: Counter[str]  # preset -> spans


def checked_mask(mask: Sequence[str]) -> tuple[str, ...]:
    """The presets, sorted, each once. Raises ConfigError for a name that is none."""
    for name in mask:
        if name not in MASK_PRESETS:
            raise ConfigError(f"mask: there is no preset {name!r}: expected some of {', '.join(MASK_PRESETS)}")
    return tuple(sorted(set(mask)))


def add_texts(counter: kernel.Counter, texts: Texts, pretokenizer: Pretokenizer, mask: Sequence[str] = ()) -> Masked:
    """Count the pre-tokens of texts, each a document, but for those that touch a span of these presets.

    counter: made for the pretokenizer's pattern; for a user's own, whose texts are split outside of it, for any.
    Raises StageError if a user's own pattern exceeds its time limit.
    """
    if not mask:
        _add_whole(counter, texts, pretokenizer)
        return Masked(0, Counter())
    spans = kernel.find_masked(mask, texts)
    numbers = np.flatnonzero(np.diff(spans.firsts))
    done = 0
    for i in [*numbers.tolist(), texts.num_texts]:
        if i > done:
            _add_whole(counter, _part(texts, done, i), pretokenizer)
        done = i + 1
    size_bytes = 0
    if len(numbers):
        holders = _gathered([_part(texts, i, i + 1) for i in numbers.tolist()])
        # Where each span's text went; spans are by text, and only these texts have any.
        moved = np.repeat(holders.offsets[:-1] - texts.offsets[numbers], np.diff(spans.firsts)[numbers])
        kept, ends, firsts = _kept(holders, *pretokenizer.split(holders), spans.starts + moved, spans.ends + moved)
        counter.add_pieces(kept, ends, firsts)
        size_bytes = holders.size_bytes - kept.size_bytes
    names = list(MASK_PRESETS)
    return Masked(size_bytes, Counter(names[number] for number in spans.presets.tolist()))


def _add_whole(counter: kernel.Counter, texts: Texts, pretokenizer: Pretokenizer) -> None:
    if pretokenizer.native_name is not None:
        counter.add(texts)
    else:
        counter.add_pieces(texts, *pretokenizer.split(texts))


def _part(texts: Texts, start: int, end: int) -> Texts:
    return Texts(texts.data, texts.offsets[start : end + 1])


def _gathered(texts: Sequence[Texts]) -> Texts:
    """Single texts as one batch."""
    data = np.concatenate([text.data[text.offsets[0] : text.offsets[1]] for text in texts])
    return Texts(data, _starts(np.array([text.size_bytes for text in texts], np.int64)))


def _kept(
    texts: Texts, ends: Offsets, firsts: Offsets, span_starts: Offsets, span_ends: Offsets
) -> tuple[Texts, Offsets, Offsets]:
    """The pre-tokens that touch no span: those of each text back to back, their ends, and each text's first."""
    starts = np.concatenate([texts.offsets[:1], ends[:-1]])
    # Spans may overlap, so what is counted is how many have begun and not ended, pre-token by pre-token.
    marks = np.zeros(len(ends) + 1, np.int64)
    np.add.at(marks, np.searchsorted(ends, span_starts, side="right"), 1)
    np.add.at(marks, np.searchsorted(starts, span_ends, side="left"), -1)
    kept = np.cumsum(marks[:-1]) == 0
    lengths = ends - starts
    data = texts.data[texts.offsets[0] : texts.offsets[-1]][np.repeat(kept, lengths)]
    left = _starts(lengths[kept])
    new_firsts = _starts(kept)[firsts]
    return Texts(data, left[new_firsts]), left[1:], new_firsts


def _starts(lengths: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Offsets:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
