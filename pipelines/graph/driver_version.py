"""The version that a driver tells its workers, as a Beam option: what must be equal for equal bytes."""

from __future__ import annotations

import argparse
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

import tokcore
from pipelines.work.semantics import SEMANTICS
from tokcore.canonical import hash_sha256, write_canonical_json

DRIVER_OPTION = "tokcore_driver"


class DriverOptions(PipelineOptions):
    """The option's declaration, which Beam asks for."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(f"--{DRIVER_OPTION}", help=argparse.SUPPRESS)


def describe_version() -> str:
    """The release, and a hash of what decides its bytes.

    >>> describe_version().startswith("tokcore ")
    True
    """
    semantics: Any = dict(SEMANTICS)
    return f"tokcore {tokcore.__version__} (semantics {hash_sha256(write_canonical_json(semantics))[:12]})"
