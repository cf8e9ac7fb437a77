"""Premiums: what the same sentences cost in each language, from a folder with a file LANG.txt or LANG.txt.zst each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokcore.errors import ConfigError
from tokcore.evaluate.spread import summarize_premiums
from tokcore.learn.parallel_text import FIRST_REFERENCES, parse_parallel_text
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact


def read_parallel_text(folder: str) -> dict[str, list[bytes]]:
    """Language -> its lines. Raises ConfigError, naming the file, unless all files have equally many lines."""
    place = f"--parallel {redact(folder)}"
    names = [*storage.list_tree(folder)]
    if not names:
        raise ConfigError(f"{place}: there is no such folder, or it is empty: expected files LANG.txt or LANG.txt.zst")
    return parse_parallel_text(names, lambda name: storage.read_bytes(urls.join(folder, name)), place)


def choose_reference(langs: Sequence[str], asked: str) -> str:
    """The language that the others are compared with. Raises ConfigError for one that is not there."""
    if asked and asked not in langs:
        more = f" and {len(langs) - 10} more" if len(langs) > 10 else ""
        raise ConfigError(f"--reference {asked}: the parallel text has {', '.join(langs[:10])}{more}")
    return asked or next((lang for lang in FIRST_REFERENCES if lang in langs), langs[0])


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
