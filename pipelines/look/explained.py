"""How explained tokens are shown: as lines of a terminal, and as values that JSON knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tokcore.look.explain import BYTE, LISTED, SCORED, SPECIAL, WHOLE, ExplainedToken
from tokcore.look.odd_tokens import spell_token
from tokcore.tokenizer.tokenizer import Tokenizer

_IN_WORDS = {
    BYTE: "a byte",
    WHOLE: "its pre-token is a token, taken whole",
    SCORED: "a piece, score {score:.4f}",
    LISTED: "one of the list",
    SPECIAL: "special",
}


def list_explained(tokenizer: Tokenizer, tokens: Iterable[ExplainedToken]) -> list[dict[str, Any]]:
    """The tokens for --json. token, left and right: spelled with escapes; bytes: in hexadecimal digits."""
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


def format_explained(tokenizer: Tokenizer, tokens: Iterable[ExplainedToken]) -> Iterator[str]:
    """A line for each token; below it the merges that made it."""
    listed = list_explained(tokenizer, tokens)
    widths = [max((len(str(one[name])) for one in listed), default=0) for name in ("id", "token")]
    for one in listed:
        words = _IN_WORDS.get(one["origin"], "").format(score=one["score"] or 0.0)
        told = f"{one['id']:>{widths[0]}}  {one['token']:<{min(widths[1], 32)}}  {bytes.fromhex(one['bytes']).hex(' ')}"
        yield f"{told}  {words}".rstrip()
        for merge in one["merges"]:
            yield f"{'':{widths[0]}}    merge {merge['rank']:,}: {merge['left'][1]} + {merge['right'][1]}"
