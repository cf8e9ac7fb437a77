"""BPE learning: merges from a table of pre-tokens and counts.

At each step the pair of neighbouring tokens with the highest count is merged everywhere; between equal counts the one
with the smaller left id, then the smaller right id, bytes having the ids 0 to 255 in hf order and merge i the id
256 + i. Windows are counted ("aaa" has two of (a, a)), replacements go from left to right without overlap. The result
depends on nothing but the sum of counts per pre-token. Leaves to others: counting and weighing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.count.pretoken_tables import read_counts_of_table, read_documents_of_table
from tokcore.errors import ConfigError, LearnError
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.texts import Texts


class Merge(NamedTuple):
    """One merge: two tokens that become one, and how often they were neighbours when it was chosen.

    >>> merge = Merge(b"th", b"e", 4)
    >>> merge.left + merge.right, merge.count
    (b'the', 4)
    """

    left: bytes
    right: bytes
    count: int  # type: ignore[assignment]  # of the tuple method of that name


class LearnedMerges(NamedTuple):
    """Merges in rank order, as ids: 0 to 255 are the bytes in hf order, 256 + i is merge i."""

    pairs: kernel.Ids  # int32[m, 2], left and right
    counts: Counts  # uint64[m], as in Merge


def learn_bpe(
    table: pa.Table,
    vocab_size: int,
    min_count: int = 2,
    max_token_bytes: int = 0,
    threads: int = 1,
    allow_smaller: bool = False,
    min_documents: int = 0,
    num_special: int = 0,
) -> list[Merge]:
    """The merges of a vocabulary of vocab_size tokens: 256 bytes, the merges, in rank order, and num_special others.

    table: columns pretoken (binary or string) and count (integers); others are ignored, rows may come in any order and
    repeat a pre-token. A pair that occurs less than min_count times is not merged, nor one that would become longer
    than max_token_bytes (0: no limit). A pre-token that fewer than min_documents documents hold, by the column
    documents, takes no part (0 and 1: all do). The same for any number of threads.
    Raises LearnError if the table gives fewer merges (unless allow_smaller) or its counts are too large to add up,
    ConfigError for parameters out of range.

    >>> table = pa.table({"pretoken": [b"abab", b"b"], "count": [3, 9]})
    >>> learn_bpe(table, 258)
    [Merge(left=b'a', right=b'b', count=6), Merge(left=b'ab', right=b'ab', count=3)]
    """
    pretokens, counts = read_counts_of_table(table)
    if min_documents > 1:
        counts = np.where(read_documents_of_table(table) >= min_documents, counts, np.uint64(0))
    merges = learn_rows(
        pretokens,
        counts,
        vocab_size=vocab_size,
        num_special=num_special,
        min_count=min_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
        allow_smaller=allow_smaller,
    )
    return _spell_merges(merges)


def learn_rows(
    pretokens: Texts,
    counts: Counts,
    *,
    vocab_size: int,
    num_special: int = 0,
    min_count: int = 2,
    max_token_bytes: int = 0,
    threads: int = 1,
    allow_smaller: bool = False,
    merges_done: npt.NDArray[np.int64] | None = None,
) -> LearnedMerges:
    """learn_bpe of pre-tokens and counts that are not in a table; the merges as ids. merges_done: see learn_merges."""
    if num_special < 0:
        raise ConfigError(f"num_special = {num_special}: must not be negative")
    if vocab_size < 256 + num_special:
        others = f", and {num_special} special tokens" if num_special else ""
        raise ConfigError(f"vocab_size = {vocab_size}: must be at least 256, one token for each byte{others}")
    if min_count < 0:
        raise ConfigError(f"min_count = {min_count}: must not be negative")
    if max_token_bytes < 0 or max_token_bytes == 1:
        raise ConfigError(f"max_token_bytes = {max_token_bytes}: must be 0 (no limit) or at least 2")
    if threads < 1:
        raise ConfigError(f"threads = {threads}: must be at least 1")
    if pretokens.size_bytes == 0:
        raise LearnError("the count table is empty: there is nothing to learn from")
    num_merges = vocab_size - 256 - num_special
    try:
        left, right, count = kernel.learn_merges(
            pretokens, counts, num_merges, min_count, max_token_bytes, threads, merges_done
        )
    except OverflowError as error:
        raise LearnError(f"the counts of the table are too large: {error}. Divide them by a common factor.") from error
    if len(left) < num_merges and not allow_smaller:
        limit = f" and at most {max_token_bytes} bytes" if max_token_bytes else ""
        size = 256 + len(left) + num_special
        others = f" and {num_special} special tokens" if num_special else ""
        raise LearnError(
            f"vocab_size = {vocab_size}: the table gives only {size} tokens, 256 bytes, {len(left)} "
            f"merges of pairs with a count of at least {max(1, min_count)}{limit}{others}. Lower vocab_size to "
            f"{size}, allow a smaller one (allow_smaller), lower min_count, or count more text."
        )
    return LearnedMerges(np.stack([left, right], axis=1), np.asarray(count))


def _spell_merges(merges: LearnedMerges) -> list[Merge]:
    tokens = [BYTE_OF_ID[i : i + 1] for i in range(256)]
    lefts, rights = merges.pairs.T.tolist()
    for a, b in zip(lefts, rights, strict=True):
        tokens.append(tokens[a] + tokens[b])
    token = tokens.__getitem__
    return [*map(Merge, map(token, lefts), map(token, rights), merges.counts.tolist())]
