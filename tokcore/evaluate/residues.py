"""Merge residues: tokens that BPE makes often, and nearly always merges on. They fill the vocabulary and train little.

After LiteToken (Sun et al., 2026): of a token, the times it is written, over those and the times it goes into a longer
one. What merges make is followed from the ids that are written, as if each token were made of its own two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokcore.evaluate.spread import DIGITS
from tokcore.models.model import Model

LEAST_MADE = 10  # times; of tokens that are made more seldom nothing is said
MOST_WRITTEN = 0.1  # of the times that a residue is made


def count_made(model: Model, written: Sequence[int]) -> dict[int, int]:
    """How often each token that a merge makes is made: written, or part of a longer one that is made.

    written: how often each of model.tokens is. Returns place in model.tokens -> times; {} for models without merges.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> model = Tokenizer.load("out/first").spec.model
    >>> made = count_made(model, [int(token in (b"low", b" low")) for token in model.tokens])
    >>> {model.tokens[place]: times for place, times in made.items() if times}
    {b' low': 1, b'low': 2, b'lo': 2}
    """
    place = {token: number for number, token in enumerate(model.tokens)}
    parts: dict[bytes, tuple[bytes, ...]] = {}
    for rule in model.rules().listed:
        # The first merge that makes a token is its own.
        if len(rule) == 2 and b"".join(rule) in place:
            parts.setdefault(b"".join(rule), rule)
    times = [*written]
    for token in sorted(parts, key=len, reverse=True):  # parts are shorter
        for part in parts[token]:
            times[place[part]] += times[place[token]]
    return {place[token]: times[place[token]] for token in sorted(parts, key=len, reverse=True)}


def measure_residues(model: Model, written: Sequence[int]) -> dict[str, Any]:
    """Of the merged tokens that are made ten times or more: how many are residues, and their share.

    A residue is written at most one time in ten that it is made. None for models without merges.
    """
    made = count_made(model, written)
    often = {place: times for place, times in made.items() if times >= LEAST_MADE}
    residues = sum(written[place] <= MOST_WRITTEN * times for place, times in often.items())
    return {
        "residues": residues if made else None,
        "residue_share": round(residues / len(often), DIGITS) if often else None,
    }
