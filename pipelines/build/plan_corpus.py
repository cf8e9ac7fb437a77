"""The plan stage: list the inputs, pin them, and fix every range, work item and name before anything runs. No Beam."""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import hash_pieces, list_canonical_lines
from tokcore_pipelines.build.commit import find_manifest, get_manifest_url
from tokcore_pipelines.build.read_log import has_commits, locate_part, read_log
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, run_stage, write_file
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.tokenizer_files import import_tokenizer
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.pinned_inputs import FILES, parse_files_table, read_pinned_files
from tokcore_pipelines.work.cut_points import find_cuts
from tokcore_pipelines.work.inputs import LeftOut, ListFiles
from tokcore_pipelines.work.make_jobs import make_special_tokens
from tokcore_pipelines.work.plan_inputs import plan_inputs
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.manifest import Input
from tokcore_schemas.plan import InputFile, Plan, ReadSettings, count_partitions
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.stage_manifests import Nothing, PlanConfig, PlanManifest, PlanTotals
from tokcore_schemas.stage_table import PLAN


def plan_build(
    config: BuildConfig,
    output: str = "",
    left_out: LeftOut | None = None,
    *,
    grows: bool = False,
    list_files: ListFiles = storage.list_files,
    reuse: str = "",
) -> Plan:
    """The plan of a build file over the inputs as they are now.

    output: URL of the build's output, which no source may read; empty: as the build file says. left_out: is told of
    the files that match and are not taken. grows, list_files: as for plan_inputs. reuse: URL of another output, whose
    stages are taken over where they are those of this build. Raises ConfigError for a pattern
    without files, one that matches the output or meets links that its source does not speak of, a file of unknown
    format, and a file that two sources read differently; StageError if a store does not answer.
    """
    where_to = urls.resolve(config.base, output or config.build.output)
    is_old = functools.partial(storage.exists, get_manifest_url(where_to, "plan"))
    forbidden = _list_forbidden(config, where_to)
    choose_cuts = functools.partial(_choose_cuts, config, where_to, reuse, grows)
    plan = plan_inputs(
        config,
        where_to,
        forbidden,
        left_out,
        grows=grows,
        list_files=list_files,
        is_old=is_old,
        choose_cuts=choose_cuts,
    )
    if plan.runs != "hash" and (made := find_manifest(where_to, PLAN)) is not None and made.config.runs == "hash":
        # An earlier release planned it, whose runs may have more files. What it holds stays as it is.
        return make_plan(plan.files, plan.settings, config.plan.range_bytes, plan.duplicates, "hash")
    return plan


def _choose_cuts(
    config: BuildConfig, output: str, reuse: str, grows: bool, files: Sequence[tuple[InputFile, ReadSettings]]
) -> dict[str, tuple[int, ...]]:
    """Where long files are cut: as in the plan that is there, or by what the files say of themselves.

    In an output that an earlier release planned, none is. The plan of another output says it if it has all of them.
    """
    pins = {file.uri: _pin(file) for file, _ in files}
    for planned_at in filter(None, (output, reuse)):
        planned = _find_planned(config, planned_at, grows, pins)
        if planned is not None and (planned_at == output or len(planned) == len(pins)):
            return {uri: cuts for uri, cuts in planned.items() if cuts}
    if grows:
        return {}

    def find(one: tuple[InputFile, ReadSettings]) -> tuple[int, ...]:
        file, settings = one
        pin = storage.FileId(urls.resolve_name(config.base, file.uri), file.size_bytes, file.version)
        return find_cuts(pin, settings, config.plan.range_bytes)

    found = zip(files, run_at_once(find, files), strict=True)
    return {file.uri: cuts for (file, _), cuts in found if cuts}


def _find_planned(
    config: BuildConfig, output: str, grows: bool, pins: Mapping[str, tuple[int, str]]
) -> dict[str, tuple[int, ...]] | None:
    """Uri -> cuts, of those of some files that an output's plan has; None if it has none whose ranges are to stay.

    Of an output with commits, the plans of the parts of the newest one. None, too, if that is damaged: later stages say
    more.
    """
    with contextlib.suppress(FormatError, ConfigError):
        if has_commits(output):
            places = [locate_part(output, part) for part in read_log(output).parts()]
        else:
            places, made = [output], find_manifest(output, PLAN)
            if made is None or not (grows or made.config.range_bytes == config.plan.range_bytes):
                return None
        found: dict[str, tuple[int, ...]] = {}
        for url in (urls.join(place, PLAN.name, FILES) for place in places):
            if (table := storage.read_if_there(url)) is None:
                return None
            of_table = parse_files_table(table, url)
            found |= {file.uri: file.cuts for file in of_table if pins.get(file.uri) == _pin(file)}
        return found
    return None


def make_plan_key(config: BuildConfig, plan: Plan) -> StageKey[PlanConfig]:
    """What the plan stage is made from. The pins are an input that only it knows: changed files are another plan."""
    pins = {"files": Input(hash_pieces(_write_files_table(plan)), "")}
    return StageKey("plan", PlanConfig(config.plan.range_bytes, plan.settings, plan.runs), {}, pins)


def commit_plan(run: BuildRun, plan: Plan) -> PlanManifest:
    """Commit the plan, or find that it is the one that an earlier run of this build committed."""

    def make(attempts: Attempts) -> Made[PlanTotals, Nothing, Nothing]:
        stored = write_file(attempts, FILES, lambda file: file.writelines(_write_files_table(plan)), hash_content(plan))
        return Made([(stored, Nothing())], sum_up_plan(plan))

    return run_stage(run, make_plan_key(run.config, plan), make, lambda: find_changed_inputs(run.output, plan))


def sum_up_plan(plan: Plan) -> PlanTotals:
    """What the plan's manifest says of it as a whole."""
    size_bytes = plan.size_bytes
    return PlanTotals(
        files=len(plan.files),
        stored_bytes=size_bytes,
        items=len(plan.items),
        partitions=count_partitions(size_bytes),
        duplicates=plan.duplicates,
    )


def recount_plan(stored: Stored, _: object) -> Made[PlanTotals, Nothing, Nothing]:
    """What the plan's manifest has to say of its table of files. Raises FormatError if that is not in order."""
    plan, entry = stored.plan, stored.get(PLAN).file(FILES)
    uris = [file.uri for file in plan.files]
    if uris != sorted({*uris}):
        raise FormatError(f"{PLAN.name}/{FILES}: not sorted, or a file twice")
    file = StoredFile(FILES, "", entry.size_bytes, entry.sha256, hash_content(plan))
    return Made([(file, Nothing())], sum_up_plan(plan))


def find_changed_inputs(output: str, plan: Plan) -> list[str]:
    """The files of a plan that are not as the output's plan pinned them, in one reason; none if all are."""
    num_changed, shown = 0, []
    for what in _compare(read_pinned_files(output), plan.files):
        num_changed += 1
        if num_changed <= 3:
            shown.append(what)
    more = f" and {num_changed - 3} more" if num_changed > 3 else ""
    return [f"the input files are not the same: {', '.join(shown)}{more}"] if shown else []


def _compare(was: Iterable[InputFile], now: Iterable[InputFile]) -> Iterator[str]:
    """What differs between two lists of files, both sorted by uri, one after the other."""
    both = heapq.merge(
        ((file.uri, "is gone", file) for file in was),
        ((file.uri, "is new", file) for file in now),
        key=lambda one: one[0],
    )
    for uri, sides in itertools.groupby(both, key=lambda one: one[0]):
        (_, said, first), *other = sides
        if not other:
            yield f"{uri} {said}"
        elif _pin(first) != _pin(other[0][2]):
            yield f"{uri} was modified"


def _pin(file: InputFile) -> tuple[int, str]:
    return file.size_bytes, file.version


def _list_forbidden(config: BuildConfig, output: str) -> tuple[str, ...]:
    if config.encode.special_text != "reject":
        return ()
    special = make_special_tokens(config) if config.tokenizer is None else import_tokenizer(config, output).special
    return tuple(sorted(token.text for token in special if token.is_special))


def _write_files_table(plan: Plan) -> Iterator[bytes]:
    """The plan's files as canonical JSON lines, many at a time: all of them may take gigabytes."""
    return list_canonical_lines(
        # As to_jsonable() has it, in a third of the time.
        {
            "uri": file.uri,
            "size_bytes": file.size_bytes,
            "version": file.version,
            "settings": file.settings,
            **_tell_cuts(file),
        }
        for file in plan.files
    )


def _tell_cuts(file: InputFile) -> dict[str, object]:
    return {"cuts": [*file.cuts]} if file.cuts else {}


def hash_content(plan: Plan, more: bytes = b"") -> str:
    """sha256 of the files without their versions: what two builds over copies of the same files have in common.

    more: what else is hashed, after them.
    """

    def pinned(file: InputFile) -> Mapping[str, object]:
        return {"uri": file.uri, "stored_bytes": file.size_bytes, "settings": file.settings, **_tell_cuts(file)}

    return hash_pieces(itertools.chain(list_canonical_lines(map(pinned, plan.files)), [more]))
