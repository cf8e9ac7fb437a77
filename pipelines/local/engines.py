"""Engines with hosts of their own: what [engine] says, as Beam's options, and what such hosts cannot see. No Beam.

Every engine but the local one runs the same functions in worker processes that it starts itself, through the program
`tokcore-worker`. Never in threads of the driver: a LOOPBACK environment is refused.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore_pipelines.local.dataflow import NAME as DATAFLOW
from tokcore_pipelines.local.dataflow import (
    NO_PACKAGE_LIST,
    make_dataflow_options,
    refuse_settings_of_dataflow,
    require_staging,
)
from tokcore_pipelines.local.run_options import DIRECT
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.config import BuildConfig

WORKER = "tokcore-worker"
_DEFAULT_ENDPOINTS = {"flink": "127.0.0.1:8099", "prism": "127.0.0.1:8073"}
_ENDPOINT = re.compile(r"(?P<host>[^\s:/]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
_HERE = ("local", DIRECT)  # on this machine alone
_FLINK_PORT = 8081  # of its REST interface
_CONNECT_S = 5


def make_engine_options(engine: EngineTable) -> tuple[str, ...]:
    """Beam's options for that engine; none for the local one. Raises ConfigError for settings that do not fit.

    >>> make_engine_options(EngineTable())
    ()
    """
    if engine.name == DATAFLOW:
        return make_dataflow_options(engine)
    refuse_settings_of_dataflow(engine)
    if engine.name in _HERE:
        _refuse_settings_of_others(engine)
        return ("--runner=FnApiRunner",) if engine.name == DIRECT else ()
    endpoint = engine.endpoint or _DEFAULT_ENDPOINTS.get(engine.name)
    if endpoint is None:
        raise ConfigError(f'engine.endpoint: missing. engine.name = "{engine.name}" needs HOST:PORT of its job server')
    _parse_endpoint("engine.endpoint", endpoint)
    options = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", NO_PACKAGE_LIST]
    if engine.environment == "external":
        if engine.worker is None:
            raise ConfigError('engine.worker: missing. engine.environment = "external" needs HOST:PORT of the pool')
        _parse_endpoint("engine.worker", engine.worker)
        options += ["--environment_type=EXTERNAL", f"--environment_config={engine.worker}"]
    else:
        command = engine.worker or find_worker_program()
        options += ["--environment_type=PROCESS", f"--environment_config={json.dumps({'command': command})}"]
    if engine.parallelism is not None:
        options.append(f"--parallelism={engine.parallelism}")
    if engine.processes is not None:
        options.append(f"--sdk_worker_parallelism={engine.processes}")
    return tuple(options)


def find_web(engine: EngineTable) -> str:
    """HOST:PORT of the engine's own pages, which of Flink are its REST interface, too; empty if unknown.

    Raises ConfigError for anything else in engine.web.

    >>> find_web(EngineTable(name="flink", endpoint="jobs.example:8099"))
    'jobs.example:8081'
    """
    if engine.web is not None:
        _parse_endpoint("engine.web", engine.web)
        return engine.web
    if engine.name != "flink":
        return ""
    endpoint = engine.endpoint or _DEFAULT_ENDPOINTS[engine.name]
    return f"{endpoint.rpartition(':')[0]}:{_FLINK_PORT}"


def find_worker_program() -> str:
    """The path of tokcore-worker, beside the interpreter that runs. Raises ConfigError if it is not there."""
    path = Path(sysconfig.get_path("scripts")) / WORKER
    if not os.access(path, os.X_OK):
        raise ConfigError(
            f"{path}: the program that starts workers is not there. Install tokcore with pip, or say in engine.worker "
            f"where it is on the engine's hosts"
        )
    return str(path)


def do_without_kernel() -> None:
    """Where the kernel is missing, have this process use the slow one: workers do all that takes long."""
    if kernel.list_available() == ("reference",):
        os.environ.setdefault("TOKCORE_KERNEL", "reference")


def require_job_server(engine: EngineTable) -> None:
    """Raise ConfigError, within seconds, if nothing listens where the engine's job server should be.

    Dataflow's is Google's; there the bucket for staging must be there.
    """
    endpoint = engine.endpoint or _DEFAULT_ENDPOINTS.get(engine.name)
    if engine.name == DATAFLOW:
        require_staging(engine)
    if engine.name in _HERE or endpoint is None:
        return
    host, port = _parse_endpoint("engine.endpoint", endpoint)
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        raise ConfigError(
            f"engine.endpoint = {endpoint}: no job server of {engine.name} answers ({error.strerror or error}). "
            f"Start it, or name the one that runs"
        ) from error


def refuse_local_paths(config: BuildConfig, output: str) -> None:
    """Raise ConfigError for an output or inputs that the hosts of the engine cannot see, unless they share them."""
    refuse_unseen(config.engine, _list_paths(config, output))


def refuse_unseen(engine: EngineTable, named: Iterable[tuple[str, str]]) -> None:
    """Raise ConfigError for a URL that the hosts of the engine cannot see. named: (how it was named, URL)."""
    if engine.name in _HERE:
        return
    for key, url in named:
        if urls.find_scheme(url) == "memory":
            raise ConfigError(f"{key} = {url}: the memory of one process, which workers cannot see.")
        if urls.is_local(url) and not engine.shared_filesystem:
            shared = "; or say --shared-filesystem if all its hosts see this path"
            raise ConfigError(
                f'{key} = {redact(url)}: a path of this machine, and engine.name = "{engine.name}" has hosts of '
                f"its own. Name a URL of a store{'' if engine.name == DATAFLOW else shared}"
            )


def _list_paths(config: BuildConfig, output: str) -> Iterator[tuple[str, str]]:
    yield "build.output", output
    for i, source in enumerate(config.sources):
        for pattern in source.files:
            yield f"source[{i}].files", urls.resolve(config.base, pattern)


def _refuse_settings_of_others(engine: EngineTable) -> None:
    for key in ("endpoint", "parallelism", "processes", "worker", "web", "checkpoints"):
        if getattr(engine, key) is not None:
            raise ConfigError(
                f'engine.{key}: the {engine.name} engine has none. Name another (engine.name = "prism"), or remove it; '
                f"--workers says how many processes, or threads, it has"
            )


def _parse_endpoint(key: str, endpoint: str) -> tuple[str, int]:
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ConfigError(f"{key} = {endpoint!r}: expected HOST:PORT, for example 127.0.0.1:8099")
    return found["host"].strip("[]"), int(found["port"])
