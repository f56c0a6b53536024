"""The book of replays in PostgreSQL, beside the effects that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import State
from ascertain.contracts.replay import Item, Tally
from ascertain.ledger.statement import statement
from ascertain.ledger.write import clean
from ascertain.recovery import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.replay import Outlook, Result, Selection
    from ascertain.ledger.session import Session
    from ascertain.recovery import ReplayBook

_SELECT: Final = statement("select_items")
_KINDS: Final = statement("unasked_kinds")
_UNASKED: Final = statement("unasked_items")
_FORESEE: Final = statement("foresee_item")
_TAKE: Final = statement("take_item")
_BEGUN: Final = statement("begun_items")
_FINISH: Final = statement("finish_item")
_TALLY: Final = statement("tally_items")
_WAITING: Final = statement("waiting_items")
_ITEMS: Final = statement("replay_items")


class PostgresReplayBook:
    """``recovery.ReplayBook`` on the ledger's connections."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def select(self, replay_id: str, selection: Selection) -> None:
        """See ``recovery.ReplayBook.select``."""
        await self._session.fetch(
            _SELECT,
            replay_id,
            [state.value for state in selection.states],
            selection.partition,
            selection.kind,
            selection.error_class,
            list(selection.task_ids) or None,
            list(selection.effect_ids) or None,
        )

    async def kinds(self, replay_id: str) -> dict[str, int]:
        """See ``recovery.ReplayBook.kinds``."""
        found = await self._session.fetch(_KINDS, replay_id)
        return {each["kind"]: each["items"] for each in found}

    async def unasked(self, replay_id: str, kind: str, limit: int) -> Sequence[Item]:
        """See ``recovery.ReplayBook.unasked``."""
        found = await self._session.fetch(_UNASKED, replay_id, kind, limit)
        return [Item.model_validate(dict(each)) for each in found]

    async def foresee(
        self, replay_id: str, effect_id: str, outlook: Outlook, result: Result, detail: str
    ) -> None:
        """See ``recovery.ReplayBook.foresee``."""
        values = (outlook.value, result.value, clean(detail))
        await self._session.fetch(_FORESEE, replay_id, effect_id, *values)

    async def take(
        self, replay_id: str, batch: int, limit: int, *, through_gate: bool
    ) -> Item | None:
        """See ``recovery.ReplayBook.take``."""
        found = await self._session.fetch(_TAKE, replay_id, batch, limit, through_gate)
        return Item.model_validate(dict(found[0])) if found else None

    async def begun(self, replay_id: str) -> Sequence[Standing]:
        """See ``recovery.ReplayBook.begun``."""
        return [
            Standing(
                item=Item.model_validate(dict(each)),
                state=State(each["state_now"]),
                version=each["version_now"],
                attempt=each["attempt_now"],
                detail=each["detail_now"],
            )
            for each in await self._session.fetch(_BEGUN, replay_id)
        ]

    async def finish(self, replay_id: str, effect_id: str, result: Result, detail: str) -> None:
        """See ``recovery.ReplayBook.finish``."""
        await self._session.fetch(_FINISH, replay_id, effect_id, result.value, clean(detail))

    async def tally(self, replay_id: str) -> Tally:
        """See ``recovery.ReplayBook.tally``."""
        outlooks: dict[str, int] = {}
        results: dict[str, int] = {}
        for each in await self._session.fetch(_TALLY, replay_id):
            outlook, result, items = each["outlook"] or "NOT_ASKED", each["result"], each["items"]
            outlooks[outlook] = outlooks.get(outlook, 0) + items
            results[result] = results.get(result, 0) + items
        return Tally(items=sum(results.values()), outlooks=outlooks, results=results)

    async def waiting(self, replay_id: str) -> dict[str, int]:
        """See ``recovery.ReplayBook.waiting``."""
        found = await self._session.fetch(_WAITING, replay_id)
        return {each["partition"]: each["items"] for each in found}

    async def items(self, replay_id: str, *, after: str = "", limit: int = 500) -> Sequence[Item]:
        """See ``recovery.ReplayBook.items``."""
        found = await self._session.fetch(_ITEMS, replay_id, after, limit)
        return [Item.model_validate(dict(each)) for each in found]


if TYPE_CHECKING:
    _conforms: type[ReplayBook] = PostgresReplayBook
