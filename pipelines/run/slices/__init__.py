"""One build on several hosts that share an output, and no engine. No Beam.

Each host runs the same command with its own `--slice I/N`. No host speaks to another: all they know of each other lies
in the output.

session: this host's part; waits for turns. presence: signs of life, and who is lost. claims: who does what.
tokcore_pipelines.run.shares does the tasks of a step with all of it. outcomes: how waiting ends.
"""
