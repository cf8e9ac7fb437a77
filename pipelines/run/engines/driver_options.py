"""What a driver tells the workers of an engine, as Beam options: its version, and where the stores are found."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import tokcore
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore_pipelines.store import options as storage_options
from tokcore_pipelines.store.allowed_code import allow_code, is_code_allowed
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_pipelines.work.worker_notes import greet

DRIVER_OPTION = "tokcore_driver"
_STORAGE_OPTION = "tokcore_storage"
_CODE_OPTION = "tokcore_allow_code"
_GREETINGS_OPTION = "tokcore_greetings"


class DriverOptions(PipelineOptions):
    """The options' declaration, which Beam asks for."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        for name in (DRIVER_OPTION, _STORAGE_OPTION, _CODE_OPTION, _GREETINGS_OPTION):
            parser.add_argument(f"--{name}", help=argparse.SUPPRESS)


def tell_workers(options: PipelineOptions) -> None:
    """Put what workers are told into the options of a pipeline. It holds no secrets, as [storage] does not."""
    told = options.view_as(DriverOptions)
    setattr(told, DRIVER_OPTION, describe_version())
    setattr(told, _STORAGE_OPTION, storage_options.export_options())
    setattr(told, _CODE_OPTION, "yes" if is_code_allowed() else "")


def ask_for_greetings(options: PipelineOptions, folder: str) -> None:
    """Have the workers say in that folder that they have started, or why they refuse."""
    setattr(options.view_as(DriverOptions), _GREETINGS_OPTION, folder)


def answer_driver(options: Mapping[str, Any]) -> None:
    """Follow the driver, and say so where it asks for it. Raises as follow_driver does, after saying why."""
    folder = str(_find_option(options, _GREETINGS_OPTION) or "")
    try:
        follow_driver(options)
    except ConfigError as error:
        if folder:
            # Of another release, so it may not even understand where the stores are. The engine's log has the error.
            with contextlib.suppress(Exception):
                _take_storage(options)
                greet(folder, describe_version(), str(error))
        raise
    if folder:
        greet(folder, describe_version())


def follow_driver(options: Mapping[str, Any]) -> None:
    """Use the stores as the driver does. options: those of a job, as an engine tells them.

    Raises ConfigError if the driver's version is not this worker's: its work might have other bytes.
    """
    driver = _find_option(options, DRIVER_OPTION)
    ours = describe_version()
    if driver != ours:
        raise ConfigError(
            f"the driver is {driver or 'an older or no tokcore'}, and this worker is {ours}: equal builds need equal "
            f"code. Install the same release of tokcore, of Python and of Beam for the driver and for all workers."
        )
    _take_storage(options)
    allow_code(_find_option(options, _CODE_OPTION) == "yes")


def _take_storage(options: Mapping[str, Any]) -> None:
    storage_options.take_options(str(_find_option(options, _STORAGE_OPTION) or ""))


def _find_option(options: Mapping[str, Any], name: str) -> Any:
    """An option of a job: Beam's job API gives it a URN, and Dataflow puts all of them into one table."""
    table = options.get("options")
    return table.get(name) if isinstance(table, Mapping) else options.get(f"beam:option:{name}:v1")


def describe_version() -> str:
    """The release, a hash of what decides its bytes, Python's and Beam's: a graph holds bytecode, and Beam's pickles.

    >>> describe_version().startswith("tokcore ")
    True
    """
    semantics: Any = dict(SEMANTICS)
    versions = f"Python {sys.version_info.major}.{sys.version_info.minor}, Beam {beam.__version__}"
    return f"tokcore {tokcore.__version__} (semantics {hash_sha256(write_canonical_json(semantics))[:12]}, {versions})"
