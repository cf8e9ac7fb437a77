"""Documents under another tokenizer: their ids decoded, and the text encoded again.

Leaves to others: fewer merges of the same tokenizer, which take no text (tokcore.tokenizer.smaller).
"""

from __future__ import annotations

import numpy as np

from tokcore.errors import ConfigError, FormatError
from tokcore.kernel import Ids
from tokcore.text.texts import Offsets, make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec


class EncodeAgain:
    """What gives documents the ids that another tokenizer gives their text; special tokens become those of equal text.

    >>> from tokcore.models.bpe import LearnedModel
    >>> from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec
    >>> old, new = (
    ...     make_learned_spec(LearnedModel.from_merges(merges), {"name": "gpt2"}, (), [SpecialToken("<|end|>", None)])
    ...     for merges in ([(b"a", b"b")], [(b"b", b"a"), (b"ba", b"b")])
    ... )
    >>> again = EncodeAgain(old, new)
    >>> [of.tolist() for of in again.replace(np.array([256, 256, 257], np.int32), np.array([0, 3]))]
    [[64, 257, 258], [0, 3]]
    """

    def __init__(self, old: TokenizerSpec, new: TokenizerSpec) -> None:
        """Raises ConfigError unless ids of the old tokenizer give back all text, and the new one is for text."""
        if not old.keeps_text:
            raise ConfigError(
                "the tokenizer of the shards is not lossless: it normalizes text, or leaves some of it out, so its ids "
                "do not give back what was encoded. Build again from the text."
            )
        self._old, self._new = Tokenizer(old), Tokenizer(new)
        ids = {token.text: token.id for token in new.special}
        self._special = {token.id: (token.text, ids.get(token.text)) for token in old.special if token.is_special}
        self._known = np.array([id for id in self._special if id is not None], np.int32)

    def replace(self, ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
        """(ids, offsets) of the same documents.

        ids: int32. offsets: int64[n + 1], where documents begin and the last ends.
        Raises FormatError for a special token that the new tokenizer lacks, and for ids that are not of the old one.
        """
        is_special = np.isin(ids, self._known)
        texts: list[bytes] = []
        moved: list[int] = []  # for each text the id after it; -1 where a document ends
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            for at in (start + np.flatnonzero(is_special[start:end])).tolist():
                texts.append(self._old.decode(ids[start:at]))
                moved.append(self._move(int(ids[at])))
                start = at + 1
            texts.append(self._old.decode(ids[start:end]))
            moved.append(-1)
        found, bounds, _ = self._new.encode_texts(make_texts_from_strings(texts))
        after = np.array(moved, np.int32)
        own = np.insert(found, bounds[1:], after)
        is_end = np.insert(np.zeros(len(found), bool), bounds[1:], after < 0)
        kept = np.flatnonzero(~is_end)
        ends = np.flatnonzero(is_end) - np.arange(int(is_end.sum()))
        return own[kept], np.concatenate([np.zeros(1, np.int64), ends])

    def _move(self, id: int) -> int:
        text, new = self._special[id]
        if new is None:
            raise FormatError(f"special token {text!r}, id {id}: the new tokenizer has none of that text")
        return new
