"""The commands of the command line, and what they print: a file each, which has the command's name.

command_table: their list. run_stages: what those that run stages have in common; stage_commands: those that make one
stage, of which count, learn and encode do more. command_inputs, open_build, named_tokenizers: what arguments name.
command_options: arguments and options that several share. answers, fail: how a command ends. print_build,
print_commits, print_document, print_tokens: what several commands print, or at length. launch_template: Dataflow's
templates.
"""
