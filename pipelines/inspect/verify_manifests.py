"""What verification asks of manifests beyond their hashes: that they agree with each other and with the small files.

Every figure that stands in two places is compared, and every figure that follows from others is computed again. So an
edit that was made in one place only does not pass, even if all hashes were updated. No Beam.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pipelines.inspect.verify_derived import check_folder_indexes
from pipelines.inspect.verify_mixed import check_mixed_manifest
from pipelines.inspect.verify_packed import check_packed_manifest
from pipelines.inspect.verify_shards import is_well_placed
from pipelines.stages import ledger
from pipelines.stages.commit import MANIFEST
from pipelines.stages.dataset_card import CARD, write_dataset_card
from pipelines.stages.finish import sum_up_build, sum_up_languages
from pipelines.stages.make_tokenizer import sum_up_tokenizer
from pipelines.stages.plan_corpus import hash_content, sum_up_plan
from pipelines.stages.rejects import REJECTS
from pipelines.stages.token_count_table import TOKEN_COUNTS
from pipelines.stages.tokenizer_files import find_foreign_artifacts
from pipelines.store import storage, urls
from pipelines.store.pinned_files import FILES
from pipelines.store.tokenizers import load_spec_of_folder
from pipelines.work.language_totals import format_ratio
from pipelines.work.read_plan import read_plan
from pipelines.work.result_keys import hash_shards_settings, make_shards_key, make_shuffled_key, make_table_key
from pipelines.work.semantics import EARLIER, SEMANTICS, has_these_layouts
from schemas.manifest import AnyManifest, FileEntry, Input, compute_identity
from schemas.plan import Plan
from schemas.refs import ShardRef, spell_shard_name
from schemas.shard_entries import (
    list_apart,
    list_named_shards,
    make_shard_entries,
)
from schemas.shuffle import choose_num_parts
from schemas.stage_manifests import (
    BuildManifest,
    CountsManifest,
    ImportedConfig,
    LearnedConfig,
    LedgerTotals,
    MixtureManifest,
    PackedManifest,
    PlanManifest,
    RejectedManifest,
    ShardsConfig,
    ShardsManifest,
    StageConfigs,
    TableAbout,
    TokenizerManifest,
    TokenizersManifest,
)
from schemas.stage_table import BUILD, STAGES
from tokcore.canonical import hash_sha256, parse_canonical
from tokcore.errors import FormatError, TokError, VersionError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.jsonable import from_jsonable, to_jsonable
from tokcore.pretoken_tables import read_table_totals
from tokcore.tokenizer_spec import FILE_NAME, TokenizerSpec

# Of this release, and of those that laid out their files like it.
KNOWN = (SEMANTICS, *filter(has_these_layouts, EARLIER))

# Stage -> the stages it is made from. Without counts where the tokenizer is an imported one.
_MADE_FROM: Mapping[str, tuple[str, ...]] = {
    "plan": (),
    "rejected": ("plan",),
    "counts": ("plan",),
    "tokenizers": ("counts",),
    "tokenizer": ("counts",),
    "shards": ("plan", "tokenizer"),
    "mixed": ("shards", "tokenizer"),
    "packed": ("shards", "tokenizer"),  # with a mixture, from that
}


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltManifests:
    """The manifests of a finished build."""

    build: BuildManifest
    plan: PlanManifest
    rejected: RejectedManifest
    tokenizer: TokenizerManifest
    shards: ShardsManifest
    counts: CountsManifest | None  # not of an imported tokenizer
    tokenizers: TokenizersManifest | None  # only of several sizes
    mixed: MixtureManifest | None  # only with [mixture]
    packed: PackedManifest | None  # only with [pack]

    @property
    def packed_from(self) -> ShardsManifest | MixtureManifest:
        """The stage whose shards are packed."""
        return self.mixed or self.shards

    def stages(self) -> dict[str, AnyManifest]:
        """All but the build's, in the order of work."""
        of_text = (self.plan, self.rejected, self.counts, self.tokenizers, self.tokenizer)
        every = (*of_text, self.shards, self.mixed, self.packed)
        return {made.stage: made for made in every if made is not None}


def require_all_manifests(manifests: Mapping[str, Any]) -> BuiltManifests:
    """The manifests by stage, the build's included, as a whole. Raises FormatError if there are too few or too many."""
    build: BuildManifest = manifests[BUILD]
    config = build.config
    optional = {name: getattr(config, name) for name in ("counts", "tokenizers", "mixed", "packed")}
    expected = {stage for stage in STAGES if optional.get(stage, config) is not None}
    if set(build.inputs) != expected or not expected <= set(manifests):
        raise FormatError(f"{MANIFEST}: names the stages {sorted(build.inputs)}, expected {sorted(expected)}")
    parts: dict[str, Any] = {stage: manifests.get(stage) for stage in (*STAGES, BUILD)}
    return BuiltManifests(**parts)


def read_file_ledgers(output: str) -> list[ledger.FileLedger]:
    """What became of each input file, as the output's rejected/ says."""
    url = urls.join(output, "rejected", FILES)
    lines = storage.read_bytes(url).splitlines(keepends=True)
    return [
        from_jsonable(ledger.FileLedger, parse_canonical(line, f"{url}:{i + 1}"), f"{url}:{i + 1}")
        for i, line in enumerate(lines)
    ]


def check_manifests(output: str, manifests: BuiltManifests, spec: TokenizerSpec | None) -> Iterator[str]:
    """What is wrong with the manifests of a finished build whose files are all as hashed.

    spec: the tokenizer's; None leaves it out.
    """
    plan = functools.cache(lambda: read_plan(output, manifests.plan))
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: _check_chain(manifests),
        lambda: _check_plan(plan(), manifests.plan),
        lambda: _check_ledgers(output, plan(), manifests),
        lambda: _check_counts(manifests.counts) if manifests.counts is not None else iter(()),
        lambda: _check_tokenizer(manifests, spec) if spec is not None else iter(()),
        lambda: _check_sizes(output, manifests) if spec is not None else iter(()),
        lambda: _check_shards(plan(), manifests),
        lambda: check_mixed_manifest(manifests.mixed, manifests.shards, manifests.tokenizer.totals.vocab_size),
        lambda: check_packed_manifest(manifests.packed, manifests.packed_from, manifests.tokenizer.totals.vocab_size),
    ]
    for check in checks:
        try:
            yield from check()
        except VersionError as error:  # this release does not know what the rest should be
            yield str(error)
            return
        except TokError as error:
            yield str(error)


def _check_chain(manifests: BuiltManifests) -> Iterator[str]:
    """That stages are made from each other, and the build of them all."""
    build, stages = manifests.build, manifests.stages()
    for stage, made in {**stages, BUILD: build}.items():
        name = _spell_name(stage)
        made_from = set(stages) if stage == BUILD else set(_MADE_FROM[stage]) & set(stages)
        if isinstance(made.config, ImportedConfig):  # made from nothing, even if there are counts beside it
            made_from = set()
        if stage == "packed" and manifests.mixed is not None:
            made_from = {"mixed", "tokenizer"}
        if set(made.inputs) != made_from:
            yield f"{name}: made from {sorted(made.inputs)}, expected {sorted(made_from)}"
            continue
        for one in made_from:
            if made.inputs[one] != stages[one].as_input():
                yield f"{name}: was made from another {one}"
        if made.root != (root := made.content_id() if stage == BUILD else ""):
            yield f"{name}: its root is {made.root!r}, expected {root!r}"
    as_they_are = ("rejected", "tokenizers", "tokenizer", BUILD)
    for name, made in {**stages, BUILD: build}.items():
        for entry in made.files if name in as_they_are else ():
            if entry.content_sha256 != entry.sha256:
                yield f"{_spell_name(name)}: {entry.path}: stored as it is, yet content_sha256 is not sha256"
    yield from _check_build(manifests)
    yield from _check_identities({**stages, BUILD: build})


def _check_build(manifests: BuiltManifests) -> Iterator[str]:
    """That the build's manifest says what those of its stages say."""
    build, counts, tokenizer, shards = manifests.build, manifests.counts, manifests.tokenizer, manifests.shards
    if [entry.path for entry in build.files] != [CARD]:
        yield f"{MANIFEST}: names the files {[entry.path for entry in build.files]}, expected {CARD}"
    # Another release may have found other words for it.
    elif build.identity == compute_identity_under(SEMANTICS, build) and build.files[0].sha256 != hash_sha256(
        write_dataset_card(shards, tokenizer)
    ):
        yield f"{CARD}: not what follows from the manifests"
    if build.totals != sum_up_build(shards, tokenizer):
        yield f"{MANIFEST}: its totals are not what its stages say"
    if build.languages != sum_up_languages(shards, tokenizer, counts):
        yield f"{MANIFEST}: its languages are not what its stages say"
    of_tokenizer = ImportedConfig() if isinstance(tokenizer.config, ImportedConfig) else tokenizer.config
    of_counts = counts.config if counts is not None else None
    of_mixed = manifests.mixed.config if manifests.mixed is not None else None
    of_packed = manifests.packed.config if manifests.packed is not None else None
    of_sizes = manifests.tokenizers.config if manifests.tokenizers is not None else None
    if build.config != StageConfigs(of_tokenizer, shards.config, of_counts, of_packed, of_sizes, of_mixed):
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
    inputs = {"files": Input(made.files[0].sha256, "")} if made.stage == "plan" and made.files else made.inputs
    return compute_identity(made.stage, made.config, inputs, semantics, made.format_version)


def _check_plan(plan: Plan, made: PlanManifest) -> Iterator[str]:
    yield from _list_differences(f"plan/{MANIFEST}: totals", to_jsonable(made.totals), to_jsonable(sum_up_plan(plan)))
    if [file.uri for file in plan.files] != sorted({file.uri for file in plan.files}):
        yield f"plan/{FILES}: not sorted, or a file twice"
    if made.file(FILES).content_sha256 != hash_content(plan):
        yield f"plan/{FILES}: its content is not what the manifest says"


def _check_ledgers(output: str, plan: Plan, manifests: BuiltManifests) -> Iterator[str]:
    """That records, bytes and reasons add up, file by file, and every stage read the same."""
    files = read_file_ledgers(output)
    for file, pinned in zip(files, plan.files, strict=False):
        if (file.uri, file.stored_bytes) != (pinned.uri, pinned.size_bytes):
            yield f"rejected/{FILES}: {file.uri} of {file.stored_bytes} bytes, planned was {pinned.uri}"
        if file.records != file.documents + sum(file.rejected.values()) + file.removed:
            yield f"rejected/{FILES}: {file.uri}: {file.records} records are not its documents, rejects and removed"
    if len(files) != len(plan.files):
        yield f"rejected/{FILES}: {len(files)} files, {len(plan.files)} were planned"
    totals = ledger.sum_up_ledgers(files)
    readers = [made for made in (manifests.rejected, manifests.counts, manifests.shards) if made is not None]
    for made in readers:
        of_stage = LedgerTotals(made.totals.records, made.totals.files, made.totals.text_bytes)
        yield from _list_differences(f"{_spell_name(made.stage)}: totals", to_jsonable(of_stage), to_jsonable(totals))
        for field, total in (("documents", totals.records.documents), ("text_bytes", totals.text_bytes)):
            added = sum(getattr(language, field) for language in made.languages.values())
            if made is not manifests.rejected and added != total:
                yield f"{_spell_name(made.stage)}: {added} {field} by language, {total} by file"
    reasons: Counter[tuple[str, bool, str]] = Counter()
    url = urls.join(output, "rejected", REJECTS)
    with io.BufferedReader(storage.open_read(url)) as lines:
        for line in lines:
            reject = from_jsonable(ledger.PlacedReject, parse_canonical(line, url), url)
            reasons[reject.file, reject.record is None, reject.reason] += 1
    expected: Counter[tuple[str, bool, str]] = Counter()
    for file in files:
        expected.update({(file.uri, False, reason): num for reason, num in file.rejected.items()})
        if file.rejected_file:
            expected[file.uri, True, file.rejected_file] += 1
    for uri, _, reason in sorted((reasons - expected) + (expected - reasons)):
        yield f"rejected/{REJECTS}: {uri}: not as many rejects for {reason} as rejected/{FILES} says"


def _check_counts(made: CountsManifest) -> Iterator[str]:
    tables = {entry.about.lang: entry.about for entry in made.files}
    for lang, language in made.languages.items():
        table = tables.pop(lang, TableAbout(lang, 0, 0, 0))
        for field in ("rows", "pretokens"):
            if (held := getattr(table, field)) != (said := getattr(language, field)):
                yield f"counts/{MANIFEST}: {lang}: {said} {field}, its table has {held}"
        if language.counted_documents > language.documents:
            yield f"counts/{MANIFEST}: {lang}: more documents counted than read"
    for lang in tables:
        yield f"counts/{MANIFEST}: a table of {lang!r}, which has no documents"
    for entry in made.files:
        if entry.about.result_key != make_table_key(made.identity):
            yield f"counts/{MANIFEST}: {entry.path}: its result key is not that of the stage's identity"


def check_count_table(output: str, entry: FileEntry[TableAbout]) -> Iterator[str]:
    """That a count table holds the rows that its manifest says."""
    path, about = entry.path, entry.about
    try:
        with storage.open_read(urls.join(output, "counts", path)) as file:
            totals = read_table_totals(file)
    except TokError as error:
        yield f"counts/{path}: {error}"
        return
    held = TableAbout(about.lang, totals.num_rows, totals.num_pretokens, totals.key_bytes, about.result_key)
    yield from _list_differences(f"counts/{MANIFEST}: {path}", to_jsonable(about), to_jsonable(held))
    if totals.content_sha256 != entry.content_sha256:
        yield f"counts/{path}: its content is not what the manifest says"
    if path != f"{about.lang}-{about.result_key}.parquet":
        yield f"counts/{path}: said to be of language {about.lang!r} and result key {about.result_key!r}"


def _check_tokenizer(manifests: BuiltManifests, spec: TokenizerSpec) -> Iterator[str]:
    made = manifests.tokenizer
    expected = sum_up_tokenizer(spec, made.totals.mix)
    yield from _list_differences(f"tokenizer/{MANIFEST}: totals", to_jsonable(made.totals), to_jsonable(expected))
    if manifests.shards.totals.fingerprint != spec.fingerprint:
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


def _check_sizes(output: str, manifests: BuiltManifests) -> Iterator[str]:
    """That the tokenizers of several sizes are there, and that the one that encodes is one of them."""
    made, chosen = manifests.tokenizers, manifests.tokenizer
    if made is None or not isinstance(chosen.config, LearnedConfig):
        return
    where = f"tokenizers/{MANIFEST}"
    wanted = made.config.vocab_size if isinstance(made.config.vocab_size, tuple) else (made.config.vocab_size,)
    if made.totals.sizes.keys() != {*map(str, wanted)}:
        yield f"{where}: tokenizers of {', '.join(made.totals.sizes)}, its configuration has {wanted}"
        return
    specs = {
        one.fingerprint: load_spec_of_folder(output, made.stage, one.fingerprint) for one in made.totals.sizes.values()
    }
    for size, one in made.totals.sizes.items():
        expected = to_jsonable(sum_up_tokenizer(specs[one.fingerprint], one.mix))
        yield from _list_differences(f"{where}: totals: {size}", to_jsonable(one), expected)
        if (num := len(specs[one.fingerprint].model.tokens) + len(specs[one.fingerprint].special)) > int(size):
            yield f"{where}: totals: {size}: a tokenizer of {num} tokens"
    yield from _check_artifacts(made, [(f"{fingerprint}/", spec) for fingerprint, spec in specs.items()])
    if dataclasses.replace(made.config, vocab_size=chosen.config.vocab_size) != chosen.config:
        yield f"{where}: made with other settings than tokenizer/{MANIFEST}"
    if made.totals.sizes.get(str(chosen.config.vocab_size)) != chosen.totals or made.languages != chosen.languages:
        yield f"tokenizer/{MANIFEST}: not one of the tokenizers in {where}"


def _check_shards(plan: Plan, manifests: BuiltManifests) -> Iterator[str]:
    """That shards have their places, numbers and sums; what is in them is asked elsewhere."""
    made = manifests.shards
    shards = list_named_shards(made)
    facts = [shard.facts for shard in shards]
    for shard in shards:
        yield from _check_place(shard, made.config, plan)
    yield from check_entries(made, shards)
    yield from check_folder_indexes(made, shards, manifests.tokenizer.totals.vocab_size, (TOKEN_COUNTS,))
    yield from _check_numbers(facts, plan, made.config)
    yield from _check_keys(facts, plan, made)
    totals = {"shards": made.totals.shards, "tokens": made.totals.tokens}
    expected = {"shards": len(shards), "tokens": sum(one.tokens for one in facts)}
    yield from _list_differences(f"shards/{MANIFEST}: totals", totals, expected)
    for field in ("documents", "tokens"):
        of_shards = sum(getattr(one, field) for one in facts)
        of_languages = sum(getattr(language, field) for language in made.languages.values())
        if of_shards != of_languages:
            yield f"shards/{MANIFEST}: {of_languages} {field} by language, {of_shards} in shards"
    for lang, language in made.languages.items():
        if language.bytes_per_token != format_ratio(language.text_bytes, language.tokens):
            yield f"shards/{MANIFEST}: {lang}: bytes_per_token = {language.bytes_per_token}"
    if manifests.counts is not None:
        counted = {lang: language.documents for lang, language in manifests.counts.languages.items()}
        encoded = {lang: language.documents for lang, language in made.languages.items()}
        yield from _list_differences(f"shards/{MANIFEST}: documents by language, as counted", encoded, counted)


def _check_place(shard: ShardRef, config: ShardsConfig, plan: Plan) -> Iterator[str]:
    """That a shard has the files, language and split that the configuration gives it."""
    facts = shard.facts
    if not is_well_placed(shard, config):
        yield f"shards/{MANIFEST}: {facts.shard}: {[file.path for file in shard.files]}: not its files"
    if (config.by == "lang") != bool(facts.lang):
        yield f"shards/{MANIFEST}: {facts.shard}: is of language {facts.lang!r}, shards are by {config.by}"
    is_split = config.validation != "0" or any(settings.validation for settings in plan.settings)
    if facts.split != "train" and (facts.split != "validation" or not is_split):
        yield f"shards/{MANIFEST}: {facts.shard}: is of split {facts.split!r}"


def _check_numbers(shards: Iterable[ShardFacts], plan: Plan, config: ShardsConfig) -> Iterator[str]:
    """That the shards of each work item, language and split are numbered, and full but for the last."""
    streams: dict[tuple[int, str, str], list[ShardFacts]] = {}
    shards = list(shards)
    num_items = len(plan.items)
    if config.shuffle is not None:
        num_items = choose_num_parts(sum(shard.tokens for shard in shards), config.target_tokens)
    for shard in shards:
        streams.setdefault((shard.item, shard.lang, shard.split), []).append(shard)
    for (item, _, split), stream in streams.items():
        names = [spell_shard_name(split, item, number) for number in range(len(stream))]
        if [shard.shard for shard in stream] != names or not 0 <= item < num_items:
            yield f"shards/{MANIFEST}: {[shard.shard for shard in stream]}: expected {names}"
        for shard in stream[:-1]:
            if shard.tokens < config.target_tokens:
                yield f"shards/{MANIFEST}: {shard.shard}: ended before it reached {config.target_tokens} tokens"


def _check_keys(shards: Iterable[ShardFacts], plan: Plan, made: ShardsManifest) -> Iterator[str]:
    """That the result keys of shards are those of their work items, by the rules of the release that built them."""
    semantics = next((one for one in KNOWN if made.identity == compute_identity_under(one, made)), SEMANTICS)
    settings = hash_shards_settings(made.config, made.totals.fingerprint, semantics)
    of_items: Mapping[int, str] = {}
    of_all = ""
    if made.config.shuffle is not None:
        of_all = make_shuffled_key(settings, plan)
    else:
        of_items = {item.number: make_shards_key(settings, plan.assignment(item)) for item in plan.items}
    for shard in shards:
        if shard.result_key != (key := of_all or of_items.get(shard.item, shard.result_key)):
            yield f"shards/{MANIFEST}: {shard.shard}: its result key is {shard.result_key!r}, expected {key!r}"


def check_entries(made: ShardsManifest, shards: Iterable[ShardRef]) -> Iterator[str]:
    """That the entries of a shard's files say the same of it."""
    found = {entry.path: entry for entry in made.files}
    for shard in shards:
        apart = list_apart(shard.facts)
        for expected in make_shard_entries(shard):
            entry = found[expected.path]
            content = expected.content_sha256 if expected.path in apart else shard.content_sha256
            if (entry.about, entry.content_sha256) != (expected.about, content):
                yield f"shards/{entry.path}: described otherwise than {shard.files[0].path}, the same shard"


def _list_differences(where: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(set(found) | set(expected)):
        if found.get(key) != expected.get(key):
            yield f"{where}: {key} = {found.get(key)!r:.80}, expected {expected.get(key)!r:.80}"
