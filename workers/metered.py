"""The ledger as a worker uses it, its answers counted and told: nothing more is asked of it than before.

A smooth effect is counted and writes no line.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, cast

from ascertain import metric
from ascertain.contracts.claim import Moved, Stale
from ascertain.contracts.effect import State
from workers.log import about

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ascertain.contracts.claim import (
        ChunkAnswer,
        ClaimAnswer,
        ClaimRequest,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Ledger

log = logging.getLogger("ascertain.effect")

_LEVEL: Final = {
    State.SETTLED: logging.DEBUG,
    State.UNKNOWN: logging.WARNING,
    State.QUARANTINED: logging.WARNING,
}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def metered(ledger: Ledger) -> Ledger:
    """The same ledger, counted."""
    return cast("Ledger", _MeteredLedger(ledger))


class _MeteredLedger:
    def __init__(self, inner: Ledger) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        answer = await self._inner.claim(request)
        _claimed(request, answer)
        return answer

    async def claim_many(self, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
        answers = await self._inner.claim_many(requests)
        for request, answer in zip(requests, answers, strict=True):
            _claimed(request, answer)
        return answers

    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        answer = await self._inner.renew(lease, extend)
        _fenced(answer)
        return answer

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        written = await self._inner.record(lease, outcome, retry_in=retry_in)
        _fenced(written)
        if isinstance(written, Moved):
            _tell(written.row, _LEVEL.get(written.row.state, logging.INFO))
        return written

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        written = await self._inner.converge(effect_id, version, verdict, by)
        if isinstance(written, Moved):
            row = written.row
            _tell(row, max(_LEVEL.get(row.state, logging.INFO), logging.INFO))
            if row.state is State.SETTLED:
                metric.reconciliation_lag.record(_lag_s(row), metric.labels(row.kind))
        return written


def _claimed(request: ClaimRequest, answer: ChunkAnswer | ClaimAnswer) -> None:
    about = metric.labels(request.effect.kind, request.effect.partition)
    metric.claims.add(1, {**about, "answer": _word(answer)})
    # So that the first one is a rise from nothing, which a rate can see.
    metric.fenced_writes.add(0, about)


def _word(answer: ChunkAnswer | ClaimAnswer) -> str:
    return "unanswered" if answer is None else _HUMP.sub("_", type(answer).__name__).lower()


def _fenced(written: Written | Paused) -> None:
    if isinstance(written, Stale) and written.row is not None:
        row = written.row
        metric.fenced_writes.add(1, metric.labels(row.kind, row.partition))
        log.warning(
            "a write for %s of task %s came under an old lease and changed nothing; it is %s",
            row.effect_id,
            row.task_id,
            row.state.value,
            extra=about(row),
        )


def _tell(row: EffectRow, level: int) -> None:
    log.log(
        level,
        "%s of task %s is %s: %s",
        row.effect_id,
        row.task_id,
        row.state.value,
        row.evidence.rule,
        extra=about(row),
    )


def _lag_s(row: EffectRow) -> float:
    """Clocks differ: what happened later than now happened just now."""
    happened = row.happened_at or row.first_sent_at
    return max((row.now - happened).total_seconds(), 0)
