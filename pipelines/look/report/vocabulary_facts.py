"""What a vocabulary is like: lengths and scripts of its tokens, near-duplicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokcore.look.odd_tokens import spell_token
from tokcore.text.scripts import SCRIPTS, find_scripts
from tokcore.tokenizer.tokenizer import Tokenizer

_LONGEST = 32  # longer tokens are counted together
PARTIAL = "part of a character"

# The most rows of a list in the report; beside each stands how many there are.
MOST_LISTED = 1000


def measure_lengths(tokenizer: Tokenizer, written: Mapping[int, int]) -> dict[str, list[int]]:
    """Tokens by their number of bytes, 1 to 32 or more: in the vocabulary, and as written. written: id -> count."""
    model = tokenizer.spec.model
    places = np.minimum(model.sizes, _LONGEST)
    counts = np.array([written.get(id, 0) for id in model.ids.tolist()], np.float64)
    return {
        "vocabulary": np.bincount(places, minlength=_LONGEST + 1).tolist()[1:],
        "written": [int(n) for n in np.bincount(places, counts, _LONGEST + 1)][1:],
    }


def count_scripts(tokenizer: Tokenizer) -> dict[str, int]:
    """Script -> ordinary tokens of it: of the script of their first character that has one."""
    found: Counter[str] = Counter()
    texts = []
    for token in tokenizer.spec.model.tokens:
        try:
            texts.append(token.decode())
        except UnicodeDecodeError:
            found[PARTIAL] += 1
    lengths = np.array([len(text) for text in texts if text], np.int64)
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4").astype(np.uint32)
    if len(codes):
        starts = np.cumsum(lengths) - lengths
        numbers = np.bincount(find_scripts(codes, starts)[starts], minlength=len(SCRIPTS)).tolist()
        found.update({script: number for script, number in zip(SCRIPTS, numbers, strict=True) if number})
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def find_near_duplicates(tokenizer: Tokenizer, written: Mapping[int, int]) -> dict[str, Any]:
    """Tokens that are equal but for case and for white space around them, in groups; most tokens first."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    model = tokenizer.spec.model
    for id, token in zip(model.ids.tolist(), model.tokens, strict=True):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        if key := text.replace("\u2581", " ").strip().casefold():
            groups[key].append(id)
    several = sorted((ids for ids in groups.values() if len(ids) > 1), key=lambda ids: (-len(ids), ids[0]))
    return {
        "groups": len(several),
        "tokens": sum(map(len, several)),
        "first": [
            [{"id": id, "token": spell_token(tokenizer.token_bytes(id)), "count": written.get(id, 0)} for id in ids]
            for ids in several[:MOST_LISTED]
        ],
    }
