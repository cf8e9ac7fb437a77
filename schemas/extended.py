"""learn.extend: a tokenizer whose ids all stay. What a build takes over from it, and what cannot be extended."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.tokenizers.foreign import read_tokenizer_file, tells_itself
from tokcore.models.bpe import require_bpe
from tokcore.models.extended_bpe import order_by_making
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_schemas.build_tables import BuildConfig, SpecialTable
from tokcore_schemas.config_checks import check_draws_of, check_dtype_of, take_over_roles


def read_extended(config: BuildConfig, read: Callable[[str], bytes]) -> BuildConfig:
    """The config with the tokenizer that learn.extend names, and with what follows from it; unchanged if it names none.

    read: gives the bytes of a path or URL. Raises ConfigError, naming the key, if there is no such tokenizer, if it is
    no byte-level BPE, if its tokens are not what merges make of their bytes, or if it has learn.vocab_size tokens.
    """
    if config.learn.extend is None or config.tokenizer is not None:
        return config
    key = f"{config.at('learn', 'extend')} = {config.learn.extend}"
    spec = _read_spec(config, read, key)
    try:
        order_by_making(require_bpe(spec.model, "learn.extend"))
    except (FormatError, ConfigError) as error:
        raise ConfigError(f"{key}: cannot be extended: {error}") from error
    num = len(spec.model.tokens) + len(spec.special)
    for size in config.vocab_sizes:
        if size <= num:
            raise ConfigError(
                f"{config.at('learn', 'vocab_size')} = {size}: the tokenizer that learn.extend names has {num} tokens, "
                f"special ones included. Write more than that."
            )
    return _take_over(config, spec)


def _take_over(config: BuildConfig, spec: TokenizerSpec) -> BuildConfig:
    pattern: dict[str, Any] = {"pattern": spec.pattern["name"]} if "name" in spec.pattern else dict(spec.pattern)
    config = dataclasses.replace(
        config,
        extended=spec,
        extends=spec.fingerprint,
        normalize=dataclasses.replace(config.normalize, steps=spec.normalizer),
        pretokenize=dataclasses.replace(config.pretokenize, **pattern),
        special=tuple(
            SpecialTable(text=token.text, role=cast("Any", token.role), id=token.id) for token in spec.special
        ),
    )
    config = take_over_roles(spec, config)
    there = [token.text for token in spec.special]
    for name in ("prepend", "append"):
        for text in getattr(config.encode, name):
            if text not in there:
                raise ConfigError(
                    f"{config.at('encode', name)}: {text!r} is not a special token of the tokenizer that learn.extend "
                    f"names; it has {', '.join(map(repr, there)) or 'none'}"
                )
    check_dtype_of(spec, config)
    check_draws_of(spec, config)
    return config


def _read_spec(config: BuildConfig, read: Callable[[str], bytes], key: str) -> TokenizerSpec:
    named = cast(str, config.learn.extend)
    place = named if "://" in named else posixpath.join(config.base, named)
    below = [posixpath.join(place, *names) for names in ((FILE_NAME,), ("tokenizer", FILE_NAME))]
    places = [place] if "://" not in place and Path(place).is_file() else [*below, place]
    for path in places:
        try:
            data = read(path)
        except (OSError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            continue
        if not tells_itself(data):
            raise ConfigError(f"{key}: {path} is no tokenizer file that says how text is split. Import it in a build.")
        try:
            return read_tokenizer_file(data, path)
        except FormatError as error:
            raise ConfigError(f"{key}: {error}") from error
    raise ConfigError(f"{key}: there is no tokenizer: {reason}. Name a {FILE_NAME}, or a build's output.")
