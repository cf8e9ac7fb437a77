"""The server of `tokcore view`, in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.vocabularies import published_tokenizer

import tokcore
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.look.view.server import ViewServer
from tokcore_pipelines.look.view.shelf import Volume


@contextmanager
def serving(outputs: dict[str, Path]) -> Iterator[ViewServer]:
    """A server of these outputs, by name, with r50k as the last tokenizer."""
    shelf = [Volume(name, tokcore.Tokenizer.load(output), read_output(str(output))) for name, output in outputs.items()]
    server = ViewServer((*shelf, Volume("r50k", published_tokenizer("r50k"))))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
