"""What the core asks of the ledger for one effect, one gate, one partition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from ascertain.contracts.breaker import Doubt, Trip
    from ascertain.contracts.claim import (
        ChunkAnswer,
        ClaimAnswer,
        ClaimRequest,
        Conflict,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import AuditEvent, Effect, EffectRow, Evidence, State
    from ascertain.contracts.epoch import Epoch, EpochRequest
    from ascertain.contracts.gate import Gate, GateChange, PartitionStanding
    from ascertain.contracts.outage import Outage
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.machine import Move


@dataclass(frozen=True, slots=True)
class Case:
    """An effect's row with the receipts that fenced owners brought too late."""

    row: EffectRow
    late: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True)
class Trail:
    """An effect's row and its whole audit trail as of one moment, so that they fit together."""

    row: EffectRow
    events: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True)
class EffectFilter:
    """Which rows to list; None does not restrict. Newest state first."""

    states: frozenset[State] | None = None
    partition: str | None = None
    kind: str | None = None
    task_id: str | None = None
    limit: int = 100

    @classmethod
    def of_task(cls, task_id: str) -> EffectFilter:
        """All effects of one task: it has at most 50 steps, each with its undo and with revisions of both."""
        return cls(task_id=task_id, limit=1000)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the effects that have been in a state for long, oldest first.

    Attributes:
        older_than: Only effects that have been so for at least as long.
        after: Where the page before ended: ``state_since`` and ``effect_id`` of its last row.
    """

    state: State
    older_than: timedelta
    after: tuple[datetime, str] | None = None
    limit: int = 200


class Ledger(Protocol):
    """What remembers effects beyond Temporal's retention. One round trip and one commit per move.

    Every method raises ``LedgerDown`` when no answer came; a write may then be committed or not.
    """

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Ask for the permit to dispatch; durable before it answers.

        Order of the answers: another fingerprint -> Conflict; no row, or CLEAR, of which a restored ledger
        may have forgotten what was done (see ``raise_epoch``) -> IN_FLIGHT with a lease that is over, as if
        it had been sent, and Unresolved; SETTLED -> Settled; closed without a fact
        -> Refused; TAKEN_OVER -> TakenOver; IN_FLIGHT of this very owner with an open lease -> Granted
        again (its first answer was lost); IN_FLIGHT with an open lease -> Busy; IN_FLIGHT past its lease
        -> fenced (UNKNOWN, lease_version + 1) and Unresolved; a gate that is closed, or
        opens little by little while the effect's turn has not come -> Paused, nothing stored;
        UNKNOWN with ``resend`` -> Granted (lease_version + 1, attempt + 1) if the whole lease lies before
        ``resend_until`` and the budget allows, QUARANTINED and Unresolved if the budget does not; CLEAR
        before its ``retry_at``, or with a late receipt in the audit trail -> Unresolved; CLEAR or no row
        -> Granted, or QUARANTINED and Unresolved when the budget is used up; all else -> Unresolved.
        """
        ...

    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        """Move ``lease_until`` of an open claim to now plus ``extend`` (owner, by lease_version).

        Dispatch is still to come, so a closed gate stops it as it stops a claim; nothing is stored then.
        """
        ...

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        """Write what the attempt came to: settle, accept, refuse, clear or doubt, by its type.

        Applied only while the effect is IN_FLIGHT under ``lease.lease_version``. Otherwise nothing
        changes and what was known is kept as a ``refused_write`` in the audit trail; a repeat of what this
        lease has recorded is Moved, and is not kept twice. ``doubt`` ends the
        lease now, for its owner says that the permit is used. ``retry_in`` sets ``retry_at`` of a CLEAR
        one. All but ``accept`` may commit asynchronously.
        """
        ...

    async def claim_many(self, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
        """First claims of distinct effects of one owner, all in one commit; answers in the same order.

        Granted as by ``claim``; an effect that stands already is not touched: SETTLED or REFUSED with the
        same fingerprint is told; no row and a closed gate -> Paused; all else -> None.
        """
        ...

    async def record_many(
        self, outcomes: Sequence[tuple[Lease, Refused | Settled]]
    ) -> Collection[str]:
        """Record many outcomes in one commit; may commit asynchronously.

        Returns the effects that were written. What is not among them was not written at all, because
        its lease is old or a fact of the chunk proves another effect: ``record`` it by itself.
        """
        ...

    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        """IN_FLIGHT past its lease -> UNKNOWN with lease_version + 1; by expected version."""
        ...

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        """Apply what reconciliation found, by expected version; durable."""
        ...

    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        """Apply a person's decision, by expected version; durable. TAKEN_OVER only by who took it."""
        ...

    async def amend(
        self, effect_id: str, version: int, denial: Verdict | None, verdict: Verdict, operator: str
    ) -> Written:
        """Close an effect in favour of the one that has a new input (SUPERSEDED); durable.

        Only from CLEAR without a late receipt. ``denial`` (CLEAR) comes first where it is QUARANTINED or
        TAKEN_OVER, in the same commit, so that nobody can claim the old one in between: both or neither.
        """
        ...

    async def withdraw(self, effect: Effect, fingerprint: str, by: str) -> Written | Conflict:
        """Close for good what a cancelled task does not do any more, by whoever might still claim it.

        Moved (ABANDONED) if it was never claimed, or is CLEAR without a late receipt; durable. Stale: it
        is closed already, or something of it is under way or unresolved, or a restored ledger may have
        forgotten it, and nothing changed. Conflict:
        other content stands under this id or in this step.
        """
        ...

    async def inspect(self, effect_id: str) -> Case | None:
        """The row, the ledger's clock and the late receipts; None when it was never claimed."""
        ...

    async def proved(self, kind: str, external_ids: Sequence[str]) -> frozenset[str]:
        """Which of these facts prove an effect of the kind already."""
        ...

    async def effects(self, which: EffectFilter) -> Sequence[EffectRow]:
        """Rows that fit the filter."""
        ...

    async def quiet(self, page: Page) -> Sequence[EffectRow]:
        """A page of unresolved rows under whose claim nothing can be sent any more, oldest first."""
        ...

    async def audit(self, effect_id: str) -> Sequence[AuditEvent]:
        """The effect's whole audit trail, oldest first."""
        ...

    async def trails(self, which: EffectFilter, *, after: str = "") -> Sequence[Trail]:
        """Rows that fit the filter with their trails, by effect_id, beginning behind ``after``."""
        ...

    async def set_gate(self, change: GateChange) -> Gate:
        """Open or close a partition's gate; a repeated request id changes nothing.

        With a ramp it opens little by little: each effect has its turn, always the same part of the ramp. It
        is for a gate that is closed, or opening yet: what is open for all stays so.

        Raises:
            CommandRefused: Its request id was used for another gate or the other position. Nothing was moved.
        """
        ...

    async def trip(self, trip: Trip) -> Gate | None:
        """Close a partition's gate on a rule.

        Returns:
            The gate, if that changed it. None: a person keeps it closed, it was opened after the counting
            began, or a rule has closed it already.
        """
        ...

    async def judge_probes(self, partition: str) -> Gate | None:
        """Open, or close again, a gate that a rule closed by what the claims that it let through came to.

        Returns:
            The gate, if that changed it.
        """
        ...

    async def doubts(self) -> Sequence[Doubt]:
        """What is UNKNOWN, by partition and kind; costs what is open."""
        ...

    async def note_outage(self, partition: str, kind: str, reason: str) -> Outage:
        """Remember that the outside cannot be asked; tells since when, and how much waits for it."""
        ...

    async def end_outage(self, partition: str, kind: str) -> None:
        """Remember that the outside could be asked again."""
        ...

    async def outages(self) -> Sequence[Outage]:
        """The outsides that cannot be asked and for which something waits."""
        ...

    async def raise_epoch(self, request: EpochRequest) -> Epoch:
        """From now on, nothing that the ledger may have forgotten is sent before it was asked for.

        That is every effect without a row whose task was begun before the epoch's ``until``, and every
        one that is CLEAR and has been since before it was raised. A repeated request id changes nothing.

        Raises:
            InputError: The backup is of the future, or ``until`` lies in the past; nothing was changed.
            CommandRefused: Its request id was used for a restore that reaches less far; nothing was changed.
        """
        ...

    async def gates(self) -> Sequence[Gate]:
        """Every gate that was ever closed."""
        ...

    async def partitions(self) -> Sequence[PartitionStanding]:
        """Every partition that was ever paused or has open effects, by name."""
        ...

    async def note(self, effect_id: str, by: str, evidence: Evidence) -> None:
        """Append an observation that moves nothing to the audit trail."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...
