"""Beam metrics: workers count what each stage does, under names of ours; the driver collects the sums of all steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from apache_beam.metrics import Metrics, MetricsFilter

NAMESPACE = "tokcore"


def count_in_metrics(step: str, amounts: Mapping[str, int]) -> None:
    """Add to the counters of a step. Call it in a DoFn."""
    for name, amount in amounts.items():
        if amount:
            Metrics.counter(f"{NAMESPACE}.{step}", name).inc(amount)


def collect_metrics(ask: Callable[[], Any]) -> dict[str, int]:
    """Name of a counter of ours -> its sum over all steps; of committed work where the engine knows it.

    ask: gives the metrics of a Beam result or job. Beam's runners without metrics raise NotImplementedError, and job
    servers without them refuse the call: then there are no counters.
    """
    try:
        counters = ask().query(MetricsFilter()).get("counters", ())
    except (NotImplementedError, grpc.RpcError):
        return {}
    totals: Counter[str] = Counter()
    for one in counters:
        if one.key.metric.namespace.startswith(f"{NAMESPACE}."):
            totals[one.key.metric.name] += one.result or 0
    return dict(sorted(totals.items()))
