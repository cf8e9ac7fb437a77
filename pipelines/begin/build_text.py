"""A proposal as the text of a build file, with comments, that builds as it is."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokcore.errors import ConfigError
from tokcore.models import DEFAULT_MODEL, MODELS
from tokcore_pipelines.begin.estimate import Estimate, estimate
from tokcore_pipelines.begin.propose import UNKNOWN_LANGUAGE, Proposal, Proposed
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.source_checks import FOR_CHECK, check_samples, describe, sample_plan
from tokcore_pipelines.local.terminal import format_count, format_number, format_size, make_printable
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.disk_listing import Link
from tokcore_pipelines.store.patterns import compile_glob, compile_holders, quote
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.build_tables import VERSION
from tokcore_schemas.config import Source, parse_config
from tokcore_schemas.toml_lines import quote_text

# The sizes that are proposed: the largest one that the corpus surely gives.
_SIZES = (131_072, 65_536, 32_768, 16_384, 8_192, 4_096, 2_048, 1_024, 512)
_MOST_SHOWN = 10  # files that are left out
_KEYS = ("format", "text", "id", "encoding", "delimiter", "unit", "separator")
_ABOUT = {
    "lang": "of all documents",
    "lang_field": "the field with each record's language",
    "format": "the names do not tell it",
    "text": "the field of the text",
    "id": "the field of the document's id",
    "encoding": "what the bytes are, as far as the start of a file tells",
    "delimiter": "between two fields",
    "separator": "what stands between two documents",
    "unit": "what a document is: file | line | paragraph",
}


def write_build_text(proposal: Proposal, path: str) -> str:
    """The text of a build file at a local path. Raises ConfigError if what was found cannot be built."""
    text = _write_text(proposal, path, "vocab_size = 257", "")
    config = parse_config(text, path)
    samples = sample_plan(config, plan_build(config), FOR_CHECK)
    if stopping := describe([one for one in check_samples(config, samples) if one.stops]):
        raise ConfigError(join_lines(*stopping))
    told = estimate(config, samples, 1)
    return _write_text(proposal, path, _write_vocab_size(told), _describe_size(told))


def _write_text(proposal: Proposal, path: str, vocab_size: str, about: str) -> str:
    base = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - as the build file's base is made
    start = _spell_start(proposal.folder, base)
    output = _choose_output(base)
    lines = [
        f"# What `tokcore init` found in {_write_comment(redact(proposal.folder))}.",
        "# Every other key, with its default: deploy/examples/full.toml.",
        f"version = {VERSION}",
        "",
        "[build]",
        f"{_write_setting('output', output)}  # a folder, or a URL of s3, gs or az; relative to this file's folder",
    ]
    own = [f"{output}/**"] if _covers(proposal.folder, base) else []
    for proposed in proposal.sources:
        lines += ["", *_write_source(proposed, start, own, proposal.links)]
    if proposal.left_out:
        lines += ["", f"# Left out: {format_count(len(proposal.left_out), 'file')}."]
        lines += [
            f"#   {_write_comment(redact(name))}: {_write_comment(why)}"
            for name, why in proposal.left_out[:_MOST_SHOWN]
        ]
        if len(proposal.left_out) > _MOST_SHOWN:
            lines.append(f"#   and {len(proposal.left_out) - _MOST_SHOWN:,} more")
    lines += ["", "[learn]", *([f"# {about}"] if about else []), vocab_size]
    return "\n".join(lines) + "\n"


def _choose_output(base: str) -> str:
    """A folder of the build file's that holds nothing yet."""
    names = itertools.chain(["out"], (f"out-{number}" for number in itertools.count(2)))
    return next(name for name in names if not _is_taken(Path(base, name)))


def _is_taken(path: Path) -> bool:
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def _write_source(proposed: Proposed, start: str, own: Sequence[str], links: Mapping[str, Link]) -> Iterable[str]:
    """own: the build's output as a glob, if it is inside of what the source lists."""
    source = proposed.source
    yield "[[source]]"
    yield f"# {proposed.num_files:,} file{'s' * (proposed.num_files > 1)}, {format_size(proposed.size_bytes)} as stored"
    if proposed.fields:
        yield f"# {_write_comment(proposed.fields)}"
    if proposed.why:
        yield f"# {_write_comment(proposed.why)}"
    if proposed.guesses:
        yield "# text is a guess: see what these fields hold, and write the one that you mean"
    for guess in proposed.guesses:
        yield f"#   {_write_comment(guess.describe())}"
    name = "lang" if source.lang is not None else "lang_field"
    todo = "; not known: write a code such as en" if source.lang == UNKNOWN_LANGUAGE else ""
    yield f"{_write_setting(name, getattr(source, name))}  # {_ABOUT[name]}{todo}"
    yield from _write_patterns("files", [_escape_dollars(start + pattern) for pattern in source.files])
    missing = [name for name, link in sorted(links.items()) if link.kind == "missing" and _meets(source, name)]
    if excluded := [*own, *(_escape_dollars(start + quote(name)) for name in missing)]:
        said = [*(["what this build writes"] if own else []), *(["links that lead to nothing"] if missing else [])]
        yield f"# Excluded: {', and '.join(said)}."
        yield from _write_patterns("exclude", excluded)
    if source.follow_links:
        yield f"follow_links = true  # false leaves them out: {_write_comment(_describe_links(links))}"
    for key in _KEYS:
        value = getattr(source, key)
        if value is not None and value != {"text": "text", "encoding": "utf-8"}.get(key):
            yield f"{_write_setting(key, value)}  # {_ABOUT[key]}"


def _write_patterns(key: str, patterns: Sequence[str]) -> Iterable[str]:
    if len(patterns) == 1:
        yield _write_setting(key, patterns[0])
        return
    yield f"{key} = ["
    yield from (f"    {quote_text(pattern)}," for pattern in patterns)
    yield "]"


def _meets(source: Source, name: str) -> bool:
    """Whether a pattern of the source meets a link that leads to nothing, which may stand for a file or a folder."""
    folders = [name[:i] for i, character in enumerate(name) if character == "/"]
    return any(
        all(map(may_hold, folders)) and (compile_glob(pattern).match(name) or may_hold(name))
        for pattern in source.files
        for may_hold in [compile_holders(pattern)]
    )


def _describe_links(links: Mapping[str, Link]) -> str:
    shown = ", ".join(f"{name} -> {link.target}" for name, link in sorted(links.items())[:3])
    return shown + (f" and {len(links) - 3:,} more" if len(links) > 3 else "")


def _spell_start(folder: str, base: str) -> str:
    """The start of each pattern: the folder as the build file names it, as a glob that matches it alone."""
    if urls.is_local(folder):
        local = str(urls.get_local_path(folder))
        if local == base:
            return ""
        if local.startswith(f"{base}/"):
            local = local.removeprefix(f"{base}/")
        folder = local
    return quote(folder).rstrip("/") + "/"


def _covers(folder: str, base: str) -> bool:
    """Whether the output is inside the folder that was looked at."""
    if not urls.is_local(folder):
        return False
    root = os.path.realpath(urls.get_local_path(folder))
    return f"{os.path.realpath(base)}/".startswith(f"{root.rstrip('/')}/")


def _escape_dollars(path: str) -> str:
    """The path with what the build file would replace spelled so that it stays."""
    path = path.replace("$", "$$")
    return f"./{path}" if path.startswith("~") else path


def _write_vocab_size(told: Estimate | None) -> str:
    default = MODELS[DEFAULT_MODEL].default_vocab_size(1)
    least = told.vocab_least if told is not None else 0
    # Mixing weighs the counts, so it can take some pairs below min_count.
    chosen = next((one for one in _SIZES if one <= default and 2 * one <= least), 0)
    if chosen == default:
        return f"vocab_size = {default}  # special tokens included"
    chosen = chosen or max(257, least)
    said = "allow_smaller = true  # this is little text: take what it gives"
    return f"vocab_size = {chosen}  # special tokens included\n{said}"


def _describe_size(told: Estimate | None) -> str:
    if told is None:
        return ""
    of = "all of the text" if told.is_whole else f"a sample of {format_size(told.sample_bytes)}"
    return f"Estimated from {of}: {format_size(told.text_bytes)} of text, {format_number(told.pretokens)} pre-tokens."


def _write_setting(key: str, value: str) -> str:
    return f"{key} = {quote_text(value)}"


def _write_comment(text: str) -> str:
    return make_printable(text).replace("\n", " ")
