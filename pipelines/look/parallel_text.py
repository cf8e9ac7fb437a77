"""Premiums: what the same sentences cost in each language, from a folder with a file LANG.txt or LANG.txt.zst each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import zstandard

from tokcore.errors import ConfigError
from tokcore.evaluate.spread import summarize_premiums
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact

_SUFFIXES = (".txt", ".txt.zst")
_FIRST_CHOICES = ("en", "eng", "eng_Latn")  # of the reference, where the user names none
_MOST_BYTES = 1 << 30  # of one file, decompressed


def read_parallel_text(folder: str) -> dict[str, list[bytes]]:
    """Language -> its lines. Raises ConfigError, naming the file, unless all files have equally many lines."""
    found: dict[str, list[bytes]] = {}
    first = ""
    for name in sorted(storage.list_tree(folder)):
        suffix = next((suffix for suffix in reversed(_SUFFIXES) if name.endswith(suffix)), None)
        lang = name.removesuffix(suffix or "")
        if suffix is None or "/" in lang or not lang:
            continue
        if lang in found:
            raise ConfigError(f"--parallel {redact(folder)}: holds {lang} twice, as .txt and as .txt.zst: remove one")
        data = storage.read_bytes(urls.join(folder, name))
        if suffix.endswith("zst"):
            data = _decompress(data, f"--parallel {redact(folder)}: {name}")
        found[lang] = data.removesuffix(b"\n").split(b"\n")
        first = first or lang
        if len(found[lang]) != len(found[first]):
            raise ConfigError(
                f"--parallel {redact(folder)}: {name} has {len(found[lang])} lines, {first} has {len(found[first])}: "
                f"line N must be the same sentence in all files"
            )
    if len(found) < 2:
        raise ConfigError(
            f"--parallel {redact(folder)}: holds {len(found)} files LANG.txt or LANG.txt.zst, expected two or more"
        )
    return found


def _decompress(data: bytes, place: str) -> bytes:
    try:
        decompressed = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(_MOST_BYTES + 1)
    except zstandard.ZstdError as error:
        raise ConfigError(f"{place}: is no zstd file, or is damaged: {error}") from error
    if len(decompressed) > _MOST_BYTES:
        raise ConfigError(f"{place}: more than {_MOST_BYTES} bytes: take fewer sentences")
    return decompressed


def choose_reference(langs: Sequence[str], asked: str) -> str:
    """The language that the others are compared with. Raises ConfigError for one that is not there."""
    if asked and asked not in langs:
        more = f" and {len(langs) - 10} more" if len(langs) > 10 else ""
        raise ConfigError(f"--reference {asked}: the parallel text has {', '.join(langs[:10])}{more}")
    return asked or next((lang for lang in _FIRST_CHOICES if lang in langs), langs[0])


def compute_premiums(
    tokenizers: Mapping[str, Tokenizer], text: Mapping[str, list[bytes]], reference: str, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Tokens of all lines by tokenizer and language, premiums against the reference, and what sums them up."""
    tokens: dict[str, dict[str, int]] = {name: {} for name in tokenizers}
    languages = {}
    for lang, lines in text.items():
        size = sum(map(len, lines))
        languages[lang] = {"bytes": size, "characters": sum(len(line.decode("utf-8", "replace")) for line in lines)}
        for name, tokenizer in tokenizers.items():
            tokens[name][lang] = len(tokenizer.encode_strings(lines).ids)
        advance(size)
    return {
        "reference": reference,
        "lines": len(text[reference]),
        "languages": languages,
        "tokenizers": {name: {"tokens": of, **summarize_premiums(of, reference)} for name, of in tokens.items()},
    }
