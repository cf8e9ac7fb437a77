"""`tokcore mix-search`: what it says of a mix is what a build with that mix gives, and it writes nothing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, tokcore, tree, write
from support.examples import examples

import tokcore as tk
from tokcore.count.pretoken_rows import list_rows, make_rows
from tokcore_pipelines.look.mix_search import make_weighted, write_block
from tokcore_pipelines.work.search_rows import keep_most_frequent, share_rows
from tokcore_schemas.config import load_config, parse_config

LANGS = {"en": 40, "ru": 15, "hi": 12}
SIZE = 330
SETTINGS = f"[learn]\nvocab_size = {SIZE}\n[count]\nmax_pretoken_bytes = 0\n"


def make_sources(folder) -> str:
    told = ""
    for lang, num in LANGS.items():
        write(folder / f"{lang}.jsonl", jsonl([{"text": one} for one in texts(lang, num)]))
        told += f'[[source]]\nlang = "{lang}"\nname = "of-{lang}"\nfiles = "{lang}.jsonl"\n'
    return told


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    run(build_file(folder, make_sources(folder), SETTINGS), folder / "out")
    for lang in LANGS:
        write(folder / "parallel" / f"{lang}.txt", "\n".join(texts(lang, 6, 9)).replace("\n\n", "\n").encode())
    lines = min(len((folder / "parallel" / f"{lang}.txt").read_bytes().split(b"\n")) for lang in LANGS)
    for lang in LANGS:
        path = folder / "parallel" / f"{lang}.txt"
        path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:lines]))
    return folder


def search(folder, *arguments: str) -> dict:
    ran = tokcore("mix-search", folder / "build.toml", *arguments, "--json", "-o", folder / "path.svg", "--force")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def learn_with(folder, weights: dict[str, str], output) -> tk.Tokenizer:
    """The tokenizer of a build with these weights, from the same counts."""
    assigned = ['mix.strategy="weights"', *(f"mix.weights.{lang}={weight}" for lang, weight in weights.items())]
    told = [part for one in assigned for part in ("--set", one)]
    ran = tokcore("learn", folder / "build.toml", "--output", output, "--from", folder / "out", *told)
    assert ran.returncode == 0, ran.stderr
    return tk.Tokenizer.load(output / "tokenizer")


def count_by_hand(folder, tokenizer, lang: str) -> tuple[int, int]:
    """(bytes, tokens) of the counted text of a language, pre-token by pre-token."""
    rows = tk.open_counts(folder / "out", lang).to_pylist()
    num = sum(row["count"] * len(tokenizer.encode(row["pretoken"].decode())) for row in rows)
    return sum(row["count"] * len(row["pretoken"]) for row in rows), num


def test_what_is_said_of_each_mix_is_what_a_build_with_it_gives(folder, tmp_path):
    before = tree(folder / "out")
    told = search(folder, "--target", "ru=3.9", "--target", "en=96%", "--tries", "8")
    assert tree(folder / "out") == before
    assert told["rows"] == told["rows_there"]
    assert told["best"]
    for number in (0, told["best"]):
        one = told["tries"][number]
        tokenizer = learn_with(folder, one["weights"], tmp_path / str(number))
        assert tokenizer.spec.fingerprint == one["fingerprint"]
        sums = {lang: count_by_hand(folder, tokenizer, lang) for lang in LANGS}
        whole = [sum(column) for column in zip(*sums.values(), strict=True)]
        assert one["bytes_per_token"] == round(whole[0] / whole[1], 4)
        assert one["values"]["ru=3.9"] == round(sums["ru"][0] / sums["ru"][1], 4)
    goal = Fraction(str(told["tries"][0]["values"]["en=96%"])) * Fraction(96, 100)
    assert abs(told["targets"]["en=96%"]["goal"] - float(goal)) < 1e-3


def test_the_search_gets_nearer_and_is_the_same_each_time(folder):
    arguments = ("--target", "family:slavic=4.5", "--target", "source:of-en=90%", "--tries", "10")
    told = search(folder, *arguments)
    assert search(folder, *arguments) == told
    first, best = told["tries"][0], told["tries"][told["best"]]
    assert best["missed"] < first["missed"]
    assert best["values"]["family:slavic=4.5"] > first["values"]["family:slavic=4.5"]
    assert len(told["tries"]) == len({json.dumps(one["weights"]) for one in told["tries"]}) == 10
    picture = ET.fromstring((folder / "path.svg").read_text())
    circles = [one for one in picture.iter() if one.tag.endswith("circle")]
    assert len(circles) == 3 * 10 + 3  # each try in each line, and the keys
    assert "family:slavic=4.5" in [one.text for one in picture.iter() if one.tag.endswith("text")]


def test_premiums_are_searched_on_odd_lines_and_judged_on_even_ones(folder, tmp_path):
    told = search(folder, "--target", "premium=1.1", "--parallel", folder / "parallel", "--tries", "3")
    one = told["tries"][0]
    tokenizer = learn_with(folder, one["weights"], tmp_path / "learned")
    for first, said in ((0, one["values"]["premium=1.1"]), (1, one["premium_even_lines"])):
        sums = {}
        for lang in LANGS:
            lines = (folder / "parallel" / f"{lang}.txt").read_bytes().removesuffix(b"\n").split(b"\n")[first::2]
            sums[lang] = sum(len(tokenizer.encode(line.decode())) for line in lines)
        assert said == pytest.approx(np.quantile([sums[lang] / sums["en"] for lang in ("hi", "ru")], 0.9), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "en"), "--target en: expected NAME=NUMBER or NAME=PERCENT%"),
        (("--target", "en=0"), "--target en=0: expected NAME=NUMBER"),
        (("--target", "eng=3"), "no counted text is of the language eng, only of en, hi, ru. Did you mean en?"),
        (("--target", "famly:indic=3"), "famly is none of lang, source, group, family, script. Did you mean family?"),
        (("--target", "family:indik=3"), "only of germanic, indic, slavic. Did you mean indic?"),
        (("--target", "premium=2"), "premiums need parallel text: add --parallel FOLDER"),
        (("--target", "en=3", "-o", "path.png"), "-o path.png: expected a name that ends with .svg"),
        (("--target", "en=3", "-o", "none/path.svg"), "there is no folder none: make it first"),
        (("--target", "en=3", "--output", "nothing"), "has no count tables: run `tokcore count"),
        (("--target", "en=3", "--set", "count.sample=0.5"), "was counted in another way: count.sample was 1, now 0.5"),
        (
            ("--target", "en=3", "--set", "learn.model=byte", "--set", "learn.vocab_size=257"),
            "nothing is learned from counts",
        ),
    ],
)
def test_what_cannot_be_searched(folder, arguments, message):
    ran = tokcore("mix-search", folder / "build.toml", *arguments, cwd=folder)
    assert ran.returncode == 2
    assert message in ran.stderr


def test_the_table_to_paste_is_the_mix_that_was_tried(folder):
    text = (folder / "build.toml").read_text() + (
        '[mix]\nover = ["group", "lang", "source"]\nlevels.group.shares = { west = 0.4 }\nlevels.lang.max_epochs = 3\n'
        '[mix.groups]\nwest = ["en"]\n'
    )
    config = parse_config(text, str(folder / "build.toml"))
    mix = make_weighted(config.mix, {"en": Decimal(1), "ru": Decimal(2), "hi": Decimal(3)})
    pasted = parse_config(text.partition("[mix]")[0] + write_block(mix), str(folder / "build.toml")).mix
    assert pasted.level_names == ("group", "lang", "source")
    assert pasted == mix
    flat = make_weighted(
        load_config(str(folder / "build.toml")).mix, {"en": Decimal(1), "ru": Decimal(2), "hi": Decimal(3)}
    )
    assert write_block(flat) == '[mix]\nstrategy = "weights"\n\n[mix.weights]\nen = 1\nru = 2\nhi = 3\n'


@examples(100)
@given(st.lists(st.lists(st.integers(1, 20), max_size=12), max_size=5), st.integers(1, 15))
def test_the_most_frequent_rows_are_kept_whatever_the_blocks(blocks, most):
    rows = [(bytes([n, i]), count, 1) for n, block in enumerate(blocks) for i, count in enumerate(block)]
    made = [make_rows([row for row in rows if row[0][0] == n]) for n in range(len(blocks))]
    expected = sorted(sorted(rows, key=lambda row: (-row[1], row[0]))[:most])
    assert list_rows(keep_most_frequent(iter(made), most)) == expected


@examples(100)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(8, 300))
def test_rows_are_shared_as_evenly_as_they_can_be(sizes, most):
    limit = share_rows(sizes, most)
    assert sum(min(size, limit) for size in sizes) <= most
    assert sum(min(size, limit + 1) for size in sizes) > most or limit >= max(sizes)
