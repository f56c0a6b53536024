"""What the kit and the process with the adapter say to each other: length-prefixed JSON over a socket."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ascertain.contracts.effect import Effect
from ascertain.contracts.finding import Finding
from ascertain.contracts.outcome import Outcome
from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import Value
from ascertain.ports import Listed
from ascertain.settings import KindSettings

_LENGTH_BYTES = 4


class Sent(Value):
    """One effect and the bytes that were frozen for it.

    Attributes:
        frozen: In base64.
        job_id: What the outside called it when it accepted it.
    """

    effect: Effect
    frozen: str = ""
    job_id: str | None = None

    @property
    def id(self) -> str:
        """The effect's id."""
        return self.effect.effect_id


class Order(Value):
    """What the adapter is to do.

    Attributes:
        sent: With which effect; several for ``perform_many``, none for ``listing``.
        lost: The permit is refused; of a batch, that of its last effect.
        within_s: Of a lookup or a listing; an attempt has the declared ``max_duration``.
        since: Of a listing.
    """

    id: int = 0
    do: Literal["prepare", "perform", "perform_many", "lookup", "listing"]
    sent: tuple[Sent, ...] = ()
    attempt: int = 1
    lost: bool = False
    within_s: float = 0
    since: datetime | None = None


class Opening(Value):
    """The first message: which adapter."""

    kind: str
    chosen: KindSettings
    secrets: dict[str, str]


class Opened(Value):
    """What the adapter is.

    Attributes:
        batch_max: 1 where it takes no batches.
        lists: Whether it can list, though this kind may not be declared so.
    """

    semantics: Semantics
    batch_max: int = 1
    lists: bool = False


class Reply(Value):
    """What came of an order, or of the opening (id 0).

    Attributes:
        outcomes: Of a batch, in the order of its effects.
        raised: The exception's type, if one came.
        text: Its text. Kept on this machine; a worker would not show it.
        checks: How often each permit was checked.
        took_s: How long an attempt took, up to a little more than it may.
        grown_bytes: By how much the process's memory had grown.
    """

    type: Literal["reply"] = "reply"
    id: int
    opened: Opened | None = None
    frozen: str | None = None
    outcome: Outcome | None = None
    outcomes: tuple[Outcome, ...] | None = None
    finding: Finding | None = None
    listed: tuple[Listed, ...] | None = None
    raised: str | None = None
    text: str = ""
    checks: tuple[int, ...] = ()
    took_s: float = 0
    grown_bytes: int = 0


class Held(Value):
    """The adapter held up its event loop."""

    type: Literal["held"] = "held"
    for_s: float
    where: str


Message = Annotated[Reply | Held, Field(discriminator="type")]


async def read(reader: asyncio.StreamReader) -> bytes | None:
    """The next message; None at the end."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def written(message: Value) -> bytes:
    """A message as it travels."""
    body = message.model_dump_json().encode()
    return len(body).to_bytes(_LENGTH_BYTES) + body
