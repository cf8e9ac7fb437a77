"""Masking: e-mail addresses, keys, cards and the like are not counted, so that no merge is learned from them.

The whole text is split as the encoder splits it. Pre-tokens that touch a masked span are left out; all others are
counted as if there were no mask. Masks do not change encoding. mask_presets and the kernel say what a preset matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Offsets, Texts


class Masked(NamedTuple):
    """The pre-tokens and spans that were left out."""

    size_bytes: int  # of the pre-tokens that touch a masked span
    matches: Counter[str]  # preset -> spans


def check_mask(mask: Sequence[str]) -> tuple[str, ...]:
    """The presets, sorted, each once. Raises ConfigError for an unknown name."""
    for name in mask:
        if name not in MASK_PRESETS:
            raise ConfigError(f"mask: there is no preset {name!r}: expected some of {', '.join(MASK_PRESETS)}")
    return tuple(sorted(set(mask)))


def add_texts(counter: kernel.Counter, texts: Texts, pretokenizer: Pretokenizer, mask: Sequence[str] = ()) -> Masked:
    """Count the pre-tokens of texts, except those that touch a span of these presets. Each text is a document.

    counter: made for the pretokenizer's named pattern; for a user's own regex, which splits outside of it, any counter.
    Raises StageError if a user's own pattern exceeds its time limit, ConfigError for a mask over steps that change the
    text.
    """
    if not mask:
        _add_whole(counter, texts, pretokenizer)
        return Masked(0, Counter())
    if not pretokenizer.keeps_text:
        raise ConfigError(
            "count.mask: the steps of the split pattern change the text, so that masked spans would be elsewhere: "
            "remove count.mask, or mask the sources before"
        )
    spans = kernel.find_masked(mask, texts)
    numbers = np.flatnonzero(np.diff(spans.firsts))
    done = 0
    for i in [*numbers.tolist(), texts.num_texts]:
        if i > done:
            _add_whole(counter, _take_part(texts, done, i), pretokenizer)
        done = i + 1
    size_bytes = 0
    if len(numbers):
        holders = _join([_take_part(texts, i, i + 1) for i in numbers.tolist()])
        # By span: how far its text moved. Spans are sorted by text, and only these texts have any.
        moved = np.repeat(holders.offsets[:-1] - texts.offsets[numbers], np.diff(spans.firsts)[numbers])
        kept, ends, firsts = _drop(holders, *pretokenizer.split(holders), spans.starts + moved, spans.ends + moved)
        counter.add_pieces(kept, ends, firsts)
        size_bytes = holders.size_bytes - kept.size_bytes
    names = list(MASK_PRESETS)
    return Masked(size_bytes, Counter(names[number] for number in spans.presets.tolist()))


def _add_whole(counter: kernel.Counter, texts: Texts, pretokenizer: Pretokenizer) -> None:
    if pretokenizer.native_name is not None:
        counter.add(texts)
    else:
        counter.add_pieces(*pretokenizer.cut(texts))


def _take_part(texts: Texts, start: int, end: int) -> Texts:
    return Texts(texts.data, texts.offsets[start : end + 1])


def _join(texts: Sequence[Texts]) -> Texts:
    """Single texts as one batch."""
    data = np.concatenate([text.data[text.offsets[0] : text.offsets[1]] for text in texts])
    return Texts(data, _compute_starts(np.array([text.size_bytes for text in texts], np.int64)))


def _drop(
    texts: Texts, ends: Offsets, firsts: Offsets, span_starts: Offsets, span_ends: Offsets
) -> tuple[Texts, Offsets, Offsets]:
    """The pre-tokens that touch no span: each text's back to back, their ends, and the first of each text."""
    starts = np.concatenate([texts.offsets[:1], ends[:-1]])
    # Spans may overlap: for each pre-token, count the spans that have begun and not ended.
    marks = np.zeros(len(ends) + 1, np.int64)
    np.add.at(marks, np.searchsorted(ends, span_starts, side="right"), 1)
    np.add.at(marks, np.searchsorted(starts, span_ends, side="left"), -1)
    kept = np.cumsum(marks[:-1]) == 0
    lengths = ends - starts
    data = texts.data[texts.offsets[0] : texts.offsets[-1]][np.repeat(kept, lengths)]
    left = _compute_starts(lengths[kept])
    new_firsts = _compute_starts(kept)[firsts]
    return Texts(data, left[new_firsts]), left[1:], new_firsts


def _compute_starts(lengths: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Offsets:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
