"""What releases until 2026-11-27 made of a file that is read otherwise now. Outputs that they made go on with that."""

from __future__ import annotations

import dataclasses

from tokcore.tokenizer_spec import TokenizerSpec


def read_as_before(spec: TokenizerSpec) -> TokenizerSpec:
    """The tokenizer as earlier releases read it from the file that spec was read from.

    Added tokens that are not special were ordinary text unless special ones were allowed.
    """
    special = [dataclasses.replace(token, is_special=True, normalized=False) for token in spec.special]
    return dataclasses.replace(spec, special=tuple(special))


def describe_earlier(spec: TokenizerSpec) -> str:
    """What earlier releases did otherwise with this tokenizer."""
    texts = [token.text for token in spec.special if not token.is_special]
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return f"text that spells {', '.join(map(repr, texts[:3]))}{more} stays text there"
