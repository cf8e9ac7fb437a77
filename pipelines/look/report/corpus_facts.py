"""The corpus as its manifests and one pass over its shards tell it: every number is exact."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tokcore.evaluate.spread import DIGITS
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.ledger import FileLedger
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.build.rejects import LEDGER
from tokcore_pipelines.look.report.shard_pass import Amount, ShardPass
from tokcore_pipelines.look.report.tokenizer_tables import group_sources
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.json_lines import read_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.shard_entries import iterate_named_shards
from tokcore_schemas.stage_manifests import BuildManifest, MixtureManifest, MixtureShare, ShardsManifest
from tokcore_schemas.stage_table import REJECTED

# Of a receipt, what counts documents and tokens.
_COUNTED = ("documents", "tokens", "mixed_documents", "mixed_tokens", "left_out", "repeated")


def tell_corpus(build: BuildManifest, read: ShardPass, is_lossless: bool) -> dict[str, Any]:
    """Totals, languages, sources, rejects, special text, masked spans.

    Bytes of a source are those that its tokens spell: None unless the tokenizer is lossless.
    """
    totals = build.totals
    return {
        "documents": totals.records.documents,
        "text_bytes": totals.text_bytes,
        "tokens": totals.tokens,
        "shards": totals.shards,
        "records": {"read": totals.records.read, "rejected": dict(sorted(totals.records.rejected.items()))},
        "files": {"planned": totals.files.planned, "rejected": dict(sorted(totals.files.rejected.items()))},
        "special_text": dict(sorted(totals.special_text.items())),
        "languages": {
            lang: {
                "documents": one.documents,
                "text_bytes": one.text_bytes,
                "tokens": one.tokens,
                "pretokens": one.pretokens,
                "share_of_bytes": _read_shares(one.share_of_bytes),
                "weight": one.weight,
                "masked_bytes": one.masked_bytes,
                "masked_spans": one.masked,
                "unknown": one.unknown,
            }
            for lang, one in sorted(build.languages.items())
        },
        **({"metadata": read.metadata} if read.metadata else {}),
        **_tell_sources(read, is_lossless),
        "mask": list(build.config.counts.mask) if build.config.counts is not None else [],
    }


Counted = Literal["filtered", "masked", "cut"]


def tell_by_source(output: Output, build: BuildManifest, what: Counted) -> dict[str, Any] | None:
    """What filters dropped, masks found, or texts lost, by language and by source, each by reason; None for nothing."""
    of_languages = getattr(build.totals.records, what)
    if not of_languages:
        return None
    ledgers = [
        file for part in output.parts for file in read_lines(urls.join(part.url, REJECTED.name, LEDGER), FileLedger)
    ]
    called = group_sources({("", file.uri): Amount() for file in ledgers})
    sources: dict[str, Counter[str]] = {}
    for file in ledgers:
        for by_reason in (getattr(file, what) or {}).values():
            sources.setdefault(redact(called[file.uri]), Counter()).update(by_reason)
    return {
        "languages": of_languages,
        "sources": {source: dict(sorted(found.items())) for source, found in sorted(sources.items())},
    }


def tell_validation(read: ShardPass, is_lossless: bool, learned_from: str) -> dict[str, Any] | None:
    """Documents, tokens and bytes of the validation split, in all and by language; None if nothing is in it.

    Bytes are those that the tokens spell: None unless the tokenizer is lossless. learned_from: train, all or none.
    """
    languages = {lang: own for (split, lang), own in sorted(read.by_split.items()) if split == "validation"}
    if not languages:
        return None
    total = Amount(*(sum(column) for column in zip(*map(dataclasses.astuple, languages.values()), strict=True)))

    def tell(own: Amount) -> dict[str, Any]:
        per_token = round(own.text_bytes / own.tokens, DIGITS) if is_lossless and own.tokens else None
        return {
            "documents": own.documents,
            "tokens": own.tokens,
            "text_bytes": own.text_bytes if is_lossless else None,
            "bytes_per_token": per_token,
        }

    told = {lang: tell(own) for lang, own in languages.items()}
    return {"is_learned_from": learned_from == "all", **tell(total), "languages": told}


def tell_partitions(parts: Sequence[tuple[str, ShardsManifest]]) -> dict[str, Any]:
    """Partition -> its shards, documents and tokens in all parts; empty unless shards are kept apart so."""
    sums: dict[str, Counter[str]] = {}
    for _, made in parts:
        for facts in (shard.facts for shard in iterate_named_shards(made) if shard.facts.partition):
            own = sums.setdefault(facts.partition, Counter())
            own.update(shards=1, documents=facts.documents, tokens=facts.tokens)
    return {name: dict(own) for name, own in sorted(sums.items())}


def _tell_sources(read: ShardPass, is_lossless: bool) -> dict[str, Any]:
    sources: dict[str, Amount] = {}
    langs: dict[str, set[str]] = {}
    called = group_sources(read.amounts)
    for (lang, source), amount in read.amounts.items():
        own = sources.setdefault(called[source], Amount())
        own.documents += amount.documents
        own.tokens += amount.tokens
        own.text_bytes += amount.text_bytes
        langs.setdefault(called[source], set()).add(lang)
    return {
        "sources": {
            redact(source): {
                "documents": own.documents,
                "tokens": own.tokens,
                "text_bytes": own.text_bytes if is_lossless else None,
                "languages": sorted(langs[source]),
            }
            for source, own in sorted(sources.items())
        },
        "sources_are_folders": any(source != name for source, name in called.items()),
    }


def _read_shares(shares: tuple[str, str] | None) -> dict[str, float] | None:
    """Before and after mixing."""
    return None if shares is None else {"before": float(shares[0]), "after": float(shares[1])}


def tell_mixture(mixed: MixtureManifest | None) -> dict[str, Any] | None:
    """What `[mixture]` made of the training documents of the shards: the receipt, with shares before and after.

    None without a mixture.
    """
    if mixed is None:
        return None
    totals = {
        key: value
        for key, value in to_jsonable(mixed.totals).items()
        if key not in ("sources", "partitions", "paths", "fingerprint")
    }
    return {
        "settings": to_jsonable(mixed.config),
        "totals": totals,
        "languages": _read_receipts(mixed.languages),
        "sources": _read_receipts(mixed.totals.sources),
        **({"partitions": _read_receipts(mixed.totals.partitions)} if mixed.totals.partitions else {}),
        **({"paths": _read_receipts(mixed.totals.paths)} if mixed.totals.paths else {}),
    }


def _read_receipts(receipts: Mapping[str, MixtureShare]) -> dict[str, Any]:
    tokens = sum(one.tokens for one in receipts.values())
    mixed = sum(one.mixed_tokens for one in receipts.values())
    return {
        name: {
            **{key: getattr(one, key) for key in _COUNTED},
            "share_before": round(one.tokens / tokens, DIGITS) if tokens else None,
            "share_after": round(one.mixed_tokens / mixed, DIGITS) if mixed else None,
            "share_wanted": float(one.share_wanted) if one.share_wanted else None,
            "epochs": float(one.epochs),
        }
        for name, one in sorted(receipts.items())
    }
