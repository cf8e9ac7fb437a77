"""`[pack]`: rows of one length beside the shards: every id is in one row, and rows follow from the order alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from chaos.kills import check_kills
from support import eager
from support.builds import WORDS, build_file, drop_result_key, drop_result_keys, jsonl, run, texts, tree, write
from support.builds import tokcore as command

import tokcore
from tokcore.errors import ConfigError
from tokcore.formats.pieces import PiecesFile, PiecesWriter
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.train.loader import Loader
from tokcore.train.packing import pack
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check import shards_made_again
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.look.diff import diff
from tokcore_schemas import pack_groups
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.stage_table import PACKED, parse_manifest

# Of many lengths; some are longer than two rows, one is empty.
DOCUMENTS = [
    {"text": " ".join(texts(lang, 1, i)[0] for _ in range(1 + i % 7 // 6 * 3))[: (i * 37) % 400 or None], "l": lang}
    for lang in WORDS
    for i in range(40)
]
DOCUMENTS += [{"text": "", "l": "en"}]
LENGTH = 64

SETTINGS = """
[plan]
range_bytes = {range_bytes}
[learn]
vocab_size = 300
[encode]
append = {append}
[shards]
target_tokens = 700
validation = 0.1
formats = {formats}
by = "{by}"
{shuffle}
[pack]
length = 64
strategy = "{strategy}"
{more}
"""


def settings(strategy="best-fit", formats=("arrow", "megatron"), by="plan", more="", shuffle="", **others):
    told = {"range_bytes": 100_000, "append": '["<|endoftext|>"]', **others}
    formats = json.dumps(list(formats))
    return SETTINGS.format(strategy=strategy, formats=formats, by=by, more=more, shuffle=shuffle, **told)


def corpus(folder):
    write(folder / "a.jsonl", jsonl(DOCUMENTS[:90]))
    write(folder / "b.jsonl.gz", jsonl(DOCUMENTS[90:]))
    return '[[source]]\nlang_field = "l"\nfiles = ["a.jsonl", "b.jsonl.gz"]\n'


def other_corpus(folder):
    """The same documents, cut, named, ordered and compressed otherwise."""
    for number in range(5):
        path = folder / "deep" / f"{9 - number}.jsonl{('', '.gz', '.zst')[number % 3]}"
        write(path, jsonl(DOCUMENTS[::-1][number::5]))
    return '[[source]]\nlang_field = "l"\nfiles = "deep/*"\n'


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    """Several windows of few documents; worker processes keep the true size, which these corpora never reach."""
    monkeypatch.setattr(pack_groups, "WINDOW_DOCUMENTS", 20)


def read_rows(folder):
    """(split, row, pieces, language) of every row of packed shards in order; pieces with the ids that they name."""
    manifest = parse_manifest((folder / "packed" / "manifest.json").read_bytes(), "", PACKED)
    documents = {}
    for file in tokcore.open_shards(folder, "all").list_files():
        place = drop_result_key(Path(file.path).name).partition("_")[0].partition(".")[0]
        lang = Path(file.path).parent.name
        reader = file.open()
        documents[place if lang in ("arrow", "megatron") else f"{lang}/{place}"] = [
            reader.tokens(row).tolist() for row in range(len(reader))
        ]
    found = []
    for file in tokcore.open_shards(folder / "packed", "all").list_files():
        reader, pieces = file.open(), file.find_pieces().read()
        for row in range(len(reader)):
            own = [
                (shard, document, start, length, documents[shard][document][start : start + length])
                for of, shard, document, start, length in zip(*(list(column) for column in pieces[:5]), strict=True)
                if of == row
            ]
            found.append((Path(file.path).name.split("-")[0], reader.tokens(row).tolist(), own, reader.columns(row)[1]))
    return manifest, documents, found


@pytest.mark.parametrize(
    ("strategy", "by", "last"),
    [
        ("concatenate", "plan", "pad"),
        ("concatenate", "lang", "keep"),
        ("best-fit", "plan", "keep"),
        ("best-fit", "lang", "pad"),
        ("one", "plan", "keep"),
    ],
)
def test_every_id_of_every_document_is_in_one_row(tmp_path, strategy, by, last):
    """And the sums of the manifest are those of the rows."""
    path = build_file(tmp_path, corpus(tmp_path), settings(strategy, by=by, more=f'last = "{last}"'))
    run(path, tmp_path / "out")
    assert verify(str(tmp_path / "out")).problems == ()
    manifest, documents, rows = read_rows(tmp_path / "out")
    end = tokcore.Tokenizer.load(tmp_path / "out").eos_id
    seen = {}
    padding = 0
    for i, (_, ids, pieces, lang) in enumerate(rows):
        told = [id for piece in pieces for id in piece[4]]
        assert ids[: len(told)] == told
        assert ids[len(told) :] == [end] * (len(ids) - len(told))
        padding += len(ids) - len(told)
        is_last = i + 1 == len(rows) or rows[i + 1][0] != rows[i][0] or (by == "lang" and rows[i + 1][3] != lang)
        assert len(ids) == (LENGTH if last == "pad" or not is_last else len(told))
        for shard, document, start, length, _ in pieces:
            seen.setdefault((shard, document), []).append((start, length))
    assert seen.keys() == {(shard, i) for shard, own in documents.items() for i in range(len(own))}
    cut = 0
    for (shard, document), pieces in seen.items():
        ordered = sorted(pieces)
        assert [start for start, _ in ordered] == [0, *itertools.accumulate(size for _, size in ordered[:-1])]
        assert sum(size for _, size in ordered) == len(documents[shard][document])
        cut += len(ordered) > 1
        if strategy != "concatenate":
            assert len(ordered) == max(1, -(-len(documents[shard][document]) // LENGTH))
    totals = manifest.totals
    tokens = sum(len(own) for shard in documents.values() for own in shard)
    assert (totals.rows, totals.documents, totals.cut) == (len(rows), len(seen), cut)
    assert (totals.tokens, totals.padding) == (tokens, padding)
    assert totals.pieces == sum(len(pieces) for pieces in seen.values())
    assert cut > 0


@pytest.mark.parametrize("strategy", ["concatenate", "best-fit", "one"])
def test_rows_are_those_of_the_packer(tmp_path, monkeypatch, strategy):
    """Windows follow from the order of documents alone; groups, of which there are several, decide nothing."""
    monkeypatch.setattr(pack_groups, "SHARDS_PER_GROUP", 1)
    path = build_file(tmp_path, corpus(tmp_path), settings(strategy))
    run(path, tmp_path / "out")
    assert verify(str(tmp_path / "out")).problems == ()
    _, documents, rows = read_rows(tmp_path / "out")
    assert len({path.name.split("-")[1] for path in (tmp_path / "out/packed/pieces").iterdir()}) > 2
    for split in ("train", "validation"):
        places = [(shard, i) for shard, own in documents.items() if shard.startswith(split) for i in range(len(own))]
        lengths = np.array([len(documents[shard][i]) for shard, i in places])
        expected = []
        for some in pack([lengths], LENGTH, strategy, window=20):
            for low, high in itertools.pairwise(some.bounds.tolist()):
                own = [
                    (*places[i], some.starts[k], some.lengths[k])
                    for k, i in enumerate(some.documents)
                    if low <= k < high
                ]
                expected.append(own)
        assert [[piece[:4] for piece in pieces] for of, _, pieces, _ in rows if of == split] == expected


def test_empty_documents_are_kept_where_nothing_is_appended(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": "", "l": "en"}] * 3 + DOCUMENTS[:30] + [{"text": "", "l": "en"}] * 3))
    for strategy in ("concatenate", "best-fit", "one"):
        more = settings(strategy, append="[]", more='padding = "<|endoftext|>"').replace("size = 300", "size = 280")
        path = build_file(tmp_path, '[[source]]\nlang_field = "l"\nfiles = "a.jsonl"\n', more)
        run(path, tmp_path / strategy)
        assert verify(str(tmp_path / strategy)).problems == ()
        assert read_rows(tmp_path / strategy)[0].totals.documents == 36


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    build_file(folder, corpus(folder), settings())
    run(folder / "build.toml", folder / "out")  # with worker processes
    return folder


@pytest.fixture
def whole_windows(monkeypatch):
    monkeypatch.setattr(pack_groups, "WINDOW_DOCUMENTS", 32_768)


@pytest.fixture
def output(folder, tmp_path, whole_windows):
    return Path(shutil.copytree(folder / "out", tmp_path / "out"))


@pytest.mark.parametrize("seed", range(2))
def test_workers_bundles_and_repeats_change_no_byte(folder, tmp_path, whole_windows, seed):
    eager.seed(seed)
    run(folder / "build.toml", tmp_path / "out", runner=eager.RUNNER)
    assert tree(tmp_path / "out") == tree(folder / "out")


@pytest.mark.parametrize("strategy", ["concatenate", "best-fit"])
def test_with_a_shuffle_every_file_is_equal_however_inputs_are_cut(tmp_path, strategy):
    found = []
    for name, make, range_bytes in (("one", corpus, 3000), ("other", other_corpus, 700)):
        place = tmp_path / name
        place.mkdir()
        told = settings(strategy, sorted(SHARD_FORMATS), shuffle="[shuffle]\nseed = 7", range_bytes=range_bytes)
        build_file(place, make(place), told)
        run(place / "build.toml", place / "out")
        assert verify(str(place / "out")).problems == ()
        files = {}
        packed = place / "out" / "packed"
        for path in sorted(packed.rglob("*")):
            keyless = drop_result_keys(path.relative_to(packed))
            if path.is_file() and keyless != str(path.relative_to(packed)):  # others name shards with their keys
                files[keyless] = hashlib.sha256(path.read_bytes()).hexdigest()
        found.append(files)
    assert {name.split("/")[0] for name in found[0]} == {*SHARD_FORMATS, "documents", "pieces"}
    assert found[0] == found[1]


def test_killed_anywhere_and_run_again(folder, tmp_path):
    points = (("pack.shard", 1), ("pack.shard", 3), ("pack.group", 1), ("stage.published", 5))
    check_kills(folder / "build.toml", points, tree(folder / "out"), tmp_path)


def test_verify_rebuild_repair_and_diff(folder, output, tmp_path):
    before = tree(output)
    assert verify(str(output), decode=None, base=str(folder)).problems == ()
    shards = sorted((output / "packed" / "arrow").iterdir())
    found = rebuild(str(output), f"packed/{shards[1].stem}", str(folder))
    assert (found.problems, found.notes) == ((), ())
    with pytest.raises(ConfigError, match=r"no shards of that name; there is, e.g., train-"):
        rebuild(str(output), "packed/train-00099-00000", str(folder))
    damaged = [
        shards[-1],
        *sorted((output / "packed" / "pieces").iterdir())[:1],
        output / "packed/megatron/data_path.train",
    ]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert len(verify(str(output)).problems) == 3
    assert any(
        "not the ones that were committed" in one
        for one in rebuild(str(output), f"packed/{damaged[0].stem}", str(folder)).problems
    )
    assert repair(str(output), str(folder)).left == ()
    assert tree(output) == before
    other = tmp_path / "longer.toml"
    shutil.copytree(folder, tmp_path / "corpus", ignore=shutil.ignore_patterns("out"))
    other = tmp_path / "corpus" / "build.toml"
    other.write_text(other.read_text().replace("length = 64", "length = 70"))
    run(other, tmp_path / "longer")
    told = diff(str(output), str(tmp_path / "longer"))
    assert told["configuration"] == {"packed.length": [64, 70]}
    assert told["packed"]["other_content"]["number"] > 0
    assert "shards" not in told


def correct_hashes(output, path, content):
    """Make all manifests fit a file of rows that was edited. content: its digest now; None: as it was."""
    from tokcore.files.canonical_json import write_canonical_json
    from tokcore_pipelines.build.identities import compute_identity_under
    from tokcore_pipelines.work.semantics import SEMANTICS

    packed, build = (json.loads((output / name / "manifest.json").read_bytes()) for name in ("packed", ""))
    data = path.read_bytes()
    for entry in packed["files"]:
        if entry["path"] == str(path.relative_to(output / "packed")):
            entry["sha256"], entry["size_bytes"] = hashlib.sha256(data).hexdigest(), len(data)
            entry["content_sha256"] = content or entry["content_sha256"]
    data = write_canonical_json(packed)
    (output / "packed" / "manifest.json").write_bytes(data)
    made = parse_manifest(data, "", PACKED)
    build["inputs"]["packed"] = {"sha256": made.as_input().sha256, "content_sha256": made.content_id()}
    build["root"] = ""
    build["identity"] = compute_identity_under(SEMANTICS, parse_manifest(write_canonical_json(build), ""))
    build["root"] = parse_manifest(write_canonical_json(build), "").content_id()
    (output / "manifest.json").write_bytes(write_canonical_json(build))


def test_an_edit_with_corrected_hashes_is_found(folder, output, monkeypatch):
    """Two ids swapped, and a piece that begins elsewhere."""
    path = sorted((output / "packed" / "megatron").glob("*.bin"))[0]
    ids = np.fromfile(path, "<i4")
    other = int(np.flatnonzero(ids != ids[0])[0])
    ids[[0, other]] = ids[[other, 0]]
    sound = path.read_bytes()
    path.write_bytes(ids.tobytes())
    correct_hashes(output, path, None)
    assert any("is the first that differs" in one for one in verify(str(output)).problems)
    path.write_bytes(sound)
    correct_hashes(output, path, None)
    assert verify(str(output)).problems == ()
    path = sorted((output / "packed" / "pieces").iterdir())[0]
    pieces, true_content = PiecesFile(str(path)).read(), PiecesFile(str(path)).hash_content()
    with path.open("wb") as file:
        writer = PiecesWriter(file, LENGTH, "zstd")
        writer.write(pieces._replace(starts=pieces.starts + 1))
        content = writer.close()
    correct_hashes(output, path, content)
    assert (
        f"packed/pieces/{path.name}: its inputs give other content than was committed" in verify(str(output)).problems
    )
    # Of another version of pyarrow, other bytes are no fault; other rows are.
    monkeypatch.setattr(shards_made_again, "_describe_versions", lambda *_: "pyarrow 1 then, 2 now")
    for starts, found in ((pieces.starts, ()), (pieces.starts + 1, ("its rows are not those that follow",))):
        with path.open("wb") as file:
            writer = PiecesWriter(file, LENGTH, "none")
            writer.write(pieces._replace(starts=starts))
            writer.close()
        correct_hashes(output, path, true_content)
        told = verify(str(output)).problems
        assert (
            [one.startswith(f"packed/pieces/{path.name}: {found[0]}") for one in told] == [True] if found else not told
        )
    path.write_bytes(b"no pieces")
    correct_hashes(output, path, None)
    assert any(one.startswith(f"packed/pieces/{path.name}: ") for one in verify(str(output)).problems)


def test_only_what_changes_is_made_again(folder, tmp_path):
    place = Path(shutil.copytree(folder, tmp_path / "corpus"))
    path, output = place / "build.toml", place / "out"
    before = tree(output)
    path.write_text(path.read_text().replace('strategy = "best-fit"', 'strategy = "one"'))
    with pytest.raises(ConfigError, match=r'pack.strategy was "best-fit", now "one"\n.*packed again.*--replace pack'):
        run(path, output)
    again = Build(load_config(str(path)), output=str(output), replace="pack")
    again.run()
    assert again.made == ["packed", "build"]
    after = tree(output)
    assert {name for name in before if before[name] != after.get(name)} <= {
        *(name for name in before if name.startswith("packed/")),
        *("manifest.json", "README.md"),
    }
    path.write_text(path.read_text().partition("[pack]")[0])
    with pytest.raises(ConfigError, match=r"pack\.length was 64, now not set"):
        run(path, output)


def test_settings_that_neither_side_has_are_not_told():
    text = 'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    was, now = (parse_config(text + more, "b.toml").stage_configs() for more in ("", "[pack]\nlength = 64\n"))
    told = describe_changed_settings(was, now)
    assert "pack.length was not set, now 64" in told
    assert not [line for line in told if "pack.padding" in line]


def test_a_document_that_may_not_be_cut_fails_the_build_by_name(tmp_path):
    for shuffle in ("", "[shuffle]\nseed = 1"):
        path = build_file(tmp_path, corpus(tmp_path), settings(more='cut = "never"', shuffle=shuffle))
        with pytest.raises(ConfigError, match=r'cut = "never": document \d+ of shard .* ids, a row has 64\. Raise'):
            run(path, tmp_path / f"out{len(shuffle)}")
    path.write_text(path.read_text().replace("length = 64", "length = 4000"))
    run(path, tmp_path / "long")
    assert read_rows(tmp_path / "long")[0].totals.cut == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('strategy = "one"', "pack.strategy is for packed rows, and pack.length is not set"),
        ("length = 0", "pack.length = 0: expected a whole number from 1 to"),
        ('length = 8\nstrategy = "concatenate"\ncut = "never"', 'pack.cut = "never": strategy = "concatenate" cuts'),
        ('length = 8\nstrategy = "best"', 'pack.strategy = "best": expected'),
        ('length = 8\nformats = ["bin"]', "pack.formats"),
    ],
)
def test_wrong_settings_are_named(more, message):
    text = f'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[pack]\n{more}\n'
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "build.toml")
    assert message in str(caught.value)


def test_padding_is_a_special_token_of_the_tokenizer(tmp_path, folder):
    """It is refused before any work."""
    imported = f'[tokenizer]\nfrom = "{folder / "out"}"\n'
    for told in (settings, lambda **more: settings(**more).replace("[learn]\nvocab_size = 300\n", imported)):
        path = build_file(tmp_path, corpus(tmp_path), told(more='padding = "<|pad|>"'))
        with pytest.raises(
            ConfigError,
            match=r"build\.toml:\d+: pack\.padding = \"<\|pad\|>\": is not a special token of the .* it has \"<\|end",
        ):
            run(path, tmp_path / "out")
        path = build_file(tmp_path, corpus(tmp_path), told(append="[]"))
        with pytest.raises(
            ConfigError, match=r"build\.toml:\d+: pack\.padding is missing: .* Name one .* it has \"<\|end"
        ):
            run(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        path = build_file(tmp_path, corpus(tmp_path), told(append="[]", more='padding = "<|endoftext|>"'))
        assert parse_config(path.read_text(), "build.toml").pack.padding == "<|endoftext|>"


@pytest.mark.parametrize("strategy", ["best-fit", "concatenate"])
def test_the_loader_gives_rows_and_the_bounds_of_their_documents(tmp_path, strategy):
    path = build_file(tmp_path, corpus(tmp_path), settings(strategy, more='last = "keep"'))
    run(path, tmp_path / "out")
    _, _, rows = read_rows(tmp_path / "out")
    expected = [(ids, pieces) for split, ids, pieces, _ in rows if split == "train" and len(ids) == LENGTH]
    loader = Loader(tmp_path / "out" / "packed", length=LENGTH, batch_size=3, shuffle=False)
    assert loader.num_rows == len(expected)
    seen = 0
    for batch in loader:
        own = expected[seen : seen + len(batch.tokens)]
        assert batch.tokens.tolist() == [ids for ids, _ in own]
        bounds = []
        for row, (_, pieces) in enumerate(own):
            bounds += [row * LENGTH + end for end in itertools.accumulate([0, *(piece[3] for piece in pieces)])]
        assert batch.cu_seqlens.tolist() == sorted({*bounds, len(own) * LENGTH, *range(0, len(own) * LENGTH, LENGTH)})
        seen += len(own)
    assert seen == len(expected)
    with pytest.raises(ConfigError, match=r"rows .* have 64 ids: give that length"):
        Loader(tmp_path / "out" / "packed", length=32, batch_size=3)


def test_commands_know_the_rows(folder, output, tmp_path):
    done = command("show", output)
    assert done.returncode == 0, done.stderr
    assert "are packed, too" in done.stdout
    done = command("build", folder / "build.toml", "--output", output)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"(?m)^rows       .*/packed  \([\d,]+ of 64 ids\)\n +\d+\.\d+ % padding; \d+ documents", done.stdout
    )
    done = command("show", output / "packed")
    assert done.returncode == 0, done.stderr
    assert " rows, " in done.stdout
    assert re.match(r"shard +rows +tokens +stored\n", done.stdout)
    done = command("convert", output / "packed", "--to", "nanogpt", "-o", tmp_path / "rows")
    assert done.returncode == 0, done.stderr
    for split in ("train", "validation"):
        here, there = (tokcore.open_shards(place, split) for place in (output / "packed", tmp_path / "rows"))
        assert [ids.tolist() for ids in here] == [ids.tolist() for ids in there]
    loader = Loader(tmp_path / "rows", length=LENGTH, batch_size=4, shuffle=False)
    assert loader[0].cu_seqlens.tolist() == Loader(output / "packed", LENGTH, 4, shuffle=False)[0].cu_seqlens.tolist()
