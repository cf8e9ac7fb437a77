"""Symbolic links among the inputs: none is followed or passed over unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.builds import jsonl, run, texts, tokcore, write

from tokcore.errors import ConfigError
from tokcore_pipelines.begin.build_text import write_build_text
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.disk_listing import Links
from tokcore_pipelines.watch.known_files import KnownFiles
from tokcore_pipelines.work.inputs import LeftOut, find_inputs
from tokcore_schemas.build_tables import Source
from tokcore_schemas.config import BuildConfig, load_config, parse_config

DATA = jsonl([{"text": text} for text in texts("en", 12)])
FOLLOW, LEAVE_OUT = "follow_links = true", "follow_links = false"


def text_of(files: str, more: str = "", output: str = "/nowhere/out") -> str:
    source = f'[[source]]\nlang = "en"\nfiles = {files}\n{more}\n'
    return f'version = 1\n[build]\noutput = "{output}"\n{source}[learn]\nvocab_size = 300\nallow_smaller = true\n'


def config_of(folder: Path, files: str, more: str = "") -> BuildConfig:
    return parse_config(text_of(files, more), f"{folder}/build.toml")


def taken(config: BuildConfig, left_out: LeftOut | None = None) -> list[str]:
    return [file.uri for file in plan_build(config, left_out=left_out).files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """data/: fr (a folder), en (a link to one on another disk), fr/b (a link to a file elsewhere)."""
    for name in ("data/fr/a.jsonl", "disk/en/a.jsonl", "disk/en/deep/c.jsonl", "secret.jsonl"):
        write(tmp_path / name, DATA)
    (tmp_path / "data" / "en").symlink_to("../disk/en")
    (tmp_path / "data" / "fr" / "b.jsonl").symlink_to(tmp_path / "secret.jsonl")
    return tmp_path


@pytest.mark.parametrize("pattern", ["data/*/*.jsonl", "data/**/*.jsonl", "data/**", "*/*/*.jsonl", "data/e*/**"])
def test_a_link_ends_planning_with_its_name_and_target(folder, pattern):
    with pytest.raises(ConfigError, match=r"data/en is a link to \.\./disk/en.*follow_links = (true|false)"):
        taken(config_of(folder, f'"{pattern}"'))


def test_a_link_to_a_file_ends_planning(folder):
    with pytest.raises(ConfigError, match=rf"fr/b\.jsonl is a link to {folder}/secret\.jsonl\. Say in this"):
        taken(config_of(folder, '"data/fr/*.jsonl"'))


@pytest.mark.parametrize(
    ("files", "more", "found"),
    [
        ('"data/fr/a*.jsonl"', "", ["data/fr/a.jsonl"]),  # no link matches
        ('"data/*.jsonl"', "", None),  # nor may data/en hold what does
        ('["data/fr/a.jsonl", "data/fr/b.jsonl"]', "", ["data/fr/a.jsonl", "data/fr/b.jsonl"]),  # named alone
        ('"data/en/*.jsonl"', "", ["data/en/a.jsonl"]),  # a link above the pattern
        ('"data/*/*.jsonl"', 'exclude = ["data/en", "b.jsonl"]', ["data/fr/a.jsonl"]),
        ('"data/*/*.jsonl"', 'exclude = ["data/en/**", "data/fr/b*"]', ["data/fr/a.jsonl"]),
    ],
)
def test_links_that_are_not_met(folder, files, more, found):
    write(folder / "data" / "top.jsonl", DATA)
    assert taken(config_of(folder, files, more)) == (["data/top.jsonl"] if found is None else found)


def test_links_among_what_is_no_data_are_passed_over(folder):
    (folder / "data" / "fr" / ".git").symlink_to(folder / "disk")
    (folder / "data" / "fr" / "README.md").symlink_to(folder / "secret.jsonl")
    (folder / "data" / "fr" / ".gone").symlink_to("nowhere")
    assert taken(config_of(folder, '"data/fr/**"', 'exclude = "b.*"')) == ["data/fr/a.jsonl"]


def test_links_that_are_followed(folder):
    assert taken(config_of(folder, '"data/**/*.jsonl"', FOLLOW)) == [
        "data/en/a.jsonl",
        "data/en/deep/c.jsonl",
        "data/fr/a.jsonl",
        "data/fr/b.jsonl",
    ]
    assert taken(config_of(folder, '"data/*/*.jsonl"', FOLLOW)) == [
        "data/en/a.jsonl",
        "data/fr/a.jsonl",
        "data/fr/b.jsonl",
    ]
    (pin,) = [one.pin for one in find_inputs(config_of(folder, '"data/fr/b*"', FOLLOW), None, LeftOut())]
    assert pin == storage.stat(str(folder / "secret.jsonl"))._replace(url=pin.url)


def test_each_file_is_read_once_under_its_own_name(folder):
    data = folder / "data"
    (data / "aa.jsonl").symlink_to("fr/a.jsonl")
    (data / "also").symlink_to("fr")
    (data / "zz.jsonl").symlink_to(folder / "secret.jsonl")
    plan = plan_build(config_of(folder, '"data/**/*.jsonl"', f'{FOLLOW}\nexclude = "data/en"'))
    assert [file.uri for file in plan.files] == ["data/also/b.jsonl", "data/fr/a.jsonl"]
    assert plan.duplicates == ("data/also/b.jsonl", "data/fr/a.jsonl")
    # The same if the folder of the build file is itself reached through a link, and over several sources.
    (folder / "place").symlink_to(folder)
    more = f'{FOLLOW}\n[[source]]\nlang = "en"\nfiles = "{folder}/secret.jsonl"'
    config = config_of(folder / "place", '["data/a*/**/*.jsonl", "data/fr/a.jsonl"]', more)
    assert taken(config) == [f"{folder}/secret.jsonl", "data/fr/a.jsonl"]


def test_loops_end(folder):
    data = folder / "data"
    (data / "fr" / "up").symlink_to("..")
    (data / "fr" / "self").symlink_to(".")
    (data / "fr" / "top").symlink_to(folder)
    (data / "fr" / "x.jsonl").symlink_to("x.jsonl")
    exclude = 'exclude = ["x.jsonl", "data/en", "*b.jsonl"]'
    files = taken(config_of(folder, '"data/**/*.jsonl"', f"{FOLLOW}\n{exclude}"))
    below_top = ["disk/en/a.jsonl", "disk/en/deep/c.jsonl", "secret.jsonl"]
    assert files == ["data/fr/a.jsonl", *(f"data/fr/top/{name}" for name in below_top)]


@pytest.mark.parametrize("pattern", ["data/*/*.jsonl", "data/**"])
@pytest.mark.parametrize("name", ["fr/gone.jsonl", "gone"])
def test_a_link_to_what_is_not_there(folder, pattern, name):
    (folder / "data" / name).symlink_to("/not/mounted")
    with pytest.raises(ConfigError, match=rf"data/{name} is a link to /not/mounted, which is not there"):
        taken(config_of(folder, f'"{pattern}"', FOLLOW))
    with pytest.raises(ConfigError, match="is a link to"):
        taken(config_of(folder, f'"{pattern}"', 'exclude = ["b.jsonl", "data/en"]'))
    left_out = LeftOut()
    config = config_of(folder, f'"{pattern}"', FOLLOW)
    assert len([*find_inputs(config, None, left_out, grows=True)]) == (3 if "*/*" in pattern else 4)
    assert left_out.no_data == {f"{folder}/data/{name}": "a link to /not/mounted, which is not there"}
    with pytest.raises(ConfigError, match="no file matches"):
        taken(config_of(folder, '"data/none.jsonl"', FOLLOW))


def test_links_that_are_left_out_are_counted_and_named(folder):
    left_out = LeftOut()
    assert taken(config_of(folder, '"data/*/*.jsonl"', LEAVE_OUT), left_out) == ["data/fr/a.jsonl"]
    assert left_out.describe_links() == [
        f"2 links left out: {folder}/data/en (a link to ../disk/en), "
        f"{folder}/data/fr/b.jsonl (a link to {folder}/secret.jsonl)"
    ]
    for pattern, said in (("data/e*/*.jsonl", "no file matches .*1 link left out"), ("data/fr/b*", "are left out")):
        with pytest.raises(ConfigError, match=said):
            taken(config_of(folder, f'"{pattern}"', LEAVE_OUT))


def test_a_link_to_a_folder_of_the_output_is_refused(folder):
    write(folder / "out" / "x.jsonl", DATA)
    (folder / "data" / "fr" / "z").symlink_to(folder / "out")
    config = parse_config(text_of('"data/fr/**/*.jsonl"', FOLLOW, "out"), f"{folder}/build.toml")
    with pytest.raises(ConfigError, match=r"z/x\.jsonl is a link into the build's output"):
        taken(config)


def test_an_output_that_was_begun_without_the_key_goes_on(folder):
    """As the key changes no identity, whether an output is there decides; so it goes on, and says what it does."""
    path = folder / "build.toml"
    (folder / "data" / "en").rename(folder / "en")
    (folder / "data" / "fr" / "b.jsonl").rename(folder / "b.jsonl")
    path.write_text(text_of('"data/*/*.jsonl"', output="out"))
    root = run(path, folder / "out").root
    (folder / "en").rename(folder / "data" / "en")
    (folder / "b.jsonl").rename(folder / "data" / "fr" / "b.jsonl")
    update = Update(load_config(str(path)), output=str(folder / "out"))
    changes = update.look()
    assert changes.new == ["data/fr/b.jsonl"]
    (warning,) = update.left_out.describe_links()
    assert warning.startswith(f"warning: {path}:6: source[0].files = 'data/*/*.jsonl': {folder}/data/en is a link to")
    assert "links to files are read" in warning
    # A key that is set changes which files are listed, and nothing else.
    path.write_text(text_of('"data/*/*.jsonl"', LEAVE_OUT, "out"))
    assert not Update(load_config(str(path)), output=str(folder / "out")).look()
    assert run(path, folder / "out").root == root
    path.write_text(text_of('"data/*/*.jsonl"', FOLLOW, "out"))
    changes = Update(load_config(str(path)), output=str(folder / "out")).look()
    assert (changes.new, changes.changed, changes.vanished) == (["data/en/a.jsonl", "data/fr/b.jsonl"], [], [])


def test_a_watcher_that_lists_less_than_everything_keeps_what_it_knows_of_links(folder):
    known = KnownFiles(keeps=True)
    config = config_of(folder, '"data/*/*.jsonl"', LEAVE_OUT)
    looks = []
    for begin in (known.begin_full, lambda: known.begin_small([], False), lambda: known.begin_small([], True)):
        begin()
        left_out = LeftOut()
        found = find_inputs(config, None, left_out, grows=True, list_files=known.list_files)
        looks.append(([one.uri for one in found], sorted(left_out.no_data)))
    assert looks == [(["data/fr/a.jsonl"], [f"{folder}/data/en", f"{folder}/data/fr/b.jsonl"])] * 3


def test_the_key_leaves_the_hash_of_settings_alone_where_it_is_not_set():
    """The hash by which finished builds are recognized without listing their inputs."""
    source = Source(lang="en", files=("a.jsonl",))
    assert repr(source) == (
        "Source(lang='en', lang_field=None, files=('a.jsonl',), exclude=(), split=None, format=None, text='text', "
        "id=None, invalid_utf8='reject', max_document_bytes=268435456, encoding='utf-8', unit=None, separator=None, "
        "delimiter=None, quotes=True, validation=False, group=None, name=None)"
    )
    assert "follow_links=False" in repr(Source(lang="en", files=("a.jsonl",), follow_links=False))


def test_init_writes_the_key_where_it_sees_links(folder):
    (folder / "data" / "fr" / "gone.jsonl").symlink_to("/not/mounted")
    build = folder / "build.toml"
    build.write_text(write_build_text(propose(f"{folder}/data"), str(build)))
    config = load_config(str(build))
    assert [(one.lang, one.follow_links, one.exclude) for one in config.sources] == [
        ("en", True, ()),
        ("fr", True, ("data/fr/gone.jsonl",)),
    ]
    left_out = LeftOut()
    assert len(taken(config, left_out)) == 4
    assert left_out.idle == []
    assert "en -> ../disk/en" in build.read_text()
    (folder / "plain").mkdir()
    write(folder / "plain" / "a.jsonl", DATA)
    assert "follow_links" not in write_build_text(propose(f"{folder}/plain"), str(build))


def test_a_cache_of_the_hub(tmp_path):
    """Its files are links into a folder of blobs."""
    for number in range(2):
        write(tmp_path / "hub" / "blobs" / f"{number:040x}", DATA + b"\n" * number)
        link = tmp_path / "hub" / "snapshots" / "1" / "data" / f"train-{number}.jsonl"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(tmp_path / "hub" / "blobs" / f"{number:040x}", link.parent))
    folder = tmp_path / "hub" / "snapshots" / "1"
    build = tmp_path / "build.toml"
    build.write_text(write_build_text(propose(str(folder)), str(build)))
    names = [f"hub/snapshots/1/data/train-{number}.jsonl" for number in range(2)]
    assert taken(load_config(str(build))) == names
    assert taken(config_of(tmp_path, '"hub/snapshots/1"', f'split = "train"\n{FOLLOW}')) == names


def test_commands_say_what_became_of_links(folder):
    build = folder / "build.toml"
    build.write_text(text_of('"data/*/*.jsonl"', output="out"))
    for command in ("check", "build"):
        done = tokcore(command, build)
        assert (done.returncode, "data/en is a link to" in done.stderr) == (2, True)
    build.write_text(text_of('"data/*/*.jsonl"', LEAVE_OUT, "out"))
    assert f"links, left out: {folder}/data/en, {folder}/data/fr/b.jsonl" in tokcore("check", build).stdout
    assert "2 links left out" in tokcore("build", build).stderr
    report = json.loads(tokcore("check", build, "--json").stdout)
    assert report["no_data"][f"{folder}/data/en"] == "a link to ../disk/en"


def test_links_that_a_listing_meets(folder):
    links = Links()
    found = storage.list_files(f"{folder}/data/**", links)
    assert [file.url.removeprefix(f"{folder}/data/") for file in found] == ["fr/a.jsonl", "fr/b.jsonl"]
    assert {path.removeprefix(f"{folder}/data/"): link.kind for path, link in links.met.items()} == {
        "en": "folder",
        "fr/b.jsonl": "file",
    }
