"""Start a task with a database commit: put it into the service's own transaction.

If the transaction commits, a relay (``ascertain relay``) starts the task; if it rolls back, the task never
was. The tables are made by ``ascertain migrate --outbox URL``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate

from ascertain.door import admit, in_time
from ascertain.service import transaction

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import JsonValue

    from ascertain.contracts.task import Task
    from ascertain.service.transaction import Transaction

PUT: Final = "put_entry"
TRACE: Final = "traceparent"


async def put(
    connection: Transaction,
    task: Task | Mapping[str, JsonValue],
    *,
    message_id: str | None = None,
    kinds: Collection[str] | None = None,
) -> Task:
    """Have a task started if, and only if, the transaction of this connection commits.

    The same task put again is one task: the relay finds it started. One statement, and no network but it.

    Args:
        connection: In a transaction, which stays the caller's to commit.
        task: The task, or its JSON.
        message_id: Replaces the task's own; the message that asked for it.
        kinds: The kinds of effect that the deployment serves; None leaves that to the relay.

    Returns:
        The task as it will be started.

    Raises:
        InvalidTask: A rule of the door is broken; nothing was put.
        UnknownKind: A step's kind is not served.
        SetupError: There is no transaction, so nothing would tie the task to the service's own writes.
    """
    admitted = _admitted(task, message_id, kinds)
    await transaction.run(connection, PUT, *_values(admitted))
    return admitted


def insert(
    task: Task | Mapping[str, JsonValue],
    *,
    message_id: str | None = None,
    kinds: Collection[str] | None = None,
) -> tuple[str, dict[str, str | None]]:
    """The statement that ``put`` runs, with ``:p1`` parameters, and their values: for any other driver.

    In a blocking SQLAlchemy session: ``sql, values = insert(task); session.execute(text(sql), values)``.

    Raises:
        InvalidTask: A rule of the door is broken.
        UnknownKind: A step's kind is not served.
    """
    admitted = _admitted(task, message_id, kinds)
    return transaction.named(PUT), transaction.parameters(_values(admitted))


def _admitted(
    task: Task | Mapping[str, JsonValue], message_id: str | None, kinds: Collection[str] | None
) -> Task:
    admitted = in_time(admit(task, kinds), datetime.now(UTC))
    if message_id is None:
        return admitted
    return admit({**admitted.model_dump(mode="json"), "message_id": message_id}, kinds)


def _values(task: Task) -> tuple[str, str, str | None]:
    """The task's id, its public JSON, and the trace that it belongs to."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    content = json.dumps(task.model_dump(mode="json", exclude_defaults=True))
    return task.task_id, content, carrier.get(TRACE)
