"""The dataset card: README.md of an output, from which Hugging Face's datasets knows which files are its documents.

It follows from the manifests of the stages, so it names neither build, path nor time. The build's manifest names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.stages.commit import find_manifest
from pipelines.store import storage, urls
from pipelines.store.redaction import redact
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import BUILD, ShardsManifest, TokenizerManifest
from tokcore.errors import ConfigError
from tokcore.format_table import find_format, get_folder
from tokcore.formats.shard_format import ShardFacts, ShardFormat

CARD = "README.md"

_HEAD = "---\n# Written by tokcore; manifest.json has its hash.\n"

_ID_BYTES = 4  # of an id in an Arrow table
_ALL = "default"  # the configuration that load_dataset takes unless told otherwise

# What a card may call a language: its ISO 639 code, or code of programs. Ours begin with it, or have none.
_LANGUAGE = re.compile(r"([a-z]{2,3}|code)(?![a-z0-9])")


def write_dataset_card(shards: ShardsManifest, tokenizer: TokenizerManifest) -> bytes:
    """The content of README.md, the same bytes for the same manifests."""
    formats = [find_format(name) for name in shards.config.formats]
    stored = [shard.facts for shard in list_named_shards(shards)]
    head = "\n".join(_format_yaml(_make_metadata(shards, formats, stored)))
    parts = [
        _write_summary(shards, tokenizer),
        _format_table(("Split", "documents", "tokens", "shards"), _list_split_rows(stored)),
        _format_table(
            ("Language", "documents", "tokens", "bytes of text", "bytes per token"), _list_language_rows(shards)
        ),
        "OUT stands for the folder of this file.",
        *(f"## {one.name}\n\n{one.usage.rstrip()}" for one in formats),
    ]
    return (_HEAD + head + "\n---\n\n" + "\n\n".join(parts) + "\n").encode()


def is_card(data: bytes) -> bool:
    """Whether a README.md is one of ours, of whatever build."""
    return data.startswith(_HEAD.encode())


def make_room_for_card(output: str, card: bytes | None = None) -> None:
    """Raise ConfigError if there is a README.md that is not ours where a build will write its card.

    card: the one to be written; removes another of ours, which a build left whose manifest is gone.
    """
    url = urls.join(output, CARD)
    if find_manifest(output, BUILD) is not None or (standing := storage.read_if_there(url)) is None:
        return
    if not is_card(standing):
        raise ConfigError(
            f"{redact(url)}: is there, and a build writes its dataset card under this name. "
            f"Move it away, or choose another build.output."
        )
    if card is not None and standing != card:
        storage.remove_file(url)


def remove_card(output: str) -> None:
    """Remove README.md, if it is ours."""
    url = urls.join(output, CARD)
    if (standing := storage.read_if_there(url)) is not None and is_card(standing):
        storage.remove_file(url)


# ------------------------------------------------------------------------------------------------------------- the head


def _make_metadata(
    shards: ShardsManifest, formats: Sequence[ShardFormat], stored: Sequence[ShardFacts]
) -> dict[str, Any]:
    splits = _group_by_split(stored)
    readable = next((one for one in formats if one.features), None)
    info: dict[str, Any] = {"config_name": _ALL}
    if readable is not None:
        info["features"] = [dict(feature) for feature in readable.features]
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
        **({"configs": _list_configs(shards, readable, stored)} if readable is not None else {}),
    }


def _group_by_split(stored: Sequence[ShardFacts]) -> dict[str, list[ShardFacts]]:
    """Split -> its shards; without any shard, training without any, so that there is a split to name."""
    return {split: [shard for shard in stored if shard.split == split] for split in _list_names(stored)}


def _list_names(stored: Sequence[ShardFacts]) -> list[str]:
    return sorted({shard.split for shard in stored} or {"train"})


def _list_configs(shards: ShardsManifest, one: ShardFormat, stored: Sequence[ShardFacts]) -> list[dict[str, Any]]:
    """All documents, and where shards are kept apart by language each of them alone."""
    apart = sorted({shard.lang for shard in stored if shard.lang} - {_ALL})
    everything = "/*" if shards.config.by == "lang" else ""
    return [
        {"config_name": _ALL, "data_files": _list_data_files(everything, one, _list_names(stored))},
        *(
            {
                "config_name": lang,
                "data_files": _list_data_files(
                    f"/{lang}", one, _list_names([shard for shard in stored if shard.lang == lang])
                ),
            }
            for lang in apart
        ),
    ]


def _list_data_files(below: str, one: ShardFormat, splits: Sequence[str]) -> list[dict[str, str]]:
    """Split -> the files of it. below: the folder of their language, below that of their split."""
    return [
        {"split": split, "path": f"shards/{get_folder(one, split)}{below}/{split}-*{one.suffixes[0]}"}
        for split in splits
    ]


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


def _list_split_rows(stored: Sequence[ShardFacts]) -> Iterator[Sequence[str]]:
    for split, own in _group_by_split(stored).items():
        documents, tokens = sum(shard.documents for shard in own), sum(shard.tokens for shard in own)
        yield split, f"{documents:,}", f"{tokens:,}", f"{len(own):,}"


def _list_language_rows(shards: ShardsManifest) -> Iterator[Sequence[str]]:
    for lang, its in sorted(shards.languages.items()):
        yield lang, f"{its.documents:,}", f"{its.tokens:,}", f"{its.text_bytes:,}", its.bytes_per_token


def _format_table(names: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [names, ["---", *["--:"] * (len(names) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
