"""Lets `tokcore_pipelines.build(...)` and `check(...)` be calls, though folders of these names are there, too.

Importing a module of such a folder sets an attribute of the package to the folder's own module. So that module is made
callable; it stays an ordinary module otherwise.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

ROOMS = frozenset({"build", "check"})


class CallableRoom(ModuleType):
    # The module of a folder, which can be called as the function of that name, and has its docstring and signature.

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _find_function(self)(*arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        # So that a process that is spawned may be told to call it.
        return import_module, (self.__name__,)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return str(_find_function(self).__doc__)

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(_find_function(self))


class Package(ModuleType):
    """The module of the package, which makes rooms callable when they are bound to its names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ROOMS and type(value) is ModuleType:
            value.__class__ = CallableRoom
        super().__setattr__(name, value)


def _find_function(room: ModuleType) -> Any:
    # Rooms are imported before the calls, which import rooms.
    from tokcore_pipelines.api import calls

    return getattr(calls, room.__name__.rpartition(".")[2])
