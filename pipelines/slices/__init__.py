"""One build on several hosts that share an output, and no engine. No Beam.

Each host runs the same command with its own `--slice I/N`. No host speaks to another: all they know of each other lies
in the output.

session: this host's part; waits for turns. presence: signs of life, and who is lost. claims: who does what.
share_work: the work of one pass, done by all slices together. sliced_passes: what each stage's passes consist of.
outcomes: how waiting ends.
"""
