"""How far something is, for those who wait: told to a function, or shown as a bar in a notebook or on a terminal."""

from __future__ import annotations

import contextlib
import html
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_SECONDS = 0.2  # between two looks
_WIDTH = 24  # of the bar on a terminal, in characters


class Step(NamedTuple):
    """How far a stage is.

    >>> Step("count", 50, 200, "documents").text
    ' 25%  50 of 200 documents'
    """

    stage: str
    done: int
    total: int | None  # None if it is not known
    unit: str

    @property
    def text(self) -> str:
        """In words."""
        if not self.total:
            return f"{self.done:,} {self.unit}"
        return f"{self.share:4.0%}  {self.done:,} of {self.total:,} {self.unit}"

    @property
    def share(self) -> float | None:
        """From 0 to 1; None if it is not known."""
        return min(self.done / self.total, 1.0) if self.total else None


Tell = Callable[[Step], None]


def find_teller(progress: Tell | bool | None) -> Tell | None:
    """The callback that is told of progress. True: a bar, in a notebook or on stderr; None or False: none."""
    if progress is True:
        shown: NotebookBar | _TerminalBar = NotebookBar() if is_notebook() else _TerminalBar()
        return lambda step: shown.show(step.stage, step.share, step.text)
    return progress or None


@contextlib.contextmanager
def telling(tell: Tell | None, stage: str, total: int | None, unit: str, done: Callable[[], int]) -> Iterator[None]:
    """Tell how much is done while the block runs, from a thread of its own; at its end, once more, from this one."""
    if tell is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS):
            tell(Step(stage, done(), total, unit))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
    tell(Step(stage, done(), total, unit))


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar below the cell of a notebook. It is one output, which changes."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._last: tuple[str, float | None, str] | None = None

    def show(self, stage: str, share: float | None, text: str) -> None:
        """Show how far a stage is. share: from 0 to 1; None if it is not known."""
        if (stage, share, text) == self._last:
            return
        self._last = stage, share, text
        of = "" if share is None else f' value="{share:.3f}"'
        said = f"{html.escape(stage)} {html.escape(text)}"
        content = {
            "text/plain": f"{stage} {text}",
            "text/html": f'<progress max="1"{of} aria-label="{html.escape(stage)}"></progress> <code>{said}</code>',
        }
        if self._shown is None:
            self._shown = _display(content)
        else:
            self._shown.update(content, raw=True)


def _display(content: dict[str, str]) -> Any:
    from IPython.display import display

    return display(content, raw=True, display_id=True)


class _TerminalBar:
    """A line on stderr, written again and again on a terminal; elsewhere one at the end of each stage."""

    def __init__(self) -> None:
        self._is_open = False  # whether the line on a terminal is not ended

    def show(self, stage: str, share: float | None, text: str) -> None:
        full = round((share or 0) * _WIDTH)
        line = f"{stage:<8} {'━' * full + '─' * (_WIDTH - full)} {text}"
        is_done = share == 1.0
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if is_done else ""))
            self._is_open = not is_done
        elif is_done:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
