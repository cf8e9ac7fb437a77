"""Builds from Python, which tokcore_pipelines exports: a function for each command. README.md has examples.

calls: the functions. outputs: what a build returns. open_build: the build that an argument means.
callable_rooms: lets `tokcore_pipelines.build` be a function, though it is a folder, too.
"""
