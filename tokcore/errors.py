"""Every exception tokcore raises on purpose; catch the root or a branch.

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


class TokError(Exception):
    """Root of all errors that tokcore raises on purpose."""


class ConfigError(TokError):
    """The build file or a command line argument; the message names the key and the mend."""


class FormatError(TokError):
    """A file we read is not what it should be; the message names the file and the place."""


class VersionError(FormatError):
    """A file was written by a format version that this release does not read."""


class ChecksumError(FormatError):
    """The bytes of a file are not the ones that were committed."""


class IdentityError(TokError):
    """Tokenizer, count tables or shards do not belong together."""


class LearnError(TokError):
    """The count table cannot give the requested vocabulary."""


class StageError(TokError):
    """A stage of a build could not finish; the message names the stage and the way out."""


class LedgerError(StageError):
    """Records, documents or bytes do not add up; nothing of the stage is committed."""
