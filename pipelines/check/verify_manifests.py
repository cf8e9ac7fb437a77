"""What verification asks of manifests beyond their hashes: that they agree with each other and with the small files.

Every figure that stands in two places is compared, and every figure that follows from others is computed again. So an
edit that was made in one place only does not pass, even if all hashes were updated. No Beam.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tokcore.count.pretoken_tables import read_table_totals
from tokcore.errors import FormatError, TokError, VersionError
from tokcore.files.canonical_json import hash_sha256
from tokcore.files.jsonable import to_jsonable
from tokcore.formats.shard_facts import ShardFacts
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import MANIFEST
from tokcore_pipelines.build.dataset_card import CARD, write_dataset_card
from tokcore_pipelines.build.finish import sum_up_build, sum_up_languages
from tokcore_pipelines.build.make_tokenizer import sum_up_tokenizer
from tokcore_pipelines.build.plan_corpus import hash_content, sum_up_plan
from tokcore_pipelines.build.rejects import REJECTS
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS
from tokcore_pipelines.build.tokenizer_files import find_foreign_artifacts
from tokcore_pipelines.check.verify_derived import check_folder_indexes, check_shards, check_totals
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.json_lines import read_lines, read_table
from tokcore_pipelines.store.pinned_inputs import FILES
from tokcore_pipelines.store.tokenizers import load_spec_of_folder
from tokcore_pipelines.work.language_totals import format_ratio
from tokcore_pipelines.work.result_keys import hash_shards_settings, make_shards_key, make_shuffled_key, make_table_key
from tokcore_pipelines.work.semantics import EARLIER, SEMANTICS, has_these_layouts
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.manifest import AnyManifest, FileEntry, Input, compute_identity
from tokcore_schemas.plan import Plan
from tokcore_schemas.shard_entries import (
    list_named_shards,
)
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    CountedLanguage,
    CountsConfig,
    ImportedConfig,
    LearnedConfig,
    LedgerTotals,
    ShardsManifest,
    StageConfigs,
    TableAbout,
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
    get_stage,
)

# Of this release, and of those that laid out their files like it.
KNOWN = (SEMANTICS, *filter(has_these_layouts, EARLIER))


def require_whole(found: Mapping[str, AnyManifest]) -> None:
    """Raise FormatError if there are too few or too many manifests beside the build's. found: by stage."""
    build: BuildManifest = found[BUILD]
    expected = {name for name, stage in STAGES.items() if stage.is_in(build.config)}
    if set(build.inputs) != expected or not expected <= set(found):
        raise FormatError(f"{MANIFEST}: names the stages {sorted(build.inputs)}, expected {sorted(expected)}")


def read_file_ledgers(output: str) -> list[ledger.FileLedger]:
    """What became of each input file, as the output's rejected/ says."""
    return read_table(urls.join(output, REJECTED.name, FILES), ledger.FileLedger)


def check_manifests(stored: Stored, reads_tokenizers: bool) -> Iterator[str]:
    """What is wrong with the manifests of a finished build whose files are all as hashed.

    reads_tokenizers: whether those of tokenizers are compared with what is in the files.
    """
    checks = [
        _CHECKS.get(STAGES[name]) or functools.partial(_check_derived, stage=STAGES[name]) for name in stored.stages
    ]
    unread = () if reads_tokenizers else (_check_tokenizer, _check_sizes)
    for check in (_check_chain, *(check for check in checks if check not in unread)):
        try:
            yield from check(stored)
        except VersionError as error:  # this release does not know what the rest should be
            yield str(error)
            return
        except TokError as error:
            yield str(error)


def _check_chain(stored: Stored) -> Iterator[str]:
    """That stages are made from each other, and the build of them all."""
    stages = stored.stages
    for name, made in {**stages, BUILD: stored.get(WHOLE)}.items():
        where = _spell_name(name)
        made_from = set(stages) if name == BUILD else STAGES[name].find_inputs(stages)
        if isinstance(made.config, ImportedConfig):  # made from nothing, even if there are counts beside it
            made_from = set()
        if set(made.inputs) != made_from:
            yield f"{where}: made from {sorted(made.inputs)}, expected {sorted(made_from)}"
            continue
        for one in made_from:
            if made.inputs[one] != stages[one].as_input():
                yield f"{where}: was made from another {one}"
        if made.root != (root := made.content_id() if name == BUILD else ""):
            yield f"{where}: its root is {made.root!r}, expected {root!r}"
        for entry in made.files if get_stage(name).is_plain else ():
            if entry.content_sha256 != entry.sha256:
                yield f"{where}: {entry.path}: stored as it is, yet content_sha256 is not sha256"
    yield from _check_build(stored)
    yield from _check_identities({**stages, BUILD: stored.get(WHOLE)})


def _check_build(stored: Stored) -> Iterator[str]:
    """That the build's manifest says what those of its stages say."""
    build, tokenizer, shards = stored.get(WHOLE), stored.get(TOKENIZER), stored.get(SHARDS)
    if [entry.path for entry in build.files] != [CARD]:
        yield f"{MANIFEST}: names the files {[entry.path for entry in build.files]}, expected {CARD}"
    # Another release may have found other words for it.
    elif build.identity == compute_identity_under(SEMANTICS, build) and build.files[0].sha256 != hash_sha256(
        write_dataset_card(shards, tokenizer)
    ):
        yield f"{CARD}: not what follows from the manifests"
    if build.totals != sum_up_build(shards, tokenizer):
        yield f"{MANIFEST}: its totals are not what its stages say"
    if build.languages != sum_up_languages(shards, tokenizer, stored.find(COUNTS)):
        yield f"{MANIFEST}: its languages are not what its stages say"
    configs = {field.name: stored.stages.get(field.name) for field in dataclasses.fields(StageConfigs)}
    of_stages: dict[str, Any] = {name: made.config if made is not None else None for name, made in configs.items()}
    if isinstance(tokenizer.config, ImportedConfig):
        of_stages[TOKENIZER.name] = ImportedConfig()
    if build.config != StageConfigs(**of_stages):
        yield f"{MANIFEST}: its config is not that of its stages"


def _spell_name(stage: str) -> str:
    return MANIFEST if stage == BUILD else f"{stage}/{MANIFEST}"


def _check_identities(manifests: Mapping[str, AnyManifest]) -> Iterator[str]:
    """That all identities follow from what the manifests say and from one release's semantics.

    Raises VersionError if they are those of a release that laid out its files in another way.
    """
    for semantics in EARLIER:
        if not has_these_layouts(semantics) and not _find_not_under(semantics, manifests):
            raise VersionError(
                f"{MANIFEST}: an earlier release made this build, with files of another layout. "
                f"Verify it with that release, or build again into a new output."
            )
    wrong = min((_find_not_under(semantics, manifests) for semantics in KNOWN), key=len)
    for stage in wrong:
        yield f"{_spell_name(stage)}: its identity is not that of its configuration and inputs"


def _find_not_under(semantics: Mapping[str, Any], manifests: Mapping[str, AnyManifest]) -> list[str]:
    return [stage for stage, made in manifests.items() if made.identity != compute_identity_under(semantics, made)]


def compute_identity_under(semantics: Mapping[str, Any], made: AnyManifest) -> str:
    """The identity that a release of these semantics gives to the stage."""
    inputs = {"files": Input(made.files[0].sha256, "")} if _pins_files(made) else made.inputs
    return compute_identity(made.stage, made.config, inputs, semantics, made.format_version)


def _pins_files(made: AnyManifest) -> bool:
    """Whether the table of files is an input that only the stage's identity knows."""
    return made.stage != BUILD and not STAGES[made.stage].made_from and bool(made.files)


def _check_plan(stored: Stored) -> Iterator[str]:
    plan, made = stored.plan, stored.get(PLAN)
    yield from list_differences(f"plan/{MANIFEST}: totals", to_jsonable(made.totals), to_jsonable(sum_up_plan(plan)))
    if [file.uri for file in plan.files] != sorted({file.uri for file in plan.files}):
        yield f"plan/{FILES}: not sorted, or a file twice"
    if made.file(FILES).content_sha256 != hash_content(plan):
        yield f"plan/{FILES}: its content is not what the manifest says"


def _check_ledgers(stored: Stored) -> Iterator[str]:
    """That records, bytes and reasons add up, file by file, and every stage read the same."""
    plan, files = stored.plan, read_file_ledgers(stored.url)
    for file, pinned in zip(files, plan.files, strict=False):
        if (file.uri, file.stored_bytes) != (pinned.uri, pinned.size_bytes):
            yield f"rejected/{FILES}: {file.uri} of {file.stored_bytes} bytes, planned was {pinned.uri}"
        if file.records != file.documents + sum(file.rejected.values()) + file.removed:
            yield f"rejected/{FILES}: {file.uri}: {file.records} records are not its documents, rejects and removed"
    if len(files) != len(plan.files):
        yield f"rejected/{FILES}: {len(files)} files, {len(plan.files)} were planned"
    totals = ledger.sum_up_ledgers(files)
    for made in (stored.stages[name] for name in (REJECTED.name, *REJECTED.within) if name in stored.stages):
        of_stage = LedgerTotals(made.totals.records, made.totals.files, made.totals.text_bytes)
        yield from list_differences(f"{_spell_name(made.stage)}: totals", to_jsonable(of_stage), to_jsonable(totals))
        for field, total in (("documents", totals.records.documents), ("text_bytes", totals.text_bytes)):
            added = sum(getattr(language, field) for language in made.languages.values())
            if not STAGES[made.stage].within and added != total:
                yield f"{_spell_name(made.stage)}: {added} {field} by language, {total} by file"
    reasons: Counter[tuple[str, bool, str]] = Counter()
    url = urls.join(stored.url, REJECTED.name, REJECTS)
    for reject in read_lines(url, ledger.PlacedReject):
        reasons[reject.file, reject.record is None, reject.reason] += 1
    expected: Counter[tuple[str, bool, str]] = Counter()
    for file in files:
        expected.update({(file.uri, False, reason): num for reason, num in file.rejected.items()})
        if file.rejected_file:
            expected[file.uri, True, file.rejected_file] += 1
    for uri, _, reason in sorted((reasons - expected) + (expected - reasons)):
        yield f"rejected/{REJECTS}: {uri}: not as many rejects for {reason} as rejected/{FILES} says"


def _check_counts(stored: Stored) -> Iterator[str]:
    made = stored.get(COUNTS)
    tables: defaultdict[str, dict[CountKey, TableAbout]] = defaultdict(dict)
    for entry in made.files:
        if tables[entry.about.lang].setdefault(entry.about.key, entry.about) is not entry.about:
            yield f"counts/{MANIFEST}: {entry.path}: another table has its language, split and source"
    for lang, language in made.languages.items():
        own = tables.pop(lang, {})
        for field in ("rows", "pretokens"):
            if (held := sum(getattr(one, field) for one in own.values())) != (said := getattr(language, field)):
                yield f"counts/{MANIFEST}: {lang}: {said} {field}, its tables have {held}"
        if language.counted_documents > language.documents:
            yield f"counts/{MANIFEST}: {lang}: more documents counted than read"
        yield from _check_origins(made.config, lang, language, own)
    for lang in tables:
        yield f"counts/{MANIFEST}: a table of {lang!r}, which has no documents"
    for entry in made.files:
        if entry.about.result_key != make_table_key(made.identity):
            yield f"counts/{MANIFEST}: {entry.path}: its result key is not that of the stage's identity"


def _check_origins(
    config: CountsConfig, lang: str, language: CountedLanguage, tables: Mapping[CountKey, TableAbout]
) -> Iterator[str]:
    """That what splits and sources bring to a language is what was counted of it, and what its tables hold."""
    where = f"counts/{MANIFEST}: {lang}"
    told = {CountKey(lang, one.split, one.source): one for one in language.origins}
    if len(told) != len(language.origins):
        yield f"{where}: a split and source comes twice among its origins"
    for key in sorted({*told, *tables}):
        is_of_split = key.split in (("train", "validation") if "split" in config.apart_by else ("",))
        if not is_of_split or (key.source and "source" not in config.apart_by):
            yield f"{where}: split {key.split!r} and source {key.source!r}, which its settings do not tell apart"
    if not config.apart_by:
        return
    for field in ("counted_documents", "counted_bytes", "pretokens"):
        if (added := sum(getattr(one, field) for one in told.values())) != (said := getattr(language, field)):
            yield f"{where}: {said} {field}, its origins have {added}"
    for key in sorted({*told, *tables}):
        of_origin = told[key].pretokens if key in told else 0
        if (held := tables[key].pretokens if key in tables else 0) != of_origin:
            yield f"{where}: {of_origin} pretokens of {key.spell()}, its table has {held}"


def check_count_table(output: str, entry: FileEntry[TableAbout]) -> Iterator[str]:
    """That a count table holds the rows that its manifest says."""
    path, about = entry.path, entry.about
    try:
        with storage.open_read(urls.join(output, "counts", path)) as file:
            totals = read_table_totals(file)
    except TokError as error:
        yield f"counts/{path}: {error}"
        return
    held = dataclasses.replace(
        about, rows=totals.num_rows, pretokens=totals.num_pretokens, pretoken_bytes=totals.key_bytes
    )
    yield from list_differences(f"counts/{MANIFEST}: {path}", to_jsonable(about), to_jsonable(held))
    if totals.content_sha256 != entry.content_sha256:
        yield f"counts/{path}: its content is not what the manifest says"
    if path != f"{about.key.file_name}-{about.result_key}.parquet":
        yield f"counts/{path}: said to be of {about.key.spell()!r} and result key {about.result_key!r}"


def _check_tokenizer(stored: Stored) -> Iterator[str]:
    made, spec = stored.get(TOKENIZER), stored.spec
    expected = sum_up_tokenizer(spec, made.totals.mix)
    yield from list_differences(f"tokenizer/{MANIFEST}: totals", to_jsonable(made.totals), to_jsonable(expected))
    if stored.get(SHARDS).totals.fingerprint != spec.fingerprint:
        yield f"shards/{MANIFEST}: names another tokenizer than tokenizer/tokcore.json"
    if isinstance(made.config, ImportedConfig) and made.config.fingerprint != spec.fingerprint:
        yield f"tokenizer/{MANIFEST}: names another tokenizer than tokenizer/tokcore.json"
    yield from _check_artifacts(made, [("", spec)])


def _check_artifacts(made: AnyManifest, specs: Iterable[tuple[str, TokenizerSpec]]) -> Iterator[str]:
    """That a stage's files are those of its tokenizers. specs: (folder, tokenizer)."""
    if made.identity != compute_identity_under(SEMANTICS, made):
        return  # another release may write the field's formats in other bytes
    written = {entry.path: entry.sha256 for entry in made.files}
    for folder, spec in specs:
        own = {path.removeprefix(folder): sha256 for path, sha256 in written.items() if path.startswith(folder)}
        for path in find_foreign_artifacts(spec, own):
            yield f"{made.stage}/{folder}{path}: not what the tokenizer in {made.stage}/{folder}{FILE_NAME} gives"
        written = {path: sha256 for path, sha256 in written.items() if not path.startswith(folder)}
    for path in sorted(written):
        yield f"{made.stage}/{path}: no tokenizer gives it"


def _check_sizes(stored: Stored) -> Iterator[str]:
    """That the tokenizers of several sizes are there, and that the one that encodes is one of them."""
    made, chosen = stored.get(TOKENIZERS), stored.get(TOKENIZER)
    if not isinstance(chosen.config, LearnedConfig):
        return
    where = f"tokenizers/{MANIFEST}"
    wanted = made.config.vocab_size if isinstance(made.config.vocab_size, tuple) else (made.config.vocab_size,)
    if made.totals.sizes.keys() != {*map(str, wanted)}:
        yield f"{where}: tokenizers of {', '.join(made.totals.sizes)}, its configuration has {wanted}"
        return
    specs = {
        one.fingerprint: load_spec_of_folder(stored.url, made.stage, one.fingerprint)
        for one in made.totals.sizes.values()
    }
    for size, one in made.totals.sizes.items():
        expected = to_jsonable(sum_up_tokenizer(specs[one.fingerprint], one.mix))
        yield from list_differences(f"{where}: totals: {size}", to_jsonable(one), expected)
        if (num := len(specs[one.fingerprint].model.tokens) + len(specs[one.fingerprint].special)) > int(size):
            yield f"{where}: totals: {size}: a tokenizer of {num} tokens"
    yield from _check_artifacts(made, [(f"{fingerprint}/", spec) for fingerprint, spec in specs.items()])
    if dataclasses.replace(made.config, vocab_size=chosen.config.vocab_size) != chosen.config:
        yield f"{where}: made with other settings than tokenizer/{MANIFEST}"
    if made.totals.sizes.get(str(chosen.config.vocab_size)) != chosen.totals or made.languages != chosen.languages:
        yield f"tokenizer/{MANIFEST}: not one of the tokenizers in {where}"


def _check_shards(stored: Stored) -> Iterator[str]:
    """That shards have their places, numbers and sums; what is in them is asked elsewhere."""
    made, plan = stored.get(SHARDS), stored.plan
    config, shards = made.config, list_named_shards(made)
    facts = [shard.facts for shard in shards]
    is_split = config.validation != "0" or any(settings.validation for settings in plan.settings)
    for one in facts:
        if (config.by == "lang") != bool(one.lang):
            yield f"shards/{MANIFEST}: {one.shard}: is of language {one.lang!r}, shards are by {config.by}"
        if one.split != "train" and (one.split != "validation" or not is_split):
            yield f"shards/{MANIFEST}: {one.shard}: is of split {one.split!r}"
    num_items = len(plan.items)
    if config.shuffle is not None:
        num_items = choose_num_parts(sum(one.tokens for one in facts), config.target_tokens)
    yield from check_shards(made, shards, _make_keys(plan, made), num_items)
    yield from check_folder_indexes(made, shards, stored.get(TOKENIZER).totals.vocab_size, (TOKEN_COUNTS,))
    totals = {"shards": made.totals.shards, "tokens": made.totals.tokens}
    expected = {"shards": len(shards), "tokens": sum(one.tokens for one in facts)}
    yield from list_differences(f"shards/{MANIFEST}: totals", totals, expected)
    for field in ("documents", "tokens"):
        of_shards = sum(getattr(one, field) for one in facts)
        of_languages = sum(getattr(language, field) for language in made.languages.values())
        if of_shards != of_languages:
            yield f"shards/{MANIFEST}: {of_languages} {field} by language, {of_shards} in shards"
    for lang, language in made.languages.items():
        if language.bytes_per_token != format_ratio(language.text_bytes, language.tokens):
            yield f"shards/{MANIFEST}: {lang}: bytes_per_token = {language.bytes_per_token}"
    if (counts := stored.find(COUNTS)) is not None:
        counted = {lang: language.documents for lang, language in counts.languages.items()}
        encoded = {lang: language.documents for lang, language in made.languages.items()}
        yield from list_differences(f"shards/{MANIFEST}: documents by language, as counted", encoded, counted)
        if "split" in counts.config.apart_by and counts.config.sample == "1":
            in_shards, by_split = Counter[str](), Counter[str]()
            for one in facts:
                in_shards[one.split] += one.documents
            for origin in itertools.chain.from_iterable(of.origins for of in counts.languages.values()):
                by_split[origin.split] += origin.counted_documents
            yield from list_differences(f"shards/{MANIFEST}: documents by split, as counted", in_shards, by_split)


def _make_keys(plan: Plan, made: ShardsManifest) -> Callable[[ShardFacts], str]:
    """The result keys of shards, which are those of their work items, by the rules of the release that built them."""
    semantics = next((one for one in KNOWN if made.identity == compute_identity_under(one, made)), SEMANTICS)
    settings = hash_shards_settings(made.config, made.totals.fingerprint, semantics)
    if made.config.shuffle is not None:
        of_all = make_shuffled_key(settings, plan)
        return lambda facts: of_all
    of_items = {item.number: make_shards_key(settings, plan.assignment(item)) for item in plan.items}
    return lambda facts: of_items.get(facts.item, facts.result_key)


def _check_derived(stored: Stored, stage: Stage[Any]) -> Iterator[str]:
    """That a stage that makes shards out of shards has the shards, sums and indexes that its inputs give it."""
    made, where = stored.get(stage), f"{stage.name}/{MANIFEST}"
    shards, key = list_named_shards(made), make_table_key(made.identity)
    yield from check_shards(made, shards, lambda facts: key)
    yield from check_totals(made, shards)
    work = WORK[stage.name]
    assert isinstance(work, DerivedWork)
    yield from (f"{where}: {wrong}" for wrong in work.check(stored))
    if made.totals.fingerprint != stored.get(SHARDS).totals.fingerprint:
        yield f"{where}: names another tokenizer than the shards"
    yield from check_folder_indexes(made, shards, stored.get(TOKENIZER).totals.vocab_size)


# Of the stages that are not made out of shards.
_CHECKS: Mapping[Stage[Any], Callable[[Stored], Iterator[str]]] = {
    PLAN: _check_plan,
    REJECTED: _check_ledgers,
    COUNTS: _check_counts,
    TOKENIZER: _check_tokenizer,
    TOKENIZERS: _check_sizes,
    SHARDS: _check_shards,
}


def list_differences(where: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key with another value."""
    for key in sorted(set(found) | set(expected)):
        if found.get(key) != expected.get(key):
            yield f"{where}: {key} = {found.get(key)!r:.80}, expected {expected.get(key)!r:.80}"
