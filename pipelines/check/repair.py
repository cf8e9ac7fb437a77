"""`tokcore repair OUTPUT`: make the files again that are gone or damaged, from the pinned inputs and from each other.

A file gets its place only if its bytes are those that its manifest names, and that manifest is the one that the build
committed, so a repaired output is the one that was committed, root and all. Manifests, the log, the plan's table of
files and tokcore.json follow from nothing that is left: where one of them is damaged, the way out is to build again.
While the build's manifest or the log is damaged, nothing is written. In the end the output is verified: repair says
that it is whole only where verification does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tokcore.count import token_counts
from tokcore.errors import TokError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.kernel import IdCounter
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.commit import (
    MANIFEST,
    get_folder,
    get_path_below,
    name_once,
    require_manifest,
    require_output,
)
from tokcore_pipelines.build.count_corpus import count_again
from tokcore_pipelines.build.dataset_card import CARD, follow_commits, is_card, write_dataset_card
from tokcore_pipelines.build.dedup_corpus import dedup_again
from tokcore_pipelines.build.existing_output import describe_way_out
from tokcore_pipelines.build.file_rejections import REJECTS, list_cut_files
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS
from tokcore_pipelines.build.tokenizer_files import find_artifact
from tokcore_pipelines.check.chain import Chain, Manifests, read_chain, read_manifests, require_commit
from tokcore_pipelines.check.decoded_files import describe_decoded, find_decoded
from tokcore_pipelines.check.repair_beside import repair_beside
from tokcore_pipelines.check.shards_made_again import make_again
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_log import check_commit_card
from tokcore_pipelines.check.whole_files import check_file, check_files
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, Attempts, publish
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_schemas.commit_log import OWN, PARTS
from tokcore_schemas.manifest import AnyManifest, FileEntry
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.shard_entries import list_named_shards, make_shard_settings, write_folder_indexes
from tokcore_schemas.stage_manifests import CountsManifest, ImportedConfig
from tokcore_schemas.stage_table import (
    BUILD,
    COUNTS,
    DEDUP,
    PLAN,
    REJECTED,
    SHARDS,
    STAGES,
    TOKENIZER,
    WHOLE,
    Stage,
    find_command,
)

_BLOCK_BYTES = 1 << 20
_MOST_CARD_BYTES = 1 << 26
_PART = re.compile(f"{PARTS}/[0-9a-f]+")  # as a card names it


@dataclasses.dataclass(frozen=True, slots=True)
class Repaired:
    """What repair found and did; the output is as committed if left is empty."""

    repaired: tuple[str, ...]  # paths below the output
    left: tuple[str, ...]  # what is still wrong, and what to do
    num_files: int  # looked at
    seconds: float


def repair(output: str, base: str = "", options: RunOptions | None = None, at: int | None = None) -> Repaired:
    """Make the damaged files of an output again, finished or not: of all its parts, and of its tokenizers.

    base: folder of the build file, as for verify. at: only the parts of this commit; None: of all commits that can be
    read. Raises ConfigError if there is no such commit, ConfigError if there is no output, StageError naming an input
    that changed. What is left is empty only if verify, without decoding, finds no problem.
    """
    started = time.monotonic()
    options = options or RunOptions()
    require_output(output)
    chain = read_chain(output)
    log = chain.log
    if at is not None:
        require_manifest(output, WHOLE)
    if chain.is_broken:
        left = [*chain.breaks, *_describe_manifests(chain.own, is_broken=True)]
        return Repaired((), tuple(left), 0, time.monotonic() - started)
    reachable = [OWN]
    if log is not None:
        require_commit(log, at)
        reachable = [one.path for one in (log.reachable() if at is None else log.parts(at))]
    lost = [*_find_lost_commit(log)] if log is not None else []
    left = [*lost]
    repaired: list[str] = []
    num_files = 0
    for path in dict.fromkeys(reachable):
        url = output if path == OWN else urls.join(output, path)
        follows = path == OWN and log is not None and bool(log.commits or lost)
        own = chain.own if path == OWN else read_manifests(url)
        one = _Repair(url, base, options, own, follows)
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
        if not left and log.commits and [*check_commit_card(log)]:
            _repair_commit_card(log, repaired, left)
    if not left:
        left.extend(_list_problems(output, chain, base, at, options))
    return Repaired(tuple(repaired), tuple(left), num_files, time.monotonic() - started)


def _list_problems(output: str, chain: Chain, base: str, at: int | None, options: RunOptions) -> Iterator[str]:
    """What verification finds, now that everything is made again that can be."""
    if chain.own.is_unfinished:
        yield f"{chain.own.problems[BUILD]}: `tokcore build BUILD.toml` finishes it, and keeps what is here"
    else:
        yield from verify(output, base=base, at=at, options=options).problems


def _find_lost_commit(log: Log) -> Iterator[str]:
    """What is wrong if README.md is that of a commit which the log does not have: its last files may be lost."""
    try:
        card = storage.read_if_there(urls.join(log.output, CARD), _MOST_CARD_BYTES) or b""
    except TokError:
        return
    known = {part.path for commit in log.commits for part in commit.added}
    lost = sorted({*_PART.findall(card.decode(errors="replace"))} - known) if is_card(card) else []
    if lost:
        yield (
            f"{CARD}: names {lost[0]}, which no commit adds: the newest files of log/ are lost. Restore them from a "
            f"copy; to go on without their documents, delete {CARD} and repair again"
        )


def _repair_commit_card(log: Log, repaired: list[str], left: list[str]) -> None:
    try:
        if urls.is_local(log.output):
            storage.remove_file(urls.join(log.output, CARD))  # also a link, which a new file would not replace
        follow_commits(log)
        repaired.append(CARD)
    except TokError as error:
        left.append(name_once(CARD, error))


def _describe_manifests(own: Manifests, is_broken: bool = False) -> Iterator[str]:
    """What is wrong with the manifests of a build, each with a way out. is_broken: see Chain.is_broken."""
    is_imported = _finds_no_counts(own.found)
    for stage, problem in own.problems.items():
        if stage == BUILD and own.is_unfinished:
            continue
        if is_broken and stage != BUILD:
            continue  # a build's manifest that is damaged, too, says nothing of them
        if not problem.endswith(": missing"):
            yield f"{problem}. The manifest is damaged: {describe_way_out(stage, 'BUILD.toml', is_imported)}"
            continue
        # A build reads the corpus again for any other stage, but not for what was rejected alone.
        how = f" --replace {find_command(stage, is_imported)}" if stage in STAGES and STAGES[stage].within else ""
        yield f"{problem}. Restore {stage}/ from a copy, or make it again: `tokcore build BUILD.toml{how}`"


def _finds_no_counts(found: Mapping[str, AnyManifest]) -> bool:
    """Whether the build imports its tokenizer, so that no stage counts."""
    if (build := found.get(BUILD)) is not None:
        return COUNTS.name not in build.inputs
    tokenizer = found.get(TOKENIZER.name)
    return tokenizer is not None and isinstance(tokenizer.config, ImportedConfig)


def _list_made_by(command: str) -> list[str]:
    return [name for name, stage in STAGES.items() if stage.command == command]


_Again = tuple[Attempts, Mapping[str, StoredFile]]  # path below the output -> a file made again


class _Repair:
    def __init__(self, output: str, base: str, options: RunOptions, own: Manifests, follows: bool) -> None:
        """follows: whether README.md is no longer that of the build."""
        self.repaired: list[str] = []
        self.left = [*_describe_manifests(own)]
        self.num_files = 0
        self._output = output
        self._stored = Stored(output, own.found, base)
        self._follows = follows
        self._options = options
        self._plan: Plan | None = None  # None if it is damaged itself
        self._manifests = own.found
        self._is_imported = _finds_no_counts(own.found)

    def run(self) -> None:
        damaged = self._damaged()
        for entry in damaged.get(PLAN.name, []):
            self._give_up(PLAN.name, entry)
        if PLAN.name in self._manifests and PLAN.name not in damaged:
            self._plan = self._stored.plan
        self._repair_drops([(DEDUP.name, entry) for entry in damaged.get(DEDUP.name, [])])
        for name in _list_made_by(TOKENIZER.command):
            self._repair_tokenizers(name, damaged.get(name, []))
        of_counting = _list_made_by(COUNTS.command)
        self._repair_counts([(name, entry) for name in of_counting for entry in damaged.get(name, [])])
        for name, work in WORK.items():
            if work.again is not None and name in damaged:
                self._repair_shards(STAGES[name], damaged[name])
        for entry in damaged.get(BUILD, []):
            self._repair_card(entry)
        if not storage.list_tree(urls.join(self._output, FOLDER)):
            storage.remove_tree(urls.join(self._output, FOLDER))

    def _damaged(self) -> Mapping[str, list[FileEntry[Any]]]:
        entries = [
            (stage, entry)
            for stage, made in self._manifests.items()
            for entry in made.list_files()
            if not (stage == BUILD and self._follows)
        ]
        self.num_files = len(entries)
        found: dict[str, list[FileEntry[Any]]] = {}
        for stage, entry, wrong in check_files(self._output, entries, self._options.num_workers):
            if wrong:
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
                spec = TokenizerSpec.from_json_bytes(data, entry.path)
                self._put_bytes(stage, entry, find_artifact(spec, entry.path.removeprefix(folder), entry.sha256))

    def _read_sound_spec(self, stage: str, path: str) -> bytes | None:
        """The bytes of a tokcore.json: its own, or those of the same file of the other stage; None if none are left."""
        wanted = self._manifests[stage].file(path).sha256
        every = ((one, entry) for one in _list_made_by(TOKENIZER.command) for entry in self._list_files(one))
        for one, entry in every:
            if entry.sha256 == wanted and not check_file(self._output, one, entry):
                return storage.read_bytes(urls.join(self._output, one, entry.path))
        return None

    def _list_files(self, stage: str) -> tuple[FileEntry[Any], ...]:
        return self._manifests[stage].files if stage in self._manifests else ()

    def _repair_drops(self, entries: list[tuple[str, FileEntry[Any]]]) -> None:
        """Find the duplicates again. Without them nothing that reads documents can be made again."""
        if self._plan is None:
            for stage, entry in entries:
                self._give_up(stage, entry)
        elif entries:
            self._put_again(entries, self._dedup_again)

    @contextlib.contextmanager
    def _dedup_again(self, stored: Stored) -> Iterator[_Again]:
        apart = urls.join(self._output, FOLDER, "again")
        attempts = Attempts(self._output, DEDUP.name, stored.get(DEDUP).identity, apart)
        yield attempts, dedup_again(self._options, stored, attempts)
        storage.remove_tree(attempts.folder)
        storage.remove_tree(apart)

    def _repair_counts(self, entries: list[tuple[str, FileEntry[Any]]]) -> None:
        """Count the corpus again, for tables and for what was rejected."""
        made = self._stored.find(COUNTS)
        if self._plan is not None and find_decoded(self._plan):
            for stage, entry in entries:
                self._give_up(stage, entry, f"cannot be made again: {describe_decoded(self._plan)}")
        elif made is None or self._plan is None:
            for stage, entry in entries:
                self._give_up(stage, entry)
        elif entries:
            self._put_again(entries, functools.partial(self._count_again, made))

    @contextlib.contextmanager
    def _count_again(self, made: CountsManifest, stored: Stored) -> Iterator[_Again]:
        apart = urls.join(self._output, FOLDER, "again")
        attempts = Attempts(self._output, COUNTS.name, made.identity, apart)
        yield attempts, count_again(self._options, stored.base, stored.plan, made, attempts)
        storage.remove_tree(attempts.folder)
        storage.remove_tree(apart)

    def _repair_shards(self, stage: Stage[Any], entries: list[FileEntry[Any]]) -> None:
        """Make the pieces of a stage again whose shards are damaged, on this machine, and take the files it needs."""
        made = self._stored.get(stage)
        if why := self._find_lost_input(made):
            for entry in entries:
                self._give_up(stage.name, entry, why)
            return

        @contextlib.contextmanager
        def make_piece(number: int, stored: Stored) -> Iterator[_Again]:
            with make_again(stored, made, number) as (attempts, record):
                files = (file for ref in record.shards for file in ref.files)
                yield attempts, {f"{stage.name}/{file.path}": file for file in files}

        wanted: dict[int, list[tuple[str, FileEntry[Any]]]] = {}
        for entry in entries:
            if isinstance(entry.about, ShardFacts):
                wanted.setdefault(entry.about.item, []).append((stage.name, entry))
        for number, of_piece in sorted(wanted.items()):
            self._put_again(of_piece, functools.partial(make_piece, number))
        self._repair_indexes(made, [entry for entry in entries if not isinstance(entry.about, ShardFacts)])

    def _put_again(
        self,
        entries: list[tuple[str, FileEntry[Any]]],
        make: Callable[[Stored], contextlib.AbstractContextManager[_Again]],
    ) -> None:
        """Give files their places that are made again from the inputs, as these are read now, or else as before."""
        ways = [self._stored] if self._plan is None else [self._stored, self._stored.as_before()]
        for stored in ways:
            with make(stored) as (attempts, again):
                found = [(stage, entry, again.get(get_path_below(stage, entry.path))) for stage, entry in entries]
                are_right = all(file and file.content_sha256 == entry.content_sha256 for _, entry, file in found)
                if are_right or stored is ways[-1]:
                    for stage, entry, file in found:
                        self._put(stage, entry, attempts.find(file) if file is not None else "")
                    return

    def _find_lost_input(self, made: AnyManifest) -> str:
        """Why a stage cannot be made again from what it was made from; empty if it can."""
        if PLAN.name in made.inputs and self._plan is not None and find_decoded(self._plan):
            return f"cannot be made again: {describe_decoded(self._plan)}"
        left, others = self._names_left(), [name for name in made.inputs if WORK[name].again is not None]
        if any(said.startswith(tuple(f"{name}/" for name in others)) for said in left):
            return "follows from the shards, of which one is still damaged"
        is_lost = PLAN.name in made.inputs and self._plan is None
        is_lost |= f"{TOKENIZER.name}/{FILE_NAME}" in left or not {*made.inputs} <= self._manifests.keys()
        if PLAN.name in made.inputs and self._plan is not None and list_cut_files(self._plan):
            is_lost |= get_path_below(REJECTED.name, REJECTS) in left  # which of them are rejected, it alone says
        return "cannot be made again from what is left" if is_lost else ""

    def _repair_indexes(self, made: AnyManifest, entries: list[FileEntry[Any]]) -> None:
        """Write the files again that describe all shards together."""
        shards = list_named_shards(made) if entries else []
        settings = make_shard_settings(made.config, made.totals.fingerprint, self._stored.spec.vocab_size)
        indexes = write_folder_indexes(made.config.formats, shards, settings)
        for entry in entries:
            if entry.path in indexes:
                self._put_bytes(made.stage, entry, indexes[entry.path].data)
            elif entry.path != TOKEN_COUNTS:
                self._give_up(made.stage, entry)
            elif any(said.startswith(f"{made.stage}/") for said in self.left):
                self._give_up(made.stage, entry, "follows from the shards, of which one is still damaged")
            else:
                self._put_token_counts(entry)

    def _put_token_counts(self, entry: FileEntry[Any]) -> None:
        ids = IdCounter()
        for shard in list_named_shards(self._stored.get(SHARDS)):
            for batch in read_batches(self._output, shard):
                ids.add(batch.tokens, batch.offsets)
        with tempfile.NamedTemporaryFile(prefix="tokcore-repair-") as file:
            token_counts.write_id_table(file, token_counts.make_table(ids.take()))
            file.flush()
            self._put(SHARDS.name, entry, file.name)

    def _repair_card(self, entry: FileEntry[Any]) -> None:
        shards, tokenizer = self._stored.find(SHARDS), self._stored.find(TOKENIZER)
        if shards is None or tokenizer is None:
            gone = SHARDS.name if shards is None else TOKENIZER.name
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
        if (size := storage.stat(source).size_bytes) != entry.size_bytes:
            self._give_up(stage, entry, f"named with {entry.size_bytes} bytes, and bytes of its hash are {size}")
            return
        try:
            storage.require_inside(self._output, get_path_below(stage, entry.path).rpartition("/")[0])
            self._place(attempts, folder, entry, source)
        except TokError as error:
            self.left.append(f"{name_once(get_path_below(stage, entry.path), error)}. Move it away, and repair again")
            return
        self.repaired.append(get_path_below(stage, entry.path))

    def _place(self, attempts: Attempts, folder: str, entry: FileEntry[Any], source: str) -> None:
        """Copy a file to its name, in place of what has it."""
        if not urls.is_local(self._output):
            storage.remove_file(urls.join(folder, entry.path))
        with storage.open_read(source) as file, attempts.new_final(entry.path) as new:
            shutil.copyfileobj(file, new.file, _BLOCK_BYTES)
        stored = new.stored(entry.path)
        if stored.attempt:
            storage.remove_file(urls.join(folder, entry.path))
        publish(attempts, folder, [stored])
        storage.remove_tree(attempts.folder)


def _make_again(command: str) -> str:
    return f"Restore it from a copy, or make it again: `tokcore build BUILD.toml --replace {command}`"
