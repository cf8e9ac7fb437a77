"""Which files a build reads: what is excluded, what is never data, and that it never reads what it writes."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import fsspec
import pytest
from support.builds import build_file, jsonl, run, texts, tokcore, write

from tokcore.errors import ConfigError
from tokcore_pipelines.begin.build_text import write_build_text
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.work.inputs import LeftOut, find_inputs
from tokcore_schemas.config import BuildConfig, parse_config

DATA = jsonl([{"text": text} for text in texts("en", 12)])


def config_of(folder: Path | str, files: str, more: str = "", output: str = "/nowhere/out") -> BuildConfig:
    text = f'version = 1\n[build]\noutput = "{output}"\n[[source]]\nlang = "en"\nfiles = {files}\n{more}\n'
    return parse_config(text + "[learn]\nvocab_size = 300\n", f"{folder}/build.toml")


def taken(config: BuildConfig, left_out: LeftOut | None = None) -> list[str]:
    return [file.uri for file in plan_build(config, left_out=left_out).files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jsonl", "b.jsonl", "old/c.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl"):
        write(tmp_path / name, DATA)
    return tmp_path


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ('"b.jsonl"', ["a.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl", "old/c.jsonl"]),
        ('["[ab].jsonl", "deep/old/*"]', ["deep/er/d.jsonl", "old/c.jsonl"]),
        ('"old/"', ["a.jsonl", "b.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl"]),
        ('"**/old"', ["a.jsonl", "b.jsonl", "deep/er/d.jsonl"]),
        ('"deep"', ["a.jsonl", "b.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl", "old/c.jsonl"]),
        ('"*.nothing"', ["a.jsonl", "b.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl", "old/c.jsonl"]),
    ],
)
def test_exclude(folder, exclude, left):
    assert taken(config_of(folder, '"**/*.jsonl"', f"exclude = {exclude}")) == left


def test_a_glob_that_excludes_no_file_is_told(folder):
    left_out = LeftOut()
    exclude = 'exclude = ["a.*", "a.jsonl", "er/*", "deep/er", "old/**/x", "*.nothing", "out/**"]'
    taken(config_of(folder, '["*.jsonl", "*/**/*.jsonl"]', exclude, "out"), left_out)
    assert [warning.partition(" leaves out no file")[0].rpartition(": ")[2] for warning in left_out.idle] == [
        "'er/*'",
        "'old/**/x'",
        "'*.nothing'",
    ]
    assert "from the build file's folder" in left_out.idle[0]
    assert "from the build file's folder" not in left_out.idle[-1]


def test_check_and_build_warn_of_a_glob_that_excludes_no_file(folder):
    path = write(
        folder / "build.toml",
        (
            b'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "*.jsonl"\nexclude = "er/*"\n'
            b"[learn]\nvocab_size = 300\nallow_smaller = true\n"
        ),
    )
    said = f"warning: {path}:7: source[0].exclude: 'er/*' leaves out no file"
    assert said in tokcore("check", path).stdout
    assert said in tokcore("build", path).stderr


@pytest.mark.parametrize("name", ["run [2024]", "run *", "run ?", "r[!x]un", "a**b", "]["])
def test_the_folder_of_the_build_file_is_no_pattern(tmp_path, name):
    """What is special in its own name, and in names above it, chooses no file and leaves none out."""
    for beside in ("run 2", "run x", "run", "ab", name):
        for file in ("a.jsonl", "b.jsonl", "deep/c.jsonl", "[z]/d.jsonl"):
            write(tmp_path / beside / "data" / file, DATA)
    folder = tmp_path / name
    assert taken(config_of(folder, '"data/*.jsonl"')) == ["data/a.jsonl", "data/b.jsonl"]
    assert taken(config_of(folder, '"data/**"', 'exclude = ["data/a*", "data/*/d.jsonl"]')) == [
        "data/b.jsonl",
        "data/deep/c.jsonl",
    ]
    beside = [f"{tmp_path}/{one}/data/deep/c.jsonl" for one in ("run 2", "run x", "run", "ab")]
    assert taken(config_of(folder, '"../*/data/deep/*"')) == sorted([*beside, "data/deep/c.jsonl"])
    assert taken(config_of(folder, '"data/[z]/d.jsonl"')) == ["data/[z]/d.jsonl"]
    with pytest.raises(ConfigError, match=r"data is a folder"):
        taken(config_of(folder, '"data"'))
    with pytest.raises(ConfigError, match=r"lies in(side)? th"):
        taken(config_of(folder, '"**/*.jsonl"', output="out"))
    assert taken(config_of(folder / "data", '"*.jsonl"', output="../out")) == ["a.jsonl", "b.jsonl"]
    found = propose(f"{folder}/data")
    assert sum(one.num_files for one in found.sources) == 4
    text = write_build_text(found, f"{folder}/build.toml")
    assert [file.uri for file in plan_build(parse_config(text, f"{folder}/build.toml")).files] == [
        "data/[z]/d.jsonl",
        "data/a.jsonl",
        "data/b.jsonl",
        "data/deep/c.jsonl",
    ]


def test_the_folder_of_a_split_is_no_pattern(tmp_path):
    for folder in ("ds [en]", "ds e"):
        for split in ("train", "test"):
            write(tmp_path / folder / f"{split}-0.jsonl", DATA)
    assert taken(config_of(tmp_path, '"ds [en]"', 'split = "train"')) == ["ds [en]/train-0.jsonl"]


def test_a_place_in_a_store_is_no_pattern():
    store = fsspec.filesystem("memory")
    for name in ("run [1]/a.jsonl", "run 1/a.jsonl"):
        store.pipe_file(f"/places/{name}", DATA)
    assert taken(config_of("memory://places/run [1]", '"*.jsonl"')) == ["memory:///places/run [1]/a.jsonl"]


def test_a_format_that_only_the_content_tells_is_named(folder):
    write(folder / "a.data", DATA)
    with pytest.raises(ConfigError, match=r'looks like JSON lines: write format = "jsonl"'):
        taken(config_of(folder, '"a.data"'))
    write(folder / "b.data", b"plain words")
    with pytest.raises(ConfigError, match=r"one of jsonl, .*, warc\.$"):
        taken(config_of(folder, '"b.data"'))


def test_exclude_is_part_of_what_the_plan_depends_on(folder):
    output = folder.parent / "out"
    path = folder / "build.toml"
    text = f'version = 1\n[build]\noutput = "{output}"\n[[source]]\nlang = "en"\nfiles = "*.jsonl"\n'
    settings = "[learn]\nvocab_size = 300\n"
    path.write_text(text + settings)
    run(path, output)
    path.write_text(text + 'exclude = "b.*"\n' + settings)
    with pytest.raises(ConfigError, match=r"b\.jsonl is gone"):
        run(path, output)


@pytest.mark.parametrize(("exclude", "word"), [('"*.jsonl"', "left out"), ('"a/x**"', "stands for folders")])
def test_an_exclude_that_leaves_nothing_or_is_no_glob_is_refused(folder, exclude, word):
    with pytest.raises(ConfigError, match=word):
        taken(config_of(folder, '"*.jsonl"', f"exclude = {exclude}"))


NO_DATA = [
    ".hidden.jsonl",
    ".part-0.jsonl.crc",
    "part-0.jsonl.crc",
    ".git/x.jsonl",
    "README",
    "README.md",
    "readme_en.txt",
    "LICENSE",
    "dataset_info.json",
    "dataset_dict.json",
    "state.json",
    "_SUCCESS",
    "_metadata",
    "_temporary/0/x.jsonl",
    "_attempts/0/x.jsonl",
    "a.jsonl.sha256",
    "SHA256SUMS",
]


def test_what_is_never_data_is_not_taken_and_is_told(folder):
    for name in NO_DATA:
        write(folder / name, b"{}\n")
    left_out = LeftOut()
    files = taken(config_of(folder, '"**"', 'exclude = "*.toml"'), left_out)
    assert files == ["a.jsonl", "b.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl", "old/c.jsonl"]
    assert sorted(left_out.no_data) == sorted(str(folder / name) for name in NO_DATA)
    assert left_out.excluded == []


@pytest.mark.parametrize("name", ["dataset_info.json", "README.md", ".hidden.jsonl", ".cache/x.jsonl"])
def test_a_file_that_is_named_alone_is_taken(folder, name):
    write(folder / name, DATA)
    assert taken(config_of(folder, f'"{name}"')) == [name]


@pytest.mark.parametrize("pattern", ["README*", "deep/*/.cache/*", "deep/*/.[a-z]*.jsonl"])
def test_a_glob_whose_own_part_names_them_takes_them(folder, pattern):
    for name in ("README-1.md", "deep/er/.cache/x.jsonl", "deep/er/.h.jsonl"):
        write(folder / name, DATA)
    assert len(taken(config_of(folder, f'"{pattern}"'))) == 1


def test_a_glob_of_what_is_no_data_alone_says_so(folder):
    write(folder / "dataset_info.json", b"{}")
    with pytest.raises(ConfigError, match=r"all files that match \(1\) are left out: .*dataset_info.json \(a mark"):
        taken(config_of(folder, '"*.json"'))


def test_a_name_that_is_not_utf_8(folder):
    name = os.fsdecode(b"x\xff.jsonl")
    write(folder / name, DATA)
    with pytest.raises(ConfigError, match=r"x\\xff.jsonl': the name is not UTF-8, .*Rename the file, or exclude it"):
        taken(config_of(folder, '"*.jsonl"'))
    with pytest.raises(ConfigError, match="the name is not UTF-8"):
        propose(str(folder))
    left_out = LeftOut()
    found = find_inputs(config_of(folder, '"*.jsonl"'), None, left_out, grows=True)
    assert [Path(one.pin.url).name for one in found] == ["a.jsonl", "b.jsonl"]
    assert list(left_out.no_data) == [ascii(f"{folder}/{name}")]


def test_outputs_are_never_data(folder):
    build = folder / "build.toml"
    text = 'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    build.write_text(text + "[learn]\nvocab_size = 300\n")
    run(build, folder / "out")
    (folder / "copy").mkdir()
    (folder / "out" / "rejected").rename(folder / "copy" / "rejected")  # a stage alone
    left_out = LeftOut()
    files = taken(config_of(folder, '"**"', 'exclude = "*.toml"'), left_out)
    assert files == ["a.jsonl", "b.jsonl", "deep/er/d.jsonl", "deep/old/e.jsonl", "old/c.jsonl"]
    assert {why for why in left_out.no_data.values() if "output" in why} == {
        f"of the tokcore output {folder / name}" for name in ("out", "copy")
    }
    with pytest.raises(ConfigError, match="of the tokcore output"):
        taken(config_of(folder, '"out/shards/arrow/*.arrow"'))
    # A folder that only has such a name, or another's manifest, holds data.
    write(folder / "plan" / "f.jsonl", DATA)
    write(folder / "plan" / "manifest.json", json.dumps({"format": "other"}).encode())
    assert "plan/f.jsonl" in taken(config_of(folder, '"**/*.jsonl"'))


@pytest.mark.parametrize(
    ("pattern", "output", "is_refused"),
    [
        ("**", "out", True),
        ("**/*.jsonl", "out", True),
        ("*/*.jsonl", "out", True),
        ("*.jsonl", ".", True),
        ("*.jsonl", "out", False),
        ("ol*/*.jsonl", "out", False),
        ("deep/**", "out", False),
        ("deep/**", "deep/er/out", True),
        ("deep/../**", "out", True),
        ("linked/**", "deep/out", True),
        ("deep/**", "linked/out", True),
        ("deep/er/d.jsonl", "deep", True),
        ("deep/er/d.jsonl", "deep/er/d", False),
    ],
)
def test_an_output_inside_an_input_pattern_is_refused(folder, pattern, output, is_refused):
    (folder / "linked").symlink_to(folder / "deep")
    config = config_of(folder, f'"{pattern}"', 'exclude = "*.toml"', output)
    expected = pytest.raises(ConfigError, match=r"lies in(side)? th") if is_refused else contextlib.nullcontext()
    with expected:
        taken(config)


def test_an_output_that_is_excluded_may_lie_inside(folder):
    assert len(taken(config_of(folder, '"**/*.jsonl"', 'exclude = "out/**"', "out"))) == 5


def test_a_link_into_the_output_is_refused(folder):
    write(folder / "out" / "x.jsonl", DATA)
    (folder / "z.jsonl").symlink_to(folder / "out" / "x.jsonl")
    with pytest.raises(ConfigError, match=r"z\.jsonl is a link into the build's output"):
        taken(config_of(folder, '"*.jsonl"', "follow_links = true", output="out"))


def test_in_a_store_the_same_holds():
    store = fsspec.filesystem("memory")
    for name in ("a.jsonl", "README.md", "x/b.jsonl", "x/_SUCCESS"):
        store.pipe_file(f"/inputs/{name}", DATA)
    config = config_of("/nowhere", '"memory://inputs/**"', 'exclude = "memory://inputs/x/*"')
    assert taken(config) == ["memory:///inputs/a.jsonl"]
    for output in ("memory://inputs/out", "memory:///inputs/x/out"):
        with pytest.raises(ConfigError, match="lies inside this pattern"):
            taken(config_of("/nowhere", '"memory://inputs/**"', output=output))


def test_the_command_refuses_before_anything_is_written(folder):
    build = folder / "build.toml"
    build.write_text('version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "**/*.jsonl"\n')
    before = sorted(folder.rglob("*"))
    for command in ("check", "build", "count", "encode"):
        done = tokcore(command, build)
        assert (done.returncode, done.stdout) == (2, "")
        assert "build.toml:6: source[0].files" in done.stderr
        assert "lies inside this pattern" in done.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        write(tmp_path / "ds" / "data" / f"{name}.jsonl", DATA)
    for name in ("README.md", "dataset_info.json", ".gitattributes", "config.json", "__pycache__/train.jsonl"):
        write(tmp_path / "ds" / name, b"{}")
    return tmp_path


def test_a_split_of_a_folder(dataset):
    left_out = LeftOut()
    train = ["ds/data/train-00000-of-00002.jsonl", "ds/data/train-00001-of-00002.jsonl"]
    assert taken(config_of(dataset, '"ds"', 'split = "train"'), left_out) == train
    assert {Path(url).name: why for url, why in left_out.no_data.items()} == {
        "README.md": "about the data",
        "dataset_info.json": "a mark of another tool",
        ".gitattributes": "hidden",
        "config.json": "a mark of another tool",
        "train.jsonl": "a mark of another tool",
        "test-00000-of-00001.jsonl": "not of the split train",
    }
    assert taken(config_of(dataset, f'"{dataset}/ds/data/"', 'split = "test"')) == [
        f"{dataset}/ds/data/test-00000-of-00001.jsonl"
    ]
    assert taken(config_of(dataset, '"ds"', 'split = "train"\nexclude = "*-00001-*"')) == train[:1]


def test_check_tells_other_splits_from_files_without_data(dataset):
    sources = '[[source]]\nlang = "en"\nfiles = "ds"\nsplit = "train"\n'
    report = tokcore("check", build_file(dataset, sources, "[learn]\nvocab_size = 300\n")).stdout
    assert f"of another split: {dataset}/ds/data/test-00000-of-00001.jsonl\n" in report
    (no_data,) = (line for line in report.splitlines() if line.startswith("no data, left out: "))
    assert "test-00000" not in no_data


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("http://127.0.0.1:1/x.jsonl", r"no file matches http://127\.0\.0\.1:1/x\.jsonl\. http:// is for single files"),
        ("memory://x/*.jsonl", r"no file matches memory://x/\*\.jsonl\.$"),
        ("x/*.jsonl", r"no file matches .*/x/\*\.jsonl\. Relative paths start at the build file's folder\.$"),
    ],
)
def test_the_advice_fits_the_place_where_nothing_matches(tmp_path, files, message):
    with pytest.raises(ConfigError, match=message):
        taken(config_of(tmp_path, f'"{files}"'))


@pytest.mark.parametrize(
    ("files", "split", "message"),
    [
        ('"ds"', "dev", r'split = "dev": the folder has the splits test, train\. Write one of them'),
        ('"ds/**"', "train", "split chooses files in a folder"),
        ('"nothing"', "train", "no file matches"),
        ('"ds/data/test-00000-of-00001.jsonl"', "test", "no file matches"),
    ],
)
def test_a_split_that_is_not_there(dataset, files, split, message):
    with pytest.raises(ConfigError, match=message) as raised:
        taken(config_of(dataset, files, f'split = "{split}"'))
    assert "build.toml:6: source[0].files" in str(raised.value)
