"""Hugging Face's tokenizer.json, for BPE of bytes and of other symbols (symbol_bpe_json), WordPiece (whose parts are in
wordpiece_json), words and characters (word_level_json), and what was made from SentencePiece models (converted_json).

What we cannot represent exactly is refused by name, never approximated. What a post_processor puts around a text
becomes the role of these tokens, and it is written again as it was, as is the decoder. Not kept: truncation, padding.
Their readers and ours differ in one habit: theirs turns spelled special tokens into ids unless told not to, ours only
if allowed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from operator import add, itemgetter, lt
from typing import Any, cast

import numpy as np
import orjson

from tokcore.errors import ConfigError, FormatError
from tokcore.files.garbage import no_collection
from tokcore.formats.tokenizers.byte_unigram_json import (
    is_byte_unigram,
    make_byte_unigram_model,
    read_byte_unigram_model,
)
from tokcore.formats.tokenizers.converted_json import (
    is_converted,
    list_parts,
    list_shared,
    make_converted_parts,
    read_converted,
    split_normalizers,
)
from tokcore.formats.tokenizers.converted_pieces import convert_pieces
from tokcore.formats.tokenizers.gpt2 import make_vocabulary, spell_merges, spell_tokens
from tokcore.formats.tokenizers.json_floats import parse_float
from tokcore.formats.tokenizers.long_lists import LongLists, NeedsParserError, split_long_lists
from tokcore.formats.tokenizers.symbol_bpe_json import make_symbol_bpe_parts, read_symbol_bpe
from tokcore.formats.tokenizers.word_level_json import (
    is_split_into_characters,
    make_word_level_parts,
    read_word_level_model,
)
from tokcore.formats.tokenizers.wordpiece_json import (
    NORMALIZERS,
    make_wordpiece_parts,
    read_bert_steps,
    read_wordpiece_model,
    read_wordpiece_pattern,
)
from tokcore.models import find_own_form
from tokcore.models.bpe import MergesModel, is_bpe
from tokcore.models.model import ID_LIMIT, Ids, Model
from tokcore.models.sentencepiece.converted import is_converted_model, require_converted
from tokcore.models.sentencepiece.scored_pieces import is_piece_model
from tokcore.models.symbol_bpe import find_symbol_bpe
from tokcore.models.unigram.byte_unigram import find_byte_unigram
from tokcore.models.word import is_word_level
from tokcore.text.byte_alphabet import from_printable, from_printable_tokens
from tokcore.text.engine_tables import SCRIPTS
from tokcore.text.normalize import REMOVED, Normalizer
from tokcore.text.normalizer_steps import STEPS as NORMALIZER_STEPS
from tokcore.text.normalizer_steps import spell_step
from tokcore.text.patterns import PATTERNS, find_named_pattern
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_spelling import spell as write_regex
from tokcore.text.regex_spelling import translate
from tokcore.text.regex_tree import parse
from tokcore.text.split_steps import StepList, write_steps
from tokcore.tokenizer.special_text import AddedTokens
from tokcore.tokenizer.tokenizer_spec import PLAIN, SpecialToken, TokenizerSpec

OURS = "tokcore"  # the key of what we add to their format

_FORMS = {"NFC": "nfc", "NFD": "nfd", "NFKC": "nfkc", "NFKD": "nfkd"}


def write_tokenizer_json(spec: TokenizerSpec, *, as_before: bool = False) -> bytes:
    """The tokenizer.json with which Hugging Face's tokenizers give the same ids.

    as_before: as releases until 2026-11-27 wrote it, with a split pattern that may mean other things there.
    Raises FormatError for what it cannot hold: a special token with the name of an ordinary one, a model whose ids no
    merges give, a split pattern that its readers' engine cannot be told.
    """
    _check_special_names(spec)
    parts = _make_parts(spec, spell_as_before if as_before else spell_pattern)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_make_added_token(token) for token in spec.special],
        "normalizer": parts.get("normalizer", _make_normalizer(spec.normalizer)),
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": _parse_kept(spec.post_processor, "post_processor"),
        "decoder": _make_whole_decoder(spec, parts["decoder"]),
        "model": parts["model"],
    }
    return format_indented(content)


def _make_parts(spec: TokenizerSpec, spell: Callable[[Mapping[str, str]], str]) -> dict[str, Any]:
    if is_converted_model(spec.model):
        parts = make_converted_parts(spec, require_converted(spec.model))
        return parts | {"normalizer": _join_normalizers(_make_normalizer(spec.normalizer), parts["normalizer"])}
    if is_piece_model(spec.model):
        if spec.normalizer:
            raise FormatError(
                f"the normalizer {', '.join(spec.normalizer)} comes before SentencePiece's own: tokenizer.json has no "
                f"place for both"
            )
        return make_converted_parts(spec, convert_pieces(spec.model))
    if (symbols := find_symbol_bpe(spec.model)) is not None:
        of_symbols = make_symbol_bpe_parts(spec, symbols, as_before=spell is spell_as_before)
        return {"pre_tokenizer": _make_pretokenizer(spec, spell), **of_symbols}
    if is_word_level(spec.model):
        return make_word_level_parts(spec, spell)
    if spec.model.unknown is not None:
        return make_wordpiece_parts(spec)
    unigram = find_byte_unigram(spec.model)
    model = _make_model(spec) if unigram is None else make_byte_unigram_model(spec, unigram)
    return {"pre_tokenizer": _make_pretokenizer(spec, spell), "decoder": _make_decoder(), "model": model}


def _parse_kept(kept: str, part: str) -> Any:
    """A part of the file that the tokenizer was imported from, as it came."""
    try:
        return orjson.loads(kept) if kept else None
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{part}: not JSON: {error}") from error


def _make_whole_decoder(spec: TokenizerSpec, usual: dict[str, Any]) -> dict[str, Any] | None:
    """The decoder as it was imported, or else the usual one of the model; beside it what the file has no place for."""
    decoder = _parse_kept(spec.decoder, "decoder") if spec.decoder else usual
    return {**decoder, OURS: _make_ours(spec)} if isinstance(decoder, dict) else None


def _check_special_names(spec: TokenizerSpec) -> None:
    taken = set(spell_tokens(spec))
    for token in spec.special:
        if token.text in taken and token.id not in spec.shared_ids:
            raise FormatError(
                f"special token {token.text!r} has the name that tokenizer.json gives to the ordinary token "
                f"{from_printable(token.text)!r}"
            )


def _make_added_token(token: SpecialToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "content": token.text,
        "single_word": token.single_word,
        "lstrip": token.lstrip,
        "rstrip": token.rstrip,
        "normalized": token.normalized,
        "special": token.is_special,
    }


def _make_pretokenizer(spec: TokenizerSpec, spell: Callable[[Mapping[str, str]], str]) -> dict[str, Any] | None:
    if (steps := Pretokenizer.from_spec(spec.pattern).steps) is not None:
        return write_steps(steps)
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    text = spell(spec.pattern)
    if spell is spell_pattern:
        # As GPT-2's and GPT-4's own files have them: several readers know a split pattern by its text alone.
        if spec.pattern == {"name": "gpt2"}:
            return bytes_alone | {"use_regex": True}
        if spec.pattern == {"name": "cl100k"} and _ends_lines(spec.model):
            text = PATTERNS[_CL100K_IN_FILES]
    split = {"type": "Split", "pattern": {"Regex": text}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, bytes_alone]}


# At the end of a text, it cuts white space behind the last line break. That is all in which it differs from cl100k.
_CL100K_IN_FILES = "cl100k-2023"
_ENDS_IN_LINE = re.compile(rb"[\r\n][\t\v\f \xc2\xe1-\xe3][^\r\n]*\Z")  # with other white space, or its first byte


def _ends_lines(model: Model) -> bool:
    """Whether the last white space of a text has the same ids if it is cut behind its last line break: by a BPE of
    which no token, so no merge, crosses that place.
    """
    return is_bpe(model) and not model.whole and not any(map(_ENDS_IN_LINE.search, model.tokens))


def _make_model(spec: TokenizerSpec) -> dict[str, Any]:
    """Raises FormatError for a model whose ids no merges give."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": spec.model.as_bpe().whole,
        # Special tokens stand here too: an added token that is not in it would get the next free id, not its own.
        "vocab": make_vocabulary(spec),
        "merges": spell_merges(spec),
    }


def _make_decoder() -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def _make_ours(spec: TokenizerSpec) -> dict[str, Any]:
    """What the file has no place for. It stands in the decoder: of all parts, readers let only that one say more."""
    roles = {token.text: token.role for token in spec.special if token.role != PLAIN}
    return {"pattern": dict(spec.pattern), "roles": roles}


def format_indented(content: dict[str, Any]) -> bytes:
    """What json.dumps(content, ensure_ascii=False, indent=1) gives, and a line feed, ten times as fast."""
    data = orjson.dumps(content, option=orjson.OPT_INDENT_2)
    # Strings hold neither line feeds nor tabs as such, so that every line begins with its indentation.
    too_deep = next(depth for depth in count(1) if b"\n" + b"  " * depth not in data)
    for depth in range(too_deep - 1, 0, -1):
        data = data.replace(b"\n" + b"  " * depth, b"\n" + b"\t" * depth)
    return data.replace(b"\t", b" ") + b"\n"


@no_collection()
def read_tokenizer_json(data: bytes, name: str, *, as_before: bool = False) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json; name is the file's, for errors.

    Every added token becomes a special token; one that the file does not call special is what text that spells it
    always becomes. Its role is the one that our export gave it, or follows from the side of a text that post_processor
    puts it on; else it is "plain". as_before: a split pattern is taken as it is, as by releases until 2026-11-27.
    Raises FormatError, naming the part, for anything that we cannot follow exactly.
    """
    if (spec := read_usual_json(data, name, as_before)) is not None:
        return spec
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{name}: not JSON: {error}") from error
    return read_tokenizer_content(content, data, name, as_before)


def read_usual_json(data: bytes, name: str, as_before: bool) -> TokenizerSpec | None:
    """What read_tokenizer_json gives of nearly every byte-level BPE, several times as fast; None of any other file.

    None says nothing of the file: it may be right or wrong.
    """
    content = split_long_lists(data)
    if content is None or content["model"].get("type", "BPE") != "BPE":
        return None
    try:
        return read_tokenizer_content(content, data, name, as_before)
    except (FormatError, NeedsParserError):
        return None


def read_tokenizer_content(content: Any, data: bytes, name: str, as_before: bool) -> TokenizerSpec:
    """read_tokenizer_json of a file whose JSON is content."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise FormatError(f"{name}: not a tokenizer.json: it has no model")
    try:
        post_processor = content.get("post_processor")
        if content["model"].get("type") == "Unigram":
            content = json.loads(data, parse_float=parse_float)
        spec = _read_spec(content, as_before)
        AddedTokens(spec.special, Normalizer(spec.normalizer))  # checks their normalized forms
        if content["model"].get("dropout"):
            warnings.warn(
                f"{name}: model.dropout = {content['model']['dropout']}: ids are those without it; to draw them, set "
                f"dropout where you encode",
                stacklevel=2,
            )
        return dataclasses.replace(
            spec, post_processor=_keep(post_processor), decoder=_keep(_read_decoder(content.get("decoder"))) or "null"
        )
    except (FormatError, ConfigError) as error:
        raise FormatError(f"{name}: {error}") from error
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        # Lists, objects, strings and numbers in each other's places.
        raise FormatError(f"{name}: a part is not of the type that a tokenizer.json has there: {error!r}") from error


def _keep(part: Any) -> str:
    return "" if part is None else orjson.dumps(part).decode()


def _read_decoder(decoder: Any) -> dict[str, Any] | None:
    """The decoder without what our export says in it."""
    if decoder is None:
        return None
    _find_kind(decoder, "decoder")
    return {name: value for name, value in decoder.items() if name != OURS}


def _read_spec(content: Any, as_before: bool) -> TokenizerSpec:
    """The tokenizer, but for its decoder, and what its post_processor is beyond the roles of tokens."""
    content = _move_byte_level(content)
    try:
        return _read_usual_spec(content, as_before)
    except (ConfigError, FormatError) as usual:
        if content["model"].get("type", "BPE") != "BPE":
            raise
        if (pattern := _read_ours(content.get("decoder")).get("pattern")) is not None:
            Pretokenizer.from_spec(pattern)  # what we wrote, and is damaged, is refused as it is
        # What is no BPE of the 256 bytes, and is not made from a SentencePiece model, may still be one of symbols.
        try:
            return _read_symbol_spec(content)
        except (ConfigError, FormatError) as error:
            raise (usual if _is_usual(content) else error) from None


def _is_usual(content: Any) -> bool:
    """Whether a BPE is of bytes or made from a SentencePiece model, so that what is wrong is what it lacks for that."""
    kinds = [step.get("type") for step in list_parts(content.get("pre_tokenizer"), "pretokenizers")]
    has_affix = any(content["model"].get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix"))
    return not has_affix and ("ByteLevel" in kinds or is_converted(content))


def _move_byte_level(content: Any) -> Any:
    """The same with a last normalizer ByteLevel as the first step of the pre-tokenizer, which comes to the same."""
    value = content.get("normalizer")
    parts = value.get("normalizers", []) if isinstance(value, dict) and value.get("type") == "Sequence" else [value]
    if not parts or not isinstance(parts[-1], dict) or parts[-1].get("type") != "ByteLevel":
        return content
    for token in content.get("added_tokens") or []:
        if token.get("normalized") and any(token.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            raise FormatError(
                f"added token {token.get('content')!r:.80} is looked for behind the normalizer ByteLevel, with what is "
                f"around it, which are names of bytes there: set normalized to false"
            )
    steps = content.get("pre_tokenizer")
    names_bytes = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return content | {
        "normalizer": {"type": "Sequence", "normalizers": parts[:-1]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [names_bytes, *([steps] if steps else [])]},
    }


def _read_symbol_spec(content: Any) -> TokenizerSpec:
    """The tokenizer of a BPE of any symbols."""
    normalizer = _read_normalizer(content.get("normalizer"))
    listed = StepList(content.get("pre_tokenizer") or [])
    special = _read_added_tokens(content.get("added_tokens") or [], has_normalizer=bool(normalizer))
    ours = _read_ours(content.get("decoder"))
    special = _add_roles(special, ours.get("roles", {}), content.get("post_processor"))
    model, special = read_symbol_bpe(content["model"], special, bytewise=listed.is_bytewise)
    spec = TokenizerSpec(tuple(normalizer), {"steps": listed.text}, model, tuple(special))
    if "pattern" in ours:  # of a vocabulary that we learned, with ends of words
        own = dataclasses.replace(spec, pattern=ours["pattern"])
        if _make_pretokenizer(own, spell_pattern) == content.get("pre_tokenizer"):
            return own
    return spec


def _read_usual_spec(content: Any, as_before: bool) -> TokenizerSpec:
    if is_converted(content) and not is_byte_unigram(content):
        first, steps = split_normalizers(content)
        normalizer = [step for part in first for step in _read_normalizer(part)]
        tokens = _read_added_tokens(content.get("added_tokens") or [], has_normalizer=bool(normalizer))
        roles = _read_ours(content.get("decoder")).get("roles", {})
        special = _add_roles(tokens, roles, content.get("post_processor"))
        spec = read_converted(content, steps, special, has_normalizer=bool(normalizer))
        return dataclasses.replace(spec, normalizer=tuple(normalizer))
    normalizer = _read_normalizer(content.get("normalizer"))
    ours = _read_ours(content.get("decoder"))
    kind = content["model"].get("type")
    splits = (content.get("pre_tokenizer"), ours.get("pattern"))
    if kind == "WordPiece":
        pattern = read_wordpiece_pattern(*splits)
    else:
        pattern = (_read_word_pattern if kind == "WordLevel" else _read_pattern)(*splits, as_before)
    special = _read_added_tokens(content.get("added_tokens") or [], has_normalizer=bool(normalizer))
    special = _add_roles(special, ours.get("roles", {}), content.get("post_processor"))
    if kind == "WordPiece":
        wordpiece, special = read_wordpiece_model(content["model"], special)
        return TokenizerSpec(tuple(normalizer), pattern, wordpiece, tuple(special))
    if kind == "WordLevel":
        return TokenizerSpec(tuple(normalizer), pattern, read_word_level_model(content, special), tuple(special))
    if is_byte_unigram(content):
        unigram = read_byte_unigram_model(content["model"], special)
        return TokenizerSpec(tuple(normalizer), pattern, unigram, tuple(special))
    texts = {token.text for token in special}
    always = {token.text for token in special if not token.is_special}
    texts -= {text for text in always if len(text) == 1}  # a byte, which each text may need
    if not isinstance(content["model"].get("vocab"), LongLists):  # which take no merge of a token that is left out
        texts -= list_shared(content["model"], [*always])
    model = find_own_form(read_bpe_model(content["model"], texts))
    return TokenizerSpec(tuple(normalizer), pattern, model, tuple(special))


def spell_as_before(pattern: Mapping[str, str]) -> str:
    """The split pattern as releases until 2026-11-27 wrote it."""
    return expand_possessive_intervals(Pretokenizer.from_spec(pattern).published_text)


def spell_pattern(pattern: Mapping[str, str]) -> str:
    """The split pattern (Pretokenizer.spec) as Oniguruma, the engine of tokenizers, has to be told it.

    Published patterns keep the text that readers know. Raises FormatError, naming the part, for what it cannot be told.
    """
    own = Pretokenizer.from_spec(pattern)
    text = expand_possessive_intervals(own.published_text)
    if own.native_name is not None:
        return text
    try:
        tree = parse(own.published_text, "regex")
        with contextlib.suppress(ConfigError):
            if parse(text, "oniguruma") == tree:
                return text
        return write_regex(tree)
    except ConfigError as error:
        raise FormatError(f"tokenizer.json cannot hold the split pattern: {error}") from error


def expand_possessive_intervals(pattern: str) -> str:
    r"""The same regular expression without `{m,n}+`, which Oniguruma reads as a repeated group: X{m,n}+ is (?>X{m,n}).

    >>> expand_possessive_intervals(r"\p{N}{1,3}+|(?:ab|[c+]){2}+x")
    '(?>\\p{N}{1,3})|(?>(?:ab|[c+]){2})x'
    """
    plain = _POSSESSIVE_INTERVAL.sub(r"{\1}", pattern)
    if find_named_pattern(plain) is not None:
        return plain  # a published spelling, which readers know
    out: list[str] = []  # one entry for each item so far, quantifiers joined to what they repeat
    groups: list[int] = []  # where in out the open groups begin
    for token in _REGEX_TOKEN.finditer(pattern):
        text = token.group()
        if token["interval"] and out:
            item = out.pop()
            out.append(f"(?>{item}{text[:-1]})" if text.endswith("+") else item + text)
        elif token["quantifier"] and out:
            out[-1] += text
        elif text == ")" and groups:
            begin = groups.pop()
            out[begin:] = ["".join(out[begin:]) + text]
        else:
            if token["group"]:
                groups.append(len(out))
            out.append(text)
    return "".join(out)


_POSSESSIVE_INTERVAL = re.compile(r"(?<!\\)\{(\d+,?\d*|,\d+)\}\+")
_REGEX_TOKEN = re.compile(
    r"""
      (?P<interval>\{(?:\d+,?\d*|,\d+)\}[+?]?)
    | (?P<quantifier>[*+?][+?]?)
    | (?P<group>\((?:\?(?:[:=!>|]|<[=!]|P?<\w+>|[a-zA-Z-]*:))?)
    | \\[pP]\{[^}]*\} | \\x\{[^}]*\} | \\.
    | \[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def _make_normalizer(steps: Sequence[str]) -> dict[str, Any] | None:
    names: dict[str, dict[str, Any]] = {ours: {"type": theirs} for theirs, ours in _FORMS.items()}
    names["lowercase"] = {"type": "Lowercase"}
    names |= NORMALIZERS
    # By the pinned tables, not by their StripAccents, whose Unicode version is another.
    names |= {
        step: {"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}
        for step, pattern in _make_removing_patterns().items()
    }
    made = [json.loads(step) if step.startswith("{") else names[step] for step in steps]
    if len(made) == 1:
        return made[0]
    return {"type": "Sequence", "normalizers": made} if made else None


@functools.cache
def _make_removing_patterns() -> dict[str, str]:
    """Step -> the character class, in their regex engine's spelling, of what it removes."""
    return {
        step: "[" + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in ranges()) + "]"
        for step, ranges in REMOVED.items()
    }


def _join_normalizers(*parts: dict[str, Any] | None) -> dict[str, Any] | None:
    listed = [one for part in parts if part for one in (part["normalizers"] if part["type"] == "Sequence" else [part])]
    return {"type": "Sequence", "normalizers": listed} if listed else None


def _read_normalizer(value: Any) -> list[str]:
    if value is None:
        return []
    kind = _find_kind(value, "normalizer")
    if kind == "Sequence":
        return [step for one in value.get("normalizers", []) for step in _read_normalizer(one)]
    if kind in _FORMS:
        return [_FORMS[kind]]
    if kind == "Lowercase":
        return ["lowercase"]
    if kind == "BertNormalizer":
        return read_bert_steps(value)
    if kind == "Replace" and value.get("content") == "":
        pattern = value.get("pattern")
        for step, own in _make_removing_patterns().items():
            if pattern == {"Regex": own}:
                return [step]
    if kind in NORMALIZER_STEPS:
        return [spell_step(value)]
    known = ", ".join((*_FORMS, "Lowercase", "BertNormalizer", *NORMALIZER_STEPS))
    raise FormatError(f"normalizer {kind} is not supported: only {known} and sequences of them")


def _read_ours(decoder: Any) -> dict[str, Any]:
    """What our export says beyond their format; empty of other files."""
    ours = decoder.get(OURS) if isinstance(decoder, dict) else None
    return ours if isinstance(ours, dict) else {}


def _read_pattern(value: Any, ours: Any, as_before: bool) -> dict[str, str]:
    """Pretokenizer.spec of a pre_tokenizer. ours: the one that our export names, if it is one."""
    if (
        isinstance(ours, dict)
        and "steps" in ours
        and (own := StepList(value)).is_bytewise
        and own.text == ours["steps"]
    ):
        return {"steps": ours["steps"]}
    steps = value.get("pretokenizers", []) if _find_kind(value, "pre_tokenizer") == "Sequence" else [value]
    kinds = [_find_kind(step, "pre_tokenizer") for step in steps]
    if kinds in (["ByteLevel"], ["Split", "ByteLevel"]):
        byte_level = steps[-1]
        splits_once = byte_level.get("use_regex", True) == (len(steps) == 1)
        if splits_once and not byte_level.get("add_prefix_space", True) and not _is_engines_own(steps[0]):
            if len(steps) == 1:
                return {"name": "gpt2"}
            if _is_one_pattern(steps[0]):
                return _read_split(steps[0], ours, as_before)
    listed = StepList(value)
    if not listed.is_bytewise:
        raise FormatError(
            f"pre_tokenizer {' + '.join(kinds) or 'of no steps'} of a vocabulary of bytes has no ByteLevel"
        )
    return {"steps": listed.text}


def _is_engines_own(split: Mapping[str, Any]) -> bool:
    """Whether a Split has what only their engine knows, so that it stays a step."""
    pattern = split.get("pattern")
    text = str(pattern.get("Regex", "")) if isinstance(pattern, dict) else ""
    return find_named_pattern(text) is None and _ENGINES_OWN.search(text) is not None


_ENGINES_OWN = re.compile(r"\\[wW]|&&|\[\^?[^\]]*\[\^|\\[pP]\{\^?(?:" + "|".join(SCRIPTS) + r")\}")


def _is_one_pattern(split: Mapping[str, Any]) -> bool:
    """Whether a Split keeps all text, so that its pattern says all of it."""
    behavior = (split.get("behavior"), split.get("invert", False))
    pattern = split.get("pattern")
    named = isinstance(pattern, dict) and find_named_pattern(str(pattern.get("Regex")))
    return behavior == ("Isolated", False) or (behavior == ("Removed", True) and bool(named))


def _read_split(split: Mapping[str, Any], ours: Any, as_before: bool) -> dict[str, str]:
    pattern = split.get("pattern", {})
    if "Regex" in pattern:
        text = pattern["Regex"]
    elif "String" in pattern:
        text = re.escape(pattern["String"])
    else:
        raise FormatError(f"pre_tokenizer Split has the pattern {pattern!r}: expected Regex or String")
    behaviour = (split.get("behavior"), split.get("invert", False))
    if isinstance(ours, dict) and behaviour == ("Isolated", False):
        own = Pretokenizer.from_spec(ours)
        with contextlib.suppress(FormatError):
            in_files = PATTERNS[_CL100K_IN_FILES] if ours == {"name": "cl100k"} else None
            if text in (spell_as_before(ours), spell_pattern(ours), in_files):
                return own.spec  # the same, in the spelling that it had
    if _POSSESSIVE_INTERVAL.search(text):
        raise FormatError(
            "pre_tokenizer Split has a possessive interval such as {1,3}+, which Hugging Face's engine reads as a "
            "repeated group and nearly everyone else does not: write (?>...{1,3}) or (?:...{1,3})+, whichever is meant"
        )
    named = find_named_pattern(text)
    # "Keep only the matches" comes to the same where the matches leave nothing over.
    if not _is_one_pattern(split):
        raise FormatError(f"pre_tokenizer Split with behavior {behaviour[0]}, invert {behaviour[1]} is not supported")
    if named:
        return {"name": named} if PATTERNS[named] == text else {"regex": text}
    if "Regex" in pattern and not as_before:
        text = translate(text, "oniguruma", "regex")
    return Pretokenizer.regex(text).spec


def _read_word_pattern(value: Any, ours: Any, as_before: bool) -> dict[str, str]:
    """Pretokenizer.spec of a WordLevel model's pre_tokenizer. ours: the pattern that our export names."""
    if value is None:  # a text is one word
        return {"steps": StepList([]).text}
    kind = _find_kind(value, "pre_tokenizer")
    if kind != "Split" or not _is_one_pattern(value):
        listed = StepList(value)
        if listed.is_bytewise:
            raise FormatError(f"pre_tokenizer {kind} of a WordLevel model is not supported: its words are no bytes")
        return {"steps": listed.text}
    if is_split_into_characters(value):
        return Pretokenizer.from_spec(ours).spec if isinstance(ours, dict) else {"regex": r"[\s\S]"}
    return _read_split(value, ours, as_before)


def _read_added_tokens(value: Any, *, has_normalizer: bool) -> list[SpecialToken]:
    special = []
    for token in value:
        content, id = token["content"], token["id"]
        if type(id) is not int or not 0 <= id < ID_LIMIT:
            raise FormatError(f"added token {content!r} has the id {id!r}")
        is_special = bool(token.get("special", False))
        is_normalized = bool(token.get("normalized", not is_special))
        flags = (bool(token.get(flag)) for flag in ("lstrip", "rstrip", "single_word"))
        special.append(SpecialToken(content, id, PLAIN, is_special, is_normalized, *flags))
    return special if has_normalizer else _search_at_once(special)


def _search_at_once(tokens: list[SpecialToken]) -> list[SpecialToken]:
    """The same tokens, all of raw text, if that comes to the same: nothing is normalized, and no two can overlap."""
    raw = [token.text for token in tokens if not token.normalized]
    normalized = [token.text for token in tokens if token.normalized]
    takes_more = any(token.lstrip or token.rstrip or token.single_word for token in tokens)
    if takes_more or any(_can_overlap(one, other) for one in normalized for other in raw):
        return tokens
    return [dataclasses.replace(token, normalized=False) for token in tokens]


def _can_overlap(one: str, other: str) -> bool:
    """Whether a text can spell both with a character in common."""
    if one in other or other in one:
        return True
    sizes = range(1, min(len(one), len(other)))
    return any(one.endswith(other[:size]) or other.endswith(one[:size]) for size in sizes)


def _add_roles(special: Sequence[SpecialToken], named: Mapping[str, str], post_processor: Any) -> list[SpecialToken]:
    """The special tokens with the roles that our export names, and those of the tokens that are put around a text."""
    roles = dict(named)
    around = _read_added_ids(post_processor)
    by_id = {token.id: token.text for token in special}
    for role, ids in zip(("document_begin", "document_end"), around, strict=True):
        if missing := [id for id in ids if id not in by_id]:
            raise FormatError(f"post_processor puts the id {missing[0]} around a text, which is no added token")
        roles |= {by_id[id]: role for id in ids}
    if any(ids != sorted(set(ids)) for ids in around) or set(around[0]) & set(around[1]):
        before, after = ([by_id[id] for id in ids] for ids in around)
        warnings.warn(
            f"post_processor puts {before} before and {after} after a text, and roles can only say tokens in the order "
            f"of their ids, each once: they get none. To have them around documents, set encode.prepend and "
            f"encode.append",
            stacklevel=2,
        )
        roles = dict(named)
    return [dataclasses.replace(token, role=roles.get(token.text, PLAIN)) for token in special]


def _read_added_ids(post_processor: Any) -> tuple[list[int], list[int]]:
    """The ids that a post_processor puts before and after a single text."""
    if post_processor is None:
        return [], []
    kind = _find_kind(post_processor, "post_processor")
    if kind == "ByteLevel":
        return [], []
    if kind == "Sequence":
        parts = [_read_added_ids(one) for one in post_processor["processors"]]
        return [id for before, _ in reversed(parts) for id in before], [id for _, after in parts for id in after]
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [post_processor["cls"][1]], [post_processor["sep"][1]]
    if kind != "TemplateProcessing":
        raise FormatError(f"post_processor {kind} is not supported: set it to null, and use encode.prepend and append")
    sides: tuple[list[int], list[int]] = ([], [])
    num_texts = 0
    for piece in post_processor["single"]:
        if "SpecialToken" in piece:
            sides[num_texts].extend(post_processor["special_tokens"][piece["SpecialToken"]["id"]]["ids"])
        else:
            num_texts += 1
        if num_texts > 1 or not piece.keys() & {"SpecialToken", "Sequence"}:
            raise FormatError(
                f"post_processor TemplateProcessing has {post_processor['single']!r:.200}: expected one text"
            )
    return sides


def puts_tokens_around(post_processor: str) -> bool:
    """Whether a post_processor, as JSON, puts tokens around a text. Empty: there is none."""
    return any(_read_added_ids(_parse_kept(post_processor, "post_processor")))


def read_bpe_model(model: Mapping[str, Any], special: Collection[str]) -> MergesModel:
    """The model of the tokens and merges of a BPE in printable names, less those that are special."""
    if (kind := model.get("type", "BPE")) != "BPE":
        raise FormatError(f"model {kind} is not supported: only BPE, WordPiece, WordLevel and Unigram")
    for option in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise FormatError(f"model option {option} = {model[option]!r} is not supported with all 256 bytes")
    # unk_token, fuse_unk and byte_fallback are for characters without a token, and all 256 bytes must have one.
    if isinstance(lists := model.get("vocab"), LongLists):
        return MergesModel(*lists.read(special), bool(model.get("ignore_merges")))
    names: dict[str, int] = model.get("vocab", {})
    if special:
        names = {text: id for text, id in names.items() if text not in special}
    ordinary = names if _ascend(names.values()) else dict(sorted(names.items(), key=itemgetter(1)))
    tokens = from_printable_tokens([*ordinary])
    if None in tokens or not set(map(type, ordinary.values())) <= {int} or not _are_ids(ordinary.values()):
        for token, (text, id) in zip(tokens, ordinary.items(), strict=True):
            if token is None:
                raise FormatError(
                    f"token {id}, {text!r}, is not of the byte alphabet: the vocabulary is not byte-level"
                )
            if type(id) is not int or not 0 <= id < ID_LIMIT:
                raise FormatError(f"token {text!r} has the id {id!r}")
    ids = np.array([*ordinary.values()], np.int32)
    return MergesModel(
        tuple(cast(list[bytes], tokens)),
        ids,
        _read_merges(model.get("merges", []), ordinary),
        bool(model.get("ignore_merges")),
    )


def _ascend(values: Iterable[Any]) -> bool:
    listed = [*values]
    return all(map(lt, listed, listed[1:]))


def _are_ids(values: Collection[int]) -> bool:
    return min(values, default=0) >= 0 and max(values, default=0) < ID_LIMIT


def _read_merges(merges: Any, ordinary: Mapping[str, int]) -> Ids:
    """The merges as pairs of ids. ordinary: name of a token -> id."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if set(map(type, pairs)) <= {list} and set(map(len, pairs)) <= {2}:
        lefts, rights = ([pair[side] for pair in pairs] for side in (0, 1))
        with contextlib.suppress(KeyError, TypeError):  # which merge it is, the loop below finds
            sides = [[*map(ordinary.__getitem__, side)] for side in (lefts, rights)]
            if set(map(add, lefts, rights)) <= ordinary.keys():
                return np.ascontiguousarray(np.array(sides, np.int32).T)
    for i, (merge, pair) in enumerate(zip(merges, pairs, strict=True)):
        if len(pair) != 2 or pair[0] not in ordinary or pair[1] not in ordinary:
            raise FormatError(f"merge {i} = {merge!r}: expected two ordinary tokens")
        if "".join(pair) not in ordinary:
            raise FormatError(f"merge {i} = {merge!r}: makes no token")
    return np.array([[ordinary[part] for part in pair] for pair in pairs], np.int32).reshape(-1, 2)


def _find_kind(value: Any, part: str) -> str:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise FormatError(f"{part} is {value!r}: expected an object with a type")
    return str(value["type"])
