"""What is measured: each metric's name, labels and meaning, spelled once, and how labels stay few.

The instruments are OpenTelemetry's. Where no reader was installed (``telemetry.measure``) they cost next to
nothing. What a worker counts costs no round trip; what stands in the ledger is read by one process for all
(``ascertain metrics``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation

OTHER: Final = "other"
MOST_NAMES: Final = 50

_SECONDS: Final = "s"
_BOUNDS_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    *(60, 300, 1_800, 7_200, 43_200),
)
_METER: Final = metrics.get_meter("ascertain")


class Sort(StrEnum):
    """How a metric behaves; the words of Prometheus."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Source(StrEnum):
    """Which process shows it: each its own part, and ``ascertain metrics`` the whole ledger."""

    WORKER = "ascertain worker"
    LEDGER = "ascertain metrics"
    RELAY = "ascertain relay"
    CONSUMER = "ascertain consume"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: As OpenTelemetry has it; ``shown`` is what Prometheus makes of it.
        labels: Every series has all of them.
        unit: ``s`` or none.
    """

    name: str
    sort: Sort
    source: Source
    labels: tuple[str, ...]
    meaning: str
    unit: str = ""

    @property
    def shown(self) -> str:
        """Its name in Prometheus."""
        ending = "_total" if self.sort is Sort.COUNTER else ""
        return f"{self.name}{'_seconds' if self.unit else ''}{ending}"


def _counter(
    name: str, labels: tuple[str, ...], meaning: str, source: Source = Source.WORKER
) -> tuple[Metric, Counter]:
    metric = Metric(name, Sort.COUNTER, source, labels, meaning)
    return metric, _METER.create_counter(name, description=meaning)


def _histogram(name: str, labels: tuple[str, ...], meaning: str) -> tuple[Metric, Histogram]:
    metric = Metric(name, Sort.HISTOGRAM, Source.WORKER, labels, meaning, _SECONDS)
    instrument = _METER.create_histogram(
        name, _SECONDS, meaning, explicit_bucket_boundaries_advisory=_BOUNDS_S
    )
    return metric, instrument


_EFFECT: Final = ("kind", "partition")

CLAIMS, claims = _counter(
    "ascertain_claims",
    (*_EFFECT, "answer"),
    "Claims by the ledger's answer: granted, settled, refused, unresolved, busy, conflict, paused, "
    "taken_over; unanswered of a chunk: left to a task of its own.",
)
OUTCOMES, outcomes = _counter(
    "ascertain_outcomes",
    (*_EFFECT, "outcome"),
    "What calls outside came to: settled, accepted, refused, not_done (nothing happened), unknown.",
)
FENCED_WRITES, fenced_writes = _counter(
    "ascertain_fenced_writes",
    _EFFECT,
    "Writes that changed nothing because their lease_version was old: lease conflicts.",
)
CALL, call_seconds = _histogram(
    "ascertain_call", ("kind", "outcome"), "How long calls outside took, by what they came to."
)
LOOKUP, lookup_seconds = _histogram(
    "ascertain_lookup",
    ("kind", "finding"),
    "How long lookups took, by what they found; down: it could not be asked.",
)
RECONCILIATION_LAG, reconciliation_lag = _histogram(
    "ascertain_reconciliation_lag",
    ("kind",),
    "From when an effect happened outside (by the outside's own word, else its first send) until asking, or "
    "late evidence, settled it.",
)
LOOP_HELD, loop_held = _counter(
    "ascertain_loop_held",
    ("kind",),
    "Times that the event loop was held up for more than a second, so that all effects of the worker waited, "
    "by the kind whose code held it; none: no effect's.",
)

LONGEST_LEGAL: Final = Metric(
    "ascertain_longest_legal",
    Sort.GAUGE,
    Source.WORKER,
    ("kind",),
    "How long an effect of the kind may stand in flight or in doubt while everything is as declared.",
    _SECONDS,
)
EFFECTS: Final = Metric(
    "ascertain_effects",
    Sort.GAUGE,
    Source.LEDGER,
    (*_EFFECT, "state"),
    "Effects that are open, by state: in flight, unknown, quarantined and so on.",
)
STUCK_TASK_AGE: Final = Metric(
    "ascertain_stuck_task_age",
    Sort.GAUGE,
    Source.LEDGER,
    (*_EFFECT, "state"),
    "How long the oldest of them has stood so: now minus its last move.",
    _SECONDS,
)
GATE_STATE: Final = Metric(
    "ascertain_gate_state",
    Sort.GAUGE,
    Source.LEDGER,
    ("partition", "state"),
    "1 for how the partition's gate stands, 0 for how it does not: open, opening (little by little), "
    "half-open (what a rule closed is probed), paused; * is the gate of all.",
)
DUPLICATE_EFFECT_RATE: Final = Metric(
    "ascertain_duplicate_effect_rate",
    Sort.GAUGE,
    Source.LEDGER,
    ("kind",),
    "Effects that exist more than once outside, of all that exist, by the kind's last census.",
)
DUPLICATE_EFFECT_RATE_UPPER: Final = Metric(
    "ascertain_duplicate_effect_rate_upper",
    Sort.GAUGE,
    Source.LEDGER,
    ("kind",),
    "Its upper 95 % confidence bound.",
)
CENSUS_DISCREPANCIES: Final = Metric(
    "ascertain_census_discrepancies",
    Sort.GAUGE,
    Source.LEDGER,
    ("kind", "discord"),
    "On what the outside's list and the ledger disagreed in the last census; 0 for each discord not seen.",
)
CENSUS_AGE: Final = Metric(
    "ascertain_census_age",
    Sort.GAUGE,
    Source.LEDGER,
    ("kind",),
    "How long ago the kind's last census was taken.",
    _SECONDS,
)
LEDGER_UP: Final = Metric(
    "ascertain_ledger_up",
    Sort.GAUGE,
    Source.LEDGER,
    (),
    "1 if the ledger answered when it was last read, else 0; then nothing else of it is shown.",
)

OUTBOX_UP: Final = Metric(
    "ascertain_outbox_up",
    Sort.GAUGE,
    Source.RELAY,
    (),
    "1 if the outbox answered when it was last asked, else 0; then its gauges are not shown.",
)
OUTBOX_LAG: Final = Metric(
    "ascertain_outbox_lag",
    Sort.GAUGE,
    Source.RELAY,
    (),
    "How long the oldest entry that waits has waited; of all relays together.",
    _SECONDS,
)
OUTBOX_WAITING: Final = Metric(
    "ascertain_outbox_waiting",
    Sort.GAUGE,
    Source.RELAY,
    (),
    "Entries that wait, with those that a relay has in hand.",
)
OUTBOX_SET_ASIDE: Final = Metric(
    "ascertain_outbox_set_aside",
    Sort.GAUGE,
    Source.RELAY,
    (),
    "Entries that cannot be started as they are and need a person.",
)
OUTBOX_ENTRIES, outbox_entries = _counter(
    "ascertain_outbox_entries",
    ("fate",),
    "What became of entries in this relay's hands: started, duplicate (it was started before), set_aside.",
    Source.RELAY,
)
OUTBOX_TAKEN_AGAIN, outbox_taken_again = _counter(
    "ascertain_outbox_taken_again",
    (),
    "Entries that a relay had in hand before, without saying what became of them: it ended.",
    Source.RELAY,
)
MESSAGES_WAITING: Final = Metric(
    "ascertain_messages_waiting",
    Sort.GAUGE,
    Source.CONSUMER,
    ("queue",),
    "Messages of the queue that no consumer has in hand; not shown while the broker does not answer.",
)
MESSAGES, messages = _counter(
    "ascertain_messages",
    ("queue", "fate"),
    "What became of messages in this consumer's hands: started, duplicate (it was started before), refused, "
    "returned.",
    Source.CONSUMER,
)
MESSAGES_REDELIVERED, messages_redelivered = _counter(
    "ascertain_messages_redelivered",
    ("queue",),
    "Messages that the broker had given to a consumer before.",
    Source.CONSUMER,
)

METRICS: Final = (
    CLAIMS,
    OUTCOMES,
    FENCED_WRITES,
    CALL,
    LOOKUP,
    RECONCILIATION_LAG,
    LOOP_HELD,
    LONGEST_LEGAL,
    EFFECTS,
    STUCK_TASK_AGE,
    GATE_STATE,
    DUPLICATE_EFFECT_RATE,
    DUPLICATE_EFFECT_RATE_UPPER,
    CENSUS_DISCREPANCIES,
    CENSUS_AGE,
    LEDGER_UP,
    OUTBOX_UP,
    OUTBOX_LAG,
    OUTBOX_WAITING,
    OUTBOX_SET_ASIDE,
    OUTBOX_ENTRIES,
    OUTBOX_TAKEN_AGAIN,
    MESSAGES_WAITING,
    MESSAGES,
    MESSAGES_REDELIVERED,
)


def observe(metric: Metric, callback: Callable[[], Iterable[Observation]]) -> None:
    """Have a gauge's values asked for at each collection; a series that is not given is not shown."""

    def observed(_: CallbackOptions) -> Sequence[Observation]:
        return tuple(callback())

    _METER.create_observable_gauge(metric.name, [observed], metric.unit, metric.meaning)


class Few:
    """The first values by their own name and all later ones as ``other``: labels never become many.

    Nothing is lost but the name: counts of ``other`` add up, and ages are those of its oldest.
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._named: set[str] = set()

    def __call__(self, value: str) -> str:
        """The label of a value; for one value always the same within a process."""
        if value in self._named:
            return value
        if len(self._named) >= self._most:
            return OTHER
        self._named.add(value)
        return value


_KINDS: Final = Few()
_PARTITIONS: Final = Few()


def labels(kind: str, partition: str | None = None, **more: str) -> dict[str, str]:
    """The labels of a series of this process."""
    named = {} if partition is None else {"partition": named_partition(partition)}
    return {"kind": _KINDS(kind), **named, **more}


def named_partition(partition: str) -> str:
    """A partition's label in this process."""
    return _PARTITIONS(partition)
