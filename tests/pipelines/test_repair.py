"""Files that a user removed or a disk damaged: `build` names them, `repair` makes them again, byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.builds import build_file, find_file, jsonl, run, small_corpus, texts, tokcore, tree, write

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config


def damage(path: Path) -> None:
    """Change some bytes, keep the size."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def go_on(path: Path, output: Path, replace: str = "", reuse: str = "") -> None:
    Build(load_config(str(path)), RunOptions(here=True), str(output), replace=replace, reuse=reuse).run()


def test_shards_their_indexes_and_their_counts(corpus, output):
    before = tree(output)
    arrow = sorted((output / "shards" / "arrow").iterdir())
    arrow[0].unlink()
    damage(arrow[-1])
    for folder in ("documents", "megatron"):
        next(iter(sorted((output / "shards" / folder).iterdir()))).unlink()
    damage(output / "shards" / "token_counts.parquet")
    (output / "tokenizer" / "tokenizer.json").unlink()
    assert len(verify(str(output)).problems) == 6
    report = repair(str(output))
    assert report.left == ()
    assert len(report.repaired) == 6
    assert tree(output) == before
    assert verify(str(output), decode=None).problems == ()
    again = repair(str(output))
    assert (again.repaired, again.left) == ((), ())


def test_count_tables_and_rejects(corpus, output):
    before = tree(output)
    table = find_file(output, "counts/ru.parquet")
    table.unlink()
    damage(output / "rejected" / "files.jsonl")
    report = repair(str(output))
    assert set(report.repaired) == {f"counts/{table.name}", "rejected/files.jsonl"}
    assert tree(output) == before


def test_an_unfinished_output(corpus, output):
    before = tree(output)
    (output / "manifest.json").unlink()
    sorted((output / "shards" / "arrow").iterdir())[0].unlink()
    with pytest.raises(StageError, match=r"shards/arrow/train-.*tokcore repair"):
        run(corpus / "build.toml", output)
    report = repair(str(output))
    assert len(report.repaired) == 1
    (left,) = report.left  # as verification says of it
    assert left.startswith("manifest.json: missing; the build did not finish")
    assert left.endswith("`tokcore build BUILD.toml` finishes it, and keeps what is here")
    run(corpus / "build.toml", output)
    assert tree(output) == before


@pytest.mark.parametrize(
    ("path", "command"),
    [("plan/files.jsonl", "plan"), ("tokenizer/tokcore.json", "learn"), ("counts/manifest.json", "count")],
)
def test_what_follows_from_nothing_is_named_with_a_way_out_that_works(corpus, output, path, command):
    before = tree(output)
    damage(output / path)
    report = repair(str(output))
    assert report.repaired == ()
    assert report.left[0].startswith(f"{path}: ")
    assert f"--replace {command}`" in report.left[0]
    go_on(corpus / "build.toml", output, replace=command)
    assert tree(output) == before


@pytest.mark.parametrize(
    "name",
    [
        "rejected/files.jsonl",
        "counts/ru.parquet",
        "counts/manifest.json",
        "shards/arrow/train-00000-00000.arrow",
        "shards/manifest.json",
        "tokenizer/tokcore.json",
    ],
)
def test_nothing_damaged_is_taken_over_from_what_a_new_plan_replaces(corpus, output, name):
    before = tree(output)
    damage(find_file(output, name))
    go_on(corpus / "build.toml", output, replace="plan")
    assert tree(output) == before


def test_the_manifest_of_the_build_is_deleted_where_it_is_damaged(corpus, output):
    before = tree(output)
    (output / "manifest.json").write_text("garbage\n")
    way_out = r"manifest\.json: not canonical JSON.*delete it, and run `tokcore build .*build\.toml` again, which keeps"
    for replace in ("", "encode"):
        with pytest.raises(StageError, match=way_out):
            go_on(corpus / "build.toml", output, replace)
    (left,) = repair(str(output)).left
    assert "--replace" not in left
    assert "delete it, and run `tokcore build BUILD.toml` again, which keeps all stages" in left
    (output / "manifest.json").unlink()
    build = Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(output))
    build.run()
    assert build.made == ["build"]
    assert tree(output) == before


def test_nothing_is_written_while_the_chain_is_broken(corpus, output):
    """The manifest of the build is not to be trusted, so neither is what would be made again from it."""
    (output / "README.md").unlink()
    (output / "tokenizer" / "tokenizer.json").unlink()
    manifest = output / "manifest.json"
    root = json.loads(manifest.read_bytes())["root"]
    manifest.write_text(manifest.read_text().replace(root, f"{int(root[0], 16) ^ 1:x}{root[1:]}"))
    before = tree(output)
    found = repair(str(output), str(corpus))
    assert found.repaired == ()
    assert found.left
    assert tree(output) == before


def test_a_damaged_manifest_is_replaced_by_its_own_command(corpus, output):
    before = tree(output)
    damage(output / "counts" / "manifest.json")
    Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(output), replace="count").count()
    run(corpus / "build.toml", output)
    assert tree(output) == before


@pytest.mark.parametrize(
    ("gone", "missing", "command"),
    [
        (["rejected"], "rejected", "tokcore build BUILD.toml --replace count"),
        (["rejected/manifest.json"], "rejected", "tokcore build BUILD.toml --replace count"),
        (["plan", "manifest.json"], "plan", "tokcore build BUILD.toml"),
        (["counts/manifest.json"], "counts", "tokcore build BUILD.toml"),
    ],
)
def test_manifests_that_are_gone_are_named_with_a_way_out_that_works(corpus, output, gone, missing, command):
    before = tree(output)
    for name in gone:
        path = output / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (left,) = repair(str(output)).left
    assert left.startswith(f"{missing}/manifest.json: missing. ")
    assert left.endswith(f"`{command}`")
    go_on(corpus / "build.toml", output, replace=command.partition(" --replace ")[2])
    assert tree(output) == before


def test_an_input_that_changed_gives_no_other_shard(tmp_path):
    small_corpus(tmp_path)
    run(build_file(tmp_path), tmp_path / "out")
    sorted((tmp_path / "out" / "shards" / "arrow").iterdir())[0].unlink()
    before = tree(tmp_path / "out")
    for name in ("en.jsonl.zst", "ru.jsonl", "zh.jsonl.gz"):
        write(tmp_path / name, jsonl([{"id": "1", "text": text} for text in texts("en", 3)]))
    with pytest.raises(StageError, match="input changed since it was planned"):
        repair(str(tmp_path / "out"))
    assert tree(tmp_path / "out") == before


# ----------------------------------------------------------------------------------------- states that a hand can make


def test_counts_that_were_copied_alone(corpus, tmp_path):
    """The error about a missing rejected/ says how to get it, and does not send the user in a circle."""
    for number, way in enumerate(("from", "replace")):
        output = tmp_path / str(number)
        shutil.copytree(corpus / "out" / "counts", output / "counts")
        for command in ("count", "learn", "encode"):
            if command == "learn":
                Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(output)).learn()
                continue
            with pytest.raises(ConfigError, match=r"holds counts/, but not rejected/.*--from OUTPUT.*--replace count"):
                getattr(Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(output)), command)()
        if way == "from":
            go_on(corpus / "build.toml", output, reuse=str(corpus / "out"))
        else:
            go_on(corpus / "build.toml", output, replace="count")
        assert tree(output) == tree(corpus / "out")


@pytest.mark.parametrize("gone", ["plan", "rejected", "counts", "tokenizer", "shards", "manifest.json"])
def test_whatever_is_removed_from_a_finished_output_can_be_had_again(corpus, output, gone):
    before = tree(output)
    path = output / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if gone == "rejected":
        with pytest.raises(ConfigError, match="--replace count`"):
            run(corpus / "build.toml", output)
        go_on(corpus / "build.toml", output, replace="count")
    else:
        run(corpus / "build.toml", output)
    assert tree(output) == before


def test_a_manifest_of_another_output(corpus, output, tmp_path):
    """A stage copied from elsewhere is named, and so is what was made from the one that it replaced."""
    other = build_file(corpus, settings="[plan]\nrange_bytes = 4000\n[count]\nmax_pretoken_bytes = 16\n", name="o.toml")
    Build(load_config(str(other)), RunOptions(here=True), str(tmp_path / "other")).count()
    shutil.rmtree(output / "counts")
    shutil.copytree(tmp_path / "other" / "counts", output / "counts")
    before = tree(corpus / "out")
    with pytest.raises(ConfigError, match=r"counts: count.max_pretoken_bytes was 16, now 1024\n(?s:.)*--replace count"):
        run(corpus / "build.toml", output)
    with pytest.raises(ConfigError, match=r"tokenizer: .*was made from another counts"):
        Build(load_config(str(other)), RunOptions(here=True), str(output)).learn()
    go_on(corpus / "build.toml", output, replace="count")
    assert tree(output) == before


# --------------------------------------------------------------------------------------------------------- the command


def test_the_command(corpus, output):
    shard = sorted((output / "shards" / "arrow").iterdir())[0]
    shard.unlink()
    named = tokcore("build", corpus / "build.toml", "--output", output)
    assert (named.returncode, named.stdout) == (3, "")
    assert f"{output}: shards/arrow/{shard.name}: missing. `tokcore repair {output}` makes it again" in named.stderr
    done = tokcore("repair", output)
    assert done.returncode == 0, done.stderr
    assert f"repaired shards/arrow/{shard.name}" in done.stdout
    (output / "plan" / "files.jsonl").unlink()
    left = tokcore("repair", output, "--json")
    assert left.returncode == 1
    assert json.loads(left.stdout)["left"][0].startswith("plan/files.jsonl: ")
    assert tokcore("repair", output / "none").returncode == 2
