"""The breaker: what a worker has seen of each partition, and when that closes its gate.

A smooth attempt costs one entry in this process's memory. The ledger is asked after an attempt that came
to nothing, where a claim meets a gate that is being probed, and once in every sweep.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from activities.permit import steady
from ascertain.contracts import outcome
from ascertain.contracts.breaker import BY, Rule, trip_of
from ascertain.contracts.effect import Evidence
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ascertain.contracts.breaker import Breaker, Doubt, Trip
    from ascertain.contracts.claim import Paused
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Ledger

log = logging.getLogger("ascertain.breaker")

# Most attempts that are kept of a partition, and most partitions.
ATTEMPTS: Final = 1000
PARTITIONS: Final = 10_000
# Nothing of the outside's: the attempt's own permit was over.
OURS: Final = frozenset({"permit_lost"})

Attempted = tuple[float, str, str]


class Breakers:
    """The rules of a deployment, and what this process has seen."""

    def __init__(
        self, breakers: Sequence[Breaker] = (), clock: Callable[[], float] = steady
    ) -> None:
        self._breakers = tuple(breakers)
        self._clock = clock
        self._seen: dict[str, deque[Attempted]] = {}

    def of(self, partition: str, kind: str | None = None) -> tuple[Breaker, ...]:
        """Those that are about a partition, and about a kind in it if one is named."""
        return tuple(one for one in self._breakers if one.fits(partition, kind))

    @property
    def on_lag(self) -> tuple[Breaker, ...]:
        """Those that close on the age of a doubt."""
        return tuple(one for one in self._breakers if one.lag is not None)

    def count(self, effect: Effect, came_to: Outcome) -> None:
        """Remember how an attempt ended."""
        if not self._breakers or not self.of(effect.partition, effect.kind):
            return
        if isinstance(came_to, outcome.NotDone) and came_to.error_class in OURS:
            return
        seen = self._seen.setdefault(effect.partition, deque(maxlen=ATTEMPTS))
        seen.append((self._clock(), effect.kind, came_to.type))
        if len(self._seen) > PARTITIONS:
            del self._seen[next(iter(self._seen))]

    def forget(self, partition: str) -> None:
        """Begin to count anew: its gate was moved."""
        self._seen.pop(partition, None)

    def trips(self, effect: Effect) -> Iterable[Trip]:
        """The rules that want the gate of the effect's partition closed."""
        for breaker in self.of(effect.partition, effect.kind):
            counted = self._counted(effect.partition, breaker)
            of = len(counted)
            if of < breaker.of_at_least:
                continue
            endings = Counter(ending for _, _, ending in counted)
            over = timedelta(seconds=self._clock() - counted[0][0])
            doubted = endings["unknown"]
            failed = doubted + endings["not_done"]
            told = ((Rule.UNKNOWN_SHARE, doubted), (Rule.ERROR_SHARE, failed))
            for rule, count in told:
                limit = getattr(breaker, rule)
                if limit is not None and count / of > limit:
                    numbers = _share(rule, count, of, limit, breaker.window)
                    yield trip_of(rule, breaker, effect.partition, numbers, over)

    def _counted(self, partition: str, breaker: Breaker) -> Sequence[Attempted]:
        """The attempts that the breaker is about, the oldest first."""
        since = self._clock() - breaker.window.total_seconds()
        return [
            (at, kind, ending)
            for at, kind, ending in self._seen.get(partition, ())
            if at >= since and breaker.kind in {None, kind}
        ]


def _share(rule: Rule, count: int, of: int, limit: float, window: timedelta) -> str:
    how = "ended in doubt" if rule is Rule.UNKNOWN_SHARE else "were not done or ended in doubt"
    within = f"{window.total_seconds():g} s"
    return f"{count} of {of} attempts within {within} {how} ({count / of:.0%}; limit {limit:.0%})"


async def failed(breakers: Breakers, ledger: Ledger, effect: Effect) -> None:
    """After an attempt that came to nothing: close the gate, or close it again, if a rule says so.

    It says nothing where the ledger is down: a later failure, or the sweep, looks again.
    """
    if not breakers.of(effect.partition):
        return
    try:
        await ledger.judge_probes(effect.partition)
        for trip in breakers.trips(effect):
            await _trip(breakers, ledger, trip, effect.effect_id)
    except AscertainError as error:
        log.warning("the breaker of %s could not look: %s", effect.partition, error)


async def met(breakers: Breakers, ledger: Ledger, partition: str, gate: Paused) -> None:
    """After a claim that a closed gate stopped: begin to count anew, and see what others' probes came to.

    One that opens little by little is counted behind like one that is open.
    """
    if gate.turn is not None:
        return
    breakers.forget(partition)
    if not gate.half_open:
        return
    try:
        await ledger.judge_probes(partition)
    except AscertainError as error:
        log.warning("the probes of %s could not be judged: %s", partition, error)


async def _trip(breakers: Breakers, ledger: Ledger, trip: Trip, effect_id: str) -> None:
    gate = await ledger.trip(trip)
    breakers.forget(trip.partition)
    if gate is None:
        return
    log.warning("the gate of %s was closed: %s", trip.partition, trip.reason)
    why = f"after this attempt the gate of {trip.partition} was closed: {trip.reason}"
    evidence = Evidence(source="rule", rule=BY, detail=why, body={"rule": trip.rule.value})
    await ledger.note(effect_id, BY, evidence)


async def look(breakers: Breakers, ledger: Ledger) -> None:
    """What a sweep does: judge the probes of each gate that is probed, and the rules about lag."""
    for gate in await ledger.gates():
        if gate.probing:
            await ledger.judge_probes(gate.partition)
    if not breakers.on_lag:
        return
    for trip in _late(breakers.on_lag, await ledger.doubts()):
        if await ledger.trip(trip) is not None:
            breakers.forget(trip.partition)
            log.warning("the gate of %s is closed: %s", trip.partition, trip.reason)


def _late(breakers: Sequence[Breaker], doubts: Sequence[Doubt]) -> Iterable[Trip]:
    """The trips of the rules about lag."""
    for breaker in breakers:
        fitting: dict[str, list[Doubt]] = {}
        for doubt in doubts:
            if breaker.fits(doubt.partition, doubt.kind):
                fitting.setdefault(doubt.partition, []).append(doubt)
        for partition, known in fitting.items():
            oldest = max(doubt.oldest for doubt in known)
            if breaker.lag is None or oldest <= breaker.lag:
                continue
            numbers = (
                f"{sum(doubt.count for doubt in known)} in doubt, the oldest for "
                f"{oldest.total_seconds():.0f} s (limit {breaker.lag.total_seconds():g} s)"
            )
            yield trip_of(Rule.LAG, breaker, partition, numbers, breaker.lag)
