"""`tokcore encode --at COMMIT -o OUTPUT`: the documents of a commit, tokenized with any tokenizer, as a new output.

The new output is what a build over these documents gives whose build file names that tokenizer.
"""

from __future__ import annotations

import dataclasses
import re

from tokcore.errors import ConfigError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.inherited_items import find_changed
from tokcore_pipelines.build.output import Output, read_output
from tokcore_pipelines.build.tokenizers_beside import find_tokenizer
from tokcore_pipelines.history.input_files_held import HeldFiles, read_held
from tokcore_pipelines.history.make_commit import make_plan_again, name_some
from tokcore_pipelines.history.tombstone_changes import carry_files
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.build_tables import TokenizerTable
from tokcore_schemas.plan import Plan, ReadSettings
from tokcore_schemas.stage_table import PLAN


def is_fingerprint(text: str) -> bool:
    """Whether a text may be a fingerprint, or how one begins, rather than a path.

    >>> is_fingerprint("0a1b"), is_fingerprint("out/first"), is_fingerprint("tokcore.json")
    (True, False, False)
    """
    return re.fullmatch(r"[0-9a-fA-F]{4,64}", text) is not None


def make_encoding(build: Build, target: str, at: int | None = None, tokenizer: str = "") -> Build:
    """The build, to be run, of a new output from the documents of a commit of an output.

    build: of the output, by its build file, which also says how to encode. target: URL of the new output. at: None:
    the newest commit. tokenizer: a fingerprint, or how it begins, of one of the output's; or what [tokenizer] from
    takes; empty: the output's own. Raises ConfigError if one of these is not there, StageError if an input of the
    commit is gone or has changed.
    """
    if target.rstrip("/") == build.output.rstrip("/"):
        raise ConfigError(
            f"-o {redact(target)}: is the output itself, whose commits have one tokenizer. Name a new one."
        )
    if build.replace or build.reuse:
        raise ConfigError("--replace and --from are for the stages of a build. Leave them out, or --at.")
    output = read_output(build.output, at)
    config = dataclasses.replace(
        build.config, tokenizer=TokenizerTable(from_=_locate(build.output, tokenizer)), special=(), counts_too=False
    )
    plan = plan_commit(output, config.plan.range_bytes)
    if lost := find_changed(plan.files, config.base):
        raise StageError(
            f"{name_some(lost)}: gone, or not as when {redact(build.output)} read it, so the documents of commit "
            f"{output.number} cannot be read again. Put back what was read, or choose another commit. Nothing was "
            f"written."
        )
    carry_files(build.output, target, (settings.removed for settings in plan.settings))
    return Build(config, build.options, target, build.progress, chosen=plan)


def _locate(output: str, tokenizer: str) -> str:
    if not tokenizer:
        return urls.join(output, "tokenizer")
    return find_tokenizer(output, tokenizer) if is_fingerprint(tokenizer) else tokenizer


def plan_commit(output: Output, range_bytes: int) -> Plan:
    """The plan of all files of a commit, as they were pinned, without what was removed by then.

    Equal to the plan of a build file over these files, where nothing was removed.
    """
    held = read_held(output.url, output.named)
    plan = make_plan_again(held.values(), output.log.tombstones(output.number), range_bytes)
    ordered = sorted(plan.settings, key=_spell)
    places = {settings: place for place, settings in enumerate(ordered)}
    files = [dataclasses.replace(file, settings=places[plan.settings[file.settings]]) for file in plan.files]
    return make_plan(files, ordered, range_bytes, _find_duplicates(output, held))


def _spell(settings: ReadSettings) -> bytes:
    """What planning sorts settings by."""
    return write_canonical_json(to_jsonable(settings))


def _find_duplicates(output: Output, held: HeldFiles) -> set[str]:
    return {uri for _, plan in output.require_all(PLAN) for uri in plan.totals.duplicates if uri in held}
