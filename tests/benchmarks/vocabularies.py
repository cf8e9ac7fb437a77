"""Benchmark tokenizer.json files of published models: loading them, and encoding lists of str, beside other libraries.

    python tests/benchmarks/vocabularies.py FILE.json ... [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

The files are not part of this repository. Loading: CPU time of the best of five. Encoding: MB per CPU second, cold and
steady as encode.py says, libraries in turn for each sixteenth of a text. Ids are compared first.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import texts
from measuring import Result, Table, machine, measured, parsed_options, version

from tokcore.kernel import get_implementation

PARTS = 16
LOADS = 5
Encode = Callable[[list[str]], Any]


def loaders(path: str) -> dict[str, Callable[[], tuple[Encode, Callable[[Any], list[list[int]]]]]]:
    """Library -> loads the file; returns what encodes a list of str, and what makes lists of ids of that."""
    from tokcore import Tokenizer
    from tokcore.tokenizer import tokenizer_spec

    def tokcore() -> tuple[Encode, Callable[[Any], list[list[int]]]]:
        tokenizer_spec._parse_json_bytes.cache_clear()
        return Tokenizer.load(path).encode_batch, lambda found: found.to_pylist()

    found = {"tokcore": tokcore}
    if version("tokenizers"):
        import tokenizers

        def huggingface() -> tuple[Encode, Callable[[Any], list[list[int]]]]:
            encode = tokenizers.Tokenizer.from_file(path).encode_batch_fast
            return lambda part: encode(part, add_special_tokens=False), lambda found: [one.ids for one in found]

        found["tokenizers"] = huggingface
    if version("fastokens"):
        import fastokens

        def fast() -> tuple[Encode, Callable[[Any], list[list[int]]]]:
            encode = fastokens.Tokenizer.from_file(path).encode_batch
            return lambda part: encode(part, False), lambda found: [[*getattr(one, "ids", one)] for one in found]

        found["fastokens"] = fast
    return found


def measure(file: str, paths: dict[str, str]) -> Result:
    """Of each library the seconds for loading, and of each text (cold, steady) in MB per second; ids that differ."""
    out: Result = {}
    loaded = {}
    for name, load in loaders(file).items():
        try:
            loaded[name] = load()
        except Exception as error:
            out[name] = {"refused": str(error)[:80]}
            continue
        out[name] = {"load": min(_time(load) for _ in range(LOADS)), "wrong": 0}
    for text, path in paths.items():
        documents = [document for document in texts.load(path).to_pylist() if "<" not in document]  # no added token
        for name, (encode, _) in loaded.items():
            encode(["one"])
            out[name][text] = [0.0, 0.0]
        sizes = [0.0, 0.0]
        for i in range(PARTS):
            part, half = documents[i::PARTS], i * 2 // PARTS
            sizes[half] += sum(len(document.encode()) for document in part) / 1e6
            expected = None
            for name, (encode, rows) in loaded.items():
                start = time.process_time()
                found = encode(part)
                out[name][text][half] += time.process_time() - start
                ids = rows(found)
                expected = ids if expected is None else expected
                out[name]["wrong"] += sum(a != b for a, b in zip(ids, expected, strict=True))
        for name in loaded:
            out[name][text] = [size / cost for size, cost in zip(sizes, out[name][text], strict=True)]
    return out


def _time(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """One table for each file."""
    with parsed_options(__doc__, lambda parser: parser.add_argument("files", nargs="+", type=Path)) as (options, given):
        print(f"{machine()}, kernel {get_implementation()}\n")
        paths = {
            name: str(path) for name, path in texts.prepare(options.corpus, options.work, options.limit_mb).items()
        }
        for file in given.files:
            rounds = [measured(measure, file=file, paths=paths) for _ in range(options.rounds)]
            if failed := [one["error"] for one in rounds if "error" in one]:
                raise SystemExit(failed[0])
            print(_make_table(file, rounds, list(paths)).markdown())


def _make_table(file: Path, rounds: list[Result], names: list[str]) -> Table:
    rows: list[list[object]] = []
    for library in rounds[0]:
        own = [one[library] for one in rounds]
        if "refused" in own[0]:
            rows.append([library, *[None] * (1 + 2 * len(names)), own[0]["refused"]])
            continue
        speeds = [max(one[name][half] for one in own) for name in names for half in (0, 1)]
        wrong = own[0]["wrong"]
        rows.append([library, min(one["load"] for one in own), *speeds, f"{wrong} differ" if wrong else "equal"])
    head = ["", "load, s", *(f"{name}, {kind}" for name in names for kind in ("cold", "steady")), "ids"]
    return Table(f"{file.parent.name}/{file.name}", head, rows, "MB per CPU second; the best round.")


if __name__ == "__main__":
    main()
