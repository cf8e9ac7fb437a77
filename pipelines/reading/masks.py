"""What texts do not keep: the spans of [mask], before filters look at them.

Every format and every command comes through here (input_range.settle_batch), so what is counted, encoded and verified
are the same texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokcore.text.masked_texts import Span, find_spans, mask_texts, place_characters
from tokcore_pipelines.reading.records import EXPECTED, Batch, Reject, drop_documents, make_printable
from tokcore_pipelines.reading.span_fields import read_spans
from tokcore_schemas.plan import MASK_REASON, MaskRule


class FoundSpans(NamedTuple):
    """What a mask finds in a batch."""

    spans: dict[int, list[Span]]  # number of a document -> spans; nothing for one without
    misplaced: list[int]  # documents whose field has spans that are not inside of their text


def mask_batch(batch: Batch, rule: MaskRule, forbidden: Sequence[str] = ()) -> Batch:
    """The batch whose texts have no spans of the mask; the spans are counted by language and kind.

    Documents with a span of a kind that drops are counted as filtered. Those whose spans are not inside of their text
    are rejected, as are those that spell a forbidden text only now. Nothing is quoted from rejected records, which may
    hold what the mask would find.
    """
    found = find_masked_spans(batch, rule)
    misplaced = f"field {make_printable(rule.spans.encode())}: {EXPECTED['spans']}"
    refused = dict.fromkeys(found.misplaced, ("bad_field", misplaced))
    dropped = {i: f"{MASK_REASON}.{kind}" for i, spans in found.spans.items() if (kind := find_dropping(rule, spans))}
    masked: dict[str, dict[str, int]] = {}
    for i, spans in found.spans.items():
        of_lang = masked.setdefault(batch.langs[i], {})
        for span in spans:
            of_lang[span.kind] = of_lang.get(span.kind, 0) + 1
    texts, changed = mask_texts(batch.texts, found.spans, lambda kind: rule.spell(kind).encode())
    for i in changed:
        if i not in dropped and (spelled := next((one for one in forbidden if one.encode() in texts.text(i)), "")):
            refused[i] = ("special_text", f"the masked text spells {make_printable(spelled.encode())}")
    rejects = [one._replace(sample="") for one in batch.rejects]
    rejects += [Reject(int(batch.ordinals[i]), *why, "") for i, why in refused.items()]
    rejects.sort(key=lambda one: -1 if one.record is None else one.record)
    return drop_documents(batch._replace(texts=texts, masked=masked, rejects=rejects), dropped, refused)


def find_masked_spans(batch: Batch, rule: MaskRule) -> FoundSpans:
    """All spans that a mask finds in the texts of a batch, by document; they may overlap."""
    spans = find_spans(batch.texts, rule.presets, rule.regex)
    misplaced = []
    for i, value in enumerate(batch.fields[rule.spans] if rule.spans else ()):
        if not value or not (told := read_spans(value)):
            continue
        if (placed := place_characters(batch.texts.text(i), told)) is None:
            misplaced.append(i)
            spans.pop(i, None)
        else:
            spans.setdefault(i, []).extend(placed)
    return FoundSpans(spans, misplaced)


def find_dropping(rule: MaskRule, spans: Sequence[Span]) -> str:
    """The first of the kinds that drop a document that is among its spans; "" if none is."""
    kinds = {span.kind for span in spans}
    return next((kind for kind in rule.drop if kind in kinds), "")
