"""tokcore <- schemas <- pipelines: who may import whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lints.import_graph import NAMES, find_circle, find_python, imports_of, module_of, product_graph
from lints.offence import Offence

# What no layer below pipelines may import: keeping it out is a promise (import tokcore in a trainer), or it belongs
# in one place of pipelines.
OUTSIDE = {"apache_beam", "fsspec", "socket", "urllib", "http", "time", "datetime", "click"}
# Exceptions: imported only when a user asks for it, as open_shards of a URL does.
DOORS = {"tokcore/files/url_files.py": {"fsspec"}}
FORBIDDEN = {
    "tokcore": {*NAMES, *NAMES.values(), *OUTSIDE},
    "schemas": {*NAMES, "tokcore_pipelines", *OUTSIDE},
    "pipelines": set(NAMES),  # the folders' own names: a second copy of each module
}
# Developers' tools, which are not part of the package.
TOOLS = ("generate_unicode_tables.py",)

# Who may import whom inside pipelines: each folder, and what it may reach. The command line and the reports are on top.
ROOMS = {
    "api": {"begin", "build", "check", "history", "local", "look", "look/report", "store"},
    "commands": {
        "begin",
        "build",
        "check",
        "history",
        "local",
        "look",
        "look/report",
        "look/view",
        "run/engines",
        "store",
        "watch",
        "work",
    },
    "watch": {"build", "history", "local", "run/engines", "store", "work"},
    "look/view": {"build", "look", "look/report", "store"},
    "look/report": {"build", "local", "look", "store"},
    "look": {"build", "history", "local", "store", "work"},
    "check": {"build", "history", "local", "run", "run/slices", "store", "work"},
    "begin": {"build", "local", "reading", "store", "work"},
    "history": {"build", "local", "store", "work"},
    "build": {"local", "reading", "run", "run/engines", "run/slices", "store", "work"},
    "run": {"local", "run/engines", "run/slices", "store", "work"},
    "run/slices": {"local", "store"},
    "transforms": {"run/engines", "store", "work"},
    "run/engines": {"local", "store", "work"},
    "work": {"local", "reading", "store"},
    "reading": {"store"},
    "local": {"store"},
    "store": set(),
}
BEAM = "apache_beam"
BEAMS_ROOMS = ("run/engines", "transforms")
MOST_FILES_WITHOUT_A_ROOM = 3


def find_offences(root: Path) -> Iterator[Offence]:
    """All imports against the arrows, in files of the three packages; rooms that the table does not know; circles."""
    graph = product_graph(root)
    for path in find_python(root):
        yield from _against_layers(root, path)
        room = _room_of(path)
        if path.startswith("pipelines/") and room in ROOMS:
            for imported in sorted(graph[path]):
                inside = imported.startswith("pipelines/") and not imported.endswith("/__init__.py")
                if inside and _room_of(imported) not in {room, *ROOMS[room]}:
                    yield Offence(
                        path,
                        _line_of(root, path, imported),
                        f"{room} may not import {imported}",
                        f"Move what both need into a room that {room} may import ({_listed(ROOMS[room])}), or pass it",
                    )
    yield from _unknown_rooms(root)
    for package in ("tokcore", "pipelines"):
        circle = find_circle(
            {
                path: imported - {f"{package}/__init__.py"}
                for path, imported in graph.items()
                if path.startswith(f"{package}/")
            }
        )
        if not circle:
            continue
        yield Offence(
            circle[0],
            _line_of(root, circle[0], circle[1]),
            f"imports itself in a circle: {' -> '.join(circle)}",
            "Move what they share into a module of its own",
        )


def _room_of(path: str) -> str:
    """The folder below pipelines/: `look/report` is a room of its own. Of files at the top, nothing."""
    return path.partition("/")[2].rpartition("/")[0]


def _against_layers(root: Path, path: str) -> Iterator[Offence]:
    layer = path.partition("/")[0]
    if path.endswith(TOOLS):
        return
    allowed = DOORS.get(path, set())
    for name, line in imports_of((root / path).read_text()):
        package = name.split(".")[0]
        if name.startswith("."):
            yield Offence(path, line, f"imports {name}, a relative name", "Write the whole name")
        elif package in FORBIDDEN[layer] - allowed:
            what = f"{layer} may not import {package}"
            yield Offence(path, line, what, "Let pipelines do it, and pass what comes of it")
        elif package == BEAM and _room_of(path) not in BEAMS_ROOMS:
            what = f"only {_listed(set(BEAMS_ROOMS))} of pipelines may import {BEAM}"
            yield Offence(path, line, what, "Every worker would wait a second for it: move the transform there")


def _unknown_rooms(root: Path) -> Iterator[Offence]:
    pipelines = root / "pipelines"
    # git leaves the empty folder of a room that another branch has.
    folders = {path.parent.relative_to(pipelines).as_posix() for path in pipelines.glob("*/**/*.py")}
    for room in sorted(folders ^ set(ROOMS)):
        what = f"the room {room} is {'not in the table' if room in folders else 'in the table, but not there'}"
        yield Offence(f"pipelines/{room}", 1, what, "Say in ROOMS of tests/lints/layers.py whom it may import")
    files = sorted(pipelines.glob("*.py"))
    if len(files) > MOST_FILES_WITHOUT_A_ROOM:
        what = f"{len(files)} files have no room; at most {MOST_FILES_WITHOUT_A_ROOM} may"
        yield Offence("pipelines", 1, what, "Move one into the room that it belongs to")


def _line_of(root: Path, path: str, imported: str) -> int:
    """The line where a file imports another one."""
    module = module_of(imported)
    lines = [one.line for one in imports_of((root / path).read_text()) if f"{one.name}.".startswith(f"{module}.")]
    return min(lines, default=1)


def _listed(rooms: set[str]) -> str:
    return ", ".join(sorted(rooms)) or "none"
