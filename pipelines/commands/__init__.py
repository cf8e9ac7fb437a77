"""The commands of the command line, a file each, which has the command's name, and their list: command_table.

run_stages: what those that run stages have in common; stage_commands: those that make one stage. print_build,
print_check, print_log, print_reports: what commands print. launch_template: Dataflow's templates. command_options:
arguments and options that several commands share. command_inputs: what arguments name; exit codes. named_tokenizers:
tokenizers that they name.
"""
