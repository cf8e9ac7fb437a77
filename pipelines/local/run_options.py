"""How a build runs; nothing here changes its results. Without Beam, whose import not all commands should wait for."""

from __future__ import annotations

import dataclasses
import os

from tokcore.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a build; no option changes its results."""

    workers: int | None = None  # processes of the local runner; None: one per core this process may use
    runner: tuple[str, ...] = ()  # Beam pipeline options; empty: the local runner
    detach: bool = False  # whether the job of an engine goes on when this process is interrupted
    engine: str = "local"  # engine.name of the build file
    web: str = ""  # HOST:PORT of the engine's own pages; empty: unknown

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: must be at least 1")

    @property
    def num_workers(self) -> int:
        if self.workers is None:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.workers

    @property
    def is_local(self) -> bool:
        return not any(option.split("=")[0] == "--runner" for option in self.runner)

    def with_engine(self, name: str, web: str, options: tuple[str, ...]) -> RunOptions:
        """The same, on an engine. options: Beam's, for it. Raises ConfigError if there is a runner already."""
        if not options:
            return self
        if not self.is_local:
            raise ConfigError("--runner: the build file or --engine names an engine already. Leave one of them out.")
        if self.workers is not None:
            raise ConfigError("--workers: the engine starts the workers. Leave it out, or use the local engine.")
        for option in self.runner:
            if option.startswith(("--environment_type", "--environment_config", "--job_endpoint")):
                raise ConfigError(
                    f"{option.split('=')[0]}: engine.environment, engine.worker and engine.endpoint say it."
                )
        return dataclasses.replace(self, runner=(*options, *self.runner), engine=name, web=web)
