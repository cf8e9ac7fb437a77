"""How a build runs; nothing here changes its results. Without Beam, whose import not all commands should wait for."""

from __future__ import annotations

import dataclasses
import re

from tokcore.errors import ConfigError
from tokcore_pipelines.local.cores import count_cores


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """A host's share of a build that several hosts make together, without an engine."""

    number: int  # from 1
    of: int
    lease_s: float = 60.0  # a slice without a sign of life for this time is lost
    waits: bool = True  # whether it waits for what it needs of the others, or ends

    @property
    def spelled(self) -> str:
        return f"{self.number}/{self.of}"


# The engine that is Beam's own runner, in this process.
DIRECT = "direct"
_SLICE = re.compile(r"(\d{1,6})/(\d{1,6})")


def parse_slice(text: str, lease_s: float = 60.0, waits: bool = True) -> Slice:
    """The slice that --slice names. Raises ConfigError unless it is I/N, with I from 1 to N.

    >>> parse_slice("2/16").spelled
    '2/16'
    """
    found = _SLICE.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(
            f"--slice {text}: expected I/N with I from 1 to N, for example 2/16 for the second of 16 hosts"
        )
    if lease_s < 1:
        raise ConfigError(f"--lease {lease_s:g}: must be at least 1 second")
    return Slice(int(found[1]), int(found[2]), lease_s, waits)


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a build; no option changes its results."""

    workers: int | None = None  # processes, of `direct` threads; None: one per core this process may use
    runner: tuple[str, ...] = ()  # Beam's pipeline options, which ask for Beam; empty: this machine's workers
    detach: bool = False  # whether the job of an engine goes on when this process is interrupted
    engine: str = "local"  # engine.name of the build file
    web: str = ""  # HOST:PORT of the engine's own pages; empty: unknown
    share: Slice | None = None  # None: this process makes all of the build
    here: bool = False  # whether the calling thread does all work, without processes of its own and without Beam

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: must be at least 1")
        if self.share is not None and not self.is_local:
            raise ConfigError("--slice: hosts with slices need no engine. Leave out --runner and its options.")

    @property
    def num_workers(self) -> int:
        return count_cores() if self.workers is None else self.workers

    @property
    def is_local(self) -> bool:
        """Whether the processes or the thread of this machine do the work, without Beam."""
        return not self.runner

    def with_engine(self, name: str, web: str, options: tuple[str, ...]) -> RunOptions:
        """The same, on an engine; the local one needs no options. Raises ConfigError for what does not fit."""
        if not options:
            if self.detach and self.is_local:
                raise ConfigError("--detach: the local engine ends with this command. Name an engine, or leave it out.")
            return self
        if self.engine == name and self.runner[: len(options)] == options:
            return self  # they are there already: a part of an output is built with the options of the command
        if self.share is not None:
            raise ConfigError(f'--slice: engine.name = "{name}" has hosts of its own. Leave one of them out.')
        if any(option.split("=")[0] == "--runner" for option in self.runner):
            raise ConfigError("--runner: the build file or --engine names an engine already. Leave one of them out.")
        if name == DIRECT and self.detach:
            raise ConfigError(f"--detach: the {name} engine ends with this command. Name another, or leave it out.")
        if name != DIRECT and self.workers is not None:
            raise ConfigError("--workers: the engine starts the workers. Leave it out, or use the local engine.")
        for option in self.runner:
            if option.startswith(("--environment_type", "--environment_config", "--job_endpoint")):
                raise ConfigError(
                    f"{option.split('=')[0]}: engine.environment, engine.worker and engine.endpoint say it."
                )
        return dataclasses.replace(self, runner=(*options, *self.runner), engine=name, web=web)

    def with_more(self, options: tuple[str, ...]) -> RunOptions:
        """The same, with more of Beam's options; they replace earlier ones."""
        return dataclasses.replace(self, runner=(*self.runner, *options))
