"""Benchmark loading a tokenizer, with cl100k ranks: CPU seconds until the first text is encoded, of every library.

    python tests/benchmarks/loading.py [--vocab FILE] [--rounds 3]

All read the same tokenizer.json, tiktoken the rank file, which is all that it reads, and we tokcore.json, too. Imports
are not timed. Libraries take turns within one process, and the best of five turns counts. Ids are compared first.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import texts
from measuring import Options, Result, Table, interleaved, measured, program, version
from peers import load_tiktoken

TURNS = 5
TEXT = "The first text's ids: 1234, and a line.\n\nÜber 東京\n"

Load = Callable[[], Callable[[str], Any]]  # returns what encodes a text


def loaders(ranks: str, folder: str) -> dict[str, Load]:
    """What loads a tokenizer, of every installed library. Writes the files that are read into the folder."""
    from tokcore import Tokenizer
    from tokcore.tokenizer import tokenizer_spec

    ours = Tokenizer.from_tiktoken(ranks, pattern="cl100k")
    own, file = str(ours.save(folder, replace=True)), str(Path(folder, "tokenizer.json"))
    ours.export("huggingface", file, replace=True)

    def load(path: str) -> Callable[[str], Any]:
        tokenizer_spec._parse_json_bytes.cache_clear()
        return Tokenizer.load(path).encode

    found: dict[str, Load] = {"tokcore": lambda: load(file), "tokcore, tokcore.json": lambda: load(own)}
    if version("tokenizers"):
        import tokenizers

        found["tokenizers"] = lambda: tokenizers.Tokenizer.from_file(file).encode
    if version("gigatoken"):
        import gigatoken

        found["gigatoken"] = lambda: gigatoken.Tokenizer.from_json(Path(file).read_text()).encode
    if version("fastokens"):
        import fastokens

        found["fastokens"] = lambda: fastokens.Tokenizer.from_file(file).encode
    if version("tiktoken"):
        found["tiktoken, rank file"] = lambda: load_tiktoken(ranks).encode_ordinary
    return found


def measure(ranks: str, folder: str) -> Result:
    """Name of a library -> seconds; under "wrong" those with other ids, under "refused" those that refuse the file."""
    found = loaders(ranks, folder)
    out: Result = {"wrong": [], "refused": []}
    expected = found["tokcore"]()(TEXT).tolist()
    for name, load in [*found.items()]:
        try:
            ids = load()(TEXT)
        except Exception:  # each library has errors of its own
            out["refused"].append(name)
            del found[name]
            continue
        if [*map(int, getattr(ids, "ids", ids))] != expected:
            out["wrong"].append(name)
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(TURNS):
        for name, load in found.items():
            gc.collect()
            start = time.process_time()
            load()(TEXT)
            seconds[name].append(time.process_time() - start)
    return out | {name: min(turns) for name, turns in seconds.items()}


def tables(options: Options) -> list[Table]:
    """One table: libraries, seconds, and whether ids are equal."""
    ranks = texts.rank_file(options.vocab, options.work)
    jobs = {"all": lambda: measured(measure, ranks=ranks, folder=options.work / "loaded")}
    found = interleaved(options.rounds, jobs)["all"]
    if "error" in found:
        raise SystemExit(found["error"])
    names = [name for name in found if name not in ("wrong", "refused")]
    rows: list[list[object]] = [[name, found[name], "differ" if name in found["wrong"] else "equal"] for name in names]
    rows += [[name, None, "refuses the file"] for name in found["refused"]]
    note = "CPU seconds until the first text is encoded, without imports."
    return [Table("Load a tokenizer.json, cl100k", ["", "load, s", "ids"], rows, note)]


if __name__ == "__main__":
    program(__doc__, tables)
