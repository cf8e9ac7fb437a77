"""Which documents of a batch are kept: the rules of [[filter]], in their order. The first that a document fails counts.

Every format and every command comes through here (input_range.settle_batch), so what is counted, encoded and verified
are the same documents.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tokcore.text.quality.measures import Measure
from tokcore.text.quality.rules import RULES
from tokcore_pipelines.reading.overlaps import list_overlaps, load_items
from tokcore_pipelines.reading.records import Batch, drop_documents
from tokcore_schemas.expressions import parse_expression
from tokcore_schemas.plan import FilterRule

# A batch -> what says of each of its documents, by number, why it is not kept, or "".
Judge = Callable[[Batch], Callable[[int], str]]


class Dropped(NamedTuple):
    """A document that a rule drops."""

    document: int  # of the batch
    rule: int  # number of the rule
    reason: str  # as ledgers name it


def filter_batch(batch: Batch, rules: Sequence[FilterRule]) -> Batch:
    """The batch without the documents that a rule drops, which it counts by language and reason."""
    dropped = [*find_dropped(batch, rules)]
    of_tests = ((one, overlap) for one in dropped if (overlap := rules[one.rule].overlap) is not None)
    overlaps = tuple(list_overlaps(batch, one.document, one.reason, overlap) for one, overlap in of_tests)
    return drop_documents(batch, {one.document: one.reason for one in dropped})._replace(overlaps=overlaps)


def find_dropped(batch: Batch, rules: Sequence[FilterRule]) -> Iterator[Dropped]:
    """The documents of a batch that a rule drops, in order."""
    judges = [make_judge(rule)(batch) for rule in rules]
    for i in range(batch.texts.num_texts):
        for number, judge in enumerate(judges):
            if reason := judge(i):
                yield Dropped(i, number, reason)
                break


@functools.lru_cache(maxsize=64)
def make_judge(rule: FilterRule) -> Judge:
    """A function that applies a rule to a document."""
    judge = _judge_by_fields(rule) if rule.keep else _judge_by_text(rule) if rule.rule else _judge_by_items(rule)
    if not rule.langs:
        return judge

    def judge_meant(batch: Batch) -> Callable[[int], str]:
        judge_one = judge(batch)
        return lambda i: judge_one(i) if is_meant(rule, batch.langs[i]) else ""

    return judge_meant


@functools.lru_cache(maxsize=1 << 12)
def is_meant(rule: FilterRule, lang: str) -> bool:
    """Whether a rule is for documents of a language."""
    return not rule.langs or any(fnmatchcase(lang, glob) for glob in rule.langs)


def measure_document(rule: FilterRule, text: bytes, lang: str) -> list[Measure]:
    """All that a ready rule measures of a text."""
    return [*RULES[rule.rule].measure(_decode(text), read_parameters(rule), lang)]


def read_parameters(rule: FilterRule) -> Any:
    """The parameters of a ready rule: its defaults, and what the build file sets."""
    cls = RULES[rule.rule].parameters
    told = json.loads(rule.parameters) if rule.parameters else {}
    defaults = cls()
    return cls(**{name: type(getattr(defaults, name))(value) for name, value in told.items()})


def _judge_by_fields(rule: FilterRule) -> Judge:
    expression = parse_expression(rule.keep)

    def judge(batch: Batch) -> Callable[[int], str]:
        rows = [*zip(*(batch.fields[name] for name in expression.fields), strict=True)]
        return lambda i: "" if expression.test(rows[i]) else rule.name

    return judge


def _judge_by_text(rule: FilterRule) -> Judge:
    ready, parameters = RULES[rule.rule], read_parameters(rule)

    def judge(batch: Batch, i: int) -> str:
        reason = ready.find_reason(_decode(batch.texts.text(i)), parameters, batch.langs[i])
        return reason and f"{rule.name}.{reason}"

    return lambda batch: functools.partial(judge, batch)


def _judge_by_items(rule: FilterRule) -> Judge:
    assert rule.overlap is not None
    index = load_items(rule.overlap).searched
    return lambda batch: lambda i: rule.name if index.find_items(batch.texts.text(i)) else ""


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")
