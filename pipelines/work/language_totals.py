"""Totals of each language: added up, and as the manifest of the shards has them. No Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from tokcore.errors import StageError
from tokcore_schemas.refs import LanguageCounts
from tokcore_schemas.stage_manifests import EncodedLanguage

_MOST_NAMED = 3


def add_up_languages(counts: Iterable[Mapping[str, LanguageCounts]]) -> dict[str, LanguageCounts]:
    """The sums of each language, in the order of names."""
    totals: dict[str, LanguageCounts] = {}
    for one in counts:
        add_languages(totals, one)
    return dict(sorted(totals.items()))


def add_languages(totals: dict[str, LanguageCounts], more: Mapping[str, LanguageCounts]) -> None:
    """Add counts to those that are in totals, by name."""
    for lang, counts in more.items():
        totals[lang] = totals[lang] + counts if lang in totals else counts


def sum_up_encoded(counts: LanguageCounts, has_unknown: bool) -> EncodedLanguage:
    """What the shards manifest says of one language. has_unknown: whether a token stands for text without tokens."""
    return EncodedLanguage(
        documents=counts.num_documents,
        text_bytes=counts.text_bytes,
        pretokens=counts.num_pretokens,
        tokens=counts.num_tokens,
        bytes_per_token=format_ratio(counts.text_bytes, counts.num_tokens),
        unknown=counts.num_unknown if has_unknown else None,
    )


def add_up_nested(
    parts: Iterable[Mapping[str, Mapping[str, int]] | None],
) -> dict[str, dict[str, int]] | None:
    """The sums of several tables (language -> reason or kind -> number), sorted by name; None if all are empty.

    >>> add_up_nested([{"en": {"keep": 1}}, None, {"en": {"keep": 2}}])
    {'en': {'keep': 3}}
    """
    totals: dict[str, Counter[str]] = {}
    for part in parts:
        for lang, numbers in (part or {}).items():
            totals.setdefault(lang, Counter()).update(numbers)
    return {lang: dict(sorted(found.items())) for lang, found in sorted(totals.items())} or None


def format_ratio(part: int, whole: int, digits: int = 4) -> str:
    """part / whole as a decimal string, rounded half up, without a float on the way.

    >>> format_ratio(2, 3)
    '0.6667'
    """
    if whole == 0:
        return "0"
    scaled = (2 * part * 10**digits + whole) // (2 * whole)
    return f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}"


def refuse_many_partitions(partitions: Collection[str], limit: int) -> None:
    """Raise StageError for more partitions than shards.max_partitions allows: each has shards of its own.

    limit: 0 for none.
    """
    if 0 < limit < len(partitions):
        shown = ", ".join(sorted(partitions)[:_MOST_NAMED])
        raise StageError(
            f"shards.max_partitions = {limit:,}: the documents have {len(partitions):,} partitions or more, such as "
            f"{shown}. Each has shards of its own. Leave a key out of shards.partition_by, give numbers fewer bins, or "
            f"raise the limit. No shards were committed."
        )


def refuse_many_languages(languages: Collection[str], limit: int) -> None:
    """Raise StageError for more languages than build.max_languages allows: each has files of its own.

    limit: 0 for none.
    """
    if 0 < limit < len(languages):
        shown = ", ".join(repr(lang) for lang in sorted(languages)[:_MOST_NAMED])
        raise StageError(
            f"build.max_languages = {limit:,}: the documents have {len(languages):,} languages or more, such as "
            f"{shown}. Each has files of its own, so check lang_field; if they are languages, raise the limit."
        )
