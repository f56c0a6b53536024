"""One call outside, for one effect or for many: whatever happens to it, each is told an outcome."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from activities.permit import steady
from ascertain import metric
from ascertain.contracts import outcome
from ascertain.contracts.effect import Evidence
from ascertain.errors import PermitLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from activities.breaker import Breakers
    from activities.permit import HeldPermit
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Kind

OUTCOMES = (
    outcome.Settled,
    outcome.Accepted,
    outcome.Refused,
    outcome.NotDone,
    outcome.Unknown,
)


async def called(
    send: Callable[[], Awaitable[Sequence[Outcome]]],
    permits: Sequence[HeldPermit],
    kind: Kind,
    effects: Sequence[Effect],
    breakers: Breakers,
) -> list[Outcome]:
    """What one call came to for each effect that it was for; whatever is not told is doubt.

    Args:
        send: Makes the call, and judges it for each, in the order of ``permits``.
        permits: Spent when it is over.
        kind: Of all of them.
        effects: To whom the permits belong, in the same order.
        breakers: Are told how it ended for each.
    """
    begun = steady()
    came_to = await _told(send, permits, kind)
    said = came_to[0].type
    metric.call_seconds.record(steady() - begun, metric.labels(kind.name, outcome=said))
    for effect, each in zip(effects, came_to, strict=True):
        metric.outcomes.add(1, metric.labels(kind.name, effect.partition, outcome=each.type))
        breakers.count(effect, each)
    return came_to


async def _told(
    send: Callable[[], Awaitable[Sequence[Outcome]]], permits: Sequence[HeldPermit], kind: Kind
) -> list[Outcome]:
    limit = kind.semantics.max_duration.total_seconds()
    try:
        async with asyncio.timeout(limit):
            return _classified(await send(), len(permits))
    except PermitLost as error:
        used, unused = _unclassified(error), unsent("permit_lost", str(error))
    except TimeoutError:
        used = doubt("answer_lost", f"no answer within {limit:g} s")
        unused = unsent("never_left", f"its call had not left within {limit:g} s")
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        used = unused = _unclassified(error)  # whatever an adapter does not classify is doubt
    finally:
        for permit in permits:
            permit.spend()
    return [used if permit.used else unused for permit in permits]


def busy_with(kind: str, effect: str) -> None:
    """Name this task after what it does now, for whoever asks what holds the loop up."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(f"{kind} {effect}")


def is_told_to_stop(error: BaseException) -> bool:
    """Whether it is for us: a cancellation, or the end of the loop, and not an adapter's own invention."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def unsent(rule: str, why: str) -> Outcome:
    """Its permit was never used and is spent, so nothing was sent and nothing will be."""
    evidence = Evidence(source="phase", rule=rule, detail=why)
    return outcome.NotDone(error_class=rule, evidence=evidence)


def doubt(error_class: str, detail: str) -> Outcome:
    """It may exist or not."""
    evidence = Evidence(source="rule", rule=error_class, detail=detail)
    return outcome.Unknown(error_class=error_class, evidence=evidence)


def _classified(answers: Sequence[object], count: int) -> list[Outcome]:
    if len(answers) != count:
        told = doubt("unclassified", f"the adapter gave {len(answers)} outcomes of {count} effects")
        return [told] * count
    return [answer if isinstance(answer, OUTCOMES) else _no_outcome(answer) for answer in answers]


def _no_outcome(answer: object) -> Outcome:
    what = f"{type(answer).__module__}.{type(answer).__qualname__}"
    return doubt("unclassified", f"the adapter gave {what}, which is no outcome")


def _unclassified(error: BaseException) -> Outcome:
    """The error's text may hold anything, a secret too: only its type is kept."""
    what = f"{type(error).__module__}.{type(error).__qualname__}"
    return doubt("unclassified", f"the adapter raised {what}, which says nothing of the outside")
