"""tokcore convert --partition-by: an output in other folders, without text, is what a build with these makes."""

from __future__ import annotations

import itertools

import pytest
from support.builds import build_file, jsonl, run, tokcore, tree, write
from support.partitioned import DOCUMENTS as EVERY_DOCUMENT
from support.partitioned import METADATA, SOURCES

from tokcore.errors import ConfigError, StageError
from tokcore.formats.partition_names import Partitioning
from tokcore_pipelines import update
from tokcore_pipelines.build import make_tokenizer
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.partitioned_output import make_partitioned_output, parse_partitioning
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.work import encode_item, scatter_item

SHARDS = '[shards]\nvalidation = 0.2\ntarget_tokens = 300\nformats = ["megatron"]\n'
TEXT = "[learn]\nvocab_size = 5000\nallow_smaller = true\n[plan]\nrange_bytes = 9000\n" + SHARDS
TOPIC = 'partition_by = ["topic"]\n'
EVERY = 'partition_by = ["lang", "topic", "quality"]\nbins = { quality = [0.2, 0.5, 0.8] }\n'
BY = {
    "": None,
    'by = "lang"\n': None,
    TOPIC: Partitioning(("topic",), {}),
    EVERY: Partitioning(("lang", "topic", "quality"), {"quality": ("0.2", "0.5", "0.8")}),
}
DOCUMENTS = EVERY_DOCUMENT[:80]
MORE = {
    "plan": "",
    "shuffled": '[shuffle]\nseed = 7\n[mixture]\nstrategy = "natural"\nover = "languages"\n[pack]\nlength = 64\n',
}


@pytest.fixture(scope="module", params=sorted(MORE))
def built(request, tmp_path_factory):
    """A folder with an output for each way to keep shards apart: out-0 to out-3."""
    folder = tmp_path_factory.mktemp("anew")
    write(folder / "a.jsonl", jsonl(DOCUMENTS))
    for number, keys in enumerate(BY):
        path = build_file(folder, SOURCES + METADATA, TEXT + keys + MORE[request.param], f"{number}.toml")
        run(path, folder / f"out-{number}")
    return folder


@pytest.fixture
def without_text(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("text was read, or merges were learned")

    monkeypatch.setattr(encode_item, "encode_texts", refuse)
    monkeypatch.setattr(scatter_item, "encode_texts", refuse)
    monkeypatch.setattr(make_tokenizer, "learn_from", refuse)


def cut(output, by, target, most=1000):
    return make_partitioned_output(str(output), by, most, str(target), RunOptions(1, here=True)).run()


def test_each_way_to_each_other_gives_the_bytes_of_a_build(built, tmp_path, without_text):
    is_plain = not (built / "out-0" / "mixed").exists()
    for (old, _), (new, (_, by)) in itertools.product(enumerate(BY), enumerate(BY.items())):
        if by is not None and old != new and (is_plain or (old, new) in ((0, 3), (3, 2))):
            cut(built / f"out-{old}", by, tmp_path / f"{old}-{new}")
            assert tree(tmp_path / f"{old}-{new}") == tree(built / f"out-{new}"), (old, new)
    assert verify(str(tmp_path / "0-3"), decode=None, base=str(built)).problems == ()


def test_the_command(built, tmp_path):
    options = ("--partition-by", "lang,topic,quality", "--bins", "quality=0.2,0.50,0.8")
    done = tokcore("convert", built / "out-2", *options, "-o", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "new") == tree(built / "out-3")
    for wrong, message in (
        (("--partition-by", "topic", "--to", "mds"), "--partition-by and --to exclude each other"),
        (("--partition-by", "url"), "--partition-by: names url, which is no field of the metadata"),
        (("--partition-by", "quality", "--bins", "quality=a"), "--bins quality=a: expected a field and numbers"),
        (("--partition-by", "topic", "--bins", "year=3"), "--bins year: is for a key of partition_by"),
        (("--partition-by", "topic"), "its shards are in these partitions already"),
    ):
        done = tokcore("convert", built / "out-2", *wrong, "-o", tmp_path / "other")
        assert done.returncode != 0
        assert message in " ".join(done.stderr.split())
        assert not (tmp_path / "other").exists()


def test_a_build_from_an_output_in_other_folders_reads_no_text(built, tmp_path, without_text):
    from tokcore_pipelines.build.build import Build
    from tokcore_schemas.config import load_config

    config = load_config(str(built / "0.toml"))
    Build(config, RunOptions(1, here=True), str(tmp_path / "new"), reuse=str(built / "out-3")).run()
    assert tree(tmp_path / "new") == tree(built / "out-0")


def test_what_does_not_follow_is_refused(tmp_path):
    whole = next(one for one in DOCUMENTS if None not in one.values())
    write(tmp_path / "a.jsonl", jsonl(DOCUMENTS))
    over = MORE["shuffled"].replace('"languages"', '"topic"')
    path = build_file(tmp_path, SOURCES + METADATA, TEXT + TOPIC + over)
    run(path, tmp_path / "out")
    with pytest.raises(ConfigError, match="--partition-by: lacks topic, and the output has a mixture over it"):
        cut(tmp_path / "out", Partitioning(("lang",), {}), tmp_path / "new")
    with pytest.raises(StageError, match=r"shards\.max_partitions = 3"):
        cut(tmp_path / "out", Partitioning(("lang", "topic"), {}), tmp_path / "new", 3)
    assert not (tmp_path / "new" / "shards" / "manifest.json").exists()
    write(tmp_path / "a2.jsonl", jsonl([{**whole, "id": "new"}]))
    path = build_file(tmp_path, SOURCES + METADATA, TEXT + TOPIC)
    run(path, tmp_path / "second")
    write(tmp_path / "a3.jsonl", jsonl([{**whole, "id": "newer"}]))
    update(path, output=str(tmp_path / "second"), workers=1)
    with pytest.raises(ConfigError, match="was updated since it was built"):
        cut(tmp_path / "second", Partitioning(("lang",), {}), tmp_path / "third")


@pytest.mark.parametrize("keys", ["", ",", "lang,lang"])
def test_keys_that_are_none(keys):
    with pytest.raises(ConfigError, match="--partition-by"):
        parse_partitioning(keys, [])
