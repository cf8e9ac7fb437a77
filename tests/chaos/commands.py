"""Commands on a finished output, as a child of the server runs them: update, remove, compact, expire, learn, encode."""

from __future__ import annotations

import tempfile
from typing import Any

from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.compact_output import Compact
from tokcore_pipelines.history.encode_commit import make_encoding
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.learn_beside import learn_at
from tokcore_pipelines.history.named_ids import MANY, read_ids
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import BuildConfig, load_config


def run_command(command: list[Any], config: BuildConfig, output: str, options: RunOptions) -> dict[str, Any]:
    """What one command did, as JSON. command: its name and what it needs: see _RUN."""
    name, *arguments = command
    done: dict[str, Any] = _RUN[name](config, output, options, *arguments)
    return done


def _update(config: BuildConfig, output: str, options: RunOptions, vanished: Any) -> dict[str, Any]:
    commit = Update(config, options, output, vanished=vanished).run()
    return {"commit": commit.number if commit is not None else None}


def _remove(config: BuildConfig, output: str, options: RunOptions, ids: list[str]) -> dict[str, Any]:
    done = Remove(output, tuple(ids), base=config.base, options=options, allow_missing=True).run()
    return {"commit": done.commit.number if done.commit is not None else None}


def _bury(config: BuildConfig, output: str, options: RunOptions, ids: list[str]) -> dict[str, Any]:
    """As _remove, among more ids than stand in commits."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join([*ids, *(f"nobody-{number}" for number in range(MANY))]))
        file.flush()
        done = Remove(output, read_ids(file.name), base=config.base, options=options, allow_missing=True).run()
    return {"commit": done.commit.number if done.commit is not None else None}


def _compact(config: BuildConfig, output: str, options: RunOptions) -> dict[str, Any]:
    done = Compact(output, config.base, options).run()
    return {"commit": done.commit.number if done.commit is not None else None}


def _expire(config: BuildConfig, output: str, options: RunOptions, keep: int) -> dict[str, Any]:
    done = expire(output, keep)
    return {"commit": done.commit.number if done.commit is not None else None}


def _learn(config: BuildConfig, output: str, options: RunOptions, size: int) -> dict[str, Any]:
    (one,) = learn_at(Build(load_config(config.path, (f"learn.vocab_size={size}",)), options, output))
    return {"fingerprint": one.fingerprint, "path": one.path}


def _encode(config: BuildConfig, output: str, options: RunOptions, target: str, tokenizer: str) -> dict[str, Any]:
    encoding = make_encoding(Build(config, options, output), target, None, tokenizer)
    return {"root": encoding.run().root}


def _verify(config: BuildConfig, output: str, options: RunOptions, decode: int | None) -> dict[str, Any]:
    report = verify(output, decode=decode, base=config.base, options=RunOptions(here=True))
    return {"problems": report.problems, "num_decoded": report.num_decoded, "root": report.root}


_RUN = {
    "update": _update,
    "remove": _remove,
    "bury": _bury,
    "compact": _compact,
    "expire": _expire,
    "learn": _learn,
    "encode": _encode,
    "verify": _verify,
}
