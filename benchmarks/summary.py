"""From batches to figures: medians over rounds, ratios within rounds, and the aims."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.cpu import Part
from benchmarks.plan import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from benchmarks.measure import Batch, Measured
    from benchmarks.plan import Load

_MS: Final = 1000
_MOST_EVENTS: Final = 0.55
_MOST_CPU: Final = 0.5
_MOST_P50: Final = 0.35
_LEAST_THROUGHPUT: Final = 2.0
_MOST_DATABASE: Final = 0.05
# Every side's calls cost the outside the same, and it is not ours.
_OURS: Final = tuple(part for part in Part if part is not Part.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over the rounds."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of one value a round."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found))


@dataclass(frozen=True, slots=True)
class Figures:
    """One side under one load.

    Attributes:
        cpu_ms: Of one task, all our parts together.
        cpu_parts_ms: Of one task, by part; the median of the rounds.
    """

    tasks_per_s: Spread
    p50_ms: Spread
    p95_ms: Spread
    cpu_ms: Spread
    cpu_parts_ms: Mapping[Part, float]


@dataclass(frozen=True, slots=True)
class Ratios:
    """One of our sides over plain Temporal under one load; each ratio within a round."""

    tasks_per_s: Spread
    p50_ms: Spread
    p95_ms: Spread
    cpu_ms: Spread


@dataclass(frozen=True, slots=True)
class Aim:
    """What was aimed at and what was measured; ``at_least`` or else at most."""

    what: str
    wanted: float
    measured: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


def figures(batches: Sequence[Batch]) -> Figures:
    """Over the rounds of one side under one load."""
    return Figures(
        Spread.of(map(_tasks_per_s, batches)),
        Spread.of(map(_p50_ms, batches)),
        Spread.of(map(_p95_ms, batches)),
        Spread.of(map(_cpu_ms, batches)),
        {
            part: statistics.median(b.cpu_s[part] / b.load.tasks * _MS for b in batches)
            for part in Part
            if part in batches[0].cpu_s
        },
    )


def ratios(ours: Sequence[Batch], theirs: Sequence[Batch]) -> Ratios:
    """Over the rounds of two sides under one load."""

    def spread(figure: Callable[[Batch], float]) -> Spread:
        pairs = zip(ours, theirs, strict=True)
        return Spread.of(figure(our) / figure(their) for our, their in pairs)

    return Ratios(spread(_tasks_per_s), spread(_p50_ms), spread(_p95_ms), spread(_cpu_ms))


def batches_of(measured: Measured, contender: Contender, load: Load) -> list[Batch]:
    """One side's batches under one load, a round each."""
    return [b for b in measured.batches if b.contender is contender and b.load == load]


def aims(measured: Measured, loads: Sequence[Load], ours: Contender) -> list[Aim]:
    """What was aimed at for one of our sides, over plain Temporal."""
    events = measured.events[ours] / measured.events[Contender.BARE]
    return [Aim("history events", _MOST_EVENTS, events)] + [
        aim for load in loads for aim in _aims_under(measured, load, ours)
    ]


def _aims_under(measured: Measured, load: Load, ours: Contender) -> Iterator[Aim]:
    batches = batches_of(measured, ours, load)
    ratio = ratios(batches, batches_of(measured, Contender.BARE, load))
    yield Aim(f"CPU, {load.name}", _MOST_CPU, ratio.cpu_ms.median)
    if load.in_flight == 1:
        yield Aim(f"p50, {load.name}", _MOST_P50, ratio.p50_ms.median)
    else:
        throughput = ratio.tasks_per_s.median
        yield Aim(f"throughput, {load.name}", _LEAST_THROUGHPUT, throughput, at_least=True)
    found = figures(batches)
    share = found.cpu_parts_ms[Part.DATABASE] / found.cpu_ms.median
    yield Aim(f"database's share of the CPU, {load.name}", _MOST_DATABASE, share)


def _tasks_per_s(batch: Batch) -> float:
    return batch.load.tasks / batch.wall_s


def _p50_ms(batch: Batch) -> float:
    return statistics.median(batch.latencies_s) * _MS


def _p95_ms(batch: Batch) -> float:
    """The nearest rank: a latency that a task had."""
    ordered = sorted(batch.latencies_s)
    return ordered[max(-(-len(ordered) * 95 // 100) - 1, 0)] * _MS


def _cpu_ms(batch: Batch) -> float:
    return sum(batch.cpu_s.get(part, 0.0) for part in _OURS) / batch.load.tasks * _MS
