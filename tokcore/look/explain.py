"""How a text becomes its tokens: the pre-token that each is in, and the merges that made it, replayed one by one.

The ids are the tokenizer's own. For byte-level BPE the merges are replayed, slowly and with every step kept; a test
compares the replay with the kernel. Of pieces with scores the score is told, of other models that nothing was merged.
Leaves to others: encoding (tokcore.tokenizer.tokenizer), and how tokens are shown (pipelines).
"""

from __future__ import annotations

import functools
import heapq
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tokcore.models.bpe import is_bpe, require_bpe
from tokcore.models.unigram.pathpiece import takes_fewest
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer

# How a token came to be.
SPECIAL, BYTE, MERGED, WHOLE, SCORED, LISTED = "special", "byte", "merged", "whole", "scored", "listed"
FEWEST = "fewest"


class Step(NamedTuple):
    """One merge: two neighbours became one token. rank: its place in the order of merges, low first."""

    rank: int
    left: int
    right: int
    made: int


class ExplainedToken(NamedTuple):
    """A token of a text.

    start, end: its bytes in what the ids decode to. pretoken: number of its pre-token in the text, -1 where the model
    splits the text itself, and of special tokens. origin: how it came to be, one of
      special   the text spells a special token, which was allowed, or another added one
      byte      a byte on its own
      merged    by steps, in this order
      whole     its pre-token is a token and is taken as it is; steps are those that would make it, if there are any
      scored    a piece of the cut with the best score, or merged in the order of scores; score: its own
      fewest    one of the fewest tokens that spell its pre-token
      listed    one of a list, such as a character, a word, or the longest piece that a word begins with
    """

    id: int
    data: bytes
    start: int
    end: int
    pretoken: int
    origin: str
    steps: tuple[Step, ...] = ()
    score: float | None = None


class Explainer:
    """Explains the tokens of texts; keeps the merges of one tokenizer. Safe to share between threads.

    >>> tokenizer = Tokenizer.load("out/first")
    >>> for token in Explainer(tokenizer).explain("low"):
    ...     print(token.id, token.data, token.origin, [(step.left, step.right) for step in token.steps])
    257 b'low' merged [(75, 78), (256, 86)]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._model = tokenizer.spec.model

    def explain(self, text: str | bytes, *, with_special: bool = False) -> list[ExplainedToken]:
        """The tokens of a text, in order.

        with_special: special tokens that the text spells become their ids. Raises UnicodeEncodeError for a str with a
        lone surrogate.
        """
        ids = self.tokenizer.encode(text, allow_special="all" if with_special else ()).tolist()
        specials = set(self.tokenizer.added.values())
        decoded = self.tokenizer.decode(ids)
        spans = self.tokenizer.offsets(ids).bytes.tolist()
        made = self._replay_text(text, with_special) if is_bpe(self._model) else None
        explained = []
        for place, (id, (start, end)) in enumerate(zip(ids, spans, strict=True)):
            pretoken, origin, score = -1, SPECIAL, None
            steps: tuple[Step, ...] = ()
            if made is not None:
                _, pretoken, origin, steps = made[place]
            elif id not in specials:
                origin, score = self._describe_piece(id)
            explained.append(ExplainedToken(id, decoded[start:end], start, end, pretoken, origin, steps, score))
        return explained

    def explain_token(self, id: int) -> tuple[Step, ...]:
        """The merges that make a token of its own bytes; () if there are none.

        Raises IdentityError for an unused id.
        """
        data = self.tokenizer.token_bytes(id)
        if not is_bpe(self._model) or id in self.tokenizer.added.values():
            return ()
        found = self._replay(data)
        return found[0][1] if len(found) == 1 and found[0][0] == id else ()

    def _replay_text(self, text: str | bytes, with_special: bool) -> list[tuple[int, int, str, tuple[Step, ...]]]:
        """Of each token its id, the number of its pre-token, its origin and its steps."""
        found: list[tuple[int, int, str, tuple[Step, ...]]] = []
        pretoken = 0
        for added, between in self.tokenizer.cut_added(text, with_special=with_special):
            if added is not None:
                found.append((added, -1, SPECIAL, ()))
                continue
            for part in self._split(between):
                found += [(id, pretoken, origin, steps) for id, origin, steps in self._explain_pretoken(part)]
                pretoken += 1
        return found

    def _split(self, normalized: bytes) -> list[bytes]:
        texts, ends, _ = Pretokenizer.from_spec(self.tokenizer.spec.pattern).cut(make_texts_from_strings([normalized]))
        changed = texts.data.tobytes()
        return [changed[start:end] for start, end in pairwise([int(texts.offsets[0]), *ends.tolist()])]

    def _explain_pretoken(self, pretoken: bytes) -> list[tuple[int, str, tuple[Step, ...]]]:
        found = self._replay(pretoken)
        if (
            require_bpe(self._model, "a replay").whole
            and (id := self.tokenizer.token_to_id(pretoken)) is not None
            and len(pretoken) > 1
        ):
            steps = found[0][1] if len(found) == 1 else ()
            return [(id, WHOLE, steps)]
        return [(id, MERGED if steps else BYTE, steps) for id, steps in found]

    def _replay(self, pretoken: bytes) -> list[tuple[int, tuple[Step, ...]]]:
        """The tokens of a pre-token by merging alone, each with its merges in the order in which they happened.

        The merge of the lowest rank comes first, of equal ones the leftmost: as tokcore.reference.reference says, but
        with a heap instead of a search, so that a long pre-token takes no quadratic time.
        """
        ids = [self._id_of_byte[byte] for byte in pretoken]
        steps: list[list[Step]] = [[] for _ in ids]
        after = [*range(1, len(ids)), -1]
        before = [*range(-1, len(ids) - 1)]
        heap: list[tuple[int, int, int, int, int]] = []

        def push(left: int) -> None:
            right = after[left]
            if right >= 0 and (merge := self._merges.get((ids[left], ids[right]))) is not None:
                heapq.heappush(heap, (merge[0], left, right, ids[left], ids[right]))

        for place in range(len(ids) - 1):
            push(place)
        while heap:
            rank, left, right, left_id, right_id = heapq.heappop(heap)
            if ids[left] != left_id or after[left] != right or ids[right] != right_id:
                continue
            made = self._merges[left_id, right_id][1]
            steps[left] = [*steps[left], *steps[right], Step(rank, left_id, right_id, made)]
            ids[left], ids[right] = made, -1
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            push(left)
            if before[left] >= 0:
                push(before[left])
        return [(id, tuple(made)) for id, made in zip(ids, steps, strict=True) if id >= 0]

    @functools.cached_property
    def _merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(left, right) -> (rank, id that they make)."""
        table = require_bpe(self._model, "a replay").merge_table
        columns = zip(
            *(column.tolist() for column in (table.left, table.right, table.priority, table.result)), strict=True
        )
        merges: dict[tuple[int, int], tuple[int, int]] = {}
        for left, right, rank, result in columns:
            if (left, right) not in merges or rank < merges[left, right][0]:
                merges[left, right] = (rank, result)
        return merges

    @functools.cached_property
    def _id_of_byte(self) -> list[int]:
        found = [self.tokenizer.token_to_id(bytes([byte])) for byte in range(256)]
        assert None not in found, "a byte-level BPE has all bytes"
        return [id for id in found if id is not None]

    def _describe_piece(self, id: int) -> tuple[str, float | None]:
        if takes_fewest(self._model):
            return FEWEST, None
        scores = getattr(self._model, "scores", None)  # only pieces have some
        if scores is None:
            return LISTED, None
        return SCORED, float(scores[int(np.searchsorted(self._model.ids, id))])
