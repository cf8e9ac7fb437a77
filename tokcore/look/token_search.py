"""Where a text begins among token ids, found without decoding them.

Each step of the search is over an array of ids. Bits say how much of the text is spelled so far: bit k of a state
stands for its first k bytes, a token keeps the bits from which it goes on, and moves them by its own length. A test
compares what is found with the decoded text. Leaves to others: documents, and what is around a place
(pipelines/look/view).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.models.model import JoinedTokens
from tokcore.shards.token_batch import Ids
from tokcore.tokenizer.tokenizer import Tokenizer

Places = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.uint64]

_MOST_BYTES = 63  # of a text that are looked at: a bit for each
_MOST_IDS = 1 << 22  # of a table that ids index


class TokenSearcher:
    """Looks for texts in the ids of one tokenizer. Safe to share between threads.

    >>> searcher = TokenSearcher(Tokenizer.load("out/first"))
    >>> searcher.look_for(b"w lo").find(np.array([257, 258, 258], np.int32)).tolist()  # of "low low low"
    [0, 1]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises ValueError unless can_search(tokenizer)."""
        if not can_search(tokenizer):
            raise ValueError("texts of this tokenizer are not the bytes of their tokens, one after the other")
        self.tokenizer = tokenizer
        model = tokenizer.spec.model
        spelled = [
            *zip(model.tokens, model.ids.tolist(), strict=True),
            *((text.encode(), id) for text, id in tokenizer.added.items()),
        ]
        self._forward = _Sorted(spelled)
        self._backward = _Sorted([(token[::-1], id) for token, id in spelled])
        self._spelled = spelled
        self._sizes = np.zeros(tokenizer.vocab_size, np.uint64)
        for token, id in spelled:
            self._sizes[id] = min(len(token), _MOST_BYTES)

    def look_for(self, text: bytes) -> TextSearch:
        """A search for a text of a byte or more."""
        return TextSearch(self._spelled, self._forward, self._backward, self._sizes, text[:_MOST_BYTES])


def can_search(tokenizer: Tokenizer) -> bool:
    """Whether decoded texts are the bytes of their tokens, joined, and the ids are few enough for a table."""
    return tokenizer.vocab_size <= _MOST_IDS and isinstance(tokenizer.spec.model.decoder({}), JoinedTokens)


class TextSearch:
    """A search for one text; of a text longer than 63 bytes for the first of them."""

    def __init__(
        self,
        spelled: Sequence[tuple[bytes, int]],
        forward: _Sorted,
        backward: _Sorted,
        sizes: npt.NDArray[np.uint64],
        text: bytes,
    ) -> None:
        num = len(sizes)
        self._sizes = sizes
        self._whole = np.zeros(num, bool)
        self._whole[[id for token, id in spelled if text in token]] = True
        self._starts, self._goes_on, self._ends = (np.zeros(num, np.uint64) for _ in range(3))
        for k in range(1, len(text)):
            bit = np.uint64(1 << k)
            self._starts[backward.list_starting_with(text[:k][::-1])] |= bit
            self._ends[forward.list_starting_with(text[k:])] |= bit
            for end in range(k + 1, len(text)):
                self._goes_on[forward.list_equal(text[k:end])] |= bit
        self._begins = self._whole | (self._starts != 0)

    def find(self, tokens: Ids) -> Places:
        """The places of the tokens in which the text begins, ascending, each once.

        tokens: ids, int32. A text that goes from one document into the next is found, too.
        """
        places = np.flatnonzero(self._begins[tokens])
        first = tokens[places]
        found = [places[self._whole[first]]]
        states: _Bits = self._starts[first]
        places, states = places[states != 0], states[states != 0]
        for step in range(1, _MOST_BYTES):
            inside = places + step < len(tokens)
            places, states = places[inside], states[inside]
            if not len(places):
                break
            following = tokens[places + step]
            found.append(places[(states & self._ends[following]) != 0])
            states = (states & self._goes_on[following]) << self._sizes[following]
            places, states = places[states != 0], states[states != 0]
        return np.unique(np.concatenate(found))


class _Sorted:
    """Tokens in the order of their bytes, and their ids."""

    def __init__(self, spelled: Sequence[tuple[bytes, int]]) -> None:
        ordered = sorted(spelled)
        self._tokens = [token for token, _ in ordered]
        self._ids = np.array([id for _, id in ordered], np.int64)

    def list_starting_with(self, start: bytes) -> Places:
        """The ids of tokens that begin with these bytes."""
        above = start.rstrip(b"\xff")
        end = bisect_left(self._tokens, above[:-1] + bytes([above[-1] + 1])) if above else len(self._tokens)
        return self._ids[bisect_left(self._tokens, start) : end]

    def list_equal(self, token: bytes) -> Places:
        """The ids of tokens with just these bytes."""
        return self._ids[bisect_left(self._tokens, token) : bisect_left(self._tokens, token + b"\0")]
