"""[mix] and [mixture] by level: a build's shares against plain fractions, its merges, and its bytes over workers."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from support.builds import build_file, jsonl, run, texts, tokcore, tree, write
from support.slices import SliceProcesses

import tokcore as tk
from tokcore.errors import ConfigError
from tokcore_pipelines import report
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.learn_settings import read_learn_config
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.learn_beside import learn_at
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.build_in_python import Build as BuildKeys
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.stage_table import COUNTS, MIXED, TOKENIZER

# Source -> language -> documents.
CORPUS = {"web": {"en": 30, "ru": 12, "hi": 8}, "books": {"en": 10, "ru": 15, "zh": 9}}
SETTINGS = """
[plan]
range_bytes = 6000
[learn]
vocab_size = 320
[shards]
target_tokens = 900
validation = 0.1
[shuffle]
seed = 7
"""
LEVELS = """
[mix]
over = ["group", "lang", "source"]
alpha = 0.5
density = 0
[mix.levels.group]
shares = { west = 0.25 }
[mix.levels.source]
weights = { books = 2.5 }
[mix.groups]
west = ["en"]
[mixture]
strategy = "temperature"
alpha = 0
over = ["source", "lang"]
max_epochs = 2
[mixture.levels.source]
shares = { books = 0.4, web = 0.6 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    sources = ""
    for name, langs in CORPUS.items():
        of = {lang: texts(lang, num, len(name)) for lang, num in langs.items()}
        rows = [{"id": f"{name}-{lang}-{i}", "l": lang, "text": one} for lang in of for i, one in enumerate(of[lang])]
        write(folder / f"{name}.jsonl", jsonl(rows))
        sources += f'[[source]]\nname = "{name}"\nlang_field = "l"\nid = "id"\nfiles = "{name}.jsonl"\n'
    run(build_file(folder, sources, SETTINGS + LEVELS), folder / "out")
    return folder


def count_bytes(folder: Path) -> dict[tuple[str, str], int]:
    """(language, source) -> bytes of the pre-tokens of the training split, from the tables themselves."""
    found = {}
    for source, langs in CORPUS.items():
        for lang in langs:
            rows = tk.open_counts(folder / "out", lang, split="train", source=source).to_pylist()
            found[lang, source] = sum(len(row["pretoken"]) * row["count"] for row in rows)
    return found


def share_by_hand(sizes: dict[tuple[str, str], int]) -> dict[tuple[str, str], Fraction]:
    """The oracle: a quarter for English, the others by the root of their size; books count two and a half times."""
    of_lang = defaultdict(int)
    for (lang, _), size in sizes.items():
        of_lang[lang] += size
    roots = {lang: Fraction(Decimal(size).sqrt()) for lang, size in of_lang.items() if lang != "en"}
    shares = {lang: Fraction(3, 4) * root / sum(roots.values()) for lang, root in roots.items()} | {
        "en": Fraction(1, 4)
    }
    told = {key: Fraction("2.5") * size if key[1] == "books" else Fraction(size) for key, size in sizes.items()}
    return {
        (lang, source): shares[lang] * part / sum(of for (other, _), of in told.items() if other == lang)
        for (lang, source), part in told.items()
    }


def test_shares_are_those_of_plain_fractions_and_rows_are_weighed_by_them(folder):
    made = require_manifest(str(folder / "out"), TOKENIZER)
    sizes = count_bytes(folder)
    exact, total = share_by_hand(sizes), sum(sizes.values())
    weights = made.totals.mix["weights"]
    name = {key: f"group={'west' if key[0] == 'en' else 'other'}/lang={key[0]}/source={key[1]}" for key in sizes}
    assert {*weights} == {*name.values()}
    scale = 2 ** made.totals.mix["scale_bits"] / Fraction(made.totals.mix["scale_divisor"])
    for key, size in sizes.items():
        assert abs(weights[name[key]] - exact[key] * total / size * scale) < 1  # roots here have 28 digits
    for level, item_of in (("group", lambda k: "west" if k[0] == "en" else "other"), ("source", lambda k: k[1])):
        for item, told in made.totals.levels[level].items():
            before = Fraction(sum(size for key, size in sizes.items() if item_of(key) == item), total)
            after = sum(share for key, share in exact.items() if item_of(key) == item)
            assert [*map(float, told.share_of_bytes)] == pytest.approx([float(before), float(after)], abs=1e-6)
    assert made.languages["en"].share_of_bytes[1] == "0.250000"
    assert made.languages["en"].weight is None  # two sources, two weights
    assert made.languages["zh"].weight == weights["group=other/lang=zh/source=books"]
    counts = defaultdict(int)
    for (lang, source), path in name.items():
        for row in tk.open_counts(folder / "out", lang, split="train", source=source).to_pylist():
            counts[row["pretoken"]] += row["count"] * weights[path]
    pairs = defaultdict(int)
    for text, count in counts.items():
        for pair in itertools.pairwise(text):
            pairs[pair] += count
    model = tk.Tokenizer.load(folder / "out" / "tokenizer").spec.model
    first = b"".join(model.tokens[one] for one in model.merges[0].tolist())
    assert [first] == [bytes(pair) for pair, count in pairs.items() if count == max(pairs.values())]


def test_a_mixture_by_level_has_the_tokens_of_each_path(folder):
    made = require_manifest(str(folder / "out"), MIXED)
    sizes = {name: one.tokens for name, one in made.totals.paths.items()}
    assert {*sizes} == {f"source={source}/lang={lang}" for source, langs in CORPUS.items() for lang in langs}
    total = sum(sizes.values())
    for source, share in (("books", Fraction(2, 5)), ("web", Fraction(3, 5))):
        own = {name: size for name, size in sizes.items() if name.startswith(f"source={source}/")}
        left, wanted = share * total, {}
        for number, name in enumerate(sorted(own, key=own.get)):
            wanted[name] = min(2 * own[name], left / (len(own) - number))
            left -= wanted[name]
        for name, tokens in wanted.items():
            told = made.totals.paths[name]
            assert told.tokens_wanted == int(tokens)
            assert abs(told.mixed_tokens - tokens) < 0.25 * tokens  # whole documents of a small corpus
    mixed = tk.open_shards(folder / "out" / "mixed")
    assert sum(one.mixed_documents for one in made.totals.paths.values()) == len([*mixed])
    assert all(one.copies is None for one in (*made.languages.values(), *made.totals.sources.values()))


def test_bytes_are_equal_over_workers_and_slices_and_verify(folder, tmp_path):
    assert verify(str(folder / "out"), base=str(folder)).problems == ()
    run(folder / "build.toml", tmp_path / "two", workers=2)
    assert tree(tmp_path / "two") == tree(folder / "out")
    with SliceProcesses(folder / "build.toml", tmp_path / "slices", 2, "--json", lease=60) as slices:
        ended = [host.wait() for host in [slices.start(number) for number in (1, 2)]]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert tree(tmp_path / "slices") == tree(folder / "out")


def test_what_an_output_says_of_its_levels(folder):
    """The report, the end of a build, `show`, and learning again with the settings of the manifests."""
    told = report(folder / "out")
    assert told["provenance"]["mix_levels"]["group"]["west"]["share_of_bytes"][1] == "0.250000"
    assert set(told["corpus"]["mixture"]["paths"]) == set(require_manifest(str(folder / "out"), MIXED).totals.paths)
    page = folder / "page.html"
    assert tokcore("report", folder / "out", "-o", page).returncode == 0
    assert "Shares by source, before and after mixing" in page.read_text()
    assert "bytes learned from by group: other " in tokcore("build", folder / "build.toml").stdout
    identity = read_learn_config(str(folder / "out")).learn_identity()
    assert identity == require_manifest(str(folder / "out"), TOKENIZER).config


def test_learning_beside_with_other_weights_gives_another_tokenizer(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    made = require_manifest(str(folder / "out"), TOKENIZER)
    for assigned, is_same in (([], True), (["mix.levels.source.weights.books=9"], False)):
        config = load_config(str(folder / "build.toml"), assigned)
        (learned,) = learn_at(Build(config, RunOptions(here=True), str(tmp_path / "out")))
        assert (learned.fingerprint == made.totals.fingerprint) == is_same


def test_counts_without_sources_are_refused_for_sources(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": one} for one in texts("en", 20)]))
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    run(build_file(tmp_path, source, "[learn]\nvocab_size = 300\n"), tmp_path / "out")
    assert require_manifest(str(tmp_path / "out"), COUNTS).config.apart_by == ()
    named = build_file(tmp_path, source + 'name = "web"\n', '[learn]\nvocab_size = 300\n[mix]\nover = "sources"\n')
    with pytest.raises(ConfigError, match=r"mix\.over: mixes sources, which counts of this output do not tell apart"):
        run(named, tmp_path / "out")


def test_levels_survive_the_classes_of_python(folder):
    text = (folder / "build.toml").read_text()
    keys = BuildKeys.from_toml(text)
    path = str(folder / "build.toml")
    assert parse_config(keys.to_toml(), path).hash_settings() == parse_config(text, path).hash_settings()
    assert json.dumps(keys.to_tables()["mix"]["levels"]["group"], default=str) == '{"shares": {"west": "0.25"}}'
