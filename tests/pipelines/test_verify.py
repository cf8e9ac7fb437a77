"""Verification finds whatever is not as it was committed, and nothing else."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.builds import build_file, find_file, run, small_corpus, tokcore
from support.forging import Forger, written

from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.arrow_shards import ArrowShardWriter
from tokcore.shards.opened_shards import open_shards
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.store.manifests import find_manifest_file
from tokcore_pipelines.work.semantics import EARLIER
from tokcore_schemas.stage_table import WHOLE


def problems(output: Path, **options: object) -> tuple[str, ...]:
    return verify(str(output), **options).problems  # type: ignore[arg-type]


def test_a_sound_output(corpus, output):
    report = verify(str(output), decode=None, root=find_manifest(str(output), WHOLE).root)
    assert report.problems == ()
    assert report.num_decoded == 102
    assert report.root == find_manifest(str(output), WHOLE).root
    for run_json in output.rglob("run.json"):  # may change or be missing
        run_json.unlink() if "plan" in str(run_json) else run_json.write_text("?")
    (output / "_attempts" / "other").mkdir(parents=True)
    (output / "_attempts" / "other" / "file").write_text("somebody's work")
    report = verify(str(output))
    assert (report.problems, report.num_leftovers) == ((), 1)


def test_of_a_large_output_the_first_line_is_there_before_its_manifests_are_read(output, monkeypatch, capsys):
    monkeypatch.setattr("tokcore_pipelines.check.verify.MANY_SHARDS", 1)
    said = []

    def find(*file, **options):
        said.append(capsys.readouterr().err)
        return find_manifest_file(*file, **options)

    monkeypatch.setattr("tokcore_pipelines.check.chain.find_manifest_file", find)
    shards = find_manifest(str(output), WHOLE).totals.shards
    assert problems(output, quick=True, progress=StageProgress()) == ()
    assert said[0] == f"look       at what manifest.json names: {shards} shards, and all other files\n"
    assert "".join(said[1:]) == ""


def test_the_folder_of_a_stage_is_no_output(output):
    with pytest.raises(ConfigError, match=re.escape(f"shards: is the folder of a stage. Name its output: {output}")):
        verify(str(output / "shards"))


def test_a_file_that_is_named_twice(output):
    forger = Forger(output)
    forger.manifests["plan"]["files"] *= 2
    forger.write_manifests(chain=True, contents=True)
    assert "plan/files.jsonl: named twice" in problems(output)
    forger.restore()
    assert problems(output) == ()


def test_edits_that_are_hashed_again_are_found(output):
    """A token is edited, the hashes of file and manifest are corrected: the root is the same, the content is not."""
    forger = Forger(output)
    name = forger.shard_names()[0]
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    tokens = batch.tokens.copy()
    tokens[0] ^= 1
    for formats in (["arrow"], ["megatron"], ["arrow", "megatron"]):
        forger.write_shard(name, batch._replace(tokens=tokens), formats)
        forger.hash_again(2)
        assert problems(output, quick=True, root=forger.manifests[""]["root"]) == ()
        found = problems(output, root=forger.manifests[""]["root"])
        assert any(name in problem for problem in found)
        forger.restore()
    assert problems(output) == ()


def test_a_build_of_an_earlier_layout_is_refused_by_name(output, monkeypatch):
    monkeypatch.setattr("support.forging.SEMANTICS", EARLIER[-1])
    Forger(output).write_manifests(chain=True, contents=True)
    (problem,) = verify(str(output)).problems
    assert problem.startswith("manifest.json: an earlier release made this build")
    assert "Verify it with that release" in problem


def test_an_output_in_an_object_store(output):
    """Shards are copied to this machine to be read; what is wrong with them is found as it is locally."""
    forger = Forger(output)
    name = forger.shard_names()[0]
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    places = {path: f"/verify/{path.relative_to(output).as_posix()}" for path in forger.files}
    store = MemoryFileSystem()
    for path, place in places.items():
        store.pipe_file(place, path.read_bytes())
    assert problems("memory://verify") == ()
    forger.write_shard(name, batch.take(range(1, batch.num_documents)), ["arrow", "megatron"])
    forger.hash_again(3)
    for path, place in places.items():
        store.pipe_file(place, path.read_bytes())
    remote = problems("memory://verify")
    assert remote == problems(output) != ()
    store.rm("/verify", recursive=True)


def test_one_flipped_bit_anywhere(output):
    chance = random.Random(3)
    files = sorted(path for path in output.rglob("*") if path.is_file() and path.name != "run.json")
    for path in files:
        data = path.read_bytes()
        if not data:
            continue
        place = chance.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
        assert problems(output), f"{path.relative_to(output)}, byte {place}"
        path.write_bytes(data)
    assert problems(output) == ()


def test_a_file_cut_missing_or_extra(output):
    for path in sorted(output.glob("*/*.*")) + sorted(output.glob("shards/*/*")):
        if path.name == "run.json" or not path.stat().st_size:
            continue
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert any(str(path.relative_to(output)) in problem for problem in problems(output)), path
        path.unlink()
        assert any(str(path.relative_to(output)) in problem for problem in problems(output)), path
        path.write_bytes(data)
    for extra in ("extra", "shards/arrow/train-99999-00000.arrow", "counts/xx.parquet", "shards/sub/run.json"):
        (output / extra).parent.mkdir(exist_ok=True)
        (output / extra).write_bytes(b"")
        assert problems(output) == (f"{extra}: no manifest names it",)
        (output / extra).unlink()


def test_what_cannot_be_read_names_no_files(output):
    """One problem, not another for each file that the missing or damaged manifest named."""
    for manifest in ("manifest.json", "shards/manifest.json"):
        path = output / manifest
        data = path.read_bytes()
        path.write_bytes(data.replace(b'"totals"', b'"Totals"'))
        (found,) = problems(output)
        assert manifest in found
        path.unlink()
        (found,) = problems(output)
        assert manifest in found
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["manifest.json", "shards/manifest.json", "counts/en.parquet", "tokenizer"])
def test_a_link_out_of_the_output(output, tmp_path, name):
    """A file elsewhere may change after it was verified, whatever its hash is now."""
    elsewhere = tmp_path / "elsewhere"
    path = find_file(output, name)
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    for quick in (True, False):
        found = problems(output, quick=quick)
        assert found
        assert all(
            "a link to a place outside of the output" in problem for problem in found if "no manifest" not in problem
        )


@pytest.mark.parametrize(
    "name", ["manifest.json", "shards/manifest.json", "counts/en.parquet", "tokenizer/tokcore.json"]
)
def test_no_command_waits_for_a_fifo(output, name):
    path = find_file(output, name)
    path.unlink()
    os.mkfifo(path)
    for command in (["verify", output], ["verify", output, "--quick"], ["diff", output, output], ["audit", output]):
        done = tokcore(*command, timeout=60)
        assert "Traceback" not in done.stderr
        if command[0] == "verify":
            assert done.returncode == 1
            assert "expected a file, found a FIFO" in done.stdout + done.stderr


def test_a_problem_names_its_file_once(output):
    for name, said in (("shards/manifest.json", "missing"), ("plan/files.jsonl", "cannot read: ")):
        path = output / name
        data = path.read_bytes()
        path.unlink()
        (problem,) = problems(output, quick=True)
        assert problem.startswith(f"{name}: {said}")
        path.write_bytes(data)


def test_a_shard_that_is_a_fifo(output):
    (shard, *_) = sorted((output / "shards" / "megatron").glob("*.bin"))
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(FormatError, match="expected a file, found a folder, a FIFO or a device"):
        open_shards(output)


def test_swapped_shards(output):
    one, other = sorted((output / "shards" / "arrow").iterdir())[:2]
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    assert len(problems(output)) == 2


@pytest.mark.parametrize("stage", ["", "plan", "rejected", "counts", "tokenizer", "shards"])
def test_an_edited_manifest(output, stage):
    path = output / stage / "manifest.json"
    content = json.loads(path.read_bytes())
    content["totals"]["edited"] = 1
    path.write_bytes(write_canonical_json(content))
    assert problems(output)


def test_a_manifest_that_is_not_canonical(output):
    path = output / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1))
    assert any("canonical" in problem for problem in problems(output))


def test_an_unfinished_build(output):
    (output / "manifest.json").unlink()
    assert "did not finish" in problems(output)[0]


def test_a_build_rewritten_consistently_has_another_root(corpus, output):
    root = find_manifest(str(output), WHOLE).root
    shutil.rmtree(output)
    run(build_file(corpus, settings="[learn]\nvocab_size = 401\n", name="other.toml"), output)
    assert problems(output) == ()
    assert "expected" in problems(output, root=root)[0]


def test_decoding_finds_what_hashing_cannot(corpus, tmp_path):
    """The shards are as committed, but the source has changed."""
    small_corpus(tmp_path)
    run(build_file(tmp_path), tmp_path / "out")
    lines = (tmp_path / "ru.jsonl").read_bytes().splitlines(keepends=True)
    assert problems(tmp_path / "out", decode=7) == ()
    stat = (tmp_path / "ru.jsonl").stat()
    (tmp_path / "ru.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    os.utime(tmp_path / "ru.jsonl", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    found = problems(tmp_path / "out", decode=None)
    assert any("ru.jsonl, record 0: its tokens decode to another text" in problem for problem in found)


def test_no_output(tmp_path):
    with pytest.raises(ConfigError, match="no output"):
        verify(str(tmp_path / "nothing"))


def test_exit_codes(corpus, output, tmp_path):
    root = find_manifest(str(output), WHOLE).root
    assert tokcore("verify", output, "--root", root).returncode == 0
    sound = tokcore("verify", output, "--decode", "all", "--json")
    assert sound.returncode == 0, sound.stderr
    assert json.loads(sound.stdout)["num_decoded"] == 102
    wrong = tokcore("verify", output, "--root", "0" * 64)
    assert wrong.returncode == 1
    assert root in wrong.stdout
    assert tokcore("verify", tmp_path / "nothing").returncode == 2
    assert tokcore("verify", output, "--decode", "some").returncode == 2


# ----------------------------------------------------------------------------------------------------------- one shard


def test_a_shard_made_again(corpus, output):
    for shard in ("train-00000-00000", "shards/arrow/train-00000-00001.arrow", "train-00001-00000"):
        report = rebuild(str(output), shard)
        assert (report.problems, report.notes) == ((), ())
        assert report.documents > 0
    assert problems(output) == ()
    with pytest.raises(ConfigError, match=r"no shards of that name; there is, e.g., train-00000-00000"):
        rebuild(str(output), "train-00009-00000")


def test_a_shard_that_its_inputs_do_not_give(output):
    """The shard was rewritten consistently: the first document that differs is named, in either format."""
    forger = Forger(output)
    name = forger.shard_names()[1]
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    tokens = batch.tokens.copy()
    tokens[batch.offsets[3]] ^= 1
    forger.write_shard(name, batch._replace(tokens=tokens), ["arrow", "megatron"])
    forger.hash_again(4)
    assert problems(output, quick=True) == ()
    found = rebuild(str(output), name).problems
    place = f"document 3 ({batch.sources[3]}, ordinal {batch.ordinals[3]}) is the first that differs"
    assert f"shards/arrow/{name}.arrow: {place}" in found
    assert f"shards/megatron/{name}_text_document.bin: {place}" in found


def test_the_same_content_in_the_bytes_of_another_library(output):
    forger = Forger(output)
    name = forger.shard_names()[0]
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    fingerprint = forger.manifests["shards"]["totals"]["fingerprint"]
    forger.write(
        output / "shards" / "arrow" / f"{name}.arrow",
        written(lambda file: ArrowShardWriter(file, fingerprint, "lz4"), batch),
    )
    forger.hash_again(3)
    assert problems(output) == ()
    assert any("with the same versions" in problem for problem in rebuild(str(output), name).problems)
    facts = json.loads((output / "shards" / "run.json").read_bytes())
    facts["packages"]["pyarrow"] = "1.2.3"
    (output / "shards" / "run.json").write_text(json.dumps(facts))
    report = rebuild(str(output), name)
    assert report.problems == ()
    assert "pyarrow 1.2.3 then" in report.notes[0]


def test_a_shard_whose_input_changed(tmp_path):
    small_corpus(tmp_path)
    run(build_file(tmp_path), tmp_path / "out")
    forger = Forger(tmp_path / "out")
    sources = {name: set(forger.read_arrow(f"arrow/{name}.arrow").sources) for name in forger.shard_names()}
    names = [next(name for name in sources if sources[name] == {source}) for source in ("ru.jsonl", "en.jsonl.zst")]
    path = tmp_path / "ru.jsonl"
    path.write_bytes(path.read_bytes() + b"\n")
    changed, same = (tokcore("verify", tmp_path / "out", "--rebuild", name) for name in names)
    assert (changed.returncode, same.returncode) == (3, 0)
    assert "ru.jsonl: input changed since it was planned" in changed.stderr
    assert "every byte is the same" in same.stdout
