"""Filters of a build file as a plan has them: the files of test items listed, and pinned by their content."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import get_args

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.reading.overlaps import load_items
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.patterns import resolve_pattern
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.input_format import FileFormat, find_format
from tokcore_schemas.plan import FilterRule, ItemsFile


def pin_filters(config: BuildConfig) -> tuple[FilterRule, ...]:
    """The rules of [[filter]], with their files of test items.

    Raises ConfigError for a pattern without files, a file of unknown format, and one with a record that is no item;
    StageError if a store does not answer.
    """
    return tuple(
        rule if rule.overlap is None else _pin(config, number, rule) for number, rule in enumerate(config.filter_rules)
    )


def unpin_filters(rules: tuple[FilterRule, ...]) -> tuple[FilterRule, ...]:
    """The rules as the build file alone has them."""
    return tuple(
        rule if rule.overlap is None else dataclasses.replace(rule, overlap=dataclasses.replace(rule.overlap, files=()))
        for rule in rules
    )


def list_beside(config: BuildConfig, patterns: Sequence[str], where: str) -> Iterator[storage.FileId]:
    """The files beside the inputs that patterns match. where: names them in the build file.

    Raises ConfigError for a pattern without files.
    """
    for pattern in patterns:
        try:
            found = storage.list_files(resolve_pattern(config.base, pattern))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        if not found:
            raise ConfigError(f"{where}: files = {redact(pattern)!r}: no file matches")
        yield from found


def _pin(config: BuildConfig, number: int, rule: FilterRule) -> FilterRule:
    told = config.filters[number].ngram_overlap
    assert rule.overlap is not None
    assert told is not None
    where = config.at("filter", number, "ngram_overlap")
    files: dict[str, ItemsFile] = {}
    for pin in list_beside(config, told.files, where):
        format, compression = find_format(pin.url) or (None, "none")
        if format is None or format not in get_args(FileFormat):
            raise ConfigError(f"{where}: {redact(pin.url)}: cannot tell the format from the name")
        files[pin.url] = ItemsFile(pin.url, pin.size_bytes, storage.compute_sha256(pin.url), format, compression)
    located = dataclasses.replace(rule.overlap, files=tuple(files[url] for url in sorted(files)))
    try:
        items = load_items(located)
    except TokError as error:
        raise ConfigError(f"{where}: {error}") from error
    if items.searched.num_short == len(items.places):
        raise ConfigError(f"{where}: none of {len(items.places):,} items has {located.n} words: lower n")
    named = tuple(dataclasses.replace(file, uri=name_file(config.base, file.uri)) for file in located.files)
    return dataclasses.replace(rule, overlap=dataclasses.replace(located, files=named))


def name_file(base: str, url: str) -> str:
    """The uri of a file: relative to the build file's folder where it is in there."""
    prefix = f"{urls.resolve_name(base, '').rstrip('/')}/" if urls.is_local(base) else f"{base.rstrip('/')}/"
    return url.removeprefix(prefix)
