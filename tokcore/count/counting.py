"""Counting the pre-tokens of texts in memory, on one thread or several.

Leaves to others: what is counted in the kernel (masking, kernel) and what becomes of tables (pretoken_tables).
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tokcore import kernel
from tokcore.count.pretoken_tables import convert_rows_to_table
from tokcore.errors import ConfigError
from tokcore.text.masking import add_texts, check_mask
from tokcore.text.patterns import DEFAULT_PATTERN
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Texts, make_texts_from_arrow, make_texts_from_strings

_PARTS_PER_THREAD = 8


def count_pretokens(
    texts: Sequence[str | bytes] | pa.Array | pa.ChunkedArray,
    pattern: str = DEFAULT_PATTERN,
    threads: int = 1,
    max_pretoken_bytes: int = 1024,
    mask: Sequence[str] = (),
) -> pa.Table:
    """The count table of texts: columns pretoken (binary), count and documents (uint64), sorted by pretoken.

    texts: strings or an Arrow string or binary array; each is a document, and `documents` says in how many of them the
    pre-token occurs. pattern: a name of PATTERNS or a regular expression. Pre-tokens longer than max_pretoken_bytes
    are cut into parts at a character (0: never). mask: names of MASK_PRESETS; pre-tokens that touch a span of theirs
    are not counted. The result does not depend on threads.

    >>> count_pretokens(["a cat", "a dog"]).to_pylist()[0]
    {'pretoken': b' cat', 'count': 1, 'documents': 1}
    """
    if threads < 1:
        raise ConfigError(f"threads = {threads}: must be at least 1")
    if max_pretoken_bytes < 0 or 0 < max_pretoken_bytes < 4:
        raise ConfigError(f"max_pretoken_bytes = {max_pretoken_bytes}: must be 0 (never cut) or at least 4")
    batch = (
        make_texts_from_arrow(texts)
        if isinstance(texts, pa.Array | pa.ChunkedArray)
        else make_texts_from_strings(texts)
    )
    pretokenizer = Pretokenizer.of(pattern)
    chosen = check_mask(mask)

    # A user's own pattern is split outside of the counter, whose own is then not used.
    counters = [kernel.Counter(pretokenizer.native_name or "gpt2", max_pretoken_bytes) for _ in range(threads)]

    def count(counter: kernel.Counter, parts: Iterator[Texts]) -> None:
        for part in parts:
            add_texts(counter, part, pretokenizer, chosen)

    if threads == 1:
        count(counters[0], iter([batch]))
    else:
        parts = _split_texts(batch, threads * _PARTS_PER_THREAD)
        shares = [
            collections.deque(parts[len(parts) * i // threads : len(parts) * (i + 1) // threads])
            for i in range(threads)
        ]
        with concurrent.futures.ThreadPoolExecutor(threads) as executor:
            for _ in executor.map(lambda i: count(counters[i], _take_parts(shares, i)), range(threads)):
                pass
    return convert_rows_to_table(kernel.Counter.take_all(counters, threads))


def _take_parts(shares: Sequence[collections.deque[Texts]], own: int) -> Iterator[Texts]:
    """A thread's own share from its front, then what other threads have left, from the ends of theirs.

    All threads do so at the same time: one part may take twice as long as another. Neighbouring parts have more words
    in common than distant ones, so each thread keeps to its own side.
    """
    while any(shares):
        share = shares[own] or max(shares, key=len)
        with contextlib.suppress(IndexError):  # another thread was faster
            yield share.popleft() if share is shares[own] else share.pop()


def _split_texts(texts: Texts, num_parts: int) -> list[Texts]:
    """Runs of texts of about equal size in bytes; fewer if there are fewer texts, but at least one."""
    targets = texts.offsets[0] + np.arange(1, num_parts) * texts.size_bytes // num_parts
    bounds = np.unique([0, *np.searchsorted(texts.offsets, targets), texts.num_texts])
    if len(bounds) < 2:
        return [texts]
    return [
        Texts(texts.data, texts.offsets[start : end + 1])
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
