"""Explained tokens as values that JSON knows."""

from __future__ import annotations

from collections.abc import Iterable
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
