"""The build file to learn from an output again, as its manifests have it: `tokcore learn OUTPUT`.

Settings of counting stay. The others are those that the output's own tokenizer was learned with. If it was imported,
its model, size and special tokens are taken over, and the rest has the defaults of build files.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tokcore.errors import ConfigError
from tokcore.files.jsonable import to_jsonable
from tokcore.models import MODELS
from tokcore.models.model import describe_kind
from tokcore.text.normalize import name_space_step
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_schemas.build_tables import VERSION, BuildConfig
from tokcore_schemas.config import parse_config
from tokcore_schemas.levels import describe_levels
from tokcore_schemas.parallel import read_parallel
from tokcore_schemas.stage_manifests import PIECE_SETTINGS, CountsConfig, LearnedConfig, ParityMix, SpecialConfig
from tokcore_schemas.stage_table import COUNTS, TOKENIZER, WHOLE

_DECIMALS = ("character_coverage", "superset")
_TAKEN_OVER = (
    *("allow_smaller", "min_count", "min_documents", "max_token_bytes", "end_of_word", "layout", "max_length"),
    *_DECIMALS,
    *PIECE_SETTINGS,
)
_EXTEND = "learn.extend="
_NOT_KEPT = "(a folder that no manifest names)"  # mix.parallel, of which manifests have a hash
# A build file needs a source. These, by the names that were counted apart, are never read.
_SOURCE = {"files": "*.jsonl", "lang_field": "lang"}


def read_learn_config(output: str, assigned: Sequence[str] = ()) -> BuildConfig:
    """The build file with which a finished output, by its URL, is learned from. It has no sources.

    assigned: KEY=VALUE, each in place of what the manifests say. Raises ConfigError if there is no finished build, if
    it counted nothing, or if what it was learned with is not in its manifests.
    """
    build = require_manifest(output, WHOLE)
    counts = build.config.counts
    if counts is None:
        raise ConfigError(
            f"{redact(output)}: has no count tables, so nothing can be learned from it. Build an output that counts: "
            f"without [tokenizer]; or begin a watched one with --count."
        )
    learned = require_manifest(output, TOKENIZER).config
    spec = load_spec(output)
    tables = {"version": VERSION, "source": _list_sources(output, counts), **_describe_counting(counts)}
    if isinstance(learned, LearnedConfig):
        if learned.extends and not any(one.startswith(_EXTEND) for one in assigned):
            raise ConfigError(
                f"{redact(output)}: its tokenizer extends another one, and where that is was not kept. Name it: "
                f"--set {_EXTEND}URL; or learn with the build file."
            )
        tables |= _describe_learning(learned)
        if "split" in counts.apart_by:
            tables["count"]["splits"] = learned.splits or "all"
    else:
        tables |= _describe_imported(spec)
    # Weights name languages as the tables do.
    seed = {"seed": counts.seed} if counts.seed is not None else {}
    tables["build"] = {"output": output, "lang_normalize": "none", **seed}
    if counts.validation:
        tables["shards"] = {"validation": Decimal(counts.validation)}
    config = parse_config(tables, f"{output}/manifest.json", assigned)
    config = dataclasses.replace(config, counted_by=counts.apart_by)
    if config.chat_template == "" and config.learn.chat_template is None:
        config = dataclasses.replace(config, chat_template=spec.chat_template)
    if config.mix.parallel == _NOT_KEPT and isinstance(learned, LearnedConfig) and isinstance(learned.mix, ParityMix):
        config = dataclasses.replace(config, parallel_sha256=learned.mix.parallel_sha256)
    else:
        config = read_parallel(config, storage.read_bytes, storage.list_tree)
    if config.count_identity() != counts:
        raise ConfigError(
            f"{redact(output)}: was counted with settings that this command line does not have: leave [pretokenize], "
            f"[normalize] and [count] as they are, or learn with the build file."
        )
    return dataclasses.replace(config, sources=())


def _list_sources(output: str, counts: CountsConfig) -> list[dict[str, Any]]:
    if "source" not in counts.apart_by:
        return [_SOURCE]
    counted = require_manifest(output, COUNTS)
    names = sorted({one.source for of in counted.languages.values() for one in of.origins})
    return [{**_SOURCE, **({"name": name} if name else {})} for name in names] or [_SOURCE]


def _describe_counting(counts: CountsConfig) -> dict[str, Any]:
    """The tables that say how pre-tokens were counted."""
    steps, spaces = counts.normalize, {}
    for prefix, removes in itertools.product((True, False), repeat=2):
        if steps[-1:] == (name_space_step(prefix, removes),):  # which the model adds
            steps = steps[:-1]
            spaces = {"add_dummy_prefix": prefix, "remove_extra_whitespaces": removes}
    pattern = counts.pretokenize
    return {
        "normalize": {"steps": list(steps), **spaces},
        "pretokenize": {"pattern": pattern["name"]} if "name" in pattern else dict(pattern),
        "count": {
            "max_pretoken_bytes": counts.max_pretoken_bytes,
            "sample": Decimal(counts.sample),
            "mask": list(counts.mask),
        },
    }


def _describe_learning(learned: LearnedConfig) -> dict[str, Any]:
    """The tables with which the output's own tokenizer was learned."""
    found = {name: getattr(learned, name) for name in _TAKEN_OVER}
    # Every field: the JSON form leaves out a density of 0, for which the default would stand.
    fields = dataclasses.fields(learned.mix)
    mix: dict[str, Any] = {one.name: of for one in fields if (of := getattr(learned.mix, one.name)) is not None}
    mix |= {key: Decimal(mix[key]) for key in _MIX_DECIMALS if key in mix}
    if isinstance(learned.mix, ParityMix):
        mix["parallel"] = _NOT_KEPT
        del mix["parallel_sha256"]
    if "weights" in mix:
        mix["weights"] = {lang: Decimal(value) for lang, value in mix["weights"].items()}
    if mix.get("density_cap") == 0:  # which limits nothing where there is no density
        del mix["density_cap"]
    return {
        "learn": {
            "model": learned.model,
            "vocab_size": learned.vocab_size,
            **{
                name: Decimal(value) if name in _DECIMALS else to_jsonable(value)
                for name, value in found.items()
                if value not in (None, "", ())
            },
        },
        "special": _describe_special(learned.special),
        "mix": {**mix, **describe_levels(learned.levels)},
    }


_MIX_DECIMALS = ("alpha", "density", "density_cap", "max_epochs", "target_premium")


def _describe_imported(spec: TokenizerSpec) -> dict[str, Any]:
    """The tables that give a tokenizer of the same kind and size."""
    special = [SpecialConfig(token.text, token.role, None) for token in spec.special]
    model = next((name for name, one in MODELS.items() if spec.model.kind in one.kinds), None)
    if model is None:
        raise ConfigError(f"its tokenizer is {describe_kind(spec.model.kind)}, which is not learned: use a build file")
    return {"learn": {"model": model, "vocab_size": spec.vocab_size}, "special": _describe_special(special)}


def _describe_special(special: Sequence[SpecialConfig]) -> dict[str, Any]:
    return {one.text: {"role": one.role, **({"id": one.id} if one.id is not None else {})} for one in special}
