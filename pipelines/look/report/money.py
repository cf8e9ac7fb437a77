"""What tokens cost: per million words, in contexts, in caches of keys and values, in embeddings, in bits per byte."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tokcore.errors import ConfigError
from tokcore.evaluate.spread import DIGITS
from tokcore_pipelines.look.report.shard_pass import CONTEXTS

_PERPLEXITIES = (2, 5, 10, 20, 50)
_BYTES_OF_A_VALUE = 2  # 16 bits
_WORDS = 1000  # of the text whose operations are counted


class ModelSize(NamedTuple):
    """A decoder: what decides its embeddings and its cache."""

    name: str
    layers: int
    width: int
    kv_heads: int
    head_size: int

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, of 16 bits each."""
        return 2 * self.layers * self.kv_heads * self.head_size * _BYTES_OF_A_VALUE

    def count_operations(self, tokens: float, vocab_size: int) -> dict[str, int]:
        """Multiply-adds of one pass over a text: in all layers, in attention, in the output layer.

        A layer has 12 width**2 parameters: four matrices for attention, and two of four times the width. Attention
        takes width multiply-adds for each pair of tokens twice, for scores and for sums.

        >>> parse_model_size("8B:32:4096:8:128").count_operations(1000, 100_000)
        {'layers': 6442450944000, 'attention': 262144000000, 'output': 409600000000}
        """
        return {
            "layers": round(12 * self.layers * self.width**2 * tokens),
            "attention": round(2 * self.layers * self.width * tokens**2),
            "output": round(self.width * vocab_size * tokens),
        }


MODEL_SIZES = (
    ModelSize("125M", 12, 768, 12, 64),
    ModelSize("1B", 16, 2048, 8, 64),
    ModelSize("8B", 32, 4096, 8, 128),
    ModelSize("70B", 80, 8192, 8, 128),
)


def parse_model_size(text: str) -> ModelSize:
    """The size that `NAME:LAYERS:WIDTH:KV_HEADS:HEAD_SIZE` says. Raises ConfigError for anything else.

    >>> parse_model_size("8B:32:4096:8:128").cache_bytes_per_token
    131072
    """
    name, *numbers = text.split(":")
    if not name or len(numbers) != 4 or not all(part.isdecimal() and 0 < int(part) < 10**9 for part in numbers):
        raise ConfigError(f"--model {text}: expected NAME:LAYERS:WIDTH:KV_HEADS:HEAD_SIZE, such as 8B:32:4096:8:128")
    return ModelSize(name, *map(int, numbers))


def tell_costs(
    comparison: Mapping[str, Any],
    vocab_sizes: Mapping[str, int],
    lengths: Mapping[str, tuple[int, int]],
    fits: Mapping[str, list[int]],
    models: Iterable[ModelSize],
    curve: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The section. lengths: language -> (documents, tokens) of the shards. vocab_sizes: tokenizer -> highest id + 1.

    The first of these is the build's own, and curve the tokens that its vocabulary gives at smaller sizes.
    """
    groups = {"all": comparison["all"], **comparison["languages"]}
    documents, tokens = (sum(column) for column in zip(*lengths.values(), strict=True)) if lengths else (0, 0)
    all_fits = [sum(column) for column in zip(*fits.values(), strict=True)] if fits else [0] * len(CONTEXTS)
    return {
        "tokens_per_million_words": {
            group: {name: _scale(row["tokens_per_word"], 10**6) for name, row in about["tokenizers"].items()}
            for group, about in groups.items()
        },
        "contexts": list(CONTEXTS),
        "documents": {
            "all": _tell_documents(documents, tokens, all_fits),
            **{lang: _tell_documents(*lengths[lang], fits[lang]) for lang in sorted(lengths)},
        },
        "words": _WORDS,
        "models": [_tell_model(model, comparison["all"]["tokenizers"], vocab_sizes, curve) for model in models],
        "bits_per_byte": {
            group: {name: _tell_bits(row["bytes_per_token"]["value"]) for name, row in about["tokenizers"].items()}
            for group, about in groups.items()
        },
        "perplexities": list(_PERPLEXITIES),
    }


def _tell_documents(documents: int, tokens: int, fit: list[int]) -> dict[str, Any]:
    return {
        "documents": documents,
        "mean_tokens": round(tokens / documents, DIGITS) if documents else None,
        "fit": fit,
        "per_context": [round(context * documents / tokens, DIGITS) if tokens else None for context in CONTEXTS],
    }


def _tell_model(
    model: ModelSize, rows: Mapping[str, Any], vocab_sizes: Mapping[str, int], curve: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a model of this size costs. rows: tokenizer -> its row of the comparison over all languages."""
    cache_bytes = model.cache_bytes_per_token
    per_word = {name: row["tokens_per_word"]["value"] for name, row in rows.items()}
    return {
        **model._asdict(),
        "cache_bytes_per_token": cache_bytes,
        "cache_bytes_of_contexts": [cache_bytes * context for context in CONTEXTS],
        "cache_bytes_per_million_words": {
            name: None if tokens is None else round(tokens * 10**6 * cache_bytes) for name, tokens in per_word.items()
        },
        "embedding_parameters": {name: size * model.width for name, size in vocab_sizes.items()},
        "operations": {
            name: None if tokens is None else model.count_operations(tokens * _WORDS, vocab_sizes[name])
            for name, tokens in per_word.items()
        },
        "cheapest_vocab_size": _find_cheapest(model, next(iter(per_word.values()), None), curve),
    }


def _find_cheapest(model: ModelSize, tokens_per_word: float | None, curve: Mapping[str, Any] | None) -> int | None:
    """Of the sizes of a vocabulary's curve, the one with the fewest operations; the smaller one of equal ones."""
    if curve is None or not tokens_per_word:
        return None
    tokens = [sum(column) for column in zip(*(one["tokens"] for one in curve["languages"].values()), strict=True)]
    if not tokens or not tokens[-1]:
        return None
    operations: dict[int, int] = {
        size: sum(model.count_operations(tokens_per_word * number / tokens[-1] * _WORDS, size).values())
        for size, number in zip(curve["sizes"], tokens, strict=True)
    }
    return min(operations, key=lambda size: (operations[size], size))


def _scale(estimate: Mapping[str, float | None], factor: int) -> dict[str, float | None]:
    return {name: None if value is None else round(value * factor, 1) for name, value in estimate.items()}


def _tell_bits(bytes_per_token: float | None) -> list[float] | None:
    """Bits per byte at each perplexity per token."""
    if not bytes_per_token:
        return None
    return [round(math.log2(perplexity) / bytes_per_token, DIGITS) for perplexity in _PERPLEXITIES]
