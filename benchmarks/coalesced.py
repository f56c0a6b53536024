"""Claims that wait for each other go to the ledger together: tried, and measured against each by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascertain.contracts.claim import ClaimAnswer, ClaimRequest
    from ascertain.ports import Ledger


class Coalesced:
    """A ledger with one statement under way for claims; those that come meanwhile share the next one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[ClaimRequest, asyncio.Future[ClaimAnswer]]] = []
        self._claiming: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # each method of a ledger
        return getattr(self._ledger, name)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """As of ``ports.Ledger``."""
        answer: asyncio.Future[ClaimAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._claiming is None:
            self._claiming = asyncio.create_task(self._claim_all())
        return await answer

    async def _claim_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                await self._claim_together(together)
        finally:
            self._claiming = None

    async def _claim_together(
        self, together: list[tuple[ClaimRequest, asyncio.Future[ClaimAnswer]]]
    ) -> None:
        answers = await self._ledger.claim_many([request for request, _ in together])
        for (request, waiting), answer in zip(together, answers, strict=True):
            waiting.set_result(answer or await self._ledger.claim(request))
