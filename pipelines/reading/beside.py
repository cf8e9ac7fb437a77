"""Files beside the inputs, which read settings name: test items of filters, and tables of attributes."""

from __future__ import annotations

import dataclasses
import functools

from tokcore_pipelines.store import urls
from tokcore_schemas.plan import Attributes, FilterRule, ReadSettings


def locate_beside(settings: ReadSettings, base: str) -> ReadSettings:
    """The settings whose files beside the inputs are absolute. base: against which relative uris are resolved."""
    if settings.attributes is None and all(rule.overlap is None for rule in settings.filters):
        return settings
    return _locate(settings, base)


@functools.lru_cache(maxsize=64)
def _locate(settings: ReadSettings, base: str) -> ReadSettings:
    filters = tuple(_locate_items(rule, base) for rule in settings.filters)
    told = settings.attributes
    return dataclasses.replace(
        settings, filters=filters, attributes=None if told is None else locate_tables(told, base)
    )


def locate_tables(attributes: Attributes, base: str) -> Attributes:
    """The attributes whose files are absolute, and which know where sources of their rows are."""
    files = (dataclasses.replace(one, uri=urls.resolve_name(base, one.uri)) for one in attributes.files)
    return dataclasses.replace(attributes, files=tuple(files), base=base)


def _locate_items(rule: FilterRule, base: str) -> FilterRule:
    if rule.overlap is None:
        return rule
    files = (dataclasses.replace(one, uri=urls.resolve_name(base, one.uri)) for one in rule.overlap.files)
    return dataclasses.replace(rule, overlap=dataclasses.replace(rule.overlap, files=tuple(files)))


def leave_attributes(settings: ReadSettings) -> ReadSettings:
    """The settings for reading the records alone, without the fields that tables hold."""
    if (told := settings.attributes) is None:
        return settings
    own = tuple(one for one in settings.fields if one.name not in told.fields)
    return dataclasses.replace(settings, fields=own, attributes=None)
