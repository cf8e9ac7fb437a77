"""Seeded faults, each of which verification must find; sound outputs in between, which it must pass.

A failure names its seed; `fault(forger, seed)` makes exactly that fault again.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.builds import build_file, jsonl, run, texts, write
from support.examples import scaled
from support.forging import STAGES, Forger, changed_leaf, flipped

from tokcore.formats.megatron import BIN, IDX
from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.check.verify import Report, verify
from tokcore_pipelines.local.run_options import RunOptions

NUM_FAULTS = scaled(300)
SOURCES = """
[[source]]
lang = "en"
files = "en-*.jsonl"
id = "id"
[[source]]
lang = "ru"
files = "ru.jsonl.zst"
"""
SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 290
[shards]
target_tokens = 500
validation = 0.2
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    for part in (0, 1):
        write(
            folder / f"en-{part}.jsonl",
            jsonl([{"id": f"{part}-{i}", "text": t} for i, t in enumerate(texts("en", 9, part))]),
        )
    write(folder / "ru.jsonl.zst", jsonl([{"text": text} for text in texts("ru", 6)]) + b"{\n")
    run(build_file(folder, SOURCES, SETTINGS, build="max_rejected = 1"), folder / "out")
    return folder


@pytest.fixture
def forger(corpus: Path, tmp_path: Path) -> Forger:
    return Forger(Path(shutil.copytree(corpus / "out", tmp_path / "out")))


def verified(forger: Forger, root: str = "") -> Report:
    return verify(str(forger.output), root=root, options=RunOptions(here=True))


# ---------------------------------------------------------------------------------------------------- faults, by kind
# Each makes a fault and says what it did, with "root" in front if only a root kept elsewhere can reveal it.


def flip(forger: Forger, chance: random.Random) -> str:
    path = chance.choice([p for p in forger.files if forger.sound[p]])
    forger.write(path, flipped(forger.sound[path], chance))
    return str(path)


def truncate(forger: Forger, chance: random.Random) -> str:
    path = chance.choice([p for p in forger.files if forger.sound[p]])
    size = chance.randrange(len(forger.sound[path]))
    forger.write(path, forger.sound[path][:size])
    return f"{path} at {size}"


def extend(forger: Forger, chance: random.Random) -> str:
    path = chance.choice(forger.files)
    forger.write(path, forger.sound[path] + chance.choice([b"\0", b"\n", b"PAR1"]))
    return str(path)


def lose_file(forger: Forger, chance: random.Random) -> str:
    path = chance.choice(forger.files)
    forger.remove(path)
    return str(path)


def extra_file(forger: Forger, chance: random.Random) -> str:
    folder = chance.choice(sorted({p.parent for p in forger.files}))
    path = folder / chance.choice(["train-00000-00099.arrow", "extra", ".hidden", "deep/er/run.json", "manifest.json~"])
    forger.write(path, chance.choice([b"", b"{}"]))
    return str(path)


def swap_shards(forger: Forger, chance: random.Random) -> str:
    suffix = chance.choice([".arrow", BIN, IDX])
    paths = [p for p in forger.files if "shards" in p.parts and p.name.endswith(suffix)]
    one, other = chance.sample(paths, 2)
    if forger.sound[one] == forger.sound[other]:  # indexes of equal shards
        return flip(forger, chance)
    forger.write(one, forger.sound[other])
    forger.write(other, forger.sound[one])
    return f"{one}, {other}"


def edit_manifest(forger: Forger, chance: random.Random) -> str:
    stage = chance.choice(["", *STAGES])
    done = changed_leaf(forger.manifests[stage], chance)
    forger.write_manifests(chain=False, contents=False)
    return f"{stage}: {done}"


def edit_manifest_and_chain(forger: Forger, chance: random.Random) -> str:
    """Correct everything that names the manifest: the root reveals it, if no figure contradicts another."""
    stage = chance.choice(STAGES)
    done = changed_leaf(forger.manifests[stage], chance)
    try:
        forger.write_manifests(chain=True, contents=True)
    except Exception:  # it is no manifest any more: what is written by now is the fault
        forger.write_manifests(chain=False, contents=False)
    return f"root {stage}: {done}"


def edit_figure(forger: Forger, chance: random.Random) -> str:
    """A figure that follows from others, with everything hashed again."""
    shards, counts = forger.manifests["shards"], forger.manifests["counts"]
    entry = chance.choice(shards["files"])
    holder, key = chance.choice(
        [
            (shards["totals"], "documents_digest"),
            (shards["totals"], "tokens"),
            (shards["totals"], "shards"),
            (shards["totals"], "text_bytes"),
            (shards["totals"]["records"], "documents"),
            (shards["totals"]["records"], "read"),
            (shards["totals"]["files"], "planned"),
            (shards["languages"]["ru"], "tokens"),
            (shards["languages"]["en"], "documents"),
            (shards["languages"]["en"], "bytes_per_token"),
            (shards["config"], "target_tokens"),
            (entry["about"], chance.choice(["documents", "tokens", "max_token_id", "lang", "split", "shard"])),
            (entry, "content_sha256"),
            (counts["languages"]["en"], chance.choice(["rows", "pretokens", "documents", "text_bytes"])),
            (counts["files"][0]["about"], chance.choice(["rows", "pretokens", "pretoken_bytes", "lang"])),
            (counts["files"][1], "content_sha256"),
            (forger.manifests["tokenizer"]["totals"], chance.choice(["fingerprint", "merges", "vocab_size"])),
            (forger.manifests["plan"]["totals"], chance.choice(["items", "files", "stored_bytes", "partitions"])),
            (forger.manifests["plan"]["files"][0], "content_sha256"),
            (forger.manifests["rejected"]["totals"]["records"], "read"),
        ]
    )
    before = holder[key]
    holder[key] = before + 1 if isinstance(before, int) else before[:-1] + ("0" if before[-1:] != "0" else "1")
    forger.write_manifests(chain=True, contents=True)
    return f"{key}: {before!r} became {holder[key]!r}"


def edit_text_file(forger: Forger, chance: random.Random) -> str:
    """A small file edited with care, and hashed again."""
    path, old, new = chance.choice(
        [
            ("rejected/files.jsonl", b'"documents":9', b'"documents":8'),
            ("rejected/files.jsonl", b'"bad_json":1', b'"bad_json":2'),
            ("rejected/rejected.jsonl", b"bad_json", b"bad_text"),
            ("rejected/rejected.jsonl", b"{", b""),
            ("plan/files.jsonl", b'"size_bytes":', b'"size_bytes":1'),
            ("plan/files.jsonl", b"en-0", b"en-1"),
            ("tokenizer/tokcore.json", b'"counts":[', b'"counts":[1'),
            ("tokenizer/tokcore.json", b"endoftext", b"endoftexT"),
            ("tokenizer/tokenizer.json", b"endoftext", b"endoftexT"),
            ("tokenizer/merges.txt", b"\n", b"\n\n"),
            ("tokenizer/tokenizer.tiktoken", b" 7\n", b" 8\n"),
            ("tokenizer/vocab.json", b": 255", b": 256"),
        ]
    )
    data = forger.sound[forger.output / path]
    assert old in data, path
    forger.write(forger.output / path, data.replace(old, new, 1))
    depth = chance.choice([1, 2, 3])
    forger.hash_again(depth)
    # How often a pair was merged decides no id: nothing else in a build says it.
    root = "root " if old.startswith(b'"counts"') and depth == 3 else ""
    return f"{root}{path}: {old!r} became {new!r}, hashed again to depth {depth}"


def edit_documents(forger: Forger, chance: random.Random) -> str:
    """What a broken writer, or an editor of shards, does to documents, in one format or in both."""
    name = chance.choice(forger.shard_names())
    formats = chance.choice([["arrow"], ["megatron"], ["arrow", "megatron"], ["arrow", "megatron"]])
    batch = forger.read_arrow(f"arrow/{name}.arrow")
    num = batch.num_documents
    row = chance.randrange(num)
    rows = list(range(num))
    end = int(batch.offsets[row + 1])
    tokens = batch.tokens.copy()
    fingerprint, root = "", ""
    kind = chance.choice(
        [
            "lost",
            "doubled",
            "reordered",
            "token",
            "end",
            "cut",
            "tokenizer",
            "id",
            "lang",
            "source",
            "ordinal",
            "text",
        ]
    )
    if kind == "lost":
        rows.remove(row)
        edited = batch.take(rows)
    elif kind == "doubled":
        edited = batch.take([*rows[: row + 1], row, *rows[row + 1 :]])
    elif kind == "reordered":
        rows[0], rows[-1] = rows[-1], rows[0]
        if num == 1:
            rows = [0, 0]
        edited = batch.take(rows)
    elif kind == "token":
        tokens[end - 2] = (tokens[end - 2] + chance.choice([1, 7, 300])) % 512
        edited = batch._replace(tokens=tokens)
    elif kind == "end":
        edited = without(batch, end - 1)
    elif kind == "cut":
        edited = without(batch, end - 2)
    elif kind == "tokenizer":
        fingerprint = "ab" * 32
        edited = batch
    elif kind == "text":  # of the same length and of ordinary ids: only the digests reveal it
        tokens[end - 2] = tokens[end - 2] ^ 1
        edited = batch._replace(tokens=tokens)
        root = "root "
    else:
        if kind == "id" and not batch.ids[row]:
            kind = "lang"
        if kind == "ordinal":
            ordinals = batch.ordinals.copy()
            ordinals[row] += 1 << 40
            edited = batch._replace(ordinals=ordinals)
        else:
            values = list(getattr(batch, kind + "s"))
            values[row] = {"id": "other", "lang": "xx", "source": "ru.jsonl.zst"}[kind]
            if values[row] == getattr(batch, kind + "s")[row]:
                values[row] = "en-0.jsonl"
            edited = batch._replace(**{kind + "s": values if kind == "id" else label_strings(values)})
            root = "root " if kind == "id" else ""
    forger.write_shard(name, edited, formats, fingerprint)
    depth = chance.choice([1, 2, 3, 3, 4] if kind in ("token", "text") and len(formats) == 2 else [0, 1, 2, 3, 3])
    if depth:
        forger.hash_again(depth)
    told = root if depth >= (4 if kind == "text" else 3) and len(formats) == 2 else ""
    told = "root " if depth == 4 else told
    return f"{told}{name} in {formats}: document {row}: {kind}, hashed again to depth {depth}"


def without(batch: TokenBatch, place: int) -> TokenBatch:
    """The documents without the token at that place."""
    offsets = batch.offsets - (batch.offsets > place)
    return batch._replace(tokens=np.delete(batch.tokens, place), offsets=offsets)


def wrong_dtype(forger: Forger, chance: random.Random) -> str:
    name = chance.choice(forger.shard_names())
    if chance.random() < 0.5:
        path = forger.output / "shards" / "megatron" / f"{name}_text_document.idx"
        data = bytearray(forger.sound[path])
        data[17] = chance.choice([1, 2, 3, 5, 8])
        done = f"dtype code {data[17]}"
        forger.write(path, bytes(data))
    else:
        path = forger.output / "shards" / "arrow" / f"{name}.arrow"
        table = pa.ipc.open_file(pa.py_buffer(forger.sound[path])).read_all()
        kind = chance.choice(
            [pa.list_(pa.int64()), pa.list_(pa.uint32()), pa.list_(pa.int16()), pa.large_list(pa.int32())]
        )
        table = table.set_column(0, "tokens", table.column(0).cast(kind)).replace_schema_metadata(table.schema.metadata)
        file = pa.BufferOutputStream()
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        forger.write(path, file.getvalue().to_pybytes())
        done = f"{kind}"
    depth = chance.choice([0, 1, 2])
    if depth:
        forger.hash_again(depth)
    return f"{path}: {done}, hashed again to depth {depth}"


KINDS: list[Callable[[Forger, random.Random], str]] = [
    flip,
    flip,
    truncate,
    extend,
    lose_file,
    extra_file,
    swap_shards,
    edit_manifest,
    edit_manifest_and_chain,
    edit_figure,
    edit_text_file,
    edit_documents,
    edit_documents,
    edit_documents,
    wrong_dtype,
]


def fault(forger: Forger, seed: int) -> tuple[str, str]:
    """Make the fault of that seed; (its kind, what was done)."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    done = kind(forger, chance)
    if forger.is_sound:
        return "flip", flip(forger, chance)
    return kind.__name__, done


def harmless(forger: Forger, seed: int) -> None:
    """Change what no manifest covers: run.json, unfinished work."""
    chance = random.Random(seed)
    stage = chance.choice(["", *STAGES])
    forger.write(forger.output / stage / "run.json", b"?")
    forger.write(forger.output / "_attempts" / f"{stage or 'build'}-0123" / "files" / "piece", b"somebody's work")


def test_every_fault_is_found_and_no_sound_output_blamed(forger):
    root = forger.manifests[""]["root"]
    kinds: Counter[str] = Counter()
    missed = []
    for seed in range(NUM_FAULTS):
        kind, done = fault(forger, seed)
        kinds[kind] += 1
        if not verified(forger, root if done.startswith("root ") else "").problems:
            missed.append(f"seed {seed}, {kind}: {done}")
        forger.restore()
        if seed % 25 == 0:
            harmless(forger, seed)
            assert verified(forger, root).problems == (), f"seed {seed}: after {kind}: {done}"
            forger.restore()
    assert not missed
    assert set(kinds) == {kind.__name__ for kind in KINDS}
