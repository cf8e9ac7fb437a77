"""WordPiece, learned: BPE over characters, of which those that go on with a word have the prefix `##`.

The vocabulary is that of Hugging Face's WordPieceTrainer (tokenizers 0.23.3) wherever no tie decides: theirs depend on
a hash map. Ours are decided by ids: the characters that begin words by code point, then those that go on by code point,
then merges in the order of learning. Characters that only ever go on begin words, too, as theirs do.
Leaves to others: merging (the kernel), encoding (tokcore.models.wordpiece.longest_match).
"""

from __future__ import annotations

from collections.abc import Callable

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, LearnError
from tokcore.models.model import (
    MAX_TOKEN_BYTES,
    MAX_VOCABULARY_BYTES,
    LearnOptions,
    Model,
    ModelType,
    find_free_ids,
    find_pinned,
    make_too_long_error,
)
from tokcore.models.wordpiece.longest_match import PREFIX, WordpieceModel
from tokcore.text.texts import Texts

UNKNOWN_TEXT = "[UNK]"

# The tokens that BERT puts into its vocabulary, and what they are for.
BERT_ROLES = {
    "[PAD]": "padding",
    UNKNOWN_TEXT: "unknown",
    "[CLS]": "document_begin",
    "[SEP]": "document_end",
    "[MASK]": "mask",
}


class Wordpiece(ModelType):
    """The model type of WordPiece. by_score: a pair's count is divided by those of its two tokens."""

    uses = ("vocab_size", "allow_smaller", "min_count", "min_documents", "max_token_bytes")
    default_size = "30,522"
    own_special = BERT_ROLES
    pattern = "bert"
    normalizer = ("bert",)
    drawn_by = "dropout"
    models = (WordpieceModel,)

    def __init__(self, text: str, by_score: bool) -> None:
        self.text = text
        self._by_score = by_score

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> WordpieceModel:
        pretokens, counts = rows()
        num_tokens = options.vocab_size - options.num_special
        try:
            merges = kernel.learn_characters(
                pretokens,
                counts,
                num_tokens,
                options.min_count,
                options.max_token_bytes,
                options.threads,
                self._by_score,
                options.merges_done,
            )
        except OverflowError as error:
            raise LearnError(
                f"the counts of the table are too large: {error}. Divide them by a common factor."
            ) from error
        _check_characters(len(merges.first), len(merges.further), options)
        return self._number(_spell(merges), options)

    def shorten(self, model: Model, options: LearnOptions) -> WordpieceModel:
        further = [token.startswith(PREFIX.encode()) for token in model.tokens if _is_character(token)]
        _check_characters(further.count(False), further.count(True), options)
        return self._number(model.tokens[: options.vocab_size - options.num_special], options)

    def _number(self, tokens: tuple[bytes, ...], options: LearnOptions) -> WordpieceModel:
        pinned = find_pinned(options, self.own_special)
        return WordpieceModel(tokens, find_free_ids(len(tokens), pinned.values()), pinned[UNKNOWN_TEXT])


def _is_character(token: bytes) -> bool:
    name = token.decode()
    return len(name.removeprefix(PREFIX) if len(name) > len(PREFIX) else name) == 1


def _check_characters(num_first: int, num_further: int, options: LearnOptions) -> None:
    if num_first == 0:
        raise LearnError("the count table holds nothing but white space: there is nothing to learn from")
    least = num_first + num_further + options.num_special
    if options.vocab_size < least:
        raise LearnError(
            f"vocab_size = {options.vocab_size}: the characters of the text alone are {num_first} tokens where they "
            f"begin a word and {num_further} where they go on with one, and {options.num_special} special tokens come "
            f"to these. Raise vocab_size to {least} or more, count less diverse text (min_documents), or normalize it."
        )


def _spell(merges: kernel.CharacterMerges) -> tuple[bytes, ...]:
    """The tokens' names, in the order of learning. Raises LearnError for tokens over the limits."""
    tokens = [chr(c).encode() for c in merges.first.tolist()]
    tokens += [f"{PREFIX}{chr(c)}".encode() for c in merges.further.tolist()]
    total = sum(map(len, tokens))
    # One after the other: few merges can ask for more bytes than there are.
    for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True):
        token = tokens[left] + tokens[right][len(PREFIX) :]
        total += len(token)
        if len(token) > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
            error: FormatError = make_too_long_error(len(token), total, f"token {len(tokens)}")
            raise LearnError(f"{error}. Set count.max_pretoken_bytes or learn.max_token_bytes.")
        tokens.append(token)
    return tuple(tokens)
