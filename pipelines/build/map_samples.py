"""What each step of [[map]] makes of the documents of a sample, with examples: for `tokcore check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tokcore.plugins.map_outcome import RECORD, REJECT, TEXT
from tokcore_pipelines.build.filter_samples import NUM_EXAMPLES, read_sampled
from tokcore_pipelines.build.samples import SourceSample
from tokcore_pipelines.reading.maps import map_documents, take_outcome
from tokcore_pipelines.reading.records import Batch, make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import MapRule, ReadSettings


def tell_maps(
    rules: Sequence[MapRule], samples: Sequence[SourceSample], most: Mapping[str, int] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Of each step the sampled documents that came to it, that it drops and whose text it changes, three examples.

    most: map.N -> how many of step N instead.
    """
    wanted = [most.get(f"map.{number}", NUM_EXAMPLES) for number in range(len(rules))]
    told: list[dict[str, Any]] = [
        {"name": rule.name, "documents": 0, "dropped": 0, "changed": 0, "reasons": Counter(), "examples": []}
        for rule in rules
    ]
    for sample in samples if rules else ():
        # What comes after steps must not change what they are given.
        for uri, batch in read_sampled([sample], maps=(), metadata=(), mask=None, filters=()):
            for rule, of_rule, num in zip(rules, told, wanted, strict=True):
                if batch.texts.num_texts:
                    batch = _tell_batch(batch, rule, sample.settings, uri, of_rule, num)
    return [{**one, "reasons": dict(sorted(one["reasons"].items()))} for one in told]


def _tell_batch(
    batch: Batch, rule: MapRule, settings: ReadSettings, uri: str, told: dict[str, Any], most: int
) -> Batch:
    """What a step leaves of a batch, after adding what it does to what is told. most: examples in all."""
    given, made = map_documents(batch, rule, settings, uri)
    columns = (made.column(RECORD), made.column(TEXT), made.column(REJECT))
    came = {record: (text, reason) for record, text, reason in zip(*(c.to_pylist() for c in columns), strict=True)}
    told["documents"] += batch.texts.num_texts
    for i, record in enumerate(batch.ordinals.tolist()):
        text = batch.texts.text(i)
        after, why = came.get(record, (None, ""))
        spelled = after.encode() if isinstance(after, str) else after
        is_dropped = after is None or why is not None
        reason = f"{rule.name}.{why}" if why else rule.name
        if is_dropped:
            told["dropped"] += 1
            told["reasons"][reason] += 1
        elif spelled != text:
            told["changed"] += 1
        if (is_dropped or spelled != text) and len(told["examples"]) < most:
            told["examples"].append(
                {
                    "file": redact(uri),
                    "record": record,
                    "lang": batch.langs[i],
                    "reason": reason if is_dropped else "",
                    "values": {"dropped": reason} if is_dropped else {"becomes": make_printable(spelled or b"")},
                    "text": make_printable(text),
                }
            )
    return take_outcome(batch, given, made, rule, settings, uri)
