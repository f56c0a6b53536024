"""From batches to figures: medians over rounds, ratios within rounds, and the aims."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.cpu import Part
from benchmarks.plan import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from benchmarks.measure import Batch, Measured
    from benchmarks.plan import Load

_MS: Final = 1000
# Every side's calls cost the outside the same, and it is not ours.
_OURS: Final = tuple(part for part in Part if part is not Part.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is aimed at when one side is compared with another, as ratios; None: nothing.

    Attributes:
        p50: At most, one task at a time.
        throughput: At least, with many under way.
        database: Most of our own CPU that may be the database's.
    """

    events: float | None = None
    cpu: float | None = None
    p50: float | None = None
    throughput: float | None = None
    database: float | None = None


_SINGLE: Final = Limits(events=0.55, cpu=0.5, p50=0.35, throughput=2.0, database=0.05)
# Which sides are compared with which.
LIMITS: Final[Mapping[tuple[Contender, Contender], Limits]] = {
    (Contender.ASCERTAIN, Contender.BARE): _SINGLE,
    (Contender.EAGER, Contender.BARE): _SINGLE,
    (Contender.STREAM, Contender.BARE): Limits(cpu=1 / 25, throughput=25),
    (Contender.ASCERTAIN, Contender.DBOS): Limits(p50=1.3),
    (Contender.EAGER, Contender.DBOS): Limits(p50=1.3),
    (Contender.STREAM, Contender.DBOS): Limits(cpu=1 / 8, throughput=10),
    (Contender.STREAM, Contender.DBOS50): Limits(cpu=1.3, throughput=1.0),
    (Contender.ASCERTAIN, Contender.PROCRASTINATE): Limits(),
    (Contender.STREAM, Contender.PROCRASTINATE): Limits(),
    (Contender.ASCERTAIN, Contender.RESTATE): Limits(),
    (Contender.STREAM, Contender.RESTATE): Limits(),
}


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
    """One side over another under one load; each ratio within a round."""

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
            part: statistics.median(b.cpu_s[part] / b.tasks * _MS for b in batches)
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


def aims(
    measured: Measured, loads: Sequence[Load], ours: Contender, theirs: Contender
) -> list[Aim]:
    """What was aimed at for one of our sides, over another."""
    limits = LIMITS[ours, theirs]
    found: list[Aim] = []
    if limits.events is not None:
        events = measured.events[ours] / measured.events[theirs]
        found.append(Aim("history events", limits.events, events))
    for load in loads:
        pair = (batches_of(measured, ours, load), batches_of(measured, theirs, load))
        found += _aims_under(load, limits, *pair)
    return found


def _aims_under(
    load: Load, limits: Limits, ours: Sequence[Batch], theirs: Sequence[Batch]
) -> Iterator[Aim]:
    ratio = ratios(ours, theirs)
    if limits.cpu is not None:
        yield Aim(f"CPU, {load.name}", limits.cpu, ratio.cpu_ms.median)
    if limits.p50 is not None and load.in_flight == 1:
        yield Aim(f"p50, {load.name}", limits.p50, ratio.p50_ms.median)
    if limits.throughput is not None and load.in_flight > 1:
        throughput = ratio.tasks_per_s.median
        yield Aim(f"throughput, {load.name}", limits.throughput, throughput, at_least=True)
    if limits.database is not None:
        found = figures(ours)
        share = found.cpu_parts_ms[Part.DATABASE] / found.cpu_ms.median
        yield Aim(f"database's share of the CPU, {load.name}", limits.database, share)


def _tasks_per_s(batch: Batch) -> float:
    return batch.tasks / batch.wall_s


def _p50_ms(batch: Batch) -> float:
    return statistics.median(batch.latencies_s) * _MS


def _p95_ms(batch: Batch) -> float:
    """The nearest rank: a latency that a task had."""
    ordered = sorted(batch.latencies_s)
    return ordered[max(-(-len(ordered) * 95 // 100) - 1, 0)] * _MS


def _cpu_ms(batch: Batch) -> float:
    return sum(batch.cpu_s.get(part, 0.0) for part in _OURS) / batch.tasks * _MS
