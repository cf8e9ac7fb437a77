"""tokcore diff: every kind of difference is found where it is, and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.builds import SETTINGS, build_file, jsonl, run, run_once, small_corpus, texts, tokcore, write

from tokcore.errors import ConfigError
from tokcore_pipelines.look.diff import diff


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three builds: one, one of other settings over the same inputs, and one over other inputs."""
    folder = tmp_path_factory.mktemp("diff")
    small_corpus(folder)
    run_once(build_file(folder), folder / "one")
    settings = SETTINGS.replace("400", "350").replace("2000", "3000") + "[mix]\nalpha = 0.5\n"
    run_once(build_file(folder, settings=settings, name="settings.toml"), folder / "settings")
    shutil.copytree(folder, folder / "moved", ignore=lambda *_: ["one", "settings", "moved"])
    changed = [{"id": f"ru-{i}", "text": text} for i, text in enumerate(["два слова", *texts("ru", 30)[1:]])]
    write(folder / "moved" / "ru.jsonl", jsonl(changed))
    write(folder / "moved" / "more.jsonl.zst", jsonl([{"id": "more", "text": "one more"}]))
    path = folder / "moved" / "build.toml"
    path.write_text(path.read_text().replace('"en.jsonl.zst"', '["en.jsonl.zst", "more.jsonl.zst"]'))
    run(path, folder / "inputs")
    return folder


def test_equal_builds(folder, tmp_path):
    assert diff(str(folder / "one"), str(folder / "one")) == {}
    done = tokcore("diff", folder / "one", shutil.copytree(folder / "one", tmp_path / "copy"))
    assert (done.returncode, done.stdout) == (0, "no difference\n")


def test_other_settings(folder):
    found = diff(str(folder / "one"), str(folder / "settings"))
    assert set(found) == {"configuration", "tokenizer", "documents", "shards", "root"}
    assert found["configuration"] == {
        "plan.range_bytes": [4000, 3500],
        "shards.target_tokens": [2000, 3000],
        "tokenizer.mix.alpha": ["0.7", "0.5"],
        "tokenizer.vocab_size": [400, 350],
    }
    tokenizer = found["tokenizer"]
    assert tokenizer["merges"] == [143, 93]
    merges = [(folder / name / "tokenizer" / "merges.txt").read_text().splitlines()[1:] for name in ("one", "settings")]
    rank = next(i for i in range(93) if merges[0][i] != merges[1][i])
    assert tokenizer["first_different_merge"]["rank"] == rank
    assert tokenizer["merges_shared"] == len(set(merges[0]) & set(merges[1])) > 0
    assert tokenizer["special"] == {"<|endoftext|>": [[399, "document_end"], [349, "document_end"]]}
    assert set(tokenizer["weights"]) <= {"en", "ru", "zh", "hi"}
    assert "documents" not in found["documents"]
    assert found["shards"]["other_content"]["number"] > 0


def test_other_inputs(folder):
    found = diff(str(folder / "one"), str(folder / "inputs"))
    assert "configuration" not in found
    inputs = found["inputs"]
    assert inputs["only_b"] == {"number": 1, "first": ["more.jsonl.zst"]}
    assert "only_a" not in inputs
    assert inputs["changed"]["first"][-1].startswith("ru.jsonl: ")
    assert found["counts"]["en"]["documents"] == [30, 31]
    assert found["counts"]["en"]["different_rows"] == 2
    assert sorted(found["counts"]["en"]["examples"])[0] == [" more", 0, 1]
    assert "zh" not in found["counts"]
    assert "documents" not in found["counts"]["ru"]
    assert found["documents"]["documents"] == [102, 103]
    assert found["documents"]["languages"]["en"]["documents"] == [30, 31]
    assert found["root"][0] != found["root"][1]


def test_stages_that_only_one_has(folder, tmp_path):
    part = Path(shutil.copytree(folder / "one", tmp_path / "part"))
    for stage in ("manifest.json", "shards", "tokenizer"):
        shutil.rmtree(part / stage) if (part / stage).is_dir() else (part / stage).unlink()
    assert diff(str(part), str(folder / "one")) == {
        "stages": {"only_a": [], "only_b": ["tokenizer", "shards", "build"]}
    }
    assert set(diff(str(folder / "inputs"), str(part))) == {"stages", "inputs", "rejected", "counts"}
    with pytest.raises(ConfigError, match="no finished stage"):
        diff(str(tmp_path), str(part))


def test_the_command(folder, tmp_path):
    done = tokcore("diff", folder / "one", folder / "inputs")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) < 50  # fits a screen
    assert max(map(len, lines)) < 200
    assert any(line.split() == ["only", "in", "b:", "1:", "more.jsonl.zst"] for line in lines)
    assert any(line.startswith("  en: ") and line.endswith("rows that differ 2") for line in lines)
    machine = tokcore("diff", folder / "one", folder / "settings", "--json")
    assert machine.returncode == 1
    assert json.loads(machine.stdout) == diff(str(folder / "one"), str(folder / "settings"))
    assert tokcore("diff", folder / "one", tmp_path / "nothing").returncode == 2
    assert tokcore("diff", folder / "one").returncode == 2
