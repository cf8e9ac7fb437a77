"""`[mixture]`: training documents taken and repeated by hash, with a receipt; what is mixed follows from them alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from chaos.kills import check_kills
from chaos.server import Warm
from support import eager
from support.builds import WORDS, build_file, drop_result_keys, jsonl, run, texts, tree, write
from support.builds import tokcore as command

import tokcore
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.train.loader import Loader
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.identities import compute_identity_under
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.commands.print_build import print_build
from tokcore_pipelines.look.diff import diff
from tokcore_pipelines.work.language_totals import format_ratio
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_schemas import copies
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.copies import reverse_copy
from tokcore_schemas.stage_table import MIXED, PACKED, WHOLE, parse_manifest

# Three languages of different sizes; one document is empty, one is there twice.
SIZES = dict(zip(WORDS, (120, 60, 20), strict=False))
DOCUMENTS = [{"text": texts(lang, 1, i)[0], "l": lang} for lang, num in SIZES.items() for i in range(num)]
DOCUMENTS += [{"text": "", "l": "en"}, DOCUMENTS[3]]

SETTINGS = """
[plan]
range_bytes = {range_bytes}
[learn]
vocab_size = 300
[shards]
target_tokens = 1500
validation = 0.1
formats = {formats}
by = "{by}"
[shuffle]
seed = 7
[mixture]
{mixture}
{more}
"""
UNIMAX = 'strategy = "unimax"\nmax_epochs = 3'


def settings(mixture=UNIMAX, formats=("arrow", "megatron"), by="plan", more="", range_bytes=100_000):
    told = {"formats": json.dumps(list(formats)), "by": by, "more": more, "range_bytes": range_bytes}
    return SETTINGS.format(mixture=mixture, **told)


def corpus(folder):
    """Two named sources, one of which is cut into ranges."""
    write(folder / "a.jsonl", jsonl(DOCUMENTS[:90]))
    write(folder / "b.jsonl.gz", jsonl(DOCUMENTS[90:]))
    return "".join(
        f'[[source]]\nlang_field = "l"\nfiles = "{file}"\nname = "{name}"\n'
        for file, name in (("a.jsonl", "books"), ("b.jsonl.gz", "web"))
    )


def other_corpus(folder):
    """The same documents of the same sources, cut, named, ordered and compressed otherwise."""
    told = ""
    for name, own in (("web", DOCUMENTS[90:]), ("books", DOCUMENTS[:90])):
        for number in range(3):
            write(folder / name / f"{9 - number}.jsonl{('', '.gz', '.zst')[number]}", jsonl(own[::-1][number::3]))
        told += f'[[source]]\nlang_field = "l"\nfiles = "{name}/*"\nname = "{name}"\n'
    return told


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    """Several segments of few documents; worker processes keep the true size, which these corpora never reach."""
    monkeypatch.setattr(copies, "TOKENS_PER_SEGMENT", 300)


@pytest.fixture
def whole_segments(monkeypatch):
    monkeypatch.setattr(copies, "TOKENS_PER_SEGMENT", 1 << 23)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    build_file(folder, corpus(folder), settings(more="[pack]\nlength = 64"))
    run(folder / "build.toml", folder / "out")  # with worker processes
    return folder


@pytest.fixture
def output(folder, tmp_path, whole_segments):
    return Path(shutil.copytree(folder / "out", tmp_path / "out"))


def read_mixture(output):
    return parse_manifest((output / "mixed" / "manifest.json").read_bytes(), "", MIXED)


def test_the_end_of_a_build_names_the_mixture_and_counts_its_time(folder, capsys):
    print_build(str(folder / "out"), find_manifest(str(folder / "out"), WHOLE))
    shown = capsys.readouterr().out
    made = read_mixture(folder / "out").totals
    assert f"mixture    {folder}/out/mixed  ({made.documents:,} documents, {made.tokens:,} tokens)\n" in shown
    stages = ("plan", "counts", "tokenizer", "shards", "mixed", "packed")
    seconds = sum(json.loads((folder / "out" / stage / "run.json").read_bytes())["seconds"] for stage in stages)
    assert f"time       {seconds:.1f} s in all stages" in shown


def read_documents(folder, output, name="arrow"):
    """(split, source, ordinal, place, lang, ids) of every document of shuffled shards, shard by shard."""
    found = []
    for file in tokcore.open_shards(folder, "all").list_files():
        provenance, at = file.find_provenance(), 0
        for batch in file.open().batches():
            named = provenance.restore(batch, at)
            for i in range(batch.num_documents):
                ids = batch.tokens[batch.offsets[i] : batch.offsets[i + 1]].tolist()
                place = provenance.places[at + i].tobytes()
                split = Path(file.path).name.split("-")[0]
                found.append((split, named.sources[i], int(named.ordinals[i]), place, batch.langs[i], tuple(ids)))
            at += batch.num_documents
    return found


@pytest.mark.parametrize(
    ("mixture", "by"),
    [
        (UNIMAX, "plan"),
        (UNIMAX, "lang"),
        ('strategy = "temperature"\nalpha = 0.3\ntokens = 20000', "plan"),
        ('strategy = "natural"\ntokens = 1000', "plan"),
        ('strategy = "weights"\nweights = {weights}', "plan"),
        ('strategy = "weights"\nover = "sources"\nweights = { books = 2.5, web = 0.5 }', "lang"),
    ],
)
def test_documents_are_taken_and_repeated_by_hash(tmp_path, mixture, by):
    """The slow way: each document's copies from its place alone; then the order, the sums and the receipts."""
    langs = list(SIZES)
    weights = f"{{ {langs[0]} = 0, {langs[1]} = 0.7, {langs[2]} = 4.4 }}"
    path = build_file(tmp_path, corpus(tmp_path), settings(mixture.replace("{weights}", weights), by=by))
    run(path, tmp_path / "out")
    assert verify(str(tmp_path / "out")).problems == ()
    made = read_mixture(tmp_path / "out")
    there = read_documents(tmp_path / "out", "arrow")
    mixed = read_documents(tmp_path / "out" / "mixed", "arrow")
    over_sources = made.config.over == "sources"
    names = {"a.jsonl": "books", "b.jsonl.gz": "web"}
    shares = made.totals.sources if over_sources else made.languages
    num_segments = made.totals.segments
    assert num_segments > 2
    expected = Counter()
    sums = {name: [0, 0, 0, 0, 0, 0] for name in shares}
    for split, source, ordinal, place, lang, ids in there:
        if split == "validation":
            expected[split, source, ordinal, place, lang, ids] += 1
            continue
        name = names[source] if over_sources else lang
        share = shares[name]
        tail = int.from_bytes(place[8:], "big")
        times = share.copies + (tail < int(share.cut or "0", 16))
        own = sums[name]
        own[0] += 1
        own[1] += len(ids)
        own[2] += times
        own[3] += times * len(ids)
        own[4] += times == 0
        own[5] += max(times - 1, 0)
        head = int.from_bytes(place[:8], "big")
        for copy in range(times):
            segment = head * num_segments >> 64
            moved = segment ^ reverse_copy(copy, num_segments)
            hashed = hashlib.sha256(b"tokcore-copy-v1\0%d\0" % copy + place).digest()[:16] if copy else place
            width = (1 << 64) // num_segments
            now = int.from_bytes(hashed[:8], "big") % width + moved * width
            if copy == 0:
                assert now == head
            expected[split, source, ordinal, now.to_bytes(8, "big") + hashed[8:], lang, ids] += 1
    assert Counter(mixed) == expected
    streams = {}
    for split, source, ordinal, place, lang, _ in mixed:
        streams.setdefault((split, lang if by == "lang" else ""), []).append((place, source, ordinal))
    assert all(own == sorted(own) for own in streams.values())
    for name, share in shares.items():
        told = (
            share.documents,
            share.tokens,
            share.mixed_documents,
            share.mixed_tokens,
            share.left_out,
            share.repeated,
        )
        assert told == tuple(sums[name]), name
        # Fewer than the tokens of a few documents away from what was wanted.
        assert abs(share.mixed_tokens - share.tokens_wanted) <= share.tokens / 4 or share.documents < 40
    totals = made.totals
    assert totals.read + totals.repeated == totals.documents + totals.left_out == len(mixed) + totals.left_out
    assert totals.read == len(there)
    if made.config.tokens is None and made.config.strategy != "weights":
        assert sum(share.tokens_wanted for share in shares.values()) == pytest.approx(
            sum(share.tokens for share in shares.values()), abs=len(shares)
        )


def test_documents_that_come_again_are_apart(tmp_path):
    """Copies of a document are in other halves, then quarters, of the mixture."""
    langs = list(SIZES)
    told = settings(f'strategy = "weights"\nweights = {{ {", ".join(f"{lang} = 4" for lang in langs)} }}')
    run(build_file(tmp_path, corpus(tmp_path), told), tmp_path / "out")
    seen = {}
    for split, source, ordinal, place, _, _ in read_documents(tmp_path / "out" / "mixed", "arrow"):
        if split == "train":
            seen.setdefault((source, ordinal), []).append(int.from_bytes(place[:8], "big") >> 62)
    assert all(sorted(quarters) == [0, 1, 2, 3] for quarters in seen.values())


@pytest.mark.parametrize("seed", range(2))
def test_workers_bundles_and_repeats_change_no_byte(folder, tmp_path, whole_segments, seed):
    eager.seed(seed)
    run(folder / "build.toml", tmp_path / "out", runner=eager.RUNNER)
    assert tree(tmp_path / "out") == tree(folder / "out")


@pytest.mark.parametrize("over", ["languages", "sources"])
def test_every_file_of_tokens_is_equal_however_inputs_are_cut(tmp_path, over):
    found = []
    for name, make, range_bytes in (("one", corpus, 3000), ("other", other_corpus, 700)):
        place = tmp_path / name
        place.mkdir()
        mixture = f'{UNIMAX}\nover = "{over}"'
        build_file(place, make(place), settings(mixture, sorted(SHARD_FORMATS), range_bytes=range_bytes))
        run(place / "build.toml", place / "out")
        assert verify(str(place / "out")).problems == ()
        files = {}
        for path in sorted((place / "out" / "mixed").rglob("*")):
            own = path.relative_to(place / "out" / "mixed")
            keyless = drop_result_keys(own)
            if path.is_file() and keyless != str(own) and own.parts[0] != "provenance":
                files[keyless] = hashlib.sha256(path.read_bytes()).hexdigest()
        made = read_mixture(place / "out")
        found.append((files, made.languages, made.totals))
    assert {name.split("/")[0] for name in found[0][0]} == {*SHARD_FORMATS, "documents"}
    assert len({name.split("-")[1] for name in found[0][0]}) > 1  # several parts
    assert found[0] == found[1]


def test_killed_anywhere_and_run_again(folder, tmp_path):
    points = (("mix.measured", 1), ("mix.shard", 2), ("mix.part", 1), ("stage.published", 5), ("stage.published", 6))
    check_kills(folder / "build.toml", points, tree(folder / "out"), tmp_path)


@pytest.mark.parametrize(
    ("point", "call", "stage"), [("mix.measured", 4, "mixed"), ("mix.shard", 6, "mixed"), ("pack.shard", 6, "packed")]
)
def test_a_full_store_is_named_and_the_next_run_ends_with_the_same_bytes(folder, tmp_path, point, call, stage):
    """The first build dies within a stage; the second finds no room for what it writes there."""
    output = f"faultfs://{tmp_path / 'out'}"
    warm = Warm()
    try:
        assert "killed" in warm.build(folder / "build.toml", output, crash=[point, 1], seed=1)
        failed = warm.build(folder / "build.toml", output, faults=[["create", call, "full"]], seed=2)
        assert (failed["error"], failed["code"]) == ("StageError", 3)
        assert "No space left on device" in failed["message"]
        assert re.search(f"/out/(_attempts/)?{stage}[-/]", failed["message"])
        assert not (tmp_path / "out" / stage / "manifest.json").exists()
        assert "root" in warm.build(folder / "build.toml", output, seed=3)
    finally:
        warm.close()
    assert tree(tmp_path / "out") == tree(folder / "out")


def test_rows_are_packed_out_of_the_mixture(folder, whole_segments):
    made = parse_manifest((folder / "out" / "packed" / "manifest.json").read_bytes(), "", PACKED)
    mixed = read_mixture(folder / "out")
    assert set(made.inputs) == {"mixed", "tokenizer"}
    assert (made.totals.documents, made.totals.tokens) == (mixed.totals.documents, mixed.totals.tokens)
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    rows = Loader(folder / "out" / "packed", length=64, batch_size=2, shuffle=False)
    assert rows.num_rows > 10
    documents = Loader(folder / "out" / "mixed", length=16, batch_size=2, shuffle=False)
    train = sum(share.mixed_tokens for share in mixed.languages.values())
    assert documents.num_rows == train // 16


def test_verify_rebuild_repair_and_diff(folder, output, tmp_path):
    before = tree(output)
    shards = sorted((output / "mixed" / "arrow").iterdir())
    found = rebuild(str(output), f"mixed/{shards[1].stem}", str(folder))
    assert (found.problems, found.notes) == ((), ())
    with pytest.raises(ConfigError, match="no shards of that name"):
        rebuild(str(output), "mixed/train-00099-00000", str(folder))
    damaged = [
        shards[-1],
        *sorted((output / "mixed" / "provenance").iterdir())[:1],
        output / "mixed/megatron/data_path.train",
        *sorted((output / "packed" / "pieces").iterdir())[:1],
    ]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert len(verify(str(output)).problems) == 4
    assert repair(str(output), str(folder)).left == ()
    assert tree(output) == before
    shutil.copytree(folder, tmp_path / "corpus", ignore=shutil.ignore_patterns("out"))
    other = tmp_path / "corpus" / "build.toml"
    other.write_text(other.read_text().replace("max_epochs = 3", "max_epochs = 2"))
    run(other, tmp_path / "fewer")
    told = diff(str(output), str(tmp_path / "fewer"))
    assert told["configuration"] == {"mixed.max_epochs": ["3", "2"]}
    assert told["mixed"]["other_content"]["number"] > 0
    assert "shards" not in told


def test_an_edit_with_corrected_hashes_is_found(folder, tmp_path, whole_segments):
    """Two ids swapped; a document said to be taken more often; other totals."""
    build_file(tmp_path, corpus(tmp_path), settings())
    run(tmp_path / "build.toml", tmp_path / "plain")
    sound = tmp_path / "plain"

    def forge(name, change):
        output = Path(shutil.copytree(sound, tmp_path / name))
        mixed, built = (json.loads((output / one / "manifest.json").read_bytes()) for one in ("mixed", ""))
        change(output, mixed)
        data = write_canonical_json(mixed)
        (output / "mixed" / "manifest.json").write_bytes(data)
        made = parse_manifest(data, "", MIXED)
        built["inputs"]["mixed"] = {"sha256": made.as_input().sha256, "content_sha256": made.content_id()}
        built["root"] = ""
        built["identity"] = compute_identity_under(SEMANTICS, parse_manifest(write_canonical_json(built), ""))
        built["root"] = parse_manifest(write_canonical_json(built), "").content_id()
        (output / "manifest.json").write_bytes(write_canonical_json(built))
        return verify(str(output)).problems

    def swap(output, mixed):
        path = sorted((output / "mixed" / "megatron").glob("train*.bin"))[0]
        ids = np.fromfile(path, "<i4")
        other = int(np.flatnonzero(ids != ids[0])[0])
        ids[[0, other]] = ids[[other, 0]]
        path.write_bytes(ids.tobytes())
        for entry in mixed["files"]:
            if entry["path"] == str(path.relative_to(output / "mixed")):
                entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    def damage(output, mixed):
        path = sorted((output / "mixed" / "provenance").iterdir())[0]
        path.write_bytes(b"no provenance")
        for entry in mixed["files"]:
            if entry["path"] == str(path.relative_to(output / "mixed")):
                entry["sha256"], entry["size_bytes"] = hashlib.sha256(path.read_bytes()).hexdigest(), 13

    def take_more(output, mixed):
        lang = list(SIZES)[2]
        mixed["languages"][lang]["copies"] += 1

    def want_otherwise(output, mixed):
        """As if one language were to have a token of another: no shard differs, only deciding again finds it."""
        shares = list(mixed["languages"].values())
        shares[0]["tokens_wanted"] -= 1
        shares[1]["tokens_wanted"] += 1
        whole = sum(share["tokens_wanted"] for share in shares)
        for share in shares[:2]:
            share["share_wanted"] = format_ratio(share["tokens_wanted"], whole, 6)

    def count_otherwise(output, mixed):
        mixed["totals"]["left_out"] += 1
        mixed["totals"]["repeated"] += 1

    assert forge("sound", lambda output, mixed: None) == ()
    (swapped, first) = forge("swapped", swap)
    assert "/megatron/train-" in swapped
    assert "the same content in other bytes, with the same versions" in swapped
    assert re.fullmatch(r"mixed/megatron/\S+: document 0 \(.*\) is the first that differs", first)
    assert any(one.startswith("mixed/provenance/") for one in forge("damaged", damage))
    assert any(one.startswith("mixed") for one in forge("more", take_more))
    wanted = forge("wanted", want_otherwise)
    told = {
        f"mixed/manifest.json: languages.{lang}.{key}"
        for lang in ("en", "ru")
        for key in ("share_wanted", "tokens_wanted")
    }
    assert {one.split(" = ")[0] for one in wanted} == told
    assert any("mixed/manifest.json: totals.left_out = " in one for one in forge("otherwise", count_otherwise))


def test_only_what_changes_is_made_again(folder, tmp_path):
    place = Path(shutil.copytree(folder, tmp_path / "corpus"))
    path, output = place / "build.toml", place / "out"
    before = tree(output)
    text = path.read_text()
    path.write_text(text.replace("max_epochs = 3", "max_epochs = 2.5"))
    with pytest.raises(ConfigError, match=r"mixture.max_epochs was 3, now 2.5\n.*mixed, packed again.*--replace mix"):
        run(path, output)
    again = Build(load_config(str(path)), output=str(output), replace="mix")
    again.run()
    assert again.made == ["mixed", "packed", "build"]
    after = tree(output)
    changed = {name for name in before if before[name] != after.get(name)}
    assert {name.split("/")[0] for name in changed} <= {"mixed", "packed", "manifest.json", "README.md"}
    path.write_text(text.replace(UNIMAX, "").replace("[mixture]", ""))
    with pytest.raises(ConfigError, match=r'mixture\.strategy was "unimax", now not set'):
        run(path, output)
    Build(load_config(str(path)), output=str(output), replace="mix").run()
    assert not (output / "mixed").exists()
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"packed: was made from shards, now from mixed"):
        run(path, output)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[mixture]\ntokens = 5", "mixture.tokens is for a mixture, and mixture.strategy is not set"),
        ('[mixture]\nstrategy = "natural"', "mixture.strategy needs a shuffle"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "unimax"', "mixture.max_epochs is missing: unimax needs it"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "natural"\nalpha = 0.5', 'mixture.alpha is for strategy = "temp'),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "weights"', "mixture.weights is missing"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "weights"\nweights = { de = 2 }', "a language that is not there"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "weights"\nweights = { en = 0 }', "are all 0"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "weights"\nweights = { en = -1 }', "mixture.weights.en = -1"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "natural"\nover = "sources"', "source[0].name is missing"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "best"', 'mixture.strategy = "best": expected'),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "natural"\ntokens = 0', "mixture.tokens = 0: expected"),
        ('[shuffle]\nseed = 1\n[mixture]\nstrategy = "natural"\nformats = ["bin"]', "mixture.formats"),
    ],
)
def test_wrong_settings_are_named(more, message):
    text = f'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n{more}\n'
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "build.toml")
    assert message in str(caught.value)


def test_what_cannot_be_reached_fails_the_build_by_name(tmp_path):
    """The shards stay, so another mixture costs no tokenizing."""
    path = build_file(tmp_path, corpus(tmp_path), settings(f"{UNIMAX}\ntokens = 1000000"))
    with pytest.raises(ConfigError, match=r"mixture.tokens = 1000000: cannot be reached: .* at most \d+\. Lower"):
        run(path, tmp_path / "out")
    path.write_text(path.read_text().replace("1000000", "9000"))
    again = Build(load_config(str(path)), output=str(tmp_path / "out"))
    again.run()
    assert "shards" not in again.made
    path = build_file(tmp_path, corpus(tmp_path), settings('strategy = "weights"\nweights = { xx = 2 }'))
    with pytest.raises(ConfigError, match=r"mixture.weights.xx: no training document is of it, only of "):
        run(path, tmp_path / "other")


def test_commands_know_the_mixture(folder, output, tmp_path):
    done = command("show", output)
    assert done.returncode == 0, done.stderr
    assert "are mixed, too" in done.stdout
    done = command("show", output / "mixed")
    assert done.returncode == 0, done.stderr
    assert "share wanted" in done.stdout
    assert "books" in done.stdout
    done = command("mix", folder / "build.toml", "--output", output)
    assert done.returncode == 0, done.stderr
    done = command("convert", output / "mixed", "--to", "nanogpt", "-o", tmp_path / "mixed")
    assert done.returncode == 0, done.stderr
    here, there = (tokcore.open_shards(place, "train") for place in (output / "mixed", tmp_path / "mixed"))
    assert [ids.tolist() for ids in here] == [ids.tolist() for ids in there]
