"""What waits to be read into an output, as it travels through a stream: arrivals, and the batches that they make.

Leaves to others: finding them (tokcore_pipelines.watch.stream_steps), and the stream itself
(tokcore_pipelines.run.engines.stream_graph).
"""

from __future__ import annotations

import dataclasses

from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore_schemas.plan import InputFile, ReadSettings


@dataclasses.dataclass(frozen=True, slots=True)
class Arrival:
    """What is committed together or not at all: a new file; or all that became of the files of one part of the output.

    A part whose files changed or vanished is dropped, so its other files are read again, and are among files, too.
    """

    files: tuple[InputFile, ...]  # to be read
    settings: tuple[ReadSettings, ...]  # those of the files, without what was removed from the output
    part: str = ""  # path of the part that is dropped for it; empty for a new file
    vanished: tuple[str, ...] = ()  # uris of files of that part whose documents are to go

    @property
    def key(self) -> str:
        """sha256 of uris and versions: another version of a file is another arrival."""
        files = [[file.uri, file.size_bytes, file.version] for file in self.files]
        return hash_sha256(write_canonical_json([files, self.part, list(self.vanished)]))

    @property
    def first(self) -> str:
        """The first uri of it, by which arrivals are sorted."""
        return min((*(file.uri for file in self.files), *self.vanished))

    @property
    def size_bytes(self) -> int:
        """Of its files, as stored."""
        return sum(file.size_bytes for file in self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Arrivals that become one part of the output."""

    arrivals: tuple[Arrival, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PaneCommitted:
    """What became of a pane of the stream: the commit that it made."""

    commit: int  # its number
    files: int  # that were read for it
