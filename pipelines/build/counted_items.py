"""What the driver keeps of work items that were counted: sums over all of them, and the ledgers of each, packed.

A record names all languages of its item. A build of 100 TB has millions of records, so each is read, added up and let
go.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from tokcore_pipelines.build.ledger import build_ledger, flatten_ledger
from tokcore_pipelines.work.item_results import refuse_twins
from tokcore_pipelines.work.language_totals import add_languages
from tokcore_schemas.packed_rows import PackedRows
from tokcore_schemas.refs import ItemCounted, LanguageCounts, RangeLedger


@dataclasses.dataclass(frozen=True, slots=True)
class CountedItems:
    """The sums over all work items, and what became of their records."""

    languages: dict[str, LanguageCounts]  # in the order of names
    origins: dict[str, LanguageCounts]  # by spelled keys, where rows know more than their language
    masked: dict[str, Counter[str]]  # language -> preset of count.mask -> spans
    ledgers: Sequence[RangeLedger]  # in plan order
    rejects: list[str]  # attempt files that hold some, in plan order

    def list_masked(self, lang: str) -> dict[str, int]:
        """Preset of count.mask -> spans that were found in the documents of a language."""
        return dict(sorted(self.masked.get(lang, {}).items()))


def add_up_items(items: Iterable[ItemCounted]) -> CountedItems:
    """The sums over items, in plan order, of which only a few are held at a time.

    Raises StageError for two languages whose names differ in case only.
    """
    languages: dict[str, LanguageCounts] = {}
    origins: dict[str, LanguageCounts] = {}
    masked: dict[str, Counter[str]] = {}
    ledgers: PackedRows[RangeLedger] = PackedRows(flatten_ledger, build_ledger)
    rejects: list[str] = []
    for item in items:
        add_languages(languages, item.languages)
        add_languages(origins, item.origins or {})
        for lang, matches in item.masked.items():
            masked.setdefault(lang, Counter()).update(matches)
        for one in item.ledgers:
            ledgers.append(one)
        if item.rejects.size_bytes:
            rejects.append(item.rejects.attempt)
    refuse_twins(languages)
    return CountedItems(dict(sorted(languages.items())), dict(sorted(origins.items())), masked, ledgers, rejects)
