"""run.json: when, where and with which versions a stage ran.

No hash covers it, any release may have written it, and anyone may edit it. So it is read with tolerance, unlike a
manifest: fields that this release does not know are passed over, those that are missing are unknown. Nothing that
tokcore builds or verifies may depend on it; it explains, and spares a finished build a second look at its inputs.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

from tokcore.errors import FormatError
from tokcore.files.jsonable import Place, Read, from_jsonable


def _read_seconds(value: Any, place: Place) -> float | None:
    if value is None or type(value) in (int, float):
        return value  # type: ignore[no-any-return]
    raise place.error("a number", value)


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker process of an engine."""

    host: str = ""
    process: int = 0  # its id there
    started: Annotated[float | None, Read(_read_seconds)] = None  # seconds since 1970
    executable: str = ""
    ancestors: tuple[int, ...] = ()  # ids of the processes above it, its parent first
    serves: str = ""  # HOST:PORT of the engine's process that gave it work, for Flink a TaskManager
    items: int = 0  # work items that it did


@dataclasses.dataclass(frozen=True, slots=True)
class RunFacts:
    """What run.json says of how a stage ran; what is empty or None is unknown."""

    finished: str = ""  # time in ISO format, with its zone
    host: str = ""
    machine: str = ""
    process: int | None = None
    python: str = ""
    packages: dict[str, str | None] = dataclasses.field(default_factory=dict)  # None: not installed
    name: str = ""  # of the build
    base: str = ""  # the folder of the build file
    seconds: Annotated[float | None, Read(_read_seconds)] = None
    workers: int | None = None  # None for the workers of another runner
    kernel: str = ""
    settings: str = ""  # of a build: BuildConfig.hash_settings
    processes: tuple[WorkerProcess, ...] = ()  # of an engine

    def to_bytes(self) -> bytes:
        """The content of run.json."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True).encode() + b"\n"


def parse_run_facts(data: bytes, name: str) -> RunFacts:
    """The facts in a run.json, called name in errors. Raises FormatError if it is no JSON, or a field is mistyped."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: no JSON: {error}") from error
    return from_jsonable(RunFacts, value, name, partial=True)
