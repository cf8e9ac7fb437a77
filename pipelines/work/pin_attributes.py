"""Tables of metadata.attributes as a plan has them: listed, pinned by their content, and with the fields they hold."""

from __future__ import annotations

import dataclasses

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.reading.beside import locate_tables
from tokcore_pipelines.reading.input_range import list_looked_at
from tokcore_pipelines.store import storage
from tokcore_pipelines.work.pin_test_items import list_beside, name_file
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import Attributes, AttributesFile


def pin_attributes(config: BuildConfig) -> Attributes | None:
    """The tables of [metadata] and what they hold; None if there are none. All of their rows are read.

    Raises ConfigError for a pattern without files, a table that cannot be joined, and for tables that hold no field
    which the build looks at; StageError if a store does not answer.
    """
    from tokcore_pipelines.reading.attributes import load_table, open_table  # loads pyarrow.parquet

    told, rule = config.attributes, config.attributes_rule
    if told is None or rule is None:
        return None
    where = config.at("metadata", "attributes")
    found: dict[str, AttributesFile] = {}
    for pin in list_beside(config, told.files, where):
        found[pin.url] = AttributesFile(pin.url, pin.size_bytes, storage.compute_sha256(pin.url))
    files = [found[url] for url in sorted(found)]
    try:
        with open_table(files[0].uri) as table:
            columns = table.schema_arrow.names
        looked_at = [one.name for one in config.metadata]
        looked_at += [one.name for one in list_looked_at(config.filter_rules, config.mask_rule, config.compared_fields)]
        fields = tuple(sorted({*looked_at} & {*columns}))
        if not fields:
            raise ConfigError(
                f"none of its columns ({', '.join(map(repr, columns))}) is a field that [metadata], [[filter]], [mask] "
                f"or [dedup] names"
            )
        named = (dataclasses.replace(file, uri=name_file(config.base, file.uri)) for file in files)
        pinned = dataclasses.replace(rule, files=tuple(named), fields=fields)
        load_table(locate_tables(pinned, config.base))
    except TokError as error:
        raise ConfigError(f"{where}: {error}") from error
    return pinned


def unpin_attributes(attributes: Attributes | None) -> Attributes | None:
    """The tables as the build file alone has them."""
    return None if attributes is None else dataclasses.replace(attributes, files=(), fields=())
