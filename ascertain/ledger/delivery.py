"""The ledger's count of deliveries: opened when the first repeat comes, for a smooth start needs it not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ascertain.contracts.delivery import Counted
from ascertain.ledger import migration
from ascertain.ledger.session import Session
from ascertain.ledger.statement import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.delivery import Delivery
    from ascertain.ports import Deliveries


class DeliveryBook:
    """``ports.Deliveries`` on the ledger's database."""

    def __init__(self, url: str) -> None:
        """Name the ledger; nothing is opened yet."""
        self._url = url
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    async def count(self, delivery: Delivery) -> int:
        """See ``ports.Deliveries.count``."""
        session = await self._opened()
        ((count,),) = await session.fetch(
            statement("count_delivery"),
            delivery.task_id,
            delivery.message_id or "",
            delivery.fate.value,
            delivery.fingerprint,
        )
        return int(count)

    async def of_task(self, task_id: str) -> Sequence[Counted]:
        """What was delivered again of a task, oldest first.

        Raises:
            LedgerDown: It does not answer.
        """
        session = await self._opened()
        found = await session.fetch(statement("deliveries"), task_id)
        return [
            Counted.model_validate({**record, "message_id": record["message_id"] or None})
            for record in found
        ]

    async def aclose(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.aclose()

    async def _opened(self) -> Session:
        async with self._opening:
            if self._session is None:
                opened = await Session.open(
                    self._url, connections=2, timeout_s=5, command_timeout_s=5
                )
                try:
                    await migration.check(opened)
                except BaseException:
                    await opened.aclose()
                    raise
                self._session = opened
            return self._session


if TYPE_CHECKING:
    _conforms: type[Deliveries] = DeliveryBook
