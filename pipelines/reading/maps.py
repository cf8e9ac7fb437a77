"""[[map]]: the user's own functions over batches of documents, before filters. tokcore.plugins.map_step says what they
may do.

Every format and every command comes through here (input_range.settle_batch). A function whose result for a document
depends on anything else would make counts and shards of different corpora, so some batches run again: see map_again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tokcore.errors import ConfigError, StageError
from tokcore.files.canonical_json import hash_sha256
from tokcore.plugins.map_code import identify_code
from tokcore.plugins.map_outcome import OWN, RECORD, REJECT, TEXT, MapFault, apply_map, find_difference
from tokcore.plugins.map_step import MapFunction, find_function
from tokcore.shards.labels import Labels
from tokcore.text.texts import Texts
from tokcore_pipelines.reading.map_again import run_again
from tokcore_pipelines.reading.records import (
    BAD,
    EXPECTED,
    Batch,
    Reject,
    add_filtered,
    describe_too_large,
    make_printable,
    reject_documents,
    take_documents,
    to_id,
    to_value,
)
from tokcore_pipelines.store.allowed_code import require_code_allowed
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.document import is_valid_lang, normalize_lang
from tokcore_schemas.plan import FieldKind, MapRule, ReadSettings

_ONE_IN = 64  # batches, which run twice

# Names and spans are texts, too: spans as read_spans takes them.
_KINDS: Mapping[FieldKind, pa.DataType] = {
    **dict.fromkeys(("string", "name", "spans"), pa.string()),
    "number": pa.float64(),
    **dict.fromkeys(("boolean", "any"), pa.bool_()),
}
_one_at_a_time = threading.RLock()  # a function need not expect threads, and `tokcore check` reads in several
_tried: set[MapRule] = set()  # of which this process saw a batch run twice
_loaded: dict[str, str] = {}  # run -> the hash of what was imported for it


def map_batch(batch: Batch, settings: ReadSettings, where: str) -> Batch:
    """The batch as the steps leave it; what they drop is counted by language and reason. where: its file, for errors.

    Raises ConfigError unless code may run, StageError if a step fails or is not the one of the plan.
    """
    for rule in settings.maps:
        if batch.texts.num_texts:
            batch = take_outcome(batch, *map_documents(batch, rule, settings, where), rule, settings, where)
    return batch


def map_documents(
    batch: Batch, rule: MapRule, settings: ReadSettings, where: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """(the documents of a batch as a step is given them, what it makes of them). Raises as map_batch."""
    given = _make_arrow(batch, settings)
    with _one_at_a_time:
        try:
            function = find_step(rule)
            made = apply_map(function, given)
            if _is_drawn(rule, where, int(batch.ordinals[0])):
                seed = int(hash_sha256(f"{where} {batch.ordinals[0]}".encode())[:8], 16)
                if found := find_difference(made, run_again(rule.run, given, seed)):
                    raise MapFault(
                        found.record,
                        f"{found.one} in this process, and {found.other} in another one, in which it came in another "
                        f"batch: let a document decide alone, without chance, the time, or the order of a set",
                    )
        except MapFault as fault:
            place = redact(where) + (f", record {fault.record}" if fault.record is not None else "")
            raise StageError(f"[[map]] {rule.name} ({rule.run}): {place}: {fault.text}") from fault
    return given, made


def take_outcome(
    batch: Batch, given: pa.RecordBatch, made: pa.RecordBatch, rule: MapRule, settings: ReadSettings, where: str
) -> Batch:
    """The batch as one step leaves it. given, made: as map_documents gave them. Raises as map_batch."""
    rejected = made.column(REJECT)
    records = made.column(RECORD).to_numpy()
    reasons = {o: reason for o, reason in zip(records.tolist(), rejected.to_pylist(), strict=True) if reason}
    kept = made.filter(rejected.is_null())
    where_kept = np.searchsorted(batch.ordinals, kept.column(RECORD).to_numpy())
    dropped = np.ones(len(batch.ordinals), bool)
    dropped[where_kept] = False
    if dropped.any():
        named = (
            (batch.langs[i], f"{rule.name}.{reasons[o]}" if (o := int(batch.ordinals[i])) in reasons else rule.name)
            for i in np.flatnonzero(dropped).tolist()
        )
        batch = add_filtered(batch, named)
    same = given.take(pa.array(where_kept)) if dropped.any() else given
    taken = take_documents(batch, where_kept) if dropped.any() else batch
    changed = {name for name in kept.schema.names if name != REJECT and not kept.column(name).equals(same.column(name))}
    return _change(taken, kept, same, changed, rule, settings, where) if changed else taken


def _change(
    batch: Batch,
    made: pa.RecordBatch,
    given: pa.RecordBatch,
    changed: set[str],
    rule: MapRule,
    settings: ReadSettings,
    where: str,
) -> Batch:
    """The batch with other values in some columns, without documents whose text may not be. given: its rows before."""

    def blame(i: int, text: str) -> StageError:
        place = f"{redact(where)}, record {batch.ordinals[i]}"
        return StageError(f"[[map]] {rule.name} ({rule.run}): {place}: {text}")

    if "id" in changed:
        told = made.column("id").to_pylist()
        if batch.ids is None:
            i = next(i for i, one in enumerate(told) if one is not None)
            raise blame(i, "has an id now, and its source has none: set `id` of the source")
        for i, one in enumerate(told):
            if to_id(one) is None:
                raise blame(i, "has no valid id any more")
        batch = batch._replace(ids=told)
    if "lang" in changed:
        told = made.column("lang").to_pylist()
        if wrong := {one for one in set(told) if not is_valid_lang(one)}:
            i = next(i for i, one in enumerate(told) if one in wrong)
            raise blame(i, f"lang = {told[i]!r:.80}: is no language code")
        spelled = map(normalize_lang, told) if settings.lang_normalize else told
        names: dict[str, int] = {}
        codes = np.array([names.setdefault(one, len(names)) for one in spelled], np.int32)
        batch = batch._replace(langs=Labels(tuple(names), codes))
    fields = dict[str, list[Any]]()
    for one in settings.fields:
        if one.name in changed and one.name not in OWN:
            values = _take_values(batch.fields[one.name], given.column(one.name), made.column(one.name), one.kind)
            if BAD in values:
                raise blame(values.index(BAD), f"field {one.name}: {EXPECTED[one.kind]}")
            fields[one.name] = values
    batch = batch._replace(fields={**batch.fields, **fields})
    return _change_texts(batch, made.column(TEXT), settings) if TEXT in changed else batch


def _change_texts(batch: Batch, column: pa.Array, settings: ReadSettings) -> Batch:
    """The batch with these texts, checked as those of records are."""
    offsets = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, 8 * column.offset)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    batch = batch._replace(texts=Texts(data, offsets))
    rejects: dict[int, Reject] = {}
    forbidden = [one.encode() for one in settings.forbidden]
    whole = data[offsets[0] : offsets[-1]].tobytes() if forbidden else b""
    suspects = [one for one in forbidden if one in whole]
    lengths = np.diff(offsets)
    looked_at = range(len(lengths)) if suspects else np.flatnonzero(lengths > settings.max_document_bytes).tolist()
    for i in looked_at:
        text, number = batch.texts.text(i), int(batch.ordinals[i])
        if len(text) > settings.max_document_bytes:
            detail = describe_too_large(len(text), settings)
            rejects[i] = Reject(number, "document_too_large", detail, make_printable(text))
        elif found := next((one for one in suspects if one in text), None):
            detail = f"the text spells {make_printable(found)} at byte {text.index(found)}"
            rejects[i] = Reject(number, "special_text", detail, make_printable(text))
    return reject_documents(batch, rejects)


@functools.lru_cache(maxsize=64)
def find_step(rule: MapRule) -> MapFunction:
    """The function of a step. Imports it. Raises ConfigError unless code may run, StageError if it is other code."""
    require_code_allowed(rule.run)
    found = identify_code(rule.run)
    if (found.sha256, found.distribution) != (rule.sha256, rule.distribution):
        was, now = (one or "no installed distribution" for one in (rule.distribution, found.distribution))
        raise StageError(
            f"[[map]] {rule.name}: the code of {rule.run} is not that of the plan, sha256 {rule.sha256[:16]} of {was}: "
            f"here it is {found.sha256[:16]} of {now}. Install the plan's code wherever workers run, or name another "
            f"--output."
        )
    if _loaded.setdefault(rule.run, rule.sha256) != rule.sha256:
        raise ConfigError(f"[[map]] {rule.name}: {rule.run} changed after this process imported it: start a new one")
    return find_function(rule.run)


def _is_drawn(rule: MapRule, where: str, first: int) -> bool:
    """Whether a batch runs twice: the first one of each process, and some of the others."""
    if rule not in _tried:
        _tried.add(rule)
        return True
    return int(hash_sha256(f"{where} {first} {rule.name}".encode())[:8], 16) % _ONE_IN == 0


def _make_arrow(batch: Batch, settings: ReadSettings) -> pa.RecordBatch:
    """The documents of a batch, as tokcore.plugins.map_step describes them."""
    texts, num = batch.texts, batch.texts.num_texts
    kind: Any = pa.LargeBinaryArray if settings.invalid_utf8 == "bytes" else pa.LargeStringArray
    columns = {
        RECORD: pa.array(batch.ordinals),
        TEXT: kind.from_buffers(num, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)),
        "id": pa.array(batch.ids, pa.string()) if batch.ids is not None else pa.nulls(num, pa.string()),
        "lang": pa.DictionaryArray.from_arrays(batch.langs.codes, pa.array(batch.langs.names, pa.string())).cast(
            pa.string()
        ),
    }
    for field in settings.fields:
        if field.name not in OWN:
            columns[field.name] = _make_column(batch.fields[field.name], field.kind)
    return pa.record_batch(columns)


def _make_column(values: list[Any], kind: FieldKind) -> pa.Array:
    type = _KINDS[kind]
    if pa.types.is_string(type):  # half a surrogate pair has no UTF-8
        return pa.array([value and value.encode(errors="replace").decode() for value in values], type)
    convert = float if pa.types.is_floating(type) else bool
    return pa.array([None if value is None else convert(value) for value in values], type)


def _take_values(values: list[Any], given: pa.Array, made: pa.Array, kind: FieldKind) -> list[Any]:
    """The values of a field with those that a step changed. The others stay as exact as they are: given is rounded."""
    return [
        value if one == other else to_value(other, kind, False)
        for value, one, other in zip(values, given.to_pylist(), made.to_pylist(), strict=True)
    ]
