"""Every number of report.json, computed again from the shards, the tables and the manifests, by definition."""

from __future__ import annotations

import copy
import doctest
import hashlib
import json
import math
import random
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import regex
import yaml
from support.builds import ROOT, build_file, find_file, jsonl, run, small_corpus, texts, tokcore, tree, write
from support.vocabularies import published_tokenizer

import tokcore as api
from tokcore.evaluate import digit_cuts, word_cuts
from tokcore.evaluate.evaluation import evaluate
from tokcore.text import scripts
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look.report import (
    html_parts,
    merge_history,
    money,
    probes,
    tokenizer_tables,
)
from tokcore_pipelines.look.report.compose import OWN, Wishes, make_report
from tokcore_pipelines.look.report.estimates import Drawing
from tokcore_pipelines.look.report.money import ModelSize
from tokcore_pipelines.look.report.page import write_page
from tokcore_pipelines.look.report.shard_pass import CONTEXTS
from tokcore_pipelines.look.report.verdict import judge

LINES = {"en": ["one two", "three"], "sw": ["moja mbili tatu", "nne"], "km": ["មួយ ពីរ", "បី"]}
SOURCES = """
[[source]]
lang = "en"
files = "en.jsonl.zst"
id = "id"
[[source]]
lang_field = "lang"
files = ["two.jsonl", "ru.jsonl"]
id = "id"
"""
SETTINGS = """
[count]
mask = ["email"]
[learn]
vocab_size = 420
[mix]
alpha = 0.5
[shards]
target_tokens = 2000
"""


# Letters of languages that get many words, some with marks.
LETTERS = {"en": list("aeinorst"), "mr": ["कि", "ता", "ब", "द्या", "लू", "य", "न"]}


def draw_text(lang: str) -> str:
    chance = random.Random(lang)
    return " ".join("".join(chance.choices(LETTERS[lang], k=chance.randint(2, 9))) for _ in range(60))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reported")
    small_corpus(folder)
    two = [{"id": f"z{i}", "lang": "zh", "text": text} for i, text in enumerate(texts("zh", 20))]
    two += [{"id": f"h{i}", "lang": "hi", "text": text + " a@b.org\u200b"} for i, text in enumerate(texts("hi", 9))]
    two += [{"id": f"c{i}", "lang": "hi", "text": "वही वही"} for i in range(4)]  # copies
    (folder / "two.jsonl").write_bytes(
        jsonl([*two, {"id": "bad", "lang": "hi"}, {"id": "e", "lang": "hi", "text": ""}])
    )
    ru = [{"id": str(i), "lang": "ru", "text": t} for i, t in enumerate(texts("ru", 40))]
    words = [{"id": f"{lang}-words", "lang": lang, "text": draw_text(lang)} for lang in LETTERS]
    (folder / "ru.jsonl").write_bytes(jsonl([*ru, *words]))
    for lang, lines in LINES.items():
        data = "".join(f"{line}\n" for line in lines).encode()
        name = f"{lang}.txt" if lang != "km" else "km.txt.zst"
        write(folder / "parallel" / name, data)
    run(build_file(folder, SOURCES, SETTINGS, build="max_rejected = 0.5"), folder / "out")
    return folder


@pytest.fixture(scope="module")
def documents(corpus) -> list[tuple[str, str, list[int], bytes]]:
    """(language, source, ids, text) of every document."""
    shards = api.open_shards(corpus / "out", split="all")
    tokenizer = api.Tokenizer.load(corpus / "out")
    found = []
    for row in range(len(shards)):
        about, ids = shards.document(row), shards[row].tolist()
        assert ids[-1] == tokenizer.eos_id
        found.append((about.lang, about.source, ids, tokenizer.decode(ids[:-1])))
    return found


@pytest.fixture(scope="module")
def tokenizers(corpus) -> dict[str, api.Tokenizer]:
    return {OWN: api.Tokenizer.load(corpus / "out"), "r50k": published_tokenizer("r50k")}


@pytest.fixture(scope="module")
def report(corpus, tokenizers):
    before = tree(corpus / "out")
    wishes = Wishes({"r50k": tokenizers["r50k"]}, str(corpus / "parallel"), "en", 400, [ModelSize("tiny", 2, 16, 1, 8)])
    made = make_report(read_output(str(corpus / "out")), wishes, StageProgress(-1))
    assert tree(corpus / "out") == before, "nothing is written into the output"
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return made


def test_the_corpus(report, corpus, documents):
    found = report["corpus"]
    assert found["documents"] == len(documents)
    assert found["tokens"] == sum(len(ids) for _, _, ids, _ in documents)
    assert found["text_bytes"] == sum(len(text) for *_, text in documents)
    assert found["records"] == {"read": len(documents) + 1, "rejected": {"missing_text": 1}}
    by_lang, by_source = defaultdict(list), defaultdict(list)
    for lang, source, ids, text in documents:
        by_lang[lang].append((ids, text))
        by_source[source].append((lang, ids, text))
    assert found["languages"].keys() == by_lang.keys()
    for lang, of in by_lang.items():
        one = found["languages"][lang]
        assert (one["documents"], one["tokens"]) == (len(of), sum(len(ids) for ids, _ in of))
        assert one["text_bytes"] == sum(len(text) for _, text in of)
        assert one["masked_spans"] == ({"email": 9} if lang == "hi" else {})
    assert found["sources"].keys() == by_source.keys()
    for source, of in by_source.items():
        one = found["sources"][source]
        assert (one["documents"], one["tokens"]) == (len(of), sum(len(ids) for _, ids, _ in of))
        assert one["text_bytes"] == sum(len(text) for *_, text in of)
        assert one["languages"] == sorted({lang for lang, *_ in of})
    # Shares: before, of the bytes of text, masked or not; after, of the same times the weights.
    sizes = {lang: sum(len(text) for _, text in of) for lang, of in by_lang.items()}
    weighted = {lang: size * found["languages"][lang]["weight"] for lang, size in sizes.items()}
    for lang in by_lang:
        shares = found["languages"][lang]["share_of_bytes"]
        assert shares["before"] == pytest.approx(sizes[lang] / sum(sizes.values()), abs=1e-6)
        assert shares["after"] == pytest.approx(weighted[lang] / sum(weighted.values()), abs=1e-6)
    assert sum(one["share_of_bytes"]["before"] for one in found["languages"].values()) == pytest.approx(1, abs=1e-4)
    assert found["mixture"] is None
    assert found["invisible"]["zero_width"]["hi"]["characters"] == {"U+200B": 9}


def test_copies(report, documents):
    for lang, told in report["corpus"]["copies"].items():
        times = Counter(text for of, _, _, text in documents if of == lang)
        assert told == {
            "texts": len(times),
            "documents": times.total(),
            "repeated_texts": sum(n > 1 for n in times.values()),
            "extra_documents": sum(n - 1 for n in times.values()),
        }
    assert report["corpus"]["copies"]["hi"]["extra_documents"] == 3


def scripts_by_definition(text: str) -> list[str]:
    """The script of each character, by the regex package's tables."""
    names = {"Latin": "Latin", "Cyrillic": "Cyrillic", "Devanagari": "Devanagari", "Han": "Han and kana"}
    own = [next((names[n] for n in names if regex.match(rf"\p{{Script={n}}}", c)), None) for c in text]
    found, last = [], next((one for one in own if one), "none")
    for one in own:
        last = one or last
        found.append(last)
    return found


def test_tokenizers_beside_each_other(report, documents, tokenizers):
    groups = {"languages": lambda d: d[0], "sources": lambda d: d[1]}
    comparison = report["tokenizer"]["comparison"]
    for kind, of in groups.items():
        assert comparison[kind].keys() == {of(document) for document in documents}
        for group, told in [*comparison[kind].items(), (None, comparison["all"])]:
            own = [text for document in documents if group in (None, of(document)) for text in [document[3]]]
            assert told["drawn_documents"] == len(own)
            assert told["drawn_bytes"] == sum(map(len, own))
            for name, tokenizer in tokenizers.items():
                tokens = sum(len(tokenizer.encode(text)) for text in own)
                partial = sum(
                    not is_utf8(tokenizer.token_bytes(id)) for text in own for id in tokenizer.encode(text).tolist()
                )
                expected = {
                    "bytes_per_token": sum(map(len, own)) / tokens,
                    "characters_per_token": sum(len(text.decode()) for text in own) / tokens,
                    "tokens_per_word": tokens / sum(len(text.decode().split()) for text in own),
                    "partial_share": partial / tokens,
                }
                row = told["tokenizers"][name]
                assert {key: one["value"] for key, one in row.items()} == pytest.approx(expected, abs=1e-6)
                assert {one["margin"] for one in row.values()} == {0}, "every text was drawn"


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_by_script(report, documents, tokenizers):
    expected: dict[str, Counter[str]] = defaultdict(Counter)
    for *_, text in documents:
        characters = text.decode()
        scripts = scripts_by_definition(characters)
        of_byte = [script for c, script in zip(characters, scripts, strict=True) for _ in c.encode()]
        for i, (c, script) in enumerate(zip(characters, scripts, strict=True)):
            starts_word = not c.isspace() and (i == 0 or characters[i - 1].isspace())
            expected[script].update(bytes=len(c.encode()), characters=1, words=starts_word)
        for name, tokenizer in tokenizers.items():
            at = 0
            for id in tokenizer.encode(text).tolist():
                expected[of_byte[at]][name] += 1
                at += len(tokenizer.token_bytes(id))
    told = report["tokenizer"]["comparison"]["scripts"]
    assert told.keys() == expected.keys() >= {"Latin", "Cyrillic", "Devanagari", "Han and kana"}
    for script, of in expected.items():
        assert told[script]["drawn_bytes"] == of["bytes"]
        for name in tokenizers:
            row = told[script]["tokenizers"][name]
            assert row["bytes_per_token"]["value"] == pytest.approx(of["bytes"] / of[name], abs=1e-6)
            assert row["characters_per_token"]["value"] == pytest.approx(of["characters"] / of[name], abs=1e-6)
            if of["words"]:
                assert row["tokens_per_word"]["value"] == pytest.approx(of[name] / of["words"], abs=1e-6)


def test_premiums(report, tokenizers):
    told = report["tokenizer"]["premiums"]
    assert (told["reference"], told["lines"]) == ("en", 2)
    for name, tokenizer in tokenizers.items():
        tokens = {lang: sum(len(tokenizer.encode(line)) for line in lines) for lang, lines in LINES.items()}
        one = told["tokenizers"][name]
        assert one["tokens"] == tokens
        premiums = {lang: number / tokens["en"] for lang, number in tokens.items()}
        assert one["premiums"] == pytest.approx(premiums, abs=1e-6)
        others = [premiums["km"], premiums["sw"]]
        assert one["median"] == pytest.approx(statistics.median(others), abs=1e-6)
        assert one["p90"] == pytest.approx(float(np.quantile(others, 0.9)), abs=1e-6)
        values = list(tokens.values())
        gini = sum(abs(a - b) for a in values for b in values) / (2 * len(values) ** 2 * statistics.mean(values))
        assert one["gini"] == pytest.approx(gini, abs=1e-6)


def test_measures_of_what_was_learned_from(report, documents, tokenizers):
    """There is no validation split, so the texts drawn are judged on: this build has learned from all of them."""
    told = report["tokenizer"]["evaluation"]
    texts = {
        lang: [*dict.fromkeys(text for of, *_, text in documents if of == lang and text)] for lang, *_ in documents
    }
    assert told["text"]["from"] == "texts drawn from all shards"
    expected = evaluate(tokenizers, texts)
    for name, found in told["tokenizers"].items():
        assert {key: found[key] for key in expected[name]} == json.loads(json.dumps(expected[name]))
        assert found["gini"] == report["tokenizer"]["premiums"]["tokenizers"][name]["gini"]
    assert [one["learned_share"] for one in told["tokenizers"].values()] == [1, None]
    page = write_page(report).decode()
    assert f"{told['tokenizers'][OWN]['bytes_per_token']:.3f}*</td>" in page
    for one in told["tokenizers"].values():
        predicted = one["prediction"]
        for of in (predicted, *predicted["languages"].values()):
            for kind in ("equal_data", "equal_tokens"):
                assert f'{of[kind]["value"]:.3f}<span class="margin"> ± {of[kind]["margin"]:.3f}</span>' in page


def test_the_validation_split_is_measured_where_there_is_one(tmp_path):
    small_corpus(tmp_path)
    run(build_file(tmp_path, settings="[learn]\nvocab_size = 400\n[shards]\nvalidation = 0.2"), tmp_path / "out")
    made = make_report(read_output(str(tmp_path / "out")), Wishes(), StageProgress(-1))
    told = made["tokenizer"]["evaluation"]
    assert told["text"]["from"] == "validation split"
    assert told["text"]["texts"] <= made["corpus"]["validation"]["documents"] < made["corpus"]["documents"] / 2
    assert told["tokenizers"][OWN]["learned_share"] == 0
    assert "*</td>" not in write_page(made).decode()


def test_the_vocabulary(report, corpus, documents, tokenizers):
    told = report["tokenizer"]
    own = tokenizers[OWN]
    written = Counter(id for _, _, ids, _ in documents for id in ids[:-1])
    shares = [n / written.total() for n in written.values()]
    renyi = math.log(sum(share**2.5 for share in shares)) / (1 - 2.5) / math.log(419)
    assert told["efficiency"]["corpus"]["renyi"] == pytest.approx(renyi, abs=1e-6)
    used = told["efficiency"]["corpus"]
    assert (used["used"], used["vocabulary"]) == (len(written), 419)
    assert sum(told["lengths"]["vocabulary"]) == 419
    assert told["lengths"]["written"][1] == sum(n for id, n in written.items() if len(own.token_bytes(id)) == 2)
    assert sum(told["scripts"][OWN].values()) == 419
    # The curve at the full size, and the history, from the tables.
    held = Counter()
    for lang, _, ids, _ in documents:
        held[lang] += len(ids) - 1
    for lang, one in told["curve"]["languages"].items():
        rows = pq.read_table(find_file(corpus / "out", f"counts/{lang}.parquet")).to_pylist()
        encoded = own.encode_pretokens(make_texts_from_strings([row["pretoken"] for row in rows]))
        lengths = np.diff(encoded.offsets).tolist()
        assert one["tokens"][-1] == sum(n * row["count"] for n, row in zip(lengths, rows, strict=True))
        assert one["bytes"] == sum(len(row["pretoken"]) * row["count"] for row in rows)
    history = told["history"]
    assert history["ends"][-1] == 419 - 256
    led = [sum(column) for column in zip(*(one["led"] for one in history["languages"].values()), strict=True)]
    assert led == np.diff([0, *history["ends"]]).tolist()


def test_history_by_definition(report, corpus, tokenizers):
    """Merges replayed pre-token by pre-token, each application counted."""
    from tokcore.look.explain import Explainer

    explainer = Explainer(tokenizers[OWN])
    weights = {lang: one["weight"] for lang, one in report["corpus"]["languages"].items()}
    applied = {lang: Counter() for lang in weights}
    for lang in weights:
        for row in pq.read_table(find_file(corpus / "out", f"counts/{lang}.parquet")).to_pylist():
            for _, steps in explainer._replay(row["pretoken"]):
                for step in steps:
                    applied[lang][step.rank] += row["count"] * weights[lang]
    history = report["tokenizer"]["history"]
    start = 0
    for block, end in enumerate(history["ends"]):
        sums = {lang: sum(applied[lang][rank] for rank in range(start, end)) for lang in weights}
        for lang, number in sums.items():
            told = history["languages"][lang]["share"][block]
            assert told == pytest.approx(number / sum(sums.values()), abs=1e-6)
        start = end


def measure(tokenizer: api.Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text))


def test_probes_of_fixed_texts(report, tokenizers):
    for name, told in report["tokenizer"]["probes"].items():
        tokenizer = tokenizers[name]
        for digits, mean in enumerate(told["numbers"], 1):
            numbers = [digit_cuts.draw_number(digits, which) for which in range(100)]
            assert {len(number) for number in numbers} == {digits}
            assert all(number.isdecimal() and number[0] != "0" for number in numbers)
            assert mean == pytest.approx(statistics.mean(measure(tokenizer, number) for number in numbers), abs=1e-6)
        assert len(told["numbers"]) == 20
        assert told["emoji"].keys() == probes.list_emoji().keys()
        for key, text in probes.list_emoji().items():
            assert told["emoji"][key] == measure(tokenizer, text)


def test_one_record_in_several_formats(report, tokenizers):
    """The texts say the same thing, each in its format."""
    texts = probes.list_formats()
    records = {
        name: json.loads(text) if name.startswith("JSON") else yaml.safe_load(text) for name, text in texts.items()
    }
    assert "YAML" in records
    assert all(record == records["YAML"] for record in records.values())
    for name, told in report["tokenizer"]["probes"].items():
        assert told["formats"] == {key: measure(tokenizers[name], text) for key, text in texts.items()}


def test_probes_of_words(report, documents, tokenizers):
    """Words of the corpus: as they are, from the last letter to the first, and under one edit."""
    by_lang = defaultdict(set)
    for lang, _, _, text in documents:
        by_lang[lang].update(text.decode().split())
    for name, told in report["tokenizer"]["evaluation"]["tokenizers"].items():
        tokenizer = tokenizers[name]
        probed = {lang: of["typos"] for lang, of in told["languages"].items() if of["typos"] is not None}
        assert {"en", "mr"} <= probed.keys() <= by_lang.keys()
        for lang, one in probed.items():
            letters = {word: regex.findall(r"\p{L}\p{M}*", word) for word in by_lang[lang]}
            words = [w for w, of in letters.items() if "".join(of) == w and 4 <= len(of) <= 20]
            assert one["words"] == len(words) <= 200
            plain = {word: tokenizer.encode(f" {word}").tolist() for word in words}
            edited = {word: tokenizer.encode(f" {word_cuts.misspell(word)}").tolist() for word in words}
            kept = sum((Counter(plain[word]) & Counter(edited[word])).total() for word in words)
            total = sum(map(len, plain.values()))
            expected = {
                "words": len(words),
                "tokens_per_word": total / len(words),
                "reversed": statistics.mean(measure(tokenizer, f" {''.join(letters[word][::-1])}") for word in words),
                "one_edit": statistics.mean(map(len, edited.values())),
                "kept_share": kept / total,
            }
            assert one == pytest.approx(expected, abs=1e-6)


WORDS_OF_MANY = (
    "language tokenizer corpus committee balloon Straße naïve किताब विद्यालय мягкий пример aaaa abab llll книга"
)


def list_single_edits(letters: list[str]) -> dict[str, str]:
    """What one edit makes of a word -> which edit it is."""
    places = range(len(letters))
    return {
        **{"".join([*letters[:i], *letters[i + 1 :]]): "left out" for i in places},
        **{"".join([*letters[:i], letters[i], *letters[i:]]): "doubled" for i in places},
        **{
            "".join([*letters[:i], letters[i + 1], letters[i], *letters[i + 2 :]]): "swapped"
            for i in places[:-1]
            if letters[i] != letters[i + 1]
        },
    }


def test_words_are_misspelled_by_one_edit():
    """No word stays what it is, letters keep their marks, and all edits are made."""
    words = [*WORDS_OF_MANY.split(), *(f"word{chr(97 + i)}{chr(97 + i)}" for i in range(26))]
    made = Counter()
    for word in words:
        letters = regex.findall(r"\p{L}\p{M}*", word)
        wrong = word_cuts.misspell(word)
        assert wrong != word
        made[list_single_edits(letters)[wrong]] += 1
        assert word_cuts.reverse_word(word) == "".join(letters[::-1])
    assert made.keys() == {"left out", "doubled", "swapped"}


def test_words_that_are_drawn():
    """Those with the smallest hashes, of letters alone, whatever the order of the texts."""
    drawn = [f"{chr(97 + i % 26)}{chr(97 + i // 26)}rest{'z' * (i % 20)} x1y2z3 a-b-c-d दिल्ली abc" for i in range(600)]
    words = word_cuts.draw_words(word for text in drawn for word in text.split())
    assert words == word_cuts.draw_words(word for text in drawn[::-1] for word in text.split())
    assert len(words) == len(set(words)) == 200
    hashed = {}
    for word in {word for text in drawn for word in text.split()}:
        letters = regex.findall(r"\p{L}\p{M}*", word)
        if "".join(letters) == word and 4 <= len(letters) <= 20:
            hashed[word] = hashlib.sha256(b"tokcore-probe-word " + word.encode()).digest()[:8]
    assert words == sorted(hashed, key=hashed.__getitem__)[:200]
    assert "दिल्ली" not in hashed, "three letters, with their marks"


def test_health(report, documents, tokenizers):
    told = report["health"]
    own = tokenizers[OWN]
    written = Counter(id for _, _, ids, _ in documents for id in ids)
    never = [id for id in range(420) if not written[id]]
    assert told["never"]["number"] == len(never)
    assert [one["id"] for one in told["never"]["first"]] == never[:1000]
    groups = defaultdict(list)
    for id in own.spec.model.ids.tolist():
        data = own.token_bytes(id)
        if is_utf8(data) and data.decode().strip():
            groups[data.decode().strip().casefold()].append(id)
    several = [ids for ids in groups.values() if len(ids) > 1]
    assert told["near_duplicates"]["groups"] == len(several)
    assert told["near_duplicates"]["tokens"] == sum(map(len, several))
    assert sorted([one["id"] for one in group] for group in told["near_duplicates"]["first"]) == sorted(several)


def test_the_verdict_follows_from_the_numbers(report):
    told = report["verdict"]
    corpus = report["corpus"]
    assert told == judge(report, OWN)
    assert f"{corpus['text_bytes'] / corpus['tokens']:.2f} bytes" in told["fit"]
    premiums = report["tokenizer"]["premiums"]["tokenizers"][OWN]
    most = max(premiums["premiums"].items(), key=lambda one: one[1])
    assert f"{most[0]} pays most: {most[1]:.2f} times" in told["pays"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("health", "fall_back"), ["am", "ti"], "of the tokens of am, ti are parts of characters"),
        (("health", "unreachable", "number"), 3, "3 tokens can never be written"),
        (("health", "never", "number"), 10**6, "were never written: it is larger than this text needs"),
        (("health", "mostly_one_document", "number"), 10**6, "learn.min_documents keeps such out"),
        (("corpus", "copies"), {"en": {"extra_documents": 2, "documents": 100}}, "2.0% of the documents"),
        (("corpus", "records", "rejected"), {"bad_json": 7}, "7 of "),
    ],
)
def test_what_looks_wrong_is_said_where_it_is_so(report, path, value, said):
    changed = copy.deepcopy(report)
    changed["health"] |= {name: {"number": 0, "first": []} for name in ("unreachable", "never", "mostly_one_document")}
    changed["health"]["fall_back"], changed["corpus"]["copies"] = [], {"en": {"extra_documents": 0, "documents": 100}}
    changed["corpus"]["records"]["rejected"] = {}
    assert judge(changed, OWN)["wrong"] == []
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (found,) = judge(changed, OWN)["wrong"]
    assert said in found["said"]
    assert found["section"] == path[0]


def test_money(report, documents, tokenizers):
    told = report["money"]
    lengths = [len(ids) for _, _, ids, _ in documents]
    assert told["documents"]["all"]["fit"] == [sum(n <= context for n in lengths) for context in CONTEXTS]
    assert told["documents"]["all"]["mean_tokens"] == pytest.approx(statistics.mean(lengths), abs=1e-6)
    (model,) = told["models"]
    assert model["cache_bytes_per_token"] == 2 * 2 * 1 * 8 * 2
    assert model["embedding_parameters"] == {name: one.vocab_size * 16 for name, one in tokenizers.items()}
    for name, one in tokenizers.items():
        tokens = report["tokenizer"]["comparison"]["all"]["tokenizers"][name]["tokens_per_word"]["value"] * 1000
        of = model["operations"][name]
        assert of["layers"] == pytest.approx(2 * 12 * 16**2 * tokens, abs=1)  # two layers of width 16
        assert of["attention"] == pytest.approx(2 * 2 * 16 * tokens**2, abs=1)
        assert of["output"] == pytest.approx(16 * one.vocab_size * tokens, abs=1)
    curve = report["tokenizer"]["curve"]
    row = report["tokenizer"]["comparison"]["all"]["tokenizers"][OWN]
    words = 1000 * row["tokens_per_word"]["value"]
    totals = {}
    for place, size in enumerate(curve["sizes"]):
        at, last = (sum(one["tokens"][where] for one in curve["languages"].values()) for where in (place, -1))
        tokens = words * at / last
        totals[size] = 2 * 12 * 16**2 * tokens + 2 * 2 * 16 * tokens**2 + 16 * size * tokens
    assert model["cheapest_vocab_size"] == min(totals, key=totals.get)
    for perplexity, bits in zip(told["perplexities"], told["bits_per_byte"]["all"][OWN], strict=True):
        assert bits == pytest.approx(math.log2(perplexity) / row["bytes_per_token"]["value"], abs=1e-5)
    assert told["tokens_per_million_words"]["all"][OWN]["value"] == pytest.approx(
        row["tokens_per_word"]["value"] * 1e6, abs=1
    )


def test_provenance(report, corpus):
    manifest = json.loads((corpus / "out" / "manifest.json").read_text())
    told = report["provenance"]
    assert told["root"] == manifest["root"]
    for stage, one in told["stages"].items():
        folder = corpus / "out" / ("" if stage == "build" else stage)
        assert one["identity"] == json.loads((folder / "manifest.json").read_text())["identity"]
    assert [one["uri"] for one in told["inputs"]["first"]] == ["en.jsonl.zst", "ru.jsonl", "two.jsonl"]
    weights = {lang: one["weight"] for lang, one in report["corpus"]["languages"].items()}
    assert told["mixture"]["weights"] == weights


def test_the_receipt_of_a_mixture(corpus):
    """Shares before and after, computed again from the documents of both stages."""
    mixture = '[shuffle]\nseed = 3\n[mixture]\nstrategy = "unimax"\nmax_epochs = 3\n'
    run(build_file(corpus, SOURCES, SETTINGS + mixture, "m.toml", build="max_rejected = 0.5"), corpus / "mix")
    told = make_report(read_output(str(corpus / "mix")), Wishes(sample=20), StageProgress(-1))["corpus"]["mixture"]
    before, after = Counter(), Counter()
    times: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for counter, shards in ((before, api.open_shards(corpus / "mix")), (after, api.open_shards(corpus / "mix/mixed"))):
        for row in range(len(shards)):
            about = shards.document(row)
            counter[about.lang] += len(shards[row])
            times[about.lang].update({(about.source, about.ordinal): 1 if counter is after else 0})
    assert told["totals"]["tokens"] == after.total()
    assert told["settings"]["strategy"] == "unimax"
    assert told["languages"].keys() == before.keys()
    for lang, one in told["languages"].items():
        assert (one["tokens"], one["mixed_tokens"]) == (before[lang], after[lang])
        assert one["share_before"] == pytest.approx(before[lang] / before.total(), abs=1e-6)
        assert one["share_after"] == pytest.approx(after[lang] / after.total(), abs=1e-6)
        assert one["epochs"] == pytest.approx(after[lang] / before[lang], abs=1e-4)
        assert one["left_out"] == sum(n == 0 for n in times[lang].values())
        assert one["repeated"] == sum(max(n - 1, 0) for n in times[lang].values())
    assert any(one["share_before"] != one["share_after"] for one in told["languages"].values())


def test_what_is_drawn_depends_on_the_documents_alone(corpus, tokenizers):
    """Ten texts of each language: those with the smallest digests, in any order of sources; margins say so."""
    again = SOURCES.split("[[source]]")
    turned = build_file(
        corpus,
        "[[source]]".join([again[0], again[2], again[1]]),
        SETTINGS,
        "turned.toml",
        build="max_rejected = 0.5",
    )
    run(turned, corpus / "turned")
    reports = [
        make_report(read_output(str(corpus / name)), Wishes(sample=10), StageProgress(-1)) for name in ("out", "turned")
    ]
    first, second = (one["tokenizer"]["comparison"] for one in reports)
    assert first == second
    assert reports[0]["sample"]["languages"]["en"] == {"texts": 10, "all": False}
    whole = make_report(read_output(str(corpus / "out")), Wishes(), StageProgress(-1))["tokenizer"]["comparison"]
    inside = []
    for lang, told in first["languages"].items():
        row, true = (one["tokenizers"][OWN]["bytes_per_token"] for one in (told, whole["languages"][lang]))
        assert row["margin"] > 0 or lang not in ("en", "ru", "zh")
        inside.append(abs(row["value"] - true["value"]) <= 2 * row["margin"] + 1e-6)
    assert all(inside)


@pytest.mark.parametrize("module", [scripts, html_parts, merge_history, money, tokenizer_tables])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def test_the_bundle_of_charts_is_the_one_of_its_sums():
    folder = ROOT / "pipelines" / "look" / "report" / "page_files" / "charts"
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split()
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
    licences = (folder / "LICENSES.txt").read_text()
    for package in json.loads((folder / "package.json").read_text())["dependencies"].items():
        assert " ".join(package) in licences


def test_an_estimate_by_hand():
    drawing = Drawing(["a", "a", "b"], np.array([1, 1, 2]), {"a": 4, "b": 2}, {"a": False, "b": True})
    told = drawing.estimate(np.array([10, 14, 3]), np.array([2, 3, 1]))
    # Of a each drawn text stands for two documents; b is whole. (2 * 24 + 6) / (2 * 5 + 2)
    assert told["value"] == 4.5
    residuals = [10 - 4.5 * 2, 14 - 4.5 * 3]
    variance = 2**2 * (1 - 1 / 2) * 2 * statistics.variance(residuals)
    assert told["margin"] == pytest.approx(1.96 * math.sqrt(variance) / 12, abs=1e-6)


def test_the_headline_is_the_quotient_of_the_numbers_beside_it(report):
    """Not an estimate from drawn texts, which has another third digit."""
    page = re.sub(r"<[^>]*>", "|", write_page(report).decode())
    shown = {
        name: re.search(rf"\|{name}\|+([\d,.]+)\|", page)[1].replace(",", "")
        for name in ("bytes of text", "tokens", "bytes per token")
    }
    assert shown["bytes per token"] == f"{int(shown['bytes of text']) / int(shown['tokens']):.4f}"


def test_the_command(corpus, tmp_path):
    page = tmp_path / "report.html"
    done = tokcore("report", corpus / "out", "--parallel", corpus / "parallel", "-o", page)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["format"] == "tokcore-report"
    assert "is there already" in tokcore("report", corpus / "out", "-o", page).stderr
    for wrong, message in (
        (["-o", corpus / "out" / "report.html"], "no command but build writes to"),
        (["-o", tmp_path / "report.pdf"], "ends with .html"),
        (["-o", tmp_path / "none" / "report.html"], "make it first"),
        (["--reference", "en"], "--parallel"),
        (["--model", "8B:32"], "NAME:LAYERS:WIDTH:KV_HEADS:HEAD_SIZE"),
        (["--parallel", corpus / "parallel", "--reference", "xx"], "--reference xx"),
        (["--against", corpus / "none"], "there is no"),
    ):
        extra = [] if "-o" in wrong else ["-o", tmp_path / "other.html"]
        done = tokcore("report", corpus / "out", *wrong, *extra)
        assert (done.returncode, done.stdout) == (2, ""), wrong
        assert message in done.stderr
    write(corpus / "uneven" / "en.txt", b"one\ntwo\n")
    write(corpus / "uneven" / "sw.txt.zst", b"moja\n")
    done = tokcore("report", corpus / "out", "--parallel", corpus / "uneven", "-o", tmp_path / "other.html")
    assert "sw.txt.zst has 1 lines, en has 2" in done.stderr
    assert list(tmp_path.glob("other*")) == []


def test_a_build_that_merged_nothing_has_a_page(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": "french"}]))
    source = '[[source]]\nlang = "fr"\nfiles = "a.jsonl"\n'
    learned = "[learn]\nvocab_size = 260\nallow_smaller = true\n"
    run(build_file(tmp_path, source, learned), tmp_path / "out")
    assert tokcore("report", tmp_path / "out", "-o", tmp_path / "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text()
    assert "chart-curve" in page
    assert "chart-history" not in page
    assert json.loads((tmp_path / "report.json").read_text())["tokenizer"]["history"]["ends"] == []
