"""The relay's side of an outbox: entries taken for a time, started, set aside or given back."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

import asyncpg

from ascertain.errors import OutboxDown, WrongSchema
from ascertain.ledger.migration import check_role
from ascertain.ledger.session import FAULTS, Session, connect, no_answer, place
from ascertain.ledger.statement import SERVICE, statement

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

CHANNEL: Final = "ascertain_outbox"
# An entry whose relays ended so often with it in hand is taken alone from then on, so that only its own
# relay ends; and after so many more it is set aside: it ends every relay that touches it.
SUSPECT: Final = 3
POISON: Final = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One task that a commit asks for.

    Attributes:
        content: The task's public JSON, as text.
        takes: How often a relay took it, this time counted.
    """

    entry_id: int
    task_id: str
    content: str
    traceparent: str | None
    takes: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """An entry that cannot be started as it is, and why."""

    entry_id: int
    task_id: str
    put_at: datetime
    set_aside_at: datetime
    takes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the relays are behind.

    Attributes:
        in_hand: Of those that wait, how many a relay holds now.
        lag: How long the oldest has waited.
    """

    waiting: int
    in_hand: int
    lag: timedelta
    set_aside: int


class Queue:
    """The outbox in one service's database. Every method raises ``OutboxDown`` when no answer came."""

    def __init__(self, session: Session, url: str) -> None:
        self._session = session
        self._url = url

    @classmethod
    async def open(cls, url: str, *, connections: int = 2, role: str | None = None) -> Self:
        """Connect.

        Args:
            url: ``postgresql://...``.
            connections: Most connections of this process.
            role: Whose work is to be done; None: whatever the account may do.

        Raises:
            OutboxDown: Nobody answers there.
            WrongSchema: It has no outbox yet; the message says how to make it.
            InvalidSettings: The address, the account or the database's name is wrong, or the account lacks
                the role.
        """
        session = await Session.open(
            url, connections=connections, timeout_s=5, command_timeout_s=10, down=OutboxDown
        )
        queue = cls(session, url)
        try:
            await queue.lag()
            if role is not None:
                await check_role(session, url, role)
        except BaseException as error:
            await session.aclose()
            if isinstance(error, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
                raise WrongSchema(
                    f"the database at {place(url)} has no outbox yet: run `ascertain migrate --outbox URL`"
                ) from error
            raise
        return queue

    async def take(self, limit: int, lease: timedelta) -> Sequence[Entry]:
        """Take entries that nobody has in hand; after ``lease`` others may take them too.

        Starting a task twice is starting it once, so a lease that runs out too early only costs work.
        """
        taken = await self._fetch("take_entries", limit, lease, 0, SUSPECT)
        if not taken:
            taken = await self._fetch("take_entries", 1, lease, SUSPECT, 2**31 - 1)
        return [Entry(**record) for record in taken]

    async def started(self, run_ids: Mapping[int, str]) -> None:
        """Their tasks are durably started: entry to run."""
        await self._fetch("started_entries", list(run_ids), list(run_ids.values()))

    async def give_back(self, entries: Collection[int]) -> None:
        """They were taken, and nothing was wrong with them."""
        await self._fetch("return_entries", list(entries))

    async def set_aside(self, entry_id: int, reason: str) -> None:
        """It cannot be started as it is; it waits for a person."""
        await self._fetch("set_entry_aside", entry_id, reason.replace("\0", "\ufffd"))

    async def aside(self, limit: int) -> Sequence[SetAside]:
        """What waits for a person, oldest first."""
        found = await self._fetch("entries_set_aside", limit)
        return [SetAside(**record) for record in found]

    async def try_again(self, entries: Collection[int] | None) -> Sequence[int]:
        """Put back what was set aside: these, or all. Gives those that were."""
        chosen = None if entries is None else list(entries)
        found = await self._fetch("try_entries_again", chosen)
        return [int(record["entry_id"]) for record in found]

    async def prune(self, kept: timedelta) -> int:
        """Let go of some entries that were started longer ago than this; gives how many."""
        return len(await self._fetch("prune_entries", kept))

    async def lag(self) -> Lag:
        """How far the relays are behind; costs what waits."""
        ((waiting, in_hand, lag, aside),) = await self._fetch("outbox_lag")
        return Lag(waiting, in_hand, lag, aside)

    async def count_started(self) -> int:
        """How many of the kept entries were started; costs what is kept."""
        ((started,),) = await self._fetch("outbox_started")
        return int(started)

    @asynccontextmanager
    async def told(self, something: Callable[[], None]) -> AsyncGenerator[None]:
        """Be told of every commit that puts an entry, and of the end of the connection that tells it."""
        connection = await connect(self._url, down=OutboxDown)
        connection.add_termination_listener(lambda _: something())
        try:
            await connection.add_listener(CHANNEL, lambda *_: something())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # what came is never looked at
            yield
        except FAULTS as error:
            raise no_answer(self._url, error, OutboxDown) from error
        finally:
            with suppress(*FAULTS):
                connection.terminate()

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._session.aclose()

    async def _fetch(self, name: str, *values: object) -> Sequence[asyncpg.Record]:
        return await self._session.fetch(statement(name, SERVICE), *values)
