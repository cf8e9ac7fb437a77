"""No source of the packages turns bytes or strings into code, or hands them to a shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from lints.import_graph import find_python
from lints.offence import Offence
from support.source import nodes_of

CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "execfile"}
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jinja2", "mako", "code", "runpy"}
MODULES |= {"subprocess", "pty", "ctypes", "joblib", "torch"}
NUMPY_CALLS = {"load", "fromfile", "loadtxt", "genfromtxt"}
KEYWORDS = {"shell", "allow_pickle", "trust_remote_code", "weights_only"}
# Arrays that become tensors. The pipes of a machine's workers, which no other process can write to; modules that its
# command line names; processes that read columns; a function of the C library, by its name; from tables: public names
# of packages, earlier names of modules, and modules of commands. What [[map]] names, if --allow-code says so.
ALLOWED = {
    "pipelines/commands/command_table.py": {"import_module()"},
    "pipelines/run/engines/boot_worker.py": {"import subprocess"},
    "pipelines/local/pool.py": {"import pickle", "import subprocess"},
    "pipelines/local/worker.py": {"import pickle", "import_module()"},
    "pipelines/reading/column_reader.py": {"import subprocess"},
    "pipelines/reading/map_again.py": {"import subprocess"},
    "pipelines/local/free_memory.py": {"import ctypes"},
    "pipelines/__init__.py": {"import_module()"},
    "tokcore/__init__.py": {"import_module()"},
    "tokcore/earlier_names.py": {"import_module()"},
    "tokcore/plugins/map_step.py": {"import_module()"},
    "tokcore/testing/map_tests.py": {"import subprocess"},
    "tokcore/tokenizer/model_inputs.py": {"import torch"},
}


def find_offences(root: Path, allowed: Mapping[str, set[str]] = ALLOWED) -> Iterator[Offence]:
    """All such places of the three packages that are not allowed, and what is allowed but no longer there."""
    for path in find_python(root):
        found = list(code_from_data((root / path).read_text()))
        known = allowed.get(path, set())
        for what, line in found:
            if what not in known:
                yield Offence(path, line, f"{what} can turn data into code", "Read the data with a parser of its own")
        for what in sorted(known - {what for what, _ in found}):
            yield Offence(path, 1, f"{what} is gone", "Take it out of ALLOWED in tests/lints/code_from_data.py")


def code_from_data(text: str) -> Iterator[tuple[str, int]]:
    """(what, line) of each call, import or argument that can turn data into code.

    >>> list(code_from_data("import json\\neval(text)"))
    [('eval()', 2)]
    """
    for node in nodes_of(text):
        if isinstance(node, ast.Import):
            packages = {alias.name.split(".")[0] for alias in node.names}
            yield from ((f"import {name}", node.lineno) for name in sorted(packages & MODULES))
        elif isinstance(node, ast.ImportFrom) and (package := (node.module or "").split(".")[0]) in MODULES:
            yield f"import {package}", node.lineno
        elif isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            owner = getattr(getattr(function, "value", None), "id", "")
            if name in CALLS and (not owner or owner in ("os", "builtins")):
                yield f"{name}()", node.lineno
            if owner in ("np", "numpy") and name in NUMPY_CALLS:
                yield f"np.{name}()", node.lineno
            if name == "import_module":
                yield "import_module()", node.lineno
            yield from ((f"{one.arg}=", node.lineno) for one in node.keywords if one.arg in KEYWORDS)
