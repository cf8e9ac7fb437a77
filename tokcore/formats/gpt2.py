"""GPT-2's pair of files: vocab.json (token -> id) and merges.txt (a merge a line), in the printable byte alphabet.

They hold no normalizer and no pattern; readers split as GPT-2 does.
"""

from __future__ import annotations

import functools
import json

from tokcore.byte_alphabet import printable_tokens
from tokcore.errors import FormatError
from tokcore.formats.ranks import merges_of
from tokcore.tokenizer_spec import TokenizerSpec

HEADER = "#version: 0.2"


def vocabulary_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of vocab.json, special tokens included, and merges.txt.

    Raises FormatError for a normalizer, and for a vocabulary that merges cannot express.
    """
    if spec.normalizer:
        raise FormatError(
            f"vocab.json and merges.txt cannot hold the normalizer {', '.join(spec.normalizer)}: "
            f"export to huggingface instead"
        )
    return [
        ("vocab.json", json.dumps(vocabulary(spec), ensure_ascii=False).encode() + b"\n"),
        ("merges.txt", "\n".join([HEADER, *(" ".join(pair) for pair in merge_names(spec)), ""]).encode()),
    ]


def left_out(spec: TokenizerSpec) -> str:
    """What a reader of the files does not learn from them; empty if there is nothing."""
    if spec.pattern.get("name") == "gpt2":
        return ""
    return (
        f"vocab.json and merges.txt hold no split pattern, and their readers assume that of GPT-2; this tokenizer's is "
        f"{spec.pattern_name}: the ids differ unless the reader is told. Exported to huggingface, it is kept."
    )


def vocabulary(spec: TokenizerSpec) -> dict[str, int]:
    """Every token's printable name (a special token's text) and id, in the order of ids."""
    named = dict(zip(printable_tokens(spec.model.tokens), spec.model.ids.tolist(), strict=True))
    named |= {token.text: token.id for token in spec.special if token.id is not None}
    return dict(sorted(named.items(), key=lambda item: item[1]))


@functools.lru_cache(maxsize=1)  # one spec is written to several formats
def merge_names(spec: TokenizerSpec) -> tuple[tuple[str, str], ...]:
    """The merges by printable names, first merged first."""
    name_of = dict(zip(spec.model.ids.tolist(), printable_tokens(spec.model.tokens), strict=True))
    return tuple((name_of[left], name_of[right]) for left, right in merges_of(spec.model).tolist())
