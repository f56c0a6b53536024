"""A change of a gate as somebody typed it, and what is told of it when the ledger goes away meanwhile."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from pydantic import ValidationError

from ascertain.cli import option, shape
from ascertain.cli.failure import asked_once, by_hand
from ascertain.cli.gate_command import EVERY
from ascertain.cli.listing import checked_partition
from ascertain.contracts.fault import faults
from ascertain.contracts.gate import GateChange
from ascertain.errors import BY_ITSELF, LedgerDown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from datetime import timedelta

    from ascertain.cli.place import Place
    from ascertain.contracts.gate import Gate
    from ascertain.ports import Ledger


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a gate as it was typed."""

    partition: str
    operator: str
    reason: str
    request_id: str | None
    ramp: timedelta | None = None

    def request(self, *, paused: bool) -> GateChange:
        """What is asked of the ledger.

        Raises:
            BadParameter: The partition has no name that a partition can have, or a word is missing.
        """
        if self.partition != EVERY:
            checked_partition(self.partition)
        try:
            return GateChange(
                partition=self.partition,
                paused=paused,
                by=self.operator,
                reason=self.reason,
                request_id=option.request_id(self.request_id),
                ramp=self.ramp,
            )
        except ValidationError as error:
            raise typer.BadParameter(faults(error)) from None


@asynccontextmanager
async def changing(where: Place, request: GateChange) -> AsyncGenerator[Ledger]:
    """The ledger, for one request: where it is down, the words say how to give the same request again."""
    try:
        async with where.ledger() as ledger:
            yield ledger
    except LedgerDown as error:
        if BY_ITSELF not in str(error):  # it was not asked at all
            raise
        raise LedgerDown(
            f"{by_hand(str(error))}, with `--request-id {request.request_id}`: one id is applied once"
        ) from error


@contextmanager
def stands(request: GateChange, gate: Gate, unknown: str) -> Generator[None]:
    """What is looked at once the change is committed, which a ledger that goes away then does not undo.

    Args:
        request: What was asked for.
        gate: As it came back: if that had been applied before, somebody may have moved it since.
        unknown: What is not known without the look, in words.

    Raises:
        LedgerDown: Says how the gate stands.
    """
    try:
        yield
    except LedgerDown as error:
        words = shape.gate_words(gate, datetime.now(UTC)).rstrip(".")
        again = f"with `--request-id {request.request_id}`: one id is applied once"
        if gate.paused != request.paused:
            again = "without `--request-id`: that id was applied before, and somebody moved the gate since"
        raise LedgerDown(
            f"{words[0].lower()}{words[1:]}; {unknown}: {asked_once(error)}. "
            f"Give the same command again, {again}"
        ) from error
