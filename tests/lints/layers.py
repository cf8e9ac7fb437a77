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
    "commands": {
        "inspect",
        "local",
        "report",
        "stages",
        "store",
        "view",
        "watch",
        "print_build.py",
        "print_check.py",
        "print_log.py",
        "print_reports.py",
        "show.py",
        "show_document.py",
    },
    "stages": {"graph", "local", "reading", "run", "slices", "store", "work"},
    "graph": {"local", "store", "work"},
    "run": {"graph", "local", "slices", "store", "work"},
    "slices": {"local", "store", "work"},
    "work": {"local", "reading", "store"},
    "reading": {"store"},
    "store": set(),
    "local": {"store"},
    "inspect": {"local", "reading", "stages", "store", "work"},
    "report": {"inspect", "local", "stages", "store"},
    "view": {"inspect", "report", "stages", "store"},
    "watch": {"graph", "local", "stages", "store", "work"},
}
BEAM = "apache_beam"
BEAMS_ROOM = "graph"
MOST_FILES_WITHOUT_A_ROOM = 15


def find_offences(root: Path) -> Iterator[Offence]:
    """All imports against the arrows, in files of the three packages; rooms that the table does not know; circles."""
    graph = product_graph(root)
    for path in find_python(root):
        yield from _against_layers(root, path)
        room = path.split("/")[1]
        if path.startswith("pipelines/") and room in ROOMS:
            for imported in sorted(graph[path]):
                reached = imported.removeprefix("pipelines/").split("/")[0]
                if imported.startswith("pipelines/") and reached not in {room, "__init__.py", *ROOMS[room]}:
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


def _against_layers(root: Path, path: str) -> Iterator[Offence]:
    layer, _, inner = path.partition("/")
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
        elif package == BEAM and not inner.startswith(f"{BEAMS_ROOM}/"):
            what = f"only pipelines/{BEAMS_ROOM} may import {BEAM}"
            yield Offence(path, line, what, "Every worker would wait a second for it: move the transform there")


def _unknown_rooms(root: Path) -> Iterator[Offence]:
    pipelines = root / "pipelines"
    # git leaves the empty folder of a room that another branch has.
    folders = {path.parent.relative_to(pipelines).parts[0] for path in pipelines.glob("*/**/*.py")}
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
