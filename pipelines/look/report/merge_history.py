"""Which language the merges were for, from the first to the last.

A merge is applied where its token is written, and where a longer token that was made of it is. So how often each
language applies each merge follows from the ids of its count table. Applications are weighted as learning weighted
them: the weighted sum is the count that learning saw, but for pairs that overlap themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.models.bpe import LearnedModel

Counts = npt.NDArray[np.float64]

_BLOCKS = 24


def count_applied(model: LearnedModel, num_by_id: npt.NDArray[np.uint64]) -> list[int]:
    """How often each merge is applied, from how often each id is written.

    >>> import numpy as np
    >>> model = LearnedModel(np.array([[0, 1], [256, 2]], np.int32))
    >>> count_applied(model, np.array([0] * 256 + [3, 4], np.uint64))  # the second merge takes part of the first
    [7, 4]
    """
    times = [int(n) for n in num_by_id[: 256 + len(model.merges)].tolist()]
    for place in range(len(model.merges) - 1, -1, -1):
        made = times[256 + place]
        for part in model.merges[place].tolist():
            times[part] += made
    return times[256:]


def tell_history(
    model: LearnedModel, num_by_lang: Mapping[str, npt.NDArray[np.uint64]], weights: Mapping[str, float]
) -> dict[str, Any]:
    """{"ends": [...], "languages": {lang: {"led": [...], "share": [...]}}}: of each block of merges, up to 24 of them.

    ends: rank after the last merge of the block. led: merges that the language applies most often of all, of equal
    ones the first language. share: of all weighted applications in the block, those in the language.
    """
    num = len(model.merges)
    ends = sorted({round(num * block / _BLOCKS) for block in range(1, _BLOCKS + 1)} - {0})
    langs = sorted(num_by_lang)
    applied = [[times * weights.get(lang, 0) for times in count_applied(model, num_by_lang[lang])] for lang in langs]
    languages: dict[str, dict[str, list[float]]] = {lang: {"led": [], "share": []} for lang in langs}
    start = 0
    for end in ends:
        sums = [sum(of[start:end]) for of in applied]
        led = [0] * len(langs)
        for rank in range(start, end):
            column = [of[rank] for of in applied]
            if most := max(column, default=0):
                led[column.index(most)] += 1
        total = sum(sums)
        for lang, first, own in zip(langs, led, sums, strict=True):
            languages[lang]["led"].append(first)
            languages[lang]["share"].append(round(own / total, 6) if total else 0.0)
        start = end
    return {"ends": ends, "languages": languages}
