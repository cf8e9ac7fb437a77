"""`tokcore build`."""

from __future__ import annotations

import operator

from tokcore_pipelines.commands.command_options import ALL
from tokcore_pipelines.commands.run_stages import make_run_command
from tokcore_schemas.stage_table import BUILD, list_commands

build = make_run_command(
    BUILD,
    "built",
    operator.methodcaller("run"),
    tuple(list_commands()),
    (
        "tokcore build BUILD.toml",
        "tokcore build BUILD.toml --output out/second --from out/first",
        "tokcore build BUILD.toml --set learn.vocab_size=65536 --replace learn",
        "tokcore build BUILD.toml --slice 2/16",
        "tokcore build BUILD.toml -- --runner=FlinkRunner --parallelism=64",
    ),
    (ALL,),
)
