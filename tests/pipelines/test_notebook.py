"""The notebook of builds from Python runs in a kernel, shows its bars, and gives what its text promises."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builds import ROOT

NOTEBOOK = ROOT / "pipelines" / "api" / "notebook.ipynb"
SECONDS = 120  # for a cell


class Kernel:
    """A kernel of Jupyter with this Python, which runs cells as a notebook does."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONWARNINGS": "default"})
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def run(self, source: str) -> list[dict[str, Any]]:
        """What a cell shows, in order: the content of its messages, with their type as `kind`."""
        shown: list[dict[str, Any]] = []

        def hear(message: dict[str, Any]) -> None:
            shown.append({"kind": message["msg_type"], **message["content"]})

        self.client.execute_interactive(source, timeout=SECONDS, output_hook=hear, allow_stdin=False)
        return shown

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's own libraries
        made = Kernel(tmp_path)
        yield made
        made.close()


def list_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def list_bars(shown: list[dict[str, Any]]) -> list[str]:
    """The text of each bar, as it came: the first is shown, the others change it."""
    kinds = ("display_data", "update_display_data")
    return [
        one["data"]["text/plain"] for one in shown if one["kind"] in kinds and "<progress" in one["data"]["text/html"]
    ]


def test_the_notebook_runs_and_shows_bars(kernel):
    shown = [kernel.run(source) for source in list_cells()]
    errors = [one["traceback"] for cell in shown for one in cell if one["kind"] == "error"]
    assert not errors, "\n".join(errors[0])
    results = [one["data"]["text/plain"] for cell in shown for one in cell if one["kind"] == "execute_result"]
    assert results == ["(2, 11)", "b'low lower lowest<|endoftext|>'", "True", "()", "True"]
    build = list_bars(shown[1])
    assert [name for name in ("count", "learn", "encode") if any(bar.startswith(name) for bar in build)] == [
        *("count", "learn", "encode"),
    ]
    assert sum(one["kind"] == "display_data" for one in shown[1]) == 1, "one bar, which changes"
    assert any(bar.startswith("learn 100%") for bar in list_bars(shown[-1]))
