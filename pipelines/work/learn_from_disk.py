"""Learning where the rows do not fit in memory: they are weighed once, into a file, which is read in each round.

The file has no name, so nothing is left of it, however the process ends. It is where temporary files are (TMPDIR).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import read_run, write_run
from tokcore.errors import LearnError
from tokcore.learn.rounds import Round
from tokcore.models import MODELS
from tokcore_schemas.config import BuildConfig

LEAST_BYTES = 32 << 20  # of memory for a round; with less, rounds find too few merges to get on
READ_BYTES = 96 << 20  # of memory beside it: rows that are read, and the same rows as the kernel takes them
ROUNDS_BYTES = LEAST_BYTES + READ_BYTES  # the least that learning in rounds takes


def can_learn_from_disk(config: BuildConfig) -> bool:
    """Whether the model that is learned gives the same in rounds."""
    return config.extended is None and MODELS[config.learn.model].learns_in_rounds


@contextlib.contextmanager
def spill(rows: Iterable[CountRows], min_documents: int) -> Iterator[Callable[[], Iterator[CountRows]]]:
    """Write rows to a file that is there while the block runs; gives what reads them, from the first one on.

    Those seen in fewer than min_documents are left out. Raises LearnError if that leaves no text.
    """
    num_bytes = 0

    def thin() -> Iterator[CountRows]:
        nonlocal num_bytes
        for every in rows:
            block = every.seen_in(min_documents)
            num_bytes += block.keys.size_bytes
            # Learning does not need the number of documents, and zeros take no space in the file.
            yield CountRows(block.keys, block.counts, np.zeros(block.num_rows, np.uint64))

    with tempfile.TemporaryFile() as file:
        write_run(file, thin())
        if not num_bytes:
            raise LearnError(
                f"learn.min_documents = {min_documents}: no pre-token is in that many documents. Lower it, or count "
                f"more documents."
            )

        def read() -> Iterator[CountRows]:
            file.seek(0)
            return read_run(file)

        yield read


def describe_round(told: Round) -> str:
    """What a round gave, in a line.

    >>> describe_round(Round(number=2, num_merges=4096, floor=12, num_pieces=1_000_000))
    'round 2: 4,096 merges so far, from 1,000,000 parts of pre-tokens'
    """
    return f"round {told.number}: {told.num_merges:,} merges so far, from {told.num_pieces:,} parts of pre-tokens"
