"""The model type of byte-level BPE: what `[learn] model = "bpe"` learns.

Leaves to others: merging (tokcore.learn.merges), words with ends (word_ends), the models themselves (bpe).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import FormatError, LearnError
from tokcore.learn.merges import LearnedMerges, learn_rows
from tokcore.learn.rounds import MergesSoFar, Round, divide_memory, learn_in_rounds
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel, require_learned
from tokcore.models.bpe_merges import find_merges_of_ranks
from tokcore.models.model import (
    MAX_TOKEN_BYTES,
    MAX_VOCABULARY_BYTES,
    LearnOptions,
    MergesOfBytes,
    Model,
    ModelType,
)
from tokcore.models.word_ends import NUM_SYMBOLS, check_suffix, learn_ended, name_ended, shorten_ended
from tokcore.text.texts import Texts


def _make_model(merges: LearnedMerges) -> LearnedModel:
    try:
        return LearnedModel(merges.pairs, tuple(merges.counts.tolist()))
    except FormatError as error:
        raise LearnError(f"{error}. Set count.max_pretoken_bytes or learn.max_token_bytes.") from error


class Bpe(ModelType):
    """The model type of byte-level BPE."""

    text = "byte-level BPE"
    uses = ("vocab_size", "allow_smaller", "min_count", "min_documents", "max_token_bytes", "end_of_word")
    default_size = "32,768"
    drawn_by = "dropout"
    learn_row_bytes = (55, 5)
    is_taken_apart = True
    learns_in_rounds = True
    follows_premium = True
    models = (LearnedModel, MergesModel, RanksModel)

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        if options.end_of_word and (wrong := check_suffix(options.end_of_word)):
            return "end_of_word", f"= {options.end_of_word!r}: {wrong}"
        num_first = NUM_SYMBOLS if options.end_of_word else 256
        minimum = num_first + options.num_special
        if options.max_token_bytes == 1:
            return "max_token_bytes", "= 1: expected at least 2, as every merge has, or 0 for no limit."
        if options.vocab_size < minimum:
            return "vocab_size", (
                f"= {options.vocab_size}: must be at least {minimum} ({num_first} for bytes, {options.num_special} for "
                f"special tokens). Raise vocab_size or remove special tokens."
            )
        return None

    def count_merges(self, options: LearnOptions) -> int:
        return max(0, options.vocab_size - options.num_special - (NUM_SYMBOLS if options.end_of_word else 256))

    def own_form(self, model: MergesOfBytes) -> LearnedModel | None:
        num = len(model.tokens)
        is_numbered = np.array_equal(model.ids, np.arange(num, dtype=np.int32))
        if not is_numbered or model.tokens[:256] != LearnedModel(np.zeros((0, 2), np.int32)).tokens:
            return None
        lengths = [*map(len, model.tokens)]
        if min(lengths) == 0 or max(lengths) > MAX_TOKEN_BYTES or sum(lengths) > MAX_VOCABULARY_BYTES:
            return None  # for the spec to name
        try:
            if isinstance(model, RanksModel):
                # Where all tokens come down to two parts, merging leads to each: to emit one whole changes nothing.
                learned = LearnedModel(find_merges_of_ranks(model.tokens, model.ids))
            elif not model.whole:
                learned = LearnedModel(model.merge_pairs())
            else:
                return None
        except FormatError:
            return None
        return learned if learned.tokens == model.tokens else None

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> Model:
        if options.end_of_word:
            return learn_ended(*rows(), options)
        merges = learn_rows(
            *rows(),
            vocab_size=options.vocab_size - options.num_special,
            min_count=options.min_count,
            max_token_bytes=options.max_token_bytes,
            threads=options.threads,
            allow_smaller=True,  # the caller says what it makes of that
            merges_done=options.merges_done,
        )
        return _make_model(merges)

    def learn_in_rounds(
        self,
        read: Callable[[], Iterator[CountRows]],
        memory_bytes: int,
        options: LearnOptions,
        on_round: Callable[[Round], None],
    ) -> Model:
        merges = learn_in_rounds(
            read,
            divide_memory(memory_bytes),
            self.count_merges(options),
            options.min_count,
            options.max_token_bytes,
            options.threads,
            bool(options.end_of_word),
            options.merges_done,
            on_round,
        )
        return self.make_of_merges(merges, options)

    def make_of_merges(self, so_far: MergesSoFar, options: LearnOptions) -> Model:
        pairs = np.stack([so_far.left, so_far.right], axis=1)
        return name_ended(pairs, options) if options.end_of_word else _make_model(LearnedMerges(pairs, so_far.counts))

    def shorten(self, model: Model, options: LearnOptions) -> Model:
        if options.end_of_word:
            return shorten_ended(model, options)
        learned = require_learned(model, "learning several sizes at once")
        num = options.vocab_size - options.num_special - 256
        return LearnedModel(learned.merges[:num], learned.counts[:num])
