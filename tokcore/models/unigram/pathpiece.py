"""PathPiece: a pre-token becomes the fewest tokens, and the vocabulary is what a larger one of BPE loses least without.

Schmidt et al. 2024, "Tokenization Is More Than Compression" (arXiv 2402.18376), with a start of BPE. Of several cuts
with the fewest tokens, the one with the longest last token is taken; among those, the longest token before it, and so
on. That is what a Unigram gives whose scores are all -1, so tokenizer.json has that form.
Leaves to others: learning a larger vocabulary (learned_bpe), what is lost without a token (the kernel).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, LearnError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.models.bpe import BpeModel, TokensAndIds, write_tokens
from tokcore.models.learned_bpe import Bpe
from tokcore.models.model import Ids, LearnOptions, Model, ModelType
from tokcore.models.unigram.byte_unigram import ByteUnigramModel
from tokcore.text.texts import Texts, make_texts_from_strings

_SCORE = -1.0


@dataclasses.dataclass(frozen=True, eq=False)
class PathpieceModel(ByteUnigramModel):
    """tokens, ids: in the order of ids. Raises FormatError if a byte is no token."""

    kind: ClassVar[str] = "pathpiece"

    scores: npt.NDArray[np.float64] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.full(len(self.tokens), _SCORE))
        super().__post_init__()

    @property
    def summary(self) -> str:
        return f"256 bytes, {len(self.tokens) - 256} longer tokens"

    def as_bpe(self) -> BpeModel:
        raise FormatError("PathPiece takes the fewest tokens that spell a pre-token: no merges give the same ids")

    def functional(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": write_tokens(self.tokens, self.ids)}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> PathpieceModel:
        """The model whose functional() is value."""
        read = from_jsonable(_PathpieceJson, value, place)
        try:
            return cls(*read.tokens)
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _PathpieceJson:
    kind: str
    tokens: TokensAndIds


def make_byte_unigram(tokens: tuple[bytes, ...], ids: Ids, scores: npt.NDArray[np.float64]) -> ByteUnigramModel:
    """The Unigram in byte form with these scores. If all are -1 it takes the fewest tokens, and is a PathPiece."""
    return PathpieceModel(tokens, ids) if np.all(scores == _SCORE) else ByteUnigramModel(tokens, ids, scores)


def takes_fewest(model: Model) -> bool:
    """Whether a model takes the fewest tokens, so that its scores say nothing."""
    return isinstance(model, PathpieceModel)


class Pathpiece(ModelType):
    """The model type of the fewest tokens.

    >>> rows = make_texts_from_strings(["abc", "bcd", "cd"]), np.array([9, 9, 1], np.uint64)
    >>> Pathpiece().learn(lambda: rows, LearnOptions(vocab_size=258)).tokens[256:]
    (b'abc', b'bcd')
    """

    text = "fewest tokens, PathPiece's, from BPE of superset times the size"
    uses = ("vocab_size", "allow_smaller", "min_count", "min_documents", "max_token_bytes", "superset")
    default_size = "32,768"
    learn_row_bytes = Bpe.learn_row_bytes
    follows_premium = True
    models = (PathpieceModel,)

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        if options.superset < 1:
            return "superset", f"= {options.superset}: must be at least 1, which keeps all tokens."
        return Bpe().wrong_option(dataclasses.replace(options, end_of_word=""))

    def count_merges(self, options: LearnOptions) -> int:
        return Bpe().count_merges(_make_first_options(options))

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> Model:
        """The tokens of BPE, in the order of learning, but those that rounds drop: see "Learning PathPiece"."""
        table = rows()
        # BPE may make a token twice, of other parts.
        tokens = [*dict.fromkeys(Bpe().learn(lambda: table, _make_first_options(options)).tokens)]
        num_tokens = options.vocab_size - options.num_special
        try:
            kept = kernel.drop_least_needed(*table, make_texts_from_strings(tokens), num_tokens, options.threads)
        except OverflowError as error:
            raise LearnError(
                f"the counts of the table are too large: {error}. Divide them by a common factor."
            ) from error
        return PathpieceModel(tuple(tokens[place] for place in kept.tolist()), np.arange(len(kept), dtype=np.int32))


def _make_first_options(options: LearnOptions) -> LearnOptions:
    """Those of the BPE whose tokens are dropped."""
    num_tokens = int(options.superset * (options.vocab_size - options.num_special))
    return dataclasses.replace(options, vocab_size=num_tokens, num_special=0, end_of_word="")
