"""Files of a model's repository on the Hugging Face Hub, through the Hub's own cache: so they are read offline, too.

Data sets are listed and read in ranges, as files of other stores are (urls); this is for the few small files of a
tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokcore.errors import ConfigError
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

    The Hub is asked first. What its cache has is taken where it does not answer, or HF_HUB_OFFLINE is set. None if
    there is none of them. Raises ConfigError if the library is missing, or the repository cannot be read.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ConfigError(f"{redact(url)}: hf:// needs a library: pip install 'tokcore[hf]'") from error
    asked = _MODEL.fullmatch(url)
    assert asked is not None
    is_absent, is_silent = False, False
    for name in [asked["file"]] if asked["file"] else names:
        try:
            return hf_hub_download(asked["repo"], name, revision=asked["revision"], local_files_only=is_silent)
        except LocalEntryNotFoundError as error:
            refused, is_silent = error, True
        except EntryNotFoundError:
            is_absent = True
        except (HfHubHTTPError, ValueError, OSError) as error:
            said = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"{redact(url)}: the Hub says: {said}. Correct the name; of a private or gated repository, log in "
                f"first (hf auth login)."
            ) from error
    if is_absent:
        return None
    raise ConfigError(
        f"{redact(url)}: the Hub does not answer, and its cache on this machine has no file of a tokenizer. Where the "
        f"Hub is reached, fetch one: hf download {asked['repo']}"
    ) from refused
