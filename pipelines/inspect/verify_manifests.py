"""What verification asks of manifests beyond their hashes: that they agree with each other and with the small files.

Every figure that stands in two places is compared, every figure that follows from others is computed again: an edit
that was made in one place, or hashed anew but not thought through, does not pass. No Beam.
"""

from __future__ import annotations

import functools
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipelines.inspect.verify_shards import NamedShard, item_of, named_shards, well_placed
from pipelines.stages import ledger
from pipelines.stages.commit import MANIFEST, build_content
from pipelines.stages.plan import FILES, content_of, parse_files_table
from pipelines.stages.rejects import REJECTED
from pipelines.stages.semantics import EARLIER, SEMANTICS, has_these_layouts
from pipelines.stages.tokenizer_files import artifact_files
from pipelines.store import storage, urls
from schemas.manifest import Input, Manifest, identity_of
from schemas.plan import Plan, make_plan
from tokcore.canonical import parse_canonical, sha256_hex
from tokcore.errors import TokError, VersionError
from tokcore.jsonable import from_jsonable
from tokcore.pretoken_tables import table_totals
from tokcore.tokenizer_spec import TokenizerSpec

# What reading a manifest's free fields raises if they are not what this release, or any, writes there.
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)

_KNOWN = (SEMANTICS, *filter(has_these_layouts, EARLIER))

# Stage -> the stages it is made from. Without counts where the tokenizer is an imported one.
_MADE_FROM: Mapping[str, tuple[str, ...]] = {
    "plan": (),
    "rejected": ("plan",),
    "counts": ("plan",),
    "tokenizer": ("counts",),
    "shards": ("plan", "tokenizer"),
}


def planned(output: str, manifest: Manifest) -> Plan:
    """The plan of an output, from its committed manifest and table of files."""
    url = urls.join(output, "plan", FILES)
    files = parse_files_table(storage.read_bytes(url), url)
    config = manifest.config
    return make_plan(files, config["settings"], config["range_bytes"], manifest.totals["duplicates"])


def file_ledgers(output: str) -> list[ledger.FileLedger]:
    """What became of each input file, as the output's rejected/ says."""
    url = urls.join(output, "rejected", FILES)
    lines = storage.read_bytes(url).splitlines(keepends=True)
    return [
        from_jsonable(ledger.FileLedger, parse_canonical(line, f"{url}:{i + 1}"), f"{url}:{i + 1}")
        for i, line in enumerate(lines)
    ]


def check_manifests(output: str, manifests: Mapping[str, Manifest], spec: TokenizerSpec | None) -> Iterator[str]:
    """What is wrong with the manifests of a finished build whose files are all as hashed.

    spec: the tokenizer's; None leaves it out.
    """
    plan = functools.cache(lambda: planned(output, manifests["plan"]))
    checks: dict[str, Callable[[], Iterator[str]]] = {
        "": lambda: _check_chain(manifests),
        "plan": lambda: _check_plan(plan(), manifests["plan"]),
        "rejected": lambda: _check_ledgers(output, plan(), manifests),
        "counts": lambda: _check_counts(manifests),
        "tokenizer": lambda: _check_tokenizer(manifests, spec) if spec is not None else iter(()),
        "shards": lambda: _check_shards(plan(), manifests),
    }
    for stage, check in checks.items():
        if stage and stage not in manifests:
            continue
        try:
            yield from check()
        except MALFORMED as error:
            yield f"{f'{stage}/' if stage else ''}{MANIFEST}: {type(error).__name__}: {error}"
        except TokError as error:
            yield str(error)


def _check_chain(manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """That stages are made from each other, and the build of them all."""
    build = manifests["build"]
    imported = "counts" not in build.config
    expected = {stage for stage in _MADE_FROM if not (imported and stage == "counts")}
    if set(build.inputs) != expected:
        yield f"{MANIFEST}: names the stages {sorted(build.inputs)}, expected {sorted(expected)}"
        return
    stages = {stage: made for stage, made in manifests.items() if stage != "build"}
    for stage, made in manifests.items():
        name = MANIFEST if stage == "build" else f"{stage}/{MANIFEST}"
        if made.stage != stage:
            yield f"{name}: is of stage {made.stage!r}"
        made_from = set(stages) if stage == "build" else {one for one in _MADE_FROM[stage] if one in expected}
        if set(made.inputs) != made_from:
            yield f"{name}: made from {sorted(made.inputs)}, expected {sorted(made_from)}"
            continue
        for one in made_from:
            if made.inputs[one] != stages[one].as_input():
                yield f"{name}: was made from another {one}"
        if made.root != (root := made.content_id() if stage == "build" else ""):
            yield f"{name}: its root is {made.root!r}, expected {root!r}"
    for stage in ("rejected", "tokenizer"):
        for entry in stages[stage].files:
            if entry.content_sha256 != entry.sha256:
                yield f"{stage}/{MANIFEST}: {entry.path}: stored as it is, yet content_sha256 is not sha256"
    content = build_content(stages)
    for field in ("files", "totals", "languages"):
        if getattr(build, field) != getattr(content, field):
            yield f"{MANIFEST}: its {field} are not what its stages say"
    configs = {stage: stages[stage].config for stage in ("counts", "tokenizer", "shards") if stage in stages}
    configs["tokenizer"] = {key: value for key, value in configs["tokenizer"].items() if key != "fingerprint"}
    if build.config != configs:
        yield f"{MANIFEST}: its config is not that of its stages"
    yield from _check_identities(manifests)


def _check_identities(manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """That all identities follow from what the manifests say and from one release's semantics.

    Raises VersionError if they are those of a release that laid out its files in another way.
    """
    for semantics in EARLIER:
        if not has_these_layouts(semantics) and not _not_under(semantics, manifests):
            raise VersionError(
                f"{MANIFEST}: an earlier release made this build, with files of another layout. "
                f"Verify it with that release, or build again into a new output."
            )
    wrong = min((_not_under(semantics, manifests) for semantics in _KNOWN), key=len)
    for stage in wrong:
        name = MANIFEST if stage == "build" else f"{stage}/{MANIFEST}"
        yield f"{name}: its identity is not that of its configuration and inputs"


def _not_under(semantics: Mapping[str, Any], manifests: Mapping[str, Manifest]) -> list[str]:
    return [stage for stage, made in manifests.items() if made.identity != identity_under(semantics, made)]


def identity_under(semantics: Mapping[str, Any], made: Manifest) -> str:
    """The identity that a release of these semantics gives to the stage."""
    inputs = {"files": Input(made.files[0].sha256, "")} if made.stage == "plan" and made.files else made.inputs
    return identity_of(made.stage, made.config, inputs, dict(semantics))


def _check_plan(plan: Plan, made: Manifest) -> Iterator[str]:
    expected = {
        "files": len(plan.files),
        "stored_bytes": plan.size_bytes,
        "items": len(plan.items),
        "partitions": plan.num_partitions,
        "duplicates": list(plan.duplicates),
    }
    yield from _differences(f"plan/{MANIFEST}: totals", made.totals, expected)
    if [file.uri for file in plan.files] != sorted({file.uri for file in plan.files}):
        yield f"plan/{FILES}: not sorted, or a file twice"
    if made.files[0].content_sha256 != sha256_hex(content_of(plan)):
        yield f"plan/{FILES}: its content is not what the manifest says"


def _check_ledgers(output: str, plan: Plan, manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """That records, bytes and reasons add up, file by file, and every stage read the same."""
    files = file_ledgers(output)
    for file, pinned in zip(files, plan.files, strict=False):
        if (file.uri, file.stored_bytes) != (pinned.uri, pinned.size_bytes):
            yield f"rejected/{FILES}: {file.uri} of {file.stored_bytes} bytes, planned was {pinned.uri}"
        if file.records != file.documents + sum(file.rejected.values()):
            yield f"rejected/{FILES}: {file.uri}: {file.records} records are not its documents and rejects"
    if len(files) != len(plan.files):
        yield f"rejected/{FILES}: {len(files)} files, {len(plan.files)} were planned"
    totals = ledger.totals_of(files)
    for stage in ("rejected", "counts", "shards"):
        if stage in manifests:
            of_stage = {key: manifests[stage].totals[key] for key in totals}
            yield from _differences(f"{stage}/{MANIFEST}: totals", of_stage, totals)
    for stage in ("counts", "shards"):
        if stage in manifests:
            languages = manifests[stage].languages
            for field, total in (("documents", totals["records"]["documents"]), ("text_bytes", totals["text_bytes"])):
                if (added := sum(language[field] for language in languages.values())) != total:
                    yield f"{stage}/{MANIFEST}: {added} {field} by language, {total} by file"
    reasons: Counter[tuple[str, bool, str]] = Counter()
    url = urls.join(output, "rejected", REJECTED)
    with io.BufferedReader(storage.open_read(url)) as lines:
        for line in lines:
            reject = parse_canonical(line, url)
            reasons[reject["file"], reject["record"] is None, reject["reason"]] += 1
    expected: Counter[tuple[str, bool, str]] = Counter()
    for file in files:
        expected.update({(file.uri, False, reason): num for reason, num in file.rejected.items()})
        if file.rejected_file:
            expected[file.uri, True, file.rejected_file] += 1
    for uri, _, reason in sorted((reasons - expected) + (expected - reasons)):
        yield f"rejected/{REJECTED}: {uri}: not as many rejects for {reason} as rejected/{FILES} says"


def _check_counts(manifests: Mapping[str, Manifest]) -> Iterator[str]:
    made = manifests["counts"]
    tables = {entry.about["lang"]: entry.about for entry in made.files}
    for lang, language in made.languages.items():
        table = tables.pop(lang, {"rows": 0, "pretokens": 0})
        for field in ("rows", "pretokens"):
            if table[field] != language[field]:
                yield f"counts/{MANIFEST}: {lang}: {language[field]} {field}, its table has {table[field]}"
        if language["counted_documents"] > language["documents"]:
            yield f"counts/{MANIFEST}: {lang}: more documents counted than read"
    for lang in tables:
        yield f"counts/{MANIFEST}: a table of {lang!r}, which has no documents"


def check_count_table(output: str, about: Mapping[str, Any], path: str, content_sha256: str) -> Iterator[str]:
    """That a count table holds the rows that its manifest says."""
    try:
        with storage.open_read(urls.join(output, "counts", path)) as file:
            totals = table_totals(file)
    except TokError as error:
        yield f"counts/{path}: {error}"
        return
    expected = {"rows": totals.num_rows, "pretokens": totals.num_pretokens, "pretoken_bytes": totals.key_bytes}
    yield from _differences(f"counts/{MANIFEST}: {path}", {key: about[key] for key in expected}, expected)
    if totals.content_sha256 != content_sha256:
        yield f"counts/{path}: its content is not what the manifest says"
    if path != f"{about['lang']}.parquet":
        yield f"counts/{path}: said to be of language {about['lang']!r}"


def _check_tokenizer(manifests: Mapping[str, Manifest], spec: TokenizerSpec) -> Iterator[str]:
    made = manifests["tokenizer"]
    expected = {
        "fingerprint": spec.fingerprint,
        **spec.model.facts(),
        "vocab_size": spec.vocab_size,
    }
    yield from _differences(f"tokenizer/{MANIFEST}: totals", {key: made.totals[key] for key in expected}, expected)
    for stage, place in (("shards", "totals"), ("tokenizer", "config")):
        fingerprint = getattr(manifests[stage], place).get("fingerprint", spec.fingerprint)
        if fingerprint != spec.fingerprint:
            yield f"{stage}/{MANIFEST}: names another tokenizer than tokenizer/tokcore.json"
    written = {entry.path: entry for entry in made.files}
    if made.identity != identity_under(SEMANTICS, made):
        return  # another release may write the field's formats in other bytes
    same = {path: sha256_hex(data) for path, data in artifact_files(spec)}
    for path in sorted(set(written) | set(same)):
        if path not in written or path not in same or written[path].sha256 != same[path]:
            yield f"tokenizer/{path}: not what the tokenizer in tokenizer/tokcore.json gives"


def _check_shards(plan: Plan, manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """That shards have their places, numbers and sums; what is in them is asked elsewhere."""
    made = manifests["shards"]
    config, totals = made.config, made.totals
    shards = named_shards(made.files)
    streams: dict[tuple[int, str, str], list[NamedShard]] = {}
    for shard in shards:
        first = shard.entries[0]
        for entry in shard.entries[1:]:
            if (entry.about, entry.content_sha256) != (first.about, first.content_sha256):
                yield f"shards/{entry.path}: described otherwise than {first.path}, the same shard"
        if not well_placed(shard, config["formats"]):
            yield f"shards/{MANIFEST}: {shard.name}: {[e.path for e in shard.entries]}: not its files"
        if (config["by"] == "lang") != bool(shard.lang):
            yield f"shards/{MANIFEST}: {shard.name}: is of language {shard.lang!r}, shards are by {config['by']}"
        if shard.split != "train" and (shard.split != "validation" or config["validation"] == "0"):
            yield f"shards/{MANIFEST}: {shard.name}: is of split {shard.split!r}"
        streams.setdefault((item_of(shard.name), shard.lang, shard.split), []).append(shard)
    for (item, _, split), stream in streams.items():
        names = [f"{split}-{item:05d}-{number:05d}" for number in range(len(stream))]
        if [shard.name for shard in stream] != names or not 0 <= item < len(plan.items):
            yield f"shards/{MANIFEST}: {[shard.name for shard in stream]}: expected {names}"
        for shard in stream[:-1]:
            if shard.entries[0].about["tokens"] < config["target_tokens"]:
                yield f"shards/{MANIFEST}: {shard.name}: ended before it reached {config['target_tokens']} tokens"
    abouts = [shard.entries[0].about for shard in shards]
    expected = {
        "shards": len(shards),
        "tokens": sum(about["tokens"] for about in abouts),
    }
    yield from _differences(f"shards/{MANIFEST}: totals", {key: totals[key] for key in expected}, expected)
    for field in ("documents", "tokens"):
        of_shards, of_languages = (
            sum(about[field] for about in abouts),
            sum(language[field] for language in made.languages.values()),
        )
        if of_shards != of_languages:
            yield f"shards/{MANIFEST}: {of_languages} {field} by language, {of_shards} in shards"
    for lang, language in made.languages.items():
        if language["bytes_per_token"] != ledger.fixed(language["text_bytes"], language["tokens"]):
            yield f"shards/{MANIFEST}: {lang}: bytes_per_token = {language['bytes_per_token']}"
    if "counts" in manifests:
        counted = {lang: language["documents"] for lang, language in manifests["counts"].languages.items()}
        encoded = {lang: language["documents"] for lang, language in made.languages.items()}
        yield from _differences(f"shards/{MANIFEST}: documents by language, as counted", encoded, counted)


def _differences(where: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(set(found) | set(expected)):
        if found.get(key) != expected.get(key):
            yield f"{where}: {key} = {found.get(key)!r:.80}, expected {expected.get(key)!r:.80}"
