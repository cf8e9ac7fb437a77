"""tokcore evaluate: which texts are judged on, who learned from them, and what is printed. Figures: test_evaluation."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from support.builds import build_file, jsonl, run, small_corpus, texts, tokcore, tree, write
from support.vocabularies import rank_file_bytes

import tokcore as api
from tokcore.evaluate.evaluation import evaluate
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look import judged_texts
from tokcore_pipelines.look.evaluate import Asked, evaluate_tokenizers
from tokcore_pipelines.look.judged_texts import TextDraw, draw_validation, find_learned_share, find_output

SETTINGS = """
[learn]
vocab_size = 400
[special]
"<s>" = "document_begin"
"<|end|>" = "document_end"
[shards]
target_tokens = 1500
"""
LINES = {"en": ["one two", "three"], "sw": ["moja mbili tatu", "nne"], "km": ["មួយ ពីរ", "បី"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """out: a fifth held out. all: the same, learned from, too. whole: nothing held out."""
    folder = tmp_path_factory.mktemp("evaluate")
    small_corpus(folder)
    for name, more in (("out", "validation = 0.2"), ("all", "validation = 0.2"), ("whole", "")):
        settings = SETTINGS + more + ('\n[count]\nsplits = "all"\n' if name == "all" else "")
        run(build_file(folder, settings=settings, name=f"{name}.toml"), folder / name)
    for lang, lines in LINES.items():
        write(folder / "parallel" / f"{lang}.txt", "".join(f"{line}\n" for line in lines).encode())
    held = [{"text": text, "lang": lang} for lang in ("en", "ru") for text in texts(lang, 30, seed=7)]
    write(folder / "held.jsonl.zst", jsonl(held))
    return folder


def read_split(folder: Path, split: str) -> dict[str, list[bytes]]:
    """Language -> the different texts of a split, by its shards."""
    shards, tokenizer = api.open_shards(folder, split), api.Tokenizer.load(folder)
    found: dict[str, list[bytes]] = {}
    for row in range(len(shards)):
        found.setdefault(shards.document(row).lang, []).append(tokenizer.decode(shards[row][1:-1]))
    return {lang: [*dict.fromkeys(of)] for lang, of in found.items()}


def ask(folder: Path, *arguments: object) -> dict:
    done = tokcore("evaluate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_validation_split_is_judged_on(folder):
    before = tree(folder / "out")
    told = ask(folder, folder / "out", folder / "all", folder / "whole")
    assert tree(folder / "out") == before, "nothing is written"
    held = read_split(folder / "out", "validation")
    assert told["text"]["from"] == f"validation split of {folder / 'out'}"
    assert {lang: of["texts"] for lang, of in told["text"]["languages"].items()} == {
        lang: len(of) for lang, of in held.items()
    }
    assert all(of["all"] for of in told["text"]["languages"].values())
    every = evaluate({name: api.Tokenizer.load(folder / name) for name in ("out", "all", "whole")}, held)
    for name, expected in every.items():
        found = told["tokenizers"][name]
        assert {key: found[key] for key in expected} == json.loads(json.dumps(expected))
    # How much each was learned from: out from what also stands in its training split, all and whole from everything.
    train = {text for of in read_split(folder / "out", "train").values() for text in of}
    every = [text for of in held.values() for text in of]
    share = sum(len(text) for text in every if text in train) / sum(map(len, every))
    assert told["tokenizers"]["out"]["learned_share"] == pytest.approx(share, abs=1e-6)
    assert share < 0.05
    assert [told["tokenizers"][name]["learned_share"] for name in ("all", "whole")] == [1, 1]


def test_files_are_judged_on(folder):
    told = ask(folder, folder / "out", "--data", folder / "held.jsonl.zst", "--parallel", folder / "parallel")
    held = {lang: [text.encode() for text in texts(lang, 30, seed=7)] for lang in ("en", "ru")}
    tokenizer = api.Tokenizer.load(folder / "out")
    expected = evaluate({"out": tokenizer}, held)["out"]
    found = told["tokenizers"]["out"]
    assert (told["text"]["from"], found["learned_share"]) == ("files", 0)
    assert {key: found[key] for key in expected} == json.loads(json.dumps(expected))
    tokens = {lang: sum(tokenizer.count_tokens(line) for line in lines) for lang, lines in LINES.items()}
    premiums = sorted(tokens[lang] / tokens["en"] for lang in ("sw", "km"))
    assert found["premium_median"] == pytest.approx(sum(premiums) / 2, abs=1e-6)
    assert found["premium_p90"] == pytest.approx(premiums[0] * 0.1 + premiums[1] * 0.9, abs=1e-6)
    assert found["parallel_learned_share"] == 0
    # The same, as one language, in another field.
    write(folder / "other.jsonl", jsonl([{"said": text, "lang": "x"} for text in texts("en", 30, seed=7)]))
    options = ("--data", folder / "other.jsonl", "--text", "said", "--lang", "en")
    again = ask(folder, folder / "out", *options)["tokenizers"]["out"]
    assert again["languages"].keys() == {"en"}
    assert again["languages"]["en"] == found["languages"]["en"]


def test_parallel_text_that_was_learned_from_is_marked(folder, tmp_path):
    """A share in bytes, of the lines that are documents."""
    lines = [" ".join(text.split()) for text in texts("en", 20)]
    write(tmp_path / "en.jsonl", jsonl([{"text": line} for line in lines]))
    source = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
    run(build_file(tmp_path, source, "[learn]\nvocab_size = 300\n"), tmp_path / "out")
    for lang, line in (("en", lines[3]), ("sw", "moja")):
        write(tmp_path / "known" / f"{lang}.txt", f"{line}\n".encode())
    options = (tmp_path / "out", "--data", folder / "held.jsonl.zst", "--parallel", tmp_path / "known")
    said = tokcore("evaluate", *options).stdout
    size = len(lines[3].encode())
    assert re.search(rf"learned from parallel text +{size / (size + 4):.1%}\n", said), said
    assert re.search(r"premium, median +[0-9.]+\*\n", said), said


def test_text_that_was_learned_from_is_marked(folder):
    """Half of the documents are those of a build."""
    learned = read_split(folder / "whole", "train")["en"][:10]
    other = [text.encode() for text in texts("en", 10, seed=9)]
    write(folder / "half.jsonl", jsonl([{"text": text.decode(), "lang": "en"} for text in [*learned, *other]]))
    file = folder / "whole/tokenizer/tokenizer.json"  # which does not say what it learned from
    done = tokcore("evaluate", folder / "whole", file, "--data", folder / "half.jsonl")
    assert done.returncode == 0, done.stderr
    share = sum(map(len, learned)) / sum(map(len, [*learned, *other]))
    rows: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        title, *figures = re.split(r" {2,}", line)
        rows.setdefault(title, figures)
    assert rows["learned from this text"] == [f"{share:.1%}", "not known"]
    first, second = rows["bytes per token"]
    assert first == f"{second}*"
    assert rows["numbers digit by digit"][0] == rows["numbers digit by digit"][1], "is of no text"
    assert "learned from some of this text" in done.stdout


def test_bits_per_byte_are_printed_for_each_size(folder):
    ranks = folder / "r50k_base.tiktoken"
    ranks.write_bytes(rank_file_bytes("r50k"))
    named = (folder / "out", ranks, folder / "whole", "--data", folder / "held.jsonl.zst")
    told = ask(folder, *named)["tokenizers"]
    done = tokcore("evaluate", *named)
    assert done.returncode == 0, done.stderr
    printed = done.stdout[done.stdout.index("Bits per byte") :]
    rows = [line.split("  ") for line in printed.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    figures = {
        name: [f"{of[kind]['value']:.3f} ± {of[kind]['margin']:.3f}" for kind in ("equal_data", "equal_tokens")]
        for name, one in told.items()
        for of in (one["prediction"],)
    }
    ours, theirs = figures["out"] + figures["whole"], figures["r50k_base.tiktoken"]
    assert [row for row in rows if row[:1] == ["mean of languages"]] == [
        ["mean of languages", *ours],
        ["mean of languages", *theirs],
    ]
    assert [row[0] for row in rows if row[0:1] in (["400 ids"], ["50,257 ids"])] == ["400 ids", "50,257 ids"]
    assert "Vocabularies of different sizes are not comparable" in printed
    assert "not comparable" not in tokcore("evaluate", folder / "out").stdout


def test_texts_are_drawn_by_hash(folder):
    held = read_split(folder / "out", "validation")
    told = ask(folder, folder / "out", "--sample", "3")["text"]
    assert {lang: of["texts"] for lang, of in told["languages"].items()} == {
        lang: min(len(of), 3) for lang, of in held.items()
    }
    judged = draw_validation(read_output(str(folder / "out")), 3, lambda _: None)
    every = draw_validation(read_output(str(folder / "out")), 400, lambda _: None)
    assert judged.texts == {lang: of[:3] for lang, of in every.texts.items()}
    assert every.documents == {lang: len(of) for lang, of in held.items()}
    draws = []
    for order in (1, -1):
        draw = TextDraw(5)
        for i in [*range(100), *range(30)][::order]:
            draw.add("en", b"%d" % i)
        draw.add("de", b"")
        draws.append(draw.finish())
    assert draws[0] == draws[1]
    assert draws[0].documents == {"en": 130}
    assert draws[0].is_whole == {"en": False}
    assert len(draws[0].texts["en"]) == 5


@pytest.mark.parametrize("order", [1, -1])
def test_long_texts_are_drawn_up_to_a_size(monkeypatch, order):
    """Texts are taken by their digests until there are 100 bytes; the one that goes beyond is the last."""
    monkeypatch.setattr(judged_texts, "MOST_BYTES", 100)
    every = [b"%d" % i * (1 + i % 17) for i in range(300)]
    draw = TextDraw(400)
    for text in every[::order]:
        draw.add("en", text)
    found = draw.finish()
    expected = []
    for text in sorted(every, key=lambda text: hashlib.sha256(text).digest()):
        if sum(map(len, expected)) < 100:
            expected.append(text)
    assert found.texts["en"] == expected
    assert found.is_whole == {"en": False}


def test_parallel_text_alone_is_judged_on(folder):
    told = ask(folder, folder / "whole", "--parallel", folder / "parallel", "--reference", "sw")
    assert told["text"]["from"] == "parallel text"
    assert told["parallel"]["reference"] == "sw"
    assert told["text"]["bytes"] == sum(len(line.encode()) for lines in LINES.values() for line in lines)


def test_what_is_missing_is_said_with_the_way_out(folder):
    for arguments, why in (
        ((folder / "whole",), "no output named here has a validation split. Name files"),
        ((folder / "out", "--data", folder / "no.jsonl"), "no.jsonl"),
        ((folder / "out", "--data", folder / "parallel", "--text", "said"), "text files have none: remove it"),
        ((folder / "out", "--data", folder / "held.jsonl.zst", "--text", "said"), "(missing_text: 60): name others"),
        ((folder / "out", "--data", folder / "a", folder / "held.jsonl.zst"), "--data takes one path, so repeat it"),
        ((folder / "nothing",), "nothing"),
        ((folder / "out", "--reference", "en"), "name its folder with --parallel"),
        ((folder / "out", "--lang", "en"), "say how to read --data"),
        ((folder / "out", "--parallel", folder / "parallel", "--reference", "de"), "--reference de"),
        ((folder / "out", "--parallel", folder / "none"), "there is no such folder, or it is empty"),
        ((folder / "out" / "tokenizer" / "tokenizer.tiktoken",), "PATTERN@ before the path is missing"),
    ):
        done = tokcore("evaluate", *arguments)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)
        assert why in done.stderr, done.stderr


def test_a_tokenizer_that_normalizes_needs_files(folder):
    settings = f'{SETTINGS}validation = 0.2\n[normalize]\nsteps = ["nfkc", "lowercase"]\n'
    run(build_file(folder, settings=settings, name="folded.toml"), folder / "folded")
    done = tokcore("evaluate", folder / "folded")
    assert done.returncode == 2
    assert "Name files that were not learned from: --data FILES" in done.stderr
    found = ask(folder, folder / "folded", "--data", folder / "held.jsonl.zst")["tokenizers"]["folded"]
    assert found["bytes_per_token"] > 1


def test_a_text_is_looked_for_as_a_whole(folder):
    """One that has the length, the first, the middle and the last id of a document is not that document."""
    tokenizer = api.Tokenizer.load(folder / "out")
    found = []
    for text in read_split(folder / "out", "train")["en"]:
        ids = tokenizer.encode(text).tolist()
        ids[1], ids[2] = ids[2], ids[1]
        other = tokenizer.decode(ids)
        if other != text and tokenizer.encode(other).tolist() == ids and len(ids) > 8:
            found.append(other)
    assert found
    assert find_learned_share(str(folder / "out"), tokenizer, {"en": found}) == 0


def test_what_came_by_an_update_was_not_learned_from(tmp_path):
    """What the first commit held was, also when it has been given up since then."""
    first, later = (
        [{"id": f"{seed}-{i}", "text": text} for i, text in enumerate(texts("en", 20, seed=seed))] for seed in (1, 2)
    )
    write(tmp_path / "in/a.jsonl", jsonl(first))
    source = '[[source]]\nlang = "en"\nfiles = "in/*.jsonl"\nid = "id"\n'
    path = build_file(tmp_path, source, "[learn]\nvocab_size = 300\n")
    assert tokcore("build", path, "--output", tmp_path / "out").returncode == 0
    write(tmp_path / "in/b.jsonl", jsonl(later))
    done = tokcore("update", path, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    url, tokenizer = str(tmp_path / "out"), api.Tokenizer.load(tmp_path / "out")
    old, new = ([one["text"].encode() for one in of] for of in (first, later))
    assert len(api.open_shards(tmp_path / "out", "all")) == 40
    assert find_learned_share(url, tokenizer, {"en": new}) == 0
    assert find_learned_share(url, tokenizer, {"en": [*old, *new]}) == pytest.approx(
        sum(map(len, old)) / sum(map(len, [*old, *new])), abs=1e-6
    )
    assert tokcore("expire", tmp_path / "out", "--keep", "1").returncode == 0
    assert find_learned_share(url, tokenizer, {"en": old}) == 1


def test_from_python(folder):
    url = str(folder / "out")
    tokenizers = {"own": api.Tokenizer.load(url)}
    told = evaluate_tokenizers(Asked(tokenizers, {"own": url}), StageProgress(-1))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert find_learned_share(url, tokenizers["own"], read_split(folder / "out", "train")) == 1


def test_a_models_repository_is_no_output():
    """Nobody is asked on a network for shards of it."""
    tokenizer = api.Tokenizer.train(["one two"], vocab_size=258, allow_smaller=True)
    for url in ("hf://org/name", "hf://org/name/tokenizer.json", "https://host.invalid/o200k_base.tiktoken"):
        assert find_output(url) is None
        assert find_learned_share(url, tokenizer, {"en": [b"one"]}) is None
