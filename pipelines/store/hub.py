"""URLs of a model's repository on the Hugging Face Hub, and their files, which tokcore.files.hub_files reads.

Data sets are listed and read in ranges, as files of other stores are (urls); this is for the few small files of a
tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokcore.files import hub_files
from tokcore_pipelines.store.redaction import redact

# hf://ORG/NAME, hf://ORG/NAME@REVISION, and a file below it.
_MODEL = re.compile(
    r"hf://(?P<repo>(?!datasets/|spaces/)[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?(?:/(?P<file>.+))?", re.I
)


def is_model(url: str) -> bool:
    """Whether the URL is of a model's repository, or of a file in it.

    >>> [is_model(url) for url in ("hf://org/name", "hf://org/name@main/tokenizer.json", "hf://datasets/org/name")]
    [True, True, False]
    """
    return _MODEL.fullmatch(url) is not None


def fetch_first(url: str, names: Sequence[str]) -> str | None:
    """The path of a file in the Hub's cache: the one that the URL names, or else the first of these that there is.

    None if there is none of them. Raises ConfigError as tokcore.files.hub_files does.
    """
    asked = _MODEL.fullmatch(url)
    assert asked is not None
    files = [asked["file"]] if asked["file"] else names
    return hub_files.fetch_first(asked["repo"], files, asked["revision"], asked=redact(url))
