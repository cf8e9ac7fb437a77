"""Whole pipelines on JSON lines: compressed text to token shards, and to a tokenizer and token shards.

    python tests/benchmarks/pipeline.py [--corpus FOLDER] [--vocab FILE] [--limit-mb 8] [--rounds 3]

Two processes each; CPU seconds of the whole process tree, imports and start-up included. Ours are the stages of
`tokcore build`, writing Arrow shards; the script is the shortest one can write by hand around zstandard, orjson, a
library and pyarrow, and writes the same (int32, zstd 1). The number of tokens is compared. What a build of one document
takes is reported apart and taken off in a row of its own: Beam's start-up, which a long build does not notice.
"""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import texts
import zstandard
from measuring import Options, Result, Table, interleaved, measured, program, timed, version
from peers import bpe_trainer, untrained_tokenizer

from tokcore import Tokenizer
from tokcore.formats.huggingface import tokenizer_json
from tokcore.patterns import PATTERNS

NUM_FILES = 16
VOCAB_SIZE = 32_768


def write_corpus(options: Options) -> float:
    """The three texts, shuffled together, as files of JSON lines and as the peers need them; megabytes of text."""
    paths = texts.prepare(options.corpus, options.work, options.limit_mb)
    documents = [text for path in paths.values() for text in texts.load(path).to_pylist()]
    order = np.random.default_rng(1).permutation(len(documents))
    folder = options.work / "input"
    folder.mkdir()
    for number in range(NUM_FILES):
        lines = [
            orjson.dumps({"id": str(i), "text": documents[i], "lang": "x"}) for i in order[number::NUM_FILES].tolist()
        ]
        _write_lines(folder / f"{number:02d}.jsonl.zst", lines)
    (options.work / "empty").mkdir()
    _write_lines(options.work / "empty" / "00.jsonl.zst", [orjson.dumps({"id": "0", "text": "one", "lang": "x"})])
    ranks = texts.rank_file(options.vocab, options.work)
    spec = Tokenizer.from_tiktoken(ranks, pattern="cl100k").spec
    (options.work / "tokenizer.json").write_bytes(tokenizer_json(spec))
    return sum(len(text.encode()) for text in documents) / 1e6


def _write_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(zstandard.ZstdCompressor(3).compress(b"\n".join(lines) + b"\n"))


def tokcore(work: str, source: str, learn: bool, stages: Sequence[str] = ("build",)) -> Result:
    """Our stages, with the published ranks or with a tokenizer of the build's own; source: a folder of inputs."""
    folder = Path(work)
    output = _fresh(folder / "tokcore-out")
    if learn:
        tokenizer = f"[learn]\nvocab_size = {VOCAB_SIZE}\nallow_smaller = true\n[special]\n"
    else:
        tokenizer = f'[tokenizer]\nfrom = "{folder}/cl100k_base.tiktoken"\npattern = "cl100k"\n'
    build = folder / "build.toml"
    build.write_text(
        f'version = 1\n[build]\noutput = "{output}"\n'
        f'[[source]]\nlang_field = "lang"\nfiles = "{folder}/{source}/*.jsonl.zst"\nid = "id"\n'
        f'[shards]\nformats = ["arrow"]\n[encode]\nappend = []\n{tokenizer}'
    )
    with timed() as cost:
        for stage in stages:
            command = [sys.executable, "-c", "from pipelines.cli import main; main()", stage, str(build)]
            subprocess.run([*command, "--workers", "2"], check=True, stdout=subprocess.DEVNULL)
    return _done(cost, sum(_arrow_tokens(output / "shards" / "arrow")))


def _arrow_tokens(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*.arrow"):
        with pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                column = reader.get_batch(number).column("tokens")
                yield len(column.flatten())


def script(work: str, encoder: str) -> Result:
    """The script by hand, around one library."""
    folder = Path(work)
    output = _fresh(folder / "script-out")
    output.mkdir()
    jobs = sorted((folder / "input").glob("*.jsonl.zst"))
    with timed() as cost, multiprocessing.get_context("spawn").Pool(2, _load, (encoder, work)) as pool:
        tokens = sum(pool.imap_unordered(partial(_encode_file, output), jobs))
        pool.close()
        pool.join()
    return _done(cost, tokens)


_encoder: Any = None


def _load(encoder: str, work: str) -> None:
    global _encoder
    if encoder == "fastokens":
        import fastokens

        tokenizer = fastokens.Tokenizer.from_tiktoken(f"{work}/cl100k_base.tiktoken", encoding="cl100k_base")
        _encoder = partial(tokenizer.encode_batch_flat, split_special_tokens=True)
    else:
        import tokenizers

        slow = tokenizers.Tokenizer.from_file(f"{work}/tokenizer.json")

        def encode(documents: list[str]) -> tuple[bytes, bytes]:
            ids = [one.ids for one in slow.encode_batch_fast(documents, add_special_tokens=False)]
            offsets = np.concatenate([[0], np.cumsum([len(one) for one in ids])]).astype(np.int64)
            return np.concatenate([np.array(one, np.int32) for one in ids]).tobytes(), offsets.tobytes()

        _encoder = encode


def _encode_file(output: Path, path: Path) -> int:
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    records = [orjson.loads(line) for line in data.splitlines()]
    flat, offsets = _encoder([record["text"] for record in records])
    ids, starts = np.frombuffer(flat, np.int32), np.frombuffer(offsets, np.int64).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(starts), pa.array(ids))
    names = pa.array([record["id"] for record in records])
    batch = pa.record_batch([tokens, names], ["tokens", "id"])
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_file(str(output / f"{path.name}.arrow"), batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return len(ids)


def datatrove(work: str, tokenizer: str = "tokenizer.json") -> Result:
    """Its tokenizing stage; shuffling is off."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    folder = Path(work)
    output = _fresh(folder / "datatrove-out")
    with timed() as cost:
        LocalPipelineExecutor(
            [
                JsonlReader(str(folder / "input"), glob_pattern="*.jsonl.zst"),
                DocumentTokenizer(str(output), str(folder / tokenizer), shuffle_documents=False, seed=1),
            ],
            tasks=2,
            workers=2,
            start_method="spawn",  # children of ours, so that their time is counted
            logging_dir=str(_fresh(folder / "datatrove-log")),
        ).run()
    sizes = Tokenizer.from_huggingface(folder / tokenizer).vocab_size
    width = 2 if sizes < 65_536 else 4
    return _done(cost, sum(path.stat().st_size for path in output.rglob("*.ds")) // width)


def learn_tokenizers(work: str) -> Result:
    """Train with tokenizers, then encode with datatrove."""
    with timed() as cost:
        tokenizer = untrained_tokenizer("cl100k")
        tokenizer.train_from_iterator(_texts(Path(work)), bpe_trainer(VOCAB_SIZE))
        tokenizer.save(f"{work}/learned.json")
    rest = datatrove(work, "learned.json")
    return rest | {"cpu": cost.cpu + rest["cpu"], "wall": cost.wall + rest["wall"]}


def learn_rustbpe(work: str) -> Result:
    """Train with rustbpe; encode with fastokens as the script does, whose cost is added by the caller."""
    import rustbpe

    with timed() as cost:
        rustbpe.Tokenizer().train_from_iterator(_texts(Path(work)), VOCAB_SIZE, pattern=PATTERNS["cl100k"])
    return _done(cost, 0)


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted((folder / "input").glob("*.jsonl.zst")):
        with path.open("rb") as file:
            data = zstandard.ZstdDecompressor().stream_reader(file).read()
        for line in data.splitlines():
            yield orjson.loads(line)["text"]


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _done(cost: Any, tokens: int) -> Result:
    return {"cpu": cost.cpu, "wall": cost.wall, "tokens": tokens}


def tables(options: Options) -> list[Table]:
    """Tokenizing; counting and learning; all of it."""
    size = write_corpus(options)
    work = str(options.work)

    def ours(source: str, learn: bool, *stages: str) -> Callable[[], Result]:
        return lambda: measured(tokcore, 2, work=work, source=source, learn=learn, stages=stages or ("build",))

    fast = {"fastokens": "script, fastokens"} if version("fastokens") else {}
    jobs: dict[str, Callable[[], Result]] = {
        "tokcore": ours("input", False),
        "tokcore, empty build": ours("empty", False),
        "tokcore, count and learn": ours("input", True, "count", "learn"),
        "tokcore, count and learn, empty": ours("empty", True, "count", "learn"),
        "tokcore, whole build": ours("input", True),
        "tokcore, whole build, empty": ours("empty", True),
    }
    jobs |= {label: lambda name=name: measured(script, 2, work=work, encoder=name) for name, label in fast.items()}
    if version("rustbpe"):
        jobs["rustbpe"] = lambda: measured(learn_rustbpe, 1, work=work)
    results = interleaved(options.rounds, jobs)
    slow: dict[str, Callable[[], Result]] = {}
    if version("datatrove"):
        slow["datatrove"] = lambda: measured(datatrove, 2, work=work)
        slow["tokenizers, then datatrove"] = lambda: measured(learn_tokenizers, 2, work=work)
    results |= interleaved(1, slow)
    if "rustbpe" in results and "script, fastokens" in results:
        results["rustbpe, then the script"] = _sum(results["rustbpe"], results["script, fastokens"])
    note = f"{size:.1f} MB of text, {NUM_FILES} files, two processes; CPU seconds of the whole process tree."
    return [
        _table(
            "JSON lines to token shards",
            note,
            size,
            results,
            "tokcore",
            "tokcore, empty build",
            ("script, fastokens", "datatrove"),
        ),
        _table(
            "Count and learn from JSON lines",
            note,
            size,
            results,
            "tokcore, count and learn",
            "tokcore, count and learn, empty",
            ("rustbpe",),
        ),
        _table(
            "JSON lines to tokenizer and token shards",
            note,
            size,
            results,
            "tokcore, whole build",
            "tokcore, whole build, empty",
            ("rustbpe, then the script", "tokenizers, then datatrove"),
        ),
    ]


def _sum(first: Result, second: Result) -> Result:
    if "error" in first or "error" in second:
        return first if "error" in first else second
    return second | {name: first[name] + second[name] for name in ("cpu", "wall")}


def _table(
    title: str, note: str, size: float, results: dict[str, Result], ours: str, empty: str, others: Sequence[str]
) -> Table:
    whole = results[ours]
    if "error" not in whole and "error" not in results[empty]:
        above = {name: max(whole[name] - results[empty][name], 1e-3) for name in ("cpu", "wall")}
        results = results | {f"{ours}, start-up taken off": whole | above}
    rows: list[list[object]] = []
    for name in (ours, empty, f"{ours}, start-up taken off", *others):
        result = results.get(name)
        if result is None or "error" in result:
            rows.append([name, *[None] * 6, result["error"] if result else "not installed"])
            continue
        speeds = (
            [None, None, None]
            if name == empty
            else [
                size / result["cpu"],
                result["cpu"] / whole["cpu"],
                result["cpu"] / results[f"{ours}, start-up taken off"]["cpu"],
            ]
        )
        rows.append([name, result["cpu"], result["wall"], *speeds, result["tokens"] or None])
    head = ["", "CPU s", "s by the clock", "MB per CPU second", "tokcore is faster by", "without start-up by", "tokens"]
    return Table(title, head, rows, note)


if __name__ == "__main__":
    program(__doc__, tables)
