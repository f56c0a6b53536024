"""Ask an outside through its adapter, bounded, and let nothing unclassified pass for an answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from activities.calling import busy_with, is_told_to_stop
from activities.permit import steady
from ascertain import metric
from ascertain.contracts import finding
from ascertain.errors import LookupDown

if TYPE_CHECKING:
    from activities.serving import Served
    from ascertain.contracts.finding import Finding
    from ascertain.ports import Call, Ledger

WITHIN = timedelta(seconds=5)
DOWN = "down"
FINDINGS = (
    finding.Found,
    finding.Refused,
    finding.Pending,
    finding.Absent,
    finding.Several,
    finding.Differs,
    finding.Unknowable,
)


async def ask(served: Served, call: Call) -> Finding:
    """The adapter's finding.

    Raises:
        LookupDown: It could not be asked: it says so, took too long, or failed in a way that it does
            not classify. None of these says anything of the effect.
    """
    begun = steady()
    try:
        answer = await _asked(served, call)
    except LookupDown:
        _took(begun, served, DOWN)
        raise
    _took(begun, served, answer.type)
    return answer


def _took(begun: float, served: Served, said: str) -> None:
    labels = metric.labels(served.kind.name, finding=said)
    metric.lookup_seconds.record(steady() - begun, labels)


async def _asked(served: Served, call: Call) -> Finding:
    name = served.kind.name
    busy_with(name, call.effect.effect_id)
    try:
        async with asyncio.timeout(WITHIN.total_seconds() + 1):
            return _classified(await served.adapter.lookup(call, within=WITHIN))
    except LookupDown as error:
        raise LookupDown(f"{name} cannot be asked for {call.effect.effect_id}: {error}") from error
    except TimeoutError as error:
        msg = f"{name} did not answer the lookup of {call.effect.effect_id} in time"
        raise LookupDown(msg) from error
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        what = type(error).__qualname__
        msg = f"the lookup of {call.effect.effect_id} failed in {name} with {what}"
        raise LookupDown(msg) from error


async def unproved(ledger: Ledger, kind: str, found: Finding) -> Finding:
    """What is left of candidates that nothing tells apart: a fact proves at most one effect.

    One that proves another effect is no candidate for this one, and where none is left there is nothing.
    """
    if not isinstance(found, finding.Unknowable) or not found.candidates:
        return found
    taken = await ledger.proved(kind, found.candidates)
    left = tuple(known for known in found.candidates if known not in taken)
    if not left:
        return finding.Absent(detail="all that fits proves other effects")
    return found.model_copy(update={"candidates": left})


def _classified(answer: object) -> Finding:
    if isinstance(answer, FINDINGS):
        return answer
    raise LookupDown(f"its lookup gave {type(answer).__qualname__}, which is no finding")
