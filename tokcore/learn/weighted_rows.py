"""What models learn from: the rows of all languages with weighted counts, as one table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import LearnError
from tokcore.models import MODELS, Model
from tokcore.text.texts import Texts


def gather_rows(
    rows: Iterator[CountRows],
    max_rows: int,
    max_bytes: int,
    min_documents: int,
    watch: Callable[[int, int], None] = lambda num_rows, held_bytes: None,
) -> tuple[Texts, Counts]:
    """All rows as one table in memory, which learning works on; those seen in fewer than min_documents are left out.

    max_rows, max_bytes: bounds of what the languages add up to. The arrays are made that large at once and only what
    is filled takes memory: joining blocks afterwards would need all of it twice.
    watch: is told how many rows there are so far, and their bytes. Raises LearnError if min_documents leaves no row.
    """
    data = np.empty(max_bytes, np.uint8)
    offsets = np.zeros(max_rows + 1, np.int64)
    counts = np.empty(max_rows, np.uint64)
    row = end = 0
    for every in rows:
        block = every.seen_in(min_documents)
        keys = block.keys
        data[end : end + keys.size_bytes] = keys.data[keys.offsets[0] : keys.offsets[-1]]
        offsets[row : row + block.num_rows + 1] = keys.offsets - keys.offsets[0] + end
        counts[row : row + block.num_rows] = block.counts
        row += block.num_rows
        end += keys.size_bytes
        watch(row, end + (offsets.itemsize + counts.itemsize) * row)
    if not end and min_documents > 1:
        raise LearnError(
            f"learn.min_documents = {min_documents}: no pre-token is in that many documents. "
            f"Lower it, or count more documents."
        )
    return Texts(data[:end], offsets[: row + 1]), counts[:row]


def require_size(name: str, model: Model, wanted: int, num_special: int, limits: dict[str, int], setting: str) -> None:
    """Raise LearnError if a model, of the type of that name, has fewer tokens than were asked for.

    wanted: special tokens included. limits: settings that may be the reason. setting: what asked, for the message.
    """
    size = len(model.tokens) + num_special
    if size >= wanted or "vocab_size" not in MODELS[name].uses:
        return
    said = ", ".join(f"{limit} = {value}" for limit, value in limits.items() if limit in MODELS[name].uses and value)
    special = "1 special token" if num_special == 1 else f"{num_special} special tokens"
    raise LearnError(
        f"{setting} = {wanted}: the counts give only {size} tokens: "
        f"{model.summary}{f' ({said})' if said else ''} and {special}. "
        f"Lower vocab_size to {size}, accept fewer (allow_smaller = true), relax a limit, or count more text."
    )
