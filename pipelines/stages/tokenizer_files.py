"""The files of a tokenizer: the one that a build imports, and those that every build writes. No Beam."""

from __future__ import annotations

import contextlib
import dataclasses

from pipelines.store import storage, urls
from pipelines.store.redaction import redact
from schemas.config import BuildConfig
from tokcore.errors import ConfigError, FormatError
from tokcore.formats import huggingface, tiktoken
from tokcore.formats.exports import EXPORTS
from tokcore.pretokenize import Pretokenizer
from tokcore.tokenizer_spec import FILE_NAME, SpecialToken, TokenizerSpec, assigned


def import_tokenizer(config: BuildConfig) -> TokenizerSpec:
    """The tokenizer that [tokenizer] names: tokcore.json, tokenizer.json or a tiktoken rank file, wherever it lies.

    A build's output, or its folder tokenizer, stands for its tokcore.json. Raises ConfigError if there is none, if it
    is none of them or if a rank file comes without its pattern.
    """
    assert config.tokenizer is not None
    named = urls.resolve(config.base, config.tokenizer.from_)
    places = [urls.join(named, *below, FILE_NAME) for below in ((), ("tokenizer",))]
    url = next(filter(storage.exists, places), named)
    name = redact(url)
    if not storage.exists(url):
        raise ConfigError(f"{config.at('tokenizer', 'from')}: there is no {name}: expected a file or a build's output.")
    data = storage.read_bytes(url)
    try:
        return _parsed(config, config.tokenizer.pattern, data, name)
    except FormatError as error:
        raise ConfigError(f"{config.at('tokenizer', 'from')}: {error}") from error


def _parsed(config: BuildConfig, pattern: str | None, data: bytes, name: str) -> TokenizerSpec:
    if not data.lstrip().startswith(b"{"):
        if pattern is None:
            raise ConfigError(
                f"{config.at('tokenizer', 'pattern')} is missing: a rank file does not say how text is split. "
                f'Add it, for example pattern = "cl100k".'
            )
        ranks = tiktoken.read_rank_file(data, name, Pretokenizer.of(pattern).spec)
        special = assigned(special_tokens(config), ranks.vocab_size)
        return dataclasses.replace(ranks, special=tuple(special))
    if pattern is not None:
        raise ConfigError(f"{config.at('tokenizer', 'pattern')} is for rank files: {name} brings its own. Remove it.")
    if b'"format":"tokcore-tokenizer"' in data:
        return TokenizerSpec.from_json_bytes(data, name)
    return huggingface.read_tokenizer_json(data, name)


def special_tokens(config: BuildConfig) -> list[SpecialToken]:
    """The special tokens that the build file declares, pinned ones with their ids."""
    return [SpecialToken(token.text, token.id, token.role) for token in config.special]


def artifact_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of tokcore.json, the identity, and of the same tokenizer in the formats of the field.

    A format that cannot hold it is left out: a rank file knows no normalizer, for example.
    """
    files = [(FILE_NAME, spec.to_json_bytes())]
    for export in EXPORTS.values():
        with contextlib.suppress(FormatError):
            files.extend(export.files(spec))
    return files
