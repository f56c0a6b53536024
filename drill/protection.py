"""Protections that a drill can take away from its workers, to see that it would notice."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

from ascertain.contracts.claim import Busy, Granted, Lease, Unresolved
from ascertain.contracts.finding import Absent

if TYPE_CHECKING:
    from datetime import timedelta

    from activities.serving import Serving
    from ascertain.contracts.claim import ClaimAnswer, ClaimRequest
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.semantics import Semantics
    from ascertain.ports import Adapter, Call, Ledger, Permit

VARIABLE: Final = "ASCERTAIN_DRILL_WITHOUT"


class Protection(StrEnum):
    """What can be taken away.

    ``claim``: an open or unresolved claim keeps nobody from calling again. ``lookup``: nobody looks; every
    question is answered with "it is not there".
    """

    CLAIM = "claim"
    LOOKUP = "lookup"


class PermissiveLedger:
    """A ledger that lets everybody call."""

    def __init__(self, inner: Ledger) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Claim, and grant what was not granted."""
        answer = await self._inner.claim(request)
        if not isinstance(answer, Busy | Unresolved):
            return answer
        row = answer.row
        lease = Lease(row.effect_id, request.owner, row.lease_version, row.attempt)
        return Granted(lease, row)


class BlindAdapter:
    """An adapter that never looks."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner

    @property
    def semantics(self) -> Semantics:
        """What the adapter declares."""
        return self._inner.semantics

    def prepare(self, effect: Effect) -> bytes:
        """Prepare as the adapter does."""
        return self._inner.prepare(effect)

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Perform as the adapter does."""
        return await self._inner.perform(call, permit)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Say that it is not there."""
        del call, within
        return Absent()

    async def aclose(self) -> None:
        """Close the adapter."""
        await self._inner.aclose()


def strip(serving: Serving) -> Serving:
    """The same serving without the protection that the environment names, if it names one."""
    named = os.environ.get(VARIABLE)
    if not named:
        return serving
    if Protection(named) is Protection.CLAIM:
        return replace(serving, ledger=cast("Ledger", PermissiveLedger(serving.ledger)))
    kinds = {
        name: replace(kind, adapter=None if kind.adapter is None else BlindAdapter(kind.adapter))
        for name, kind in serving.kinds.items()
    }
    return replace(serving, kinds=kinds)
