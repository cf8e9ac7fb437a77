"""`tokcore prune`: a tokenizer without the tokens that a corpus uses least, and a table of those that went."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.errors import ConfigError
from tokcore.tokenizer.pruned import Pruned, prune
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.token_count_table import read_token_counts
from tokcore_pipelines.build.tokenizer_files import make_artifact_files
from tokcore_pipelines.look.curve import count_table_ids
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.new_folder import make_folder, require_free
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.stage_table import COUNTS, SHARDS

GONE = "gone.parquet"
IDS = "ids.parquet"


@dataclasses.dataclass(frozen=True, slots=True)
class PrunedReport:
    """What went, and what is left."""

    output: str
    vocab_size: int  # highest id + 1
    tokens: int
    gone: int
    uses_of_gone: int
    fingerprint: str


def prune_tokenizer(spec: TokenizerSpec, counts: str, vocab_size: int, target: str, renumber: bool) -> PrunedReport:
    """Write the files of the pruned tokenizer, and the table of what went, as a new local folder.

    counts: URL of an output that says how often tokens occur. Raises ConfigError as prune does,
    and for an output that does not say it of this tokenizer.
    """
    if not urls.is_local(target):
        raise ConfigError(f"{target}: only a local folder can appear at once. Name one, then copy it")
    place = urls.get_local_path(target)
    require_free(place)
    pruned = prune(spec, count_uses(spec, counts), vocab_size, renumber)
    with make_folder(place) as folder:
        for name, data in make_artifact_files(pruned.spec):
            with folder.new_file(name) as file:
                file.write(data)
        for name, table in _make_tables(pruned, renumber).items():
            with folder.new_file(name) as file:
                pq.write_table(table, file, compression="zstd")
    return PrunedReport(
        str(place),
        pruned.spec.vocab_size,
        len(pruned.new_ids),
        len(pruned.gone),
        sum(one.uses for one in pruned.gone),
        pruned.spec.fingerprint,
    )


def count_uses(spec: TokenizerSpec, output: str) -> npt.NDArray[np.uint64]:
    """How often each id occurs in what an output holds: in its shards, if they are of this tokenizer, else in the
    pre-tokens of its count tables. uint64 [vocab_size]. Raises ConfigError if neither fits.
    """
    uses = np.zeros(spec.vocab_size, np.uint64)
    shards = find_manifest(output, SHARDS)
    if shards is not None and shards.totals.fingerprint == spec.fingerprint:
        table = read_token_counts(output)
        uses[table["id"].to_numpy()] = table["count"].to_numpy()
        return uses
    require_same_pretokens(spec, output)
    for _, _, num_by_id in count_table_ids(read_output(output), Tokenizer(spec)):
        uses += num_by_id
    return uses


def require_same_pretokens(spec: TokenizerSpec, output: str) -> None:
    """Raise ConfigError for count tables of an output whose pre-tokens a tokenizer would not make."""
    counts = find_manifest(output, COUNTS)
    if counts is not None and (counts.config.pretokenize, counts.config.normalize) != (
        dict(spec.pattern),
        spec.normalizer,
    ):
        raise ConfigError(
            f"{redact(output)}: its count tables are of pre-tokens that the tokenizer does not cut so: of the pattern "
            f"{counts.config.pretokenize}, and it has {spec.pattern_name}. Count with [pretokenize] and [normalize] of "
            f"the tokenizer, or build an output with it ([tokenizer] from)."
        )


def _make_tables(pruned: Pruned, renumber: bool) -> dict[str, pa.Table]:
    """File name -> table. Of ids only if they are others than before."""
    columns = [pa.array([one[i] for one in pruned.gone], kind) for i, kind in enumerate(_GONE_TYPES)]
    tables = {GONE: pa.table(columns, ["id", "token", "uses", "left", "right"])}
    if renumber:
        old, new = [*pruned.new_ids], [*pruned.new_ids.values()]
        tables[IDS] = pa.table([pa.array(old, pa.int32()), pa.array(new, pa.int32())], ["old_id", "new_id"])
    return tables


_GONE_TYPES = (pa.int32(), pa.binary(), pa.uint64(), pa.int32(), pa.int32())
