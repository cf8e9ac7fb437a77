"""[mask]: counts and shards have the texts that a plain loop masks, and the ledger counts what it found."""

from __future__ import annotations

import json
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, tokcore, write
from support.reading import reading
from support.three_formats import write_thirds

import tokcore as tk
from tokcore.errors import ConfigError
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading.input_range import list_looked_at, read_documents
from tokcore_pipelines.reading.span_fields import read_spans
from tokcore_pipelines.store import storage
from tokcore_schemas.build_classes import Learn, Mask, Source
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import MaskRule
from tokcore_schemas.stage_table import COUNTS, WHOLE

SECRETS = ("mail me@home.example.org", "AKIAABCDEFGHIJKLMNOP", "ORD-12345678", "call +49 30 1234567", "é漢 10.1.2.3")


def make_documents():
    documents = []
    for lang in ("en", "ru"):
        for i, text in enumerate(texts(lang, 40)):
            secret = SECRETS[i % 7] if i % 7 < len(SECRETS) else ""
            text = f"{text[:50]} {secret} {text[50:]} {SECRETS[0] if i % 5 == 0 else ''}"
            words = [match.span() for match in re.finditer(r"\w+", text)]
            spans = [
                {"start": a, "end": b, "label": ("PER", "LOC")[n % 2]} for n, (a, b) in enumerate(words[i % 3 :: 9])
            ]
            documents.append({"id": f"{lang}-{i}", "l": lang, "text": text, "pii": spans if i % 4 else None, "n": i})
    return documents


DOCUMENTS = make_documents()
MASK = """
[mask]
presets = ["api_key", "email", "ipv4"]
regex = { order = "ORD-[0-9]{8}", phone2 = "[+][0-9 ]{9,}" }
spans = "pii"
replacement = "<{kind}>"
remove = ["order", "LOC"]
drop = ["api_key"]
"""
SETTINGS = '[learn]\nvocab_size = 300\n[shards]\nformats = ["arrow"]\ntarget_tokens = 3000\n'
BYTES = '[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\n'
PATTERNS = {
    **{name: MASK_PRESETS[name].pattern for name in ("api_key", "email", "ipv4")},
    "order": re.compile(b"ORD-[0-9]{8}"),
    "phone2": re.compile(b"[+][0-9 ]{9,}"),
}


def find_by_hand(document):
    text = document["text"].encode()
    found = [(*match.span(), kind) for kind, pattern in PATTERNS.items() for match in pattern.finditer(text)]
    for span in document["pii"] or ():
        start, end = (len(document["text"][: span[side]].encode()) for side in ("start", "end"))
        found.append((start, end, span["label"]))
    return found


def mask_by_hand(document):
    """The oracle: (the masked text, or None for a dropped document; kind -> spans)."""
    text, found = document["text"].encode(), find_by_hand(document)
    kinds = Counter(kind for _, _, kind in found)
    if kinds["api_key"]:
        return None, kinds
    out, done = b"", 0
    for start, end, kind in sorted(found, key=lambda one: (one[0], -one[1])):
        if start < done:
            done = max(done, end)
            continue
        out += text[done:start] + (b"" if kind in ("order", "LOC") else f"<{kind}>".encode())
        done = end
    return out + text[done:], kinds


MASKED = {one["id"]: mask_by_hand(one) for one in DOCUMENTS}
KEPT = {name: text for name, (text, _) in MASKED.items() if text is not None}
FOUND = {
    lang: dict(sorted(sum((MASKED[one["id"]][1] for one in DOCUMENTS if one["l"] == lang), Counter()).items()))
    for lang in ("en", "ru")
}


def corpus(folder, documents=DOCUMENTS):
    """Spans are objects, a text in csv, and a list of structs in Parquet."""
    write_thirds(folder, documents, lambda one: {**one, "pii": json.dumps(one["pii"] or [])})
    return '[[source]]\nlang_field = "l"\nid = "id"\nfiles = ["a.jsonl", "b.csv", "c.parquet"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masks")
    run(build_file(folder, corpus(folder) + MASK, SETTINGS), folder / "out")
    return folder


def decode_all(output):
    shards, tokenizer = tk.open_shards(output, split="all"), tk.Tokenizer.load(output / "tokenizer")
    decoded = {shards.document(i).id: tokenizer.decode(shards[i].tolist()) for i in range(len(shards))}
    return {name: text.removesuffix(b"<|endoftext|>") for name, text in decoded.items()}


def test_shards_have_the_texts_that_a_loop_masks(folder):
    assert len(KEPT) < len(DOCUMENTS)
    assert len({kind for of in FOUND.values() for kind in of}) == 7, "each kind is found"
    assert decode_all(folder / "out") == KEPT
    for kind, pattern in PATTERNS.items():
        assert not any(pattern.search(text) for text in KEPT.values()), kind


def test_counts_know_no_secret(folder):
    """What was counted is the masked text: nothing of an address or key is among the pre-tokens."""
    counts = require_manifest(str(folder / "out"), COUNTS)
    table = pa.concat_tables([pq.read_table(path) for path in (folder / "out" / "counts").rglob("*.parquet")])
    seen = b" ".join(one.as_py() for column in table.columns for one in column if isinstance(one.as_py(), bytes))
    assert b"example" not in seen
    assert b"AKIA" not in seen
    for lang, one in counts.languages.items():
        own = [KEPT[d["id"]] for d in DOCUMENTS if d["l"] == lang and d["id"] in KEPT]
        assert (one.documents, one.text_bytes) == (len(own), sum(map(len, own)))


def test_the_ledger_counts_by_language_kind_and_file(folder):
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.masked == FOUND
    dropped = len(DOCUMENTS) - len(KEPT)
    assert sum(of["mask.api_key"] for of in records.filtered.values()) == records.num_filtered == dropped
    assert records.read == records.documents + dropped == len(DOCUMENTS)
    files = [json.loads(line) for line in (folder / "out" / "rejected" / "files.jsonl").read_text().splitlines()]
    for number, file in enumerate(files):
        own = sum((MASKED[one["id"]][1] for one in DOCUMENTS[number::3]), Counter())
        assert sum(map(Counter, file["masked"].values()), Counter()) == own


def test_verify_compares_with_the_masked_source_and_repair_makes_it_again(folder):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    shard = next((folder / "out" / "shards").rglob("*.arrow"))
    was = shard.read_bytes()
    shard.write_bytes(was[:-1])
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert shard.read_bytes() == was
    said = tokcore("build", folder / "build.toml", "--output", folder / "out", cwd=folder).stdout
    total = sum(map(Counter, FOUND.values()), Counter())
    assert f"{total['email']:,} email" in said


def test_workers_and_cuts_change_no_byte(folder, tmp_path):
    path = build_file(tmp_path, corpus(tmp_path) + MASK, SETTINGS)
    one = run(path, tmp_path / "one", workers=2)
    assert one.root == require_manifest(str(folder / "out"), WHOLE).root
    direct = tokcore("build", path, "--output", tmp_path / "direct", "--engine", "direct", cwd=tmp_path)
    assert direct.returncode == 0, direct.stderr
    assert require_manifest(str(tmp_path / "direct"), WHOLE).root == one.root
    cut = build_file(tmp_path, corpus(tmp_path) + MASK, SETTINGS + "[plan]\nrange_bytes = 2000\n")
    small = run(cut, tmp_path / "cut")
    assert small.totals.documents_digest == one.totals.documents_digest
    assert small.totals.records.masked == FOUND


def test_updates_mask_new_files_and_removals_add_up(tmp_path):
    path = build_file(tmp_path, corpus(tmp_path, DOCUMENTS[:50]).replace('"a.jsonl"', '"*.jsonl"') + MASK, SETTINGS)
    run(path, tmp_path / "out")
    write(tmp_path / "new.jsonl", jsonl(DOCUMENTS[50:]))
    updated = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert updated.returncode == 0, updated.stderr
    assert decode_all(tmp_path / "out") == KEPT
    gone = [*KEPT][::4]
    write(tmp_path / "ids.txt", "\n".join(gone).encode())
    removed = tokcore("remove", tmp_path / "out", "--ids", tmp_path / "ids.txt", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert decode_all(tmp_path / "out") == {name: text for name, text in KEPT.items() if name not in gone}
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_the_mask_comes_before_filters(tmp_path):
    """A ready rule sees the masked text, and a filter may ask whether the field of spans is there."""
    write(tmp_path / "a.jsonl", jsonl([{"text": "б" * 40 + "a" * 30, "pii": [[0, 40]]}, {"text": "б" * 40}]))
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    rule = '[[filter]]\nrule = "label_script"\n'
    run(build_file(tmp_path, f'{source}[mask]\nspans = "pii"\n{rule}', BYTES), tmp_path / "out")
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert (records.documents, records.filtered) == (1, {"en": {"label_script.other_script": 1}})
    kept = '[[filter]]\nkeep = "pii is null"\n'
    run(build_file(tmp_path, f'{source}[mask]\nspans = "pii"\n{kept}', BYTES), tmp_path / "other")
    assert require_manifest(str(tmp_path / "other"), WHOLE).totals.records.filtered == {"en": {"keep": 1}}


def test_a_replacement_becomes_the_special_token(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": f"write to {name}@example.org today"} for name in "abcdef"]))
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[mask]\npresets = ["email"]\nreplacement = "<|{kind}|>"\n'
    special = '[special]\n"<|endoftext|>" = "document_end"\n"<|email|>" = "plain"\n'
    with pytest.raises(ConfigError, match=r"spells the special token \"<\|email\|>\", and encode.special_text is ord"):
        run(build_file(tmp_path, source, SETTINGS + special), tmp_path / "out")
    path = build_file(tmp_path, source, BYTES + special + '[encode]\nspecial_text = "special"\n')
    run(path, tmp_path / "out")
    tokenizer = tk.Tokenizer.load(tmp_path / "out" / "tokenizer")
    (mail,) = tokenizer.encode("<|email|>", allow_special="all").tolist()
    shards = tk.open_shards(tmp_path / "out", split="all")
    assert all(shards[i].tolist().count(mail) == 1 for i in range(6))
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_a_text_that_spells_a_special_token_once_masked_is_rejected():
    with storage.write_attempt("memory://spelled") as file:
        file.write(jsonl([{"text": "<|e(a@b.org)nd|>"}, {"text": "<|end|>"}, {"text": "fine"}]))
    pin = storage.stat("memory://spelled")
    how = reading(mask=MaskRule(regex=(("inside", r"\(.*?\)"),)), forbidden=("<|end|>",))
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    assert [batch.texts.text(i) for i in range(batch.texts.num_texts)] == [b"fine"]
    assert [(one.record, one.reason, one.sample) for one in batch.rejects] == [
        (0, "special_text", ""),
        (1, "special_text", ""),
    ]


SPANS = st.none() | st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 6)).map(list), max_size=3)


@given(st.lists(st.fixed_dictionaries({"text": st.text(max_size=5), "pii": SPANS}), max_size=5))
def test_spans_outside_of_a_text_reject_its_record(records):
    rule = MaskRule(spans="pii", replacement="*")
    how = reading(fields=list_looked_at((), rule), mask=rule)
    with storage.write_attempt("memory://outside") as file:
        file.write(jsonl(records))
    pin = storage.stat("memory://outside")
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    bad = [
        i
        for i, one in enumerate(records)
        if any(not 0 <= start <= end <= len(one["text"]) for start, end in one["pii"] or ())
    ]
    assert [one.record for one in batch.rejects] == bad
    assert batch.ordinals.tolist() == [i for i in range(len(records)) if i not in bad]
    assert batch.num_records == len(records)
    for i, number in enumerate(batch.ordinals.tolist()):
        covered = {at for start, end in records[number]["pii"] or () for at in range(start, end)}
        left = "".join(c for at, c in enumerate(records[number]["text"]) if at not in covered)
        assert batch.texts.text(i).decode().count("*") >= (1 if covered else 0)
        assert [c for c in batch.texts.text(i).decode() if c != "*"] == [c for c in left if c != "*"]


@pytest.mark.parametrize(
    ("value", "spans"),
    [
        ([], []),
        ("", []),
        ('[[1, 2, "A"]]', [(1, 2, "A")]),
        ([[1, 2, None]], [(1, 2, "span")]),
        ([{"start": 0, "end": 3, "entity_type": "EMAIL_ADDRESS", "score": 0.5}], [(0, 3, "EMAIL_ADDRESS")]),
        ([[1, 2, "no name"]], [(1, 2, "span")]),
        ([[1]], None),
        ([[2, 1]], None),
        ([[True, 2]], None),
        ([[0.0, 2]], None),
        ([1, 2], None),
        ({"start": 0, "end": 1}, None),
        ("[1", None),
    ],
)
def test_what_a_field_of_spans_may_hold(value, spans):
    assert read_spans(value) == spans


def test_rejected_records_are_not_quoted(tmp_path):
    records = [{"text": "write to a@b.org today"}, {"text": 7, "mail": "a@b.org"}, {"no": "a@b.org"}]
    write(tmp_path / "a.jsonl", jsonl(records) + b'{"text": "a@b.org", \n')
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[mask]\npresets = ["email"]\n'
    run(build_file(tmp_path, source, BYTES, build="max_rejected = 1"), tmp_path / "out")
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or b"a@b.org" not in path.read_bytes(), path


def test_check_shows_where_and_hides_what(folder):
    done = tokcore("check", folder / "build.toml", "--output", folder / "new", "--json", cwd=folder)
    told = json.loads(done.stdout or done.stderr)["mask"]
    total = sum(map(Counter, FOUND.values()), Counter())
    assert {one["kind"]: one["spans"] for one in told["kinds"]} == dict(total)
    assert (told["documents"], told["dropped"]) == (len(DOCUMENTS), len(DOCUMENTS) - len(KEPT))
    for one in told["kinds"]:
        assert len(one["examples"]) == min(3, one["documents"])
        for example in one["examples"]:
            assert not any(pattern.search(example["text"].encode()) for pattern in PATTERNS.values())
            # The number of a record is its place in its file, and each third document is in one.
            number = ["a.jsonl", "b.csv", "c.parquet"].index(example["file"].rpartition("/")[2])
            document = DOCUMENTS[number::3][example["record"]]
            assert any(start == example["start"] and kind == one["kind"] for start, _, kind in find_by_hand(document))
    said = tokcore("check", folder / "build.toml", "--output", folder / "new", cwd=folder)
    assert f"drops {told['dropped']}" in said.stdout + said.stderr


def test_the_report_has_it_by_language_and_source(folder):
    done = tokcore("report", folder / "out", "-o", folder / "report.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "report.json").read_text())["corpus"]["masked"]
    assert told["languages"] == FOUND
    total = sum(map(Counter, FOUND.values()), Counter())
    assert sum(map(Counter, told["sources"].values()), Counter()) == total
    assert "What [mask] found, by source" in (folder / "report.html").read_text()


def test_a_changed_mask_is_another_build(folder):
    path = build_file(folder, corpus(folder) + MASK.replace("<{kind}>", "({kind})"), SETTINGS)
    refused = tokcore("build", path, "--output", folder / "out", cwd=folder)
    build_file(folder, corpus(folder) + MASK, SETTINGS)
    assert refused.returncode == 2
    assert "mask" in refused.stderr


def test_a_field_that_no_column_has_ends_the_build_at_once(tmp_path):
    source = corpus(tmp_path).replace('"a.jsonl", ', "")
    with pytest.raises(ConfigError, match=r"mask.spans.*has the field 'pi', so no span of it is masked"):
        run(build_file(tmp_path, source + '[mask]\nspans = "pi"\n', SETTINGS), tmp_path / "out")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "mask finds nothing"),
        ('replacement = "x"', "mask finds nothing"),
        ('presets = ["mail"]', "mask.presets"),
        ('presets = ["email"]\n[count]\nmask = ["card"]', "count.mask and [mask] exclude each other"),
        ("regex = { email = 'x' }", "mask.regex.email is a preset"),
        ("regex = { 'x y' = 'x' }", "is no name"),
        ("regex = { a = '(' }", "mask.regex.a = "),
        ('presets = ["email"]\ndrop = ["card"]', 'mask.drop = "card": no such kind is masked; there is email'),
        ('presets = ["email"]\ndrop = ["email"]\nremove = ["email"]', 'drop both have "email"'),
        ('spans = "s"\n[[filter]]\nkeep = "s == 1"', "compares s, which holds the spans"),
        ('presets = ["email"]\n[[filter]]\nkeep = "s"\nname = "mask"', "ledgers call [mask] so"),
    ],
)
def test_what_a_build_file_may_not_say(tmp_path, lines, said):
    path = build_file(tmp_path, f'[[source]]\nlang = "en"\nfiles = "*.jsonl"\n[mask]\n{lines}\n', SETTINGS)
    with pytest.raises(ConfigError) as refused:
        Build.load(path)
    assert said in str(refused.value)


def test_text_files_have_no_field_of_spans(tmp_path):
    write(tmp_path / "a.txt", b"a text")
    source = '[[source]]\nlang = "en"\nfiles = "a.txt"\n[mask]\nspans = "pii"\n'
    with pytest.raises(ConfigError, match="text files have no fields"):
        run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")


def test_classes_and_toml_say_the_same():
    tables = {
        "version": 1,
        "build": {"output": "out"},
        "source": [{"lang": "en", "files": ["a.jsonl"]}],
        "mask": {"presets": ["email"], "regex": {"b": "y", "a": "x"}, "replacement": "-", "remove": ["a"]},
        "learn": {"vocab_size": 300},
    }
    rule = MaskRule(("email",), (("a", "x"), ("b", "y")), "", "-", ("a",))
    assert parse_config(tables, "build.toml").mask_rule == rule
    assert Build.from_toml(Build(**build_keys(), mask=Mask(**tables["mask"])).to_toml()).parse().mask_rule == rule


def build_keys():
    return {"output": "out", "sources": [Source(lang="en", files="a.jsonl")], "learn": Learn(vocab_size=300)}


def test_an_output_without_a_mask_says_nothing_of_it(tmp_path):
    run(build_file(tmp_path, corpus(tmp_path), SETTINGS), tmp_path / "out")
    for path in (tmp_path / "out").rglob("manifest.json"):
        assert b"mask" not in path.read_bytes()
