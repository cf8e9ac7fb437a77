"""What Beam warns of in this process, said once each. Failures are raised, so they are not logged as well."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tokcore_pipelines.store.redaction import redact

# Of threads, which we ask for on purpose: they wait for our own worker processes. And of options that only a job server
# knows: run/engines/runner.py refuses unknown ones.
_NO_NEWS = ("If direct_num_workers is not equal to 1", "Unparseable argument: ")
# What Beam tries again it tells with a stack trace.
_TRACE = re.compile(r"\s*\n\s*Traceback ")


@contextmanager
def tell_warnings(say: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, say what Beam's logger warns of."""
    logger = logging.getLogger("apache_beam")
    handler = _Teller(say)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.CRITICAL)  # threads that are left may still log the failure that is raised


class _Teller(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = redact(_TRACE.split(record.getMessage())[0])
        is_news = record.levelno == logging.WARNING and not text.startswith(_NO_NEWS)
        if is_news and text not in self._said:
            self._said.add(text)
            self._say(f"warning: Beam: {text}")
