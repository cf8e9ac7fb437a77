"""What a step of [[map]] does: a function over batches of documents, by its module or by an entry point.

    def keep(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        return batch.filter(pyarrow.compute.greater(pyarrow.compute.utf8_length(batch["text"]), 100))

A batch has a row for each document, and these columns:

    record   int64          its number among the records of its range of a file: it says which document a row is
    text     large_string   large_binary if the source has invalid_utf8 = "bytes"
    id       string         null where the source has no ids
    lang     string
    ...                     each field of the records that the build reads beside these: string, double or bool

The function returns the same rows or fewer, in their order. It may change every column but `record`; one that it leaves
out stays as it is. A document that it leaves out is dropped; one that gets a text in the column `reject`, which is not
there before, is dropped for that reason. It must look at each document alone: which others are in its batch, and in
what order batches come, differs from run to run.
"""

from __future__ import annotations

import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from tokcore.errors import ConfigError
from tokcore.plugins.plugin_table import PluginTable

MapFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


class MapStep(ABC):
    """A step of another distribution, which an entry point of tokcore.maps names: derive from it.

    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> class Lower(MapStep):
    ...     def run(self, batch):
    ...         return batch.set_column(1, "text", pc.utf8_lower(batch["text"]))
    >>> Lower().run(pa.record_batch({"record": [0], "text": ["ONE"]}))["text"].to_pylist()
    ['one']
    """

    @abstractmethod
    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What becomes of the documents of a batch. It has no state: nothing but the batch may decide."""


# By the name that `run` of a [[map]] may have.
MAPS: PluginTable[MapStep] = PluginTable("tokcore.maps", MapStep, {})  # type: ignore[type-abstract]


def find_function(run: str) -> MapFunction:
    """The function that `run` names: MODULE:FUNCTION, or an entry point. Imports it, which runs its module's code.

    Raises ConfigError if there is no such one, or if it cannot be imported.

    >>> find_function("builtins:len")([1, 2])
    2
    """
    module, colon, name = run.partition(":")
    if not colon:
        return MAPS[run].run
    try:
        function: MapFunction = operator.attrgetter(name)(importlib.import_module(module))
    except Exception as error:
        raise ConfigError(f"{run}: cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ConfigError(f"{run}: is no function, but {type(function).__name__}")
    return function
