"""Before any work: a look at the start of some files of each source, for what would fail after hours.

Reads a bounded number of bytes per source, in threads, for stores answer slowly. A build is refused only where it would
fail in the end: all that was seen of a source is wrong for one cause, and the source is more than max_rejected allows.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tokcore.errors import ConfigError
from tokcore_pipelines.build.guess_fields import fill_values
from tokcore_pipelines.build.learn_need import check_samples_need, may_lack_memory
from tokcore_pipelines.build.long_files import find_long_files
from tokcore_pipelines.build.samples import Finding, Seen, SourceSample
from tokcore_pipelines.build.suggest_fixes import (
    KEYS,
    describe_fields,
    describe_wrong_content,
    find_source,
    is_json_as_text,
    suggest_fix,
)
from tokcore_pipelines.build.whole_checks import check_languages
from tokcore_pipelines.reading.beside import leave_attributes, locate_beside
from tokcore_pipelines.reading.peek import Field, Peek, count_rows, find_fields, peek, read_first_documents
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.config_reader import suggest_nearest
from tokcore_schemas.expressions import parse_expression
from tokcore_schemas.field_template import is_template, list_paths
from tokcore_schemas.input_format import COLUMN_FORMATS
from tokcore_schemas.plan import FilterRule, InputFile, Plan

_THREADS = 16
_MOST = 5  # causes that a message names
_LONG_DOCUMENT_BYTES = 1 << 20  # a text file that is longer holds more than one document, most likely


@dataclasses.dataclass(frozen=True, slots=True)
class Depth:
    """How much of each source is looked at."""

    files: int  # of a source, fewer if there are many sources
    bytes_each: int  # as stored
    files_in_all: int
    decodes_columns: bool  # whether rows of parquet and Arrow files are read, which takes a process of its own


BEFORE_A_BUILD = Depth(2, 1 << 16, 256, False)
ROWS_BEFORE_A_BUILD = dataclasses.replace(BEFORE_A_BUILD, decodes_columns=True)
FOR_CHECK = Depth(24, 1 << 18, 256, True)


def sample_plan(config: BuildConfig, plan: Plan, depth: Depth) -> list[SourceSample]:
    """The start of some files of each source: of the first, the last, and those in between at equal distances."""
    chosen: list[tuple[int, InputFile]] = []
    files: dict[int, list[InputFile]] = {}
    for file in plan.files:
        files.setdefault(file.settings, []).append(file)
    for number, listed in sorted(files.items()):
        full = [file for file in listed if file.size_bytes] or listed
        num = max(1, min(depth.files, len(full), depth.files_in_all // len(files)))
        positions = sorted({i * (len(full) - 1) // max(1, num - 1) for i in range(num)})
        chosen += [(number, full[i]) for i in positions]

    def look(choice: tuple[int, InputFile]) -> Seen:
        number, file = choice
        pin = storage.FileId(urls.resolve_name(config.base, file.uri), file.size_bytes, file.version)
        if unreadable := urls.explain_unreadable(pin.url):
            return Seen(file, Peek(pin, "empty", "empty", b"", 0, False), None, f"{file.uri}: {unreadable}")
        peeked = peek(pin, depth.bytes_each)
        settings = locate_beside(plan.settings[number], config.base)
        if wrong := describe_wrong_content(peeked, settings):
            return Seen(file, peeked, None, wrong)
        if settings.format in COLUMN_FORMATS and not depth.decodes_columns:
            return Seen(file, peeked, None)
        try:
            return Seen(file, peeked, read_first_documents(peeked, settings), num_rows=count_rows(peeked))
        except FileRejected as error:
            return Seen(file, peeked, None, f"{file.uri}: {error.detail}")

    with ThreadPoolExecutor(min(_THREADS, max(1, len(chosen)))) as pool:
        looked = [*pool.map(look, chosen)]
    return [
        SourceSample(
            number,
            find_source(config, plan.settings[number]),
            locate_beside(plan.settings[number], config.base),
            tuple(listed),
            tuple(seen for (of, _), seen in zip(chosen, looked, strict=True) if of == number),
        )
        for number, listed in sorted(files.items())
    ]


def check_samples(config: BuildConfig, samples: Sequence[SourceSample]) -> list[Finding]:
    """What is wrong with the sources, or looks so, in their order."""
    total = max(1, sum(sample.stored_bytes for sample in samples))
    limit = config.build.max_rejected
    found = []
    for sample in sorted(samples, key=lambda sample: sample.source):
        is_much = sample.stored_bytes / total > limit
        found += _check_content(config, sample, is_much)
        found += _check_records(config, sample, is_much)
        found += _check_filter_fields(config, sample)
        found += _check_long_texts(config, sample)
    return found + check_languages(config, samples)


def describe(found: Sequence[Finding]) -> list[str]:
    """The findings in words, each cause once."""
    causes: dict[str, list[Finding]] = {}
    for finding in found:
        causes.setdefault(finding.text, []).append(finding)
    said = []
    for text, findings in causes.items():
        others = f" The same holds for {len(findings) - 1} more sources." if len(findings) > 1 else ""
        example = f" (first in {findings[0].example})" if findings[0].example else ""
        said.append(f"{findings[0].where}: {text}{example}.{others}")
    return said


def refuse_wrong_sources(config: BuildConfig, plan: Plan, workers: int, is_local: bool = True) -> list[str]:
    """Raise ConfigError if the build would fail because of its sources; return what else looks wrong.

    is_local: whether it learns here, not on an engine's worker.
    """
    samples = sample_plan(config, plan, BEFORE_A_BUILD)
    found = [*check_samples(config, samples), *find_long_files(config, samples, workers)]
    if stopping := describe([finding for finding in found if finding.stops]):
        raise ConfigError(join_lines(*stopping[:_MOST]))
    needs: list[Finding] = []
    if may_lack_memory(config, plan.size_bytes, is_local):
        if all(seen.batch is None for sample in samples for seen in sample.seen):
            samples = sample_plan(config, plan, ROWS_BEFORE_A_BUILD)
        needs += check_samples_need(config, samples, is_local)
    return describe(found)[:_MOST] + describe(needs)


def _check_content(config: BuildConfig, sample: SourceSample, is_much: bool) -> list[Finding]:
    """Files that are not of the format that they are read as."""
    where = config.at("source", sample.source, "files")
    wrong = [seen.refused for seen in sample.seen if seen.refused]
    if wrong:
        is_all = len(wrong) == len(sample.seen)
        others = f" ({len(wrong)} of {len(sample.seen)} files looked at are like this)" if len(sample.files) > 1 else ""
        return [Finding(where, f"{redact(wrong[0])}{others}", is_all and is_much)]
    is_told = config.sources[sample.source].format is not None
    json = [seen for seen in sample.seen if is_json_as_text(seen.peek, sample.settings)]
    if json and not is_told:
        text = (
            f'{redact(json[0].file.uri)} holds JSON lines, and is read as plain text: write format = "jsonl", '
            f'or format = "text" if that is meant'
        )
        return [Finding(where, text, len(json) == len(sample.seen))]
    return []


def _check_records(config: BuildConfig, sample: SourceSample, is_much: bool) -> list[Finding]:
    """Records that the build would reject, and columns that are not there."""
    read = [seen for seen in sample.seen if seen.batch is not None and seen.batch.num_records]
    reasons = Counter(reject.reason for seen in read if seen.batch for reject in seen.batch.rejects)
    num_records = sum(seen.batch.num_records for seen in read if seen.batch)
    if not reasons:
        return _check_columns(config, sample, is_much)
    ((reason, number),) = reasons.most_common(1)
    example = next(s for s in read if s.batch and any(r.reason == reason for r in s.batch.rejects))
    assert example.batch is not None
    reject = next(r for r in example.batch.rejects if r.reason == reason)
    key = KEYS.get(reason)
    where = config.at("source", sample.source, *([key] if key else []))
    share = 100 * number / num_records
    place = redact(example.file.uri) + (f", record {reject.record}" if reject.record is not None else "")
    fields = fill_values(example.peek, sample.settings, find_fields(example.peek, sample.settings))
    fix = suggest_fix(reason, sample.settings, example.peek, fields)
    if " = " in reject.detail:  # it says what to write
        fix = ""
    text = f"{share:.3g} % of the sampled records would be rejected: {reason}: {reject.detail}. {fix}".strip(" .")
    return [Finding(where, text, number == num_records and is_much, place)]


def _check_columns(config: BuildConfig, sample: SourceSample, is_much: bool) -> list[Finding]:
    """Columns that the build file names and that no file looked at has."""
    if sample.settings.format not in COLUMN_FORMATS:
        return []
    schemas = [(seen, fields) for seen in sample.seen if (fields := find_fields(seen.peek, sample.settings))]
    found: list[Finding] = []
    keys = {"missing_text": "text", "missing_id": "id", "missing_group": "group", "bad_lang": "lang_field"}
    for reason, key in keys.items():
        if is_template(setting := getattr(sample.settings, key)):
            found += _check_template(config, sample, is_much, key, schemas)
            continue
        named = setting
        lacking = [one for one in schemas if named and not has_field(one[1], named)]
        twice = [one for one in schemas if sum(field.name == named for field in one[1]) > 1]
        if twice and not lacking:
            text = suggest_fix(reason, sample.settings, None, twice[0][1])
            where = config.at("source", sample.source, key)
            return [Finding(where, text, len(twice) == len(schemas) and is_much, redact(twice[0][0].file.uri))]
        if lacking:
            seen, fields = lacking[0]
            where = config.at("source", sample.source, key)
            known = fill_values(seen.peek, sample.settings, fields) if seen.batch is not None else fields
            fix = suggest_fix(reason, sample.settings, None, known)
            text = f"there is no column '{named}'. {fix}"
            return [Finding(where, text, len(lacking) == len(schemas) and is_much, redact(seen.file.uri))]
    return found


def _check_template(
    config: BuildConfig, sample: SourceSample, is_much: bool, key: str, schemas: Sequence[tuple[Seen, list[Field]]]
) -> list[Finding]:
    """Columns that a template asks for and that no file looked at has."""
    found = []
    setting = getattr(sample.settings, key)
    required = list_paths(setting, required=True)
    for name in list_paths(setting):
        if lacking := [one for one in schemas if not has_field(one[1], name)]:
            seen, fields = lacking[0]
            text = f"there is no column '{name}'. {describe_fields(fields, sample.settings)}"
            stops = name in required and len(lacking) == len(schemas) and is_much
            found.append(Finding(config.at("source", sample.source, key), text, stops, redact(seen.file.uri)))
    return found


def _check_filter_fields(config: BuildConfig, sample: SourceSample) -> list[Finding]:
    """Fields that a filter compares, a mask reads or [metadata] names, and that no record looked at has.

    Most likely such a filter drops all documents, such a mask finds nothing, and such a column is empty.
    """
    wanted = [one.name for one in leave_attributes(sample.settings).fields if one.kind != "any"]
    mask = sample.settings.mask
    seen_fields = [field for seen in sample.seen for field in find_fields(seen.peek, sample.settings) if wanted]
    if not seen_fields:
        return []
    fields = [*{field.name: field for field in seen_fields}.values()]
    found = []
    for name in wanted:
        if has_field(fields, name) or sample.settings.maps:  # whose code may make it
            continue
        if mask is not None and name == mask.spans:
            text = f"no record that was looked at has the field '{name}', so no span of it is masked"
            stops = sample.settings.format in (*COLUMN_FORMATS, "csv", "tsv")  # whose records have the same fields
            found.append(Finding(config.at("mask", "spans"), text, stops, redact(sample.seen[0].file.uri)))
            continue
        if name in {one.name for one in config.compared_fields}:
            key = "by" if name == config.dedup.by else "prefer"
            text = f"no record that was looked at has the field '{name}'. {describe_fields(fields, sample.settings)}"
            found.append(Finding(config.at("dedup", key), text, key == "by", redact(sample.seen[0].file.uri)))
            continue
        rules = (one for one in enumerate(sample.settings.filters) if _names_field(one[1], name))
        if (named := next(rules, None)) is None:
            text = f"no record that was looked at has the field '{name}'. {describe_fields(fields, sample.settings)}"
            found.append(Finding(config.at("metadata", name), text, False, redact(sample.seen[0].file.uri)))
            continue
        number, rule = named
        hint = suggest_nearest(name, [field.name for field in fields])
        text = f"no record that was looked at has the field '{name}'. {describe_fields(fields, sample.settings)}.{hint}"
        stops = " or " not in rule.keep and " null" not in rule.keep  # without the field, it is true of nothing
        found.append(
            Finding(config.at("filter", number, "keep"), text.rstrip("."), stops, redact(sample.seen[0].file.uri))
        )
    return found


def _names_field(rule: FilterRule, name: str) -> bool:
    return bool(rule.keep) and name in parse_expression(rule.keep).fields


def has_field(fields: Sequence[Field], name: str) -> bool:
    """Whether a field has that name or is inside of it. If a list's members are unknown, any path into it counts."""
    names = [field.name for field in fields]
    is_there = any(one == name or one.startswith((f"{name}.", f"{name}[*].")) for one in names)
    return is_there or name.partition("[")[0] in names


def _check_long_texts(config: BuildConfig, sample: SourceSample) -> list[Finding]:
    """Text files that are read as one document each and are long."""
    source = config.sources[sample.source]
    if sample.settings.format != "text" or sample.settings.unit != "file" or source.unit is not None:
        return []
    longest = max(sample.files, key=lambda file: file.size_bytes)
    ratio = max((seen.peek.unfolded_bytes / max(1, seen.file.size_bytes) for seen in sample.seen), default=1)
    if (length := longest.size_bytes * ratio) < _LONG_DOCUMENT_BYTES:
        return []
    text = (
        f"{redact(longest.uri)} is one document of "
        f"about {length / 1e6:.1f} MB. If it holds several documents, say how to separate them: "
        f'unit = "line", unit = "paragraph" or separator = "..."; if not, unit = "file"'
    )
    return [Finding(config.at("source", sample.source, "files"), text, False)]
