"""What the ledger says of itself, for whoever watches: read now and then, by one process for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain import metric
from ascertain.contracts.census import Discord
from ascertain.contracts.effect import TERMINAL, State
from ascertain.contracts.gate import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ascertain.contracts.gate import Gate
    from ascertain.metric import Metric
    from ascertain.ports import KeptCensus, Ledger, Tally, Upkeep

OPEN: Final = frozenset(State) - TERMINAL


@dataclass(frozen=True, slots=True)
class Reading:
    """What stood in the ledger at one moment. Its cost follows what is open, not what was ever stored."""

    at: datetime
    tallies: Sequence[Tally] = ()
    gates: Sequence[Gate] = ()
    censuses: Sequence[KeptCensus] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a metric and its value."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


async def read(ledger: Ledger, upkeep: Upkeep, at: datetime) -> Reading:
    """Read the ledger once, which is now: three statements.

    Raises:
        LedgerDown: It did not answer.
    """
    tallies, gates = await upkeep.tallies(OPEN), await ledger.gates()
    return Reading(at, tallies, gates, await upkeep.censuses())


def samples(reading: Reading | None) -> list[Sample]:
    """A reading as metrics; without one, only that the ledger does not answer."""
    if reading is None:
        return [Sample(metric.LEDGER_UP, {}, 0)]
    return [
        Sample(metric.LEDGER_UP, {}, 1),
        *_of_effects(reading.tallies),
        *_of_gates(reading.gates, reading.at),
        *(sample for kept in reading.censuses for sample in _of_census(kept)),
    ]


def _of_effects(tallies: Iterable[Tally]) -> Iterable[Sample]:
    """Partitions that share a label add up, and are as old as the oldest."""
    merged: dict[tuple[tuple[str, str], ...], list[Tally]] = defaultdict(list)
    for tally in tallies:
        labels = metric.labels(tally.kind, tally.partition, state=tally.state.value)
        merged[tuple(labels.items())].append(tally)
    for pairs, together in merged.items():
        count = sum(tally.count for tally in together)
        oldest = max(tally.stuck_for for tally in together)
        yield Sample(metric.EFFECTS, dict(pairs), count)
        yield Sample(metric.STUCK_TASK_AGE, dict(pairs), oldest.total_seconds())


def _of_gates(gates: Iterable[Gate], now: datetime) -> Iterable[Sample]:
    """Partitions that share a label are counted."""
    standing: dict[str, Counter[Position]] = defaultdict(Counter)
    for gate in gates:
        standing[metric.named_partition(gate.partition)][gate.position(now)] += 1
    for partition, counts in standing.items():
        for position in Position:
            labels = {"partition": partition, "state": position.value}
            yield Sample(metric.GATE_STATE, labels, counts[position])


def _of_census(kept: KeptCensus) -> Iterable[Sample]:
    report, about = kept.report, metric.labels(kept.report.kind)
    if report.duplicate_effect_rate is not None:
        yield Sample(metric.DUPLICATE_EFFECT_RATE, about, report.duplicate_effect_rate)
    yield Sample(metric.DUPLICATE_EFFECT_RATE_UPPER, about, report.duplicate_effect_rate_upper)
    yield Sample(metric.CENSUS_AGE, about, kept.age.total_seconds())
    for discord in Discord:
        count = report.count.get(discord, 0)
        yield Sample(metric.CENSUS_DISCREPANCIES, {**about, "discord": discord.value}, count)
