"""Pages that follow from the code: commands, keys of the build file, the Python interface, codes. Each is Markdown."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tokcore_pipelines.commands.command_table import list_rows, load_command
from tokcore_pipelines.reading.records import REASONS
from tokcore_pipelines.watch.meters import Meters

_ROOT = Path(__file__).parents[2]
_SCHEMA = _ROOT / "schemas" / "build.schema.json"


def list_pages() -> Mapping[str, str]:
    """The path of each page in the site -> its Markdown."""
    return {
        "reference/commands.md": describe_commands(),
        "reference/build-file.md": describe_build_file(),
        "reference/python.md": describe_python(),
        "reference/codes.md": describe_codes(),
    }


# ------------------------------------------------------------------------------------------------------------- commands


def describe_commands() -> str:
    """All commands below the headings of the help, with their arguments, options and examples."""
    lines = ["# Commands", "", "`tokcore COMMAND --help` says the same.", ""]
    purpose = ""
    for name, row in list_rows().items():
        if row.is_hidden:
            continue
        if row.purpose != purpose:
            purpose = row.purpose
            lines += [f"## {purpose}", ""]
        command = load_command(name)
        assert command is not None
        lines += [f"### tokcore {name}", "", *_describe_command(name, command)]
        lines += [f"More: [{_read_title(row.page)}](../../{row.page})", ""]
    return "\n".join(lines)


def _read_title(page: str) -> str:
    return (_ROOT / page).read_text().partition("\n")[0].removeprefix("# ")


def _describe_command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"tokcore {name}")
    yield from ((command.help or "").replace("\b\n", ""), "", "```text", command.get_usage(context), "```", "")
    options: dict[str, list[tuple[str, str]]] = {}
    for one in command.params:
        record = one.get_help_record(context) if isinstance(one, click.Option) else None
        if record is not None:
            options.setdefault(getattr(one, "heading", "Option"), []).append(record)
    for heading, records in options.items():
        yield from (f"| {heading} | What it does |", "|---|---|")
        yield from (f"| {_code(option)} | {_in_cell(about)} |" for option, about in records)
        yield ""
    if command.epilog:
        examples = inspect.cleandoc(command.epilog.replace("\b", "")).removeprefix("Examples:").strip("\n")
        yield from ("```text", inspect.cleandoc("\n" + examples), "```", "")


# ----------------------------------------------------------------------------------------------------------- build file


def describe_build_file() -> str:
    """Every key, from the schema that editors use: what it is, its type, its default."""
    lines = ["# Keys of the build file", ""]
    lines += ["What they do together is told in [the build file](../schemas/README.md#build-file).", ""]
    _describe_table(json.loads(_SCHEMA.read_bytes()), "", lines)
    return "\n".join(lines)


def _describe_table(table: Mapping[str, Any], path: str, lines: list[str]) -> None:
    rows, inner = [], []
    for key, value in table["properties"].items():
        of_list = value.get("items", {})
        if "properties" in value or "properties" in of_list:
            inner.append((key, of_list if "properties" in of_list else value, "properties" in of_list))
        else:
            default = _code(json.dumps(value["default"], ensure_ascii=False)) if "default" in value else ""
            must = "required" if key in table.get("required", ()) else default
            rows.append(f"| `{key}` | {_name_type(value)} | {must} | {_in_cell(value.get('description', ''))} |")
    if rows:
        lines += ["| Key | Type | Default | Meaning |", "|---|---|---|---|", *rows, ""]
    for key, value, is_list in inner:
        name = f"{path}.{key}" if path else key
        lines += [f"## {f'[[{name}]]' if is_list else f'[{name}]'}", ""]
        if about := value.get("description"):
            lines += [about[0].upper() + about[1:] + ".", ""]
        _describe_table(value, name, lines)


def _name_type(value: Mapping[str, Any]) -> str:
    if "enum" in value:
        return ", ".join(_code(str(one)) for one in value["enum"])
    if "anyOf" in value or "oneOf" in value:
        return " or ".join(dict.fromkeys(_name_type(one) for one in value.get("anyOf") or value["oneOf"]))
    if value.get("type") == "array":
        return f"list of {_name_type(value.get('items', {})) or 'values'}"
    return str(value.get("type", ""))


# --------------------------------------------------------------------------------------------------------------- Python


def describe_python() -> str:
    """Every public name of the packages: its signature, its docstring, its methods."""
    lines = ["# Python", "", "Every example runs in a test.", ""]
    for package in ("tokcore", "tokcore_pipelines", "tokcore_schemas"):
        module = importlib.import_module(package)
        lines += [f"## {package}", "", *_describe_text(module), ""]
        for name in module.__all__:
            if name != "__version__":
                lines += _describe_name(f"{package}.{name}", getattr(module, name), "###")
    for name, path in _list_returned():
        module_name, _, attribute = path.rpartition(".")
        lines += _describe_name(name, getattr(importlib.import_module(module_name), attribute), "##")
    return "\n".join(lines)


def _list_returned() -> Iterator[tuple[str, str]]:
    """Classes that no package exports, and functions give."""
    yield "Shards", "tokcore.shards.opened_shards.Shards"
    yield "Loader", "tokcore.train.loader.Loader"
    yield "Vocabulary", "tokcore.tokenizer.vocabulary.Vocabulary"
    yield "TokenSpans", "tokcore.tokenizer.token_spans.TokenSpans"
    yield "StreamDecoder", "tokcore.tokenizer.stream_decoder.StreamDecoder"
    yield "Padded", "tokcore.tokenizer.encoded_batch.Padded"


def _describe_name(name: str, thing: Any, heading: str) -> Iterator[str]:
    yield from (f"{heading} {name}", "")
    if callable(thing) and (signature := _spell_signature(name.rpartition(".")[2], thing)):
        yield from ("```python", signature, "```", "")
    yield from (*_describe_text(thing), "")
    if not inspect.isclass(thing) or not thing.__module__.startswith("tokcore"):
        return
    for member, value in vars(thing).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if member.startswith("_") or not (isinstance(value, property) or inspect.isfunction(function)):
            continue
        if inspect.getdoc(function):
            yield from _describe_name(f"{name.rpartition('.')[2]}.{member}", function, heading + "#")


def _spell_signature(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    spelled = f"{name}{signature}".replace("'", "").replace("tokcore_schemas.", "").replace("tokcore.", "")
    return spelled if len(spelled) < 100 else spelled.replace("(", "(\n    ", 1).replace(", ", ",\n    ")


def _describe_text(thing: Any) -> list[str]:
    """A docstring as Markdown: examples get fences, and a line that ends with a colon stays a line."""
    text = inspect.getdoc(thing) or ""
    lines = []
    for piece in doctest.DocTestParser().parse(text):
        if isinstance(piece, str):
            lines += [piece.strip("\n"), ""] if piece.strip() else []
            continue
        source = re.sub(r" +# doctest: .*", "", piece.source).splitlines()
        shown = [f"{'...' if n else '>>>'} {line}" for n, line in enumerate(source)]
        if lines and lines[-1] == "```":
            lines.pop()
        else:
            lines.append("```pycon")
        lines += [*shown, *piece.want.splitlines(), "```"]
    return lines


# ---------------------------------------------------------------------------------------------------------------- codes


def describe_codes() -> str:
    """Reasons of rejected records, errors, and metrics."""
    import tokcore

    lines = ["# Reasons, errors, metrics", "", "## Reasons of rejected records and files", ""]
    lines += ["They stand in `rejected/`, in totals, in the report. A code never changes its meaning.", ""]
    lines += [
        "| Reason | Meaning |",
        "|---|---|",
        *(f"| `{code}` | {_in_cell(about)} |" for code, about in REASONS.items()),
    ]
    lines += ["", "## Errors", "", "All are a `tokcore.TokError`.", "", "| Error | Meaning |", "|---|---|"]
    errors = [getattr(tokcore, name) for name in tokcore.__all__]
    for error in errors:
        if inspect.isclass(error) and issubclass(error, tokcore.TokError):
            first = (inspect.getdoc(error) or "").partition("\n\n")[0].replace("\n", " ")
            lines.append(f"| `{error.__name__}` | {_in_cell(first)} |")
    lines += ["", "## Metrics of a watcher", "", "In the form that Prometheus reads: `tokcore watch --listen`.", ""]
    lines += ["| Metric | Kind | Meaning |", "|---|---|---|"]
    text = Meters().write().decode()
    for name, about in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        (kind,) = re.findall(rf"^# TYPE {name} (\S+)$", text, re.MULTILINE)
        if not name.endswith("_created"):
            lines.append(f"| `{name}` | {kind} | {_in_cell(about)} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _in_cell(text: str) -> str:
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))
