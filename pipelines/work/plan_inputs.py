"""Planning: what the sources of a build file match becomes pinned files, ranges and work items. Nothing is written."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from tokcore.errors import ConfigError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.reading.input_range import make_read_settings
from tokcore_pipelines.reading.peek import peek
from tokcore_pipelines.reading.sniff import COMPRESSED, FORMATS, WORDS
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.allowed_code import require_code_allowed
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.cut_points import may_have_cuts
from tokcore_pipelines.work.inputs import LeftOut, ListFiles, find_inputs
from tokcore_pipelines.work.pin_attributes import pin_attributes
from tokcore_pipelines.work.pin_test_items import pin_filters
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.config import BuildConfig, Source, find_format
from tokcore_schemas.input_format import Compression, FileFormat
from tokcore_schemas.packed_rows import SortedRows
from tokcore_schemas.plan import InputFile, Plan, ReadSettings

_GUESSED_BYTES = 1 << 16

# Of some long files: where those are cut that can be, by uri.
ChooseCuts = Callable[[Sequence[tuple[InputFile, ReadSettings]]], Mapping[str, tuple[int, ...]]]


class _UnknownFormatError(ConfigError):
    """Neither the build file nor the name tells the format of a file."""


def plan_inputs(
    config: BuildConfig,
    output: str | None,
    forbidden: tuple[str, ...] = (),
    left_out: LeftOut | None = None,
    *,
    grows: bool = False,
    list_files: ListFiles = storage.list_files,
    is_old: Callable[[], bool] = lambda: False,
    choose_cuts: ChooseCuts | None = None,
) -> Plan:
    """The plan of the sources of a build file over the inputs as they are now.

    output: URL of the folder that no source may read; None: there is none. forbidden: special texts that reject a
    document. left_out: is told of the files that match and are not taken. grows: whether files are still to come: then
    a pattern may match none, and a file of unknown format is left out. list_files, is_old: as for find_inputs.
    choose_cuts: says where to cut long files that can be rejected whole. None: they are not cut, as where no step
    proves their ranges.
    Raises ConfigError for these otherwise, for a pattern that matches the output or meets links that its source does
    not speak of, and a file that two sources read differently; StageError if a store does not answer.
    """
    for one in config.maps:
        require_code_allowed(one.run)
    maps = config.map_rules
    settings: dict[bytes, ReadSettings] = {}
    keys: dict[bytes, int] = {}
    found: SortedRows[_Matched] = SortedRows(tuple, _Matched, key=lambda one: one.url)

    filters = pin_filters(config)
    attributes = pin_attributes(config)

    @functools.cache  # files have few settings, and each key takes 4 kB
    def make_key(number: int, format: str, compression: Compression) -> bytes:
        read = make_read_settings(
            config.sources[number],
            format,
            compression,
            forbidden,
            normalizes_langs=config.normalizes_langs,
            metadata=config.metadata_fields,
            attributes=attributes,
            maps=maps,
            filters=filters,
            mask=config.mask_rule,
            compared=config.compared_fields,
            order=number if config.orders_sources else 0,
        )
        key = write_canonical_json(to_jsonable(read))
        settings[key] = read
        return key

    left_out = left_out or LeftOut()
    listed = find_inputs(config, output, left_out, grows=grows, list_files=list_files, is_old=is_old)
    for number, where, uri, pin, real, is_linked in listed:
        try:
            key = make_key(number, *_find_format(config.sources[number], pin.url, where))
        except _UnknownFormatError as error:
            if not grows:
                raise ConfigError(f"{error}{_guess_format(pin)}") from None
            left_out.no_data[pin.url] = "its name does not tell the format"
            continue
        known = keys.setdefault(key, len(keys))
        found.add(_Matched(real or pin.url, uri, pin.size_bytes, pin.version, known, where, is_linked))
    order = {keys[key]: index for index, key in enumerate(sorted(settings))}
    duplicates: list[str] = []
    ordered, range_bytes = [settings[key] for key in sorted(settings)], config.plan.range_bytes
    long: list[InputFile] = []

    def make_file(one: _Matched) -> InputFile:
        file = InputFile(one.uri, one.size_bytes, one.version, order[one.key])
        if choose_cuts is not None and may_have_cuts(file.size_bytes, ordered[file.settings], range_bytes):
            long.append(file)
        return file

    plan = make_plan(map(make_file, _join_equal(found, duplicates)), ordered, range_bytes, duplicates)
    if choose_cuts is None or not long or not (cuts := choose_cuts([(one, ordered[one.settings]) for one in long])):
        return plan
    files = (dataclasses.replace(one, cuts=cuts[one.uri]) if one.uri in cuts else one for one in plan.files)
    return make_plan(files, ordered, range_bytes, duplicates)


class _Matched(NamedTuple):
    """A file that a pattern matches, beside its key: a number of its read settings."""

    url: str  # of where it is, if links are followed
    uri: str
    size_bytes: int
    version: str
    key: int
    where: str
    is_linked: bool


def _join_equal(found: Iterable[_Matched], duplicates: list[str]) -> Iterator[_Matched]:
    """Each file once. found: sorted by url. duplicates: is told of those that come more than once.

    Raises ConfigError for a file that is read in two ways.
    """
    for _, matches in itertools.groupby(found, key=lambda one: one.url):
        file, *others = matches
        if others:
            for earlier, one in itertools.pairwise((file, *others)):
                if one.key != earlier.key:
                    raise ConfigError(
                        f"{one.where}: {redact(one.uri)} is also matched by {earlier.where}, "
                        f"with other settings. A file is read once: let only one source match it, or exclude it in one."
                    )
            # Of several spellings the same one wins in any order of sources: the file's own, which stays if another
            # link to it comes, and a relative one, which lets a build move.
            first = min((file, *others), key=_rank_spelling)
            file = others[-1]._replace(uri=first.uri)
            duplicates.append(first.uri)
        yield file


def _rank_spelling(one: _Matched) -> tuple[bool, bool, str]:
    return one.is_linked, one.uri.startswith("/") or "://" in one.uri, one.uri


def _guess_format(pin: storage.FileId) -> str:
    """For an error about a file whose name tells nothing: what its start looks like, what to write; "" if unknown."""
    seen = peek(pin, _GUESSED_BYTES)
    if seen.stored in COMPRESSED or seen.inner == "text" or (format := FORMATS.get(seen.inner)) is None:
        return ""
    return f' It looks like {WORDS[seen.inner]}: write format = "{format}".'


def _find_format(source: Source, url: str, where: str) -> tuple[str, Compression]:
    told, compression = find_format(url) or (None, "none")
    if (format := source.format or told) is None:
        raise _UnknownFormatError(
            f"{where}: {redact(url)}: cannot tell the format from the name. "
            f"Set format for this source: one of {', '.join(get_args(FileFormat))}."
        )
    return format, compression
