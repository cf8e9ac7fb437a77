"""The measures of a tokenizer, a row each, in the order of tables."""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    """A row of the table of tokenizers."""

    key: str  # of the figures of a tokenizer
    title: str  # at most 28 columns, beside which the figures of four tokenizers fit
    form: str = ".3f"
    is_of_text: bool = True  # whether it says more of text that was learned from than of other text


MEASURES = (
    Measure("bytes_per_token", "bytes per token"),
    Measure("bytes_per_token_mean", "the same, mean of languages"),
    Measure("premium_p90", "premium, 90th percentile", is_of_text=False),
    Measure("premium_median", "premium, median", is_of_text=False),
    Measure("gini", "Gini coefficient of tokens", is_of_text=False),
    Measure("renyi", "Rényi efficiency"),
    Measure("used_share", "ids used", ".1%"),
    Measure("retention", "words that are one token", ".1%"),
    Measure("retention_p10", "the same, 10th percentile", ".1%"),
    Measure("typos_kept", "tokens kept under a typo", ".1%"),
    Measure("typos_growth", "tokens under a typo, ratio"),
    Measure("digits_left", "numbers in threes from left", ".1%", is_of_text=False),
    Measure("digits_right", "numbers in threes from right", ".1%", is_of_text=False),
    Measure("digits_single", "numbers digit by digit", ".1%", is_of_text=False),
    Measure("identifiers", "identifiers cut into parts", ".1%"),
    Measure("operators_apart", "operators kept apart", ".1%"),
    Measure("operators_whole", "operators in one token", ".1%"),
    Measure("indentation", "tokens of an indentation"),
    Measure("residue_share", "merge residues", ".1%"),
    Measure("divergence", "divergence of languages"),
    Measure("shared_ids", "ids shared by two languages", ".1%"),
)
