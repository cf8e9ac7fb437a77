"""What a worker that Beam's own starter (`boot`) started does first: it answers the driver, as `tokcore-worker` does.

Beam's worker imports the modules that the options of a job name as plugins, before it serves; this is one of them. So
an image whose entry point is `boot` serves a build, too. A driver of another release ends the worker here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from apache_beam.portability.api import endpoints_pb2
from google.protobuf import text_format

from tokcore.errors import TokError
from tokcore_pipelines.run.engines.driver_options import answer_driver
from tokcore_pipelines.work.worker_notes import SERVES

_CONTROL = "CONTROL_API_SERVICE_DESCRIPTOR"


def answer_as_worker(variables: Mapping[str, str]) -> str:
    """Answer the driver, with what the starter left in these variables; the URL of the engine that the worker serves.

    Empty, with nothing done, where no worker starts, or where tokcore-worker did it. Exits if the driver is refused.
    """
    if _CONTROL not in variables or SERVES in variables:
        return ""
    file = variables.get("PIPELINE_OPTIONS_FILE")
    options = json.loads(Path(file).read_bytes() if file else variables.get("PIPELINE_OPTIONS", "{}"))
    try:
        answer_driver(options)
    except TokError as error:
        sys.exit(f"tokcore: {error}")
    return str(text_format.Parse(variables[_CONTROL], endpoints_pb2.ApiServiceDescriptor()).url)


if _serves := answer_as_worker(os.environ):
    os.environ[SERVES] = _serves
