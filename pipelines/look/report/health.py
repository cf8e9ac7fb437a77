"""The health of a vocabulary: the audit's lists, near-duplicates, and languages that fall back to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.look.report.vocabulary_facts import MOST_LISTED, find_near_duplicates

# The audit's lists that the report takes.
LISTS = ("never", "rare", "unreachable", "partial_utf8", "mostly_one_document", "mostly_one_source", "invisible_tokens")

# A language falls back to bytes where more than this share of its tokens are parts of characters.
FALLS_BACK = 0.05


def examine_health(
    output: Output, tokenizer: Tokenizer, written: Mapping[int, int], languages: Mapping[str, Any], own: str
) -> dict[str, Any]:
    """The lists, each with its number of tokens and its first rows.

    languages: of the comparison. own: the name of the tokenizer there.
    """
    report = audit(output, tokenizer, sources=True)
    shares = {lang: about["tokenizers"][own]["partial_share"] for lang, about in languages.items()}
    return {
        **{
            name: {"number": len(report[name]), "first": report[name][:MOST_LISTED]} for name in LISTS if name in report
        },
        "rare_at_most": report["rare_at_most"],
        "unused_ids": report["unused_ids"],
        "near_duplicates": find_near_duplicates(tokenizer, written),
        "partial_share": shares,
        "fall_back": [lang for lang, share in shares.items() if (share["value"] or 0) > FALLS_BACK],
        "invisible_in_text": report.get("invisible_in_text", {}),
        "missing": report["missing"],
    }
