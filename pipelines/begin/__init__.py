"""The beginning of a project: from a folder of data to a build file, before there is an output.

propose, build_text: a folder of data as a build file. language_names: languages that names tell.
estimate: what a build will take and give, from a sample. check_estimates: what it will lack.
check_build: what a build would do, all of it.
"""
