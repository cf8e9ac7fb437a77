"""What `tokcore log`, `learn --at`, `update`, `status`, `remove`, `expire`, `compact` and `verify --removed` print."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.commit import describe_commit_date
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.build.tokenizers_beside import FOLDER, find_commit_of, list_beside
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_size, make_printable
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import OWN, Commit, Reason
from tokcore_schemas.stage_table import BUILD

if TYPE_CHECKING:  # a command that prints a log need not import what makes commits
    from tokcore_pipelines.check.verify_removed import RemovalReport
    from tokcore_pipelines.history.compact_output import Compacted
    from tokcore_pipelines.history.expire_commits import Expired
    from tokcore_pipelines.history.learn_beside import LearnedBeside
    from tokcore_pipelines.history.remove_documents import Removed
    from tokcore_pipelines.history.restore_documents import Restored


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
    commits = [first, *(_describe_commit(output, commit) for commit in log.commits)]
    of_commits: dict[int, list[str]] = {}
    for fingerprint, made in list_beside(output).items():
        of_commits.setdefault(find_commit_of(log, made), []).append(f"{FOLDER}/{fingerprint}")
    return [
        {**one, "expired": one["number"] < log.oldest, "tokenizers": of_commits.get(one["number"], [])}
        for one in commits
    ]


def _describe_commit(output: str, commit: Commit) -> dict[str, Any]:
    dates = [describe_commit_date(locate_part(output, part), BUILD).removeprefix(" on ") for part in commit.added]
    return {
        "number": commit.number,
        "date": max(dates, default=""),  # when its parts were built; a commit itself holds no time
        "why": to_jsonable(commit.why),
        "root": commit.root,
        "totals": to_jsonable(commit.totals),
        "added": [part.path for part in commit.added],
        "dropped": list(commit.dropped),
    }


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
        for word in ("added", "dropped"):
            if commit[word] and commit["number"]:
                say(f"  {word} {', '.join(commit[word])}")
        for path in commit.get("tokenizers", ()):
            say(f"  learned {path}")
        say(f"  root {commit['root']}")


def print_updated(output: str, commit: Commit | None, quiet: bool, held_back: str = "") -> None:
    """Print what an update did. commit: None if nothing had changed. quiet: only the root.

    held_back: what tombstones held back, in words; empty: nothing.
    """
    if held_back and not quiet:
        say(f"{redact(output)}: {held_back}")
    if commit is not None:
        say(commit.root) if quiet else print_log([_describe_commit(output, commit)])
        return
    log = read_log(output)
    root = log.root()
    say(root if quiet else f"{redact(output)}: nothing changed since commit {log.newest}, root {root}")


def print_learned(output: str, learned: Sequence[LearnedBeside], quiet: bool) -> None:
    """Print the tokenizers that were learned from a commit. quiet: only their fingerprints."""
    for one in learned:
        there = "" if one.is_new else ", which was there"
        said = f"tokenizer {one.fingerprint}: {one.vocab_size:,} ids, in {redact(urls.join(output, one.path))}{there}"
        say(one.fingerprint if quiet else said)


def print_removed(output: str, done: Removed, dry_run: bool = False) -> None:
    """Print what a removal did, or would do."""
    for pattern in done.unmatched:
        say(f"{redact(output)}: no input file that it has now matches {pattern!r}")
    if done.unknown:
        verb, them = ("is", "it") if done.unknown == 1 else ("are", "them")
        say(f"{done.unknown:,} of the names {verb} of no document; later commits leave {them} out, too")
    if done.rejects:
        said = "an id; its part holds" if done.rejects == 1 else "ids; their parts hold"
        say(f"{format_count(done.rejects, 'reject')} quoted {said} no samples of rejects now")
    if dry_run:
        say(
            f"would remove {format_count(done.documents, 'document')}, make {format_count(done.parts, 'part')} again, "
            f"and read {format_count(done.read_again, 'input file')} for that. {_NOTHING_DONE}"
        )
        return
    if done.commit is None:
        why = ": all of it was removed before" if done.names else ""
        say(f"{redact(output)}: nothing to remove{why}")
        return
    print_log([_describe_commit(output, done.commit)])
    if done.commit.why.vanished:
        say("if a file is renamed, its documents come back: --ids keeps documents away whatever their file")


def print_restored(output: str, done: Restored, dry_run: bool = False) -> None:
    """Print what a restoration did, or would do."""
    for name in done.missing:
        say(f"{make_printable(name)!r} was never removed")
    if not done.names:
        say(f"{redact(output)}: nothing to restore")
        return
    if done.commit is not None:
        print_log([_describe_commit(output, done.commit)])
    else:
        say(f"would take {format_count(done.names, 'tombstone')} back. {_NOTHING_DONE}")
    for uris, what in ((done.files, "as new"), (done.read_again, "again, since documents of theirs are missing")):
        if uris:
            more = f" and {len(uris) - _MOST_FILES:,} more" if len(uris) > _MOST_FILES else ""
            shown = ", ".join(make_printable(redact(uri)) for uri in uris[:_MOST_FILES])
            say(f"the next `tokcore update` reads {what}: {shown}{more}")


def print_expired(output: str, done: Expired, dry_run: bool = False) -> None:
    """Print what an expiry did, or would do."""
    if dry_run:
        say(
            f"the oldest that could be read would be commit {done.oldest}; would remove "
            f"{format_count(done.files, 'file')} of {format_size(done.size_bytes)}. {_NOTHING_DONE}"
        )
        return
    if done.commit is None:
        say(f"{redact(output)}: no further commit expires")
    else:
        say(f"commit {done.commit.number}: the oldest that can be read is commit {done.commit.oldest}")
    say(f"removed {format_count(done.files, 'file')} of {format_size(done.size_bytes)}")


def print_compacted(output: str, done: Compacted, dry_run: bool = False) -> None:
    """Print what a compaction did, or would do."""
    if dry_run and done.parts:
        say(
            f"would make one part of {done.parts:,} with {format_count(done.shards_before, 'shard')}, and read "
            f"{format_count(done.files, 'input file')} again for that. {_NOTHING_DONE}"
        )
        return
    if done.commit is None:
        verb = "stays as it is" if done.shards_before == 1 else "stay as they are"
        say(f"{redact(output)}: nothing to gain: {format_count(done.shards_before, 'small shard')} {verb}")
        return
    say(f"{format_count(done.shards_before, 'shard')} became {done.shards_after:,}")
    print_log([_describe_commit(output, done.commit)])


def print_removal_report(report: RemovalReport) -> None:
    """Print what is left of documents that were removed."""
    for line in (*report.problems, *(f"note: {note}" for note in report.notes)):
        say(line)
    if not report.problems:
        say(f"none of the documents is left in {format_count(report.commits, 'commit')}")


def _describe_reason(why: dict[str, Any]) -> str:
    """The reason of a commit in words: `update: files 3 new, 1 changed`."""
    files = Reason(**why).describe_files() if "new" in why else ""
    documents = f"{format_count(why['removed'], 'document')} removed" if why.get("removed") else ""
    restored = f"{format_count(why['restored'], 'tombstone')} taken back" if why.get("restored") else ""
    told = "; ".join(filter(None, (documents, restored, files)))
    return f"{why['command']}: {told}" if told else str(why["command"])


_MOST_LANGUAGES = 10
_MOST_FILES = 10
_NOTHING_DONE = "Nothing was done."


def print_status(output: str, status: dict[str, Any]) -> None:
    """Print what read_status gives."""
    totals = status["totals"]
    say(
        f"{redact(output)}: commit {status['newest_commit']}, {format_count(totals['files'], 'file')}, "
        f"{format_count(totals['documents'], 'document')}, {format_count(totals['tokens'], 'token')}"
    )
    if status["gap"]:
        say(f"  commit {status['gap']} is missing, though later ones are there: see `tokcore verify`")
    for one in status["watchers"]:
        waiting = _describe_waiting(one)
        say(f"  watcher on {one['host']}, process {one['process']}: {one['role']}; {waiting}")
        say(f"    last sign {max(0, int(time.time()) - one['said']):,} s ago, by this machine's clock")
        for trouble in filter(None, (one["trouble"], one.get("queue_trouble"))):
            say(f"    trouble: {trouble}")
    _print_stream(status["stream"])
    if not (status["watchers"] or status["stream"]):
        say("  no watcher: tokcore watch BUILD.toml")
    for note in status["quarantine"]:
        say(f"  left alone: {note['uri']}: {note['error']}")
    _print_drift(status["drift"])


def _print_stream(look: dict[str, int] | None) -> None:
    """What the last look of a stream left, which goes on without its driver."""
    if look is not None:
        say(f"  a stream looked {max(0, int(time.time()) - look['said']):,} s ago: {_describe_waiting(look)}")


def _describe_waiting(said: Mapping[str, Any]) -> str:
    number = said["waiting_files"]
    verb = "waits" if number == 1 else "wait"
    waiting = f"{format_count(number, 'file')} with {format_size(said['waiting_bytes'])} {verb}"
    return f"{waiting}, the oldest for {said['oldest_waiting_s']:,} s" if number else waiting


def _print_drift(drift: dict[str, Any] | None) -> None:
    """What Drift.measure gives, a line for each figure."""
    if drift is None:
        return
    window, baseline = drift["window"], drift["baseline"]
    size = format_size(window["text_bytes"])
    if not window["text_bytes"]:
        say("  drift: nothing has landed yet")
        return
    if not drift["is_full"]:
        say(f"  drift: not judged before {format_size(drift['wanted_bytes'])} of text landed; {size} did")
    else:
        words = "the tokenizer may no longer fit" if drift["exceeded"] else "the tokenizer fits"
        say(f"  drift: {words}; the last {size} of text, beside {drift['against']}:")
    for name, title, form in (
        ("bytes_per_token", "bytes per token", ".3f"),
        ("short_tokens", "text in tokens of 1 or 2 bytes", ".2%"),
        ("unseen", "pre-tokens that are new", ".2%"),
    ):
        _print_figure(title, window[name], baseline and baseline[name], form, drift["exceeded"].get(name))
    languages = {*window["languages"], *(baseline["languages"] if baseline else ())}
    for lang in sorted(languages, key=lambda lang: -window["languages"].get(lang, 0.0))[:_MOST_LANGUAGES]:
        then = baseline["languages"].get(lang, 0.0) if baseline else None
        exceeded = drift["exceeded"].get(f"language {lang}")
        _print_figure(f"text in {lang}", window["languages"].get(lang, 0.0), then, ".2%", exceeded)


def _print_figure(title: str, now: float | None, then: float | None, form: str, exceeded: str | None) -> None:
    if now is not None:
        was = f", was {then:{form}}" if then is not None else ""
        say(f"    {title:<31} {now:{form}}{was}{'   out of bounds' if exceeded else ''}")
