"""Rules of [dedup] in a build file."""

from __future__ import annotations

from tokcore_schemas.build_tables import BuildConfig
from tokcore_schemas.config_reader import BuildFile, show_value
from tokcore_schemas.field_path import has_each
from tokcore_schemas.prefer import PIECES, TEXT, parse_preferences


def check_dedup(config: BuildConfig, file: BuildFile) -> None:
    """Raise ConfigError for the first broken rule of [dedup]."""
    dedup = config.dedup
    if dedup.by is None:
        if file.content.get("dedup") is not None:
            raise file.error(("dedup",), 'does nothing without by: add, for example, by = "text", or remove the table.')
        return
    if has_each(dedup.by):
        raise file.error(
            ("dedup", "by"), f"= {show_value(dedup.by)}: leads to several values with [*]: name one field."
        )
    if dedup.normalize and dedup.by != TEXT:
        raise file.error(("dedup", "normalize"), f'is for by = "text", and by is {show_value(dedup.by)}: remove it.')
    try:
        preferences = parse_preferences(dedup.prefer)
    except ValueError as error:
        raise file.error(("dedup", "prefer"), f"{error}.") from error
    if any(one.kind == "split" for one in preferences) and not config.has_validation:
        raise file.error(
            ("dedup", "prefer"), "prefers a split, and there is one: add, for example, shards.validation = 0.01."
        )
    if dedup.by in PIECES and any(one.kind == "split" for one in preferences):
        for number, source in enumerate(config.sources):
            if not (source.id or source.group or source.validation):
                raise file.error(
                    ("source", number),
                    f"dedup.prefer names a split, and by = {show_value(dedup.by)} changes texts, by which documents "
                    f"without ids are dealt to splits: set id or group.",
                )
    spans = config.mask.spans
    if spans and spans in {field.name for field in config.compared_fields}:
        raise file.error(("dedup", "by"), f"or prefer names {spans}, which holds the spans of [mask].")
