"""The commands that make one stage each, by its row of the table of stages."""

from __future__ import annotations

import click

from tokcore_pipelines.commands.count import count
from tokcore_pipelines.commands.encode import encode
from tokcore_pipelines.commands.learn import learn
from tokcore_pipelines.commands.run_stages import make_stage_command
from tokcore_schemas.stage_table import STAGES

_WITH_MORE = (count, learn, encode)


def find_stage_command(name: str) -> click.Command:
    """The command of this name: one that does more than make its stage, or one that its row makes."""
    found = next((one for one in _WITH_MORE if one.name == name), None)
    return found or make_stage_command(next(stage for stage in STAGES.values() if stage.command == name))
