"""``ascertain top``: what every partition is at, again and again."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ascertain.cli import acquaintance, listing, output, place, wording
from ascertain.cli.gate_command import EVERY
from ascertain.cli.text import counted
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.effect import UNRESOLVED, State
from ascertain.contracts.gate import Position
from ascertain.errors import AscertainError
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from ascertain.cli.place import Place
    from ascertain.client import Client
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.gate import Gate
    from ascertain.ports import Ledger

_MOST_ROWS: Final = 5000
_STATES: Final = tuple(state for state in State if state in UNRESOLVED)


@dataclass(frozen=True, slots=True)
class Line:
    """One partition.

    Attributes:
        position: How its own gate stands.
        counts: Unresolved effects by state.
        oldest: How long the one that has been longest in its state has been so.
        held: Tasks that wait for a gate; None: nobody could be asked.
    """

    partition: str
    position: Position
    counts: Counter[State]
    oldest: timedelta | None
    held: int | None

    @property
    def paused(self) -> bool:
        """Whether its own gate is closed, but for those that probe."""
        return self.position in {Position.PAUSED, Position.HALF_OPEN}

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        unresolved: dict[str, object] = {state.value: self.counts[state] for state in _STATES}
        return {
            "partition": self.partition,
            "position": self.position.value,
            "paused": self.paused,
            "held": self.held,
            "unresolved": unresolved,
            "oldest_seconds": self.oldest.total_seconds() if self.oldest is not None else None,
        }


@dataclass(frozen=True, slots=True)
class Tasks:
    """What the Temporal server counts; it lags by about a second."""

    running: int
    started_per_minute: int
    ended_per_minute: int


@dataclass(frozen=True, slots=True)
class Board:
    """Everything at one moment.

    Attributes:
        tasks: None: the server could not be asked, and ``gap`` says why.
        effects: The unresolved ones, longest in their state first.
        complete: Whether all unresolved effects were counted, or only the newest.
    """

    at: datetime
    lines: tuple[Line, ...]
    effects: tuple[EffectRow, ...]
    tasks: Tasks | None
    gap: str
    complete: bool

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        counted = self.tasks
        tasks: dict[str, object] | None = None
        if counted is not None:
            tasks = {
                "running": counted.running,
                "started_per_minute": counted.started_per_minute,
                "ended_per_minute": counted.ended_per_minute,
            }
        partitions: list[object] = [line.document() for line in self.lines]
        return {
            "at": self.at.isoformat(),
            "tasks": tasks,
            "partitions": partitions,
            "complete": self.complete,
            "not_asked": [self.gap] if self.gap else [],
        }

    @property
    def summary(self) -> str:
        """The whole in one line."""
        total = sum((line.counts for line in self.lines), Counter[State]())
        persons = total[State.QUARANTINED] + total[State.TAKEN_OVER]
        parts = [f"{self.at:%H:%M:%S} UTC"]
        if self.tasks is not None:
            parts += [
                f"{counted(self.tasks.running, 'task', 'tasks')} running",
                f"{self.tasks.started_per_minute} started and {self.tasks.ended_per_minute} ended a minute",
            ]
        parts += [
            f"{counted(persons, 'effect', 'effects')} with a person",
            f"{counted(sum(line.paused for line in self.lines), 'gate', 'gates')} closed",
        ]
        return ", ".join(parts)


async def top(
    config: Path | None, *, partition: str | None, every: float, once: bool, as_json: bool
) -> None:
    """Show the board until Ctrl-C, or once.

    Raises:
        LedgerDown: It cannot be asked.
        InvalidSettings: No ledger is named.
    """
    where = place.find(config)
    async with where.ledger() as ledger:
        client = await _client(where)
        await acquaintance.note_if_unknown(ledger, where, partition)
        if once or as_json or not sys.stdout.isatty():
            while True:
                board = await look(ledger, client, partition)
                _print(board, detailed=partition is not None, as_json=as_json, once=once)
                if once:
                    return
                await asyncio.sleep(every)
        await _live(ledger, client, partition, every)


async def look(ledger: Ledger, client: Client | str, partition: str | None) -> Board:
    """Ask the ledger and the server.

    Args:
        ledger: Has gates and unresolved effects.
        client: Counts tasks; or why there is none.
        partition: Only this one; None: all.
    """
    which = EffectFilter(states=UNRESOLVED, partition=partition, limit=_MOST_ROWS)
    rows = await ledger.effects(which)
    gates = {gate.partition: gate for gate in await ledger.gates()}
    wanted = {*gates, *(row.partition for row in rows)}
    if partition is not None:
        wanted &= {partition, EVERY}
    held, tasks, gap = await _count(client, partition, wanted)
    now = datetime.now(UTC)
    lines = [_line(name, gates.get(name), rows, held.get(name), now) for name in sorted(wanted)]
    return Board(
        at=now,
        lines=tuple(lines),
        effects=tuple(sorted(rows, key=lambda row: row.state_since)),
        tasks=tasks,
        gap=gap,
        complete=len(rows) < _MOST_ROWS,
    )


def _line(
    name: str, gate: Gate | None, rows: Sequence[EffectRow], held: int | None, now: datetime
) -> Line:
    position = Position.OPEN if gate is None else gate.position(now)
    own = [row for row in rows if row.partition == name]
    oldest = max((row.now - row.state_since for row in own), default=None)
    return Line(name, position, Counter(row.state for row in own), oldest, held)


async def _client(where: Place) -> Client | str:
    try:
        return await where.client()
    except AscertainError as error:
        return f"Temporal: {error}"


async def _count(
    client: Client | str, partition: str | None, shown: Collection[str]
) -> tuple[Mapping[str, int], Tasks | None, str]:
    """How many tasks each partition holds, how they come and go, and why that is not known."""
    if isinstance(client, str):
        return {}, None, client
    only = f" AND {names.TASK_PARTITION} = '{partition}'" if partition is not None else ""
    since = f"{datetime.now(UTC) - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    asked = ("ExecutionStatus = 'Running'", f"StartTime > '{since}'", f"CloseTime > '{since}'")
    try:
        with answered("count tasks"):
            running, started, ended = [
                await client.temporal.count_workflows(
                    f"WorkflowType = '{names.TASK_WORKFLOW}' AND {query}{only}",
                    rpc_timeout=RPC_TIMEOUT,
                )
                for query in asked
            ]
        held = await listing.held(client, shown)
    except AscertainError as error:
        return {}, None, f"Temporal: {error}"
    return held, Tasks(running.count, started.count, ended.count), ""


def _print(board: Board, *, detailed: bool, as_json: bool, once: bool) -> None:
    if as_json:
        (output.document if once else output.json_line)(board.document())
        return
    output.line(board.summary)
    if board.gap:
        output.line(board.gap)
    output.table(_headings(), _rows(board))
    if detailed:
        output.line()
        output.table(("task", "step", "state", "for", "why"), _detail(board))
    output.line()
    output.flush()


async def _live(ledger: Ledger, client: Client | str, partition: str | None, every: float) -> None:
    from rich.console import Group  # noqa: PLC0415 - not loaded for plain output
    from rich.live import Live  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def shown(board: Board) -> Group:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in _headings():
            table.add_column(heading)
        for line, row in zip(board.lines, _rows(board), strict=True):
            stuck = line.paused or line.counts[State.QUARANTINED] > 0
            table.add_row(*(Text(cell) for cell in row), style="yellow" if stuck else "")
        detail = Table("task", "step", "state", "for", "why", box=None, pad_edge=False)
        for row in _detail(board):
            detail.add_row(*(Text(cell) for cell in row))
        gap = Text(board.gap, style="red")
        return Group(Text(board.summary, style="bold"), gap, table, Text(), detail)

    board = await look(ledger, client, partition)
    with Live(shown(board), screen=True, auto_refresh=False) as screen:
        while True:
            await asyncio.sleep(every)
            board = await look(ledger, client, partition)
            screen.update(shown(board), refresh=True)


def _headings() -> tuple[str, ...]:
    return ("partition", "gate", "held", "oldest", *(state.value for state in _STATES))


def _rows(board: Board) -> list[tuple[str, ...]]:
    return [
        (
            "(every)" if line.partition == EVERY else line.partition,
            line.position,
            "?" if line.held is None else str(line.held),
            wording.age(line.oldest) if line.oldest is not None else "",
            *(str(line.counts[state]) for state in _STATES),
        )
        for line in board.lines
    ]


def _detail(board: Board, most: int = 20) -> list[tuple[str, ...]]:
    """The effects that have been longest as they are."""
    return [
        (
            row.task_id,
            row.step,
            row.state.value,
            wording.age(row.now - row.state_since),
            row.evidence.detail or row.evidence.rule,
        )
        for row in board.effects[:most]
    ]
