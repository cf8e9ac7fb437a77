"""What a driver tells the workers of an engine, as Beam options: its version, and where the stores are found."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

import tokcore
from pipelines.store import options as storage_options
from pipelines.work.semantics import SEMANTICS
from tokcore.canonical import hash_sha256, write_canonical_json
from tokcore.errors import ConfigError

DRIVER_OPTION = "tokcore_driver"
_STORAGE_OPTION = "tokcore_storage"


class DriverOptions(PipelineOptions):
    """The options' declaration, which Beam asks for."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        for name in (DRIVER_OPTION, _STORAGE_OPTION):
            parser.add_argument(f"--{name}", help=argparse.SUPPRESS)


def tell_workers(options: PipelineOptions) -> None:
    """Put what workers are told into the options of a pipeline. It holds no secrets, as [storage] does not."""
    told = options.view_as(DriverOptions)
    setattr(told, DRIVER_OPTION, describe_version())
    setattr(told, _STORAGE_OPTION, storage_options.export_options())


def follow_driver(options: Mapping[str, Any]) -> None:
    """Use the stores as the driver does. options: those of a job, as an engine tells them.

    Raises ConfigError if the driver's version is not this worker's: its work might have other bytes.
    """
    driver = options.get(f"beam:option:{DRIVER_OPTION}:v1")
    ours = describe_version()
    if driver != ours:
        raise ConfigError(
            f"the driver is {driver or 'an older or no tokcore'}, and this worker is {ours}: equal builds need equal "
            f"code. Install the same release of tokcore for the driver and for all workers."
        )
    storage_options.take_options(str(options.get(f"beam:option:{_STORAGE_OPTION}:v1") or ""))


def describe_version() -> str:
    """The release, and a hash of what decides its bytes.

    >>> describe_version().startswith("tokcore ")
    True
    """
    semantics: Any = dict(SEMANTICS)
    return f"tokcore {tokcore.__version__} (semantics {hash_sha256(write_canonical_json(semantics))[:12]})"
