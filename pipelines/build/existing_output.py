"""What an output holds already: does it belong to this build, what differs (in the build file's words), what to do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from tokcore.errors import ConfigError, FormatError, StageError
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.ledger import compute_rejected_share
from tokcore_pipelines.build.plan_corpus import find_changed_inputs, make_plan_key
from tokcore_pipelines.build.suggest_fixes import find_exact_source
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_schemas.changed_settings import describe_changed_reading, describe_changed_settings
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.manifest import AnyManifest, compute_identity
from tokcore_schemas.plan import Plan, ReadSettings
from tokcore_schemas.stage_manifests import ImportedConfig, PlanManifest, RejectedConfig, StageConfigs
from tokcore_schemas.stage_table import (
    BUILD,
    COUNTS,
    DEDUP,
    PLAN,
    REJECTED,
    STAGES,
    TOKENIZER,
    WHOLE,
    Made,
    Stage,
    find_command,
    get_stage,
    list_commands,
    list_following,
)

_MAX_REASONS = 12  # of a stage
# How all sources are read -> what says so in the build file.
_READ_ALIKE = {"maps": "[[map]]", "filters": "[[filter]]", "mask": "[mask]"}
_OTHER_RELEASE = "another release of tokcore made it"


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """The stages that an output holds, and why some of them are not those of a build."""

    found: Mapping[str, AnyManifest]  # in the order of work
    differences: Mapping[str, Sequence[str]]  # stage -> reasons
    inputs_changed: bool  # whether input files are among the reasons
    is_imported: bool  # whether the build imports its tokenizer

    @property
    def command(self) -> str:
        """What to replace, so that all that is left is of this build."""
        return min((find_command(name, self.is_imported) for name in self.differences), key=list_commands().index)

    def is_worth_nothing(self, max_rejected: Decimal) -> bool:
        """Whether the output holds only what a build makes in a moment, or wrote to say why it failed.

        If inputs changed, then only if no work would be lost: where all was read and no document was found, or no
        fault in more records than max_rejected, so that a source without documents ended the build.
        """
        counts, rejected = self.found.get(COUNTS.name), self.found.get(REJECTED.name)
        is_nothing = counts is not None and not any(one.pretokens for one in counts.languages.values())
        made_at_once = {PLAN.name, DEDUP.name, REJECTED.name} | ({COUNTS.name} if is_nothing else set())
        if any(
            name not in made_at_once and not isinstance(made.config, ImportedConfig)
            for name, made in self.found.items()
        ):
            return False
        if not self.inputs_changed:
            return True
        if rejected is None:
            return False
        return not rejected.totals.records.documents or compute_rejected_share(rejected.totals) <= max_rejected

    def error(self, output: str, build_file: str, of_commit: bool = False) -> ConfigError:
        """The error for a build that is not the one in the output: says what differs, and what to do.

        of_commit: whether the documents of the build are those of a commit, which no build file names.
        """
        said = join_lines(
            f"{redact(output)}: the output holds a different build:",
            *(
                f"  {stage}: {reason}"
                for stage, reasons in self.differences.items()
                for reason in reasons[:_MAX_REASONS]
            ),
        )
        holds = f"{said}\n"
        if of_commit:
            return ConfigError(f"{holds}It was left as it is: choose another output for the documents of a commit.")
        removed = [one for one in list_following(self.command, self.is_imported) if one in self.found and one != BUILD]
        follows = self.inputs_changed and BUILD in self.found
        update = f"To follow the inputs, and leave what is there: `tokcore update {build_file}`.\n" if follows else ""
        return ConfigError(
            f"{holds}{update}"
            f"To make {', '.join(reversed(removed)) or 'it'} again: "
            f"`tokcore build {build_file} --replace {self.command}` with the same output. "
            f"To keep both: name a new --output, and take with --from {redact(output)} what still applies."
        )


def look(output: str, config: BuildConfig, imported: TokenizerSpec | None, plan: Plan | None) -> Standing:
    """What an output holds, compared with a build. plan: of the inputs as they are now; None compares no plan.

    Raises StageError if a manifest cannot be read.
    """
    is_imported = config.tokenizer is not None
    stages = (*STAGES.values(), WHOLE)
    read = run_at_once(lambda stage: read_standing(output, stage, config), stages)
    found = {stage.name: made for stage, made in zip(stages, read, strict=True) if made is not None}
    differences: dict[str, list[str]] = {}
    inputs: list[str] = []
    planned = found.get(PLAN.name)
    if plan is not None and planned is not None and planned.identity != make_plan_key(config, plan).identity:
        inputs = find_changed_inputs(output, plan)
        differences[PLAN.name] = _find_plan_reasons(output, config, planned, plan) + inputs or [_OTHER_RELEASE]
    configs = config.stage_configs()
    said: set[str] = set()
    for name, made in found.items():
        if made is not planned and (
            reasons := _find_reasons(
                made, _choose_config(made, config, configs, imported, found), configs, found, differences
            )
        ):
            differences[name] = [one for one in reasons if one not in said]
            said.update(reasons)
    return Standing(found, {s: r for s, r in differences.items() if r}, bool(inputs), is_imported)


def read_standing(output: str, stage: Stage[Made], config: BuildConfig) -> Made | None:
    """The manifest of a finished stage, or of the build, if there is one. Raises StageError if it is damaged."""
    try:
        return find_manifest(output, stage)
    except FormatError as error:
        way_out = describe_way_out(stage.name, config.as_argument, config.tokenizer is not None)
        raise StageError(f"{error}. The manifest is damaged: {way_out}") from error


def describe_way_out(stage: str, build_file: str, is_imported: bool) -> str:
    """What to do about the damaged manifest of a stage, or of the build."""
    if stage == BUILD:
        return f"delete it, and run `tokcore build {build_file}` again, which keeps all stages"
    command = find_command(stage, is_imported)
    return f"restore it from a copy, or have the stage made again: `tokcore build {build_file} --replace {command}`"


def _choose_config(
    made: AnyManifest,
    config: BuildConfig,
    configs: StageConfigs,
    imported: TokenizerSpec | None,
    found: Mapping[str, AnyManifest],
) -> object:
    """The configuration of a stage that stands there, or of the whole, in this build; its own where it matters not."""
    if made.stage == BUILD:
        return configs
    if made.stage == REJECTED.name:
        # Equal plans reject the same records, so the rejects that counting committed stay.
        return made.config if COUNTS.name in found else RejectedConfig(config.encode.special_text)
    if imported is not None and made.stage == TOKENIZER.name:
        return ImportedConfig.of(imported)
    return getattr(configs, made.stage, None) or made.config


def _find_reasons(
    made: AnyManifest,
    config: object,
    configs: StageConfigs,
    found: Mapping[str, AnyManifest],
    different: Mapping[str, object],
) -> list[str]:
    """Why a stage after the plan is not the one of this build, whose configuration of it is `config`."""
    stage = get_stage(made.stage)
    if not stage.is_in(configs):
        key = stage.asked_by.rpartition(".")[2]
        return [stage.why_gone or f"{stage.asked_by} was {json.dumps(getattr(made.config, key))}, now not set"]
    wanted = {name for name, one in STAGES.items() if one.is_in(configs)}
    now, was = stage.find_inputs(wanted), {*made.inputs}
    if made.inputs and now - was and stage.name != BUILD:
        return [f"was made from {', '.join(sorted(was - now))}, now from {', '.join(sorted(now - was))}"]
    reasons = describe_changed_settings(made.config, config)
    reasons += [
        f"was made from another {name} than the one that is here"
        for name, made_from in made.inputs.items()
        if name in found and name not in different and found[name].as_input() != made_from
    ]
    if not reasons and made.identity != compute_identity(made.stage, config, made.inputs, SEMANTICS):
        return [_OTHER_RELEASE]
    return reasons


def _find_plan_reasons(output: str, config: BuildConfig, made: PlanManifest, plan: Plan) -> list[str]:
    """What the build file says about the input now, where that differs from the plan that is there."""
    reasons = []
    if made.config.range_bytes != config.plan.range_bytes:
        reasons.append(f"plan.range_bytes was {made.config.range_bytes}, now {config.plan.range_bytes}")
    was = {file.uri: made.config.settings[file.settings] for file in read_pinned_files(output)}
    changed: dict[tuple[str, str], list[str]] = {}
    for file in plan.files:
        read = plan.settings[file.settings]
        for key, change in describe_changed_reading(was.get(file.uri, read), read):
            changed.setdefault((_find_key(config, read, key), change), []).append(file.uri)
    for (key, change), uris in changed.items():
        more = f" and {len(uris) - 1:,} more" if len(uris) > 1 else ""
        reasons.append(f"{key} {change} (of {redact(uris[0])}{more})")
    return reasons


def _find_key(config: BuildConfig, read: ReadSettings, key: str) -> str:
    """The key of the build file that says how a file is read, by the first source that says so."""
    if key == "forbidden":
        return 'encode.special_text = "reject" and [special]: texts that reject a document'
    if key == "lang_normalize":
        return f"build.{key}"
    if key in _READ_ALIKE:
        return _READ_ALIKE[key]
    number = find_exact_source(config, read)
    return f"source.{key}" if number is None else f"source[{number}].{key}"
