"""What a build would find at its end for lack of text, told from a sample: a vocabulary or a budget that is too large.

A finding stops a build only if the sample is the whole corpus, and nothing that it leaves open could change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tokcore.models import MODELS
from tokcore_pipelines.begin.estimate import Estimate
from tokcore_pipelines.build.learn_need import LearnNeed, check_learn_need
from tokcore_pipelines.build.samples import Finding
from tokcore_schemas.config import BuildConfig


def check_estimates(config: BuildConfig, told: Estimate, is_local: bool = True) -> list[Finding]:
    """The vocabulary, the budget of the mix and the tokens of the mixture that are more than the corpus gives.

    And the memory that is less than learning needs. is_local: whether it learns here, not on an engine's worker.
    """
    if config.tokenizer is not None:
        return []
    found = [*_check_vocabulary(config, told), *_check_budget(config, told), *_check_mixture(config, told)]
    return [*found, *check_learn_need(config, LearnNeed(told.learn_bytes, told.learn_most_bytes), is_local)]


def _check_vocabulary(config: BuildConfig, told: Estimate) -> Iterator[Finding]:
    size, most = max(config.vocab_sizes), told.vocab_most
    is_required = "vocab_size" in MODELS[config.learn.model].uses and not config.learn.allow_smaller
    if not is_required or not most or size <= most:
        return
    # Weights make some pairs frequent enough, and others too rare.
    strategy = config.mix.strategy
    is_one = strategy == "natural" or (strategy == "temperature" and told.languages == 1)
    is_plain = is_one and config.mix_levels is None
    stops = told.is_whole and (is_plain or size > told.vocab_bound)
    if told.is_whole:
        gives = f"the corpus gives, {'' if is_plain else 'about '}{most:,}"
    else:
        gives = f"the corpus seems to give: the sample gives {told.vocab_least:,}, and all of it fewer than {most:,}"
    text = f"{size:,} tokens are more than {gives}. Lower it, accept fewer (allow_smaller = true), or add text"
    yield Finding(config.at("learn", "vocab_size"), text, stops)


def _check_budget(config: BuildConfig, told: Estimate) -> Iterator[Finding]:
    mix = config.mix
    if mix.strategy != "unimax" or mix.budget is None or mix.max_epochs is None:
        return
    sizes = {"bytes": told.counted_bytes, "pretokens": told.pretokens, "documents": told.documents}
    most = int(mix.max_epochs * sizes[mix.unit])
    if most < mix.budget:
        text = (
            f"{mix.budget:,} {mix.unit} cannot be filled: all languages {mix.max_epochs} times over are "
            f"{'' if told.is_whole else 'about '}{most:,}. Lower it, or raise mix.max_epochs"
        )
        yield Finding(config.at("mix", "budget"), text, told.is_whole)


def _check_mixture(config: BuildConfig, told: Estimate) -> Iterator[Finding]:
    mixture = config.mixture
    if mixture.strategy is None or mixture.tokens is None or mixture.max_epochs is None:
        return
    # A token is a byte or more; only special tokens stand for no text.
    around = len(config.encode.prepend) + len(config.encode.append)
    most = int(mixture.max_epochs * Decimal(told.counted_bytes + around * told.documents))
    if most < mixture.tokens:
        text = (
            f"{mixture.tokens:,} cannot be reached: all documents {mixture.max_epochs} times over are "
            f"{'' if told.is_whole else 'about '}{most:,} bytes, and fewer tokens. Lower it, or raise "
            f"mixture.max_epochs"
        )
        yield Finding(config.at("mixture", "tokens"), text, told.is_whole)
