"""How the transforms of a graph reach the worker processes of the local runner, which run in the process that they do.

Beam copies a graph before it runs it. What all copies share goes by Beam's own `Shared`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from apache_beam.utils.shared import Shared

from pipelines.local.pool import Pool
from tokcore.errors import StageError

T = TypeVar("T")


class SharedPool:
    """A pool of this process, for as long as this object lives. Copies that Beam makes lead to the same pool."""

    def __init__(self, pool: Pool) -> None:
        self._shared = Shared()
        self._pool: Pool | None = self._shared.acquire(lambda: pool)

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared, "_pool": None}

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments) in a worker process. Raises as Pool.run, StageError if the pool is not in this process.

        It never runs right here: that would hide that the work is done in the wrong place.
        """
        pool: Pool | None = self._shared.acquire(lambda: None)
        if pool is None:
            raise StageError("the worker processes of the local runner are not in this process. Run the build again.")
        return pool.run(function, *arguments)
