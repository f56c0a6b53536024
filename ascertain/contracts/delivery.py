"""A delivery: a request for a task that was there already."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from ascertain.contracts.value import MessageId, TaskId, Value


class Fate(StrEnum):
    """What became of it. The values are those of the ledger's CHECK constraint."""

    DUPLICATE = "duplicate"
    RESTARTED = "restarted"
    CONFLICT = "conflict"


class Delivery(Value):
    """One more request under the id of a task that was started before.

    Attributes:
        fingerprint: Of what was asked for; of another one than the task's, it is a conflict.
    """

    task_id: TaskId
    message_id: MessageId | None = None
    fate: Fate
    fingerprint: str


class Counted(Value):
    """How often the same delivery came, after the request that started the task."""

    task_id: str
    message_id: str | None
    fate: Fate
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
