"""The files of a tokenizer: the one that a build imports, and those that every build writes. No Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.tokenizers import bert, tiktoken, vocabulary_files
from tokcore.formats.tokenizers.as_earlier_releases import describe_earlier, leave_out_kept, read_as_before
from tokcore.formats.tokenizers.exports import EXPORTS, make_huggingface_files
from tokcore.formats.tokenizers.foreign import FOLDER_NAMES, is_json, read_tokenizer_file, tells_itself
from tokcore.formats.tokenizers.huggingface import spell_pattern, write_tokenizer_json
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, SpecialToken, TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.store import hub, storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.make_jobs import make_special_tokens
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.stage_manifests import ImportedConfig
from tokcore_schemas.stage_table import TOKENIZER, TOKENIZERS


def import_tokenizer(config: BuildConfig, output: str, say: Callable[[str], None] | None = None) -> TokenizerSpec:
    """The tokenizer that [tokenizer] names, at a path or a URL. Raises ConfigError as read_tokenizer does.

    output: URL of the build's output. If an earlier release imported the same file there and read it otherwise, it is
    what that one read, and say is told.
    """
    assert config.tokenizer is not None
    url = urls.resolve(config.base, config.tokenizer.from_)
    keys = (config.at("tokenizer", "from"), config.at("tokenizer", "pattern"))
    # Parts of an output take the tokenizer over, and leave out what the build file declares.
    special_key = config.at("special") if config.declares_special and config.special else ""

    def read(as_before: bool = False) -> TokenizerSpec:
        assert config.tokenizer is not None
        return read_tokenizer(
            *(
                url,
                config.tokenizer.pattern,
                make_special_tokens(config),
                keys,
                config.tokenizer.normalize,
                special_key,
            ),
            as_before=as_before,
        )

    made = find_manifest(output, TOKENIZER)
    if made is None:
        return read()
    refused: ConfigError | None = None
    try:
        spec = read()
        for one in (spec, leave_out_kept(spec)):  # the same ids
            if made.config == ImportedConfig.of(one):
                return one
    except ConfigError as error:
        refused = error
    try:
        before = read_as_before(read(True))
        goes_on = made.config == ImportedConfig.of(before)
    except ConfigError:  # earlier releases refused it, too
        goes_on = False
    if not goes_on:
        if refused is not None:
            raise refused
        return spec
    if say is not None:
        say(
            f"warning: {keys[0]}: an earlier release read this tokenizer otherwise, and the output goes on with that: "
            f"{refused or describe_earlier(before, spec)}. A new output has the ids of the library that the file is of"
        )
    return before


def read_tokenizer(
    named: str,
    pattern: str | None,
    special: Sequence[SpecialToken],
    keys: tuple[str, str],
    normalize: Sequence[str] = (),
    special_key: str = "",
    *,
    as_before: bool = False,
) -> TokenizerSpec:
    """The tokenizer at a URL: a rank file, what tokcore.formats.tokenizers.foreign reads, or a folder with one of these
    files.

    hf://ORG/NAME is a model's repository on the Hub, read through the Hub's cache, so offline, too.

    A build's output stands for its tokcore.json, and so does its folder tokenizer. vocab.json and merges.txt are one
    tokenizer: the URL names either of them. pattern, special: for these two and for a rank file, which hold neither;
    those of a published rank file are known. as_before: it is read as by releases until 2026-11-27. normalize: for a
    vocab.txt, which names no normalizer. keys: what the user calls the URL and the pattern. special_key: where the user
    declares special; empty: nowhere. Raises ConfigError, naming one of them, if there is no tokenizer, if it is none of
    these forms, or if it needs a pattern and none is given.
    """
    names = (*FOLDER_NAMES, vocabulary_files.NAMES[0], tiktoken.FILE_NAME)
    below = ((FILE_NAME,), ("tokenizer", FILE_NAME), *((name,) for name in names))
    name = redact(named)
    if hub.is_model(named):
        url = hub.fetch_first(named, ["/".join(one) for one in below])
        if url is None:
            raise ConfigError(f"{keys[0]}: {name}: no file of a tokenizer is there: none of {', '.join(names)}.")
    else:
        places = [urls.join(named, *names) for names in below]
        url = next(filter(storage.exists, places), named)
        name = redact(url)
    if urls.is_local(url) and urls.get_local_path(url).is_dir():
        raise ConfigError(
            f"{keys[0]}: {name}: no {FILE_NAME} in it nor in its folder tokenizer, and no "
            f"{', '.join(names[:-1])} or {names[-1]}. Is the build finished?"
        )
    if not storage.exists(url):
        storage.require_bucket(url)
        path = urls.get_local_path(url) if urls.is_local(url) else None
        is_name = path is not None and not path.suffix and not path.parent.exists()
        hint = " A model of the Hugging Face Hub is named hf://ORG/NAME." if is_name else ""
        raise ConfigError(f"{keys[0]}: there is no {name}: expected a file or a build's output.{hint}")
    try:
        if not normalize and (folder := _find_folder_of_pair(url)) is not None:
            return _read_pair(folder, pattern, special, keys[1])
        data = storage.read_bytes(url)
        if pattern is None and normalize and bert.is_vocab_txt(data) and not is_json(data):
            return bert.read_vocab_txt(data, name, normalize)
        if normalize:
            raise FormatError(f"tokenizer.normalize is for a vocab.txt, and {name} is none: remove it")
        return _parse(pattern, special, data, name, keys[1], special_key, as_before)
    except FormatError as error:
        raise ConfigError(f"{keys[0]}: {error}") from error


def _find_folder_of_pair(url: str) -> str | None:
    """The folder of vocab.json and merges.txt, if the URL names one of them and the other is beside it."""
    folder, _, name = url.rpartition("/")
    if name not in vocabulary_files.NAMES or not all(
        storage.exists(urls.join(folder, one)) for one in vocabulary_files.NAMES
    ):
        return None
    return folder


def _read_pair(folder: str, pattern: str | None, special: Sequence[SpecialToken], pattern_key: str) -> TokenizerSpec:
    if pattern is None:
        raise ConfigError(
            f"{pattern_key} is missing: vocab.json and merges.txt in {redact(folder)} do not say how text is split. "
            f'Add it: most readers of these files split as "gpt2" does.'
        )
    vocabulary, merges = (storage.read_bytes(urls.join(folder, name)) for name in vocabulary_files.NAMES)
    spec = Pretokenizer.of(pattern).spec
    return vocabulary_files.read_vocabulary_files(vocabulary, merges, redact(folder), spec, special)


def _parse(
    pattern: str | None,
    special: Sequence[SpecialToken],
    data: bytes,
    name: str,
    pattern_key: str,
    special_key: str,
    as_before: bool,
) -> TokenizerSpec:
    published = tiktoken.find_published(data)
    if published is None and tells_itself(data):
        if pattern is not None:
            raise ConfigError(f"{pattern_key} is for rank files: {name} brings its own. Remove it.")
        if special_key:
            raise ConfigError(
                f"{special_key} cannot stand beside [tokenizer], which brings its own: remove one of them."
            )
        return read_tokenizer_file(data, name, as_before=as_before)
    split = pattern if published is None else pattern or published.pattern
    if split is None:
        raise ConfigError(
            f"{pattern_key} is missing: {name} is read as a rank file, which does not say how text is split, and it is "
            f'no published one that is known. Add it, for example "cl100k".'
        )
    try:
        splitting = tiktoken.read_split_pattern(split, as_before=as_before).spec
    except ConfigError as error:
        raise ConfigError(f"{pattern_key}: {error}") from error
    ranks = tiktoken.read_rank_file(data, name, splitting)
    return tiktoken.add_special(ranks, None if as_before else published, special)


def find_tokenizer_of_size(output: str, size: int) -> str:
    """The folder of an output's tokenizer of that size, of several. Raises ConfigError, naming the sizes, if none is.

    size: as learn.vocab_size has it.
    """
    if (made := find_manifest(output, TOKENIZERS)) is None:
        raise ConfigError(f"--vocab-size {size}: {redact(output)} has one tokenizer: leave the option out")
    if (found := made.totals.sizes.get(str(size))) is None:
        there = ", ".join(str(size) for size, _ in made.totals.list_ascending())
        raise ConfigError(f"--vocab-size {size}: {redact(output)} has tokenizers of {there}")
    return urls.join(output, "tokenizers", found.fingerprint)


def export_to_store(spec: TokenizerSpec, to: str, url: str, replace: bool) -> None:
    """Write the files of a format below a URL, or the first alone if the URL ends as tokcore.formats.tokenizers.exports
    says.

    Raises ConfigError, before anything is written, if a file is there with other content, unless replace is set.
    """
    if (scheme := urls.find_scheme(url)) in urls.INPUT_ONLY:
        raise ConfigError(f"{redact(url)}: {scheme}:// is for inputs only. Name a folder, or a URL of s3, gs or az.")
    files, alone = EXPORTS[to].files(spec), EXPORTS[to].alone
    named = {urls.join(url, name): data for name, data in files}
    if alone is not None and url.endswith(alone) and not url.endswith("/"):
        named = {url: files[0][1]}
    for file, data in named.items():
        if not replace and storage.read_if_there(file) not in (None, data):
            raise ConfigError(f"{redact(file)} is there already, with other content: choose another, or use --force")
    for file, data in named.items():
        with storage.write_attempt(file) as new:
            new.write(data)


def list_untold(spec: TokenizerSpec) -> list[str]:
    """Why other engines cannot be told the split pattern, if that is so."""
    if "steps" in spec.pattern:
        return []
    try:
        spell_pattern(spec.pattern)
    except FormatError as error:
        return [str(error)]
    return []


def list_artifacts(spec: TokenizerSpec) -> dict[str, list[bytes | None]]:
    """Name -> what releases that write the same tokcore.json make of it: this one first, then earlier ones.

    None stands for no such file.
    """
    files: dict[str, list[bytes | None]] = {name: [data] for name, data in make_artifact_files(spec)}
    with contextlib.suppress(FormatError):
        earlier = write_tokenizer_json(spec, as_before=True)
        for name, data in make_huggingface_files(spec, earlier, as_before=True):
            if data not in (known := files.setdefault(name, [None])):
                known.append(data)
    return files


def find_artifact(spec: TokenizerSpec, name: str, sha256: str) -> bytes:
    """The file of that name and hash that a release makes of a tokenizer; empty if there is none."""
    every = [data for data in list_artifacts(spec).get(name, []) if data is not None]
    return next((data for data in every if hash_sha256(data) == sha256), b"")


def find_foreign_artifacts(spec: TokenizerSpec, written: Mapping[str, str]) -> list[str]:
    """The names of files that are not what a release makes of a tokenizer. written: name -> sha256, of all files."""
    every = {
        name: [None if data is None else hash_sha256(data) for data in some]
        for name, some in list_artifacts(spec).items()
    }
    return [name for name in sorted(written.keys() | every.keys()) if written.get(name) not in every.get(name, [])]


def make_artifact_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of tokcore.json, the identity, and of the same tokenizer in the formats of the field.

    A format that cannot hold it is left out: a rank file knows no normalizer, for example.
    """
    files = [(FILE_NAME, spec.to_json_bytes())]
    for export in EXPORTS.values():
        if not export.in_builds:
            continue
        with contextlib.suppress(FormatError):
            files.extend(export.files(spec))
    return files
