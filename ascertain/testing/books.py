"""The books of the toy outside world: what it received, what exists, what it was asked.

Kept in memory with indexes by key, reference and amount, and optionally in a file of JSON lines, which
is flushed at every line and read again at the start: the books outlive a kill of the process.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Literal, assert_never

from ascertain.testing.entry import (
    ENTRY,
    ChangeEntry,
    Copy,
    Draft,
    Entry,
    Fact,
    LookupEntry,
    PendingEntry,
    SubmitEntry,
)
from ascertain.testing.shelf import Shelf, no_positions

ShelfName = Literal["submit", "fact", "lookup"]


def now() -> datetime:
    """The outside's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Query:
    """What a listing is asked for; None does not restrict. ``cursor`` comes from the page before."""

    key: str | None = None
    reference: str | None = None
    amount: str | None = None
    cursor: str | None = None
    size: int = 100
    lag: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; ``cursor`` continues it and is None at the end."""

    facts: list[Fact]
    cursor: str | None


@dataclass(slots=True, eq=False)
class _Waiter:
    shelf: ShelfName
    count: int
    key: str | None
    reference: str | None
    met: asyncio.Future[None]


class Books:
    """Everything that happened, oldest first. Only the outside itself writes here."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._waiters: set[_Waiter] = set()
        self._out: IO[bytes] | None = None
        self._empty()
        if file is not None:
            self._read(file)
            self._out = file.open("ab")

    def _empty(self) -> None:
        self._submits: Shelf[SubmitEntry] = Shelf()
        self._facts: Shelf[Fact] = Shelf()
        self._lookups: Shelf[LookupEntry] = Shelf()
        self._by_amount: defaultdict[str, list[int]] = no_positions()
        self._position: dict[str, int] = {}
        self._pending: dict[str, PendingEntry] = {}
        self._fulfilled: dict[str, str] = {}
        self._job_status: dict[str, str] = {}

    @property
    def submits(self) -> Sequence[SubmitEntry]:
        """Every submit received."""
        return self._submits.entries

    @property
    def facts(self) -> Sequence[Fact]:
        """Every fact that ever came to exist."""
        return self._facts.entries

    @property
    def lookups(self) -> Sequence[LookupEntry]:
        """Every question received."""
        return self._lookups.entries

    def facts_of(self, reference: str) -> list[Fact]:
        """Every fact of this reference, also those removed later."""
        return self._facts.find(None, reference)

    def facts_with_key(self, key: str) -> list[Fact]:
        """Every fact of this key, also those removed later."""
        return self._facts.find(key, None)

    def submits_of(self, key: str) -> list[SubmitEntry]:
        """Every submit of this key."""
        return self._submits.find(key, None)

    def fact(self, fact_id: str) -> Fact | None:
        """The fact of this id."""
        position = self._position.get(fact_id)
        return None if position is None else self._facts.entries[position]

    def pending(self, pending_id: str) -> PendingEntry | None:
        """The work of this id that was taken on, done or not."""
        return self._pending.get(pending_id)

    def unfulfilled(self) -> list[PendingEntry]:
        """The work that has led to no fact yet."""
        return [work for work in self._pending.values() if work.id not in self._fulfilled]

    def fulfilled_by(self, pending_id: str) -> Fact | None:
        """The fact that came of this work."""
        fact_id = self._fulfilled.get(pending_id)
        return None if fact_id is None else self.fact(fact_id)

    def job_status(self, pending_id: str) -> str | None:
        """The status that somebody set by hand."""
        return self._job_status.get(pending_id)

    def new_pending_id(self) -> str:
        """The next id of work that is taken on."""
        return f"job-{len(self._pending) + 1:06}"

    def count(self, shelf: ShelfName, key: str | None = None, reference: str | None = None) -> int:
        """How many entries of a key, of a reference, or in all."""
        match shelf:
            case "submit":
                return len(self._submits.positions(key, reference))
            case "fact":
                return len(self._facts.positions(key, reference))
            case "lookup":
                return len(self._lookups.positions(key, reference))
            case _:
                assert_never(shelf)

    def page(self, query: Query) -> Page:
        """The visible facts that fit, oldest first, from the cursor on.

        Raises:
            ValueError: The cursor is not one of ours.
        """
        if query.key is None and query.reference is None and query.amount is not None:
            positions: Sequence[int] = self._by_amount.get(query.amount, ())
        else:
            positions = self._facts.positions(query.key, query.reference)
        visible_until = now() - query.lag
        shown: list[Fact] = []
        start = 0 if query.cursor is None else bisect_right(positions, int(query.cursor))
        for index in range(start, len(positions)):
            fact = self._facts.entries[positions[index]]
            if fact.removed or fact.committed_at > visible_until:
                continue
            if query.amount is not None and str(fact.amount) != query.amount:
                continue
            if len(shown) == query.size:
                return Page(shown, str(self._position[shown[-1].id]))
            shown.append(fact)
        return Page(shown, None)

    def commit(self, draft: Draft) -> Fact:
        """Let a fact come to exist now."""
        number = len(self._facts.entries) + 1
        made = {"id": f"fact-{number:06}", "committed_at": now()}
        fact = Fact.model_validate(dict(draft) | made)
        self.write(fact)
        return fact

    def write(self, entry: Entry) -> None:
        """Add one line, to the file first, and wake those who waited for it."""
        if self._out is not None:
            self._out.write(ENTRY.dump_json(entry) + b"\n")
            self._out.flush()
        self._file_entry(entry)
        for waiter in tuple(self._waiters):
            if self.count(waiter.shelf, waiter.key, waiter.reference) >= waiter.count:
                self._waiters.discard(waiter)
                if not waiter.met.done():
                    waiter.met.set_result(None)

    async def wait_for(
        self,
        shelf: ShelfName,
        count: int = 1,
        *,
        key: str | None = None,
        reference: str | None = None,
        within_s: float = 40,
    ) -> None:
        """Wait until there are ``count`` entries of a key, of a reference, or in all.

        Raises:
            TimeoutError: There were fewer within ``within_s``.
        """
        if self.count(shelf, key, reference) >= count:
            return
        met = asyncio.get_running_loop().create_future()
        waiter = _Waiter(shelf, count, key, reference, met)
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(within_s):
                await met
        except TimeoutError:
            seen = self.count(shelf, key, reference)
            msg = f"{seen} of {count} {shelf} entries within {within_s} s ({key=}, {reference=})"
            raise TimeoutError(msg) from None
        finally:
            self._waiters.discard(waiter)

    def copy(self) -> Copy:
        """The books as they are now."""
        return Copy(
            submits=tuple(self.submits), facts=tuple(self.facts), lookups=tuple(self.lookups)
        )

    def clear(self) -> None:
        """Forget everything, in the file too."""
        self._empty()
        if self._out is not None:
            self._out.truncate(0)

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            self._out.close()

    def _file_entry(self, entry: Entry) -> None:
        match entry:
            case SubmitEntry():
                self._submits.add(entry)
            case LookupEntry():
                self._lookups.add(entry)
            case Fact():
                position = len(self._facts.entries)
                self._position[entry.id] = position
                self._by_amount[str(entry.amount)].append(position)
                self._facts.add(entry)
                if entry.pending_id is not None:
                    self._fulfilled[entry.pending_id] = entry.id
            case PendingEntry():
                self._pending[entry.id] = entry
            case ChangeEntry():
                self._change(entry)
            case _:
                assert_never(entry)

    def _change(self, change: ChangeEntry) -> None:
        position = self._position.get(change.id)
        if position is None:
            if change.status is not None:
                self._job_status[change.id] = change.status
            return
        fact = self._facts.entries[position]
        status = fact.status if change.status is None else change.status
        removed = fact.removed or change.removed
        self._facts.entries[position] = fact.model_copy(
            update={"status": status, "removed": removed}
        )

    def _read(self, file: Path) -> None:
        if not file.exists():
            return
        lines = file.read_bytes().split(b"\n")
        # A kill can leave a last line without its end; that entry was never acknowledged.
        if lines.pop() != b"":
            file.write_bytes(b"".join(line + b"\n" for line in lines))
        for line in lines:
            self._file_entry(ENTRY.validate_json(line))
