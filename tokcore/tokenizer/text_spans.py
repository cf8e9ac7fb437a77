"""Where the tokens of a batch lie in the texts that were encoded, in characters.

Leaves to others: spans in what ids decode to (token_spans).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Texts
from tokcore.tokenizer.encoded_batch import Encoded, compute_starts
from tokcore.tokenizer.shared_tables import SharedTables
from tokcore.tokenizer.text_template import TextTemplate
from tokcore.tokenizer.token_spans import Spans


def find_text_spans(shared: SharedTables, texts: Texts, encoded: Encoded, template: TextTemplate) -> Spans | None:
    """Start and end of each token of a batch of UTF-8, int64 [n, 2]; of a part of a character that of the whole.

    None if the tokens, joined, are not the texts: where something is normalized, left out or unknown.
    """
    if not shared.keeps_most or not len(encoded.ids):
        return None if len(encoded.ids) else np.zeros((0, 2), np.int64)
    normalized = shared.normalizer.apply(texts)
    if normalized is not texts and not _is_equal(normalized, texts):
        return None
    sizes = shared.size_of_id[encoded.ids]
    bounds = compute_starts(sizes)
    if not np.array_equal(bounds[encoded.offsets], texts.offsets - texts.offsets[0]):
        return None
    data = texts.data[texts.offsets[0] : texts.offsets[-1]]
    firsts = np.flatnonzero(data & 0xC0 != 0x80)
    start = np.searchsorted(firsts, bounds[:-1], side="right") - 1
    end = np.searchsorted(firsts, bounds[1:], side="left")
    base = np.searchsorted(firsts, bounds[encoded.offsets[:-1]], side="left")
    spans = np.stack([start, end], axis=1) - np.repeat(base, np.diff(encoded.offsets))[:, np.newaxis]
    return _trim(shared, encoded, spans, template.keeps_prefix) if template.trims else spans


def _is_equal(left: Texts, right: Texts) -> bool:
    def get(texts: Texts) -> npt.NDArray[np.uint8]:
        return texts.data[texts.offsets[0] : texts.offsets[-1]]

    same = np.array_equal(np.diff(left.offsets), np.diff(right.offsets))
    return same and np.array_equal(get(left), get(right))


def _trim(shared: SharedTables, encoded: Encoded, spans: Spans, keeps_prefix: bool) -> Spans | None:
    """The spans without white space at the ends of tokens, as tokenizers' ByteLevel trims them."""
    before, after = shared.white_of_id[:, encoded.ids]
    start, end = spans.T
    if keeps_prefix and ((start == 0) & (before > 0)).any():
        return None  # whether that blank was put there only tokenizers knows
    start = np.where(before > 0, np.minimum(start + before, end), start)
    end = np.where((after > 0) & (end >= after), np.maximum(end - after, start), end)
    return np.stack([start, end], axis=1)
