"""GPT-2's pair of files: vocab.json (token -> id) and merges.txt (a merge a line), in the printable byte alphabet.

They hold neither pattern nor normalizer; readers assume GPT-2's.
"""

from __future__ import annotations

import json

from tokcore.byte_alphabet import printable
from tokcore.formats.ranks import merges_of
from tokcore.tokenizer_spec import TokenizerSpec

HEADER = "#version: 0.2"


def vocabulary_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of vocab.json, special tokens included, and merges.txt.

    Raises FormatError for a vocabulary that merges cannot express.
    """
    return [
        ("vocab.json", json.dumps(vocabulary(spec), ensure_ascii=False).encode() + b"\n"),
        ("merges.txt", "\n".join([HEADER, *(" ".join(pair) for pair in merge_names(spec)), ""]).encode()),
    ]


def vocabulary(spec: TokenizerSpec) -> dict[str, int]:
    """Every token's printable name (a special token's text) and id, in the order of ids."""
    named = {printable(token): id for token, id in zip(spec.model.tokens, spec.model.ids.tolist(), strict=True)}
    named |= {token.text: token.id for token in spec.special if token.id is not None}
    return dict(sorted(named.items(), key=lambda item: item[1]))


def merge_names(spec: TokenizerSpec) -> list[tuple[str, str]]:
    """The merges by printable names, first merged first."""
    name_of = {id: printable(token) for token, id in zip(spec.model.tokens, spec.model.ids.tolist(), strict=True)}
    return [(name_of[left], name_of[right]) for left, right in merges_of(spec.model).tolist()]
