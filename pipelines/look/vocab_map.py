"""`tokcore vocab-map`: a table of the tokens of a new vocabulary, spelled in an old one, with their counts."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.look.vocabulary_map import map_vocabulary
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
    return Mapped(target, len(mapped), sum(one.is_same for one in mapped), sum(len(one.old_ids) > 1 for one in mapped))
