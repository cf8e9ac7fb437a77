"""`tokcore repair OUTPUT`: make the files again that are gone or damaged, from the pinned inputs and from each other.

A file gets its place only if its bytes are those that its manifest names, so a repaired output is the one that was
committed, root and all. Manifests, the plan's table of files and tokcore.json follow from nothing that is left: where
one of them is damaged, the way out is to build again.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipelines.inspect.decoded_files import describe_decoded, find_decoded
from pipelines.inspect.derived_jobs import DERIVED, derive_again
from pipelines.inspect.repair_beside import repair_beside
from pipelines.inspect.stored_shards import open_formats
from pipelines.inspect.verify import check_file, read_base
from pipelines.inspect.verify_log import check_commit_card
from pipelines.local.run_options import RunOptions
from pipelines.stages.commit import MANIFEST, find_manifest, get_folder, get_path_below, name_once, require_output
from pipelines.stages.count_corpus import count_again
from pipelines.stages.dataset_card import CARD, follow_commits, write_dataset_card
from pipelines.stages.read_log import Log, read_log
from pipelines.stages.replacing import find_command
from pipelines.stages.standing import describe_way_out
from pipelines.stages.tokenizer_files import make_artifact_files
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER, Attempts, publish
from pipelines.store.main_files import copy_shard_if_remote
from pipelines.store.tokenizers import load_spec
from pipelines.work.make_again import make_shards_again
from pipelines.work.make_jobs import make_encode_job
from pipelines.work.read_plan import read_plan
from schemas.commit_log import OWN
from schemas.manifest import AnyManifest, FileEntry
from schemas.plan import Plan
from schemas.shard_entries import list_named_shards, make_shard_settings, write_folder_indexes
from schemas.stage_manifests import BUILD, STAGES, ImportedConfig
from tokcore import token_counts
from tokcore.errors import FormatError, TokError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.kernel import IdCounter
from tokcore.tokenizer_spec import FILE_NAME, TokenizerSpec


@dataclasses.dataclass(frozen=True, slots=True)
class Repaired:
    """What repair found and did; the output is as committed if left is empty."""

    repaired: tuple[str, ...]  # paths below the output
    left: tuple[str, ...]  # why a file is still damaged, and what to do
    num_files: int  # looked at
    seconds: float


def repair(output: str, base: str = "", options: RunOptions | None = None, at: int | None = None) -> Repaired:
    """Make the damaged files of an output again, finished or not: of all its parts, and of its tokenizers.

    base: folder of the build file, as for verify. at: only the parts of this commit; None: of all commits that can be
    read. Raises ConfigError if there is no such commit, ConfigError if there is no output, StageError naming an input
    that changed.
    """
    started = time.monotonic()
    require_output(output)
    log, left = _read_log(output, at)
    reachable = [OWN] if log is None else [one.path for one in (log.reachable() if at is None else log.parts(at))]
    repaired: list[str] = []
    num_files = 0
    for path in dict.fromkeys(reachable):
        url = output if path == OWN else urls.join(output, path)
        follows = path == OWN and log is not None and bool(log.commits)
        one = _Repair(url, base or read_base(url), options or RunOptions(), follows)
        one.run()
        prefix = "" if path == OWN else f"{path}/"
        repaired.extend(f"{prefix}{name}" for name in one.repaired)
        left.extend(f"{prefix}{said}" for said in one.left)
        num_files += one.num_files
    if log is not None:
        found = repair_beside(output)
        repaired.extend(found.repaired)
        left.extend(found.left)
        num_files += found.num_files
        if not left and [*check_commit_card(output, log)] and log.commits:
            follow_commits(output, log)
            repaired.append(CARD)
    return Repaired(tuple(repaired), tuple(left), num_files, time.monotonic() - started)


def _read_log(output: str, at: int | None) -> tuple[Log | None, list[str]]:
    """The log, None of an output that is not finished; and what is wrong with it, which nothing can make again."""
    try:
        if find_manifest(output, BUILD) is not None or at is not None:
            return read_log(output, at), []
    except FormatError as error:
        if at is not None:
            raise
        return None, [] if MANIFEST in str(error) else [f"log: {error}"]
    return None, []


class _Repair:
    def __init__(self, output: str, base: str, options: RunOptions, follows: bool = False) -> None:
        """follows: whether README.md is no longer that of the build."""
        self.repaired: list[str] = []
        self.left: list[str] = []
        self.num_files = 0
        self._output = output
        self._base = base
        self._follows = follows
        self._options = options
        self._plan: Plan | None = None  # None if it is damaged itself
        self._manifests, unreadable = self._read_manifests()
        self._is_imported = self._finds_no_counts()
        for stage, error in unreadable.items():
            way_out = describe_way_out(stage, "BUILD.toml", self._is_imported)
            what = name_once(get_path_below(stage, MANIFEST), error)
            self.left.append(f"{what}. The manifest is damaged: {way_out}")
        self.left.extend(self._name_missing(unreadable))

    def run(self) -> None:
        damaged = self._damaged()
        for entry in damaged.get("plan", []):
            self._give_up("plan", entry)
        if "plan" in self._manifests and "plan" not in damaged:
            self._plan = read_plan(self._output, self._manifests["plan"])
        for stage in ("tokenizers", "tokenizer"):
            self._repair_tokenizers(stage, damaged.get(stage, []))
        self._repair_counts([(stage, entry) for stage in ("rejected", "counts") for entry in damaged.get(stage, [])])
        if shards := damaged.get("shards"):
            tokenizer = self._manifests.get("tokenizer")
            if self._plan is not None and find_decoded(self._plan):
                for entry in shards:
                    self._give_up("shards", entry, f"cannot be made again: {describe_decoded(self._plan)}")
            elif tokenizer is None or self._plan is None or f"tokenizer/{FILE_NAME}" in self._names_left():
                for entry in shards:
                    self._give_up("shards", entry)
            else:
                self._repair_shards(shards, self._plan)
                self._repair_indexes(shards)
        for stage in DERIVED:
            if entries := damaged.get(stage):
                self._repair_derived(stage, entries)
        for entry in damaged.get(BUILD, []):
            self._repair_card(entry)
        if not storage.list_tree(urls.join(self._output, FOLDER)):
            storage.remove_tree(urls.join(self._output, FOLDER))

    def _read_manifests(self) -> tuple[dict[str, AnyManifest], dict[str, TokError]]:
        """The manifests that can be read, and why others cannot."""
        found: dict[str, AnyManifest] = {}
        unreadable: dict[str, TokError] = {}
        for stage in (*STAGES, BUILD):
            try:
                if (made := find_manifest(self._output, stage)) is not None:
                    found[stage] = made
            except TokError as error:
                unreadable[stage] = error
        return found, unreadable

    def _finds_no_counts(self) -> bool:
        """Whether the build imports its tokenizer, so that no stage counts."""
        if (build := self._manifests.get(BUILD)) is not None:
            return "counts" not in build.inputs
        tokenizer = self._manifests.get("tokenizer")
        return tokenizer is not None and isinstance(tokenizer.config, ImportedConfig)

    def _name_missing(self, unreadable: Collection[str]) -> Iterator[str]:
        """The manifests that others were made from and that are gone."""
        needed = {stage for made in self._manifests.values() for stage in made.inputs}
        for stage in STAGES:
            if stage in needed and stage not in self._manifests and stage not in unreadable:
                # A build reads the corpus again for any other stage, but not for what was rejected alone.
                how = f" --replace {find_command(stage, self._is_imported)}" if stage == "rejected" else ""
                yield (
                    f"{get_path_below(stage, MANIFEST)}: missing. Restore {stage}/ from a copy, or make it again: "
                    f"`tokcore build BUILD.toml{how}`"
                )

    def _damaged(self) -> Mapping[str, list[FileEntry[Any]]]:
        entries = [
            (stage, entry)
            for stage, made in self._manifests.items()
            for entry in made.files
            if not (stage == BUILD and self._follows)
        ]
        self.num_files = len(entries)
        with ThreadPoolExecutor(self._options.num_workers) as threads:
            wrong = threads.map(lambda one: bool(check_file(self._output, *one)), entries)
            found: dict[str, list[FileEntry[Any]]] = {}
            for (stage, entry), is_wrong in zip(entries, wrong, strict=True):
                if is_wrong:
                    found.setdefault(stage, []).append(entry)
        return found

    def _names_left(self) -> set[str]:
        return {said.split(": ")[0] for said in self.left}

    def _give_up(self, stage: str, entry: FileEntry[Any], why: str = "cannot be made again from what is left") -> None:
        self.left.append(
            f"{get_path_below(stage, entry.path)}: {why}. {_make_again(find_command(stage, self._is_imported))}"
        )

    def _repair_tokenizers(self, stage: str, entries: list[FileEntry[Any]]) -> None:
        """Write the files again that follow from a tokcore.json; where that is damaged, from its copy of that hash."""
        for entry in sorted(entries, key=lambda one: not one.path.endswith(FILE_NAME)):
            folder = entry.path[: entry.path.rfind("/") + 1]
            data = self._read_sound_spec(stage, f"{folder}{FILE_NAME}")
            if data is None:
                self._give_up(stage, entry)
            else:
                files = make_artifact_files(TokenizerSpec.from_json_bytes(data, entry.path))
                self._put_bytes(stage, entry, dict(files).get(entry.path.removeprefix(folder), b""))

    def _read_sound_spec(self, stage: str, path: str) -> bytes | None:
        """The bytes of a tokcore.json: its own, or those of the same file of the other stage; None if none are left."""
        wanted = self._manifests[stage].file(path).sha256
        every = ((one, entry) for one in ("tokenizers", "tokenizer") for entry in self._list_files(one))
        for one, entry in every:
            if entry.sha256 == wanted and not check_file(self._output, one, entry):
                return storage.read_bytes(urls.join(self._output, one, entry.path))
        return None

    def _list_files(self, stage: str) -> tuple[FileEntry[Any], ...]:
        return self._manifests[stage].files if stage in self._manifests else ()

    def _repair_counts(self, entries: list[tuple[str, FileEntry[Any]]]) -> None:
        """Count the corpus again, for tables and for what was rejected."""
        made = self._manifests.get("counts")
        if self._plan is not None and find_decoded(self._plan):
            for stage, entry in entries:
                self._give_up(stage, entry, f"cannot be made again: {describe_decoded(self._plan)}")
        elif made is None or self._plan is None:
            for stage, entry in entries:
                self._give_up(stage, entry)
        elif entries:
            apart = urls.join(self._output, FOLDER, "again")
            attempts = Attempts(self._output, "counts", made.identity, apart)
            again = count_again(self._options, self._base, self._plan, made, attempts)
            for stage, entry in entries:
                file = again.get(f"{stage}/{entry.path}")
                self._put(stage, entry, attempts.find(file) if file is not None else "")
            storage.remove_tree(attempts.folder)
            storage.remove_tree(apart)

    def _repair_shards(self, entries: list[FileEntry[Any]], plan: Plan) -> None:
        """Encode again the work items whose shards are damaged, on this machine, and take the files that are needed."""
        wanted = {entry.path: entry for entry in entries if isinstance(entry.about, ShardFacts)}
        made = self._manifests["shards"]
        for number in sorted({entry.about.item for entry in wanted.values()}):
            with tempfile.TemporaryDirectory(prefix="tokcore-repair-") as folder:
                attempts = Attempts(folder, "shards", made.identity)
                job = make_encode_job(
                    made.config,
                    attempts,
                    self._base,
                    urls.join(self._output, "tokenizer", FILE_NAME),
                    self._manifests["tokenizer"].file(FILE_NAME).sha256,
                    load_spec(self._output),
                )
                shards = make_shards_again(job, plan, number, made.totals.tokens)
                again = {file.path: file for shard in shards for file in shard.files}
                for entry in (entry for entry in wanted.values() if entry.about.item == number):
                    file = again.get(entry.path)
                    self._put("shards", entry, attempts.find(file) if file is not None else "")

    def _repair_indexes(self, entries: list[FileEntry[Any]]) -> None:
        """Write the files again that describe all shards together."""
        of_all = [entry for entry in entries if not isinstance(entry.about, ShardFacts)]
        if not of_all:
            return
        made, tokenizer = self._manifests["shards"], self._manifests["tokenizer"]
        shards = list_named_shards(made)
        settings = make_shard_settings(made.config, made.totals.fingerprint, tokenizer.totals.vocab_size)
        indexes = write_folder_indexes(made.config.formats, shards, settings)
        for entry in of_all:
            if entry.path in indexes:
                self._put_bytes("shards", entry, indexes[entry.path].data)
            elif any(said.startswith("shards/") for said in self.left):
                self._give_up("shards", entry, "follows from the shards, of which one is still damaged")
            else:
                self._put_token_counts(entry)

    def _put_token_counts(self, entry: FileEntry[Any]) -> None:
        ids = IdCounter()
        for shard in list_named_shards(self._manifests["shards"]):
            with copy_shard_if_remote(self._output, shard) as folder:
                for batch in open_formats(folder, shard)[0].reader.batches():
                    ids.add(batch.tokens, batch.offsets)
        with tempfile.NamedTemporaryFile(prefix="tokcore-repair-") as file:
            token_counts.write_id_table(file, token_counts.make_table(ids.take()))
            file.flush()
            self._put("shards", entry, file.name)

    def _repair_derived(self, stage: str, entries: list[FileEntry[Any]]) -> None:
        """Make the parts or groups again whose shards are damaged, from the shards of the build."""
        made, shards, tokenizer = (self._manifests.get(name) for name in (stage, "shards", "tokenizer"))
        needed = [f"{name}/" for name in ("shards", *DERIVED[: DERIVED.index(stage)])]
        lost = f"tokenizer/{FILE_NAME}" in self._names_left() or any(one.startswith(tuple(needed)) for one in self.left)
        if made is None or shards is None or tokenizer is None or lost:
            for entry in entries:
                self._give_up(stage, entry, "follows from the shards, of which one is still damaged")
            return
        spec, mixed = load_spec(self._output), self._manifests.get("mixed")
        of_shards = [entry for entry in entries if isinstance(entry.about, ShardFacts)]
        for number in sorted({entry.about.item for entry in of_shards}):
            with tempfile.TemporaryDirectory(prefix="tokcore-repair-") as folder:
                attempts = Attempts(folder, stage, made.identity)
                derived = derive_again(self._output, shards, mixed, made, spec, attempts, number)
                again = {file.path: file for shard in derived for file in shard.files}
                for entry in (entry for entry in of_shards if entry.about.item == number):
                    file = again.get(entry.path)
                    self._put(stage, entry, attempts.find(file) if file is not None else "")
        settings = make_shard_settings(made.config, spec.fingerprint, spec.vocab_size)
        indexes = write_folder_indexes(made.config.formats, list_named_shards(made), settings)
        for entry in entries:
            if not isinstance(entry.about, ShardFacts):
                self._put_bytes(stage, entry, indexes[entry.path].data if entry.path in indexes else b"")

    def _repair_card(self, entry: FileEntry[Any]) -> None:
        shards, tokenizer = self._manifests.get("shards"), self._manifests.get("tokenizer")
        if shards is None or tokenizer is None:
            gone = "shards" if shards is None else "tokenizer"
            self.left.append(f"{entry.path}: is made from {gone}/{MANIFEST}, which cannot be read: see there")
        else:
            self._put_bytes(BUILD, entry, write_dataset_card(shards, tokenizer))

    def _put_bytes(self, stage: str, entry: FileEntry[Any], data: bytes) -> None:
        with tempfile.NamedTemporaryFile(prefix="tokcore-repair-") as file:
            file.write(data)
            file.flush()
            self._put(stage, entry, file.name)

    def _put(self, stage: str, entry: FileEntry[Any], source: str) -> None:
        """Give a file made again its place, if it is the one that was committed. source: empty if there is none."""
        if not source or storage.compute_sha256(source) != entry.sha256:
            self._give_up(
                stage, entry, "what was made again has other bytes; see run.json for the versions then in use"
            )
            return
        folder = get_folder(self._output, stage)
        attempts = Attempts(self._output, "repair", self._manifests[stage].identity, folder)
        data = storage.read_bytes(source)
        if not urls.is_local(self._output):
            storage.remove_file(urls.join(folder, entry.path))
        with attempts.new_final(entry.path) as new:
            new.file.write(data)
        stored = new.stored(entry.path)
        if stored.attempt:
            storage.remove_file(urls.join(folder, entry.path))
        publish(attempts, folder, [stored])
        storage.remove_tree(attempts.folder)
        self.repaired.append(get_path_below(stage, entry.path))


def _make_again(command: str) -> str:
    return f"Restore it from a copy, or make it again: `tokcore build BUILD.toml --replace {command}`"
