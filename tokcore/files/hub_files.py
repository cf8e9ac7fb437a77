"""Files of a model's repository on the Hugging Face Hub, by huggingface_hub: read through its cache, so offline, too.

The library is imported when it is asked for: pip install 'tokcore[hf]'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokcore.errors import ConfigError


def fetch_first(
    repo: str, names: Sequence[str], revision: str | None = None, token: str | None = None, *, asked: str = ""
) -> str | None:
    """The path in the Hub's cache of the first of these files that there is; None if there is none of them.

    The Hub is asked first. What its cache has is taken where it does not answer, or HF_HUB_OFFLINE is set. asked: what
    the user named, for messages. Raises ConfigError if the library is missing, or the repository cannot be read.
    """
    asked = asked or repo
    library = _require_library(asked)
    errors = library.errors
    is_absent, is_silent = False, False
    refused: Exception | None = None
    for name in names:
        how = {"revision": revision, "token": token, "local_files_only": is_silent}
        try:
            return str(library.hf_hub_download(repo, name, **how))
        except errors.LocalEntryNotFoundError as error:
            refused, is_silent = error, True
        except errors.EntryNotFoundError:
            is_absent = True
        except (errors.HfHubHTTPError, ValueError, OSError) as error:
            raise ConfigError(
                f"{asked}: the Hub says: {_take_first_line(error)}. Correct the name; of a private or gated "
                f"repository, log in first (hf auth login)."
            ) from error
    if is_absent:
        return None
    raise ConfigError(
        f"{asked}: the Hub does not answer, and its cache on this machine has no file of a tokenizer. Where the "
        f"Hub is reached, fetch one: hf download {repo}"
    ) from refused


def push_files(
    repo: str, files: Sequence[tuple[str, bytes]], message: str, private: bool | None = None, token: str | None = None
) -> str:
    """Write (name, content) into a repository in one commit, and make it if it is not there; the commit's URL.

    Raises ConfigError if the library is missing, or the Hub refuses.
    """
    library = _require_library(repo)
    adding = [library.CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files]
    try:
        api = library.HfApi(token=token)
        api.create_repo(repo, private=private, exist_ok=True)
        return str(api.create_commit(repo, adding, commit_message=message).commit_url)
    except (library.errors.HfHubHTTPError, ValueError, OSError) as error:
        raise ConfigError(
            f"{repo}: the Hub says: {_take_first_line(error)}. Log in first (hf auth login), or give a token that may "
            f"write there"
        ) from error


def _require_library(asked: str) -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise ConfigError(
            f"{asked}: the Hugging Face Hub needs a library, huggingface_hub: pip install 'tokcore[hf]'"
        ) from error
    return huggingface_hub


def _take_first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
