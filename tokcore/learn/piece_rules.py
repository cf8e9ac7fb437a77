"""What the learners of SentencePiece's models are told, in the kernel and in the reference alike."""

from __future__ import annotations

from typing import NamedTuple

from tokcore.text.texts import Texts


class PieceTableRules(NamedTuple):
    """Which pieces SentencePiece's learners may make, and of which text."""

    reserved: Texts  # texts that divide words, all different, none empty
    coverage: float  # share of the text that the characters reach together; rarer ones divide words, too
    max_length: int  # in characters
    split_by_unicode_script: bool
    split_by_number: bool
    split_by_whitespace: bool
    split_digits: bool


class UnigramRules(NamedTuple):
    """With how many pieces the learner of a Unigram model begins and ends."""

    num_pieces: int  # the most that it gives
    num_before_last_cut: int  # the rounds end when no more are left
    num_seeds: int  # the most that it begins with, besides the characters
    scale: float  # what one occurrence adds to the counts of the table
    min_seed_count: int  # on that scale: a rarer run is no seed
