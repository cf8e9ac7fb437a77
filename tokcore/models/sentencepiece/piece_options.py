"""What a build file asks of SentencePiece's learners, by SentencePiece's names and, but for byte_fallback, defaults."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PieceOptions:
    """Which pieces there may be, which are there from the start, and how the models normalize text.

    user_defined_symbols: pieces that stay whole. reserved: texts of special tokens, which no piece holds.
    has_charsmap: whether nmt_nfkc is the last step of the normalizer, and so becomes part of the model. as_bytes:
    pieces are byte strings of pre-tokens that a pattern other than the model's own has split.
    """

    max_sentencepiece_length: int = 16  # characters
    split_by_unicode_script: bool = True
    split_by_number: bool = True
    split_by_whitespace: bool = True
    split_digits: bool = False
    byte_fallback: bool = True
    user_defined_symbols: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    has_charsmap: bool = True
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    as_bytes: bool = False
