"""What became of a work item, as the counters that a report shows. No Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokcore_pipelines.store.retries import take_new_retries
from tokcore_schemas.refs import ItemCounted, ItemEncoded, ItemScattered, LanguageCounts, RangeLedger


def sum_up_item(item: ItemCounted | ItemEncoded | ItemScattered, was_done: bool) -> Counter[str]:
    """Name of a counter -> its amount. was_done: an earlier attempt left its result, so nothing was read."""
    amounts = Counter({"items": 1, "cache_hits": int(was_done), "retries": take_new_retries()})
    amounts.update(_sum_up_ledgers(item.ledgers))
    amounts.update(_sum_up_languages(item.languages.values()))
    return amounts


def _sum_up_ledgers(ledgers: Iterable[RangeLedger]) -> Counter[str]:
    amounts: Counter[str] = Counter()
    for one in ledgers:
        amounts.update(records=one.num_records, documents=one.num_documents, stored_bytes=one.size_bytes)
        amounts.update(text_bytes=one.text_bytes, rejected=sum(one.rejected.values()))
        amounts.update({f"rejected:{reason}": number for reason, number in one.rejected.items()})
        if one.rejected_file and not one.start:
            amounts.update(rejected_files=1)
    return amounts


def _sum_up_languages(languages: Iterable[LanguageCounts]) -> Counter[str]:
    amounts: Counter[str] = Counter()
    for one in languages:
        amounts.update(pretokens=one.num_pretokens, tokens=one.num_tokens)
    return amounts
