"""One effect's trace as tests need it: a real trail of the pure ledger, changed where the test says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ascertain.contracts.claim import Granted
from ascertain.ledger.model import ModelLedger
from ascertain.testing.entry import Fact, SubmitEntry
from drill.acceptance import Trace
from tests.ledger import steps

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


class Night:
    """A ledger and an outside that a test leads through an effect's life."""

    def __init__(self) -> None:
        self.now = BEGUN
        self.ledger = ModelLedger(lambda: self.now)
        self.facts: list[Fact] = []
        self.submits: list[SubmitEntry] = []

    async def claimed(self, **changes: Any) -> Granted:
        answer = await self.ledger.claim(steps.request(**changes))
        assert isinstance(answer, Granted)
        return answer

    def happened(self, times: int = 1) -> None:
        """The outside receives a request and does it."""
        for _ in range(times):
            self.received()
            number = len(self.facts) + 1
            self.facts.append(
                Fact(
                    id=f"fact-{number}",
                    reference="ef1-1",
                    received_at=self.now,
                    committed_at=self.now,
                )
            )

    def received(self) -> None:
        self.submits.append(
            SubmitEntry(
                at=self.now,
                attempt=1,
                ruling="committed",
                method="POST",
                key="ef1-1",
                reference="ef1-1",
                sha256="",
                size_bytes=0,
                headers={},
                peer_port=None,
            )
        )

    async def settled(self, **changes: Any) -> Trace:
        """The ordinary life: claimed, sent, settled."""
        granted = await self.claimed(**changes)
        self.happened()
        self.now += timedelta(seconds=0.1)
        await self.ledger.record(granted.lease, steps.settled("fact-1"))
        return await self.trace()

    async def trace(self) -> Trace:
        case = await self.ledger.inspect("ef1-1")
        events = await self.ledger.audit("ef1-1")
        row = None if case is None else case.row
        return Trace("ef1-1", row, events, tuple(self.facts), tuple(self.submits))
