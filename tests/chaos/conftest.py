"""Fixtures: a process that builds, and an undisturbed build of the schedules' corpus. Every file has these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.schedules import SETTINGS, SOURCES, corpus
from chaos.server import Warm
from support.builds import build_file


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    client = Warm()
    yield client
    client.close()


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus(folder)
    return build_file(folder, SOURCES, SETTINGS.format(vocab_size=300))


@pytest.fixture(scope="session")
def undisturbed(path: Path, warm: Warm) -> dict[str, int]:
    """How often an undisturbed build comes to each crash point and piece of work. Its output is `out` beside path."""
    return dict(warm.build(path, path.parent / "out", hostility=0)["visits"])
