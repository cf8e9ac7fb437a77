"""The commands of the command line, grouped by what they work on.

build_commands: init, check, and the stages. output_commands: verify, repair, show, curve, audit, diff, gc.
shard_commands: convert, fsck. tokenizer_commands: export, encode-text, decode-ids, explain.
look_commands: report, view. watch_commands: watch, status.
print_build, print_check, print_log, print_reports: what commands print. launch_template: Dataflow's templates.
command_options: arguments and options that several commands share. command_inputs: what arguments name; exit codes.
"""
