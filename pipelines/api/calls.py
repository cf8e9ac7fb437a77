"""The functions, each of which does what the command of its name does, with the same code.

All raise ConfigError for a wrong argument or build file, StageError and LearnError if a stage fails, and the other
errors of tokcore.errors as the commands tell them; ImportError if the extra `build` is not installed. They return when
the work is done, may be called from any thread, and take turns. Whatever ends one, the same call goes on from there.

progress: a function that hears of progress, from a thread of its own; True: shown on stderr. workers: processes; None:
one for each core. allow_code: whether functions that [[map]] names may run. settings: tables whose keys replace those
of the build file: learn={"vocab_size": 65536}.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tokcore.errors import ConfigError
from tokcore_pipelines.api.open_build import Named, Told, locate, make_progress, open_build, taking_turns
from tokcore_pipelines.api.outputs import Output
from tokcore_pipelines.begin.check_build import make_check_report
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.sampled import parse_sample
from tokcore_pipelines.check.verify import Report
from tokcore_pipelines.check.verify import verify as verify_output
from tokcore_pipelines.history.remove_documents import Remove, Removed
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.report.compose import SAMPLE, Wishes, make_report
from tokcore_pipelines.look.report.report_files import check_place, write_report
from tokcore_schemas.build_in_python import Build

if TYPE_CHECKING:
    from tokcore.tokenizer.tokenizer import Tokenizer
    from tokcore_schemas.commit_log import Commit


def build(
    config: Build | Named,
    *,
    output: Named = "",
    workers: int | None = None,
    progress: Told = None,
    allow_code: bool = False,
    replace: str = "",
    reuse: Named = "",
    **settings: Any,
) -> Output:
    """Run every stage that is not done yet; the output. config: a build file, or its path or URL.

    output: in place of build.output. replace: the command of a stage to make again, with what follows from it. reuse:
    another output, whose stages are taken over where they still apply.

    >>> from pathlib import Path
    >>> from tokcore_pipelines import Build, Learn, Source, build
    >>> _ = Path("en.jsonl").write_text('{"id": "page-1", "text": "low lower lowest"}')
    >>> pages = Build(sources=[Source(lang="en", files="en.jsonl", id="id")], learn=Learn(model="byte"))
    >>> built = build(pages, output="out/second", workers=1)
    >>> built.totals.records.documents, built.tokenizer.decode(built.open_shards()[0])
    (1, b'low lower lowest<|endoftext|>')
    """
    with taking_turns(allow_code):
        how = {"replace": replace, "reuse": os.fspath(reuse), "is_to_work": True}
        to_run = open_build(config, output, settings, RunOptions(workers), progress, **how)
        to_run.run()
        return Output(to_run.output)


def update(
    config: Build | Named,
    *,
    output: Named = "",
    workers: int | None = None,
    progress: Told = None,
    allow_code: bool = False,
    vanished: Literal["keep", "remove", "fail"] | None = None,
    weights: Literal["ask", "all", "keep"] = "ask",
    **settings: Any,
) -> Commit | None:
    """Let the output of a finished build follow its inputs; the commit, None if nothing changed.

    vanished: what becomes of documents of files that are gone, in place of update.vanished. weights: where those of a
    mixture follow from sizes, "all" makes it again, "keep" lets documents come as often as they did; "ask" raises
    ConfigError, which says what would be made again.

    >>> from pathlib import Path
    >>> from tokcore_pipelines import Build, Learn, Source, build, update
    >>> pages = Build(sources=[Source(lang="en", files="en*.jsonl", id="id")], learn=Learn(model="byte"))
    >>> _ = build(pages, output="out/third", workers=1)
    >>> _ = Path("en-2.jsonl").write_text('{"id": "page-2", "text": "lower low"}')
    >>> update(pages, output="out/third", workers=1).totals.documents
    2
    >>> update(pages, output="out/third", workers=1) is None
    True
    """
    with taking_turns(allow_code):
        made = open_build(config, output, settings, RunOptions(workers), progress)
        rule = vanished or made.config.update.vanished
        return Update(made.config, made.options, made.output, made.progress, rule, weights=weights).run()


def check(
    config: Build | Named, *, output: Named = "", progress: Told = None, allow_code: bool = False, **settings: Any
) -> dict[str, Any]:
    """What a build would do, and what would stop it, as `tokcore check --json` has it. No work is done.

    "problems" has what would stop it; "refused", whether the output holds a different build.

    >>> from tokcore_pipelines import Build, Learn, Source, check
    >>> pages = Build(sources=[Source(lang="en", files="en.jsonl", id="key")], learn=Learn(model="byte"))
    >>> found = check(pages, output="out/fourth")
    >>> found["files"], found["output_holds"], found["refused"], len(found["problems"]) > 0
    (1, 'nothing', False, True)
    """
    with taking_turns(allow_code):
        made = open_build(config, output, settings, RunOptions(), progress)
        return make_check_report(made, made.progress)


def remove(
    output: Named | Output,
    *,
    ids: Iterable[str] = (),
    langs: Iterable[str] = (),
    sources: Iterable[str] = (),
    this_copy: bool = False,
    base: Named = "",
    allow_missing: bool = False,
    dry_run: bool = False,
    final: bool = False,
    reason: str = "",
    by: str = "",
    keep_weights: bool = False,
    in_place_rows: bool = False,
    workers: int | None = None,
    progress: Told = None,
    allow_code: bool = False,
) -> Removed:
    """Take documents out of a finished output: those of these ids, languages, or input files (globs).

    this_copy: with [dedup], documents that are equal to these stay. base: folder of the build file, if it has moved.
    allow_missing: accept names that nothing has. dry_run: change nothing, and tell what it would cost. final: nothing
    can take it back. reason, by: for the log. keep_weights: let other documents come in a mixture as often as they did.
    in_place_rows: packed rows keep number and length, with padding where these documents were.
    The result has `commit`, `documents` and what else `tokcore remove` tells.

    >>> from tokcore_pipelines import remove
    >>> remove("out/first", ids=["page-2"], dry_run=True).documents
    1
    """
    names = tuple(ids), tuple(langs), tuple(sources)
    if not any(names):
        raise ConfigError("what is to be removed? Name it: ids, langs or sources")
    with taking_turns(allow_code):
        how = RunOptions(workers), make_progress(progress)
        moved = locate(base) if base else ""
        return Remove(
            locate(output),
            *names,
            moved,
            *how,
            allow_missing=allow_missing,
            dry_run=dry_run,
            this_copy=this_copy,
            final=final,
            reason=reason,
            by=by,
            keep_weights=keep_weights,
            in_place_rows=in_place_rows,
        ).run()


def verify(
    output: Named | Output,
    *,
    decode: int | Literal["all"] = 0,
    root: str = "",
    quick: bool = False,
    base: Named = "",
    at: int | None = None,
    sample: str | None = None,
    seed: int = 0,
    work: Named = "",
    workers: int | None = None,
    progress: Told = None,
    allow_code: bool = False,
) -> Report:
    """Check that an output is what was committed: it is, if the report's `problems` are empty.

    decode: how many documents to compare with their source. root: what it must have. quick: only hash the files. at:
    the number of a commit. sample: the share of shards and tables to look at, such as "0.01"; seed: draws others.
    work: a folder that keeps records of what was looked at; the next call goes on from those.

    >>> from tokcore_pipelines import verify
    >>> report = verify("out/first", decode="all")
    >>> report.problems, report.num_decoded
    ((), 2)
    """
    with taking_turns(allow_code):
        return verify_output(
            locate(output),
            decode=None if decode == "all" else decode,
            root=root.lower(),
            quick=quick,
            base=locate(base) if base else "",
            at=at,
            sample=parse_sample(sample, seed) if sample is not None else None,
            work=locate(work) if work else "",
            options=RunOptions(workers),
            progress=make_progress(progress),
        )


def report(
    output: Named | Output,
    path: Named = "",
    *,
    against: Mapping[str, Tokenizer] | None = None,
    parallel: Named = "",
    reference: str = "",
    sample: int | None = None,
    force: bool = False,
    at: int | None = None,
    progress: Told = None,
) -> dict[str, Any]:
    """The numbers of `tokcore report`; path: a file *.html for the page, and beside it *.json for the numbers.

    against: name -> another tokenizer. parallel: a folder of LANG.txt, of which reference is the language to compare
    with. sample: texts to draw of each language. force: replace files that are there.

    >>> from tokcore_pipelines import report
    >>> told = report("out/first", "first.html")
    >>> told["corpus"]["tokens"]
    11
    """
    with taking_turns():
        url = locate(output)
        page = None if not path else Path(path)
        if page is not None:
            check_place(page, url, force)
        wishes = Wishes(against or {}, locate(parallel) if parallel else "", reference, sample or SAMPLE)
        made = make_report(read_output(url, at), wishes, make_progress(progress))
        if page is not None:
            for _ in write_report(made, page):
                pass
        return made
