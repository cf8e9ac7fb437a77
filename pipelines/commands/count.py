"""`tokcore count`."""

from __future__ import annotations

import operator

from tokcore_pipelines.commands.run_stages import make_stage_command
from tokcore_schemas.stage_table import COUNTS, PLAN

count = make_stage_command(COUNTS, operator.methodcaller("count"), replaceable=(PLAN.command, COUNTS.command))
