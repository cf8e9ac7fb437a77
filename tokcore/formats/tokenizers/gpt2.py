"""GPT-2's pair of files: vocab.json (token -> id) and merges.txt (one merge per line), in the printable byte alphabet.

They hold no normalizer and no pattern; readers split as GPT-2 does.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from operator import itemgetter

from tokcore.errors import FormatError
from tokcore.models.model import ID_LIMIT
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

HEADER = "#version: 0.2"


def write_vocabulary_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of vocab.json, special tokens included, and merges.txt.

    Raises FormatError for a normalizer, an added token that is not special, and a vocabulary that merges cannot
    express.
    """
    if spec.normalizer:
        raise FormatError(
            f"vocab.json and merges.txt cannot hold the normalizer {', '.join(spec.normalizer)}: "
            f"export to huggingface instead"
        )
    spec.require_all_special("a pair of vocab.json and merges.txt")
    return [
        ("vocab.json", json.dumps(make_vocabulary(spec), ensure_ascii=False).encode() + b"\n"),
        ("merges.txt", "\n".join([HEADER, *map(" ".join, spell_merges(spec)), ""]).encode()),
    ]


def describe_left_out(spec: TokenizerSpec) -> str:
    """What a reader of the files does not learn from them; empty if there is nothing."""
    if spec.pattern.get("name") == "gpt2":
        return ""
    return (
        f"vocab.json and merges.txt hold no split pattern, and their readers assume that of GPT-2; this tokenizer's is "
        f"{spec.pattern_name}: the ids differ unless the reader is told. Exported to huggingface, it is kept."
    )


# One spec is written to several formats.
@functools.lru_cache(maxsize=1)
def make_vocabulary(spec: TokenizerSpec) -> Mapping[str, int]:
    """Every token's printable name (a special token's text) and id, in the order of ids."""
    named = dict(zip(spell_tokens(spec), spec.model.ids.tolist(), strict=True))
    special = {token.text: token.id for token in spec.special if token.id is not None}
    is_behind = min(special.values(), default=ID_LIMIT) > spec.model.ids.max()  # as of all that are learned
    return named | special if is_behind else dict(sorted((named | special).items(), key=itemgetter(1)))


def spell_tokens(spec: TokenizerSpec) -> tuple[str, ...]:
    """The names of the ordinary tokens, in the order of ids."""
    return spec.model.names


@functools.lru_cache(maxsize=1)
def spell_merges(spec: TokenizerSpec) -> tuple[tuple[str, str], ...]:
    """The merges by printable names, first merged first. Raises FormatError where no merges give the same ids."""
    name = dict(zip(spec.model.ids.tolist(), spell_tokens(spec), strict=True)).__getitem__
    left, right = spec.model.as_bpe().merge_pairs().T.tolist()
    return tuple(zip(map(name, left), map(name, right), strict=True))
