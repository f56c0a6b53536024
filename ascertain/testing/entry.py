"""What stands in the books of the toy outside world."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ascertain.contracts.value import JsonObject, Value
from ascertain.testing.knob import JobStatus

FactType = Literal["created", "deleted"]
Ruling = Literal[
    "committed",
    "scheduled",
    "accepted",
    "ignored",
    "discarded",
    "invalid",
    "throttled",
    "replayed",
    "mismatch",
    "in_flight",
    "exists",
    "missing",
]


class Submission(Value):
    """One request to do something, as it was received.

    Attributes:
        method: ``POST`` creates, ``PUT`` creates or replaces by reference, ``DELETE`` undoes.
        sha256: Of the body's bytes, hexadecimal.
        deletes: The fact that a ``DELETE`` takes back.
    """

    method: Literal["POST", "PUT", "DELETE"]
    key: str | None = None
    reference: str | None = None
    content: JsonObject = Field(default_factory=dict)
    sha256: str
    size_bytes: int
    headers: dict[str, str] = Field(default_factory=dict)
    peer_port: int | None = None
    deletes: str | None = None


class SubmitEntry(Value):
    """A submit in the books.

    Attributes:
        attempt: 1 for the first submit of its key (of its reference, where there is no key).
        ruling: What was done with it: a fact now (``committed``), later (``scheduled``, or as a job
            ``accepted``), or none, and why.
    """

    kind: Literal["submit"] = "submit"
    at: datetime
    attempt: int
    ruling: Ruling
    method: str
    key: str | None
    reference: str | None
    sha256: str
    size_bytes: int
    headers: dict[str, str]
    peer_port: int | None


class Draft(Value):
    """A fact to be, without the id and the time that its commit gives it.

    Attributes:
        received_at: When the first request for it came in; a key's life counts from it.
        pending_id: The pending work that it fulfils.
    """

    type: FactType = "created"
    key: str | None = None
    reference: str | None = None
    content: JsonObject = Field(default_factory=dict)
    sha256: str = ""
    status: str = "succeeded"
    deletes: str | None = None
    received_at: datetime
    pending_id: str | None = None


class Fact(Draft):
    """One thing that really happened.

    Attributes:
        id: ``fact-000001`` and so on, in the order of commits.
        removed: It was taken away from the outside later: lookups do not show it, the books do.
    """

    kind: Literal["fact"] = "fact"
    id: str
    committed_at: datetime
    removed: bool = False

    @property
    def amount(self) -> object:
        """The content's ``amount``."""
        return self.content.get("amount")

    def public(self) -> JsonObject:
        """The fact as a client of the outside sees it."""
        names = {"id", "type", "status", "key", "reference", "sha256", "committed_at", "deletes"}
        shown = self.model_dump(mode="json", include=names)
        return {**self.content, **shown}


class PendingEntry(Value):
    """Work that was taken on and is not done: a later commit, or a job.

    Attributes:
        due_at: When the fact comes to exist; None: not before somebody says so.
        timeline: A job's statuses, by time.
    """

    kind: Literal["pending"] = "pending"
    id: str
    draft: Draft
    due_at: datetime | None
    job: bool = False
    timeline: tuple[tuple[datetime, JobStatus], ...] = ()


class ChangeEntry(Value):
    """A later change of a fact (its status, or ``removed``), or of a job's status."""

    kind: Literal["change"] = "change"
    id: str
    status: str | None = None
    removed: bool = False


class LookupEntry(Value):
    """A question in the books, and how many facts were shown."""

    kind: Literal["lookup"] = "lookup"
    at: datetime
    attempt: int
    path: str
    key: str | None
    reference: str | None
    amount: str | None = None
    cursor: str | None = None
    status: int
    shown: int
    peer_port: int | None


Entry = Annotated[
    SubmitEntry | Fact | PendingEntry | ChangeEntry | LookupEntry, Field(discriminator="kind")
]
ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Copy(Value):
    """The books as read over HTTP at one moment."""

    submits: tuple[SubmitEntry, ...]
    facts: tuple[Fact, ...]
    lookups: tuple[LookupEntry, ...]

    def facts_of(self, reference: str) -> list[Fact]:
        """Every fact of this reference, also those removed later."""
        return [fact for fact in self.facts if fact.reference == reference]

    def facts_with_key(self, key: str) -> list[Fact]:
        """Every fact of this key, also those removed later."""
        return [fact for fact in self.facts if fact.key == key]

    def submits_of(self, key: str) -> list[SubmitEntry]:
        """Every submit of this key, oldest first."""
        return [submit for submit in self.submits if submit.key == key]
