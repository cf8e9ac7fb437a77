"""Totals of several builds together: of the parts of an output, at a commit. No Beam."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.work.language_totals import add_up_nested, format_ratio
from tokcore_schemas.stage_manifests import EncodedLanguage, FileTotals, RecordTotals, ShardsManifest, ShardsTotals

_Totals = TypeVar("_Totals", bound=ShardsTotals)


def add_up_shards(parts: Sequence[ShardsManifest]) -> ShardsManifest:
    """The first of some manifests of shards, with the totals and languages of all and none of their files."""
    languages = add_up_languages([made.languages for made in parts])
    return dataclasses.replace(
        parts[0], totals=add_up_totals([made.totals for made in parts]), languages=languages, files=()
    )


def add_up_totals(parts: Sequence[_Totals]) -> _Totals:
    """The totals of some parts together; what is equal of all, of the first."""
    digest = DocumentsDigest()
    for one in parts:
        digest.add_up(one.documents_digest, one.records.documents)
    records, files = [one.records for one in parts], [one.files for one in parts]
    skipped = [one.skipped for one in records if one.skipped is not None]
    respelled = [one.respelled for one in records if one.respelled is not None]
    return dataclasses.replace(
        parts[0],
        records=RecordTotals(
            read=sum(one.read for one in records),
            documents=sum(one.documents for one in records),
            rejected=add_up_counts(one.rejected for one in records),
            skipped=add_up_counts(skipped) if skipped else None,
            removed=sum(one.removed for one in records),
            filtered=add_up_nested(one.filtered for one in records),
            respelled=add_up_counts(respelled) if respelled else None,
            masked=add_up_nested(one.masked for one in records),
            cut=add_up_nested(one.cut for one in records),
        ),
        files=FileTotals(
            planned=sum(one.planned for one in files),
            rejected=add_up_counts(one.rejected for one in files),
            stored_bytes_planned=sum(one.stored_bytes_planned for one in files),
            stored_bytes_rejected=sum(one.stored_bytes_rejected for one in files),
        ),
        text_bytes=sum(one.text_bytes for one in parts),
        shards=sum(one.shards for one in parts),
        tokens=sum(one.tokens for one in parts),
        documents_digest=digest.hexdigest(),
        special_text=add_up_counts(one.special_text for one in parts),
    )


def add_up_languages(parts: Iterable[Mapping[str, EncodedLanguage]]) -> dict[str, EncodedLanguage]:
    """Language -> its totals in all parts, by name."""
    found: dict[str, EncodedLanguage] = {}
    for part in parts:
        for lang, more in part.items():
            found[lang] = _add_language(found[lang], more) if lang in found else _add_language(more, None)
    return dict(sorted(found.items()))


def _add_language(one: EncodedLanguage, other: EncodedLanguage | None) -> EncodedLanguage:
    every = (one, other) if other is not None else (one,)
    text_bytes, tokens = sum(of.text_bytes for of in every), sum(of.tokens for of in every)
    return EncodedLanguage(
        documents=sum(of.documents for of in every),
        text_bytes=text_bytes,
        pretokens=sum(of.pretokens for of in every),
        tokens=tokens,
        bytes_per_token=format_ratio(text_bytes, tokens),
        unknown=None if one.unknown is None else sum(of.unknown or 0 for of in every),
    )


def add_up_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums by name."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
