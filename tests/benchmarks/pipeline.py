"""Benchmark whole pipelines on JSON lines: compressed text to token shards, and to a tokenizer and token shards.

    python tests/benchmarks/pipeline.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

Every pipeline has two processes. The CPU seconds are those of its whole process tree, imports and start-up included.
Ours are the stages of `tokcore build`, writing Arrow shards. The script is the shortest that can be written by hand
around zstandard, orjson, a library and pyarrow. It writes the same (int32, zstd 1), but without hashes and ledgers. All
use the same tokenizer.json of 32,768 tokens, learned from the corpus before anything is measured. Their ids are
compared. With GPT-2's splits there is a trainer that is faster than rustbpe, gigabpe, so those builds have a table of
their own; it learns from lines, so its merges, and the ids, differ a little.

A long build does not notice fixed costs: start-up, Beam's where it is used, and the tokenizer's files. So each pipeline
also builds from two files of one document each, one per process; ours with Beam if it makes the large build with it.
That cost is reported, and columns of their own subtract it, for all pipelines alike. The floor is the script without
its tokenizer: it reads each file's ids, made before, and writes them.
"""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from tokcore.text.byte_alphabet import to_printable_tokens
from tokcore.text.patterns import DEFAULT_PATTERN, PATTERNS

NUM_FILES = 16
NUM_WORKERS = 2
VOCAB_SIZE = 32_768
# What reading, compressing and writing cost in any case, with common libraries; not a peer.
FLOOR = "floor: the script without a tokenizer"


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
    for name in ("00", "01"):  # one per process
        one = orjson.dumps({"id": name, "text": "one", "lang": "x"})
        _write_lines(options.work / "empty" / f"{name}.jsonl.zst", [one])
    tokcore(str(options.work), "input", True, ("count", "learn"))
    shutil.copy(options.work / "tokcore-out" / "tokenizer" / "tokenizer.json", options.work)
    tokenizer = Tokenizer.from_huggingface(options.work / "tokenizer.json")
    for path in options.work.glob("*/*.jsonl.zst"):
        lists = tokenizer.encode_batch([record["text"] for record in _records(path)])
        np.savez(_ids_of(path), ids=lists.values.to_numpy(), offsets=lists.offsets.to_numpy().astype(np.int64))
    return sum(len(text.encode()) for text in documents) / 1e6


def _write_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(zstandard.ZstdCompressor(3).compress(b"\n".join(lines) + b"\n"))


def _ids_of(path: Path) -> Path:
    return path.with_suffix(".npz")


def tokcore(
    work: str, source: str, learn: bool, stages: Sequence[str] = ("build",), pattern: str = DEFAULT_PATTERN
) -> Result:
    """Our stages, with the work folder's tokenizer or one that the build learns; source: a folder of inputs."""
    folder = Path(work)
    output = _fresh(folder / "tokcore-out")
    if learn:
        tokenizer = f"[learn]\nvocab_size = {VOCAB_SIZE}\nallow_smaller = true\n[special]\n"
        tokenizer += f'[pretokenize]\npattern = "{pattern}"\n'
    else:
        tokenizer = f'[tokenizer]\nfrom = "{folder}/tokenizer.json"\n'
    build = folder / "build.toml"
    build.write_text(
        f'version = 1\n[build]\noutput = "{output}"\n'
        f'[[source]]\nlang_field = "lang"\nfiles = "{folder}/{source}/*.jsonl.zst"\nid = "id"\n'
        f'[shards]\nformats = ["arrow"]\n[encode]\nappend = []\n{tokenizer}'
        f"[plan]\nrange_bytes = {1 if source == 'empty' else 1 << 26}\n"  # one item per file there, else the default
    )
    with timed() as cost:
        for stage in stages:
            command = [sys.executable, "-c", "from tokcore_pipelines.cli import main; main()", stage, str(build)]
            subprocess.run([*command, f"--workers={NUM_WORKERS}"], check=True, stdout=subprocess.DEVNULL)
    return _done(cost, _arrow_ids(output / "shards" / "arrow"))


def _arrow_ids(folder: Path) -> Iterator[np.ndarray[Any, Any]]:
    for path in folder.rglob("*.arrow"):
        with pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).column("tokens").flatten().to_numpy()


def script(work: str, source: str, encoder: str) -> Result:
    """The script by hand, around one library."""
    folder = Path(work)
    output = _fresh(folder / "script-out")
    output.mkdir()
    jobs = sorted((folder / source).glob("*.jsonl.zst"))
    with timed() as cost, multiprocessing.get_context("spawn").Pool(2, _load, (encoder, work)) as pool:
        for _ in pool.imap_unordered(partial(_encode_file, output), jobs):
            pass
        pool.close()
        pool.join()
    return _done(cost, _arrow_ids(output))


_encoder: Any = None


def _load(encoder: str, work: str) -> None:
    global _encoder
    if encoder == "fastokens":
        import fastokens

        _encoder = fastokens.Tokenizer.from_file(f"{work}/tokenizer.json").encode_batch_flat
    elif encoder == "gigatoken":
        import gigatoken

        quick = gigatoken.Tokenizer.from_json(Path(f"{work}/gigabpe.json").read_text())

        def encode_quickly(documents: list[str]) -> tuple[bytes, bytes]:
            return _join([np.asarray(one, np.int32) for one in quick.encode_batch(documents, parallel=False)])

        _encoder = encode_quickly
    elif encoder != "none":
        import tokenizers

        slow = tokenizers.Tokenizer.from_file(f"{work}/tokenizer.json")

        def encode(documents: list[str]) -> tuple[bytes, bytes]:
            ids = [one.ids for one in slow.encode_batch_fast(documents, add_special_tokens=False)]
            return _join([np.array(one, np.int32) for one in ids])

        _encoder = encode


def _join(ids: list[np.ndarray[Any, Any]]) -> tuple[bytes, bytes]:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in ids])]).astype(np.int64)
    return np.concatenate(ids).tobytes(), offsets.tobytes()


def _encode_file(output: Path, path: Path) -> None:
    records = _records(path)
    texts = [record["text"] for record in records]
    if _encoder is None:
        made = np.load(_ids_of(path))
        ids, starts = made["ids"], made["offsets"].astype(np.int32)
    else:
        flat, offsets = _encoder(texts)
        ids, starts = np.frombuffer(flat, np.int32), np.frombuffer(offsets, np.int64).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(starts), pa.array(ids))
    names = pa.array([record["id"] for record in records])
    batch = pa.record_batch([tokens, names], ["tokens", "id"])
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_file(str(output / f"{path.name}.arrow"), batch.schema, options=options) as writer:
        writer.write_batch(batch)


def _records(path: Path) -> list[dict[str, str]]:
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    return [orjson.loads(line) for line in data.splitlines()]


def datatrove(work: str, source: str, tokenizer: str = "tokenizer.json") -> Result:
    """Its tokenizing stage; shuffling is off."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    folder = Path(work)
    output = _fresh(folder / "datatrove-out")
    with timed() as cost:
        LocalPipelineExecutor(
            [
                JsonlReader(str(folder / source), glob_pattern="*.jsonl.zst"),
                DocumentTokenizer(str(output), str(folder / tokenizer), shuffle_documents=False, seed=1),
            ],
            tasks=2,
            workers=2,
            start_method="spawn",  # children of ours, so that their time is counted
            logging_dir=str(_fresh(folder / "datatrove-log")),
        ).run()
    wide = Tokenizer.from_huggingface(folder / tokenizer).vocab_size >= 65_536
    return _done(cost, (np.fromfile(path, np.int32 if wide else np.uint16) for path in output.rglob("*.ds")))


def learn_tokenizers(work: str, source: str) -> Result:
    """Train with tokenizers, then encode with datatrove."""
    with timed() as cost:
        tokenizer = untrained_tokenizer("cl100k")
        tokenizer.train_from_iterator(_texts(Path(work) / source), bpe_trainer(VOCAB_SIZE))
        tokenizer.save(f"{work}/learned.json")
    rest = datatrove(work, source, "learned.json")
    return rest | {"cpu": cost.cpu + rest["cpu"], "wall": cost.wall + rest["wall"]}


def learn_gigabpe(work: str, source: str) -> Result:
    """Train with gigabpe, which reads files of text, with GPT-2's splits; then the script around gigatoken."""
    import gigabpe

    folder = Path(work)
    texts_folder = _fresh(folder / "gigabpe-texts")
    texts_folder.mkdir()
    with timed() as cost:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            files = pool.map(partial(_unpack, texts_folder), sorted((folder / source).glob("*.jsonl.zst")))
            pool.close()
            pool.join()
        vocab, merges = gigabpe.train_bpe(files, VOCAB_SIZE, special_tokens=[], pretokenizer="bytelevel", threads=2)
        for token in to_printable_tokens([bytes([i]) for i in range(256)]):
            vocab.setdefault(token, len(vocab))  # it has none for bytes that do not occur
        model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False}
        model |= {"continuing_subword_prefix": None, "end_of_word_suffix": None, "vocab": vocab, "merges": merges}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        content = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
        content |= dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
        (folder / "gigabpe.json").write_bytes(orjson.dumps(content))
    rest = script(work, source, "gigatoken")
    return rest | {"cpu": cost.cpu + rest["cpu"], "wall": cost.wall + rest["wall"]}


def _unpack(folder: Path, path: Path) -> str:
    target = folder / f"{path.name}.txt"
    target.write_text("\n".join(record["text"] for record in _records(path)) + "\n")
    return str(target)


def learn_rustbpe(work: str, source: str) -> Result:
    """Train with rustbpe. The caller adds the cost of encoding, which the script with fastokens has measured."""
    import rustbpe

    with timed() as cost:
        rustbpe.Tokenizer().train_from_iterator(_texts(Path(work) / source), VOCAB_SIZE, pattern=PATTERNS["cl100k"])
    return _done(cost, ())


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.jsonl.zst")):
        for record in _records(path):
            yield record["text"]


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _done(cost: Any, parts: Iterable[np.ndarray[Any, Any]]) -> Result:
    """tokens: their number. id_sum: the sum of all ids, which does not depend on the order of documents."""
    tokens = id_sum = 0
    for ids in parts:
        tokens += len(ids)
        id_sum += int(ids.sum(dtype=np.int64))
    return {"cpu": cost.cpu, "wall": cost.wall, "tokens": tokens, "id_sum": id_sum}


def tables(options: Options) -> list[Table]:
    """Tables of tokenizing, of counting and learning, and of both."""
    size = write_corpus(options)
    work = str(options.work)
    build, learn = "tokcore", "tokcore, count and learn"
    whole, hand = "tokcore, whole build", "script around fastokens"
    # name -> what measures it, given a folder of inputs
    fast: dict[str, Callable[[str], Result]] = {
        build: lambda source: measured(tokcore, 2, work=work, source=source, learn=False),
        learn: lambda source: measured(tokcore, 2, work=work, source=source, learn=True, stages=("count", "learn")),
        whole: lambda source: measured(tokcore, 2, work=work, source=source, learn=True),
    }
    fast[FLOOR] = lambda source: measured(script, 2, work=work, source=source, encoder="none")
    of_gpt2, gigabpe = "tokcore, whole build with gpt2", "gigabpe, then the script around gigatoken"
    fast[of_gpt2] = lambda source: measured(tokcore, 2, work=work, source=source, learn=True, pattern="gpt2")
    if version("gigabpe") and version("gigatoken"):
        fast[gigabpe] = lambda source: measured(learn_gigabpe, 2, work=work, source=source)
    slow: dict[str, Callable[[str], Result]] = {}
    if version("fastokens"):
        fast[hand] = lambda source: measured(script, 2, work=work, source=source, encoder="fastokens")
    if version("rustbpe"):
        fast["rustbpe"] = lambda source: measured(learn_rustbpe, 1, work=work, source=source)
    if version("datatrove"):
        slow["datatrove"] = lambda source: measured(datatrove, 2, work=work, source=source)
        slow["tokenizers, then datatrove"] = lambda source: measured(learn_tokenizers, 2, work=work, source=source)
    results: dict[str, Result] = {}
    for rounds, jobs in ((options.rounds, fast), (1, slow)):
        runs = {(name, source): partial(job, source) for source in ("input", "empty") for name, job in jobs.items()}
        of_runs = interleaved(rounds, runs)
        results |= {name: _with_start(of_runs[name, "input"], of_runs[name, "empty"]) for name in jobs}
    if "rustbpe" in results and hand in results:
        results["rustbpe, then the script"] = _sum(results["rustbpe"], results[hand])
    for name in (hand, "datatrove", FLOOR):
        _check_ids(results, build, name)
    note = (
        f"{size:.1f} MB of text, {NUM_FILES} files, two processes; CPU seconds of the whole process tree. "
        f"Start-up: what it takes for a document in each process; the last columns compare without it."
    )
    titles = {
        "JSON lines to token shards": (build, hand, "datatrove", FLOOR),
        "Count and learn from JSON lines": (learn, "rustbpe"),
        "JSON lines to tokenizer and token shards, gpt2": (of_gpt2, gigabpe),
        "JSON lines to tokenizer and token shards": (whole, "rustbpe, then the script", "tokenizers, then datatrove"),
    }
    return [_table(title, note, size, results, names) for title, names in titles.items()]


def _with_start(result: Result, empty: Result) -> Result:
    if "error" in result or "error" in empty:
        return result if "error" in result else empty
    return result | {"start": empty["cpu"]}


def _sum(first: Result, second: Result) -> Result:
    if "error" in first or "error" in second:
        return first if "error" in first else second
    return second | {name: first[name] + second[name] for name in ("cpu", "wall", "start")}


def _check_ids(results: dict[str, Result], ours: str, other: str) -> None:
    """Rank only pipelines with equal ids. datatrove's reader leaves out documents without text."""
    if other not in results or "error" in results[other] or "error" in results[ours]:
        return
    if any(results[other][name] != results[ours][name] for name in ("tokens", "id_sum")):
        found = f"{results[other]['tokens']} tokens, {results[ours]['tokens']} expected"
        results[other] = {"error": f"its ids differ ({found})"}


def _table(title: str, note: str, size: float, results: dict[str, Result], names: Sequence[str]) -> Table:
    ours = results[names[0]]
    rows: list[list[object]] = []
    for name in names:
        result = results.get(name)
        if result is None or "error" in result or "error" in ours:
            rows.append([name, *[None] * 7, result["error"] if result else "not installed"])
            continue
        net, our_net = result["cpu"] - result["start"], ours["cpu"] - ours["start"]
        rows.append(
            [
                name,
                result["cpu"],
                result["start"],
                result["wall"],
                size / result["cpu"],
                result["cpu"] / ours["cpu"],
                size / net,
                net / our_net,
                result["tokens"] or None,
            ]
        )
    head = ["", "CPU s", "of it start-up", "s by the clock", "MB per CPU second", "tokcore is faster by"]
    return Table(title, [*head, "without start-up: MB per CPU second", "faster by", "tokens"], rows, note)


if __name__ == "__main__":
    program(__doc__, tables)
