"""Files that are so long that one worker reads on alone when all others are done: which, how long, and how to cut them.

Plain JSON lines and plain text by lines are cut, and files that say where they can be (InputFile.cuts). Any other file
is rejected whole if it does not prove its end, so one worker reads all of it.
"""

from __future__ import annotations

import heapq
import posixpath
import shlex
from collections.abc import Sequence

from tokcore_pipelines.build.samples import Finding, SourceSample
from tokcore_pipelines.local.terminal import format_duration, format_size
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.work_items import estimate_text_bytes, is_cuttable
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.encodings import UTF16
from tokcore_schemas.plan import ReadSettings

# Of text that a worker counts or encodes in a second, where nothing was measured: slower than most we have seen.
_BYTES_PER_SECOND = 25_000_000
_PASSES = 2  # counting, and encoding
_LEAST_SECONDS = 300  # a shorter wait is not worth a word
_LEAST_SHARE = 1.5  # of what each worker would read if all files could be cut
_MOST_NAMED = 3

_PACKERS = {"gz": "gzip", "zst": "zstd -q", "bz2": "bzip2", "xz": "xz"}
_DATASETS = {"parquet": "parquet", "arrow": "ipc"}


def find_long_files(
    config: BuildConfig, samples: Sequence[SourceSample], workers: int, bytes_per_second: float = _BYTES_PER_SECOND
) -> list[Finding]:
    """The longest of them. bytes_per_second: of text, of one worker."""
    sizes = [
        (estimate_text_bytes(file.size_bytes, sample.settings), file, sample)
        for sample in samples
        for file in sample.files
    ]
    share = sum(text_bytes for text_bytes, _, _ in sizes) / max(1, workers)
    least = max(_LEAST_SHARE * share, _LEAST_SECONDS * bytes_per_second / _PASSES)
    long = [
        (text_bytes, file.uri, sample)
        for text_bytes, file, sample in sizes
        if text_bytes >= least and not file.cuts and not is_cuttable(sample.settings)
    ]
    return [
        Finding(
            config.at("source", sample.source, "files"),
            f"{redact(uri)} cannot be cut, so one worker reads its {format_size(text_bytes)} of text (about) alone: "
            f"{_tell_time(text_bytes, bytes_per_second)}, where a fair share is {_tell_time(share, bytes_per_second)}. "
            + suggest_cut(redact(uri), sample.settings),
            stops=False,
        )
        for text_bytes, uri, sample in heapq.nlargest(_MOST_NAMED, long, key=lambda one: one[:2])
    ]


def suggest_cut(uri: str, settings: ReadSettings) -> str:
    """How to make several files of one, in the same order, or one that can be cut."""
    uri = posixpath.basename(uri) if "://" in uri else uri  # of a copy on a disk
    if dataset := _DATASETS.get(settings.format):
        code = (
            f"import pyarrow.dataset as d; d.write_dataset(d.dataset({uri!r}, format={dataset!r}), 'parts', "
            f"format={dataset!r}, max_rows_per_file=1 << 18, max_rows_per_group=1 << 16, use_threads=False)"
        )
        return f"`python -c {shlex.quote(code)}` cuts it"
    pack = _PACKERS.get(settings.compression)
    if pack is not None and (settings.format == "jsonl" or settings.unit == "line"):
        ending = f"{'jsonl' if settings.format == 'jsonl' else 'txt'}.{settings.compression}"
        if settings.compression == "xz" and settings.encoding not in UTF16:
            return f"`xz -dc {shlex.quote(uri)} | xz -T0 --block-size=64MiB > blocks.{ending}` writes one that can be"
        cuts = f"`{pack} -dc {shlex.quote(uri)} | split -C 1G --filter='{pack} > $FILE.{ending}' - part-` cuts it"
        return f"{cuts}; what `bgzip` writes needs no cutting" if settings.compression == "gz" else cuts
    return "Write it as several files"


def _tell_time(text_bytes: float, bytes_per_second: float) -> str:
    return format_duration(round(_PASSES * text_bytes / bytes_per_second))
