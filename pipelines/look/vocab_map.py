"""`tokcore vocab-map`: a table of the tokens of a new vocabulary, spelled in an old one, with their counts.

Or what mergekit takes of it: the part `tokenizer` of its configuration, by which a merge gives a new token the
embedding of an old one. It finds tokens of the same name itself, and has no mean of several.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.formats.tokenizers.gpt2 import make_vocabulary
from tokcore.look.vocabulary_map import MappedToken, map_vocabulary
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.look.curve import count_table_ids
from tokcore_pipelines.look.prune import require_same_pretokens
from tokcore_pipelines.store import storage

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("token", pa.binary(), nullable=False),
        pa.field("role", pa.string()),  # of a special token
        pa.field("old_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("is_same", pa.bool_(), nullable=False),
        pa.field(
            "counts", pa.map_(pa.string(), pa.uint64())
        ),  # language -> occurrences; null where nothing was counted
    ]
)


@dataclasses.dataclass(frozen=True, slots=True)
class Mapped:
    """What a map holds."""

    output: str
    tokens: int
    same: int  # tokens that both vocabularies have
    spelled: int  # tokens of several old ids


def write_vocab_map(old: Tokenizer, new: Tokenizer, target: str, counts: str | None = None) -> Mapped:
    """Write the map as a Parquet file. counts: URL of an output whose count tables say how often tokens occur.

    Raises ConfigError as map_vocabulary does, and for count tables that are not of the new tokenizer's pre-tokens.
    """
    mapped = map_vocabulary(old, new)
    languages = {}
    if counts is not None:
        require_same_pretokens(new.spec, counts)
        languages = {lang: num_by_id for lang, _, num_by_id in count_table_ids(read_output(counts), new)}
    rows = [
        {
            **one._asdict(),
            "counts": None
            if counts is None
            else [(lang, int(of[one.id])) for lang, of in languages.items() if of[one.id]],
        }
        for one in mapped
    ]
    with storage.write_attempt(target) as file:
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file, compression="zstd")
    return _sum_up(target, mapped)


def write_for_mergekit(old: Tokenizer, new: Tokenizer, folders: tuple[str, str], target: str) -> Mapped:
    """Write the part `tokenizer` of mergekit's configuration, as JSON, which is YAML, too.

    folders: of the old model and the new tokenizer, as mergekit is to find them. Raises ConfigError as map_vocabulary
    does.
    """
    mapped = map_vocabulary(old, new)
    part = {"tokenizer": {"source": folders[1], "tokens": list_for_mergekit(mapped, old, new, folders[0])}}
    with storage.write_attempt(target) as file:
        file.write(json.dumps(part, ensure_ascii=False, indent=1).encode() + b"\n")
    return _sum_up(target, mapped)


def list_for_mergekit(mapped: Sequence[MappedToken], old: Tokenizer, new: Tokenizer, model: str) -> dict[str, Any]:
    """Name -> where its embedding comes from: of each token that is one old one, if not by its name."""
    known = make_vocabulary(old.spec)
    names = {id: name for name, id in make_vocabulary(new.spec).items()}
    tokens: dict[str, Any] = {}
    for one in mapped:
        name = names[one.id]
        wanted = one.old_ids[0] if len(one.old_ids) == 1 else None
        if known.get(name) == wanted:
            continue
        source = {"kind": "model_token", "model": model, "token_id": wanted} if wanted is not None else {"kind": "zero"}
        # Without force, an old token of that name would be taken.
        tokens[name] = {"source": source} | ({"force": True} if name in known else {})
    return tokens


def _sum_up(target: str, mapped: Sequence[MappedToken]) -> Mapped:
    return Mapped(target, len(mapped), sum(one.is_same for one in mapped), sum(len(one.old_ids) > 1 for one in mapped))
