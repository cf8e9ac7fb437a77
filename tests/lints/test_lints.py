"""Each lint finds what it is for, in small trees; `make lint` lets all of them read ours."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lints import __main__ as program
from lints import code_from_data, import_graph, late_imports, layers, seeded_defects, stages
from lints.import_graph import NAMES
from lints.offence import Offence
from mutants.defect import Defect
from support.builds import ROOT

Tree = Callable[[dict[str, str]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files below a folder, by their paths; every room of pipelines is there."""

    def make(files: dict[str, str]) -> Path:
        rooms = {f"pipelines/{room}/__init__.py": "" for room in layers.ROOMS}
        for name, text in {**rooms, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize("module", [code_from_data, import_graph, late_imports, stages])
def test_examples_of_the_lints(module):
    assert doctest.testmod(module).failed == 0


# --------------------------------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"tokcore/a.py": "def f():\n    import apache_beam.io"},
            ["tokcore/a.py:2: tokcore may not import apache"],
        ),
        ({"tokcore/a.py": "from tokcore_schemas import b"}, ["tokcore/a.py:1: tokcore may not import tokcore_schemas"]),
        ({"schemas/a.py": "import time, json"}, ["schemas/a.py:1: schemas may not import time"]),
        ({"schemas/a.py": "from .b import c"}, ["schemas/a.py:1: imports .b.c, a relative name"]),
        (
            {"pipelines/store/a.py": "\nimport apache_beam"},
            ["pipelines/store/a.py:2: only run/engines, transforms of pipelines"],
        ),
        (
            {"pipelines/store/a.py": "def f():\n    from tokcore_pipelines.work import b", "pipelines/work/b.py": ""},
            ["pipelines/store/a.py:2: store may not import pipelines/work/b.py"],
        ),
        (
            {"pipelines/store/a.py": "from tokcore_pipelines.cli import main", "pipelines/cli.py": ""},
            ["pipelines/store/a.py:1: store may not import pipelines/cli.py"],
        ),
        (
            {
                "pipelines/store/a.py": "import tokcore_pipelines.store.b",
                "pipelines/store/b.py": "from tokcore_pipelines.store import a",
            },
            ["pipelines/store/a.py:1: imports itself in a circle: pipelines/store/a.py -> pipelines/store/b.py -> "],
        ),
        (
            {"tokcore/a.py": "def f():\n    import tokcore.b", "tokcore/b.py": "import tokcore.a"},
            ["tokcore/a.py:2: imports itself in a circle: tokcore/a.py -> tokcore/b.py -> tokcore/a.py"],
        ),
        ({"schemas/a.py": f"import {min(NAMES)}"}, [f"schemas/a.py:1: schemas may not import {min(NAMES)}"]),
        ({"pipelines/attic/a.py": ""}, ["pipelines/attic:1: the room attic is not in the table"]),
        ({f"pipelines/{name}.py": "" for name in "abcd"}, ["pipelines:1: 4 files have no room"]),
    ],
)
def test_imports_against_the_arrows(tree, files, found):
    shown = [str(offence) for offence in layers.find_offences(tree(files))]
    assert len(shown) == len(found)
    assert all(one.startswith(start) for one, start in zip(shown, found, strict=True)), shown


def test_imports_along_the_arrows(tree):
    files = {
        "tokcore/files/url_files.py": "import fsspec",
        "pipelines/run/engines/a.py": "import apache_beam\nfrom tokcore_pipelines.store.b import c\n"
        "from tokcore_pipelines.run.engines.d import e",
        "pipelines/run/engines/d.py": "import tokcore.learn.merges",
        "pipelines/store/b.py": "import tokcore_schemas.refs, time",
    }
    assert not list(layers.find_offences(tree(files)))


def test_all_offences_are_listed_at_once(tree):
    root = tree({"tokcore/a.py": "import click, fsspec\nimport pipelines", "schemas/b.py": "import socket"})
    assert [(one.path, one.line) for one in layers.find_offences(root)] == [
        ("schemas/b.py", 1),
        ("tokcore/a.py", 1),
        ("tokcore/a.py", 1),
        ("tokcore/a.py", 2),
    ]


# --------------------------------------------------------------------------------------------------------- late imports


def test_imports_in_functions_say_what_they_spare(tree):
    late = "def f():\n    {}from tokcore.a import b{}\n    import tokcore_schemas.c\n"
    files = {
        "pipelines/local/a.py": late.format("", ""),
        "pipelines/local/b.py": late.format("# Half a second.\n    ", ""),
        "pipelines/local/c.py": late.format("", "  # half a second"),
        "pipelines/local/d.py": "from tokcore.a import b\n\n\ndef f():\n    import os",
        "pipelines/local/e.py": "def f():\n    # Of the call.\n    g()\n    from tokcore.a import b",
    }
    found = [(one.path, one.line) for one in late_imports.find_offences(tree(files))]
    assert found == [("pipelines/local/a.py", 2), ("pipelines/local/a.py", 3), ("pipelines/local/e.py", 4)]


# ------------------------------------------------------------------------------------------------------- code from data


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "exec(text)",
        "compile(text, '', 'exec')",
        "__import__(name)",
        "os.system(text)",
        "import pickle",
        "from dill import loads",
        "import marshal as m",
        "yaml.load(f); import yaml",
        "np.load(path)",
        "read(path, allow_pickle=True)",
        "run(text, shell=True)",
        "importlib.import_module(name)",
        "import jinja2.sandbox",
    ],
)
def test_what_turns_data_into_code(tree, code):
    (offence,) = code_from_data.find_offences(tree({"pipelines/work/a.py": f"\n{code}"}), allowed={})
    assert (offence.path, offence.line) == ("pipelines/work/a.py", 2)


def test_what_is_harmless(tree):
    text = "re.compile(x); json.load(f); self.system(); 'eval(1)'  # exec()"
    assert not list(code_from_data.find_offences(tree({"tokcore/a.py": text}), allowed={}))


def test_what_is_allowed_is_there(tree):
    root = tree({"tokcore/a.py": "import pickle"})
    assert not list(code_from_data.find_offences(root, {"tokcore/a.py": {"import pickle"}}))
    (offence,) = code_from_data.find_offences(root, {"tokcore/a.py": {"import pickle", "eval()"}})
    assert offence.what == "eval() is gone"


# --------------------------------------------------------------------------------------------------------------- stages


@pytest.mark.parametrize(
    "code",
    [
        "if made.stage != 'mixed': pass",
        "'plan' in made",
        "stage in ('counts', other)",
        "made.stage == MIXED.name",
        "command == SHARDS.command",
        "match stage:\n    case 'shards': pass",
        "TIMED = ('plan', 'counts')",
        "{PLAN: one, SHARDS.name: other}",
        "[*STAGES, PLAN, 'mixed']",
    ],
)
def test_stages_asked_for_by_name(tree, code):
    (offence,) = stages.find_offences(tree({"pipelines/work/a.py": f"\n{code}"}), allowed={})
    assert offence.path == "pipelines/work/a.py"


def test_what_asks_for_no_stage_by_name(tree):
    text = "SHARDS.name in found; found['plan']; join(url, 'plan', name); one == 'planned'; (SHARDS, other)"
    table = {"schemas/stage_table.py": "(PLAN, SHARDS)", "pipelines/build/table.py": "{PLAN: a, SHARDS: b}"}
    assert not list(stages.find_offences(tree({"pipelines/work/a.py": text, **table}), allowed={}))


def test_places_that_are_allowed_are_counted(tree):
    root = tree({"pipelines/work/a.py": "(PLAN, SHARDS)"})
    assert not list(stages.find_offences(root, {"pipelines/work/a.py": 1}))
    (offence,) = stages.find_offences(root, {"pipelines/work/a.py": 2})
    assert offence.what == "has 1 of 2 such places"


# ------------------------------------------------------------------------------------------------------- seeded defects

SOUND = Defect("too-short", "a size is too small", "size", "n + 1", "n", ("tests/test_a.py::test_size",))
FILES = {"tokcore/a.py": "def size(n):\n    return n + 1\n", "tests/test_a.py": "def test_size():\n    pass\n"}


def test_a_sound_defect(tree):
    assert not list(seeded_defects.find_offences(tree(FILES), [SOUND]))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"where": "length"}, "does not apply: nothing is named length"),
        ({"old": "n + 2"}, "does not apply: size (tokcore/a.py) does not hold 'n + 2'"),
        ({"old": "n"}, "does not apply: tokcore/a.py: size holds 'n' 2 times"),
        ({"new": "n  + 1"}, "changes nothing"),
        ({"old": "return n + 1", "new": ""}, "is not Python: "),
        ({"tests": ()}, "names no test"),
        ({"tests": ("tests/test_b.py",)}, "names tests/test_b.py, which is no test"),
        ({"tests": ("tests/test_a.py::test_length",)}, "names tests/test_a.py::test_length, which is no test"),
    ],
)
def test_defects_that_do_not_fit(tree, change, what):
    root = tree({**FILES, "tests/mutants/defects/sizes.py": 'DEFECTS = (\n    Defect(\n        "too-short",\n'})
    (offence,) = seeded_defects.find_offences(root, [SOUND._replace(**change)])
    assert (offence.path, offence.line) == ("tests/mutants/defects/sizes.py", 3)
    assert offence.what.startswith(f"the defect too-short {what}")


def test_two_defects_of_one_name(tree):
    found = list(seeded_defects.find_offences(tree(FILES), [SOUND, SOUND]))
    assert [offence.what for offence in found] == ["the defect too-short shares its name"] * 2


# ---------------------------------------------------------------------------------------------------------- the program


def test_what_is_found_ends_with_exit_code_1(monkeypatch, capsys):
    found = [Offence("a.py", 3, "does what it may not", "Stop it"), Offence("b.py", 1, "does that, too", "Stop it")]
    monkeypatch.setattr(program, "LINTS", (lambda _root: found,))
    assert program.main() == 1
    assert capsys.readouterr().out == "a.py:3: does what it may not. Stop it\nb.py:1: does that, too. Stop it\n"
    monkeypatch.setattr(program, "LINTS", (lambda _root: [],))
    assert program.main() == 0


def test_make_lint_runs_them_all():
    for module in (layers, code_from_data, seeded_defects):
        assert module.find_offences in program.LINTS
    recipe = subprocess.run(["make", "--dry-run", "lint"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{Path(sys.executable).name} -m lints" in recipe.stdout
