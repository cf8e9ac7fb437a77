"""What a worker does with a range of a file that can be rejected whole, before anything of the file counts: read it.

Other ranges of the file may be damaged, so what this one holds says nothing alone: build/prove_files joins them.
"""

from __future__ import annotations

from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.as_written import read_to_prove
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_schemas.plan import Rejection
from tokcore_schemas.refs import RangeProved, RangeToProve


def make_proved_key(number: int) -> str:
    """The record key of a range that is proved."""
    return f"proved-{number:05d}"


def prove_range(attempts: Attempts, base: str, piece: RangeToProve) -> RangeProved:
    """Read a range to its end; whether it is sound. base: folder against which relative uris are resolved.

    Raises StageError if the file cannot be read, or has changed since it was planned.
    """
    key, r = make_proved_key(piece.number), piece.range
    if (done := attempts.result(key, RangeProved)) is None:
        file = storage.FileId(urls.resolve_name(base, r.uri), r.size_bytes, r.version)
        why: Rejection | None = None
        try:
            read_to_prove(file, r.start, r.end, r.settings, r.extent)
        except FileRejected as error:
            why = Rejection(error.reason, error.detail)
        reach("prove.range")
        done = attempts.record(key, RangeProved(r.file, r.start, why))
    report_progress("read", r.stored_bytes)
    return done
