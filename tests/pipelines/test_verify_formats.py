"""A build in every format: opened, shown, verified, decoded, rebuilt; damage to any file is found."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, run, small_corpus, tokcore
from support.forging import Forger, flipped
from support.token_batches import rows_of

import tokcore as api
from tokcore.formats.documents import DocumentsWriter, get_documents_path
from tokcore.formats.shard_format import ShardSettings
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile, list_all_paths, list_paths
from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import SHARDS

ALL = tuple(SHARD_FORMATS)
SETTINGS = "[learn]\nvocab_size = 512\n[plan]\nrange_bytes = 3000\n[shards]\ntarget_tokens = 900\n"


def build(folder: Path, formats: tuple[str, ...], more: str = "") -> Path:
    output = folder / "-".join(formats)
    names = ", ".join(f'"{name}"' for name in formats)
    run(build_file(folder, settings=f"{SETTINGS}formats = [{names}]\n{more}"), output)
    return output


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    small_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def built(corpus: Path) -> Path:
    """A build in all formats, by language."""
    return build(corpus, ALL, 'by = "lang"\nvalidation = 0.2\n')


@pytest.fixture
def output(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(built, tmp_path / "out"))


def problems(output: Path) -> str:
    return "\n".join(verify(str(output)).problems)


def test_every_format_holds_the_same_documents(built):
    shards = list_named_shards(find_manifest(str(built), SHARDS))
    assert {shard.facts.item for shard in shards} > {0}
    assert {shard.facts.split for shard in shards} == {"train", "validation"}
    for shard in shards:
        assert tuple(file.path for file in shard.files) == list_all_paths(ALL, shard.facts.stem)
        rows = [
            rows_of(FormatFile(name, str(built / "shards" / list_paths(one, shard.facts.stem)[0])).open().batches())
            for name, one in SHARD_FORMATS.items()
        ]
        assert len(rows[0]) == shard.facts.documents
        assert rows.count(rows[0]) == len(ALL)
    opened = [api.open_shards(built / "shards" / name, "all") for name in ALL]
    for one in opened:
        assert len(one) == 102
        assert [tokens.tolist() for tokens in one] == [tokens.tolist() for tokens in opened[0]]
        assert [one.document(i) for i in range(102)] == [opened[0].document(i) for i in range(102)]


def test_a_sound_output_in_all_formats(built):
    report = verify(str(built), decode=None)
    assert report.problems == ()
    assert report.num_decoded == 102


@pytest.mark.parametrize("name", ALL)
def test_a_build_in_one_format(corpus, name):
    output = build(corpus, (name,))
    assert verify(str(output), decode=None).problems == ()
    assert (output / "shards" / "documents").exists() != SHARD_FORMATS[name].has_columns
    shard = list_named_shards(find_manifest(str(output), SHARDS))[1]
    report = rebuild(str(output), shard.facts.shard)
    assert (report.problems, report.notes, report.documents) == ((), (), shard.facts.documents)
    main = output / "shards" / list_paths(SHARD_FORMATS[name], shard.facts.stem)[0]
    shown = tokcore("show", main).stdout
    dtype = SHARD_FORMATS[name].dtype(ShardSettings("", 512, "zstd"))
    assert f"format: {name}\ndtype: {dtype}\ndocuments: {shard.facts.documents}\n" in shown
    assert '"lang"' in tokcore("show", f"{main}:0", "--json").stdout


def test_nanogpt_trains_on_it(built):
    """The files are those in the folder's index, mapped with the dtype that it names."""
    folder = built / "shards" / "nanogpt"
    index = json.loads((folder / "index.json").read_bytes())
    assert (index["dtype"], index["vocab_size"]) == ("uint16", 512)
    for split in ("train", "validation"):
        files = [file for file in index["files"] if file["split"] == split]
        mapped = [np.memmap(folder / file["path"], dtype=index["dtype"], mode="r") for file in files]
        assert [len(ids) for ids in mapped] == [file["tokens"] for file in files]
        shards = api.open_shards(folder, split)
        assert np.concatenate(mapped).tolist() == [id for tokens in shards for id in tokens.tolist()]


def test_a_flipped_bit_in_any_file_is_found(output):
    """Even if the file's hash was corrected."""
    chance = random.Random(7)
    forger = Forger(output)
    folders = sorted(path for path in (output / "shards").iterdir() if path.is_dir())
    assert [path.name for path in folders] == sorted([*ALL, "documents"])
    for folder in folders:
        for path in chance.sample(sorted(path for path in folder.rglob("*") if path.is_file()), 3):
            forger.write(path, flipped(forger.sound[path], chance))
            assert str(path.relative_to(output)) in problems(output)
            forger.hash_again(2)
            found = problems(output)
            # A bit between Arrow's buffers, in the name of a version or in gzip's header means nothing.
            assert found or path.suffix in (".arrow", ".documents", ".gz", ".parquet"), path
            forger.restore()
    assert problems(output) == ""


def edited(batch: TokenBatch, column: str) -> TokenBatch:
    if column == "length":
        offsets = batch.offsets.copy()
        offsets[1] -= 1
        return batch._replace(offsets=offsets)
    if column == "ordinals":
        return batch._replace(ordinals=batch.ordinals + 1)
    values = ["other", *list(getattr(batch, column))[1:]]
    return batch._replace(**{column: values if column == "ids" else label_strings(values)})


@pytest.mark.parametrize("column", ["length", "ids", "langs", "sources", "ordinals"])
def test_a_documents_file_that_says_something_else_is_found(output, column):
    """All hashes and identities are corrected: it contradicts Arrow's own columns, or .idx files."""
    forger = Forger(output)
    shard = next(s for s in list_named_shards(find_manifest(str(output), SHARDS)) if s.facts.documents > 1)
    batch = forger.read_arrow(list_paths(SHARD_FORMATS["arrow"], shard.facts.stem)[0])
    path = output / "shards" / get_documents_path(shard.facts.stem)
    with path.open("wb") as file:
        writer = DocumentsWriter(file, forger.manifests["shards"]["totals"]["fingerprint"], 512, "zstd")
        writer.write(edited(batch, column))
        writer.close()
    forger.write(path, path.read_bytes())
    forger.hash_again(2)
    found = problems(output)
    what = "lengths" if column == "length" else "columns"
    assert f"shards/{get_documents_path(shard.facts.stem)}: its {what} are not those of the shard's documents" in found


@pytest.mark.parametrize("name", ["megatron", "nanogpt"])
def test_without_arrow_the_documents_file_is_what_is_checked(corpus, tmp_path, name):
    output = Path(shutil.copytree(build(corpus, (name,)), tmp_path / "out"))
    path = min((output / "shards" / "documents").iterdir())
    path.unlink()
    assert f"shards/documents/{path.name}" in problems(output)
    with pytest.raises(api.TokError, match=r"written with tokenizer unknown|documents file"):
        api.open_shards(output)[0]


def test_an_index_that_does_not_follow_from_the_shards_is_found(output):
    forger = Forger(output)
    path = output / "shards" / "nanogpt" / "index.json"
    forger.write(path, forger.sound[path].replace(b'"uint16"', b'"uint32"'))
    forger.hash_again(3)
    assert "shards/manifest.json: files[nanogpt/index.json].content_sha256 = " in problems(output)
    forger.restore()
    files = forger.manifests["shards"]["files"]
    files.remove(next(entry for entry in files if entry["path"] == "nanogpt/index.json"))
    forger.remove(path)
    forger.hash_again(3)
    assert "shards/manifest.json: files[nanogpt/index.json] = None, its files give {" in problems(output)


def test_outputs_in_other_formats_differ_in_their_files_alone(corpus, built):
    one, other = build(corpus, ("arrow",)), build(corpus, ("nanogpt",))
    done = tokcore("diff", one, other, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert not found.get("documents"), done.stdout
    assert not found.get("counts"), done.stdout
