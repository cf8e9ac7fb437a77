"""What [mask] would find in the documents of a sample, with examples: for `tokcore check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tokcore.text.masked_texts import Span, replace_spans
from tokcore_pipelines.build.filter_samples import NUM_EXAMPLES, read_sampled
from tokcore_pipelines.build.samples import SourceSample
from tokcore_pipelines.reading.masks import find_dropping, find_masked_spans
from tokcore_pipelines.reading.records import make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import MaskRule

_BEFORE = 60  # bytes of an example before its span


def tell_mask(
    rule: MaskRule | None, samples: Sequence[SourceSample], most: int = NUM_EXAMPLES
) -> dict[str, Any] | None:
    """The sampled documents, those that would be dropped, and of each kind its spans, documents and some examples.

    Examples show where a span is and what is around it, not what it hides.
    """
    if rule is None:
        return None
    num_documents = num_dropped = 0
    spans_of, documents_of = Counter[str](), Counter[str]()
    examples: dict[str, list[dict[str, Any]]] = {}
    for uri, batch in read_sampled(samples, filters=(), mask=None):
        num_documents += batch.texts.num_texts
        for i, spans in find_masked_spans(batch, rule).spans.items():
            num_dropped += find_dropping(rule, spans) != ""
            spans_of.update(span.kind for span in spans)
            documents_of.update({span.kind for span in spans})
            for kind in {span.kind for span in spans}:
                if len(shown := examples.setdefault(kind, [])) < most:
                    place = {"file": redact(uri), "record": int(batch.ordinals[i]), "lang": batch.langs[i]}
                    shown.append(place | _show(batch.texts.text(i), spans, kind, rule))
    kinds = [
        {"kind": kind, "spans": number, "documents": documents_of[kind], "examples": examples[kind]}
        for kind, number in sorted(spans_of.items())
    ]
    return {"documents": num_documents, "dropped": num_dropped, "kinds": kinds}


def _show(text: bytes, spans: Sequence[Span], kind: str, rule: MaskRule) -> dict[str, Any]:
    """Where the first span of a kind is, and how the masked text goes on from a little before it."""
    first = min(span for span in spans if span.kind == kind)
    # What overlaps it is replaced with it, so the text that is left out must not end inside of another span.
    start = max(0, first.start - _BEFORE)
    start = min([start, *(span.start for span in spans if span.start < start < span.end)])
    inside = [Span(one.start - start, one.end - start, one.kind) for one in spans if one.start >= start]
    shown = replace_spans(text[start:], inside, lambda one: rule.spell(one).encode())
    return {"start": first.start, "text": make_printable(shown)}
