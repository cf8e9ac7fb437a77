"""Python files as trees of syntax, each parsed once."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@functools.cache
def parse(text: str) -> ast.Module:
    """The tree of a file's text; nobody may change it, because everybody gets the same."""
    return ast.parse(text)


@functools.cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of that tree, as ast.walk gives them."""
    return tuple(ast.walk(parse(text)))


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """For who reads all files: their trees hold no garbage, and looking for some takes as long as all else."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
