"""Builds for Megatron: 16-bit ids in every command, and the files for blending as a trainer reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.builds import SETTINGS, SOURCES, build_file, drop_result_key, run, small_corpus, tokcore, tree

import tokcore as api
from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import SHARDS

UINT16 = SETTINGS + 'dtype = "uint16"\nvalidation = 0.2\n'


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("megatron")
    small_corpus(folder)
    run(build_file(folder, settings=UINT16), folder / "narrow")
    run(build_file(folder, settings=UINT16.replace("uint16", "int32") + 'by = "lang"\n'), folder / "by-lang")
    run(build_file(folder, settings=UINT16.replace("uint16", "int32")), folder / "wide")
    return folder


@pytest.fixture
def narrow(corpus: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(corpus / "narrow", tmp_path / "out"))


def test_uint16_holds_the_same_documents_in_half_the_size(corpus):
    narrow, wide = corpus / "narrow", corpus / "wide"
    assert find_manifest(str(narrow), SHARDS).config.dtype == "uint16"
    assert find_manifest(str(wide), SHARDS).config.dtype == "int32"
    for split in ("train", "validation"):
        one, other = api.open_shards(narrow, split), api.open_shards(wide, split)
        assert {one.stored_as(i) for i in range(len(one.paths))} == {("megatron", "uint16")}
        assert [tokens.tolist() for tokens in one] == [tokens.tolist() for tokens in other]
        assert one[0].dtype == np.int32
        assert [Path(path).stat().st_size * 2 for path in one.paths] == [
            Path(path).stat().st_size for path in other.paths
        ]
    arrow = [
        {drop_result_key(path): sha for path, sha in tree(out).items() if "shards/arrow" in path}
        for out in (narrow, wide)
    ]
    assert arrow[0] == arrow[1]


def test_uint16_through_every_command(narrow, corpus):
    assert verify(str(narrow), decode=None).problems == ()
    shard = list_named_shards(find_manifest(str(narrow), SHARDS))[0]
    assert rebuild(str(narrow), shard.facts.shard).problems == ()
    assert "dtype: uint16\n" in tokcore("show", narrow / "shards" / shard.files[-1].path).stdout
    audits = [tokcore("audit", out, "--sources", "--json") for out in (narrow, corpus / "wide")]
    one, other = (json.loads(done.stdout) for done in audits)
    assert {**one, "output": ""} == {**other, "output": ""}
    assert gc(str(narrow), "0").removed == ()
    before = tree(narrow)
    damaged = [f"shards/megatron/{shard.facts.stem}_text_document{suffix}" for suffix in (".bin", ".idx")]
    damaged.append("shards/megatron/data_path.train")
    for path in damaged:
        (narrow / path).unlink()
        (narrow / path).write_bytes(b"damaged")
    assert sorted(problem.split(":")[0] for problem in verify(str(narrow)).problems) == sorted(damaged)
    repaired = repair(str(narrow))
    assert (sorted(repaired.repaired), repaired.left) == (sorted(damaged), ())
    assert tree(narrow) == before
    found = json.loads(tokcore("diff", narrow, corpus / "wide", "--json").stdout)
    assert found["configuration"] == {"shards.dtype": ["uint16", "int32"]}
    assert "documents" not in found


def test_another_dtype_is_another_build(corpus, narrow):
    with pytest.raises(ConfigError, match=r'shards\.dtype was "uint16", now "int32"'):
        run(build_file(corpus, settings=UINT16.replace("uint16", "int32"), name="wide.toml"), narrow)


def test_dtype_says_nothing_where_no_format_leaves_the_choice(corpus):
    arrow = load_config(str(build_file(corpus, settings=SETTINGS + 'formats = ["arrow", "nanogpt"]\n', name="a.toml")))
    spelled = load_config(
        str(build_file(corpus, settings=SETTINGS + 'formats = ["arrow", "nanogpt"]\ndtype = "int32"\n', name="a.toml"))
    )
    assert arrow.encode_identity() == spelled.encode_identity()
    assert arrow.encode_identity().dtype == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            '[shards]\ndtype = "uint16"\nformats = ["arrow"]\n',
            r'b\.toml:\d+: shards\.dtype = "uint16": is for datatrove, litdata, llmc, mds, megatron, olmo, and',
        ),
        (
            '[learn]\nvocab_size = 65537\n[shards]\ndtype = "uint16"\n',
            r'b\.toml:\d+: learn\.vocab_size = 65537: shards\.dtype = "uint16" holds ids below 65536\. Lower it, or',
        ),
        (
            '[special]\n"<|e|>" = {role = "document_end", id = 65536}\n[shards]\ndtype = "uint16"\n',
            r'special\."<\|e\|>"\.id = 65536: shards\.dtype = "uint16" holds ids below 65536',
        ),
        ('[shards]\ndtype = "int64"\n', r'shards\.dtype = "int64": expected'),
    ],
)
def test_what_does_not_fit_is_refused_in_the_build_file(settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(f'version = 1\n[build]\noutput = "out"\n{SOURCES}\n{settings}', "b.toml")


def test_the_largest_vocabulary_that_fits():
    text = f'version = 1\n[build]\noutput = "out"\n{SOURCES}\n[learn]\nvocab_size = 65536\n[shards]\ndtype = "uint16"\n'
    assert parse_config(text, "b.toml").encode_identity().dtype == "uint16"


def test_an_imported_tokenizer_with_too_many_ids_is_refused_before_any_work(corpus, tmp_path):
    small_corpus(tmp_path)
    ranks = corpus / "wide" / "tokenizer" / "tokenizer.tiktoken"
    settings = (
        f'[tokenizer]\nfrom = "{ranks}"\npattern = "o200k"\n'
        '[special]\n"<|e|>" = {role = "document_end", id = 65536}\n[shards]\ndtype = "uint16"\n'
    )
    for command in ("check", "build"):
        done = tokcore(command, build_file(tmp_path, settings=settings))
        assert done.returncode == 2, done.stderr
        assert 'shards.dtype = "uint16": holds ids below 65536, and the tokenizer has ids up to 65536' in done.stderr
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------------------- blending


def blend_of(path: Path) -> dict[str, float]:
    """prefix -> weight of a file for --data-args-path, as Megatron reads it: pairs of words, the first a number."""
    words = path.read_text().split()
    assert len(words) % 2 == 0
    return {prefix: float(weight) for weight, prefix in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.parametrize("name", ["narrow", "by-lang"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_trainer_blends_all_shards_of_a_split(corpus, name, split):
    folder = corpus / name / "shards" / "megatron"
    blend = blend_of(folder / f"data_path.{split}")
    shards = {f"{s.facts.stem}_text_document": s for s in list_named_shards(find_manifest(str(corpus / name), SHARDS))}
    assert blend == {prefix: float(s.facts.tokens) for prefix, s in shards.items() if s.facts.split == split}
    assert len(blend) > 1
    for prefix, weight in blend.items():
        code = (folder / f"{prefix}.idx").read_bytes()[17]
        width = {4: 4, 8: 2}[code]
        assert (folder / f"{prefix}.bin").stat().st_size == width * weight


def test_prefixes_can_be_made_absolute_and_languages_weighed(corpus, tmp_path):
    """The commands of docs/how-to/read-shards-elsewhere.md."""
    folder = corpus / "by-lang" / "shards" / "megatron"
    absolute = subprocess.run(
        ["sed", f"s| | {folder}/|", folder / "data_path.train"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "blend").write_text(absolute)
    assert all(Path(f"{prefix}.idx").is_file() for prefix in blend_of(tmp_path / "blend"))
    weighed = subprocess.run(
        ["awk", "$2 ~ /^hi\\// { $1 *= 4 } 1", folder / "data_path.train"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "blend").write_text(weighed)
    before, after = blend_of(folder / "data_path.train"), blend_of(tmp_path / "blend")
    assert after == {prefix: weight * (4 if prefix.startswith("hi/") else 1) for prefix, weight in before.items()}
    assert after != before
