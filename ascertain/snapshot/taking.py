"""Take a snapshot: the ledger's rows with their trails, the gates, the tasks and their histories."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from temporalio.common import SearchAttributeKey

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.effect import TERMINAL, State
from ascertain.contracts.snapshot import Manifest, SnapshotTask
from ascertain.errors import InvalidSettings, NotFound
from ascertain.ports import EffectFilter
from ascertain.snapshot import archive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from temporalio.client import WorkflowExecution

    from ascertain.client import Client
    from ascertain.contracts.snapshot import Scope
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Ledger, Trail

_PAGE: Final = 200
_AT_ONCE: Final = 16
_MOST_TASKS: Final = 10_000_000
_OPEN: Final = frozenset(State) - TERMINAL


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished archive.

    Attributes:
        sha256: Of the archive's bytes, hexadecimal.
    """

    path: Path
    sha256: str
    manifest: Manifest


async def take(
    ledger: Ledger,
    client: Client,
    scope: Scope,
    target: Path,
    *,
    taken_at: datetime,
    on_progress: Callable[[str], None],
) -> Snapshot:
    """Write one archive of all that the scope names. Changes nothing but the target.

    Args:
        ledger: Rows and trails are read page by page, each page as of one moment.
        client: Where the tasks' workflows are.
        scope: Which tasks.
        target: The archive's file; one that is there is replaced once the new one is whole.
        taken_at: Written into the manifest.
        on_progress: Told how far it is, in words for people.

    Raises:
        LedgerDown: The ledger did not answer; there is no archive.
        TemporalDown: Temporal did not answer; there is no archive.
        InvalidSettings: The target's directory is missing or may not be written to.
    """
    taking = _Taking(ledger, client, scope, on_progress)
    try:
        with archive.writing(target) as writer:
            counts = await taking.write(writer)
            manifest = Manifest(
                taken_at=taken_at,
                namespace=client.temporal.namespace,
                scope=scope,
                counts=counts,
                files=dict(writer.files),
                content=archive.content_digest(writer.files),
            )
            writer.close(manifest)
    except OSError as error:
        raise InvalidSettings(
            f"the snapshot cannot be written to {target}: {error.strerror}"
        ) from error
    with target.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return Snapshot(target, digest, manifest)


class _Taking:
    def __init__(
        self, ledger: Ledger, client: Client, scope: Scope, on_progress: Callable[[str], None]
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._scope = scope
        self._say = on_progress
        self._open_tasks: set[str] = set()

    async def write(self, writer: archive.Writer) -> dict[str, int]:
        """Fill the archive and count what is in it."""
        effects, events = await self._effects(writer)
        gates = await self._gates(writer)
        tasks = await self._tasks()
        writer.add(archive.TASKS, _lines(task.model_dump(mode="json") for task in tasks))
        histories = await self._histories(writer, tasks)
        return {
            "tasks": len({task.task_id for task in tasks}),
            "effects": effects,
            "audit_events": events,
            "gates": gates,
            "runs": len(tasks),
            "histories": histories,
        }

    async def _effects(self, writer: archive.Writer) -> tuple[int, int]:
        effects = events = 0
        with writer.file(archive.EFFECTS) as file:
            async for trail in self._trails():
                file.write(_line(trail_document(trail)))
                effects += 1
                events += len(trail.events)
                if trail.row.state not in TERMINAL:
                    self._open_tasks.add(trail.row.task_id)
                self._say(f"{effects} effects")
        return effects, events

    async def _trails(self) -> AsyncIterator[Trail]:
        states = _OPEN if self._scope.unresolved else None
        which = EffectFilter(states=states, partition=self._scope.partition, limit=_PAGE)
        after = ""
        while page := await self._ledger.trails(which, after=after):
            for trail in page:
                yield trail
            after = page[-1].row.effect_id

    async def _gates(self, writer: archive.Writer) -> int:
        wanted = {"*", self._scope.partition}
        gates = [
            gate.model_dump(mode="json", exclude={"already_applied"})
            for gate in await self._ledger.gates()
            if self._scope.partition is None or gate.partition in wanted
        ]
        writer.add(archive.GATES, _lines(gates))
        return len(gates)

    async def _tasks(self) -> list[SnapshotTask]:
        """Every run that Temporal lists, and those that it does not list yet but the ledger knows."""
        conditions: list[str] = []
        if self._scope.partition is not None:
            conditions.append(f"{names.TASK_PARTITION} = '{self._scope.partition}'")
        if self._scope.unresolved:
            conditions.append("ExecutionStatus = 'Running'")
        found: dict[tuple[str, str], SnapshotTask] = {}
        async for listed in self._client.tasks(" AND ".join(conditions), limit=_MOST_TASKS):
            found[listed.id, listed.run_id] = await _task(listed)
            self._say(f"{len(found)} tasks")
        for task_id in self._open_tasks - {task_id for task_id, _ in found}:
            latest = await self._latest(task_id)
            if latest is not None:
                found[task_id, latest.run_id] = await _task(latest)
        return [found[key] for key in sorted(found)]

    async def _latest(self, task_id: str) -> WorkflowExecution | None:
        handle = self._client.temporal.get_workflow_handle(task_id)
        try:
            with answered(f"look at task {task_id}"):
                return await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return None

    async def _histories(self, writer: archive.Writer, tasks: list[SnapshotTask]) -> int:
        """Fetched a few at a time, written in the tasks' order."""
        coming: deque[tuple[SnapshotTask, asyncio.Task[str | None]]] = deque()
        todo = iter(tasks)
        written = 0
        try:
            while True:
                while len(coming) < _AT_ONCE and (task := next(todo, None)) is not None:
                    coming.append((task, asyncio.create_task(self._history(task))))
                if not coming:
                    return written
                task, fetching = coming.popleft()
                history = await fetching
                if history is not None:
                    name = archive.history_name(task.task_id, task.run_id)
                    writer.add(name, history.encode())
                    written += 1
                self._say(f"{written} of {len(tasks)} histories")
        finally:
            for _, fetching in coming:
                fetching.cancel()

    async def _history(self, task: SnapshotTask) -> str | None:
        """Temporal's JSON, in one order of keys; None if the run was forgotten since it was listed."""
        handle = self._client.temporal.get_workflow_handle(task.task_id, run_id=task.run_id)
        try:
            with answered(f"read the history of task {task.task_id}"):
                history = await handle.fetch_history(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return None
        return json.dumps(history.to_json_dict(), sort_keys=True)


def trail_document(trail: Trail) -> JsonObject:
    """One effect as a line of the archive; the bytes to send are in base64."""
    row: JsonObject = trail.row.model_dump(mode="json", exclude={"now", "frozen"})
    row["frozen"] = base64.b64encode(trail.row.frozen).decode()
    return {"effect": row, "audit": [event.model_dump(mode="json") for event in trail.events]}


async def _task(listed: WorkflowExecution) -> SnapshotTask:
    labels: JsonObject = {}
    for name in names.KEYWORD_ATTRIBUTES:
        labels[name] = listed.typed_search_attributes.get(SearchAttributeKey.for_keyword(name))
    for name in names.DATETIME_ATTRIBUTES:
        at = listed.typed_search_attributes.get(SearchAttributeKey.for_datetime(name))
        labels[name] = at.isoformat() if at is not None else None
    return SnapshotTask(
        task_id=listed.id,
        run_id=listed.run_id,
        workflow=listed.status.name if listed.status is not None else "",
        started_at=listed.start_time,
        closed_at=listed.close_time,
        labels={name: label for name, label in labels.items() if label is not None},
        memo=dict(await listed.memo()),
    )


def _line(value: JsonObject) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _lines(values: Iterable[JsonObject]) -> bytes:
    return b"".join(_line(value) for value in values)
