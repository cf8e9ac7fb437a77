"""Serves an engine as Beam's worker does, in this process: `python -m tokcore_pipelines.run.engines.serve_engine`."""

from __future__ import annotations

from tokcore_pipelines.run.engines.earlier_names import read_earlier_names


def serve_engine() -> None:
    """Do what the engine asks until it ends the worker. The environment says where the engine is."""
    read_earlier_names()
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


if __name__ == "__main__":
    serve_engine()
