"""What the core asks of the world: an adapter, a ledger, secrets, a permit to dispatch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from ascertain.contracts.effect import UNRESOLVED
from ascertain.contracts.semantics import INLINE_MAX, Policy, Semantics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import datetime

    from pydantic import JsonValue

    from ascertain.contracts.breaker import Doubt, Trip
    from ascertain.contracts.census import CensusReport
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
    from ascertain.contracts.delivery import Delivery
    from ascertain.contracts.effect import AuditEvent, Effect, EffectRow, Evidence, State
    from ascertain.contracts.epoch import Epoch, EpochRequest
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.gate import Gate, GateChange, PartitionStanding
    from ascertain.contracts.outage import Outage
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.contracts.task import Task
    from ascertain.machine import Move

# Most bytes that the ledger keeps of one request.
FROZEN_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One effect as an adapter sees it.

    Attributes:
        frozen: The bytes that ``prepare`` made before the first claim: the same for every attempt.
        attempt: 1 for the first.
        job_id: What the outside called it when it accepted it.
        external_id: Set when the effect is settled already (census, comparison).
    """

    effect: Effect
    frozen: bytes
    attempt: int
    job_id: str | None = None
    external_id: str | None = None


class Permit(Protocol):
    """The claim as a permit to dispatch: checked at the last line before I/O, good for one call."""

    def check(self) -> None:
        """Use the permit up.

        Raises:
            PermitLost: It ran out, was used, or was fenced. Send nothing; let the error pass.
        """
        ...

    async def renew(self) -> None:
        """Lengthen an unused permit after long work, right before the irreversible I/O.

        Raises:
            PermitLost: The claim was fenced meanwhile, its partition is paused, or the ledger cannot
                tell. Send nothing; let the error pass.
        """
        ...

    def heartbeat(self, progress: JsonValue) -> None:
        """Say that long work goes on, and how far it is. Costs nothing for inline effects."""
        ...


class Adapter(Protocol):
    """The code that does one kind of effect outside, and can ask whether it exists."""

    @property
    def semantics(self) -> Semantics:
        """What this outside promises, unless the deployment says otherwise."""
        ...

    def prepare(self, effect: Effect) -> bytes:
        """Build the bytes to send, once. No I/O. At most 256 KiB, and never a secret.

        Raises:
            InvalidTask: The input is wrong for this kind; the effect is refused and never sent.
        """
        ...

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Make one call outside that sends ``call.frozen`` under the effect's id.

        ``permit.check()`` is the last line before the first byte leaves. Nothing is repeated and no
        redirect is followed. Any exception that is not classified here makes the effect UNKNOWN.
        """
        ...

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Ask whether the effect exists, without causing it.

        Args:
            call: The effect; ``frozen`` tells what was asked for, to compare with what is found.
            within: Budget for all requests together.

        Raises:
            LookupDown: The outside cannot be asked now. Asked again later, slower.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


class BatchAdapter(Adapter, Protocol):
    """An adapter that can send many effects in one call.

    Each effect keeps its own id, claim, state and lookup, and can always be performed alone as well.
    """

    @property
    def batch_max(self) -> int:
        """The most effects of one call."""
        ...

    async def perform_many(
        self, calls: Sequence[Call], permits: Sequence[Permit]
    ) -> Sequence[Outcome]:
        """Make one call outside for all of them, each under its own id.

        Every permit is checked at the last line before the first byte leaves. What the outside does not
        mention in its answer is ``Unknown``: that others of the batch were done proves nothing of it.

        Returns:
            One outcome for each call, in their order.

        Raises:
            PermitLost: One of the permits; nothing was sent for any of them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing in the outside's own list.

    Attributes:
        effect_id: The effect's id that it carries; None: none of ours.
        stands: Whether it is a fact now; refused, pending or reversed things are none.
        state: The outside's own word for how it stands.
    """

    external_id: str
    effect_id: str | None
    stands: bool
    state: str = ""


@runtime_checkable
class Lister(Protocol):
    """An adapter that can also list everything that its outside has of its kind: optional."""

    def listing(
        self, *, since: datetime | None, within: timedelta
    ) -> AsyncIterator[Sequence[Listed]]:
        """The whole list, page by page.

        Args:
            since: What happened before may be left out; None: everything.
            within: Budget for all requests together.

        Raises:
            LookupDown: It cannot be listed now, or not to its end: a part of a list proves nothing.
            Unlisted: This kind is not declared so that it could be listed.
        """
        ...


class Secrets(Protocol):
    """Where ``secret:NAME`` is resolved: in workers only."""

    def reveal(self, name: str) -> str:
        """The secret's value.

        Raises:
            MissingSecret: It is neither in the environment nor in the secrets folder.
        """
        ...


class AdapterFactory(Protocol):
    """How a ``[kinds."..."]`` table becomes an adapter (entry-point group ``ascertain.adapters``)."""

    def __call__(self, kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> Adapter:
        """Build the adapter of one kind.

        Raises:
            InvalidSettings: An option is wrong; the message names it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of effect as this deployment serves it.

    Attributes:
        adapter: None where this process does not hold it (another queue's credentials).
    """

    name: str
    semantics: Semantics
    policy: Policy
    adapter: Adapter | None

    @property
    def queue(self) -> str | None:
        """The task queue of its work; None runs inline, as a local activity behind the claim."""
        if self.policy.queue is not None:
            return self.policy.queue
        return None if self.semantics.max_duration <= INLINE_MAX else f"ascertain-{self.name}"


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


class Tasks(Protocol):
    """What Temporal knows of tasks, for those who start from the ledger's side."""

    async def ended(self, task_id: str) -> str | None:
        """None while a workflow pursues the task; otherwise how it ended, in a word for people.

        Raises:
            TemporalDown: It cannot be told now.
        """
        ...

    async def submit(self, task: Task) -> object:
        """Start a task, once, however often it is asked for.

        Raises:
            Conflict: Its id was used before for other content.
            TemporalDown: It may or may not be started; ask again.
        """
        ...

    async def ascertain(self, task_id: str) -> bool:
        """Have a workflow find out what became of an ended task's effects; it begins no new one.

        Returns:
            False if Temporal has forgotten the task, so that only its submitter can start it again.

        Raises:
            TemporalDown: It cannot be told now; a later sweep tries again.
        """
        ...


class Deliveries(Protocol):
    """Who counts requests for tasks that were there already."""

    async def count(self, delivery: Delivery) -> int:
        """Count one more; gives how often the very same came.

        Raises:
            LedgerDown: It may or may not be counted.
        """
        ...


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
        -> fenced (UNKNOWN, lease_version + 1) and Unresolved; a closed gate -> Paused, nothing stored;
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

    async def last_answers(self, effect_ids: Sequence[str]) -> Mapping[str, Evidence]:
        """What the outside last said of each effect, to an attempt or a lookup; none if it never did."""
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
        """Open or close a partition's gate; a repeated request id changes nothing."""
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


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an effect stands, in short."""

    kind: str
    state: State


@dataclass(frozen=True, slots=True)
class Tally:
    """The open effects of one kind and partition in one state.

    Attributes:
        stuck_for: How long the oldest has been so: ``stuck_task_age``.
    """

    kind: str
    partition: str
    state: State
    count: int
    stuck_for: timedelta


@dataclass(frozen=True, slots=True)
class ArchivedPage:
    """One page of effects of which the settled ones were archived.

    Attributes:
        seen: How many effects it held; fewer than asked for: it was the last.
        archived: How many of them were archived, or would be.
        last: Where the next page begins.
    """

    seen: int
    archived: int
    last: str


@dataclass(frozen=True, slots=True)
class KeptCensus:
    """The last census of a kind, and how long ago it was taken."""

    report: CensusReport
    age: timedelta


@dataclass(frozen=True, slots=True)
class Spread:
    """How some lengths of time are spread; the shares are of those that were no longer.

    Attributes:
        count: How many were measured; without any, all are 0.
    """

    count: int = 0
    half: timedelta = timedelta(0)
    p99: timedelta = timedelta(0)
    p999: timedelta = timedelta(0)
    longest: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the audit trails of some effects of a kind tell of its times.

    Attributes:
        effects: How many effects.
        attempts: From a claim to what its owner recorded.
        lateness: From when a fact happened outside (its own time, else its first send) until asking found it.
        stood: How long effects stood in flight, or in doubt, at a time.
        unsent: Attempts whose permit ran out before their call left.
        denied: The longest lateness of a fact that had been taken for proven absent; None: none was.
    """

    kind: str
    effects: int
    attempts: Spread
    lateness: Spread
    stood: Spread
    unsent: int = 0
    denied: timedelta | None = None


class Upkeep(Protocol):
    """What is asked of the whole ledger and not of one effect. Raises ``LedgerDown`` like ``Ledger``."""

    def settled(
        self, kind: str, since: datetime | None, lag: timedelta
    ) -> AsyncIterator[Mapping[str, str]]:
        """The outside's id of each settled effect, by effect_id, page by page.

        Args:
            kind: Of this kind.
            since: First claimed since then; None: all.
            lag: Settled for at least so long, so that the outside lists it.
        """
        ...

    async def standing(self, effect_ids: Collection[str]) -> Mapping[str, Standing]:
        """Where these effects stand; those that were never claimed are missing."""
        ...

    async def tallies(self, states: Collection[State] = UNRESOLVED) -> Sequence[Tally]:
        """What is open in some of the states that are not final, by kind, partition and state."""
        ...

    async def keep_census(self, report: CensusReport) -> None:
        """Keep it as the last of its kind, without its list of discrepancies."""
        ...

    async def censuses(self) -> Sequence[KeptCensus]:
        """The last census of each kind that one was ever taken of."""
        ...

    async def measured(self, most: int) -> Sequence[Measured]:
        """The times of so many effects at most, drawn at random, by kind."""
        ...

    async def archive(
        self, older_than: timedelta, *, after: str = "", limit: int = 1000, moves: bool = True
    ) -> ArchivedPage:
        """Move what has been SETTLED for so long from a page of effects to the archive, in one commit.

        The archive keeps what protects and proves, for ever; the bytes that were sent are dropped. Every
        read shows an archived effect as one that is SETTLED, and every write meets it as such.

        Args:
            older_than: SETTLED for at least as long.
            after: The page's effect_ids come behind this one.
            limit: Most effects of the page.
            moves: False: only count.
        """
        ...

    def trails(self) -> AsyncIterator[tuple[EffectRow, Sequence[AuditEvent]]]:
        """Every effect with its whole audit trail, by effect_id."""
        ...
