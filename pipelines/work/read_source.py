"""What ReadDocuments does: the settings of one source, its work items, and the documents of each. No Beam.

Beside the source's own keys, settings may have tables of a build file that change or drop documents: TABLES.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tokcore.errors import ConfigError
from tokcore_pipelines.store import urls
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_pipelines.work.plan_inputs import plan_inputs
from tokcore_schemas.config import VERSION, BuildConfig, parse_config
from tokcore_schemas.document import Document, RejectedRecord
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import RejectRef

# Stands in messages where the path of a build file would.
_PLACE = "ReadDocuments"
TABLES = ("metadata", "map", "mask", "filter")


class Record(NamedTuple):
    """A document or what was rejected; the other one is None."""

    document: Document | None
    rejected: RejectedRecord | None


def parse_source(settings: Mapping[str, Any], base: str) -> BuildConfig:
    """A build file with this [[source]] alone. Raises ConfigError for the first setting that is wrong.

    base: folder against which relative patterns are resolved.
    """
    # Numbers as build files have them, which are exact.
    tables = json.loads(json.dumps({name: settings[name] for name in TABLES if name in settings}), parse_float=Decimal)
    source = {name: value for name, value in settings.items() if name not in TABLES}
    _check_types(source)
    tables |= {"version": VERSION, "build": {"output": "-"}, "learn": {"vocab_size": 512}, "source": [source]}
    return parse_config(tables, urls.join(base, _PLACE))


def list_source_items(settings: Mapping[str, Any], base: str) -> Iterator[tuple[int, Assignment]]:
    """The work items of a source as its files are now, each after its rank; the largest first.

    Raises ConfigError for a pattern without files, StageError if a store does not answer.
    """
    plan = plan_inputs(parse_source(settings, base), None)
    for rank, item in enumerate(plan.list_largest_first()):
        yield rank, plan.assignment(item)


def read_item(assignment: Assignment, base: str, dropped: Counter[str] | None = None) -> Iterator[Record]:
    """The documents of a work item, and what was rejected.

    dropped: at the end gets the number of documents that a filter, mask or step drops, by its name and reason.
    Raises StageError for a file that cannot be read, or has changed since it was listed.
    """
    waiting: list[RejectRef] = []
    uris = {r.file: r.uri for r in assignment.ranges}
    reader = ItemReader(assignment, base, waiting.append)
    for _, batch in reader:
        yield from _take(waiting, uris)
        for i in range(batch.texts.num_texts):
            yield Record(Document(batch.langs[i], batch.get_id(i), batch.texts.text(i)), None)
    yield from _take(waiting, uris)
    if dropped is not None:
        for ledger in reader.ledgers:
            for by_reason in (ledger.filtered or {}).values():
                dropped.update(by_reason)


def _take(waiting: list[RejectRef], uris: Mapping[int, str]) -> Iterator[Record]:
    for one in waiting:
        yield Record(None, RejectedRecord(uris[one.file], one.start, one.record, one.reason, one.detail))
    waiting.clear()


def _check_types(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for a value of a type that no setting has."""
    for name, value in settings.items():
        if not isinstance(value, str | bool | int | list):
            raise ConfigError(f"{_PLACE}: {name} = {value!r:.80}: expected a str, bool, int or a list of str")
