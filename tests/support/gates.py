"""Holds the steps of workers (support.held_worker) until a test lets them pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
from support.drivers import Driver, wait_for
from support.held_worker import write_worker


class Gate:
    """The test's side. Use it as a context: all steps pass when the block ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        code = f"from support.held_worker import main\nmain({str(folder)!r})\n"
        self.option = f"engine.worker={write_worker(folder / 'worker', code)}"

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()

    def hold(self, step: str, after: int = 0) -> None:
        """Let the first `after` calls of the step pass, and no more."""
        (self.folder / f"hold-{step}").write_text(str(after))

    def release(self) -> None:
        """Let all pass from now on."""
        for path in self.folder.glob("hold-*"):
            path.unlink()

    def wait_until_held(self, step: str, driver: Driver) -> int:
        """The process id of a worker that waits. driver: the one that needs it; the wait ends when it does."""

        def find() -> int | None:
            driver.require_running()
            waiting = (int(path.name.split(".")[1]) for path in self.folder.glob(f"at-{step}.*"))
            return next((one for one in sorted(waiting) if psutil.pid_exists(one)), None)

        return wait_for(find, f"a worker at {step}", self.describe)

    def describe(self) -> str:
        """For messages: who came to the gate."""
        return f"files of the gate: {sorted(path.name for path in self.folder.iterdir())}"
