"""All exceptions that tokcore raises on purpose. Catch the root or a branch.

TokError
  ConfigError        the build file or the command line; names the key; raised before any work starts
  FormatError        a file that we read; names file and place
    VersionError       written by a format version that this release does not read
    ChecksumError      the bytes are not the ones that were committed
  IdentityError      tokenizer, tables or shards do not belong together
  LearnError         the count table cannot give the requested vocabulary
  StageError         a stage of a build could not finish; names the stage and the way out
    LedgerError        records, documents or bytes do not add up: nothing of the stage is committed
"""

from __future__ import annotations

from collections.abc import Iterator


def list_causes(error: BaseException | None, *, explicit: bool = False) -> Iterator[BaseException]:
    """The error and what led to it, each once: an error may be among its own causes.

    explicit: only what `raise ... from` names, not what was being handled.

    >>> from tokcore.errors import list_causes
    >>> error = ValueError("it is its own cause")
    >>> error.__cause__ = error
    >>> len([*list_causes(error)])
    1
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if explicit else error.__context__)


class TokError(Exception):
    """Root of all errors that tokcore raises on purpose.

    >>> import tokcore
    >>> try:
    ...     tokcore.open_shards("nowhere")
    ... except tokcore.TokError as error:
    ...     print(type(error).__name__)
    FormatError
    """


class ConfigError(TokError):
    """A key of the build file or an argument is wrong; the message names it and says how to fix it.

    >>> import tokcore
    >>> tokcore.count_pretokens(["a"], threads=0)
    Traceback (most recent call last):
    tokcore.errors.ConfigError: threads = 0: must be at least 1
    """


class FormatError(TokError):
    """A file is not what it should be; the message names the file and the place.

    >>> import tokcore
    >>> tokcore.open_shards("nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tokcore.errors.FormatError: ...nowhere: there is no such file or folder
    """


class VersionError(FormatError):
    """A file was written by a format version that this release does not read.

    >>> import pathlib, tokcore
    >>> _ = pathlib.Path("tokcore.json").write_text('{"format":"tokcore-tokenizer","format_version":2}\\n')
    >>> tokcore.Tokenizer.load("tokcore.json")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tokcore.errors.VersionError: tokcore.json: format_version 2, this release reads 1. ...
    """


class ChecksumError(FormatError):
    """The bytes of a file are not the ones that were committed.

    >>> import tokcore
    >>> try:
    ...     raise tokcore.ChecksumError("shards/arrow/train-00000-00000.arrow: its sha256 is not the committed one")
    ... except tokcore.FormatError as error:
    ...     print(error)
    shards/arrow/train-00000-00000.arrow: its sha256 is not the committed one
    """


class IdentityError(TokError):
    """Tokenizer, count tables or shards do not belong together.

    >>> import tokcore
    >>> tokcore.Tokenizer.load("out/first").decode([9999])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tokcore.errors.IdentityError: ids[0] = 9999 is no token of this tokenizer ...
    """


class LearnError(TokError):
    """The count table cannot give the requested vocabulary; the message says how large one can be.

    >>> import tokcore
    >>> table = tokcore.count_pretokens(["low lower lowest"])
    >>> tokcore.learn_bpe(table, vocab_size=300, min_count=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tokcore.errors.LearnError: vocab_size = 300: the table gives only 263 tokens, 256 bytes, 7 merges ...
    """


class StageError(TokError):
    """A stage of a build could not finish; the message names the stage and the way out.

    >>> import tokcore
    >>> try:
    ...     raise tokcore.StageError("stage count: the disk is full. Run the same command again to go on.")
    ... except tokcore.TokError as error:
    ...     print(error)
    stage count: the disk is full. Run the same command again to go on.
    """


class LedgerError(StageError):
    """Records, documents or bytes do not add up; nothing of the stage is committed."""
