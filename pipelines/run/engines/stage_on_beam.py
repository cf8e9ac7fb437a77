"""What runs a stage by Beam: where it runs, and who is told what goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.recorded import Pieces
from tokcore_pipelines.store.attempts import Attempts


@dataclasses.dataclass(slots=True)
class StageOnBeam:
    """What runs a stage: where it runs, and who is told what goes on."""

    stage: str  # as commands call it
    attempts: Attempts
    pieces: Pieces
    options: RunOptions
    on_progress: OnProgress | None
    say: Callable[[str], None]
    metrics: dict[str, int] = dataclasses.field(default_factory=dict)  # what Beam measured, once the stage is done
