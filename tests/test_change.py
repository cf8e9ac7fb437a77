"""`make change` finds the tests that see a change, in small trees and in ours, and keeps within its budget."""

from __future__ import annotations

import doctest
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import change
import pytest
from change import PROOF, Seen, find_changed, has_reason, read_costs
from support import proof, seeing  # pytest would take tests_that_see for a test
from support.builds import ROOT
from support.seeing import READERS, count_steps
from support.source import no_search_for_garbage

FILES = {
    "tokcore/__init__.py": "",
    "tokcore/learn/merges.py": "from tokcore import kernel",
    "tokcore/kernel.py": "def load():\n    import tokcore._native",
    "pipelines/cli.py": 'TABLE = {"build": "build_commands"}\n'
    'import_module(f"tokcore_pipelines.commands.{TABLE[name]}")',
    "pipelines/commands/build_commands.py": "def build():\n    from tokcore_pipelines.build.build import run",
    "pipelines/commands/look_commands.py": "",
    "pipelines/build/build.py": "import tokcore.learn.merges",
    "pipelines/look/report/page.py": 'read("page_files/page.css")',
    "tests/conftest.py": "import support.server\n@pytest.fixture(autouse=True)\ndef warm(): pass",
    "tests/support/server.py": "import tokcore_pipelines.cli",
    "tests/support/builds.py": "from tokcore_pipelines.build.build import run",
    "tests/pipelines/conftest.py": "import pytest\nfrom support import builds\n@pytest.fixture\ndef output(): ...",
    "tests/pipelines/test_output.py": "def test_a(output): pass",
    "tests/pipelines/test_jobs.py": "def test_a(tmp_path): pass",
    "tests/pipelines/test_commands.py": "from tokcore_pipelines import cli",
    "tests/pipelines/test_page.py": "import tokcore_pipelines.look.report.page",
    "tests/tokcore/test_merges.py": "import tokcore.learn.merges",
    "tests/tokcore/helpers.py": "",
    "tests/tokcore/test_beside.py": "import helpers",
    "tests/schemas/test_full.py": 'ROOT / "deploy" / "examples" / "full.toml"',
    "tests/fuzz/test_fuzz.py": 'FOLDER / "regressions"',
    "tests/stores/test_s3.py": 'patch("tokcore_pipelines.build.build.run")',
}
ALL = {path for path in FILES if "/test_" in path}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("tests/tokcore/test_merges.py", {"tokcore/test_merges.py": 0}),
        ("tests/tokcore/helpers.py", {"tokcore/test_beside.py": 1}),
        ("pipelines/look/report/page.py", {"pipelines/test_page.py": 1}),
        # By its table, not by statements; and not the other file of that folder.
        ("pipelines/commands/build_commands.py", {"pipelines/test_commands.py": 2}),
        ("pipelines/commands/look_commands.py", {}),
        # A fixture that is named, a string, a function's import; test_jobs gets a warm process, and no more.
        (
            "pipelines/build/build.py",
            {"pipelines/test_output.py": 3, "pipelines/test_commands.py": 3, "stores/test_s3.py": 1},
        ),
        ("pipelines/look/report/page_files/page.css", {"pipelines/test_page.py": 2}),
        ("deploy/examples/full.toml", {"schemas/test_full.py": 1}),
        ("tests/fuzz/regressions/scan/ab", {"fuzz/test_fuzz.py": 1}),
        (
            "tests/pipelines/conftest.py",
            {f"pipelines/test_{name}.py": 1 for name in ("output", "jobs", "commands", "page")},
        ),
        ("tokcore/gone.py", {}),
        ("NOTICE", {}),
    ],
)
def test_who_sees_a_change(root, path, steps):
    assert count_steps([path], root) == {f"tests/{test}": count for test, count in steps.items()}


@pytest.mark.parametrize("path", ["pyproject.toml", "Makefile", "tests/conftest.py", "tests/support/server.py"])
def test_what_all_tests_see(root, path):
    assert seeing.tests_that_see([path], root) == ALL


def test_native_code_is_seen_through_its_door_and_by_what_compiles_it(root):
    steps = count_steps(["tokcore/native/kernel/learn/learner.cpp"], root)
    assert steps["tests/tokcore/test_merges.py"] == 2
    assert steps["tests/fuzz/test_fuzz.py"] == 1
    assert steps["tests/pipelines/test_commands.py"] == 5
    assert "tests/tokcore/test_beside.py" not in steps


def test_the_nearest_of_several_changes_counts(root):
    changed = ["tokcore/kernel.py", "tokcore/learn/merges.py", "tests/tokcore/test_beside.py"]
    steps = count_steps(changed, root)
    assert (steps["tests/tokcore/test_merges.py"], steps["tests/tokcore/test_beside.py"]) == (1, 0)


def test_who_imports_a_file_that_is_gone(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from tokcore.old import f")
    assert seeing.tests_that_see(["tokcore/old.py"], tmp_path) == {"tests/test_a.py"}


def test_in_our_tree():
    with no_search_for_garbage():
        check_our_tree()


def check_our_tree():
    assert count_steps(["pipelines/work/encode_item.py"], ROOT)["tests/pipelines/test_encode_item.py"] == 1
    assert "tests/pipelines/test_build.py" in seeing.tests_that_see(["pipelines/work/encode_item.py"], ROOT)
    assert "tests/schemas/test_config.py" in seeing.tests_that_see(["deploy/examples/full.toml"], ROOT)
    assert seeing.tests_that_see(["README.md"], ROOT) == set(READERS[".md"])
    assert "tests/tokcore/test_varints.py" not in seeing.tests_that_see(["pipelines/watch/watcher_turns.py"], ROOT)
    # Tables of ours name what is there.
    assert set(PROOF) == {f"tests/{folder}/" for folder in proof.FOLDERS}
    named = [*PROOF, *(reason for reasons in PROOF.values() for reason in reasons)]
    named += [reader for readers in READERS.values() for reader in readers]
    assert all((ROOT / name).exists() for name in named)


# ---------------------------------------------------------------------------------------------------------- the program


def test_examples():
    found = doctest.testmod(change)
    assert found.attempted
    assert not found.failed


def test_the_proof_needs_a_reason():
    near, far = Seen("tests/stores/test_s3.py", 1, False, 1), Seen("tests/stores/test_s3.py", 2, False, 1)
    assert has_reason(near, ["tokcore/learn/merges.py"])
    assert not has_reason(far, ["tokcore/learn/merges.py"])
    assert has_reason(far, ["tokcore/learn/merges.py", "pipelines/store/storage.py"])
    assert has_reason(Seen("tests/pipelines/test_build.py", 9, False, 1), ["tokcore/learn/merges.py"])


def test_costs_are_those_that_were_recorded(tmp_path):
    assert read_costs(tmp_path) == {}
    (tmp_path / "tests").mkdir()
    costs = {"tests/test_a.py": {"wall_s": 5, "cpu_s": 1, "tests": 2}}
    (tmp_path / "tests" / "costs.json").write_text(json.dumps(costs))
    assert read_costs(tmp_path) == {"tests/test_a.py": 5}


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs git in a new repository, whose main branch has a file a.py and a test of it, committed."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")

    def run(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    run("init", "--initial-branch", "main")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("")
    (tmp_path / "tests" / "test_a.py").write_text("import a\ndef test_it(): assert True\n")
    run("add", ".")
    run("commit", "--message", "one")
    return run


def test_what_changed(git, tmp_path):
    (tmp_path / "tests" / "a.py").write_text("b = 1")
    (tmp_path / "new.py").write_text("")
    assert find_changed(None, tmp_path) == (["new.py", "tests/a.py"], "HEAD")
    git("add", ".")
    git("commit", "--message", "two")
    assert find_changed(None, tmp_path) == (["new.py", "tests/a.py"], "HEAD~1")
    git("checkout", "-b", "mine")
    git("rm", "tests/a.py")
    git("commit", "--message", "three")
    (tmp_path / "more.py").write_text("")
    assert find_changed(None, tmp_path)[0] == ["more.py", "tests/a.py"]
    assert find_changed("HEAD", tmp_path) == (["more.py"], "HEAD")


def test_the_program_runs_what_sees_the_change(git, tmp_path, capfd):
    (tmp_path / "tests" / "a.py").write_text("b = 1")
    assert change.main(["--list", "--processes", "1"], tmp_path) == 0
    printed = capfd.readouterr().out
    assert "1 changed files since HEAD\n1 test files see them; 1 run, for about 0.2 minutes\n" in printed
    assert "run: tests/test_a.py (1 imports away, 15 s)" in printed
    (tmp_path / "tests" / "test_a.py").write_text("import a\ndef test_it(): assert False\n")
    assert change.main(["--processes=1"], tmp_path) == 1
    assert "1 failed" in capfd.readouterr().out
    git("checkout", "tests/test_a.py")
    assert change.main(["--budget=1", "--processes=1"], tmp_path) == 0
    assert "left out: tests/test_a.py" in capfd.readouterr().out
    (tmp_path / "tests" / "test_a.py").write_text("import a, pytest\n@pytest.mark.proof\ndef test_it(): assert False\n")
    assert change.main(["--processes=1"], tmp_path) == 0
    assert "1 deselected" in capfd.readouterr().out


def test_a_commit_that_is_not_there(git, tmp_path):
    with pytest.raises(SystemExit, match=r"git diff .* absent"):
        find_changed("absent", tmp_path)
