"""Planning: what the sources of a build file match becomes pinned files, ranges and work items. Nothing is written."""

from __future__ import annotations

import dataclasses
import functools
from typing import get_args

from pipelines.reading.input_range import make_read_settings
from pipelines.store.redaction import redact
from pipelines.work.inputs import LeftOut, find_inputs
from pipelines.work.work_items import make_plan
from schemas.config import BuildConfig, Source, find_format
from schemas.input_format import Compression, FileFormat
from schemas.plan import InputFile, Plan, ReadSettings
from tokcore.canonical import write_canonical_json
from tokcore.errors import ConfigError
from tokcore.jsonable import to_jsonable


class _UnknownFormatError(ConfigError):
    """Neither the build file nor the name tells the format of a file."""


def plan_inputs(
    config: BuildConfig,
    output: str | None,
    forbidden: tuple[str, ...] = (),
    left_out: LeftOut | None = None,
    *,
    grows: bool = False,
) -> Plan:
    """The plan of the sources of a build file over the inputs as they are now.

    output: URL of the folder that no source may read; None: there is none. forbidden: special texts that reject a
    document. left_out: is told of the files that match and are not taken. grows: whether files are still to come: then
    a pattern may match none, and a file of unknown format is left out. Raises ConfigError for these otherwise, for a
    pattern that matches the output, and a file that two sources read differently; StageError if a store does not
    answer.
    """
    settings: dict[bytes, ReadSettings] = {}
    files: dict[str, tuple[InputFile, bytes, str]] = {}

    @functools.cache  # files have few settings, and each key takes 4 kB
    def make_key(number: int, format: FileFormat, compression: Compression) -> bytes:
        read = make_read_settings(config.sources[number], format, compression, forbidden)
        key = write_canonical_json(to_jsonable(read))
        settings[key] = read
        return key

    duplicates: dict[str, str] = {}
    left_out = left_out or LeftOut()
    for number, where, uri, pin in find_inputs(config, output, left_out, grows=grows):
        try:
            key = make_key(number, *_find_format(config.sources[number], pin.url, where))
        except _UnknownFormatError:
            if not grows:
                raise
            left_out.no_data[pin.url] = "its name does not tell the format"
            continue
        if (earlier := files.get(pin.url)) is not None:
            if earlier[1] != key:
                raise ConfigError(
                    f"{where}: {redact(uri)} is also matched by {earlier[2]}, "
                    f"with other settings. A file is read once: let only one source match it, or exclude it in one."
                )
            # Of several spellings the same one wins in any order of sources; a relative one lets a build move.
            uri = min(uri, earlier[0].uri, key=lambda uri: (uri.startswith("/") or "://" in uri, uri))
            duplicates[pin.url] = uri
        files[pin.url] = (InputFile(uri, pin.size_bytes, pin.version, 0), key, where)
    order = {key: index for index, key in enumerate(sorted(settings))}
    return make_plan(
        [dataclasses.replace(file, settings=order[key]) for file, key, _ in files.values()],
        [settings[key] for key in sorted(settings)],
        config.plan.range_bytes,
        duplicates.values(),
    )


def _find_format(source: Source, url: str, where: str) -> tuple[FileFormat, Compression]:
    told, compression = find_format(url) or (None, "none")
    if (format := source.format or told) is None:
        raise _UnknownFormatError(
            f"{where}: {redact(url)}: cannot tell the format from the name. "
            f"Set format for this source: one of {', '.join(get_args(FileFormat))}."
        )
    return format, compression
