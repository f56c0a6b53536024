"""Whether what somebody names is known at all: a misspelt name is a name like any other."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from temporalio.common import SearchAttributeKey

from ascertain.cli import output
from ascertain.cli.gate_command import EVERY
from ascertain.contracts import names
from ascertain.errors import AscertainError
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ascertain.cli.place import Place
    from ascertain.ports import Ledger

KIND: Final = SearchAttributeKey.for_keyword(names.TASK_KIND)
PARTITION: Final = SearchAttributeKey.for_keyword(names.TASK_PARTITION)
_MOST_NAMES: Final = 10
# So many tasks are one page of the server's.
_NEWEST: Final = 1000


async def known(ledger: Ledger, where: Place, partition: str) -> bool | None:
    """Whether there is, or was, a task of it; None where Temporal cannot tell.

    Args:
        ledger: Has the effects.
        where: For the server, which knows tasks that have none.
        partition: A name that a partition can have.
    """
    if partition == EVERY or await ledger.effects(EffectFilter(partition=partition, limit=1)):
        return True
    count = await _count(where, f"{names.TASK_PARTITION} = '{partition}'")
    return None if count is None else count > 0


async def note_unknown(ledger: Ledger, where: Place, partition: str) -> None:
    """Say that no task of it is known, and a few partitions that may have been meant."""
    every = {each.partition for each in await ledger.partitions()}
    every |= await _of_newest(where, PARTITION)
    output.note(f"No task of partition {partition} is known{_nearest(partition, every - {EVERY})}.")


async def note_if_unknown(ledger: Ledger, where: Place, partition: str | None) -> None:
    """Say so, where nothing is to be shown of a partition because none is called so."""
    if partition is not None and await known(ledger, where, partition) is False:
        await note_unknown(ledger, where, partition)


async def note_if_unheard_of(
    where: Place,
    *,
    partition: str | None = None,
    task_ids: Iterable[str] = (),
    effect_ids: Iterable[str] = (),
) -> None:
    """Say so of each name that a command goes by and that the ledger, if there is one, does not know."""
    if not where.has_ledger:
        return
    with suppress(AscertainError):
        async with where.ledger() as ledger:
            await note_if_unknown(ledger, where, partition)
            for task_id in task_ids:
                if not await ledger.effects(EffectFilter(task_id=task_id, limit=1)):
                    output.note(f"The ledger knows no effect of task {task_id}.")
            for effect_id in effect_ids:
                if await ledger.inspect(effect_id) is None:
                    output.note(f"The ledger knows no effect {effect_id}.")


async def note_if_no_kind(where: Place, kind: str | None) -> None:
    """Say so, where no task is of a kind, and whether it is one of effects."""
    if kind is None or await _count(where, f"{names.TASK_KIND} = '{kind}'") != 0:
        return
    of_effects = ", which is a kind of effect," if kind in (where.kinds or ()) else ""
    near = _nearest(kind, await _of_newest(where, KIND))
    output.note(f"No task of kind {kind}{of_effects} is known{near}.")


async def _count(where: Place, query: str) -> int | None:
    """How many tasks Temporal has; None where it cannot tell."""
    try:
        return await (await where.client()).count(query)
    except AscertainError:
        return None


async def _of_newest(where: Place, label: SearchAttributeKey[str]) -> set[str]:
    """What the newest tasks are labelled with; nothing where Temporal cannot tell."""
    try:
        tasks = (await where.client()).tasks("", limit=_NEWEST)
        labels = [task.typed_search_attributes.get(label) async for task in tasks]
    except AscertainError:
        return set()
    return {name for name in labels if name}


def _nearest(name: str, others: Iterable[str]) -> str:
    """A few that are called most like it."""
    near = get_close_matches(name, sorted(others), _MOST_NAMES, cutoff=0)
    return f"; known: {', '.join(sorted(near))}" if near else ""
