"""Explained tokens as values that JSON knows, and the cuts of several tokenizers, lined up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from tokcore.look.explain import ExplainedToken
from tokcore.look.odd_tokens import spell_token
from tokcore.tokenizer.tokenizer import Tokenizer


def list_explained(tokenizer: Tokenizer, tokens: Iterable[ExplainedToken]) -> list[dict[str, Any]]:
    """The tokens in their order. token, left and right: spelled with escapes; bytes: in hexadecimal digits."""
    return [
        {
            "id": one.id,
            "token": spell_token(one.data),
            "bytes": one.data.hex(),
            "start": one.start,
            "end": one.end,
            "pretoken": one.pretoken,
            "origin": one.origin,
            "score": one.score,
            "merges": [
                {
                    "rank": step.rank,
                    "left": [step.left, spell_token(tokenizer.token_bytes(step.left))],
                    "right": [step.right, spell_token(tokenizer.token_bytes(step.right))],
                    "makes": step.made,
                }
                for step in one.steps
            ],
        }
        for one in tokens
    ]


def sum_up_tokens(name: str, num_bytes: int, listed: list[dict[str, Any]]) -> dict[str, Any]:
    """What is said of a text's tokens by one tokenizer. num_bytes: of the text; listed: as list_explained gives it."""
    per_token = num_bytes / len(listed) if listed else None
    return {"tokenizer": name, "num_tokens": len(listed), "bytes_per_token": per_token, "tokens": listed}


def line_up_cuts(ends: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Rows of (first, last + 1) token of each tokenizer: the shortest stretches of text that all cut at both ends.

    ends: of each tokenizer the places where its tokens end, ascending, in one text.

    >>> line_up_cuts([[2, 3, 6], [1, 3, 4, 6]])
    [[(0, 2), (0, 2)], [(2, 3), (2, 4)]]
    """
    shared = sorted(set(ends[0]).intersection(*ends[1:])) if ends else []
    rows, begins = [], [0] * len(ends)
    for place in shared:
        stops = [bisect_right(one, place) for one in ends]
        rows.append([*zip(begins, stops, strict=True)])
        begins = stops
    return rows
