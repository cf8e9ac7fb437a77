"""What differs between two builds, finished or not: read from their manifests, tables of files and counts. No Beam.

Nothing is hashed again: that the manifests are true is `tokcore verify`'s to say.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tokcore.count.pretoken_rows import CountRows, list_rows
from tokcore.errors import ConfigError
from tokcore.files.jsonable import to_jsonable
from tokcore.formats.shard_facts import ShardFacts
from tokcore.models.model import Rules
from tokcore.tokenizer.tokenizer_spec import SpecialToken
from tokcore_pipelines.build.dataset_card import CARD
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.counted_parts import CountedPart, CountedParts
from tokcore_schemas.manifest import AnyManifest, remove_result_key
from tokcore_schemas.plan import InputFile, Plan, ReadSettings
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    CountsManifest,
    PlanManifest,
    RejectedManifest,
    ShardsManifest,
    TokenizerManifest,
    TokenizersManifest,
)
from tokcore_schemas.stage_table import (
    BUILD,
    COUNTS,
    PLAN,
    REJECTED,
    SHARDS,
    STAGES,
    TOKENIZER,
    TOKENIZERS,
    WHOLE,
    Stage,
)

Row = tuple[bytes, int, int]
Files = Mapping[str, tuple[InputFile, ReadSettings]]  # by uri, with the settings they are read with
AManifest = TypeVar("AManifest", bound=AnyManifest)

# Of each kind, as many are kept as fit on a screen beside the rest; how many there are is always said.
NUM_EXAMPLES = 5


def diff(one: str, other: str) -> dict[str, Any]:
    """What differs between the builds of two outputs, by kind; an empty dict if nothing does.

    Raises ConfigError unless both hold at least one finished stage, FormatError for a file that is not a manifest.
    """
    a, b = _open_side(one), _open_side(other)
    parts: dict[str, Any] = {"stages": _diff_stages(a, b), "configuration": _diff_configuration(a, b)}
    for stage in STAGES.values():
        if (both := find_both(a.find(stage), b.find(stage))) is not None:
            find: Callable[..., dict[str, Any]] = _DIFFS.get(stage, diff_derived)
            parts |= find(a, b, *both)
    builds = a.find(WHOLE), b.find(WHOLE)
    parts["card"] = _diff_card(*builds)
    parts["root"] = make_pair(*(build.root if build is not None else "" for build in builds))
    return {kind: found for kind, found in parts.items() if found}


def _open_side(output: str) -> Stored:
    """One of the two outputs, as far as it was built."""
    stored = Stored(output)
    if not stored.stages:
        storage.require_bucket(output)
        raise ConfigError(f"{redact(output)}: no finished stage of a build is there")
    return stored


def _diff_card(one: BuildManifest | None, other: BuildManifest | None) -> list[Any]:
    """Hashes of the dataset cards, where they do not differ because their builds do: other releases, other words."""
    if one is None or other is None or one.inputs != other.inputs:
        return []
    hashes = [{entry.path: entry.content_sha256 for entry in build.files}.get(CARD) for build in (one, other)]
    return make_pair(*hashes)


def find_both(one: AManifest | None, other: AManifest | None) -> tuple[AManifest, AManifest] | None:
    """The manifests of a stage, if both sides have it and it is not the same."""
    return None if one is None or other is None or one == other else (one, other)


def _diff_stages(a: Stored, b: Stored) -> dict[str, Any]:
    one, other = ({**side.stages, **({BUILD: None} if side.find(WHOLE) else {})} for side in (a, b))
    found = {
        "only_a": [name for name in one if name not in other],
        "only_b": [name for name in other if name not in one],
    }
    return found if any(found.values()) else {}


def _diff_configuration(a: Stored, b: Stored) -> dict[str, Any]:
    """Dotted key -> [its value in a, in b]. Of the plan, only its range size: see _diff_inputs for the rest."""
    found: dict[str, Any] = {}
    for stage in STAGES:
        if (both := find_both(a.stages.get(stage), b.stages.get(stage))) is None:
            continue
        one, other = (_flatten(to_jsonable(made.config), stage) for made in both)
        found |= {key: value for key, value in diff_by_key(one, other).items() if not key.startswith("plan.settings")}
    found.pop("tokenizer.fingerprint", None)
    return found


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> leaf."""
    if not isinstance(value, dict):
        return {prefix: value}
    dot = "." if prefix else ""
    return {key: leaf for name, inner in value.items() for key, leaf in _flatten(inner, f"{prefix}{dot}{name}").items()}


def diff_by_key(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Key -> [value in one, in other], where they differ; None where there is none."""
    if not one or not other:
        return {}
    return {
        key: [one.get(key), other.get(key)]
        for key in sorted({*one, *other})
        if key not in one or key not in other or one[key] != other[key]
    }


def make_pair(one: Any, other: Any) -> list[Any]:
    return [one, other] if one and other and one != other else []


def summarize(items: Sequence[Any]) -> dict[str, Any]:
    """How many there are, and the first of them."""
    return {"number": len(items), "first": list(items[:NUM_EXAMPLES])}


def _diff_rejected(a: Stored, b: Stored, *both: RejectedManifest) -> dict[str, Any]:
    return {REJECTED.name: diff_by_key(*(_flatten(to_jsonable(made.totals)) for made in both))}


def _diff_inputs(a: Stored, b: Stored, *both: PlanManifest) -> dict[str, Any]:
    return {"inputs": diff_files(_list_inputs(a.plan), _list_inputs(b.plan))}


def _list_inputs(plan: Plan) -> Files:
    return {file.uri: (file, plan.settings[file.settings]) for file in plan.files}


def diff_files(one: Files, other: Files) -> dict[str, Any]:
    """The input files that only one has, and those that are not the same."""
    changed = []
    for uri in sorted(set(one) & set(other)):
        (mine, read), (its, its_read) = one[uri], other[uri]
        if mine.size_bytes != its.size_bytes:
            changed.append(f"{uri}: {mine.size_bytes} / {its.size_bytes} bytes")
        elif read != its_read:
            keys = sorted(diff_by_key(to_jsonable(read), to_jsonable(its_read)))
            changed.append(f"{uri}: read with another {', '.join(keys)}")
        elif mine.version != its.version:
            changed.append(f"{uri}: {mine.version} / {its.version}")
    found = {
        "only_a": summarize(sorted(set(one) - set(other))),
        "only_b": summarize(sorted(set(other) - set(one))),
        "changed": summarize(changed),
    }
    return {key: some for key, some in found.items() if some["number"]}


# --------------------------------------------------------------------------------------------------------------- counts


def _diff_counts(a: Stored, b: Stored, *both: CountsManifest) -> dict[str, Any]:
    """Language -> totals that differ, how many rows do, and examples: [pre-token, count in a, count in b]."""
    tables = [CountedParts((CountedPart(side.url, made),)) for side, made in zip((a, b), both, strict=True)]
    contents = [{(*entry.about.key, entry.content_sha256) for entry in made.files} for made in both]
    found: dict[str, Any] = {}
    for lang in sorted({*both[0].languages, *both[1].languages}):
        totals = [to_jsonable(of) if (of := made.languages.get(lang)) is not None else {} for made in both]
        entry: dict[str, Any] = {  # without a mask there is no count of masked spans, with one it may be empty
            key: [side.get(key) or 0 for side in totals]
            for key in sorted({*totals[0], *totals[1]})
            if (totals[0].get(key) or 0) != (totals[1].get(key) or 0)
        }
        one, other = ({content for content in side if content[0] == lang} for side in contents)
        if one != other:  # tables of splits and sources are compared added up: another output may not have them
            rows = [side.read_rows(lang) for side in tables]
            entry["different_rows"], entry["examples"] = find_different_rows(*rows)
        if entry:
            found[lang] = entry
    return {COUNTS.name: found}


def find_different_rows(one: Iterator[CountRows], other: Iterator[CountRows]) -> tuple[int, list[list[Any]]]:
    """(rows that only one table has or that differ, those that differ most in count). Both tables are sorted."""
    num = 0
    examples: list[tuple[int, bytes, int, int]] = []
    for key, mine, its in _join_rows(one, other):
        if mine != its:
            num += 1
            examples.append((-abs(mine[0] - its[0]), key, mine[0], its[0]))
            if len(examples) > 1 << 16:
                examples = sorted(examples)[:NUM_EXAMPLES]
    shown = [
        [key.decode("utf-8", "backslashreplace"), mine, its] for _, key, mine, its in sorted(examples)[:NUM_EXAMPLES]
    ]
    return num, shown


def _join_rows(
    one: Iterator[CountRows], other: Iterator[CountRows]
) -> Iterator[tuple[bytes, tuple[int, int], tuple[int, int]]]:
    """(key, (count, documents) in one, in other) in the order of keys; zeros where a table has no such row."""
    left, right = _iterate_tuples(one), _iterate_tuples(other)
    mine, its = next(left, None), next(right, None)
    while mine is not None or its is not None:
        if its is None or (mine is not None and mine[0] < its[0]):
            assert mine is not None
            yield mine[0], mine[1:], (0, 0)
            mine = next(left, None)
        elif mine is None or its[0] < mine[0]:
            yield its[0], (0, 0), its[1:]
            its = next(right, None)
        else:
            yield mine[0], mine[1:], its[1:]
            mine, its = next(left, None), next(right, None)


def _iterate_tuples(blocks: Iterator[CountRows]) -> Iterator[Row]:
    return itertools.chain.from_iterable(map(list_rows, blocks))


# ------------------------------------------------------------------------------------------------------------ tokenizer


def _diff_sizes(a: Stored, b: Stored, *both: TokenizersManifest) -> dict[str, Any]:
    """Size -> the fingerprints of its tokenizers, where they differ; None where there is none of that size."""
    sizes = ({size: one.fingerprint for size, one in made.totals.sizes.items()} for made in both)
    return {TOKENIZERS.name: diff_by_key(*sizes)}


def _diff_tokenizer(a: Stored, b: Stored, *both: TokenizerManifest) -> dict[str, Any]:
    """Fingerprint, vocabulary, and where the lists of what the models learned part."""
    found: dict[str, Any] = diff_by_key(
        *({key: value for key, value in to_jsonable(made.totals).items() if key != "mix"} for made in both)
    )
    weights = [of if isinstance(of := made.totals.mix.get("weights"), dict) else {} for made in both]
    if changed := {lang: pair for lang, pair in diff_by_key(*weights).items() if pair[0] != pair[1]}:
        found["weights"] = changed
    if "fingerprint" not in found:
        return {TOKENIZER.name: found}
    specs = [a.spec, b.spec]
    rules = [spec.model.rules() for spec in specs]
    found |= (
        _diff_rules(*rules) if rules[0].name == rules[1].name else {"model": [spec.model.summary for spec in specs]}
    )
    special = [{token.text: _describe_token(token) for token in spec.special} for spec in specs]
    if changed := diff_by_key(*special):
        found["special"] = changed
    return {TOKENIZER.name: found}


def _describe_token(token: SpecialToken) -> list[int | str | None]:
    return [token.id, token.role, *([] if token.is_special else ["always"])]


def _diff_rules(one: Rules, other: Rules) -> dict[str, Any]:
    """How many rules of one name both have, and the first that differs; nothing where there is none."""
    lists = (one.listed, other.listed)
    if not any(lists):
        return {}
    found: dict[str, Any] = {f"{one.name}s_shared": (Counter(lists[0]) & Counter(lists[1])).total()}
    rank = next((i for i, (x, y) in enumerate(zip(*lists, strict=False)) if x != y), min(map(len, lists)))
    if rank < max(map(len, lists)):
        at_rank = [_spell(own[rank]) if rank < len(own) else None for own in lists]
        found[f"first_different_{one.name}"] = {"rank": rank, f"{one.name}s": at_rank}
    return found


def _spell(rule: tuple[bytes, ...]) -> list[str]:
    return [part.decode("utf-8", "backslashreplace") for part in rule]


# --------------------------------------------------------------------------------------------------------------- shards


def _diff_shards(a: Stored, b: Stored, *both: ShardsManifest) -> dict[str, Any]:
    return {"documents": _diff_documents(both), **diff_derived(a, b, *both)}


def _diff_documents(both: tuple[ShardsManifest, ...]) -> dict[str, Any]:
    """Digest and numbers of documents and tokens, in all and by language; of what is ever encoded, not of its files."""
    keys = ("documents_digest", "text_bytes", "tokens")
    found: dict[str, Any] = diff_by_key(*({key: getattr(made.totals, key) for key in keys} for made in both))
    numbers = [made.totals.records.documents for made in both]
    if numbers[0] != numbers[1]:
        found["documents"] = numbers
    languages = {}
    for lang in sorted({*both[0].languages, *both[1].languages}):
        own = [made.languages.get(lang) for made in both]
        pairs = {key: [getattr(of, key, 0) for of in own] for key in ("documents", "tokens")}
        if differing := {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}:
            languages[lang] = differing
    if languages:
        found["languages"] = languages
    return found


def diff_derived(a: Any, b: Any, *both: Any) -> dict[str, Any]:
    """The shards that only one has, and those that are not the same."""
    contents = [{s.facts.place: s.content_sha256 for s in list_named_shards(made)} for made in both]
    stored = [
        {
            remove_result_key(entry.path, entry.about.result_key): (entry.content_sha256, entry.sha256)
            for entry in made.files
            if isinstance(entry.about, ShardFacts)  # other files name these, and so hold their result keys
        }
        for made in both
    ]
    one, other = contents
    shared = sorted(set(one) & set(other))
    only_bytes = [
        path
        for path in sorted(set(stored[0]) & set(stored[1]))
        if stored[0][path][0] == stored[1][path][0] and stored[0][path][1] != stored[1][path][1]
    ]
    found = {
        "only_a": summarize(sorted(set(one) - set(other))),
        "only_b": summarize(sorted(set(other) - set(one))),
        "other_content": summarize([name for name in shared if one[name] != other[name]]),
        "same_content_in_other_bytes": summarize(only_bytes),
    }
    return {both[0].stage: {key: some for key, some in found.items() if some["number"]}}


# Of the stages that are more than their shards.
_DIFFS: dict[Stage[Any], Callable[..., dict[str, Any]]] = {
    PLAN: _diff_inputs,
    REJECTED: _diff_rejected,
    COUNTS: _diff_counts,
    TOKENIZERS: _diff_sizes,
    TOKENIZER: _diff_tokenizer,
    SHARDS: _diff_shards,
}
