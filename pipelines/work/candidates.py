"""Candidates: documents that may be duplicates of each other, as sorted runs of digests. No Beam.

A candidate is a row of fixed size: the digest of what is compared, the ranks by which one of equal ones stays, and
where the document is. Which language stands for which number is said before the rows of a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import LedgerError
from tokcore.files.canonical_json import Sha256Writer, hash_sha256
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.refs import RunRef

Rows = npt.NDArray[Any]
DIGEST_BYTES = 16


def make_row_type(num_ranks: int) -> np.dtype[Any]:
    """The columns of a candidate. num_ranks: of DedupJob.num_ranks; the smaller one stays.

    After these, the smaller language stays, then the smaller document key (of which 16 bytes are here), then the
    document that comes first in the plan.
    """
    return np.dtype(
        [
            ("head", "<u8"),  # of the digest, as a big-endian number
            ("tail", "<u8"),
            ("prefer", "<u8", (num_ranks,)),
            ("lang", "<u4"),
            ("key_head", "<u8"),
            ("key_tail", "<u8"),
            ("item", "<u4"),
            ("range", "<u4"),
            ("ordinal", "<i8"),
            ("piece", "<u4"),  # of the document, where pieces are compared; else 0
        ]
    )


class Candidates(NamedTuple):
    """Rows, and the languages that their numbers stand for, in the order of names."""

    rows: Rows
    langs: tuple[str, ...]


def join_candidates(parts: Sequence[Candidates], num_ranks: int) -> Candidates:
    """The candidates of several, whose languages get common numbers."""
    langs = sorted({lang for part in parts for lang in part.langs})
    number_of = {lang: number for number, lang in enumerate(langs)}
    rows = np.concatenate([np.zeros(0, make_row_type(num_ranks)), *(part.rows for part in parts)])
    at = 0
    for part in parts:
        numbers = np.array([number_of[lang] for lang in part.langs], np.uint32)
        if len(part.rows):
            rows["lang"][at : at + len(part.rows)] = numbers[part.rows["lang"]]
        at += len(part.rows)
    return Candidates(rows, tuple(langs))


def sort_candidates(rows: Rows) -> Rows:
    """Rows in the order of digests; of equal ones the one that stays comes first."""
    rows = rows[np.argsort(rows["head"], kind="stable")]
    heads = rows["head"]
    same = heads[1:] == heads[:-1]
    if not same.any():
        return rows
    # Few heads come twice, and only among these does the rest matter.
    where = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    some = rows[where]
    last = ("piece", "ordinal", "range", "item", "key_tail", "key_head", "lang")
    columns = [some[name] for name in last]
    columns += [some["prefer"][:, i] for i in reversed(range(some["prefer"].shape[1]))]
    rows[where] = some[np.lexsort((*columns, some["tail"], some["head"]))]
    return rows


def find_staying(rows: Rows) -> npt.NDArray[np.bool_]:
    """Whether each of sorted rows is the first of its digest."""
    stays = np.ones(len(rows), bool)
    if len(rows) > 1:
        stays[1:] = (rows["head"][1:] != rows["head"][:-1]) | (rows["tail"][1:] != rows["tail"][:-1])
    return stays


def write_rows(file: Sha256Writer, attempt: str, bucket: int, candidates: Candidates) -> RunRef:
    """Append a run to an attempt file."""
    section, offset = Sha256Writer(file), file.size_bytes
    section.write(json.dumps(candidates.langs).encode() + b"\n")
    section.write(candidates.rows.tobytes())
    return RunRef("", bucket, attempt, offset, section.size_bytes, section.sha256)


def read_rows(attempts: Attempts, run: RunRef, num_ranks: int) -> Candidates:
    """The candidates of a run. Raises LedgerError unless they are what was written."""
    head, _, body = read_section_bytes(attempts, run).partition(b"\n")
    return Candidates(np.frombuffer(body, make_row_type(num_ranks)), tuple(json.loads(head)))


def write_places(file: Sha256Writer, attempt: str, rows: Rows) -> RunRef:
    """Append the places of candidates to an attempt file."""
    section, offset = Sha256Writer(file), file.size_bytes
    section.write(np.stack([rows[name].astype("<i8") for name in ("range", "ordinal", "piece")], axis=1).tobytes())
    return RunRef("", 0, attempt, offset, section.size_bytes, section.sha256)


def read_places(attempts: Attempts, runs: Sequence[RunRef]) -> npt.NDArray[np.int64]:
    """int64 [n, 3]: the range within the item, the record in it, and the piece of this, of candidates of some runs."""
    parts = [np.frombuffer(read_section_bytes(attempts, run), "<i8").reshape(-1, 3) for run in runs if run.size_bytes]
    return np.concatenate([np.zeros((0, 3), np.int64), *parts])


def read_section_bytes(attempts: Attempts, run: RunRef) -> bytes:
    """The bytes of a run. Raises LedgerError unless they are what was written."""
    url = attempts.url(run.attempt)
    data = storage.read_part(url, run.offset, run.offset + run.size_bytes)
    if hash_sha256(data) != run.sha256:
        raise LedgerError(f"{redact(url)}: at byte {run.offset}: not the digests that were written there")
    return data
