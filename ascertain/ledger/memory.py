"""What the pure ledger remembers: one immutable value that can be kept, compared and put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from ascertain.contracts.effect import AuditEvent, EffectRow, State
from ascertain.contracts.epoch import Epoch
from ascertain.contracts.gate import Gate
from ascertain.ledger import write as writes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ascertain.contracts.effect import Effect


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a ledger remembers. Never changed in place.

    Attributes:
        rows: By effect_id; ``now`` is the time of the last move.
        trails: By effect_id, oldest event first.
        gates: By partition.
        closed: Partitions whose gate was ever closed.
        requests: Partition, and whether it was to be paused, by request id.
        outages: Since when, and why, by partition and kind.
        epochs: The restores, in the order in which they were told.
    """

    rows: Mapping[str, EffectRow] = field(default_factory=dict[str, EffectRow])
    trails: Mapping[str, tuple[AuditEvent, ...]] = field(
        default_factory=dict[str, tuple[AuditEvent, ...]]
    )
    gates: Mapping[str, Gate] = field(default_factory=dict[str, Gate])
    closed: frozenset[str] = frozenset()
    requests: Mapping[str, tuple[str, bool]] = field(default_factory=dict[str, tuple[str, bool]])
    outages: Mapping[tuple[str, str], tuple[datetime, str]] = field(
        default_factory=dict[tuple[str, str], "tuple[datetime, str]"]
    )
    epochs: tuple[Epoch, ...] = ()

    @override
    def __hash__(self) -> int:
        """Coarse and cheap: equal memories have equal hashes."""
        rows = frozenset((row.effect_id, row.version, row.state) for row in self.rows.values())
        events = frozenset((name, len(trail)) for name, trail in self.trails.items())
        gates = frozenset((gate.partition, gate.paused) for gate in self.gates.values())
        return hash((rows, events, gates, frozenset(self.requests)))

    def late(self, effect_id: str) -> tuple[AuditEvent, ...]:
        """The receipts that came when their writer's lease was over."""
        trail = self.trails.get(effect_id, ())
        return tuple(
            event
            for event in trail
            if event.move == writes.REFUSED_WRITE and event.receipt is not None
        )

    def other_content(self, effect: Effect) -> str | None:
        """What another effect of the task was claimed for, if that was other content."""
        if effect.task_fingerprint is None:
            return None
        for row in self.rows.values():
            if row.task_id != effect.task_id or row.state is State.SUPERSEDED:
                continue
            if row.task_fingerprint not in {None, effect.task_fingerprint}:
                return row.task_fingerprint
        return None

    def live_in_step(self, effect: Effect) -> EffectRow | None:
        """The live effect of the same step of the task."""
        return next(
            (
                row
                for row in self.rows.values()
                if (row.task_id, row.step) == (effect.task_id, effect.step)
                and row.state is not State.SUPERSEDED
            ),
            None,
        )

    def proved_by(self, kind: str, external_id: str) -> EffectRow | None:
        """The effect that a fact proves."""
        return next(
            (
                row
                for row in self.rows.values()
                if (row.kind, row.external_id) == (kind, external_id)
            ),
            None,
        )


class Remembering:
    """Holds a memory, and the clock by which it changes."""

    def __init__(self, clock: Callable[[], datetime], memory: Memory | None = None) -> None:
        """Begin with ``memory``, or with nothing; ``clock`` gives aware times that never run back."""
        self._clock = clock
        self._memory = memory or Memory()

    def snapshot(self) -> Memory:
        """Everything remembered, as one value."""
        return self._memory

    def restore(self, memory: Memory) -> None:
        """Go back to a snapshot."""
        self._memory = memory
