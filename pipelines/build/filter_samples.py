"""What each rule of [[filter]] would drop of the documents of a sample, with examples: for `tokcore check`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tokcore_pipelines.build.samples import SourceSample
from tokcore_pipelines.reading.filters import find_dropped, is_meant, make_judge, measure_document
from tokcore_pipelines.reading.overlaps import list_overlaps
from tokcore_pipelines.reading.peek import read_first_documents
from tokcore_pipelines.reading.records import Batch, make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.expressions import parse_expression
from tokcore_schemas.plan import FilterRule

NUM_EXAMPLES = 3
_NUM_AROUND = 5


def tell_filters(rules: Sequence[FilterRule], samples: Sequence[SourceSample]) -> list[dict[str, Any]]:
    """Of each rule its name, the sampled documents that came to it and that it drops, the reasons, three examples."""
    told: list[dict[str, Any]] = [
        {"name": rule.name, "documents": 0, "dropped": 0, "reasons": Counter(), "examples": []} for rule in rules
    ]
    if not rules:
        return []
    for uri, batch in read_sampled(samples, filters=()):
        dropped = {one.document: one for one in find_dropped(batch, rules)}
        for i in range(batch.texts.num_texts):
            last = dropped[i].rule if i in dropped else len(rules) - 1
            for of_rule in told[: last + 1]:
                of_rule["documents"] += 1
        for one in dropped.values():
            of_rule = told[one.rule]
            of_rule["dropped"] += 1
            of_rule["reasons"][one.reason] += 1
            if len(of_rule["examples"]) < NUM_EXAMPLES:
                of_rule["examples"].append(_describe(uri, batch, one.document, rules[one.rule], one.reason))
    return [{**one, "reasons": dict(sorted(one["reasons"].items()))} for one in told]


def tell_rule(rule: FilterRule, samples: Sequence[SourceSample]) -> dict[str, Any]:
    """Documents of the sample on both sides of one rule, others left out; of a ready rule those nearest its limits."""
    judge = make_judge(rule)
    sides: dict[str, list[tuple[float, dict[str, Any]]]] = {"dropped": [], "kept": []}
    for uri, batch in read_sampled(samples, filters=()):
        judge_one = judge(batch)
        for i in (i for i in range(batch.texts.num_texts) if is_meant(rule, batch.langs[i])):
            reason = judge_one(i)
            margin = _measure_margin(rule, batch, i, reason)
            side = sides["dropped" if reason else "kept"]
            side.append((margin, _describe(uri, batch, i, rule, reason)))
            if len(side) > 2 * _NUM_AROUND:
                side[:] = sorted(side, key=lambda one: one[0])[:_NUM_AROUND]
    near = {side: sorted(found, key=lambda one: one[0])[:_NUM_AROUND] for side, found in sides.items()}
    return {"name": rule.name, **{side: [one for _, one in found] for side, found in near.items()}}


def _measure_margin(rule: FilterRule, batch: Batch, i: int, reason: str) -> float:
    """How far a document is from the limit that decides, or would first."""
    if not rule.rule:
        return 0.0
    measures = measure_document(rule, batch.texts.text(i), batch.langs[i])
    deciding = [one.margin for one in measures if not reason or reason == f"{rule.name}.{one.name}"]
    return abs(min(deciding, default=0.0))


def read_sampled(samples: Sequence[SourceSample], **changes: Any) -> Iterator[tuple[str, Batch]]:
    """(URI, first documents of a file) of each sampled file. changes: to its read settings, such as filters=()."""
    for sample in samples:
        settings = dataclasses.replace(sample.settings, **changes)
        for seen in sample.seen:
            if seen.batch is not None and (batch := read_first_documents(seen.peek, settings)) is not None:
                yield seen.file.uri, batch


def _describe(uri: str, batch: Batch, i: int, rule: FilterRule, reason: str) -> dict[str, Any]:
    """One document as an example: where it is, what a rule looked at, and how it begins."""
    text = batch.texts.text(i)
    if rule.rule:
        measures = measure_document(rule, text, batch.langs[i])
        chosen = [one for one in measures if reason == f"{rule.name}.{one.name}"] or sorted(
            measures, key=lambda one: one.margin
        )
        looked_at = {one.name: round(one.value, 4) for one in chosen[:1]}
    elif rule.overlap is not None:
        found = list_overlaps(batch, i, rule.name, rule.overlap).items
        looked_at = {redact(rule.overlap.files[number].uri): record for number, record in found[:1]}
    else:
        looked_at = {name: batch.fields[name][i] for name in parse_expression(rule.keep).fields}
    return {
        "file": redact(uri),
        "record": int(batch.ordinals[i]),
        "lang": batch.langs[i],
        "reason": reason,
        "values": looked_at,
        "text": make_printable(text),
    }
