"""Where tokens begin in the bytes of texts, of any tokenizer whose tokens give the text back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Offsets
from tokcore.tokenizer.encoded_batch import Encoded
from tokcore.tokenizer.tokenizer import Tokenizer


class TokenStarts(NamedTuple):
    """Of texts, one after the other: how many tokens begin before each byte, and which texts are known.

    before: int64 [bytes + 1]. A token that is part of a character begins at its own byte. known: bool [texts], false
    where tokens do not spell the text: where something is normalized, left out or unknown. No token begins there.
    """

    before: Offsets
    known: npt.NDArray[np.bool_]

    def count_between(self, starts: Offsets, ends: Offsets) -> Offsets:
        """How many tokens begin at or after each start, and before each end: int64, as many as there are ends."""
        counted: Offsets = self.before[ends] - self.before[starts]
        return counted


def find_token_starts(tokenizer: Tokenizer, texts: Sequence[bytes], encoded: Encoded) -> TokenStarts:
    """Where the tokens of texts begin. encoded: what the tokenizer makes of these texts.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> tokenizer, texts = Tokenizer.load("out/first"), [b"lower low"]
    >>> np.flatnonzero(np.diff(find_token_starts(tokenizer, texts, tokenizer.encode_strings(texts)).before)).tolist()
    [0, 3, 5]
    """
    sizes = np.array([len(text) for text in texts], np.int64)
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    begins = np.zeros(int(firsts[-1]), np.int64)
    if tokenizer.spec.keeps_text:
        known = np.ones(len(texts), bool)
        model = tokenizer.spec.model
        lengths = model.sizes[np.searchsorted(model.ids, encoded.ids)].astype(np.int64)
        np.add.at(begins, (np.cumsum(lengths) - lengths)[lengths > 0], 1)
    else:
        known = np.zeros(len(texts), bool)
        for i, text in enumerate(texts):
            ids = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]]
            if len(ids) and tokenizer.decode(ids) == text:
                known[i] = True
                spans = tokenizer.offsets(ids).bytes
                np.add.at(begins, firsts[i] + spans[spans[:, 0] < spans[:, 1], 0], 1)
    before = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(begins, out=before[1:])
    return TokenStarts(before, known)
