"""Partitions: folders that shards are dealt to, by values that each document has: `topic=code/quality=3`.

A document's partition follows from its language and metadata alone. Folders are named as Hive and pyarrow name
them, so that what reads partitioned tables reads them, too. Leaves to others: who writes which shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.formats.metadata import TYPES, Told, fits_integer
from tokcore.formats.partition_names import LANG, Partitioning, name_folder
from tokcore.shards.labels import Labels


class Fault(NamedTuple):
    """Why documents cannot be dealt so: the setting at fault, and what is wrong with it."""

    key: tuple[str, ...]  # partition_by, or bins and a field
    what: str


def find_fault(by: Partitioning, told: Told) -> Fault | None:
    """What is wrong with a partitioning of documents with these columns of metadata; None if nothing is.

    >>> find_fault(Partitioning(("topic",), {}), [("quality", "float32")]).what
    'names topic, which is no field of the metadata: expected lang, or one of quality'
    """
    kinds = dict(told)
    for key in by.keys:
        if key != LANG and key not in kinds:
            known = f", or one of {', '.join(kinds)}" if kinds else " alone, as there is no metadata"
            return Fault(("partition_by",), f"names {key}, which is no field of the metadata: expected lang{known}")
        if kinds.get(key, "").startswith("float") and key not in by.bins:
            return Fault(
                ("partition_by",),
                f"names {key}, whose values ({kinds[key]}) hardly repeat: give it bins = {{ {key} = [0.2, 0.5, 0.8] }}",
            )
    for key, bounds in by.bins.items():
        if key not in by.keys:
            return Fault(("bins", key), "is for a key of partition_by, which does not name it")
        kind = kinds.get(key, "string")
        if not kind.startswith(("int", "float")):
            return Fault(("bins", key), f"is for numbers, and {key} is a {kind}")
        if not bounds:
            return Fault(("bins", key), "is empty: expected bounds, such as [0.2, 0.5, 0.8]")
        if kind.startswith("int"):
            for one in bounds:
                if Decimal(one) % 1 or not fits_integer(int(Decimal(one)), kind):
                    return Fault(("bins", key), f"has {one}, and {key} is an {kind}")
        if not (np.diff(_round_bounds(bounds, kind)) > 0).all():
            return Fault(("bins", key), f"must have bounds that ascend, also when they are rounded to {kind}")
    return None


def label_partitions(by: Partitioning, langs: Labels, metadata: pa.RecordBatch | None) -> Labels:
    """The partition of each of n documents: KEY=VALUE/KEY=VALUE, all that differ once.

    metadata: n rows, with the columns that by names; None if it names none. A value is its text, as Hive has it quoted
    for a URL, or the number of its bin; of null and NaN it is `__HIVE_DEFAULT_PARTITION__`.
    Raises StageError for a value that makes no folder's name, since it is too long.

    >>> from tokcore.shards.labels import label_strings
    >>> told = pa.RecordBatch.from_pydict({"topic": ["a b", None], "quality": pa.array([0.2, 0.9], pa.float32())})
    >>> by = Partitioning(("lang", "topic", "quality"), {"quality": ("0.2", "0.5")})
    >>> [*label_partitions(by, label_strings(["en", "sw"]), told)]
    ['lang=en/topic=a%20b/quality=1', 'lang=sw/topic=__HIVE_DEFAULT_PARTITION__/quality=2']
    """
    folders: tuple[str, ...] = ("",)
    codes = np.zeros(len(langs), np.int64)
    for key in by.keys:
        own = _label_key(key, by, langs, metadata)
        found, codes = np.unique(codes * len(own.names) + own.codes, return_inverse=True)
        pairs = [divmod(one, len(own.names)) for one in found.tolist()]
        folders = tuple(f"{folders[above]}/{own.names[below]}".lstrip("/") for above, below in pairs)
    return Labels(folders, codes.astype(np.int32))


def _label_key(key: str, by: Partitioning, langs: Labels, metadata: pa.RecordBatch | None) -> Labels:
    """The folder of each document by one key."""
    if key == LANG:
        return Labels(tuple(name_folder(key, lang) for lang in langs.names) or ("",), langs.codes)
    assert metadata is not None, "it has the keys of a partitioning"
    column = metadata.column(metadata.schema.get_field_index(key))
    if key in by.bins:
        return _label_bins(key, by.bins[key], column)
    encoded = column.dictionary_encode()
    names = [*(name_folder(key, value) for value in encoded.dictionary.to_pylist()), name_folder(key, None)]
    return Labels(tuple(names), encoded.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False))


def _label_bins(key: str, bounds: Sequence[str], column: pa.Array) -> Labels:
    kind = next(kind for kind, type in TYPES.items() if type == column.type)
    values = column.fill_null(pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    codes = np.searchsorted(_round_bounds(bounds, kind), values, side="right").astype(np.int32)
    is_none = ~column.is_valid().to_numpy(zero_copy_only=False)
    codes[is_none | np.isnan(values)] = len(bounds) + 1
    return Labels((*(name_folder(key, number) for number in range(len(bounds) + 1)), name_folder(key, None)), codes)


def _round_bounds(bounds: Sequence[str], kind: str) -> npt.NDArray[Any]:
    if kind.startswith("int"):
        return np.array([int(Decimal(one)) for one in bounds], np.int64)
    return np.array([float(one) for one in bounds], kind)
