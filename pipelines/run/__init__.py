"""How the work of a stage is done: steps of tasks, and executors that do one step after another. No Beam but in `beam`.

task: a step, its tasks, and what an executor promises. choose: which one does them.
here: the calling thread. workers: the processes of this machine, the default. shares: several hosts, each a slice.
beam: an engine, or Beam's own runner; a job for each step, of one shape.
"""
