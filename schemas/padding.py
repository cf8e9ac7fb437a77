"""The special token that fills packed rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tokcore.errors import ConfigError


def find_padding(roles: Mapping[str, str], padding: str, append: Sequence[str]) -> str:
    """The text of the token: pack.padding, else the first of role padding, else the last of append.

    roles: text -> role of each special token of the tokenizer. Raises ConfigError, whose text goes on after
    `pack.padding`, if there is none.

    >>> find_padding({"<e>": "document_end", "<p>": "padding"}, "", ["<e>"])
    '<p>'
    >>> find_padding({"<e>": "document_end"}, "", ["<e>"])
    '<e>'
    """
    of_role = [text for text, role in roles.items() if role == "padding"]
    named = padding or next(iter([*of_role, *append[-1:]]), "")
    if named in roles:
        return named
    there = ", ".join(json.dumps(text, ensure_ascii=False) for text in roles) or "none"
    if named:
        raise ConfigError(f'= "{named}": is not a special token of the tokenizer; it has {there}')
    raise ConfigError(
        f"is missing: the tokenizer has no special token of role padding, and encode.append is empty. Name one of its "
        f"special tokens: it has {there}"
    )
