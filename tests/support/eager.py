"""A runner that does what Beam allows and its local runner never does.

Elements are shuffled and dealt into bundles of any size; a bundle may be given up half-way, run again, or run twice at
the same time, with only one of the outputs kept; sums are added up in trees of any shape, accumulators of their own
added in between. Whatever passes from one step to the next goes through its coder. One seed gives one order.

It runs in the calling process and knows the transforms that this project uses; others are an error.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.internal import pickler
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.utils.windowed_value import WindowedValue

# A runner is created by its name, without arguments, so its settings are here.
chance = random.Random(0)
hostility = 0.3  # share of bundles that are repeated
is_concurrent = False  # whether repeats run at the same time

RUNNER = ("--runner=support.eager.EagerRunner",)


def seed(number: int, share: float = 0.3, concurrent: bool = False) -> None:
    """Set what the next pipelines do. share: of bundles that are repeated."""
    global chance, hostility, is_concurrent
    chance, hostility, is_concurrent = random.Random(number), share, concurrent


class _GivenUp(Exception):  # noqa: N818 - by us
    pass


class EagerRunner(PipelineRunner):  # type: ignore[misc]
    """See the module."""

    def run_pipeline(self, pipeline: beam.Pipeline, _options: Any) -> PipelineResult:
        run = _Run()
        for part in pipeline._root_transform().parts:
            run.step(part)
        return _Done(PipelineState.DONE)


class _Done(PipelineResult):  # type: ignore[misc]
    def wait_until_finish(self, duration: Any = None) -> str:
        return str(self.state)


class _Run:
    def __init__(self) -> None:
        self._values: dict[Any, list[bytes]] = {}

    def step(self, node: Any) -> None:
        transform = node.transform
        kinds: list[tuple[type, Callable[[Any, list[Any]], Iterable[Any]]]] = [
            (beam.Create, lambda t, _: t.values),
            (beam.Reshuffle, lambda _, elements: elements),
            (beam.GroupByKey, lambda _, elements: _grouped(elements)),
            (beam.CombinePerKey, self._combined),
            (beam.ParDo, self._done),
        ]
        for kind, compute in kinds:
            if isinstance(transform, kind):
                self._put(node, compute(transform, self._take(node)))
                return
        if not node.parts:
            raise NotImplementedError(f"{node.full_label}: {type(transform).__name__}")
        for part in node.parts:
            self.step(part)

    def _take(self, node: Any) -> list[Any]:
        if not node.inputs or node.inputs[0] not in self._values:
            return []
        coder = _coder(node.inputs[0])
        elements = [coder.decode(data) for data in self._values[node.inputs[0]]]
        chance.shuffle(elements)
        return elements

    def _put(self, node: Any, elements: Iterable[Any]) -> None:
        (collection,) = node.outputs.values()
        coder = _coder(collection)
        self._values[collection] = [coder.encode(element) for element in elements]

    def _done(self, transform: Any, elements: list[Any]) -> list[Any]:
        assert not transform.side_inputs, "side inputs are not used in this project"
        fn = pickler.dumps(transform.fn)
        return [out for bundle in _bundles(elements) for out in _some_of(lambda stop, b=bundle: _process(fn, b, stop))]

    def _combined(self, transform: Any, elements: list[Any]) -> list[Any]:
        fn = transform.fn
        out = []
        for key, values in _grouped(elements):
            out.extend((key, total) for total in _some_of(lambda _stop, v=values: [_combine(fn, v)]))
        return out


def _coder(collection: Any) -> Any:
    return coders.registry.get_coder(collection.element_type)


def _bundles(elements: list[Any]) -> list[list[Any]]:
    bundles, start = [], 0
    while start < len(elements):
        size = chance.choice([1, 1, 2, 3, len(elements)])
        bundles.append(elements[start : start + size])
        start += size
    return bundles


def _some_of(attempt: Callable[[int | None], list[Any]]) -> list[Any]:
    """The output of one of one or more attempts; the others stop after some elements, or their output is dropped."""
    if chance.random() >= hostility:
        return attempt(None)
    if is_concurrent:
        with ThreadPoolExecutor(2) as threads:
            return chance.choice(list(threads.map(attempt, (None, None))))
    if chance.random() < 0.5:
        with contextlib.suppress(_GivenUp):
            attempt(chance.randint(0, 2))
        return attempt(None)
    return chance.choice([attempt(None), attempt(None)])


def _process(pickled: bytes, elements: list[Any], stop: int | None) -> list[Any]:
    fn = pickler.loads(pickled)
    fn.setup()
    fn.start_bundle()
    out: list[Any] = []
    for number, element in enumerate(elements):
        if number == stop:
            raise _GivenUp
        out.extend(fn.process(element) or ())
    out.extend(fn.finish_bundle() or ())
    fn.teardown()
    return [element.value if isinstance(element, WindowedValue) else element for element in out]


def _grouped(pairs: list[Any]) -> list[tuple[Any, list[Any]]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    out = list(groups.items())
    chance.shuffle(out)
    return out


def _combine(fn: Any, values: list[Any]) -> Any:
    coder = fn.get_accumulator_coder()

    def sent(accumulator: Any) -> Any:
        return coder.decode(coder.encode(accumulator))

    accumulators = [fn.create_accumulator()]
    for value in values:
        if chance.random() < 0.4:
            accumulators.append(fn.create_accumulator())
        which = chance.randrange(len(accumulators))
        accumulators[which] = fn.add_input(accumulators[which], value)
    while len(accumulators) > 1:
        chance.shuffle(accumulators)
        taken = [sent(accumulators.pop()) for _ in range(chance.randint(2, len(accumulators)))]
        accumulators.append(fn.compact(fn.merge_accumulators(taken)))
    return fn.extract_output(sent(accumulators[0]))
