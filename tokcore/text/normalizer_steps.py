"""Normalizers of tokenizer.json that have settings, as steps of tokcore.text.normalize: each is named by its JSON.

STEPS has a row for each kind. What they do was compared with tokenizers 0.23.3 for every code point. Kinds without
settings have names of their own in tokcore.text.normalize. Leaves to others: whole files
(tokcore.formats.tokenizers.huggingface).
"""

from __future__ import annotations

import binascii
import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tokcore import kernel
from tokcore.errors import ConfigError, FormatError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.text.engine_tables import STRIPPED
from tokcore.text.regex_spelling import translate
from tokcore.text.regex_split import SECONDS_PER_TEXT, compile_pattern
from tokcore.text.sentencepiece_tables import check_charsmap
from tokcore.text.text_steps import TextStep
from tokcore.text.texts import make_texts_from_strings
from tokcore.text.unicode import find_ranges, unpack_ranges

Apply = Callable[[str], str]


class Kind(NamedTuple):
    """A kind of step. fields: name -> default, whose type a value must have; None where a pattern must be given."""

    fields: Mapping[str, Any]
    make: Callable[[Mapping[str, Any]], Apply]


# What Nmt removes, and what it makes a blank.
_REMOVED = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]")
_BLANKS = re.compile("[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]")


def _make_replace(step: Mapping[str, Any]) -> Apply:
    pattern, content = step["pattern"], step["content"]
    if "String" in pattern:
        return lambda text: text.replace(pattern["String"], content)
    compiled = compile_pattern(translate(pattern["Regex"], "oniguruma", "regex"))

    def replace(text: str) -> str:
        try:
            return str(compiled.sub(lambda _: content, text, timeout=SECONDS_PER_TEXT))
        except TimeoutError as error:
            raise StageError(
                f"the normalizer Replace of {pattern['Regex']!r:.200} took more than {SECONDS_PER_TEXT:g} s on a "
                f"text of {len(text)} characters"
            ) from error

    return replace


def _make_strip(step: Mapping[str, Any]) -> Apply:
    white = "".join(map(chr, (c for first, last in find_ranges("White_Space") for c in range(first, last + 1))))
    left, right = step["strip_left"], step["strip_right"]
    if left and right:
        return lambda text: text.strip(white)
    return (lambda text: text.lstrip(white)) if left else (lambda text: text.rstrip(white) if right else text)


def _make_strip_accents(_step: Mapping[str, Any]) -> Apply:
    spelled = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in unpack_ranges(STRIPPED))
    compiled = re.compile(f"[{spelled}]+")
    return lambda text: compiled.sub("", text)


def _make_precompiled(step: Mapping[str, Any]) -> Apply:
    charsmap = read_charsmap(step["precompiled_charsmap"])
    if not charsmap:
        return lambda text: text

    def replace(text: str) -> str:
        data = text.encode("utf-8", "surrogateescape")
        encoder = _make_charsmap_encoder(charsmap, kernel.get_implementation())
        return encoder.normalize(make_texts_from_strings([data])).text(0).decode("utf-8", "surrogateescape")

    return replace


def read_charsmap(value: Any) -> bytes:
    """A precompiled_charsmap. Raises ConfigError for what is damaged."""
    place = "normalizer.precompiled_charsmap"
    if value is None or value == "":
        return b""
    try:
        charsmap = binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{place} is not base64: {value!r:.80}") from error
    try:
        check_charsmap(charsmap, place)
        _make_charsmap_encoder(charsmap, kernel.get_implementation())
    except FormatError as error:
        raise ConfigError(str(error)) from error
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from error
    return charsmap


@functools.lru_cache(maxsize=16)
def _make_charsmap_encoder(charsmap: bytes, _chosen: str) -> kernel.ConvertedEncoder:
    """An encoder without pieces, for its normalizer. _chosen: the kernel's implementation, which each has its own."""
    none, nothing = np.zeros(0, np.int32), make_texts_from_strings([])
    steps = [TextStep("charsmap", "", charsmap)]
    return kernel.ConvertedEncoder(nothing, none, None, np.zeros((0, 3), np.uint32), 0, none, steps, False, 0)


STEPS: Mapping[str, Kind] = {
    "Replace": Kind({"pattern": None, "content": ""}, _make_replace),
    "Prepend": Kind({"prepend": ""}, lambda step: lambda text: step["prepend"] + text if text else text),
    "Strip": Kind({"strip_left": True, "strip_right": True}, _make_strip),
    "Nmt": Kind({}, lambda _: lambda text: _BLANKS.sub(" ", _REMOVED.sub("", text))),
    "StripAccents": Kind({}, _make_strip_accents),
    "Precompiled": Kind({"precompiled_charsmap": ""}, _make_precompiled),
}


def spell_step(value: Mapping[str, Any]) -> str:
    """A normalizer of tokenizer.json as the name of a step: canonical JSON of what decides about text.

    Raises ConfigError, naming the field, for what we cannot follow exactly.

    >>> spell_step({"type": "Prepend", "prepend": "_"})
    '{"prepend":"_","type":"Prepend"}'
    """
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in STEPS:
        raise ConfigError(f"normalizer {kind!r:.80} is not supported: only {', '.join(STEPS)}")
    step: dict[str, Any] = {"type": kind}
    for field, default in STEPS[kind].fields.items():
        found = value.get(field, default)
        if default is None:
            text = next(iter(found.values()), None) if isinstance(found, dict) and len(found) == 1 else None
            if not isinstance(text, str) or not text or not found.keys() <= {"String", "Regex"}:
                raise ConfigError(f"normalizer {kind} has {field} = {found!r:.80}: expected a Regex or a String")
            if "Regex" in found:
                translate(found["Regex"], "oniguruma", "regex")
        elif kind == "Precompiled":
            read_charsmap(found)
            found = found or ""
        elif type(found) is not type(default):
            raise ConfigError(f"normalizer {kind} has {field} = {found!r:.80}: expected a {type(default).__name__}")
        step[field] = found
    return write_canonical_json(step).decode().rstrip()


@functools.lru_cache(maxsize=64)
def make_step(name: str) -> Apply:
    """What a step does to a text. name: as spell_step gives it. Raises ConfigError for anything else.

    >>> make_step('{"content":"-","pattern":{"Regex":"\\\\\\\\s+"},"type":"Replace"}')("a  b")
    'a-b'
    """
    try:
        value = json.loads(name)
    except ValueError as error:
        raise ConfigError(f"the normalizer step {name!r:.80} is not JSON: {error}") from error
    if not isinstance(value, dict) or spell_step(value) != name:
        raise ConfigError(f"the normalizer step {name!r:.80} is not in its canonical form")
    return STEPS[value["type"]].make(value)
