"""Every measure of a tokenizer, computed again from raw ids in plain Python, by its definition."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter

import numpy as np
import pytest
import regex
from support.builds import texts as draw_texts
from support.vocabularies import published_tokenizer

import tokcore
from tokcore.evaluate import digit_cuts, spread, word_cuts
from tokcore.evaluate.boundaries import Places, tell_boundaries
from tokcore.evaluate.evaluation import evaluate
from tokcore.evaluate.measures import MEASURES
from tokcore.evaluate.token_starts import find_token_starts

CODE = """
def getUserById(user_id, HTTPResponse):
    if user_id >= MAX_VALUE && isEmpty2D != x->y:
\t\treturn std::vector<int> += parseXMLFile(a=b) or y==z
        while __init__ <= x: self.some_value -= 1
""".strip("\n")
TEXTS = {
    **{lang: [text.encode() for text in draw_texts(lang, 60)] for lang in ("en", "ru", "zh", "hi")},
    "code": [CODE.encode(), b"x=1", b"  deep == 3\n      deeper\n", "naïve ß\n  étéVert".encode()],
}


@pytest.fixture(scope="module")
def tokenizers():
    learned = tokcore.Tokenizer.train([text.decode() for of in TEXTS.values() for text in of], vocab_size=500)
    fewest = tokcore.Tokenizer.train(
        [text.decode() for of in TEXTS.values() for text in of], vocab_size=400, model="pathpiece"
    )
    return {"learned": learned, "fewest": fewest, "r50k": published_tokenizer("r50k")}


@pytest.fixture(scope="module")
def told(tokenizers):
    heard = []
    found = evaluate(tokenizers, TEXTS, heard.append)
    assert sum(heard) == len(tokenizers) * sum(len(text) for of in TEXTS.values() for text in of)
    assert found == evaluate(tokenizers, {lang: TEXTS[lang] for lang in reversed(TEXTS)}), "whatever the order"
    return found


@pytest.fixture(scope="module")
def ids(tokenizers):
    """Tokenizer -> language -> the ids of each text."""
    return {
        name: {lang: [one.encode(text).tolist() for text in of] for lang, of in TEXTS.items()}
        for name, one in tokenizers.items()
    }


def close(value):
    return pytest.approx(value, abs=2e-6)


def test_bytes_per_token(told, ids):
    size = {lang: sum(map(len, of)) for lang, of in TEXTS.items()}
    for name, found in told.items():
        tokens = {lang: sum(map(len, of)) for lang, of in ids[name].items()}
        assert found["tokens"] == sum(tokens.values())
        assert found["bytes_per_token"] == close(sum(size.values()) / sum(tokens.values()))
        by_lang = {lang: size[lang] / tokens[lang] for lang in TEXTS}
        assert {lang: of["bytes_per_token"] for lang, of in found["languages"].items()} == close(by_lang)
        assert found["bytes_per_token_mean"] == close(statistics.mean(by_lang.values()))


def test_efficiency_and_ids_used(told, ids, tokenizers):
    for name, found in told.items():
        counts = Counter(id for of in ids[name].values() for one in of for id in one)
        ordinary = len(tokenizers[name]) - len(tokenizers[name].specials)
        shares = [n / counts.total() for n in counts.values()]
        assert found["renyi"] == close(math.log(sum(share**2.5 for share in shares)) / (1 - 2.5) / math.log(ordinary))
        assert found["shannon"] == close(-sum(s * math.log(s) for s in shares) / math.log(ordinary))
        assert found["used_share"] == close(len(counts) / ordinary)


def words_of(lang: str) -> Counter[str]:
    """Words of letters and marks alone, not of Chinese characters."""
    words = Counter(word for text in TEXTS[lang] for word in text.decode().split())
    return Counter({word: n for word, n in words.items() if regex.fullmatch(r"(?:(?!\p{Han})\p{L}\p{M}*)+", word)})


def test_words_that_are_one_token(told, tokenizers):
    for name, found in told.items():
        kept = {}
        for lang in TEXTS:
            words = words_of(lang)
            if len(words) >= 20:
                one = sum(n for word, n in words.items() if len(tokenizers[name].encode(f" {word}")) == 1)
                kept[lang] = one / words.total()
        assert kept.keys() == {"en", "ru", "hi"}, "Chinese has no words, and the code too few"
        got = {lang: of["retention"] for lang, of in found["languages"].items() if of["retention"] is not None}
        assert got == close(kept)
        assert found["retention"] == close(statistics.mean(kept.values()))
        assert found["retention_p10"] == close(float(np.quantile([*kept.values()], 0.1)))
    assert told["learned"]["retention"] > told["r50k"]["languages"]["hi"]["retention"]


def test_words_under_a_typo(told, tokenizers):
    for name, found in told.items():
        kept, growth = [], []
        for lang in ("en", "ru", "hi"):
            words = [w for w in words_of(lang) if len(w) >= 4 and len(regex.findall(r"\p{L}\p{M}*", w)) >= 4]
            if not words:
                continue
            plain = [Counter(tokenizers[name].encode(f" {word}").tolist()) for word in words]
            wrong = [Counter(tokenizers[name].encode(f" {word_cuts.misspell(word)}").tolist()) for word in words]
            tokens = sum(one.total() for one in plain)
            kept.append(sum((a & b).total() for a, b in zip(plain, wrong, strict=True)) / tokens)
            growth.append(sum(one.total() for one in wrong) / tokens)
        assert found["typos_kept"] == close(statistics.mean(kept))
        assert found["typos_growth"] == pytest.approx(statistics.mean(growth), abs=1e-5)


def cut_before(tokenizer, text: bytes) -> set[int]:
    """The bytes at which tokens begin."""
    sizes = [len(tokenizer.token_bytes(id)) for id in tokenizer.encode(text).tolist()]
    return {0, *itertools.accumulate(sizes)}


def test_digits(told, tokenizers):
    for name, found in told.items():
        ways = Counter()
        numbers = [digit_cuts.draw_number(digits, which) for digits in (4, 5, 7, 8, 10, 11) for which in range(100)]
        for number in numbers:
            cuts = cut_before(tokenizers[name], number.encode())
            groups = [number[a:b] for a, b in itertools.pairwise(sorted(cuts))]
            ways["digits_left"] += all(len(one) == 3 for one in groups[:-1]) and len(groups[-1]) <= 3
            ways["digits_right"] += all(len(one) == 3 for one in groups[1:]) and len(groups[0]) <= 3
            ways["digits_single"] += all(len(one) == 1 for one in groups)
        for way in ("digits_left", "digits_right", "digits_single"):
            assert found[way] == close(ways[way] / len(numbers))


def test_numbers_in_threes_are_told_apart():
    """Splits of digits by their patterns: from the left, from the right, and one by one."""
    for pattern, way in (
        (r"\p{N}{1,3}|[^\p{N}]+", "digits_left"),
        (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|[^\p{N}]+", "digits_right"),
        (r"\p{N}|[^\p{N}]+", "digits_single"),
    ):
        every = [f"{number:03}" for number in range(1000)] + [f"{number:02}" for number in range(100)]
        tokenizer = tokcore.Tokenizer.train([" ".join(every * 3)], vocab_size=1400, pattern=pattern, allow_smaller=True)
        found = digit_cuts.measure_digits(tokenizer)
        assert found == {name: float(name == way) for name in found}, pattern


def test_identifiers_operators_and_indentation(told, tokenizers):
    """The rules, spelled a second time: by walking over the text."""
    places = [(text, walk_operators(text), walk_indents(text)) for of in TEXTS.values() for text in of]
    for name, found in told.items():
        n = Counter()
        for text, operators, indents in places:
            cuts = cut_before(tokenizers[name], text)
            for part in re.finditer(rb"[A-Za-z0-9_]+", text):
                for end, begin in walk_joints(part[0]):
                    n.update(joints=1, parted=any(part.start() + i in cuts for i in range(end, begin + 1)))
            for start, end in operators:
                before = len(text[:start]) - len(text[:start].rstrip(b" "))
                after = len(text[end:]) - len(text[end:].lstrip(b" "))
                apart = any(start - i in cuts for i in range(before + 1))
                apart &= any(end + i in cuts for i in range(after + 1))
                n.update(operators=1, apart=apart, whole=not any(i in cuts for i in range(start + 1, end)))
            for start, end in indents:
                n.update(indents=1, tokens=sum(i in cuts for i in range(start, end)))
        assert n["joints"] >= 11
        assert n["operators"] >= 9
        assert n["indents"] >= 5
        assert found["identifiers"] == close(n["parted"] / n["joints"])
        assert found["operators_apart"] == close(n["apart"] / n["operators"])
        assert found["operators_whole"] == close(n["whole"] / n["operators"])
        assert found["indentation"] == close(n["tokens"] / n["indents"])


def walk_joints(name: bytes) -> list[tuple[int, int]]:
    """Where parts of an identifier end and begin, letter by letter."""
    found = []
    text = name.decode()
    for i in range(1, len(text)):
        a, b, rest = text[i - 1], text[i], text[i + 1 : i + 2]
        if (a.islower() and b.isupper()) or (
            i >= 2 and text[i - 2].isupper() and a.isupper() and b.isupper() and rest.islower()
        ):
            found.append((i, i))
        elif b == "_" and a != "_":
            end = i + len(text[i:]) - len(text[i:].lstrip("_"))
            if end < len(text):
                found.append((i, end))
    return found


KNOWN = b"=== !== <<= >>= == != <= >= -> => += -= *= /= %= &= |= ^= && || :: << >> :="


def walk_operators(text: bytes) -> list[tuple[int, int]]:
    """Runs of signs that are an operator of two signs or more, between what may be operands."""
    found = []
    for run in re.finditer(rb"[-+*/%=<>!&|^~:.]+", text):
        left, right = text[: run.start()].rstrip(b" ")[-1:], text[run.end() :].lstrip(b" ")[:1]
        ends = left.isalnum() or (left and left in b"_])}\"'")
        begins = right.isalnum() or (right and right in b"_([{\"'$@")
        if run[0] in KNOWN.split() and ends and begins:
            found.append(run.span())
    return found


def walk_indents(text: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    for line in text.split(b"\n"):
        blank = len(line) - len(line.lstrip(b" \t"))
        if line[:blank] and line[blank:].strip() and (line[:blank].startswith(b"\t") or blank >= 2):
            found.append((at, at + blank))
        at += len(line) + 1
    return found


def test_places_by_hand():
    """getUser: kept apart; a_b: cut on either side of the underscore is as good; HTTPResponse: not cut at all."""

    class Cut:
        known = np.ones(1, bool)

        def __init__(self, text, at):
            self.begins = np.array([i in at for i in range(len(text))], np.int64)

        def count_between(self, starts, ends):
            return np.array([self.begins[a:b].sum() for a, b in zip(starts, ends, strict=True)], np.int64)

    text = b"getUser a_b HTTPResponse"
    assert tell_boundaries(Places([text]).count(Cut(text, {0, 3, 10})))["identifiers"] == close(2 / 3)
    assert tell_boundaries(Places([text]).count(Cut(text, {0, 9, 16})))["identifiers"] == close(2 / 3)
    text = b"a += b"
    whole = tell_boundaries(Places([text]).count(Cut(text, {0, 1, 4})))  # a| +=| b
    assert (whole["operators_apart"], whole["operators_whole"]) == (1, 1)
    assert tell_boundaries(Places([text]).count(Cut(text, {0, 3, 4})))["operators_whole"] == 0
    assert tell_boundaries(Places([text]).count(Cut(text, {0, 4})))["operators_apart"] == 0


def test_merge_residues(told, ids, tokenizers):
    """Merges replayed text by text: how often each token is made on the way, and how often it stays."""
    name = "learned"
    tokenizer = tokenizers[name]
    model = tokenizer.spec.model
    rank = {(int(a), int(b)): (n, 256 + n) for n, (a, b) in enumerate(model.merges.tolist())}
    made = Counter()
    for of in TEXTS.values():
        for text in of:
            for pretoken in tokcore.pretokenize(text.decode(), pattern=tokenizer.pattern_text):
                tokens = [int(tokenizer.encode(bytes([byte]))[0]) for byte in pretoken.encode()]
                while pairs := [(rank[pair], i) for i, pair in enumerate(itertools.pairwise(tokens)) if pair in rank]:
                    (_, new), i = min(pairs)
                    tokens[i : i + 2] = [new]
                    made[new] += 1
    written = Counter(id for of in ids[name].values() for one in of for id in one)
    often = [token for token, times in made.items() if times >= 10]
    residue = [token for token in often if written[token] <= 0.1 * made[token]]
    assert len(residue) > 5
    assert told[name]["residues"] == len(residue)
    assert told[name]["residue_share"] == close(len(residue) / len(often))
    assert told["fewest"]["residues"] is None, "no merges"


def test_overlap_of_languages(told, ids):
    for name, found in told.items():
        counts = {lang: Counter(id for one in of for id in one) for lang, of in ids[name].items()}
        large = {lang: of for lang, of in counts.items() if of.total() >= 1000}
        assert {"en", "ru"} <= large.keys()
        divergence, shared = {}, []
        for a, b in itertools.combinations(sorted(large), 2):
            p, q = ({id: n / large[x].total() for id, n in large[x].items()} for x in (a, b))
            mean = {id: (p.get(id, 0) + q.get(id, 0)) / 2 for id in p | q}
            divergence[a, b] = sum(sum(v * math.log2(v / mean[id]) for id, v in of.items()) for of in (p, q)) / 2
            shared.append(len(p.keys() & q.keys()) / len(p.keys() | q.keys()))
        assert found["divergence"] == close(statistics.mean(divergence.values()))
        assert found["shared_ids"] == close(statistics.mean(shared))
        for lang, (other, value) in found["nearest"].items():
            own = {pair: one for pair, one in divergence.items() if lang in pair}
            assert value == close(min(own.values()))
            assert own[tuple(sorted((lang, other)))] == close(value)


def test_premiums_and_gini():
    tokens = {"en": 100, "de": 130, "sw": 180, "km": 420, "zh": 90}
    found = spread.summarize_premiums(tokens, "en")
    others = [number / 100 for lang, number in tokens.items() if lang != "en"]
    assert found["premiums"] == {lang: number / 100 for lang, number in tokens.items()}
    assert (found["median"], found["p90"]) == (close(statistics.median(others)), close(float(np.quantile(others, 0.9))))
    pairs = [abs(a - b) for a in tokens.values() for b in tokens.values()]
    assert found["gini"] == close(sum(pairs) / (2 * len(tokens) ** 2 * statistics.mean(tokens.values())))


def test_starts_of_tokens_that_change_the_text(tokenizers):
    """Of a text that a tokenizer normalizes nothing is counted, and the texts around it are."""
    texts = [b"one two", "ｔｗｏ".encode(), b"three"]
    folded = tokcore.Tokenizer.train(["one two three"] * 9, vocab_size=264, normalizer=["nfkc"])
    starts = find_token_starts(folded, texts, folded.encode_strings(texts))
    assert starts.known.tolist() == [True, False, True]
    begins = set(np.flatnonzero(np.diff(starts.before)).tolist())
    expected = {at + cut for at, text in ((0, texts[0]), (16, texts[2])) for cut in cut_before(folded, text)}
    assert begins == {cut for cut in expected if cut not in (7, 21)}, "a text's end is no start"


def test_what_texts_do_not_have_is_not_told(tokenizers):
    found = evaluate({"r50k": tokenizers["r50k"]}, {"en": [b"word"]})["r50k"]
    for key in ("retention", "typos_kept", "identifiers", "operators_apart", "indentation", "divergence"):
        assert found[key] is None, key
    assert found["bytes_per_token"] == 4


@pytest.mark.parametrize("model", ["word", "wordpiece"])
def test_tokenizers_that_do_not_know_a_text(model):
    """An unknown word is no id that is used; a text of blanks may have no tokens."""
    tokenizer = tokcore.Tokenizer.train(["one two one two"] * 9, vocab_size=20, model=model, allow_smaller=True)
    found = evaluate({"own": tokenizer}, {"en": [b"one \xe6\xb0\xb4"], "xx": [b"  "]})["own"]
    ids = {lang: tokenizer.encode(text).tolist() for lang, text in (("en", b"one \xe6\xb0\xb4"), ("xx", b"  "))}
    assert tokenizer.unk_id in ids["en"]
    assert found["tokens"] == len(ids["en"]) + len(ids["xx"])
    assert found["used"] == len({*ids["en"], *ids["xx"]} - {tokenizer.unk_id})
    blank = found["languages"]["xx"]["bytes_per_token"]
    assert blank == (close(2 / len(ids["xx"])) if ids["xx"] else None)
    by_lang = [7 / len(ids["en"]), *([blank] if blank else [])]
    assert found["bytes_per_token_mean"] == close(statistics.mean(by_lang))


def test_every_row_of_the_table_is_measured(told):
    parallel = {"premium_p90", "premium_median", "gini"}
    for found in told.values():
        assert {one.key for one in MEASURES} - parallel <= found.keys()
    assert max(len(one.title) for one in MEASURES) <= 28
    assert len({one.key for one in MEASURES}) == len(MEASURES) == len({one.title for one in MEASURES})
