"""Whether a partition that somebody names is known at all: a misspelt name is a name like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.cli import output
from ascertain.cli.gate_command import EVERY
from ascertain.contracts import names
from ascertain.errors import AscertainError
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from ascertain.cli.place import Place
    from ascertain.ports import Ledger

_MOST_NAMES: Final = 10


async def known(ledger: Ledger, where: Place, partition: str) -> bool | None:
    """Whether there is, or was, a task of it; None where Temporal cannot tell.

    Args:
        ledger: Has the effects.
        where: For the server, which knows tasks that have none.
        partition: A name that a partition can have.
    """
    if partition == EVERY or await ledger.effects(EffectFilter(partition=partition, limit=1)):
        return True
    try:
        return await (await where.client()).count(f"{names.TASK_PARTITION} = '{partition}'") > 0
    except AscertainError:
        return None


async def note_unknown(ledger: Ledger, partition: str) -> None:
    """Say that no task of it is known, and a few partitions that may have been meant."""
    every = [each.partition for each in await ledger.partitions()]
    others = [name for name in every if name not in {EVERY, partition}][:_MOST_NAMES]
    told = f"; known: {', '.join(others)}" if others else ""
    output.note(f"No task of partition {partition} is known{told}.")


async def note_if_unknown(ledger: Ledger, where: Place, partition: str | None) -> None:
    """Say so, where nothing is to be shown of a partition because none is called so."""
    if partition is not None and await known(ledger, where, partition) is False:
        await note_unknown(ledger, partition)
