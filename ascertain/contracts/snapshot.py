"""What a snapshot holds: which tasks were taken, and the digests of everything in the archive."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from ascertain.contracts.value import JsonObject, Partition, Value


class Scope(Value):
    """Which tasks belong to a snapshot; the default is all of them.

    Attributes:
        partition: Only those of this partition.
        unresolved: Only what can still change: effects that are not closed and tasks that run. What is
            closed never changes, so recovery needs no copy of it.
    """

    partition: Partition | None = None
    unresolved: bool = False


class SnapshotTask(Value):
    """One run of a task as Temporal listed it.

    Attributes:
        workflow: Temporal's word for how the run stands: ``RUNNING``, ``COMPLETED``, ...
        labels: Its search attributes.
        memo: Its memo: the fingerprint and the message that asked for it.
    """

    task_id: str
    run_id: str
    workflow: str
    started_at: datetime | None = None
    closed_at: datetime | None = None
    labels: JsonObject = Field(default_factory=dict)
    memo: JsonObject = Field(default_factory=dict)


class FileDigest(Value):
    """One file of the archive: its length and SHA-256, hexadecimal."""

    bytes: int
    sha256: str


class Manifest(Value):
    """The archive's own table of contents.

    Attributes:
        taken_at: When it was begun; all else is the same for the same content.
        counts: How many tasks, effects, events, gates and histories it holds.
        files: Every other file of the archive by its name.
        content: SHA-256 over the names and digests of all files: the same content, the same value.
    """

    format: Literal["ascertain-snapshot-1"] = "ascertain-snapshot-1"
    taken_at: datetime
    namespace: str
    scope: Scope
    counts: dict[str, int]
    files: dict[str, FileDigest]
    content: str
