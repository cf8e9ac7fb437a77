"""Pieces of work spread over all workers, the large ones first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import apache_beam as beam

from tokcore_schemas.plan import Assignment

T = TypeVar("T")
RankedItem = tuple[bytes, Assignment]  # as rank_piece spells the key


@dataclasses.dataclass
class Spread(beam.PTransform):
    """PCollection[tuple[key, T]] -> PCollection[T], spread over all workers. Each element has a key of its own.

    It does what Reshuffle does. But Reshuffle draws its keys, so large pieces may come last, and all cores wait for
    one. Here the key of a piece may be its rank by size, spelled so that engines that sort keys, as Flink does in batch
    mode, and engines that keep the order of arrival, as Beam's own does, both begin with the large ones. Beam would
    also pickle what passes through Reshuffle.
    """

    kind: type  # T

    def expand(self, keyed: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return (
            keyed
            | "GroupByKey" >> beam.GroupByKey()
            | "DropKey" >> beam.FlatMap(_drop_key).with_output_types(self.kind)
        )


def rank_piece(rank: int, piece: T) -> tuple[bytes, T]:
    """A piece of work after its rank, spelled so that keys sort as ranks do."""
    return rank.to_bytes(8, "big"), piece


def _drop_key(group: tuple[Any, Iterable[Any]]) -> Iterable[Any]:
    return group[1]
