"""SentencePiece's models, learned: BPE over characters with U+2581, and Unigram.

BPE has the pieces of sentencepiece 0.2.3 from the same table (input_format=tsv), in its order and with its scores. When
no pair is left that occurs, theirs adds pieces that occur nowhere; ours stops and says so. Unigram follows its
algorithm, with sums that do not depend on order: see "Learning SentencePiece's models" in ../README.md.
Leaves to others: learning itself (the kernel), encoding (tokcore.models.sentencepiece.scored_pieces).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import LearnError
from tokcore.learn.piece_rules import PieceTableRules, UnigramRules
from tokcore.models.model import ID_LIMIT, LearnOptions, Model, ModelType, find_free_ids, find_pinned
from tokcore.models.sentencepiece.piece_text import BYTE, BYTE_NAMES, NORMAL, USER_DEFINED
from tokcore.models.sentencepiece.scored_pieces import PieceModel, SentencepieceBpeModel, UnigramModel
from tokcore.models.unigram.byte_unigram import ByteUnigramModel
from tokcore.text.byte_alphabet import from_printable, to_printable
from tokcore.text.sentencepiece_tables import NORMALIZER, load_charsmap
from tokcore.text.text_steps import PieceRules
from tokcore.text.texts import Texts, make_texts_from_strings

UNKNOWN_PIECE = "<unk>"
PIECE_ROLES = {UNKNOWN_PIECE: "unknown", "<s>": "document_begin", "</s>": "document_end"}
NUM_SEEDS = 1_000_000  # as theirs
UNKNOWN_PENALTY = 10.0  # as theirs: how much less than the lowest score a byte has that the text has not


class Found(NamedTuple):
    """What was learned: pieces and scores, in the order of ids."""

    pieces: list[bytes]
    scores: npt.NDArray[np.float32]
    num_characters: int  # that are among them


class LearnedPieces(ModelType, ABC):
    """What the two model types have in common."""

    default_size = "8,000"
    own_special = PIECE_ROLES
    pattern = "metaspace"
    normalizer = (NORMALIZER,)
    marks_spaces = True
    splits_by_any = False
    uses: tuple[str, ...] = (
        *("vocab_size", "allow_smaller", "min_documents", "character_coverage", "max_sentencepiece_length"),
        *("split_by_unicode_script", "split_by_number", "split_by_whitespace", "split_digits", "byte_fallback"),
        *("user_defined_symbols", "control_symbols"),
    )
    _model: ClassVar[type[PieceModel]]

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        if options.pieces.as_bytes and options.pieces.user_defined_symbols:
            text = options.pieces.user_defined_symbols[0]
            return "user_defined_symbols", (
                f"names {text!r}, and with this split pattern pieces are byte strings of pre-tokens: remove it, or "
                f"split by {self.pattern}."
            )
        given = [*options.pieces.user_defined_symbols, *options.pieces.reserved]
        for text in options.pieces.user_defined_symbols:
            if given.count(text) > 1:
                return "user_defined_symbols", f"names {text!r} twice, or as a special token does: remove one."
            if options.pieces.byte_fallback and text.encode() in BYTE_NAMES:
                return "user_defined_symbols", f"names {text!r}, which is a byte's piece: remove it."
            if "\0" in text:
                return "user_defined_symbols", f"names {text!r}, which has a zero byte: remove it."
        least = options.num_special + (256 if options.pieces.as_bytes else len(_list_fixed(options)) + 1)
        if options.vocab_size >= least:
            return None
        return "vocab_size", (
            f"= {options.vocab_size}: must be {least} or more: it includes {options.num_special} special tokens, "
            f"{len(options.pieces.user_defined_symbols)} symbols of the user"
            + (" and 256 bytes (byte_fallback)." if options.pieces.byte_fallback else ".")
        )

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> Model:
        fixed = _list_fixed(options)
        num_tokens = options.vocab_size - options.num_special - len(fixed)
        texts, counts = rows()
        try:
            found = self._find(texts, counts, options, num_tokens)
        except OverflowError as error:
            raise _make_overflow_error(error) from error
        _check_characters(found.num_characters, num_tokens, options)
        tokens = (*(text for text, _ in fixed), *found.pieces)
        pinned = find_pinned(options, self.own_special)
        ids = find_free_ids(len(tokens), pinned.values())
        unknown = pinned.pop(UNKNOWN_PIECE)
        taken = {unknown, *pinned.values()}
        return self._model(
            tokens,
            ids,
            np.concatenate([np.zeros(len(fixed), np.float32), found.scores]),
            np.array([*(kind for _, kind in fixed), *[NORMAL] * len(found.pieces)], np.uint8),
            unknown,
            (*sorted(pinned.values()), *_find_later_ids(int(ids[-1]) + 1, taken, options.num_special - len(taken))),
            PieceRules(
                load_charsmap() if options.pieces.has_charsmap else b"",
                options.pieces.add_dummy_prefix,
                options.pieces.remove_extra_whitespaces,
                escape_whitespaces=True,
                whitespace_is_suffix=False,
            ),
        )

    @abstractmethod
    def _find(self, texts: Texts, counts: Counts, options: LearnOptions, num_tokens: int) -> Found:
        """Up to num_tokens pieces; more only if there are more characters."""


class SentencepieceBpe(LearnedPieces):
    """The model type of merges."""

    text = "merges of characters, as SentencePiece's BPE and Llama 2's"
    uses = (*LearnedPieces.uses, "min_count")
    _model = SentencepieceBpeModel
    models = (SentencepieceBpeModel,)

    def _find(self, texts: Texts, counts: Counts, options: LearnOptions, num_tokens: int) -> Found:
        rules = _make_rules(options)
        merges = kernel.learn_piece_merges(
            texts, counts, rules, num_tokens, options.min_count, options.threads, options.merges_done
        )
        tokens = [chr(c).encode() for c in merges.code_points.tolist()]
        num_characters = len(tokens)
        for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True):
            tokens.append(tokens[left] + tokens[right])
        # Merges come first, then characters. Scores fall by 1 from piece to piece, and begin with -0.
        pieces = tokens[num_characters:] + [tokens[i] for i in merges.by_count.tolist()]
        return Found(pieces, -np.arange(len(pieces), dtype=np.float32), num_characters)


class Unigram(LearnedPieces):
    """The model type of the most probable cut."""

    text = "the most probable pieces, as SentencePiece's Unigram and T5's"
    drawn_by = "sampling"
    _model = UnigramModel
    models = (UnigramModel, ByteUnigramModel)
    splits_by_any = True

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> Model:
        return self._learn_bytes(*rows(), options) if options.pieces.as_bytes else super().learn(rows, options)

    def _learn_bytes(self, texts: Texts, counts: Counts, options: LearnOptions) -> ByteUnigramModel:
        """The same pieces of bytes: each byte is a character. Bytes that the text has not come last."""
        num_tokens = options.vocab_size - options.num_special
        if not counts.all():
            texts, counts = texts.take(np.flatnonzero(counts)), counts[counts > 0]
        is_there = np.bincount(texts.data[texts.offsets[0] : texts.offsets[-1]], minlength=256) > 0
        reserved = make_texts_from_strings(sorted({text.encode() for text in options.pieces.reserved}))
        rules = _make_rules(options)._replace(
            reserved=_spell_bytes(reserved),
            coverage=1.0,
            split_by_unicode_script=False,
            split_by_number=False,
            split_digits=False,
        )
        try:
            found = _find_pieces(_spell_bytes(texts), counts, rules, options, num_tokens - int((~is_there).sum()))
        except OverflowError as error:
            raise _make_overflow_error(error) from error
        _check_characters(found.num_characters, num_tokens, options)
        tokens = [from_printable(piece.decode()) or b"" for piece in found.pieces]
        rest = sorted({bytes([byte]) for byte in range(256)}.difference(tokens))
        scores = found.scores.astype(np.float64)
        scores = np.concatenate([scores, np.full(len(rest), scores.min() - UNKNOWN_PENALTY)])
        pinned = find_pinned(options, self.own_special)
        tokens += rest
        return ByteUnigramModel(tuple(tokens), find_free_ids(len(tokens), pinned.values()), scores)

    def _find(self, texts: Texts, counts: Counts, options: LearnOptions, num_tokens: int) -> Found:
        return _find_pieces(texts, counts, _make_rules(options), options, num_tokens)


def _find_pieces(texts: Texts, counts: Counts, rules: PieceTableRules, options: LearnOptions, num_tokens: int) -> Found:
    own = UnigramRules(num_tokens, options.vocab_size * 11 // 10, NUM_SEEDS, options.scale, options.min_seed_count)
    learned = kernel.learn_unigram(texts, counts, rules, own, options.threads, options.merges_done)
    text = "".join(map(chr, learned.code_points.tolist()))
    pieces = [text[start:end] for start, end in pairwise(learned.offsets.tolist())]
    return Found([piece.encode() for piece in pieces], learned.scores, sum(len(piece) == 1 for piece in pieces))


def _spell_bytes(texts: Texts) -> Texts:
    """The texts with a printable character for each byte."""
    characters = [to_printable(bytes([byte])).encode() for byte in range(256)]
    spelled = np.array([[*character.ljust(2, b"\0")] for character in characters], np.uint8)
    sizes = np.array([*map(len, characters)], np.int64)
    data = texts.data[texts.offsets[0] : texts.offsets[-1]]
    ends = np.cumsum(sizes[data])
    is_used = np.arange(2) < sizes[data][:, None]
    starts = texts.offsets - texts.offsets[0]
    offsets = np.where(starts > 0, ends[starts - 1], 0) if len(data) else starts
    return Texts(spelled[data][is_used], offsets)


def _make_overflow_error(error: OverflowError) -> LearnError:
    return LearnError(f"the counts of the table are too large: {error}. Divide them by a common factor.")


def _list_fixed(options: LearnOptions) -> list[tuple[bytes, int]]:
    """(text, type) of the pieces that are there whatever the text is."""
    fixed = [(text.encode(), USER_DEFINED) for text in options.pieces.user_defined_symbols]
    if options.pieces.as_bytes:
        return fixed
    return fixed + ([(name, BYTE) for name in BYTE_NAMES] if options.pieces.byte_fallback else [])


def _make_rules(options: LearnOptions) -> PieceTableRules:
    pieces = options.pieces
    reserved = {text.encode() for text in pieces.reserved}.union(text for text, _ in _list_fixed(options))
    return PieceTableRules(
        make_texts_from_strings(sorted(reserved)),
        float(np.float32(str(options.character_coverage))),
        pieces.max_sentencepiece_length,
        pieces.split_by_unicode_script,
        pieces.split_by_number,
        pieces.split_by_whitespace,
        pieces.split_digits,
    )


def _check_characters(num_characters: int, num_tokens: int, options: LearnOptions) -> None:
    if num_characters == 0:
        raise LearnError("the count table holds no characters: there is nothing to learn from")
    if num_characters > num_tokens:
        raise LearnError(
            f"vocab_size = {options.vocab_size}: {num_tokens} of these are left for pieces, and the characters of the "
            f"text alone are {num_characters}. Raise vocab_size to "
            f"{options.vocab_size + num_characters - num_tokens} or more, or lower character_coverage "
            f"({options.character_coverage})."
        )


def _find_later_ids(first: int, taken: set[int], num: int) -> list[int]:
    """The ids that special tokens without one get: the lowest free ones after the model's."""
    free = (id for id in range(first, ID_LIMIT) if id not in taken)
    return [next(free) for _ in range(num)]
