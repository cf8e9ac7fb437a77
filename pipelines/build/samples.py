"""What was seen of the input of a build before any work, and what is wrong with it."""

from __future__ import annotations

import dataclasses

from tokcore_pipelines.reading.peek import Peek
from tokcore_pipelines.reading.records import BATCH_BYTES, BATCH_RECORDS, Batch
from tokcore_schemas.input_format import COLUMN_FORMATS
from tokcore_schemas.plan import InputFile, ReadSettings


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One file of a sample."""

    file: InputFile
    peek: Peek
    batch: Batch | None  # its first records; None if one must read all of it to know them
    refused: str = ""  # why the file is rejected whole
    num_rows: int | None = None  # of a parquet file


@dataclasses.dataclass(frozen=True, slots=True)
class SourceSample:
    """What was seen of the files that are read with the same settings."""

    number: int  # of the settings in the plan
    source: int  # number of the first source in the build file that reads like this
    settings: ReadSettings
    files: tuple[InputFile, ...]  # all of them
    seen: tuple[Seen, ...]

    @property
    def stored_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def is_whole(self) -> bool:
        """Whether every record of every file was seen."""
        return len(self.seen) == len(self.files) and all(map(_is_seen_whole, self.seen))


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a source, or looks so."""

    where: str  # the place in the build file
    text: str
    stops: bool  # whether a build would fail
    example: str = ""  # a file and a record


def _is_seen_whole(seen: Seen) -> bool:
    batch = seen.batch
    if batch is None:
        return bool(seen.refused)
    if seen.num_rows is not None:
        return batch.num_records >= seen.num_rows
    is_full = batch.num_records >= BATCH_RECORDS or batch.texts.size_bytes >= BATCH_BYTES
    return not is_full and (seen.peek.is_whole or seen.peek.stored in COLUMN_FORMATS)
