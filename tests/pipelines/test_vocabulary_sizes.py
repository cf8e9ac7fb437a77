"""`vocab_size` as a list: several tokenizers from one count, one of which encodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.builds import SETTINGS, SOURCES, build_file, run, small_corpus, tokcore, tree

from tokcore.errors import ConfigError, LearnError
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.tokenizer_files import find_tokenizer_of_size
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.look.diff import diff
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.stage_table import TOKENIZERS, WHOLE

SIZES = SETTINGS.replace("vocab_size = 400", "vocab_size = [400, 300, 350]")


def set_sizes(model: str, sizes: str) -> str:
    return SETTINGS.replace("vocab_size = 400", f'model = "{model}"\nvocab_size = {sizes}')


def list_sizes(output: Path) -> dict[str, str]:
    made = find_manifest(str(output), TOKENIZERS)
    return {size: one.fingerprint for size, one in made.totals.sizes.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sizes")
    small_corpus(folder)
    run(build_file(folder, settings=SIZES), folder / "out")
    return folder


def test_each_size_is_the_tokenizer_of_a_build_of_that_size(folder, tmp_path):
    output = folder / "out"
    found = list_sizes(output)
    assert [*found] == ["300", "350", "400"]
    for size in ("300", "400"):
        path = build_file(folder, settings=SETTINGS.replace("= 400\n", f"= {size}\n"), name=f"{size}.toml")
        alone = run(path, tmp_path / size)
        assert found[size] == alone.totals.fingerprint
        theirs = tree(tmp_path / size / "tokenizer")
        own = tree(output / "tokenizers" / alone.totals.fingerprint)
        assert own == {path: sha256 for path, sha256 in theirs.items() if path != "manifest.json"}
    # The largest encodes, and its stages are those of a build of that size alone, manifests included.
    for stage in ("counts", "tokenizer", "shards"):
        assert tree(output / stage) == tree(tmp_path / "400" / stage)
    assert verify(str(output), decode=None, options=RunOptions(here=True)).problems == ()
    # Stages that are the same are taken over, whatever the list says.
    small = build_file(folder, settings=SIZES + "[encode]\nvocab_size = 300\n", name="small.toml")
    again = Build(load_config(str(small)), RunOptions(here=True), str(tmp_path / "small"), reuse=str(tmp_path / "300"))
    again.run()
    for stage in ("counts", "tokenizer", "shards"):
        assert tree(tmp_path / "small" / stage) == tree(tmp_path / "300" / stage)
    assert tree(tmp_path / "small" / "tokenizers") == tree(output / "tokenizers")
    assert verify(str(tmp_path / "small"), decode=None, options=RunOptions(here=True)).problems == ()


def test_workers_and_order_of_the_list_change_nothing(folder, tmp_path):
    settings = SIZES.replace("[400, 300, 350]", "[300, 350, 400]")
    assert (
        run(build_file(folder, settings=settings, name="order.toml"), tmp_path / "out", workers=1).root
        == find_manifest(str(folder / "out"), WHOLE).root
    )
    assert tree(tmp_path / "out") == tree(folder / "out")


def test_one_size_in_a_list_is_that_size(folder):
    one, other = (
        parse_config(f'version = 1\n[build]\noutput = "out"\n{SOURCES}[learn]\nvocab_size = {size}\n', "b.toml")
        for size in ("[400]", "400")
    )
    assert one.stage_configs() == other.stage_configs()
    assert one.sizes_identity() is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[learn]\nvocab_size = []", r"learn.vocab_size = \[\]: expected .*, or a list of such numbers"),
        ('[learn]\nvocab_size = "300"', 'learn.vocab_size = "300": expected .*, or a list of such numbers'),
        ("[learn]\nvocab_size = [0, 0]", r"learn.vocab_size = \[0, 0\]: 0 is there twice"),
        ("[learn]\nvocab_size = [300, 300]", r"learn.vocab_size = \[300, 300\]: 300 is there twice; remove one"),
        ("[learn]\nvocab_size = [300, 'x']", r'learn.vocab_size\[1\] = "x": expected a whole number'),
        ("[learn]\nvocab_size = [100, 300]", r"learn.vocab_size = 100: must be at least 257"),
        (
            "[learn]\nvocab_size = [300, 400]\n[encode]\nvocab_size = 350",
            r"encode.vocab_size = 350: expected one of 300, 400 \(learn.vocab_size\). Add it to that list, or remove",
        ),
        ("[learn]\nvocab_size = 300\n[encode]\nvocab_size = 350", r"encode.vocab_size = 350: the one size is 300"),
        (
            '[tokenizer]\nfrom = "tokcore.json"\n[encode]\nvocab_size = 350',
            r"encode.vocab_size chooses among tokenizers of \[learn\]",
        ),
        (
            '[learn]\nvocab_size = [300, 70000]\n[shards]\nformats = ["megatron"]\ndtype = "uint16"',
            r"learn.vocab_size = 70000: shards.dtype",
        ),
        (
            '[learn]\nvocab_size = [300, 400]\n[special]\n"<a>" = { role = "document_end", id = 350 }',
            r'special."<a>".id = 350: ids below 399 belong to ordinary tokens',
        ),
    ],
)
def test_wrong_sizes_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(f'version = 1\n[build]\noutput = "out"\n{SOURCES}{settings}\n', "b.toml")


def test_a_size_that_the_counts_do_not_give_is_named(folder, tmp_path):
    settings = SETTINGS.replace("vocab_size = 400", "vocab_size = [300, 100000]")
    with pytest.raises(LearnError, match=r"learn.vocab_size = 100000: the counts give only \d+ tokens"):
        run(build_file(folder, settings=settings, name="large.toml"), tmp_path / "out")
    settings = settings.replace("[learn]", "[learn]\nallow_smaller = true").replace("[300,", "[300, 90000,")
    run(build_file(folder, settings=settings, name="large.toml"), tmp_path / "out")
    found = list_sizes(tmp_path / "out")
    assert found["90000"] == found["100000"] != found["300"]
    with pytest.raises(ConfigError, match="has tokenizers of 300, 90000, 100000"):
        find_tokenizer_of_size(str(tmp_path / "out"), 77)
    assert verify(str(tmp_path / "out"), options=RunOptions(here=True)).problems == ()


def test_a_changed_list_is_another_build(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    path = build_file(folder, settings=SIZES.replace("350", "360"), name="other.toml")
    with pytest.raises(ConfigError, match=r"tokenizers: learn.vocab_size was \[300, 350, 400\], now \[300, 360, 400\]"):
        run(path, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"tokenizers: learn.vocab_size was a list, and now there is one size"):
        run(build_file(folder, name="one.toml"), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"learn.vocab_size was 400, now 300"):
        run(build_file(folder, settings=SIZES + "[encode]\nvocab_size = 300", name="two.toml"), tmp_path / "out")
    Build(load_config(str(path)), RunOptions(here=True), str(tmp_path / "out"), replace="learn").run()
    assert [*list_sizes(tmp_path / "out")] == ["300", "360", "400"]
    assert verify(str(tmp_path / "out"), options=RunOptions(here=True)).problems == ()
    found = diff(str(folder / "out"), str(tmp_path / "out"))
    assert found["configuration"] == {"tokenizers.vocab_size": [[300, 350, 400], [300, 360, 400]]}
    assert set(found["tokenizers"]) == {"350", "360"}
    assert found["tokenizers"]["360"] == [None, list_sizes(tmp_path / "out")["360"]]
    assert "tokenizer" not in found


def test_damage_is_found_and_mended(folder, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(folder / "out", output)
    sound = tree(output)
    sizes = list_sizes(output)
    (output / "tokenizers" / sizes["300"] / "tokenizer.json").unlink()
    (output / "tokenizers" / sizes["400"] / "tokcore.json").write_bytes(b"{}")
    (output / "tokenizer" / "merges.txt").write_bytes(b"")
    problems = verify(str(output)).problems
    assert len(problems) == 3
    assert any(problem.startswith(f"tokenizers/{sizes['300']}/tokenizer.json") for problem in problems)
    assert len(repair(str(output), options=RunOptions(here=True)).repaired) == 3
    assert tree(output) == sound
    (output / "tokenizer" / "tokcore.json").unlink()  # of which there is a copy
    assert repair(str(output), options=RunOptions(here=True)).left == ()
    (output / "tokenizers" / sizes["300"] / "tokcore.json").unlink()  # of which there is none
    assert "--replace learn" in repair(str(output), options=RunOptions(here=True)).left[0]


def test_commands_know_the_sizes(folder, tmp_path):
    output = folder / "out"
    sizes = list_sizes(output)
    shown = tokcore("show", output).stdout
    assert f"{sizes['400']}  wrote the shards" in shown
    assert sizes["300"] in shown
    done = tokcore("export", output, "--vocab-size", "300", "--to", "tiktoken", "-o", tmp_path / "small.tiktoken")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "small.tiktoken").read_bytes().splitlines()) == 299
    assert Tokenizer.load(output / "tokenizers" / sizes["300"]).vocab_size == 300
    failed = tokcore("export", output, "--vocab-size", "77", "--to", "tiktoken", "-o", tmp_path / "no")
    assert "has tokenizers of 300, 350, 400" in failed.stderr
    small = Tokenizer.load(output / "tokenizers" / sizes["300"])
    report = audit(read_output(str(output)), small)
    assert "another tokenizer of this output wrote the shards" in report["missing"]["written"]
    assert report["vocab_size"] == 300
    assert gc(str(output), "0").removed == ()
    (output / "tokenizers" / "stray").write_bytes(b"x")
    assert gc(str(output), "0").removed == ("tokenizers/stray",)
    checked = tokcore("check", folder / "build.toml", "--output", output, "--json")
    assert json.loads(checked.stdout)["output_holds"] == "this build, finished"
