"""What `tokcore check` finds, and prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore.text import unicode
from tokcore_pipelines.begin.check_estimates import check_estimates
from tokcore_pipelines.begin.estimate import estimate
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.duplicate_samples import tell_duplicates
from tokcore_pipelines.build.filter_samples import NUM_EXAMPLES, tell_filters, tell_rule
from tokcore_pipelines.build.long_files import find_long_files
from tokcore_pipelines.build.map_samples import tell_maps
from tokcore_pipelines.build.mask_samples import tell_mask
from tokcore_pipelines.build.plan_corpus import hash_content, plan_build
from tokcore_pipelines.build.source_checks import FOR_CHECK, check_samples, describe, sample_plan
from tokcore_pipelines.build.whole_checks import check_whole
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.work.inputs import LeftOut
from tokcore_pipelines.work.key_ranges import choose_num_ranges
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_manifests import ImportedConfig, StageConfigs
from tokcore_schemas.stage_table import PLAN, STAGES, WHOLE

_MANY_EXAMPLES = 20


def make_check_report(build: Build, progress: StageProgress, shown: str | None = None) -> dict[str, Any]:
    """What a build would do: its files, sizes, work items and the fingerprints of its stages. Nothing is done.

    shown: number of a filter whose examples are wanted, or map.N, mask or dedup, of which more are. Raises ConfigError
    if there is no such one.
    """
    rules = build.config.filter_rules
    most = _count_examples(build.config, shown)
    rule = int(shown) if shown is not None and shown.isdecimal() else None
    imported = build.imported_tokenizer()
    left_out = LeftOut()
    with progress.stage("list files", minor=True):
        plan = plan_build(build.config, build.output, left_out)
    with progress.stage("read samples", minor=True):
        samples = sample_plan(build.config, plan, FOR_CHECK)
        findings = [*check_samples(build.config, samples), *check_whole(build.config, samples, imported)]
    with progress.stage("estimate", minor=True):
        workers = build.options.num_workers
        estimated = estimate(build.config, samples, workers)
        if estimated is None:
            findings += find_long_files(build.config, samples, workers)
        else:
            findings += check_estimates(build.config, estimated, build.options.is_local)
            findings += find_long_files(build.config, samples, workers, estimated.bytes_per_second)
    with progress.stage("filter samples", minor=True):
        mapped = tell_maps(build.config.map_rules, samples, most)
        masked = tell_mask(build.config.mask_rule, samples, most.get("mask", NUM_EXAMPLES))
        rules = samples[0].settings.filters if samples else rules  # with the files of test items
        filtered = tell_filters(rules, samples)
        duplicates = tell_duplicates(build.config.dedup_identity(), samples, most.get("dedup", NUM_EXAMPLES))
        around = tell_rule(rules[rule], samples) if rule is not None else None
    stopping = [finding for finding in findings if finding.stops]
    configs = build.config.stage_configs()
    settings = to_jsonable(configs)
    if imported is not None:
        settings["tokenizer"]["fingerprint"] = imported.fingerprint
    try:
        holds, refused = build.standing(plan), False
    except ConfigError as error:
        holds, refused = str(error), True
    return {
        "output": build.output,
        "output_holds": holds,
        "refused": refused,
        "problems": [*_find_engine_problem(build), *describe(stopping)],
        "warnings": left_out.idle + left_out.links + describe([finding for finding in findings if not finding.stops]),
        "estimates": None if estimated is None else estimated._asdict(),
        "vocab_size": build.config.vocab_sizes[-1] if imported is None else imported.vocab_size,
        "maps": mapped,
        "mask": masked,
        "filters": filtered,
        "duplicates_in_sample": duplicates,
        "rule": around,
        "files": len(plan.files),
        "stored_bytes": plan.size_bytes,
        "inputs": _format_inputs(plan),
        "work_items": len(plan.items),
        "ranges": choose_num_ranges(plan.size_bytes),
        "duplicates": list(plan.duplicates),
        "excluded": sorted(left_out.excluded),
        "no_data": dict(sorted(left_out.no_data.items())),
        "tokenizer": None
        if imported is None
        else {"vocab_size": imported.vocab_size, "special": len(imported.special)},
        "settings": settings,
        "fingerprints": make_fingerprints(plan, configs, settings),
        "unicode": unicode.VERSION,
        "kernel": kernel.get_implementation(),
    }


def make_fingerprints(plan: Plan, configs: StageConfigs, settings: Mapping[str, Any]) -> dict[str, str]:
    """Stage -> a hash over its settings and the fingerprints of what it is made from: equal ones, equal bytes.

    settings: those of configs as JSON, with what an imported tokenizer is.
    """
    found = {PLAN.name: hash_content(plan, write_canonical_json(to_jsonable(plan.settings)))}
    for name, stage in STAGES.items():
        if name in settings:
            # What is imported is made from nothing, even if there are counts beside it.
            is_imported = isinstance(getattr(configs, name), ImportedConfig)
            made_from = {one: found[one] for one in (() if is_imported else stage.find_inputs(found))}
            found[name] = hash_sha256(write_canonical_json({"settings": settings[name], "made_from": made_from}))
    return found


def _count_examples(config: BuildConfig, shown: str | None) -> dict[str, int]:
    """map.N, mask or dedup -> how many examples are shown of it, if that is what --rule names."""
    own = [f"map.{number}" for number in range(len(config.maps))]
    own += ["mask"] if config.mask_rule is not None else []
    own += ["dedup"] if config.dedup.by is not None else []
    known = [*map(str, range(len(config.filters))), *own]
    if shown is not None and shown not in known:
        has = f"Name one of: {', '.join(known)}" if known else "It has no filters, steps, masks or duplicates to name"
        raise ConfigError(f"--rule {shown}: is not in the build file. {has} (filters are counted from 0)")
    return {shown: _MANY_EXAMPLES} if shown in own else {}


def _find_engine_problem(build: Build) -> Iterator[str]:
    """Why the engine that a build would need cannot be used: no server answers, or its bucket is not there."""
    try:
        build.require_engine(WHOLE)
    except ConfigError as error:
        yield str(error)


def _format_inputs(plan: Plan) -> list[dict[str, Any]]:
    """The files of a plan, those that are read alike together."""
    return [
        {
            "lang": read.lang or f"by field {read.lang_field}",
            "format": f"{read.format}.{read.compression}".removesuffix(".none"),
            "files": len(files),
            "stored_bytes": sum(file.size_bytes for file in files),
        }
        for number, read in enumerate(plan.settings)
        if (files := [file for file in plan.files if file.settings == number])
    ]
