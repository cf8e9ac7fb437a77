"""A build: plan, count, learn, encode. Each stage gives a manifest, and is skipped if its manifest stands.

sources --plan--> input ranges --count--> count tables --learn--> tokenizer --encode--> token shards
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines.local.progress import StageProgress
from pipelines.local.run_options import RunOptions
from pipelines.stages import ledger
from pipelines.stages.commit import STAGES, build_content, claim, claim_url, commit, committed, manifest_url
from pipelines.stages.documents_digest import documents_digest
from pipelines.stages.learn import learn_tokenizer
from pipelines.stages.plan import FILES, content_of, files_table, parse_files_table, plan_build
from pipelines.stages.rejects import LEDGER, REJECTED, first_rejects, write_rejects
from pipelines.stages.semantics import SEMANTICS
from pipelines.stages.token_counts import write_token_counts
from pipelines.stages.tokenizer_files import artifact_files, import_tokenizer
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER, Attempts, publish
from pipelines.store.crashpoints import reached
from pipelines.store.redaction import redact
from pipelines.work.count_item import CountJob, item_key, totals_key
from pipelines.work.encode_job import EncodeJob
from schemas.config import BuildConfig, pretokenizer_of
from schemas.document import find_twins
from schemas.manifest import FileEntry, Input, Manifest, identity_of
from schemas.plan import Plan
from schemas.refs import ItemCounted, ItemEncoded, LanguageCounts, RangeLedger, StoredFile, TableRef
from tokcore import kernel
from tokcore.canonical import sha256_hex
from tokcore.errors import ConfigError, LedgerError, StageError, TokError
from tokcore.masking import check_mask
from tokcore.tokenizer_spec import FILE_NAME, TokenizerSpec

# A stage's manifest and the files that it names, as they lie in the stage's working folder.
Made = tuple[Manifest, Sequence[StoredFile]]


@dataclasses.dataclass(slots=True)
class Build:
    """One build file and one output; call the stages in order, or run() for all."""

    config: BuildConfig
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    output: str = ""  # URL; empty: as the build file says
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    _plan: Plan | None = dataclasses.field(default=None, init=False, repr=False)
    _imported: TokenizerSpec | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.output = urls.resolve(self.config.base, self.output or self.config.build.output)
        if self.options.runner:
            # Imports Beam, which takes most of a second: only for a build that names runner options.
            from pipelines.graph.runner import check_runner_options

            check_runner_options(self.options.runner)

    def run(self) -> Manifest:
        """Run every stage whose manifest is missing; return the build's manifest.

        Raises ConfigError if the output holds a different build, StageError and LearnError if a stage fails.
        """
        self.plan()
        if self.config.tokenizer is None:
            self.count()
        self.learn()
        self.encode()
        return self.finish()

    # ---------------------------------------------------------------------------------------------------------- stages

    def plan(self) -> Manifest:
        """List and pin the inputs, or find them as an earlier run of this build pinned them."""
        self._refuse_foreign_output()
        self.imported_tokenizer()
        plan = self._plan = plan_build(self.config)
        reached("plan.listed")
        config, pins = self._plan_identity(plan)
        table = files_table(plan)

        def make(attempts: Attempts, identity: str) -> Made:
            stored = _write(attempts, FILES, table, sha256_hex(content_of(plan)))
            manifest = Manifest(
                stage="plan",
                identity=identity,
                config=config,
                inputs={},
                files=(FileEntry.of(stored),),
                totals={
                    "files": len(plan.files),
                    "stored_bytes": plan.size_bytes,
                    "items": len(plan.items),
                    "partitions": plan.num_partitions,
                    "duplicates": list(plan.duplicates),
                },
            )
            return manifest, [stored]

        return self._stage("plan", config, pins, make, keep_inputs=False)

    def count(self) -> Manifest:
        """Count pre-tokens per language into tables; commit the rejects."""
        plan, planned = self._planned()
        config = self.config.count_identity()
        inputs = {"plan": planned.as_input()}

        def make(attempts: Attempts, identity: str) -> Made:
            job = CountJob(
                attempts=attempts,
                base=self.config.base,
                pattern=pretokenizer_of(self.config).spec,
                normalize=tuple(self.config.normalize.steps),
                max_pretoken_bytes=self.config.count.max_pretoken_bytes,
                memory_bytes=self.config.count.memory_bytes,
                sample=str(self.config.count.sample),
                seed=self.config.build.seed,
                num_partitions=plan.num_partitions,
                mask=check_mask(self.config.count.mask),
            )
            # Imports Beam, which takes most of a second: not for a stage that has none, or that stands.
            from pipelines.graph.launch import count_items

            with self.progress.stage("count", plan.size_bytes) as shown:
                count_items(self.options, plan, job, shown.advance)
            items = [_recorded(attempts, item_key(item.number), ItemCounted) for item in plan.items]
            languages = _languages(attempts, items)
            reached("stage.worked")
            ranges = [one for item in items for one in item.ledgers]
            files = ledger.balanced(plan, ranges, languages)
            counted = [lang for lang, counts in languages.items() if counts.num_pretokens]
            tables = [_recorded(attempts, f"table-{lang}", TableRef) for lang in counted]
            ledger.check_counted(languages, tables, self.config.count.sample < 1, bool(self.config.normalize.steps))
            self._commit_rejects(attempts, plan, planned, files, ranges, [item.rejects for item in items])
            rows = {table.lang: table.num_rows for table in tables}
            manifest = Manifest(
                stage="counts",
                identity=identity,
                config=config,
                inputs=inputs,
                files=tuple(
                    FileEntry.of(
                        t.file, lang=t.lang, rows=t.num_rows, pretokens=t.num_pretokens, pretoken_bytes=t.size_bytes
                    )
                    for t in tables
                ),
                totals=ledger.totals_of(files),
                languages={
                    lang: {
                        "documents": counts.num_documents,
                        "text_bytes": counts.text_bytes,
                        "counted_documents": counts.num_counted,
                        "counted_bytes": counts.counted_bytes,
                        "pretokens": counts.num_pretokens,
                        "rows": rows.get(lang, 0),
                        **(
                            {"masked_bytes": counts.masked_bytes, "masked": _masked(items, lang)}
                            if self.config.count.mask
                            else {}
                        ),
                    }
                    for lang, counts in languages.items()
                },
            )
            return manifest, [table.file for table in tables]

        manifest = self._stage("counts", config, inputs, make)
        self._check_rejected(manifest.totals)
        self._check_languages(manifest)
        return manifest

    def learn(self) -> Manifest:
        """Learn the tokenizer from the count tables, or import the one the build file names."""
        config = self.config.learn_identity()
        inputs: dict[str, Input] = {}
        imported = self.imported_tokenizer()
        counts: Manifest | None = None
        if imported is not None:
            config = {**config, "fingerprint": imported.fingerprint}
        else:
            counts = self._committed("counts", "count")
            inputs["counts"] = counts.as_input()

        def make(attempts: Attempts, identity: str) -> Made:
            with self.progress.stage("learn"):
                reached("learn.begin")
                if counts is not None:
                    learned = learn_tokenizer(self.config, self.output, counts, self.options.num_workers)
                    spec, mix, languages = learned.spec, learned.mix, learned.languages
                else:
                    assert imported is not None
                    spec, mix, languages = imported, {}, {}
                reached("learn.learned")
            stored = [_write(attempts, path, data) for path, data in artifact_files(spec)]
            manifest = Manifest(
                stage="tokenizer",
                identity=identity,
                config=config,
                inputs=inputs,
                files=tuple(FileEntry.of(file) for file in sorted(stored, key=lambda file: file.path)),
                totals={
                    "fingerprint": spec.fingerprint,
                    **spec.model.facts(),
                    "vocab_size": spec.vocab_size,
                    "mix": mix,
                },
                languages=languages,
            )
            return manifest, stored

        return self._stage("tokenizer", config, inputs, make)

    def encode(self) -> Manifest:
        """Tokenize the corpus into shards."""
        plan, planned = self._planned()
        learned = self._committed("tokenizer", "learn")
        config = self.config.encode_identity()
        inputs = {"plan": planned.as_input(), "tokenizer": learned.as_input()}
        tokenizer_url = urls.join(self.output, "tokenizer", FILE_NAME)

        def make(attempts: Attempts, identity: str) -> Made:
            data = storage.read_bytes(tokenizer_url)
            (written,) = (entry for entry in learned.files if entry.path == FILE_NAME)
            tokenizer = TokenizerSpec.from_json_bytes(data, tokenizer_url, written.sha256)
            job = EncodeJob(
                attempts=attempts,
                base=self.config.base,
                tokenizer=tokenizer_url,
                tokenizer_sha256=written.sha256,
                fingerprint=tokenizer.fingerprint,
                append=tuple(_special_id(tokenizer, text) for text in self.config.encode.append),
                special_text=self.config.encode.special_text,
                formats=tuple(self.config.shards.formats),
                target_tokens=self.config.shards.target_tokens,
                by_lang=self.config.shards.by == "lang",
                validation=str(self.config.shards.validation),
                seed=self.config.build.seed,
                compression=self.config.shards.compression,
                num_partitions=plan.num_partitions,
            )
            # Imports Beam, which takes most of a second: not for a stage that has none, or that stands.
            from pipelines.graph.launch import encode_items

            with self.progress.stage("encode", plan.size_bytes) as shown:
                encode_items(self.options, plan, job, shown.advance)
            items = [_recorded(attempts, item_key(item.number), ItemEncoded) for item in plan.items]
            languages = _languages(attempts, items)
            reached("stage.worked")
            ranges = [one for item in items for one in item.ledgers]
            files = ledger.balanced(plan, ranges, languages)
            totals = ledger.totals_of(files)
            if self.config.tokenizer is not None:
                self._commit_rejects(attempts, plan, planned, files, ranges, [item.rejects for item in items])
                self._check_rejected(totals)
            else:
                (table,) = (e for e in self._committed("rejected", "count").files if e.path == LEDGER)
                counted = self._committed("counts", "count").languages
                ledger.check_read_alike(counted, table.sha256, languages, ledger.files_table(files))
            shards = [shard for item in items for shard in item.shards]
            digest, num_digests = documents_digest(attempts, job.num_partitions)
            ledger.check_documents(totals["records"]["documents"], shards, languages, num_digests)
            spelled: Counter[str] = Counter()
            for item in items:
                spelled.update(item.special_text)
            num_tokens = sum(shard.num_tokens for shard in shards)
            token_counts = write_token_counts(attempts, num_tokens)
            manifest = Manifest(
                stage="shards",
                identity=identity,
                config=config,
                inputs=inputs,
                files=(
                    *(
                        FileEntry.of(
                            file,
                            shard=shard.name,
                            lang=shard.lang,
                            split=shard.split,
                            documents=shard.num_documents,
                            tokens=shard.num_tokens,
                            max_token_id=shard.max_token_id,
                        )
                        for shard in shards
                        for file in shard.files
                    ),
                    FileEntry.of(token_counts, documents=totals["records"]["documents"], tokens=num_tokens),
                ),
                totals={
                    **totals,
                    "shards": len(shards),
                    "tokens": num_tokens,
                    "documents_digest": digest,
                    "fingerprint": tokenizer.fingerprint,
                    "special_text": dict(sorted(spelled.items())),
                },
                languages={lang: ledger.encoded_totals(counts) for lang, counts in languages.items()},
            )
            return manifest, [*(file for shard in shards for file in shard.files), token_counts]

        return self._stage("shards", config, inputs, make)

    def finish(self) -> Manifest:
        """Commit the build: one manifest that names the stages' manifests, and the root."""
        parts = {name: made for name in STAGES if (made := committed(self.output, name)) is not None}
        inputs = {name: made.as_input() for name, made in parts.items()}
        config = self.config_identity()

        def make(_: Attempts, identity: str) -> Made:
            manifest = dataclasses.replace(build_content(parts), identity=identity, config=config)
            return dataclasses.replace(manifest, root=manifest.content_id()), []

        manifest = self._stage("build", config, inputs, make)
        reached("build.committed")
        for name in (*STAGES, "build"):
            if (made := committed(self.output, "" if name == "build" else name)) is not None:
                storage.remove_tree(Attempts(self.output, name, made.identity).folder)
                storage.remove_file(claim_url(self.output, name))
        if not storage.list_tree(urls.join(self.output, FOLDER)):
            storage.remove_tree(urls.join(self.output, FOLDER))
        return manifest

    def standing(self, plan: Plan) -> str:
        """What the output holds of this build, in words. plan: as it is now.

        Raises ConfigError if it holds another build, or something else.
        """
        self._refuse_foreign_output()
        config, pins = self._plan_identity(plan)
        stages: dict[str, tuple[dict[str, Any], dict[str, Input]]] = {"plan": (config, pins)}
        stages |= {stage: (settings, {}) for stage, settings in self.config_identity().items()}
        found = {name: made for name in (*STAGES, "") if (made := committed(self.output, name)) is not None}
        for name, (settings, inputs) in stages.items():
            if (made := found.get(name)) is None:
                continue
            same = {key: value for key, value in made.config.items() if key != "fingerprint"} == settings
            if not same or (name == "plan" and made.identity != identity_of(name, settings, inputs, dict(SEMANTICS))):
                raise ConfigError(self._difference(name, made, settings, {}))
        if "" in found:
            return "this build, finished"
        return f"this build, unfinished: {', '.join(found)}" if found else "nothing"

    # ----------------------------------------------------------------------------------------------------------- parts

    def _plan_identity(self, plan: Plan) -> tuple[dict[str, Any], dict[str, Input]]:
        """(config, inputs) of the plan stage. The pins are its input: files that changed are another plan."""
        config = {"range_bytes": self.config.plan.range_bytes, "settings": list(plan.settings)}
        return config, {"files": Input(sha256_hex(files_table(plan)), "")}

    def imported_tokenizer(self) -> TokenizerSpec | None:
        """The tokenizer that the build file names; None if it is to be learned.

        Raises ConfigError unless it is one, with the tokens that encode.append wants.
        """
        if self.config.tokenizer is not None and self._imported is None:
            self._imported = import_tokenizer(self.config)
            for text in self.config.encode.append:
                _special_id(self._imported, text)
        return self._imported

    def config_identity(self) -> dict[str, Any]:
        """Every setting that can change bytes, by stage."""
        identity: dict[str, Any] = {
            "tokenizer": self.config.learn_identity(),
            "shards": self.config.encode_identity(),
        }
        if self.config.tokenizer is None:
            identity["counts"] = self.config.count_identity()
        return identity

    def _stage(
        self,
        name: str,
        config: dict[str, Any],
        inputs: dict[str, Input],
        make: Callable[[Attempts, str], Made],
        keep_inputs: bool = True,
    ) -> Manifest:
        """The stage's committed manifest if it is this build's, else the one that make gives, committed.

        Raises ConfigError if the stage of another build stands there, or is being committed.
        """
        identity = identity_of(name, config, inputs, dict(SEMANTICS))
        folder = "" if name == "build" else name

        def standing() -> Manifest | None:
            made = committed(self.output, folder)
            if made is not None and made.identity != identity:
                raise ConfigError(self._difference(name, made, config, inputs if keep_inputs else {}))
            return made

        if (made := standing()) is not None:
            return made
        started = time.time()
        attempts = Attempts(self.output, name, identity)
        try:
            attempts.begin()
            manifest, files = make(attempts, identity)
            claim(attempts)
        except TokError as error:
            # An equal build may have been faster, and have removed the working folder when it was done: what was in it
            # is missing then, and what is counted without it does not add up.
            if (made := standing()) is not None:
                return made
            if not isinstance(error, LedgerError):
                raise
            # What is wrong may be in any of the records, so none is used again.
            storage.remove_tree(attempts.folder)
            raise LedgerError(f"{error}. Nothing was committed; the same command does the stage anew") from error
        standing()  # a build that committed and is done holds no claim any more
        publish(attempts, urls.join(self.output, *filter(None, [folder])), files, claimed=True)
        run = {
            "name": self.config.build.name,
            "base": self.config.base,
            "seconds": round(time.time() - started, 3),
            "workers": self.options.num_workers,
            "kernel": kernel.implementation(),
        }
        return commit(self.output, folder, manifest, run, attempts.scratch)

    def _difference(self, name: str, standing: Manifest, config: Mapping[str, Any], inputs: Mapping[str, Input]) -> str:
        where = manifest_url(self.output, "" if name == "build" else name)
        reasons = [
            f"{key} was {_brief(standing.config.get(key))}, is now {_brief(config.get(key))}"
            for key in sorted({*standing.config, *config})
            if standing.config.get(key) != config.get(key)
        ]
        reasons += [f"its {key} is another one" for key in sorted(inputs) if standing.inputs.get(key) != inputs[key]]
        if not reasons and name == "plan":
            reasons = self._changed_inputs()
        detail = "; ".join(reasons) or "it was made by another release of tokcore"
        return (
            f"{redact(where)}: the output holds a different build: {detail}. "
            f"Choose another build.output, or remove the old one."
        )

    def _changed_inputs(self) -> list[str]:
        """The files that are not as the output's plan pinned them, in one reason; none if all are."""
        url = urls.join(self.output, "plan", FILES)
        was = {file.uri: file for file in parse_files_table(storage.read_bytes(url), url)}
        now = {file.uri: file for file in (self._plan or plan_build(self.config)).files}
        what = [
            f"{uri} {'is new' if uri not in was else 'is gone' if uri not in now else 'was modified'}"
            for uri in sorted({*was, *now})
            if was.get(uri) != now.get(uri)
        ]
        more = f" and {len(what) - 3} more" if len(what) > 3 else ""
        return [f"the input files are not the same: {', '.join(what[:3])}{more}"] if what else []

    def _refuse_foreign_output(self) -> None:
        if storage.exists(manifest_url(self.output, "plan")):
            return
        if urls.is_local(self.output) and urls.local_path(self.output).is_file():
            raise ConfigError(f"build.output = {self.output}: is a file. Name a new or empty folder.")
        if self.options.is_local and self.output.startswith("memory://"):
            raise ConfigError(f"build.output = {self.output}: the memory of one process, which workers cannot see.")
        allowed = {*STAGES, FOLDER}
        for path in storage.list_tree(self.output):
            if path.split("/")[0] not in allowed:
                raise ConfigError(
                    f"build.output = {redact(self.output)}: the folder holds {path!r} and no build. "
                    f"Name a new or empty folder."
                )

    def _planned(self) -> tuple[Plan, Manifest]:
        manifest = self.plan() if self._plan is None else self._committed("plan", "plan")
        assert self._plan is not None
        return self._plan, manifest

    def _committed(self, name: str, command: str) -> Manifest:
        manifest = committed(self.output, name)
        if manifest is None:
            raise ConfigError(f"{redact(manifest_url(self.output, name))}: not there. Run `tokcore {command}` first.")
        return manifest

    def _commit_rejects(
        self,
        attempts: Attempts,
        plan: Plan,
        planned: Manifest,
        files: list[ledger.FileLedger],
        ranges: list[RangeLedger],
        parts: list[StoredFile],
    ) -> None:
        """Commit the ledger of every file and every reject with its place, whether or not the build goes on."""
        config = {"special_text": self.config.encode.special_text}
        inputs = {"plan": planned.as_input()}

        def make(own: Attempts, identity: str) -> Made:
            stored = [
                _write(own, LEDGER, ledger.files_table(files)),
                write_rejects(own, plan, ranges, (attempts.url(part.attempt) for part in parts)),
            ]
            manifest = Manifest(
                stage="rejected",
                identity=identity,
                config=config,
                inputs=inputs,
                files=tuple(FileEntry.of(file) for file in stored),
                totals=ledger.totals_of(files),
            )
            return manifest, stored

        self._stage("rejected", config, inputs, make)

    def _check_rejected(self, totals: Mapping[str, Any]) -> None:
        share = ledger.rejected_share(totals)
        limit = self.config.build.max_rejected
        if share <= limit:
            return
        url = urls.join(self.output, "rejected", REJECTED)
        raise StageError(
            f"{share * 100:.4f} % of the input was rejected, more than build.max_rejected = {limit} allows:\n"
            + "".join(f"  {line}\n" for line in first_rejects(url))
            + f"All of them are in {redact(url)}. Mend the input, or raise build.max_rejected (1 = never fail)."
        )

    def _check_languages(self, counts: Manifest) -> None:
        if not any(totals["documents"] for totals in counts.languages.values()):
            raise StageError(
                "the corpus is empty: no document was read. Check source.files and rejected/rejected.jsonl."
            )
        for number, source in enumerate(self.config.sources):
            if source.lang is not None and source.lang not in counts.languages:
                raise StageError(
                    f"source[{number}]: language {source.lang!r} has no documents. "
                    f"Check its files, or remove the source."
                )


def _recorded(attempts: Attempts, key: str, cls: type[Any]) -> Any:
    result = attempts.result(key, cls)
    if result is None:
        raise StageError(
            f"stage {attempts.stage}: the runner finished without a result for {key}. Run the command again."
        )
    return result


def _languages(attempts: Attempts, items: Sequence[ItemCounted | ItemEncoded]) -> dict[str, LanguageCounts]:
    """The combined totals of every language, in the order of names."""
    langs = sorted({lang for item in items for lang in item.languages})
    if (found := find_twins(langs)) is not None:
        raise StageError(
            f"languages {found[0]!r} and {found[1]!r} differ in case only, and languages name files, which many disks "
            f"would take for one. Spell them alike in the data, or set lang for each source."
        )
    return {lang: _recorded(attempts, totals_key(lang), LanguageCounts) for lang in langs}


def _masked(items: Sequence[ItemCounted], lang: str) -> dict[str, int]:
    """Preset of count.mask -> spans that were found in the documents of a language."""
    matches: Counter[str] = Counter()
    for item in items:
        matches.update(item.masked.get(lang, {}))
    return dict(sorted(matches.items()))


def _write(attempts: Attempts, path: str, data: bytes, content_sha256: str | None = None) -> StoredFile:
    with attempts.new_file(path) as new:
        new.file.write(data)
    return new.stored(path, content_sha256)


def _special_id(spec: TokenizerSpec, text: str) -> int:
    ids = {token.text: token.id for token in spec.special}
    if (found := ids.get(text)) is None:
        raise ConfigError(
            f"encode.append: {text!r} is not a special token of the tokenizer; "
            f"it has {', '.join(map(repr, ids)) or 'none'}"
        )
    return found


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
