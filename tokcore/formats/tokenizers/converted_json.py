"""The parts of a tokenizer.json that was made from a SentencePiece model: Unigram, and BPE of characters.

We do exactly what tokenizers does with them, or refuse the file and name the part. One rule is our own: text that
spells a special token stays text, where their Unigram finds special tokens as pieces.
"""

from __future__ import annotations

import binascii
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.json_floats import write_float
from tokcore.models.model import ID_LIMIT
from tokcore.models.sentencepiece.converted import ConvertedModel, PieceBpeModel, WordUnigramModel
from tokcore.models.sentencepiece.piece_text import BYTE_NAMES, SPACE
from tokcore.text.sentencepiece_tables import check_charsmap
from tokcore.text.text_steps import TextStep
from tokcore.tokenizer.tokenizer_spec import UNKNOWN, SpecialToken, TokenizerSpec

_SPANS = {"Regex": " {2,}"}
_PRE_TOKENIZERS = (
    "metaspace",
    "metaspace-first",
    "metaspace-start",
    "words",
)  # kinds of steps that a pre_tokenizer gives
_KIND_OF_SCHEME = {"always": "metaspace-first", "first": "metaspace-start", "never": "metaspace"}
_ALL_BYTES = frozenset(name.decode() for name in BYTE_NAMES)


def is_converted(content: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json has such a model: Unigram, or a BPE that is neither byte-level nor empty."""
    model = content["model"]
    if model.get("type") == "Unigram":
        return True
    if model.get("type", "BPE") != "BPE":
        return False
    kinds = {step.get("type") for step in list_parts(content.get("pre_tokenizer"), "pretokenizers")}
    return "ByteLevel" not in kinds and (
        bool(model.get("byte_fallback")) or "Metaspace" in kinds or SPACE in (model.get("vocab") or {})
    )


def split_normalizers(content: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[TextStep]]:
    """(normalizers that come first, what the model's own steps are made of) of a tokenizer.json.

    The first ones are those that the model's steps cannot do, and what is before them. All of them are, if there is an
    added token that is looked for in normalized text.
    """
    parts = list_parts(content.get("normalizer"), "normalizers")
    num_first = 0
    for i, part in enumerate(parts):
        try:
            _read_normalizer(part)
        except FormatError:
            num_first = i + 1
    for token in content.get("added_tokens") or []:
        if not token.get("special") and token.get("normalized", True):
            num_first = len(parts)
    return parts[:num_first], [step for part in parts[num_first:] for step in _read_normalizer(part)]


def read_converted(
    content: Mapping[str, Any], steps: list[TextStep], special: Sequence[SpecialToken], *, has_normalizer: bool
) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json; steps: what split_normalizers gives; special: its added tokens with roles.

    has_normalizer: whether something is done to a text before. Raises FormatError, naming the part, for what we cannot
    follow exactly.
    """
    model = content["model"]
    is_unigram = model.get("type") == "Unigram"
    expected, form = (list, "a list of [piece, score]") if is_unigram else (dict, "an object of tokens and ids")
    if not isinstance(model.get("vocab"), expected):
        found = type(model.get("vocab")).__name__
        raise FormatError(f"model.vocab is {found}: expected {form} for {'Unigram' if is_unigram else 'BPE'}")
    splits = _read_pre_tokenizer(content.get("pre_tokenizer"), steps)
    if has_normalizer and any(step.kind == "metaspace-start" for step in steps):
        raise FormatError(
            "pre_tokenizer Metaspace with the prepend_scheme first is supported only after the normalizers Prepend, "
            "Strip, Precompiled and Replace: set it to always or never"
        )
    read = _read_unigram if is_unigram else _read_bpe
    return read(model, list(special), tuple(steps), splits)


def list_parts(value: Any, key: str) -> list[dict[str, Any]]:
    """The parts of a Sequence, also of those in it; any other part alone. key: where a Sequence lists its parts."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise FormatError(f"{key}: expected an object, found {value!r:.80}")
    if value.get("type") != "Sequence":
        return [value]
    return [one for part in value[key] for one in list_parts(part, key)]


def _read_normalizer(part: Mapping[str, Any]) -> list[TextStep]:
    kind, pattern = part.get("type"), part.get("pattern")
    if kind == "Prepend":
        return [TextStep("prepend", "", part["prepend"].encode())]
    if kind == "Replace" and pattern == _SPANS:
        return [TextStep("replace-spans", "", part["content"].encode())]
    if kind == "Replace" and isinstance(pattern, dict) and pattern.get("String"):
        return [TextStep("replace", pattern["String"], part["content"].encode())]
    if kind == "Strip":
        sides = [side for side in ("left", "right") if part[f"strip_{side}"]]
        return [TextStep(f"strip-{side}", "", b"") for side in sides]
    if kind == "Precompiled":
        return _read_charsmap(part.get("precompiled_charsmap"))
    raise FormatError(f"normalizer {kind} is none of the model's own steps")


def _read_charsmap(value: Any) -> list[TextStep]:
    place = "normalizer.precompiled_charsmap"
    if value is None or value == "":
        return []
    try:
        charsmap = binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{place} is not base64: {value!r:.80}") from error
    check_charsmap(charsmap, place)
    return [TextStep("charsmap", "", charsmap)]


def _read_pre_tokenizer(value: Any, steps: list[TextStep]) -> bool:
    """Whether each U+2581 begins a word. Adds to steps what the part does to the text."""
    parts = list_parts(value, "pretokenizers")
    kinds = [part.get("type") for part in parts]
    if not kinds:
        return False
    if kinds == ["Split"] and parts[0].get("pattern") == {"String": " "} and _leaves_no_blank(steps):
        return False  # there is nothing to split at
    place = f"pre_tokenizer {' + '.join(map(str, kinds))}"
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise FormatError(f"{place} is not supported: only Metaspace, also after WhitespaceSplit")
    metaspace = parts[-1]
    scheme, splits = metaspace.get("prepend_scheme", "always"), metaspace.get("split", True)
    if "prepend_scheme" not in metaspace and metaspace.get("add_prefix_space") is False:
        scheme = "never"
    if metaspace.get("replacement") != SPACE:
        raise FormatError(f"{place} with the replacement {metaspace.get('replacement')!r:.20}: expected {SPACE!r}")
    if scheme not in _KIND_OF_SCHEME:
        raise FormatError(f"{place} with the prepend_scheme {scheme!r:.20}: expected always, first or never")
    if len(parts) == 2:
        if scheme != "always" or not splits:
            raise FormatError(f"{place} is supported only with the prepend_scheme always and with split")
        steps.append(TextStep("words", "", b""))
        return True
    steps.append(TextStep(_KIND_OF_SCHEME[scheme], "", b""))
    return bool(splits)


def _leaves_no_blank(steps: Sequence[TextStep]) -> bool:
    last = steps[-1] if steps else None
    return last is not None and last.kind == "replace" and last.pattern == " " and b" " not in last.text


def list_shared(model: Mapping[str, Any], added: Sequence[str]) -> set[str]:
    """The added tokens that merges make, or make others of: they are ordinary tokens, too."""
    wanted, found, names = {*added}, set[str](), model["vocab"]
    prefix = len(model.get("continuing_subword_prefix") or "")  # which the second of a pair loses
    for merge in model.get("merges", []) if wanted else []:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        found.update(wanted.intersection((*pair, pair[0] + "".join(pair[1:])[prefix:])))
    return {text for text in found if text in names}


def _add_unknown(special: list[SpecialToken], text: str | None, id: int | None) -> None:
    """Give the unknown token its role."""
    for i, token in enumerate(special):
        if token.id == id:
            special[i] = dataclasses.replace(token, role=UNKNOWN)
            return
    if id is not None and text is not None:
        special.append(SpecialToken(text, id, UNKNOWN))


def _read_unigram(
    model: Mapping[str, Any], special: list[SpecialToken], steps: tuple[TextStep, ...], splits: bool
) -> TokenizerSpec:
    vocab: list[Any] = model["vocab"]
    for id, entry in enumerate(vocab):
        is_pair = isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is str
        if not is_pair or type(entry[1]) not in (int, float):
            raise FormatError(f"model.vocab[{id}] is {entry!r:.80}: expected [piece, score]")
        if not entry[0]:
            raise FormatError(f"model.vocab[{id}]: the piece is empty")
    unknown = model.get("unk_id")
    if unknown is not None and (type(unknown) is not int or not 0 <= unknown < len(vocab)):
        raise FormatError(f"model.unk_id = {unknown!r:.80}: expected the place of one of {len(vocab)} pieces")
    _add_unknown(special, vocab[unknown][0] if unknown is not None else None, unknown)
    for token in special:
        id = token.id or 0
        if id < len(vocab) and vocab[id][0] != token.text:
            raise FormatError(
                f"added token {token.text!r:.80} has the id {id}, which is that of the piece {vocab[id][0]!r:.80} in "
                f"model.vocab"
            )
    taken = {token.id for token in special}
    ordinary = [(id, *entry) for id, entry in enumerate(vocab) if id not in taken]
    lowest = min((score for _, _, score in ordinary), default=0)
    if low := [vocab[id][0] for id in taken if id is not None and id < len(vocab) and vocab[id][1] < lowest]:
        raise FormatError(
            f"model.vocab: the special token {low[0]!r} has the lowest score, from which that of unknown text follows"
        )
    read = WordUnigramModel(
        tuple(piece.encode() for _, piece, _ in ordinary),
        np.array([id for id, _, _ in ordinary], np.int32),
        bool(model.get("byte_fallback")) and _has_bytes({piece for _, piece, _ in ordinary}),
        unknown,
        vocab[unknown][0] if unknown is not None else "",
        steps,
        splits,
        np.array([score for _, _, score in ordinary], np.float64),
    )
    return _make_spec(read, special)


def _read_bpe(
    model: Mapping[str, Any], special: list[SpecialToken], steps: tuple[TextStep, ...], splits: bool
) -> TokenizerSpec:
    for option in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"):
        if model.get(option):
            raise FormatError(f"model option {option} = {model[option]!r:.80} is not supported")
    vocab: dict[str, Any] = model["vocab"]
    for text, id in vocab.items():
        if type(id) is not int or not 0 <= id < ID_LIMIT:
            raise FormatError(f"model.vocab: token {text!r:.80} has the id {id!r:.80}")
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in vocab:
        raise FormatError(f"model.vocab has no {unknown!r:.80}, which unk_token names: unknown text would have no id")
    _add_unknown(special, unknown, vocab[unknown] if unknown is not None else None)
    texts = {token.text: token.id for token in special}
    for text in list_shared(model, [token.text for token in special if not token.is_special]):
        del texts[text]
    for text, id in texts.items():
        if vocab.get(text, id) != id:
            raise FormatError(f"added token {text!r:.80} has the id {id}, and in model.vocab it has {vocab[text]}")
    spells_bytes = bool(model.get("byte_fallback")) and _has_bytes(vocab)
    if not spells_bytes and unknown is None:
        raise FormatError("model.unk_token is null: tokenizers would leave unknown text out")
    if not spells_bytes and not model.get("fuse_unk"):
        raise FormatError("model option fuse_unk = False is not supported without the 256 byte tokens")
    ordinary = sorted((id, text) for text, id in vocab.items() if text not in texts)
    merges = []
    for i, merge in enumerate(model.get("merges", [])):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if len(pair) != 2 or any(part not in vocab or part in texts for part in pair):
            raise FormatError(f"model.merges[{i}] = {merge!r:.80}: expected two ordinary tokens")
        merges.append((vocab[pair[0]], vocab[pair[1]]))
    read = PieceBpeModel(
        tuple(text.encode() for _, text in ordinary),
        np.array([id for id, _ in ordinary], np.int32),
        spells_bytes,
        vocab[unknown] if unknown is not None else None,
        unknown or "",
        steps,
        splits,
        np.array(merges, np.int32).reshape(-1, 2),
    )
    return _make_spec(read, special)


def _make_spec(model: ConvertedModel, special: Sequence[SpecialToken]) -> TokenizerSpec:
    model.piece_encoder(0)  # checks the charsmap
    return TokenizerSpec((), {"name": "metaspace"}, model, tuple(special))


def _has_bytes(texts: Any) -> bool:
    """Whether the byte tokens are there. Raises FormatError if only some are."""
    found = sum(name in texts for name in _ALL_BYTES)
    if found not in (0, 256):
        missing = min(name for name in _ALL_BYTES if name not in texts)
        raise FormatError(
            f"model.byte_fallback is set, and model.vocab has only {found} byte tokens: {missing} is missing"
        )
    return found == 256


def make_converted_parts(spec: TokenizerSpec, model: ConvertedModel) -> dict[str, Any]:
    """normalizer, pre_tokenizer, decoder and model of a tokenizer.json. model: the spec's, or what comes nearest."""
    normalizers = [_write_step(step) for step in model.steps if step.kind not in _PRE_TOKENIZERS]
    pre_tokenizers: list[dict[str, Any]] = []
    for step in model.steps:
        if step.kind in _PRE_TOKENIZERS:
            scheme = next((scheme for scheme, kind in _KIND_OF_SCHEME.items() if kind == step.kind), "always")
            split = model.splits_every_space
            pre_tokenizers += [{"type": "WhitespaceSplit"}] if step.kind == "words" else []
            pre_tokenizers.append({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split})
    drops = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if model.text_rules.add_dummy_prefix else []
    replace = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    decoders = [replace, *([{"type": "ByteFallback"}] if model.spells_bytes else []), {"type": "Fuse"}, *drops]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizers} if pre_tokenizers else None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _write_model(spec, model),
    }


def _write_step(step: TextStep) -> dict[str, Any]:
    if step.kind == "charsmap":
        return {"type": "Precompiled", "precompiled_charsmap": binascii.b2a_base64(step.text, newline=False).decode()}
    text = step.text.decode()
    if step.kind == "prepend":
        return {"type": "Prepend", "prepend": text}
    if step.kind == "replace-spans":
        return {"type": "Replace", "pattern": _SPANS, "content": text}
    if step.kind == "replace":
        return {"type": "Replace", "pattern": {"String": step.pattern}, "content": text}
    return {"type": "Strip", "strip_left": step.kind == "strip-left", "strip_right": step.kind == "strip-right"}


def _write_model(spec: TokenizerSpec, model: ConvertedModel) -> dict[str, Any]:
    unknown = next((token.text for token in spec.special if token.id == model.unknown), None)
    of_special = {token.text: token.id or 0 for token in spec.special}
    if (scores := model.list_scores()) is not None:
        own = dict(zip(model.ids.tolist(), zip(model.names, scores.tolist(), strict=True), strict=True))
        pieces = own | {id: (text, 0.0) for text, id in of_special.items()}
        last = max(model.ids.max(initial=-1), model.unknown or 0)
        if missing := [id for id in range(last + 1) if id not in pieces]:
            raise FormatError(
                f"the ids of a Unigram are places in its vocabulary, and no token has the id {missing[0]}"
            )
        written = (pieces[id] for id in range(last + 1))
        vocab = [[text, orjson.Fragment(write_float(score))] for text, score in written]
        return {"type": "Unigram", "unk_id": model.unknown, "vocab": vocab, "byte_fallback": model.spells_bytes}
    ids = dict(zip(model.names, model.ids.tolist(), strict=True)) | of_special
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.spells_bytes,
        "ignore_merges": False,
        "vocab": dict(sorted(ids.items(), key=lambda item: item[1])),
        "merges": [[model.names[left], model.names[right]] for left, right, _ in model.list_merges().tolist()],
    }
