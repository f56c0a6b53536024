"""What the kit and the process with the adapter say to each other: length-prefixed JSON over a socket."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from ascertain.contracts.effect import Effect
from ascertain.contracts.finding import Finding
from ascertain.contracts.outcome import Outcome
from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import Value
from ascertain.settings import KindSettings

_LENGTH_BYTES = 4


class Order(Value):
    """What the adapter is to do.

    Attributes:
        lost: The permit is refused.
        within_s: Of a lookup; of an attempt it is the declared ``max_duration``.
    """

    id: int
    do: Literal["prepare", "perform", "lookup"]
    effect: Effect
    frozen: str = ""
    attempt: int = 1
    job_id: str | None = None
    lost: bool = False
    within_s: float = 0


class Opening(Value):
    """The first message: which adapter."""

    kind: str
    chosen: KindSettings
    secrets: dict[str, str]


class Reply(Value):
    """What came of an order, or of the opening (id 0).

    Attributes:
        raised: The exception's type, if one came.
        text: Its text. Kept on this machine; a worker would not show it.
        timed_out: The time was over.
        checks: How often the permit was checked.
        grown_bytes: By how much the process's memory had grown.
    """

    type: Literal["reply"] = "reply"
    id: int
    semantics: Semantics | None = None
    frozen: str | None = None
    outcome: Outcome | None = None
    finding: Finding | None = None
    raised: str | None = None
    text: str = ""
    timed_out: bool = False
    checks: int = 0
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
