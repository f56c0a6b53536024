"""What keeps a stream from going on while it is fed, said once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ascertain.cli import shape, wording
from ascertain.cli.hold import opens
from ascertain.contracts.gate import Position
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ascertain.cli.place import Place
    from ascertain.stream import Stream

_LOOK_EVERY_S: Final = 2.0


async def watch(stream: Stream, where: Place, say: Callable[[str], None]) -> None:
    """Say which gate holds it and what opens that, or that a person has paused it; once each time.

    Args:
        stream: Which; without a worker it tells nothing.
        where: Whose ledger tells by whom and why a gate is closed.
        say: Told in words.
    """
    said: dict[object, str] = {}
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        with suppress(AscertainError):
            progress = await stream.progress()
            found = await _gates(where, progress.held)
            if progress.paused:
                told = wording.sentence(f"Stream {stream.name} is paused", progress.said or "")
                goes_on = f'`ascertain stream resume {stream.name} --reason "WHY"` lets it go on.'
                found["paused", progress.said] = f"{told} {goes_on}"
            for words in (words for key, words in found.items() if key not in said):
                say(words)
            said |= found


async def _gates(where: Place, held: Iterable[str]) -> dict[object, str]:
    """The gates of these partitions in words, each under what tells one closing of it from the next."""
    if not held or not where.has_ledger:
        return {name: f"The gate of partition {name} holds tasks. {opens(name)}" for name in held}
    async with where.ledger() as ledger:
        gates = [gate for gate in await ledger.gates() if gate.partition in held]
    now = datetime.now(UTC)  # a stream hears of an open gate a few seconds later
    return {
        (
            gate.partition,
            gate.since,
        ): f"Tasks are held. {shape.gate_words(gate, now)} {opens(gate.partition)}"
        for gate in gates
        if gate.position(now) is not Position.OPEN
    }
