"""What an engine says of a failed job, in one line: engines print stack traces of Python, Java and Go."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last)"  # Python's, which a Java one may hold
_CAUSED_BY = "Caused by: "
_MAX_CHARACTERS = 300


def shorten_failure(text: str) -> str:
    """The line that names the cause, at most 300 characters of it; the first line if there is no stack trace.

    >>> shorten_failure("a.B: failed\\n  at c.D(D.java:1)\\nCaused by: e.F: gone\\n  at g.H(H.java:2)")
    'e.F: gone'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    cause = _find_in_python(lines) or _find_in_java(lines) or (lines[0].strip() if lines else "")
    return cause if len(cause) <= _MAX_CHARACTERS else f"{cause[:_MAX_CHARACTERS]} ..."


def _find_in_python(lines: list[str]) -> str:
    """The first line after the last traceback's frames, which are indented; empty if there is no traceback."""
    last = max((number for number, line in enumerate(lines) if _TRACEBACK in line), default=len(lines))
    return next((line for line in lines[last + 1 :] if not line[0].isspace()), "")


def _find_in_java(lines: list[str]) -> str:
    """The innermost cause; empty if none is named."""
    causes = [line.strip() for line in lines if line.strip().startswith(_CAUSED_BY)]
    return causes[-1].removeprefix(_CAUSED_BY) if causes else ""
