"""Benchmark tokenizer files of published models: loading them, and encoding with them, beside other libraries.

    python tests/benchmarks/vocabularies.py FILE ... [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

The files are not part of this repository; what is no tokenizer.json, we write as one first. Loading: CPU time until
the first text is encoded, the best of five; a library that has not loaded a file after a minute is left out. Encoding:
MB per CPU second, cold and steady as encode.py says, libraries in turn for each sixteenth of a text. Chat is a batch of
messages of 20 to 400 characters, half of them English. Ids are compared first. All libraries get a list of str, but in
the row for Arrow.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import texts
from measuring import Options, Result, Table, measured, parsed_options, version

PARTS = 16
LOADS = 5
SECONDS_TO_LOAD = 60.0
CHAT = "chat"
TITLE = "Encode with "
TEXT = "The first text's ids: 1234, and a line.\n\nÜber 東京\n"
Encode = Callable[[Any], Any]
Rows = Callable[[Any], list[list[int]]]
Load = Callable[[], tuple[Encode, Rows]]


def loaders(path: str) -> dict[str, Load]:
    """Library -> loads the file; returns what encodes a list of str, and what makes lists of ids of that."""
    from tokcore import Tokenizer
    from tokcore.tokenizer import tokenizer_spec

    def tokcore() -> tuple[Encode, Rows]:
        tokenizer_spec._parse_json_bytes.cache_clear()
        return Tokenizer.load(path).encode_batch, lambda found: found.to_pylist()

    found: dict[str, Load] = {"tokcore": tokcore, "tokcore, Arrow": tokcore}
    if version("tokenizers"):
        import tokenizers

        def huggingface() -> tuple[Encode, Rows]:
            tokenizer = tokenizers.Tokenizer.from_file(path)
            encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)  # 1.0 has one of them
            return lambda part: encode(part, add_special_tokens=False), lambda found: [one.ids for one in found]

        found[f"tokenizers {version('tokenizers')}"] = huggingface
    if version("fastokens"):
        import fastokens

        def fast() -> tuple[Encode, Rows]:
            encode = fastokens.Tokenizer.from_file(path).encode_batch
            return lambda part: encode(part, False), lambda found: [[*getattr(one, "ids", one)] for one in found]

        found["fastokens"] = fast
    if version("gigatoken"):
        import gigatoken

        def giga() -> tuple[Encode, Rows]:
            encode = gigatoken.Tokenizer.from_json(Path(path).read_text()).encode_batch
            return lambda part: encode(part, parallel=False), lambda found: [[*map(int, one)] for one in found]

        found["gigatoken"] = giga
    return found


def try_to_load(file: str, library: str) -> Result:
    """Whether a library takes the file."""
    try:
        loaders(file)[library]()[0]([TEXT])
    except BaseException:  # each library has errors of its own, and one of them panics
        return {"error": "refuses the file"}
    return {}


def measure(file: str, paths: dict[str, str], libraries: list[str]) -> Result:
    """Of each library the seconds for loading, and of each text (cold, steady) in MB per second; ids that differ."""
    out: Result = {}
    loaded = {}
    for name in libraries:
        load = loaders(file)[name]
        out[name] = {"load": min(_time(lambda load=load: load()[0]([TEXT])) for _ in range(LOADS)), "wrong": 0}
        loaded[name] = load()
    special = [token["content"] for token in json.loads(Path(file).read_text())["added_tokens"] if token["special"]]
    for text, documents in _read(paths, special):
        for name in libraries:
            loaded[name] = loaders(file)[name]()  # it has seen no text
            loaded[name][0](["one"])
            out[name][text] = [0.0, 0.0]
        sizes = [0.0, 0.0]
        for i in range(PARTS):
            part, half = documents[i::PARTS], i * 2 // PARTS
            sizes[half] += sum(len(document.encode()) for document in part) / 1e6
            ids = {}
            for name in libraries[i % len(libraries) :] + libraries[: i % len(libraries)]:  # the first waits for memory
                encode, rows = loaded[name]
                given = pa.array(part, pa.large_string()) if name.endswith("Arrow") else part
                start = time.process_time()
                found = encode(given)
                out[name][text][half] += time.process_time() - start
                ids[name] = rows(found)
            for name in libraries:
                out[name]["wrong"] += sum(a != b for a, b in zip(ids[name], ids[libraries[0]], strict=True))
        for name in libraries:
            out[name][text] = [size / cost for size, cost in zip(sizes, out[name][text], strict=True)]
    return out


def _read(paths: dict[str, str], special: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    """(name, documents) of each text, without those that spell a special token, and of the chat."""
    found = {
        text: [document for document in texts.load(path).to_pylist() if not any(one in document for one in special)]
        for text, path in paths.items()
    }
    yield from found.items()
    chance = random.Random(1)
    messages = []
    for documents in (found["english"], found["multilingual"]):
        for document in documents:
            start = 0
            while start < len(document) and len(messages) < 20_000:
                size = chance.randint(20, 400)
                messages.append(document[start : start + size])
                start += size
    chance.shuffle(messages)
    yield CHAT, messages


def _time(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def tables(options: Options, files: Sequence[Path]) -> list[Table]:
    """One table for each file."""
    paths = {name: str(path) for name, path in texts.prepare(options.corpus, options.work, options.limit_mb).items()}
    out = []
    for file in files:
        name = file.parent.name if file.name == "tokenizer.json" else file.stem
        json_file = _write_json(file, options.work / f"{name}.json")
        tried = {
            library: measured(try_to_load, seconds=SECONDS_TO_LOAD, file=str(json_file), library=library)
            for library in loaders(str(json_file))
        }
        left_out = {library: str(found["error"]) for library, found in tried.items() if "error" in found}
        fit = [library for library in tried if library not in left_out]
        rounds = [measured(measure, file=str(json_file), paths=paths, libraries=fit) for _ in range(options.rounds)]
        if failed := [one["error"] for one in rounds if "error" in one]:
            raise SystemExit(failed[0])
        out.append(_make_table(name, rounds, [*paths, CHAT], left_out))
    return out


def _write_json(file: Path, path: Path) -> Path:
    """The file, or what we write of it as a tokenizer.json."""
    if file.name == "tokenizer.json":
        return file
    from tokcore import Tokenizer

    Tokenizer.load(file).export("huggingface", path, replace=True)
    content = json.loads(path.read_text())
    # fastokens takes a vocabulary without gaps only, so special tokens stand beside it, as in Llama 3's file.
    special = {token["content"] for token in content["added_tokens"]}
    vocab = content["model"]["vocab"]
    content["model"]["vocab"] = {token: id for token, id in vocab.items() if token not in special}
    path.write_text(json.dumps(content))
    return path


def _make_table(name: str, rounds: list[Result], names: list[str], left_out: dict[str, str]) -> Table:
    rows: list[list[object]] = []
    for library in rounds[0]:
        own = [one[library] for one in rounds]
        speeds = [max(one[text][half] for one in own) for text in names for half in (0, 1)]
        wrong = own[0]["wrong"]
        verdict = f"{wrong} differ" if wrong else "equal"
        rows.append([library, min(one["load"] for one in own), *speeds, verdict])
    rows += [[library, *[None] * (1 + 2 * len(names)), why] for library, why in left_out.items()]
    head = ["", "load, s", *(f"{text}, {kind}" for text in names for kind in ("cold", "steady")), "ids"]
    return Table(TITLE + name, head, rows, "MB per CPU second, list of str; the best round.")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Let a program be told the files."""
    parser.add_argument("--vocabularies", nargs="*", type=Path, default=[], help="tokenizer files of published models")


def main() -> None:
    """Print one table for each file."""
    with parsed_options(__doc__, lambda parser: parser.add_argument("files", nargs="+", type=Path)) as (options, given):
        for table in tables(options, given.files):
            print(table.markdown())


if __name__ == "__main__":
    main()
