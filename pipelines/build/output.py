"""What an output holds at a commit, all parts added up: what every command that reads it asks for. No Beam."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tokcore.count import token_counts
from tokcore.kernel import IdRows
from tokcore_pipelines.build.commit import find_manifest, find_written, require_manifest
from tokcore_pipelines.build.read_log import Log, locate_part, read_log, read_part
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.token_count_table import read_token_counts
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.counted_parts import CountedPart, CountedParts
from tokcore_pipelines.work.summed_totals import add_up_counts, add_up_languages, add_up_totals
from tokcore_schemas.commit_log import Part
from tokcore_schemas.manifest import Manifest
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    BuildTotals,
    BuiltLanguage,
    EncodedLanguage,
    ImportedConfig,
    ShardsManifest,
    StageConfigs,
)
from tokcore_schemas.stage_table import BUILD, COUNTS, WHOLE, Made, Stage


@dataclasses.dataclass(frozen=True)
class Output:
    """An output at a commit; of an output that is not finished, what is there."""

    url: str
    number: int  # of the commit
    finished: Log | None  # None: it is not

    @property
    def at(self) -> int | None:
        """The number of the commit, so that all that is read is of the same one; None if it is not finished."""
        return self.number if self.finished is not None else None

    @property
    def log(self) -> Log:
        """Raises ConfigError if the output is not finished."""
        return self.finished or read_log(self.url)

    @property
    def named(self) -> tuple[Part, ...]:
        """Its parts, as the log names them. Raises as log."""
        return self.log.parts(self.number)

    @functools.cached_property
    def parts(self) -> list[Stored]:
        """What the builds of its parts left, whose manifests are read once."""
        return [Stored(locate_part(self.url, part)) for part in self.named] if self.finished else [Stored(self.url)]

    def find_all(self, stage: Stage[Made]) -> list[tuple[str, Made]]:
        """(URL, manifest of a stage) of each part; none if a part has none, as of an output that is not finished."""
        found = [(part.url, made) for part in self.parts if (made := part.find(stage)) is not None]
        return found if len(found) == len(self.parts) else []

    def require_all(self, stage: Stage[Made], command: str = "build") -> list[tuple[str, Made]]:
        """As find_all. Raises ConfigError if a part has none. command: that makes it, for the message."""
        return [(part.url, part.require(stage, command)) for part in self.parts]

    def find_counted(self) -> CountedParts | None:
        """The count tables of all parts; None if a part has none: an imported tokenizer needs none."""
        found = self.find_all(COUNTS)
        return CountedParts(tuple(CountedPart(url, made) for url, made in found)) if found else None

    def read_token_counts(self) -> pa.Table:
        """How often each id was written, as token_counts.parquet has it. Raises FormatError for a damaged table."""
        tables = [read_token_counts(part.url) for part in self.parts]
        if len(tables) == 1:
            return tables[0]
        rows = [IdRows(*(column.to_numpy() for column in table.columns)) for table in tables]
        return token_counts.make_table(token_counts.add_up(rows))

    def add_up_build(self) -> BuildManifest:
        """The build's manifest, with the totals, languages and root of the commit.

        Raises ConfigError if the output is not finished.
        """
        if self.finished is None:
            if (written := find_written(self.url)) is not None:
                return _describe_written(self.url, written)
            return require_manifest(self.url, WHOLE)
        builds = [read_part(self.url, part) for part in self.named]
        if len(builds) == 1:
            return builds[0]
        own = self.log.build
        languages = {
            lang: dataclasses.replace(
                _take_over_mix(own.languages.get(lang)), **_list_totals(one), **_add_up_masked(builds, lang)
            )
            for lang, one in add_up_languages([made.languages for made in builds]).items()
        }
        totals = add_up_totals([made.totals for made in builds])
        return dataclasses.replace(own, totals=totals, languages=languages, root=self.log.root(self.number))


def _describe_written(output: str, made: ShardsManifest) -> BuildManifest:
    """What a build's manifest would say of shards that WriteShards made."""
    spec = load_spec(output)
    totals = {field.name: getattr(made.totals, field.name) for field in dataclasses.fields(made.totals)}
    return Manifest(
        stage=BUILD,
        identity=made.identity,
        config=StageConfigs(ImportedConfig.of(spec), made.config),
        inputs={},
        files=(),
        totals=BuildTotals(**totals, vocab_size=spec.vocab_size),
        languages={lang: BuiltLanguage(**_list_totals(one)) for lang, one in made.languages.items()},
        root=made.content_id(),
    )


def read_output(url: str, at: int | None = None) -> Output:
    """An output at a commit; at: None: the newest. Raises ConfigError if there is no such commit, or it is expired."""
    if find_manifest(url, WHOLE) is None and at is None:
        return Output(url, 0, None)
    log = read_log(url, at)
    return Output(url, log.newest if at is None else at, log)


def _take_over_mix(of_build: BuiltLanguage | None) -> BuiltLanguage:
    """What a language weighed when the tokenizer was learned; nothing of a language that came later."""
    return of_build or BuiltLanguage(0, 0, 0, 0, "0")


def _list_totals(one: EncodedLanguage) -> dict[str, Any]:
    """The fields of a language's totals, by name."""
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(EncodedLanguage)}


def _add_up_masked(builds: Sequence[BuildManifest], lang: str) -> dict[str, Any]:
    of_lang = [one for made in builds if (one := made.languages.get(lang)) is not None and one.masked is not None]
    if not of_lang:
        return {}
    return {
        "masked": add_up_counts(one.masked or {} for one in of_lang),
        "masked_bytes": sum(one.masked_bytes or 0 for one in of_lang),
    }
