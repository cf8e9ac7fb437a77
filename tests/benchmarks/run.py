"""Run all benchmarks, print their tables as Markdown and keep them as JSON.

    python tests/benchmarks/run.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3] [--table TABLE.parquet]
        [--vocabularies FILE ...] [--only encode,count] [--json PATH] [--markdown PATH] [--readme PATH]

With --only, the other programs' tables are taken from the JSON file, with the machine that they are of. --readme
replaces the section between the marks `<!-- speed -->` and `<!-- /speed -->` of a file by the short table of ratios.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import count
import encode
import learn
import learn_pieces
import loading
import pathological
import peers
import pieces
import pipeline
import short_texts
import summary
import vocabularies
import wordpiece
from measuring import Options, Table, machine, parsed_options, version, wrap

from tokcore.kernel import get_implementation

Record = dict[str, Any]
NAMED_PACKAGES = ("tokcore", *peers.PACKAGES, "sentencepiece", "datatrove")


def programs(table: Path | None, files: Sequence[Path] = ()) -> dict[str, Callable[[Options], list[Table]]]:
    """Name -> the tables of a program."""
    return {
        "encode": encode.tables,
        "short texts": short_texts.tables,
        "loading": loading.tables,
        "vocabularies": lambda options: vocabularies.tables(options, files),
        "pathological": pathological.tables,
        "count": count.tables,
        "learn": lambda options: learn.tables(options, table),
        "wordpiece": wordpiece.tables,
        "pieces": pieces.tables,
        "pieces learned": learn_pieces.tables,
        "pipeline": pipeline.tables,
    }


def markdown(record: Record) -> str:
    """The whole report."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    parts = [
        "# Results of the benchmarks",
        wrap(
            "Written by `tests/benchmarks/run.py`. Medians of interleaved rounds; CPU time unless said otherwise. "
            "Compare ratios within a table: the machine was shared with other work."
        ),
        wrap(f"Versions: {versions}."),
    ]
    if record["missing"]:
        parts.append(wrap(record["missing"]))
    for name, tables in record["tables"].items():
        parts += [f"## {name.capitalize()}", f"Machine: {record['machines'][name]}."]
        parts += [Table(**table).markdown().rstrip() for table in tables]
    return "\n\n".join(parts) + "\n"


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", type=Path, help="of make_word_table.py")
    parser.add_argument("--only", default="", help="names of programs, with commas between")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--readme", type=Path)


def main() -> None:
    """Run, print, write."""
    with parsed_options(__doc__, _more, vocabularies.add_files) as (options, arguments):
        tables: dict[str, Any] = {}
        machines: dict[str, str] = {}  # on which each program ran
        if arguments.json is not None and arguments.json.is_file():
            before = json.loads(arguments.json.read_text())
            tables, machines = before["tables"], before["machines"]
        chosen = arguments.only.split(",") if arguments.only else list(programs(None))
        for name, run in programs(arguments.table, arguments.vocabularies).items():
            if name in chosen:
                folder = options.work / name
                folder.mkdir()
                own = Options(options.corpus, options.vocab, options.limit_mb, options.rounds, folder)
                tables[name] = [_plain(table) for table in run(own)]
                machines[name] = f"{machine()}; kernel {get_implementation()}"
        record = {
            "machines": {name: machines[name] for name in programs(None) if name in tables},
            "versions": {name: version(name) for name in NAMED_PACKAGES if version(name)},
            "missing": peers.missing(),
            "tables": {name: tables[name] for name in programs(None) if name in tables},
        }
    print(markdown(record))
    for path in (arguments.json, arguments.markdown):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(record))
    if arguments.readme is not None:
        section = f"<!-- speed -->\n{summary.section(record)}<!-- /speed -->"
        old = arguments.readme.read_text()
        arguments.readme.write_text(re.sub(r"(?s)<!-- speed -->.*<!-- /speed -->", lambda _: section, old))


def _plain(table: Table) -> Record:
    return {"title": table.title, "head": list(table.head), "rows": [list(r) for r in table.rows], "note": table.note}


if __name__ == "__main__":
    main()
