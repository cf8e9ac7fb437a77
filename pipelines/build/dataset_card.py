"""The dataset card: README.md of an output, from which Hugging Face's datasets knows which files are its documents.

It follows from the manifests of the stages, so it names neither build, path nor time. The build's manifest names it.
After each commit the card is that of the newest one, which follows from the manifests of its parts (follow_commits).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tokcore.errors import ConfigError
from tokcore.formats.shard_format import ShardFormat
from tokcore.shards.format_table import find_format, get_folder
from tokcore_pipelines.build.cached_parts import KeptParts
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.build.read_log import Log, has_commits, locate_part, read_log
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.summed_totals import add_up_shards
from tokcore_schemas.commit_log import OWN
from tokcore_schemas.shard_entries import iterate_named_shards
from tokcore_schemas.stage_manifests import ShardsManifest, TokenizerManifest
from tokcore_schemas.stage_table import SHARDS, TOKENIZER, WHOLE

CARD = "README.md"

_HEAD = "---\n# Written by tokcore; manifest.json has its hash.\n"

_SCRATCH = "card"  # in the folder of unfinished work
_MOST_PARTS = 10  # that the text names
_ID_BYTES = 4  # of an id in an Arrow table
_ALL = "default"  # the configuration that load_dataset takes unless told otherwise

# What a card may call a language: its ISO 639 code, or code of programs. Ours begin with it, or have none.
_LANGUAGE = re.compile(r"([a-z]{2,3}|code)(?![a-z0-9])")


class _Stored(NamedTuple):
    """The shards of one split and one language (or of none, where languages share shards) of a part."""

    split: str
    lang: str
    documents: int
    tokens: int
    shards: int


class _Part(NamedTuple):
    """A part of an output: its path below the output, with a slash, and the shards that it has."""

    below: str  # empty: the output's own folder
    stored: list[_Stored]


class _Made(NamedTuple):
    """What a card says of the shards of a part, and no more, since an output may have many parts."""

    totals: ShardsManifest  # without files
    stored: list[_Stored]


def _sum_up(shards: ShardsManifest) -> _Made:
    found: dict[tuple[str, str], _Stored] = {}
    for shard in iterate_named_shards(shards):
        of = shard.facts
        before = found.get((of.split, of.lang), _Stored(of.split, of.lang, 0, 0, 0))
        found[of.split, of.lang] = before._replace(
            documents=before.documents + of.documents, tokens=before.tokens + of.tokens, shards=before.shards + 1
        )
    return _Made(dataclasses.replace(shards, files=()), [*found.values()])


def write_dataset_card(shards: ShardsManifest, tokenizer: TokenizerManifest) -> bytes:
    """The content of README.md, the same bytes for the same manifests."""
    return _write(shards, tokenizer, [_Part("", _sum_up(shards).stored)])


def _write(shards: ShardsManifest, tokenizer: TokenizerManifest, listed: Sequence[_Part]) -> bytes:
    """shards: totals and languages of all parts."""
    formats = [find_format(name) for name in shards.config.formats]
    stored = [one for part in listed for one in part.stored]
    head = "\n".join(_format_yaml(_make_metadata(shards, formats, listed)))
    parts = [
        _write_summary(shards, tokenizer),
        _format_table(("Split", "documents", "tokens", "shards"), _list_split_rows(stored)),
        _format_table(
            ("Language", "documents", "tokens", "bytes of text", "bytes per token"), _list_language_rows(shards)
        ),
        "OUT stands for the folder of this file.",
        *_describe_parts(listed),
        *(f"## {one.name}\n\n{one.usage.rstrip()}" for one in formats),
    ]
    return (_HEAD + head + "\n---\n\n" + "\n\n".join(parts) + "\n").encode()


def _describe_parts(listed: Sequence[_Part]) -> Iterator[str]:
    """Where the shards are, if not in the output's own folder."""
    if [part.below for part in listed] == [""]:
        return
    folders = [f"`OUT/{part.below.rstrip('/')}`".replace("OUT/`", "OUT`") for part in listed]
    shown = ", ".join(folders[:_MOST_PARTS])
    more = (
        f" and {len(folders) - _MOST_PARTS:,} more, which the head of this file names" if folders[_MOST_PARTS:] else ""
    )
    yield (
        f"The documents are in {len(folders):,} parts: {shown}{more}. "
        '`tokcore.open_shards("OUT")` and `datasets.load_dataset("OUT")` read all of them. Each part is a folder like '
        "OUT: in the examples below, write the part for OUT, and read one part after the other."
    )


def is_card(data: bytes) -> bool:
    """Whether a README.md is one of ours, of whatever build."""
    return data.startswith(_HEAD.encode())


def make_room_for_card(output: str, card: bytes | None = None) -> None:
    """Raise ConfigError if there is a README.md that is not ours where a build will write its card.

    card: the one to be written; removes another of ours, which a build left whose manifest is gone.
    """
    url = urls.join(output, CARD)
    if find_manifest(output, WHOLE) is not None or (standing := storage.read_if_there(url)) is None:
        return
    if not is_card(standing):
        raise ConfigError(
            f"{redact(url)}: is there, and a build writes its dataset card under this name. "
            f"Move it away, or choose another build.output."
        )
    if card is not None and standing != card:
        storage.remove_file(url)


def follow_commits(known: Log) -> None:
    """Make README.md that of the newest commit. A command that was killed before it did is followed by one that does.

    Several commands may commit at once. Each looks at the log again after it has written, so the last one to write
    leaves the card of the newest commit. known: the log, as it was read before.
    """
    output, log, newest = known.output, known, 0
    if not has_commits(output):
        return
    url = urls.join(output, CARD)
    while (log := read_log(output, known=log)).newest > newest:
        newest = log.newest
        card = write_commit_card(log, newest)
        if storage.read_if_there(url, len(card)) != card:
            storage.replace_file(url, card, urls.join(output, FOLDER, _SCRATCH))
            storage.remove_empty_folders(urls.join(output, FOLDER))


def write_commit_card(log: Log, number: int) -> bytes:
    """The content of README.md at a commit. Raises ConfigError if a manifest of one of its parts is gone."""
    parts = log.parts(number)
    made = _made_of_parts.read_all(log.output, parts)
    listed = [
        _Part("" if part.path == OWN else f"{part.path}/", of.stored) for part, of in zip(parts, made, strict=True)
    ]
    shards = made[0].totals if len(made) == 1 else add_up_shards([of.totals for of in made])
    return _write(shards, require_manifest(log.output, TOKENIZER), listed)


_made_of_parts = KeptParts(
    lambda output, part: _sum_up(require_manifest(locate_part(output, part), SHARDS, "update")),
)


def remove_card(output: str) -> None:
    """Remove README.md, if it is ours."""
    url = urls.join(output, CARD)
    if (standing := storage.read_if_there(url)) is not None and is_card(standing):
        storage.remove_file(url)


# ------------------------------------------------------------------------------------------------------------- the head


def _make_metadata(shards: ShardsManifest, formats: Sequence[ShardFormat], listed: Sequence[_Part]) -> dict[str, Any]:
    splits = _group_by_split([one for part in listed for one in part.stored])
    readable = next((one for one in formats if one.features), None)
    info: dict[str, Any] = {"config_name": _ALL}
    if readable is not None:
        own = [{"name": name, "dtype": kind} for name, kind in shards.config.metadata]
        info["features"] = [*map(dict, readable.features), *own]
    info["splits"] = [
        {
            "name": split,
            "num_bytes": _ID_BYTES * sum(shard.tokens for shard in own),
            "num_examples": sum(shard.documents for shard in own),
        }
        for split, own in splits.items()
    ]
    info["dataset_size"] = sum(split["num_bytes"] for split in info["splits"])
    languages = {found[1] for lang in shards.languages if (found := _LANGUAGE.match(lang.lower()))}
    return {
        **({"language": sorted(languages)} if languages else {}),
        "size_categories": [_find_size_category(shards.totals.records.documents)],
        "dataset_info": [info],
        **({"configs": _list_configs(shards, readable, listed)} if readable is not None else {}),
    }


def _group_by_split(stored: Sequence[_Stored]) -> dict[str, list[_Stored]]:
    """Split -> its shards; without any shard, training without any, so that there is a split to name."""
    return {split: [shard for shard in stored if shard.split == split] for split in _list_names(stored)}


def _list_names(stored: Sequence[_Stored]) -> list[str]:
    return sorted({shard.split for shard in stored} or {"train"})


def _list_configs(shards: ShardsManifest, one: ShardFormat, listed: Sequence[_Part]) -> list[dict[str, Any]]:
    """All documents, and where shards are kept apart by language each of them alone."""
    apart = sorted({shard.lang for part in listed for shard in part.stored if shard.lang} - {_ALL})
    everything = "/*" * (1 if shards.config.by == "lang" else len(shards.config.partition_by))
    return [
        {"config_name": _ALL, "data_files": _list_data_files(everything, one, listed)},
        *(
            {
                "config_name": lang,
                "data_files": _list_data_files(
                    f"/{lang}",
                    one,
                    [part._replace(stored=[shard for shard in part.stored if shard.lang == lang]) for part in listed],
                ),
            }
            for lang in apart
        ),
    ]


def _list_data_files(below: str, one: ShardFormat, listed: Sequence[_Part]) -> list[dict[str, Any]]:
    """Split -> the files of it, those of each part that has some. below: the folder of their language."""
    found = []
    for split in _list_names([one for part in listed for one in part.stored]):
        name = f"shards/{get_folder(one, split)}{below}/{split}-*{one.suffixes[0]}"
        has_some = [part for part in listed if any(one.split == split for one in part.stored)]
        paths = [f"{part.below}{name}" for part in has_some or listed[:1]]
        found.append({"split": split, "path": paths[0] if len(paths) == 1 else paths})
    return found


def _find_size_category(num: int) -> str:
    """The size class of a number of documents, as the Hugging Face hub names it.

    >>> _find_size_category(999), _find_size_category(1000), _find_size_category(10**7), _find_size_category(10**12)
    ('n<1K', '1K<n<10K', '10M<n<100M', 'n>1T')
    """
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    above = sum(num >= 10**power for power in range(3, 13))
    if not above:
        return f"n<{bounds[0]}"
    return f"{bounds[above - 1]}<n<{bounds[above]}" if above < len(bounds) else f"n>{bounds[-1]}"


def _format_yaml(value: Any, indent: str = "") -> Iterator[str]:
    """The lines of a value of dictionaries, lists, strings and integers. Text is quoted: `no` is a language."""
    for key, inner in value.items() if isinstance(value, dict) else ((None, inner) for inner in value):
        start = f"{indent}- " if key is None else f"{indent}{key}:"
        if not isinstance(inner, dict | list):
            yield f"{start}{'' if key is None else ' '}{json.dumps(inner, ensure_ascii=False)}"
        elif key is not None:
            yield start
            yield from _format_yaml(inner, f"{indent}  " if isinstance(inner, dict) else indent)
        else:
            first, *rest = _format_yaml(inner, f"{indent}  ")
            yield start + first.removeprefix(f"{indent}  ")
            yield from rest


# ------------------------------------------------------------------------------------------------------------- the text


def _write_summary(shards: ShardsManifest, tokenizer: TokenizerManifest) -> str:
    totals, config = shards.totals, shards.config
    marks = [
        f"{verb} {' '.join(f'`{json.dumps(text, ensure_ascii=False)[1:-1]}`' for text in texts)}"
        for verb, texts in (("begins with", config.prepend), ("ends with", config.append))
        if texts
    ]
    return (
        f"# Token shards\n\n"
        f"{totals.records.documents:,} documents in {len(shards.languages):,} languages, {totals.text_bytes:,} bytes "
        f"of text, as {totals.tokens:,} tokens. The tokenizer is in `tokenizer/`: {tokenizer.totals.vocab_size:,} ids, "
        f"fingerprint `{totals.fingerprint}`."
        + (f" Each document {' and '.join(marks)}." if marks else "")
        + " `tokcore verify OUT` checks every file."
    )


def _list_split_rows(stored: Sequence[_Stored]) -> Iterator[Sequence[str]]:
    for split, own in _group_by_split(stored).items():
        documents, tokens = sum(shard.documents for shard in own), sum(shard.tokens for shard in own)
        yield split, f"{documents:,}", f"{tokens:,}", f"{sum(shard.shards for shard in own):,}"


def _list_language_rows(shards: ShardsManifest) -> Iterator[Sequence[str]]:
    for lang, its in sorted(shards.languages.items()):
        yield lang, f"{its.documents:,}", f"{its.tokens:,}", f"{its.text_bytes:,}", its.bytes_per_token


def _format_table(names: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [names, ["---", *["--:"] * (len(names) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
