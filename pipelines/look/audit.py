"""`tokcore audit`: what is odd about a vocabulary, and what was made of it in a build.

Each section needs the tokenizer, the count tables or the shards; without them it is left out and named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tokcore.count.token_counts import RARE
from tokcore.errors import FormatError, IdentityError
from tokcore.look.odd_tokens import (
    CHARACTER_KINDS,
    count_kinds_of_characters,
    find_invisible_characters,
    find_partial_characters,
    find_unreachable_tokens,
    spell_token,
)
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.build.tokenizers_beside import list_fingerprints
from tokcore_pipelines.look.top_sources import TopSource, find_top_sources
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_schemas.stage_table import PLAN, SHARDS

# An id is dominated by a document that has more than half of its occurrences, by a file that has more than nine tenths.
_DOCUMENT_SHARE = (1, 2)
_SOURCE_SHARE = (9, 10)


def audit(output: Output, tokenizer: Tokenizer, rare: int = RARE, sources: bool = False) -> dict[str, Any]:
    """The findings, in values that JSON knows. Every list is of objects with id, token (escaped) and bytes (hex), and
      never, rare           ids never written; written at most `rare` times
      mostly_one_document   more often in one document than in all others together
      mostly_one_source     more than nine of ten in one of several files; mostly_one_source_by_source: file -> such ids
      unreachable           becomes: the ids that their bytes, merged as one pre-token, give instead
      partial_utf8          not well-formed UTF-8: parts of characters
      invisible_tokens      kinds: kind of tokcore.look.odd_tokens.CHARACTER_KINDS -> characters of the token
    those of rare, mostly_one_document and mostly_one_source with the columns of token_counts.parquet, and with sources
    top_source and top_source_count: the file that has most of them, and how many. mostly_one_document and
    mostly_one_source leave out special and rare ids. invisible_in_text: kind -> language -> occurrences in the counted
    text, pre-tokens that hold one, occurrences by character. missing: section -> why it is left out.

    rare: ids written at most that often are rare. sources: look for mostly_one_source, too, which reads all shards.
    Raises IdentityError if the shards are another tokenizer's, FormatError for a damaged file.
    """
    spec = tokenizer.spec
    specials = sorted(token.id for token in spec.special if token.id is not None)
    report: dict[str, Any] = {
        "output": output.url,
        "fingerprint": tokenizer.fingerprint,
        "vocab_size": tokenizer.vocab_size,
        "ordinary_tokens": len(spec.model.tokens),
        "special_tokens": len(specials),
        "unused_ids": tokenizer.vocab_size - len({*spec.model.ids.tolist(), *specials}),
        "rare_at_most": rare,
        "missing": {},
        "unreachable": [
            {**_name_rows(tokenizer, one.id), "becomes": list(one.becomes)}
            for one in find_unreachable_tokens(tokenizer)
        ],
        "partial_utf8": [_name_rows(tokenizer, id) for id in find_partial_characters(tokenizer)],
        "invisible_tokens": [
            {**_name_rows(tokenizer, id), "kinds": dict(sorted(kinds.items()))}
            for id, kinds in count_kinds_of_characters(tokenizer).items()
        ],
    }
    report |= _audit_shards(output, tokenizer, specials, rare, sources, report["missing"])
    counted = output.find_counted()
    if counted is None:
        report["missing"]["invisible_in_text"] = "no count tables in this output: an imported tokenizer counts nothing"
    else:
        report["invisible_in_text"] = _audit_text(counted)
    return report


def _audit_shards(
    output: Output, tokenizer: Tokenizer, specials: Sequence[int], rare: int, sources: bool, missing: dict[str, str]
) -> dict[str, Any]:
    """The sections about what was written; those that are left out go to missing."""
    parts = output.find_all(SHARDS)
    if not parts:
        missing["written"] = "no shards in this output: how often ids are written is not known"
        return {}
    if parts[0][1].totals.fingerprint != tokenizer.fingerprint:
        if tokenizer.fingerprint in list_fingerprints(output.url):
            missing["written"] = (
                "another tokenizer of this output wrote the shards: how often these ids are is not known"
            )
            return {}
        raise IdentityError(f"{redact(output.url)}: its shards were written with another tokenizer")
    tops = None
    if not sources:
        missing["mostly_one_source"] = "not asked for: --sources reads all shards"
    elif not output.find_all(PLAN):
        missing["mostly_one_source"] = "no plan in this output: which files there were is not known"
    else:
        tops = _find_top_sources(output, tokenizer.vocab_size)
    return {
        "tokens": sum(made.totals.tokens for _, made in parts),
        "documents": sum(made.totals.records.documents for _, made in parts),
        **_audit_written(tokenizer, specials, output.read_token_counts(), rare, tops),
    }


def _find_top_sources(output: Output, vocab_size: int) -> dict[int, TopSource]:
    """As find_top_sources, of all parts. Each file is in one of them."""
    tops: dict[int, TopSource] = {}
    for part in output.parts:
        for id, top in find_top_sources(part, vocab_size).items():
            tops[id] = min(tops.get(id, top), top, key=lambda one: (-one.times, one.uri))
    return tops


def _name_rows(tokenizer: Tokenizer, id: int) -> dict[str, Any]:
    token = tokenizer.token_bytes(id)
    return {"id": id, "token": spell_token(token), "bytes": token.hex()}


def _audit_written(
    tokenizer: Tokenizer,
    specials: Sequence[int],
    table: pa.Table,
    rare: int,
    tops: Mapping[int, TopSource] | None,
) -> dict[str, Any]:
    """The sections about how often ids were written. tops: of each id its top source, None if it was not asked for."""
    rows = {row["id"]: row for row in table.to_pylist()}
    every = sorted({*tokenizer.spec.model.ids.tolist(), *specials})
    if strangers := rows.keys() - set(every):
        raise FormatError(f"token counts: id {min(strangers)} is not one of the tokenizer's ids")
    if tops is not None:
        if tops.keys() != rows.keys():
            id = min(tops.keys() ^ rows.keys())
            raise FormatError(f"token counts: id {id} is in one of shards and table, not in the other")
        for id, row in rows.items():
            row |= {"top_source": tops[id].uri, "top_source_count": tops[id].times}
    by_count = sorted(rows.values(), key=lambda row: (-row["count"], row["id"]))
    frequent = [row for row in by_count if row["count"] > rare and row["id"] not in specials]

    def described(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**_name_rows(tokenizer, row["id"]), **row} for row in found]

    report: dict[str, Any] = {
        "never": [_name_rows(tokenizer, id) for id in every if id not in rows],
        "rare": described(
            sorted((row for row in by_count if row["count"] <= rare), key=lambda row: (row["count"], row["id"]))
        ),
        "mostly_one_document": described(
            row for row in frequent if _has_more(row["max_in_document"], row["count"], _DOCUMENT_SHARE)
        ),
    }
    if tops is not None:
        several = len({top.uri for top in tops.values()}) > 1  # of one file alone it says nothing
        one_source = [
            row for row in frequent if several and _has_more(row["top_source_count"], row["count"], _SOURCE_SHARE)
        ]
        by_source = Counter(row["top_source"] for row in one_source)
        report["mostly_one_source"] = described(one_source)
        report["mostly_one_source_by_source"] = dict(sorted(by_source.items(), key=lambda item: (-item[1], item[0])))
    return report


def _has_more(part: int, whole: int, share: tuple[int, int]) -> bool:
    return part * share[1] > whole * share[0]


def _audit_text(counted: CountedParts) -> dict[str, dict[str, Any]]:
    """Kind -> language -> occurrences in the counted text, pre-tokens that hold one, occurrences by character."""
    found: dict[str, dict[str, Any]] = {}
    for lang in dict.fromkeys(lang for lang, _ in counted.tables):
        occurrences: dict[str, Counter[int]] = {}
        pretokens: Counter[str] = Counter()
        for rows in counted.read_rows(lang):
            hits = find_invisible_characters(rows.keys)
            times = rows.counts[hits.texts].tolist()
            for kind, character, number in zip(hits.kinds.tolist(), hits.characters.tolist(), times, strict=True):
                occurrences.setdefault(CHARACTER_KINDS[kind], Counter())[character] += number
            for kind in np.unique(hits.kinds).tolist():
                pretokens[CHARACTER_KINDS[kind]] += len(np.unique(hits.texts[hits.kinds == kind]))
        for name, of_characters in occurrences.items():
            found.setdefault(name, {})[lang] = {
                "occurrences": of_characters.total(),
                "pretokens": pretokens[name],
                "characters": {f"U+{code:04X}": of_characters[code] for code in sorted(of_characters)},
            }
    return {name: found[name] for name in CHARACTER_KINDS if name in found}
