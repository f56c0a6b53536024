"""What is asked of the whole ledger: tallies, measures, archives, trails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from ascertain.contracts.effect import UNRESOLVED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import datetime

    from ascertain.contracts.census import CensusReport
    from ascertain.contracts.effect import AuditEvent, EffectRow, State


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
class Waiting:
    """Effects that wait for a person for the same cause.

    Attributes:
        answer: What the outside last said, to an attempt or a lookup, in its first hundred characters; of a
            lookup its rule, for its words name the facts of one effect. Empty if it never said anything.
        oldest_since: Since when the first of them waits, and ``age`` for how long.
        examples: Some of their tasks, the longest waiting first.
    """

    kind: str
    partition: str
    error_class: str
    answer: str
    count: int
    oldest_since: datetime
    age: timedelta
    examples: tuple[str, ...]


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

    async def origin(self) -> str:
        """What this ledger alone says, by whatever address and account it is asked.

        A copy that was restored as the very same database, on a server of its own, says the same.
        """
        ...

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

    async def quarantined(
        self, partition: str | None = None, task_ids: Collection[str] | None = None
    ) -> Sequence[Waiting]:
        """What is QUARANTINED by its cause, the most first; None does not restrict."""
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
