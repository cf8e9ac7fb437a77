"""What `tokcore log` prints, and commands that end with a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.commit import describe_change, describe_commit_date
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.build.tokenizers_beside import FOLDER, find_commit_of, list_beside
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.local.terminal import format_count, format_size, make_printable
from tokcore_pipelines.store import urls
from tokcore_schemas.commit_log import OWN, Commit, Reason, name_commit
from tokcore_schemas.stage_table import BUILD

NOTHING_DONE = "Nothing was done."


def describe_log(output: str) -> list[dict[str, Any]]:
    """The commits of an output, the build first, as JSON. Raises as read_log does."""
    log = read_log(output)
    first = {
        "number": 0,
        "date": describe_commit_date(output, BUILD).removeprefix(" on "),
        "why": {"command": "build"},
        "root": log.build.root,
        "totals": to_jsonable(log.totals(0)),
        "added": [OWN],
        "dropped": [],
    }
    commits, earlier = [first], set[str]()
    for commit in log.commits:
        commits.append(_describe_commit(output, commit, earlier))
        earlier.update(part.path for part in commit.added)
    of_commits: dict[int, list[str]] = {}
    for fingerprint, made in list_beside(output).items():
        of_commits.setdefault(find_commit_of(log, made), []).append(f"{FOLDER}/{fingerprint}")
    return [
        {**one, "expired": one["number"] < log.oldest, "tokenizers": of_commits.get(one["number"], [])}
        for one in commits
    ]


def _describe_commit(output: str, commit: Commit, earlier: Collection[str]) -> dict[str, Any]:
    """earlier: paths of the parts that commits before it have added."""
    new = [part for part in commit.added if part.path not in earlier]
    dates = [describe_commit_date(locate_part(output, part), BUILD).removeprefix(" on ") for part in new]
    return {
        "number": commit.number,
        # When its parts were built; a commit itself holds no time. Of one without parts, or whose parts were there
        # before or are expired, when its file was written.
        "date": max(dates, default="") or describe_change(urls.join(output, name_commit(commit.number))),
        "why": to_jsonable(commit.why),
        "root": commit.root,
        "totals": to_jsonable(commit.totals),
        "added": [part.path for part in commit.added],
        "dropped": list(commit.dropped),
        "final": len(commit.final),
    }


def answer_done(
    output: str,
    done: Any,
    dry_run: bool,
    as_json: bool,
    tell: Callable[[str, Any, bool], None],
    names: Collection[str] = (),
) -> None:
    """Print what a command did to an output, or would do: all of a named tuple as JSON, or as tell does for people.

    names: what JSON has of it beside its commit, if not all.
    """
    if as_json:
        facts = done._asdict()
        commit = to_jsonable(done.commit) if done.commit is not None else None
        say_json({"dry_run": dry_run, **{name: to_jsonable(facts[name]) for name in names or facts}, "commit": commit})
    else:
        tell(output, done, dry_run)


def print_commit(output: str, commit: Commit) -> None:
    """Print a commit of an output."""
    before = read_log(output).commits[: commit.number - 1]
    print_log([_describe_commit(output, commit, {part.path for one in before for part in one.added})])


def print_log(commits: list[dict[str, Any]]) -> None:
    """Print commits as describe_log gives them, the newest first."""
    for commit in reversed(commits):
        totals = commit["totals"]
        expired = "expired" if commit.get("expired") else ""
        said = (f"commit {commit['number']}", commit["date"], _describe_reason(commit["why"]), expired)
        say("  ".join(word for word in said if word))
        say(
            f"  {format_count(totals['documents'], 'document')} with {format_size(totals['text_bytes'])} of text, "
            f"{format_count(totals['tokens'], 'token')} in {format_count(totals['shards'], 'shard')}"
        )
        if commit.get("final"):
            say(f"  {format_count(commit['final'], 'tombstone')} cannot be taken back")
        for word in ("added", "dropped"):
            if commit[word] and commit["number"]:
                say(f"  {word} {', '.join(commit[word])}")
        for path in commit.get("tokenizers", ()):
            say(f"  learned {path}")
        say(f"  root {commit['root']}")


def _describe_reason(why: dict[str, Any]) -> str:
    """The reason of a commit in words: `update: files 3 new, 1 changed`."""
    files = Reason(**why).describe_files() if "new" in why else ""
    documents = f"{format_count(why['removed'], 'document')} removed" if why.get("removed") else ""
    num_came = why.get("came", 0)
    came = f"{num_came:,} equal {'one' if num_came == 1 else 'ones'} came instead" if num_came else ""
    restored = f"{format_count(why['restored'], 'tombstone')} taken back" if why.get("restored") else ""
    num, same = why.get("shards", 0), why.get("shards_as_before", 0)
    shards = f"made {num - same:,} of {format_count(num, 'shard')} again" if num else ""
    weights = "weights of the mixture kept" if why.get("kept_weights") else ""
    rows = "rows kept in place" if why.get("in_place_rows") else ""
    reason = f"for {make_printable(why['reason'])!r}" if why.get("reason") else ""
    by = f"by {make_printable(why['by'])}" if why.get("by") else ""
    told = "; ".join(
        filter(None, (documents, came, restored, files, shards, weights, rows, " ".join(filter(None, (reason, by)))))
    )
    return f"{why['command']}: {told}" if told else str(why["command"])
