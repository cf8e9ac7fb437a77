"""What the page asks, and the answers: values that JSON knows. Each answer is a function of the shelf and a question.

Texts in answers are spelled as the audit spells tokens: what is not seen is an escape. The page shows them as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tokcore.errors import ConfigError
from tokcore.look.explain import ExplainedToken
from tokcore.look.odd_tokens import spell_token
from tokcore.shards.opened_shards import ShardDocument, Shards
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.look.explained import list_explained
from tokcore_pipelines.look.view.scanning import (
    Hit,
    find_document_id,
    find_language,
    find_record,
    find_text,
    find_token,
    is_same_record,
    search,
)
from tokcore_pipelines.look.view.shelf import Shelf, Volume
from tokcore_pipelines.store.redaction import redact

MOST_CHARACTERS = 100_000  # of typed text
MOST_TOKENS = 5_000  # that are shown at a time, of a text or a document
_MOST_LISTED = 500  # tokens of an audit's list
_NEARBY = 100  # documents before and after a number, which are looked at before all are

Question = Mapping[str, Any]


def tell_shelf(shelf: Shelf, question: Question) -> dict[str, Any]:
    """What there is."""
    return {
        "volumes": [
            {
                "name": spell_token(one.name.encode())[1:-1],
                "vocab_size": one.tokenizer.vocab_size,
                "kind": one.tokenizer.spec.model.kind,
                "fingerprint": one.tokenizer.fingerprint,
                "lossless": one.tokenizer.lossless,
                "documents": None if one.shards is None else len(one.shards),
                "languages": dict(one.languages),
                "shards": [] if one.shards is None else [path.rpartition("/")[2] for path in one.shards.paths],
            }
            for one in shelf
        ]
    }


def cut_text(shelf: Shelf, question: Question) -> dict[str, Any]:
    """A text in the tokens of every tokenizer."""
    text, with_special = _read_text(question), _read(question, "special", bool)
    data = text.encode("utf-8", "surrogatepass")
    return {
        "characters": len(text),
        "bytes": len(data),
        "cuts": [
            show_tokens(one, one.tokenizer.encode(data, allow_special="all" if with_special else ()).tolist(), 0)
            for one in shelf
        ],
    }


def explain_cut(shelf: Shelf, question: Question) -> dict[str, Any]:
    """How the token at a place of a typed text came to be."""
    volume = _find_volume(shelf, question)
    data = _read_text(question).encode("utf-8", "surrogatepass")
    tokens = volume.explainer.explain(data, with_special=_read(question, "special", bool))
    place = _read(question, "place", int)
    if not 0 <= place < len(tokens):
        raise ConfigError(f"place {place}: the text has {len(tokens)} tokens")
    return {**_describe_token(volume, tokens[place].id), "explained": _list_one(volume.tokenizer, tokens[place])}


def explain_token(shelf: Shelf, question: Question) -> dict[str, Any]:
    """A token by its id: its bytes, how often it is written, and the merges of its own bytes."""
    volume = _find_volume(shelf, question)
    id = _read_id(volume, question)
    data = volume.tokenizer.token_bytes(id)
    steps = volume.explainer.explain_token(id)
    special = id in volume.tokenizer.specials.values()
    origin = "special" if special else "merged" if steps else "byte" if len(data) == 1 else "listed"
    told = ExplainedToken(id, data, 0, len(data), 0, origin, steps)
    return {**_describe_token(volume, id), "explained": _list_one(volume.tokenizer, told)}


def read_document(shelf: Shelf, question: Question) -> dict[str, Any]:
    """A document by its number, from a token on."""
    volume = _find_volume(shelf, question)
    shards = volume.require_shards()
    number, start = _read(question, "number", int), _read(question, "start", int)
    if not 0 <= number < len(shards):
        raise ConfigError(f"document {number}: there are {len(shards)}, numbered from 0")
    about = shards.document(number)
    ids = shards[number]
    shown = show_tokens(volume, ids.tolist(), max(start, 0))
    named = {name: value if isinstance(value, int) else _spell(value) for name, value in about._asdict().items()}
    told = shards.metadata(number)
    own = {_spell(name): _spell(str(value)) for name, value in told.items() if value is not None}
    return {"number": number, **named, "metadata": own, **shown}


def find_place(shelf: Shelf, question: Question) -> dict[str, Any]:
    """The document that holds the id at an offset of a shard, and its place there."""
    volume = _find_volume(shelf, question)
    shards = volume.require_shards()
    wanted, offset = _read(question, "shard", str), _read(question, "offset", int)
    number = 0
    for file in shards.list_files():
        if wanted and wanted in file.path.rpartition("/")[2]:
            reader = file.open()
            if not 0 <= offset < reader.num_tokens:
                raise ConfigError(f"offset {offset}: the shard has {reader.num_tokens} ids")
            ends = reader.find_bounds(np.zeros(1, np.int64), np.array([offset + 1]))[1]
            return {
                "number": number + len(ends),
                "token": offset - (int(ends[-1]) if len(ends) else 0),
                "shard": _spell(file.path.rpartition("/")[2]),
            }
        number += file.num_documents
    raise ConfigError(f"shard {wanted!r}: no shard has a name with it")


def list_audit(shelf: Shelf, question: Question) -> dict[str, Any]:
    """The audit's lists."""
    volume = _find_volume(shelf, question)
    report = volume.audited
    lists = ("never", "rare", "unreachable", "partial_utf8", "mostly_one_document", "invisible_tokens")
    return {
        "lists": {
            name: {
                "number": len(report[name]),
                "first": [
                    {"id": one["id"], "token": one["token"], "count": one.get("count")}
                    for one in report[name][:_MOST_LISTED]
                ],
            }
            for name in lists
            if name in report
        }
    }


def compare_documents(shelf: Shelf, question: Question) -> dict[str, Any]:
    """A document of one output in all of them: found by number, else by its record."""
    base = _find_volume(shelf, question)
    shards = base.require_shards()
    number = _read(question, "number", int)
    if not 0 <= number < len(shards):
        raise ConfigError(f"document {number}: there are {len(shards)}, numbered from 0")
    about = shards.document(number)
    text = _read_ordinary_text(base, number)
    found: list[dict[str, Any]] = []
    for one in shelf:
        if one.shards is None:
            continue
        place = number if one is base else _find_twin(one.shards, number, about)
        found.append(
            {"volume": shelf.index(one), "number": None}
            if place is None
            else {
                "volume": shelf.index(one),
                "number": place,
                "same_text": _read_ordinary_text(one, place) == text,
                **show_tokens(one, one.shards[place].tolist(), 0),
            }
        )
    return {"number": number, "id": _spell(about.id), "lang": _spell(about.lang), "of": found}


def _find_twin(shards: Shards, number: int, wanted: ShardDocument) -> int | None:
    """The number of the document from that record, looked for around the same number, then everywhere."""
    for distance in range(_NEARBY):
        for place in {number - distance, number + distance}:
            if 0 <= place < len(shards) and is_same_record(wanted, shards.document(place)):
                return place
    return find_record(shards, wanted)


def _read_ordinary_text(volume: Volume, number: int) -> bytes:
    """The text of a document without special tokens, which may stand around it."""
    ids = volume.require_shards()[number]
    return volume.tokenizer.decode(ids[~np.isin(ids, [*volume.tokenizer.specials.values()])])


def search_documents(shelf: Shelf, question: Question) -> Iterator[Hit]:
    """Hits of a search, one by one. kind: text, token, id, or lang."""
    volume = _find_volume(shelf, question)
    kind, query, start = _read(question, "kind", str), _read(question, "query", str), _read(question, "start", int)
    shards = volume.require_shards()
    if kind == "token":
        find = find_token(_read_id(volume, {"id": _parse_id(query)}), volume.tokenizer)
    elif kind == "text":
        if not query:
            raise ConfigError("query: empty; type the text to look for")
        find = find_text(query, volume.tokenizer, volume.searcher)
    elif kind == "id":
        find = find_document_id(query)
    elif kind == "lang":
        find = find_language(query)
    else:
        raise ConfigError(f"kind {kind!r}: expected text, token, id or lang")
    for hit in search(shards, max(start, 0), find):
        yield {key: _spell(value) if key in ("id", "lang", "source") else value for key, value in hit.items()}


ANSWERS: Mapping[str, Callable[[Shelf, Question], dict[str, Any]]] = {
    "shelf": tell_shelf,
    "cut": cut_text,
    "explain": explain_cut,
    "token": explain_token,
    "document": read_document,
    "place": find_place,
    "audit": list_audit,
    "compare": compare_documents,
}


def show_tokens(volume: Volume, ids: list[int], start: int) -> dict[str, Any]:
    """Up to 5,000 tokens of a text: of each its id, its bytes and how it is shown."""
    tokenizer = volume.tokenizer
    specials = set(tokenizer.specials.values())
    before = ids[: start + MOST_TOKENS]  # from the first one on: decoders may leave out a space at the start of a text
    whole = tokenizer.decode(before)
    spans = tokenizer.offsets(before).bytes.tolist()
    return {
        "total": len(ids),
        "start": start,
        "tokens": [
            [id, _spell_bytes(whole[a:b]), whole[a:b].hex(), int(id in specials)]
            for id, (a, b) in zip(before[start:], spans[start:], strict=True)
        ],
    }


def _spell_bytes(data: bytes) -> str:
    r"""Text with escapes, without quotation marks around it: of white space, only a space stands as it is."""
    return spell_token(data)[1:-1].replace('\\"', '"')


def _spell(text: str | None) -> str | None:
    return None if text is None else _spell_bytes(text.encode("utf-8", "surrogateescape"))


def _describe_token(volume: Volume, id: int) -> dict[str, Any]:
    count, documents = volume.counts.get(id, (0, 0)) if volume.shards is not None else (None, None)
    return {"name": volume.tokenizer.id_to_token(id), "count": count, "documents": documents}


def _list_one(tokenizer: Tokenizer, told: ExplainedToken) -> dict[str, Any]:
    return list_explained(tokenizer, [told])[0]


def _find_volume(shelf: Shelf, question: Question) -> Volume:
    number: int = _read(question, "volume", int)
    if not 0 <= number < len(shelf):
        raise ConfigError(f"volume {number}: there are {len(shelf)}")
    return shelf[number]


def _read_text(question: Question) -> str:
    text: str = _read(question, "text", str)
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"text: {len(text):,} characters, and {MOST_CHARACTERS:,} is the limit of this page")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates become U+FFFD


def _parse_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise ConfigError(f"{text[:20]!r}: is not a token id")
    return int(text)


def _read_id(volume: Volume, question: Question) -> int:
    id: int = _read(question, "id", int)
    if volume.tokenizer.id_to_token(id) is None:
        raise ConfigError(f"id {id}: no token of {redact(volume.name)} has it")
    return id


_ZERO = {bool: False, int: 0, str: ""}


def _read(question: Question, name: str, kind: type) -> Any:
    value = question.get(name, _ZERO[kind])
    if type(value) is not kind:
        raise ConfigError(f"{name}: expected {kind.__name__}, found {type(value).__name__}")
    return value
