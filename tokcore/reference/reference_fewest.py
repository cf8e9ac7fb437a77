"""PathPiece's learner in plain Python: slow, obvious, and the oracle of the tests.

The tokens that a pre-token needs least are dropped. tokcore.reference.reference_converted has the encoder.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tokcore.count.pretoken_rows import Counts
from tokcore.reference.arrays import Ids, list_texts
from tokcore.text.texts import Bytes, Offsets


def count_fewest(word: bytes, tokens: Collection[bytes]) -> int:
    """Into how many of the tokens a word can be cut, at least.

    >>> count_fewest(b"newer", {b"new", b"er", b"n", b"e", b"w", b"r"})
    2
    """
    fewest = [0]
    for end in range(1, len(word) + 1):
        fewest.append(min(fewest[start] + 1 for start in range(end) if word[start:end] in tokens))
    return fewest[-1]


def drop_least_needed(
    data: Bytes,
    offsets: Offsets,
    counts: Counts,
    token_data: Bytes,
    token_offsets: Offsets,
    num_kept: int,
    threads: int,
) -> Ids:
    """As tokcore.kernel.drop_least_needed."""
    rows = [*zip(list_texts(data, offsets), counts.tolist(), strict=True)]
    kept = {token: place for place, token in enumerate(list_texts(token_data, token_offsets))}
    while len(kept) > max(num_kept, 256):

        def lose(token: bytes) -> int:
            others = kept.keys() - {token}
            return sum(count * (count_fewest(word, others) - count_fewest(word, kept)) for word, count in rows)

        longer = sorted((token for token in kept if len(token) > 1), key=lambda one: (lose(one), -kept[one]))
        for token in longer[: min(max(len(longer) // 4, 1), len(kept) - num_kept)]:
            del kept[token]
    return np.array(sorted(kept.values()), np.int32)
