"""Input files that lack documents for which there is no tombstone any more, since `tokcore restore` took it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tokcore_pipelines.build.inherited_records import read_ledgers
from tokcore_pipelines.build.ledger import FileLedger
from tokcore_pipelines.build.read_log import locate_part
from tokcore_pipelines.history.input_files_held import PartFiles
from tokcore_schemas.commit_log import Part
from tokcore_schemas.plan import DUPLICATE
from tokcore_schemas.tombstones import Tombstones


def list_restored_files(output: str, parts: Mapping[Part, PartFiles], removed: Tombstones | None) -> Iterator[str]:
    """The uris of the files that were read with a tombstone that is none now, and from which documents were left out.

    Of tombstones in files all count as such that may be: no file is read for it.

    They must be read again, though they are as they were pinned. parts: of the newest commit. removed: the tombstones
    that there are now.
    """
    for part, files in parts.items():
        stale = {
            number
            for number, settings in enumerate(files.settings)
            if settings.removed is not None and (removed is None or not removed.holds(settings.removed))
        }
        if stale:
            ledgers = read_ledgers(locate_part(output, part))
            yield from (file.uri for file in files if file.settings in stale and _lacks_some(ledgers[file.uri]))


def _lacks_some(ledger: FileLedger) -> bool:
    """Whether documents of a file were left out as removed, or as equal to others, which may be removed ones."""
    return bool(ledger.removed) or any(DUPLICATE in reasons for reasons in (ledger.filtered or {}).values())
