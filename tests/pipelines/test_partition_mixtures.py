"""[mixture] over keys of partitions: what is mixed, and its receipts, against loops over documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, jsonl, run, tokcore, tree, write
from support.partitioned import DOCUMENTS, METADATA, SOURCES, find_folder, make_documents

import tokcore as tk
from tokcore.errors import ConfigError
from tokcore.train.document_shares import share_tokens
from tokcore.train.loader import Loader
from tokcore_pipelines import report
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.stage_table import MIXED

MORE = [*DOCUMENTS, *make_documents("c", 160)]
TEXT = """
[learn]
vocab_size = 300
[shards]
validation = 0.1
target_tokens = 1500
formats = ["megatron"]
partition_by = ["lang", "topic", "quality"]
bins = { quality = [0.2, 0.5, 0.8] }
[shuffle]
seed = 7
[mixture]
"""
WEIGHTS = {"topic=code": "2.5", "topic=web": "0", "topic=a%2Fb%20c": "0.5"}
TABLE = ", ".join(f"{json.dumps(name)} = {weight}" for name, weight in WEIGHTS.items())
WEIGHTED = f"strategy = 'weights'\nover = 'topic'\nweights = {{ {TABLE} }}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixtures")
    write(folder / "a.jsonl", jsonl(MORE))
    return folder


def name_group(one: dict, over: str) -> str:
    """The oracle: the partition of a document by some keys."""
    folders = dict(part.split("=", 1) for part in find_folder(one).split("/"))
    return "/".join(f"{key}={folders[key]}" for key in over.split("/"))


def read_train(place: Path) -> list[tuple[str, int, bytes]]:
    """(id, tokens, place) of each training document, in order."""
    shards = tk.open_shards(place)
    places = [one.tobytes() for file in shards.list_files() for one in file.find_provenance().places]
    return [(shards.document(i).id, len(shards[i]), place) for i, place in enumerate(places)]


@pytest.mark.parametrize(
    ("mixture", "over"),
    [
        (WEIGHTED, "topic"),
        ("strategy = 'temperature'\nalpha = 0.3\nover = 'quality/topic'\n", "quality/topic"),
        ("strategy = 'unimax'\nmax_epochs = 3\nover = 'lang'\n", "lang"),
        ("strategy = 'unimax'\nmax_epochs = 3\n", ""),
    ],
)
def test_partitions_are_mixed_as_a_loop_mixes_them(folder, tmp_path, mixture, over):
    path = build_file(folder, SOURCES + METADATA, TEXT + mixture)
    run(path, tmp_path / "out")
    assert verify(str(tmp_path / "out"), base=str(folder)).problems == ()
    made = require_manifest(str(tmp_path / "out"), MIXED)
    keys = over or "lang/topic/quality"
    groups = {one["id"]: name_group(one, keys) for one in MORE}
    sums = defaultdict(lambda: [0] * 6)
    times = defaultdict(int)
    for id, tokens, _ in read_train(tmp_path / "out" / "mixed"):
        times[id] += 1
        sums[groups[id]][3] += tokens
    for id, tokens, place in read_train(tmp_path / "out" / "shards"):
        own = sums[groups[id]]
        own[0] += 1
        own[1] += tokens
        own[2] += times[id]
        own[4] += times[id] == 0
        own[5] += max(times[id] - 1, 0)
        if over:
            share = made.totals.partitions[groups[id]]
            assert times[id] == share.copies + (int.from_bytes(place[8:], "big") < int(share.cut or "0", 16))
    assert {
        name: [one.documents, one.tokens, one.mixed_documents, one.mixed_tokens, one.left_out, one.repeated]
        for name, one in made.totals.partitions.items()
    } == sums
    sizes = {name: own[1] for name, own in sums.items()}
    config = made.config
    wanted = share_tokens(
        sizes,
        config.strategy,
        alpha=Decimal(config.alpha) if config.alpha else None,
        weights={name: Decimal(weight) for name, weight in WEIGHTS.items()} if over == "topic" else None,
        max_epochs=Decimal(3) if config.max_epochs else None,
    )
    assert not over or {name: one.tokens_wanted for name, one in made.totals.partitions.items()} == wanted
    assert all((one.copies is None) == bool(over) for one in made.languages.values())
    reported = report(tmp_path / "out")["corpus"]["mixture"]["partitions"]
    assert {name: one["mixed_tokens"] for name, one in reported.items()} == {name: own[3] for name, own in sums.items()}
    if over == "topic":
        assert "topic=web" in tokcore("show", tmp_path / "out" / "mixed").stdout


def test_keys_of_partitions_are_levels_too(folder, tmp_path):
    """Topics are equal, and what each gets goes to its languages by their sizes; receipts are those of a loop."""
    told = "strategy = 'natural'\nover = ['topic', 'lang']\nlevels.topic.alpha = 0\n"
    run(build_file(folder, SOURCES + METADATA, TEXT + told, "levels.toml"), tmp_path / "out")
    assert verify(str(tmp_path / "out"), base=str(folder)).problems == ()
    paths = require_manifest(str(tmp_path / "out"), MIXED).totals.paths
    groups = {one["id"]: name_group(one, "topic/lang") for one in MORE}
    sizes, mixed = Counter(), Counter()
    for place, sums in (("shards", sizes), ("mixed", mixed)):
        for id, tokens, _ in read_train(tmp_path / "out" / place):
            sums[groups[id]] += tokens
    assert {name: one.tokens for name, one in paths.items()} == sizes
    assert {name: one.mixed_tokens for name, one in paths.items() if one.mixed_tokens} == mixed
    topics = Counter()
    for name, size in sizes.items():
        topics[name.split("/")[0]] += size
    for name, size in sizes.items():
        exact = Fraction(sum(sizes.values()), len(topics)) * size / topics[name.split("/")[0]]
        assert paths[name].tokens_wanted == exact.numerator // exact.denominator


def test_weights_in_a_file_are_those_in_a_table(folder, tmp_path):
    run(build_file(folder, SOURCES + METADATA, TEXT + WEIGHTED), tmp_path / "table")
    write(folder / "w.json", b"\xef\xbb\xbf" + json.dumps({name: float(one) for name, one in WEIGHTS.items()}).encode())
    write(folder / "w.toml", "".join(f"{json.dumps(name)} = {one}\n" for name, one in WEIGHTS.items()).encode())
    for name in ("w.json", "w.toml"):
        told = f"strategy = 'weights'\nover = 'topic'\nweights_file = {json.dumps(name)}\n"
        path = build_file(folder, SOURCES + METADATA, TEXT + told, "file.toml")
        assert load_config(str(path)).mixture.weights == {name: Decimal(one) for name, one in WEIGHTS.items()}
        run(path, tmp_path / name, workers=2)
        assert tree(tmp_path / name / "mixed") == tree(tmp_path / "table" / "mixed")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "w.json: is no table of weights"),
        (b'{"topic=code": 1, "topic=code": 2}', "topic=code is there twice"),
        (b'{"topic=code": NaN}', "NaN is no number"),
        (b'{"topic=code": -1}', "topic=code = -1: expected a number of at least 0"),
        (b'{"topic=code": true}', "topic=code = True: expected a number"),
        (b"[1]", "expected a table of weights"),
        (b'{"code": 1}', r"code weighs no partition: expected topic=VALUE"),
        (None, r"mixture.weights_file = .*w.json: cannot be read: No such file"),
    ],
)
def test_what_a_file_of_weights_may_not_say(tmp_path, data, message):
    if data is not None:
        write(tmp_path / "w.json", data)
    told = "strategy = 'weights'\nover = 'topic'\nweights_file = 'w.json'\n"
    with pytest.raises(ConfigError, match=message):
        load_config(str(build_file(tmp_path, SOURCES + METADATA, TEXT + told)))


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (
            "strategy = 'natural'\nover = 'topics'",
            "topics is none of languages, sources, lang, topic, quality, .*Did",
        ),
        ("strategy = 'natural'\nover = 'topic/year'", "year is none of"),
        (
            "strategy = 'weights'\nover = 'topic'\nweights = { code = 1 }",
            "code weighs no partition: expected topic=VALUE",
        ),
        ("strategy = 'weights'\nover = 'topic'\nweights = { 'lang=en' = 1 }", "weighs no partition"),
        ("strategy = 'weights'\nover = 'topic'\nweights = { 'topic=a' = 1 }\nweights_file = 'w'", "exclude each other"),
        ("strategy = 'weights'\nover = 'topic'\n", "mixture.weights is missing"),
        ("strategy = 'natural'\nweights_file = 'w'\n", 'is for strategy = "weights"'),
    ],
)
def test_what_a_build_file_may_not_say(mixture, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(f'version = 1\n[build]\noutput = "o"\n{SOURCES}{METADATA}{TEXT}{mixture}\n', "build.toml")


def test_a_weight_that_no_document_has(folder, tmp_path):
    told = "strategy = 'weights'\nover = 'topic'\nweights = { 'topic=none' = 2 }\n"
    with pytest.raises(ConfigError, match="topic=none: no training document is of it, only of topic="):
        run(build_file(folder, SOURCES + METADATA, TEXT + told), tmp_path / "out")


def test_a_loader_weighs_partitions_by_any_keys(folder, tmp_path):
    """Rows of each name come in proportion, and hold the ids of its partitions, in the order of shards."""
    text = TEXT.partition("[shuffle]")[0]
    run(build_file(folder, SOURCES + METADATA, text), tmp_path / "out")
    own = {one["id"]: one for one in MORE}
    shards = tk.open_shards(tmp_path / "out")
    documents = [(shards.document(i).id, shards[i]) for i in range(len(shards))]
    write(tmp_path / "w.json", b'{"topic=code": 1.5, "topic=web": 0.5, "topic=": 0}')
    for mixture, weights in (
        ({"topic=code": 3, "topic=web": 1}, {"topic=code": 3, "topic=web": 1}),
        (tmp_path / "w.json", {"topic=code": 3, "topic=web": 1}),
        ({"quality=3/lang=en": 1, "quality=1/lang=ru": 1}, {"quality=3/lang=en": 1, "quality=1/lang=ru": 1}),
    ):
        over = "/".join(one.partition("=")[0] for one in next(iter(weights)).split("/"))
        streams = {name: [ids for id, ids in documents if name_group(own[id], over) == name] for name in weights}
        rows = {name: np.concatenate(parts) for name, parts in streams.items()}
        loader = Loader(tmp_path / "out", 16, 1, shuffle=False, mixture=mixture)
        assert loader.num_rows == sum(len(ids) // 16 for ids in rows.values())
        given = Counter()
        for step in range(4 * 8):
            name = next(
                name
                for name, ids in rows.items()
                if np.array_equal(loader[step].tokens[0], ids[given[name] * 16 : (given[name] + 1) * 16])
            )
            given[name] += 1
        assert given == {name: weight * 32 // sum(weights.values()) for name, weight in weights.items()}
    state = Loader(tmp_path / "out", 16, 1, mixture=tmp_path / "w.json").state_dict(1)
    assert state["mixture"] == {"topic=code": 3, "topic=web": 1}


def test_what_a_loader_may_not_be_told(folder, tmp_path):
    run(build_file(folder, SOURCES + METADATA, TEXT.partition("[shuffle]")[0]), tmp_path / "out")
    write(tmp_path / "zeros.json", b'{"topic=code": 0}')
    for mixture, message in (
        ({"topic=code": 1, "quality=1": 1}, "'topic=code' and 'quality=1' have different keys"),
        ({"topic=code": 1, "en": 1}, "have different keys"),
        ({"topic=x": 1}, "no shards of 'topic=x': there are 'topic=', 'topic=%5F_HIVE"),
        ({"year=1": 1}, "no shards of 'year=1': there are none"),
        (tmp_path / "zeros.json", "all weights are 0"),
        (tmp_path / "none.json", "none.json: cannot be read: No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            Loader(tmp_path / "out", 16, 1, mixture=mixture)
