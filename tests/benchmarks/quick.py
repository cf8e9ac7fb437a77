"""Measure in a minute: our speed as a ratio to tiktoken's and to our portable code's, beside the ratios recorded last.

    python tests/benchmarks/quick.py [--corpus FOLDER] [--record]

Both CPU times of a ratio come from the same run and text, so ratios can be compared between machines of one kind.
--record writes them to recorded.json, which is part of the repository: do so after a change that is meant to alter
them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import count
import encode
import loading
import texts
from measuring import Table, interleaved, machine, measured, parsed_options

RECORDED = Path(__file__).with_name("recorded.json")


def main() -> None:
    """Measure and compare."""
    with parsed_options(__doc__, _record) as (options, arguments):
        ranks = texts.rank_file(options.vocab, options.work)
        paths = texts.prepare(options.corpus, options.work, min(options.limit_mb, 4.0))
        ratios: dict[str, float] = {}
        for text, path in paths.items():
            jobs = {
                name: lambda name=name, path=path: measured(encode.encode, peer=name, path=path, ranks=ranks, threads=1)
                for name in ("tokcore", "tokcore, portable", "tiktoken")
            }
            results = interleaved(options.rounds, jobs)
            for name in ("tokcore, portable", "tiktoken"):
                if encode.wrong_documents(results["tokcore"], results[name]):
                    raise SystemExit(f"ids of {text} differ between tokcore and {name}")
                for kind in ("cold", "steady"):
                    ratios[f"encode {text}, {kind}, x {name}"] = results["tokcore"][kind] / results[name][kind]
        for pattern in ("cl100k", "gpt2"):
            given = [str(path) for path in paths.values()]
            counted = interleaved(
                options.rounds,
                {
                    name: lambda name=name, pattern=pattern, given=given: measured(
                        count.count, counter=name, pattern=pattern, paths=given
                    )
                    for name in ("tokcore", "tokcore, portable")
                },
            )
            speeds = [result["speed"] for result in counted.values()]
            ratios[f"count {pattern}, x tokcore, portable"] = speeds[0] / speeds[1]
        loaded = measured(loading.measure, ranks=ranks, folder=options.work / "loaded")
        for name in ("tokcore", "tokcore, tokcore.json"):
            ratios[f"load {name.partition(', ')[2] or 'tokenizer.json'}, x tokenizers"] = (
                loaded["tokenizers"] / loaded[name]
            )
    recorded = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {"machine": "none", "ratios": {}}
    rows = []
    for name, ratio in ratios.items():
        before = recorded["ratios"].get(name)
        rows.append([name, ratio, before, f"{ratio / before - 1:+.0%}" if before else ""])
    print(f"{machine()}; recorded on {recorded['machine']}\n")
    print(Table("Ratios of CPU time", ["", "now", "recorded", "change"], rows).markdown())
    if arguments.record:
        shown = {name: round(ratio, 2) for name, ratio in ratios.items()}
        RECORDED.write_text(json.dumps({"machine": machine(), "ratios": shown}, indent=1) + "\n")


def _record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true")


if __name__ == "__main__":
    main()
