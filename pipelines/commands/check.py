"""`tokcore check`."""

from __future__ import annotations

from tokcore_pipelines.commands.command_inputs import (
    EXIT_USAGE,
    fail,
    open_build,
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    BUILD_FILE,
    JSON,
    OUTPUT,
    SET,
    command,
)


@command("tokcore check BUILD.toml", "tokcore check BUILD.toml --output s3://bucket/out")
@BUILD_FILE
@OUTPUT
@SET
@JSON
def check(build_file: str, output: str, assigned: tuple[str, ...], as_json: bool) -> None:
    """Reads the start of some files of each source, and names wrong fields and formats; asks whether the engine's
    server answers, or Dataflow's bucket for staging is there. Exit code 2 if any of these would stop a build, or if the
    output holds a different build.
    """
    from tokcore_pipelines.commands.print_check import make_check_report, print_check
    from tokcore_pipelines.local.progress import StageProgress

    progress = StageProgress()
    with progress.stage("check", minor=True):
        report = make_check_report(open_build(build_file, output, assigned, None, ()), progress)
    print_json(report) if as_json else print_check(report)
    if report["refused"]:  # as `tokcore build` would
        fail(report["output_holds"], EXIT_USAGE)
    if report["problems"]:
        fail("\n".join(report["problems"]), EXIT_USAGE)
