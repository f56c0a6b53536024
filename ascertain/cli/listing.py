"""``ascertain list``: tasks by what the server can search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer
from pydantic import TypeAdapter, ValidationError
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from ascertain.cli import acquaintance, output, place, shape, visibility, wording
from ascertain.cli.acquaintance import KIND, PARTITION
from ascertain.cli.gate_command import EVERY
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.gate import Position
from ascertain.contracts.task import TaskOutcome
from ascertain.contracts.value import KindName, Partition, TaskId
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from temporalio.client import WorkflowExecution

    from ascertain.client import Client
    from ascertain.contracts.gate import Gate
    from ascertain.contracts.outage import Outage

STATE: Final = SearchAttributeKey.for_keyword(names.TASK_STATE)
SINCE: Final = SearchAttributeKey.for_datetime(names.TASK_STATE_SINCE)
ERROR_CLASS: Final = SearchAttributeKey.for_keyword(names.TASK_ERROR_CLASS)

_NAME: Final = "a letter or digit, then at most 127 more or . _ : @ / -, can be"

RUNNING: Final = "RUNNING"
HELD: Final = "HELD"
# What a run was labelled with that was ended from outside is no state of anything any more.
_SPEAK: Final = {
    WorkflowExecutionStatus.RUNNING: "Running",
    WorkflowExecutionStatus.COMPLETED: "Completed",
    WorkflowExecutionStatus.CANCELED: "Canceled",
}
# A smooth task carries no state of its own: the server's has to say it.
_UNLABELLED: Final = {RUNNING: "Running", TaskOutcome.DONE.value: "Completed"}
_ENDS: Final = {
    "CANCELLED": "Canceled",
    "FAILED": "Failed",
    "TERMINATED": "Terminated",
    "TIMED_OUT": "TimedOut",
}
_LABELS: Final = (
    *(state.value for state in State),
    *(outcome.value for outcome in TaskOutcome),
    HELD,
    "WAITING",
    RUNNING,
)
STATES: Final = tuple(sorted({*_LABELS, *_ENDS}))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks to list; None does not restrict."""

    state: str | None = None
    partition: str | None = None
    kind: str | None = None
    limit: int = 100

    def query(self) -> str:
        """The visibility query. Only values of a known form get into it.

        Raises:
            BadParameter: A value has none.
        """
        parts: list[str] = []
        if self.state is not None:
            parts.append(_state_query(self.state))
        if self.partition is not None:
            value = checked_partition(self.partition)
            parts.append(f"{names.TASK_PARTITION} = '{value}'")
        if self.kind is not None:
            parts.append(
                f"{names.TASK_KIND} = '{checked(TypeAdapter(KindName), self.kind, 'kind')}'"
            )
        return " AND ".join(parts)


@dataclass(frozen=True, slots=True)
class Listed:
    """A task as a list shows it.

    Attributes:
        state: What the task itself says; what the server says of a smooth one, and of one that was ended from
            outside, for it waits for nothing any more.
        workflow: What the server says.
    """

    task_id: str
    kind: str
    partition: str
    state: str
    since: datetime
    error_class: str
    workflow: str

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "task_id": self.task_id,
            "kind": self.kind,
            "partition": self.partition,
            "state": self.state,
            "since": self.since.isoformat(),
            "error_class": self.error_class or None,
            "workflow": self.workflow,
        }


async def search(asked: Filter, config: Path | None) -> list[Listed]:
    """The tasks that fit.

    Raises:
        TemporalDown: The server cannot be asked.
    """
    query = asked.query()
    client = await place.find(config).client()
    return [
        _listed(run)
        async for run in visibility.tasks(
            client, query, asked.limit, by_state=asked.state is not None
        )
    ]


async def newest(client: Client, task_id: str) -> Listed | None:
    """The newest run of a task that a search finds; None: a search does not find it (yet).

    Raises:
        TemporalDown: The server cannot be asked.
    """
    query = f"WorkflowId = '{checked(TypeAdapter(TaskId), task_id, 'task')}'"
    return next(iter([_listed(item) async for item in client.tasks(query, limit=1)]), None)


async def held(client: Client, partitions: Iterable[str]) -> dict[str, int]:
    """How many tasks wait for a gate, by partition; of every partition together under ``*``.

    Raises:
        TemporalDown: The server cannot be asked.
    """
    return {
        name: await client.count(Filter(HELD, None if name == EVERY else name).query())
        for name in partitions
    }


async def list_tasks(asked: Filter, config: Path | None, *, as_json: bool) -> None:
    """Print the tasks that fit.

    Raises:
        TemporalDown: The server cannot be asked.
    """
    found = await search(asked, config)
    if not found:
        where = place.find(config)
        await acquaintance.note_if_unheard_of(where, partition=asked.partition)
        await acquaintance.note_if_no_kind(where, asked.kind)
    now = datetime.now(UTC)
    outages, opening = await _notices(asked.partition, config, now)
    if as_json:
        notices = {
            "outages": shape.outage_documents(outages),
            "opening": [shape.gate_document(gate, now) for gate in opening],
        }
        output.document({"tasks": [item.document() for item in found], **notices})
        return
    output.lines(map(shape.outage_words, outages))
    output.lines(shape.gate_words(gate, now) for gate in opening)
    if not found:
        output.line("No task fits.")
        return
    output.table(
        ("task", "kind", "partition", "state", "for", "error class", "workflow"),
        [
            (
                item.task_id,
                item.kind,
                item.partition,
                item.state,
                wording.age(now - item.since),
                item.error_class,
                item.workflow,
            )
            for item in found
        ],
    )
    if len(found) == asked.limit:
        output.note(f"There may be more than these {asked.limit}: raise --limit.")


async def _notices(
    partition: str | None, config: Path | None, now: datetime
) -> tuple[Sequence[Outage], Sequence[Gate]]:
    """The outsides that cannot be asked, and the gates that open little by little.

    None where no ledger can tell: the list is the server's.
    """
    where = place.find(config)
    if not where.has_ledger:
        return (), ()
    try:
        async with where.ledger() as ledger:
            outages, gates = await ledger.outages(), await ledger.gates()
    except AscertainError:
        return (), ()
    opening = [gate for gate in gates if gate.position(now) is Position.OPENING]
    return (
        [each for each in outages if partition in {None, each.partition}],
        [gate for gate in opening if partition is None or gate.partition in {partition, "*"}],
    )


def checked(form: TypeAdapter[str], value: str, name: str) -> str:
    """A value that has the form that the contract gives it.

    Raises:
        BadParameter: It has not.
    """
    try:
        form.validate_python(value)
    except ValidationError:
        raise typer.BadParameter(f"{value!r} cannot be the name of a {name}") from None
    return value


def checked_partition(name: str) -> str:
    """A name that a partition can have, which may stand in a query.

    Raises:
        BadParameter: It is none.
    """
    return checked(TypeAdapter(Partition), name, "partition")


def checked_name(name: str, what: str) -> str:
    """A name for something new, which stands in the commands that are printed for it as it is.

    Raises:
        BadParameter: A shell would read it as something else, or it is too long.
    """
    try:
        return checked(TypeAdapter(TaskId), name, what)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message}: {_NAME}") from None


def checked_state(state: str) -> str:
    """A state that a task can be in.

    Raises:
        BadParameter: It is none.
    """
    if state.upper() not in STATES:
        raise typer.BadParameter(f"no task is ever {state!r}; states are {', '.join(STATES)}")
    return state.upper()


def _state_query(name: str) -> str:
    state = checked_state(name)
    options: list[str] = []
    if state in _LABELS:
        speak = ", ".join(f"'{status}'" for status in _SPEAK.values())
        options.append(f"({names.TASK_STATE} = '{state}' AND ExecutionStatus IN ({speak}))")
    if state in _UNLABELLED:
        status = _UNLABELLED[state]
        options.append(f"({names.TASK_STATE} IS NULL AND ExecutionStatus = '{status}')")
    if state in _ENDS:
        options.append(f"ExecutionStatus = '{_ENDS[state]}'")
    return f"({' OR '.join(options)})"


def _listed(item: WorkflowExecution) -> Listed:
    labels = item.typed_search_attributes
    status = item.status.name if item.status is not None else ""
    state = labels.get(STATE) if item.status in _SPEAK else None
    since = labels.get(SINCE) if state is not None else None
    return Listed(
        task_id=item.id,
        kind=labels.get(KIND, ""),
        partition=labels.get(PARTITION, ""),
        state=state or _unlabelled(item.status),
        since=since or item.close_time or item.start_time,
        error_class=labels.get(ERROR_CLASS, ""),
        workflow=status,
    )


def _unlabelled(status: WorkflowExecutionStatus | None) -> str:
    if status is WorkflowExecutionStatus.COMPLETED:
        return TaskOutcome.DONE.value
    if status is WorkflowExecutionStatus.CANCELED:
        return TaskOutcome.CANCELLED.value
    return status.name if status is not None else ""
