"""The listing: to its end or not at all, and with the very facts that the lookup finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.lookup_check import troubles
from ascertain.testing.conformance.reply import error
from ascertain.testing.conformance.verdict import NotTried, expect
from ascertain.testing.fault import Substitute

if TYPE_CHECKING:
    from ascertain.testing.conformance.bench import Bench
    from ascertain.testing.conformance.seen import Shown

_FEW: Final = 2
# The clocks of the kit and of the outside may differ.
_MARGIN: Final = timedelta(minutes=1)


async def listing(bench: Bench) -> None:
    """What was made is listed, each once; what was never sent is not."""
    began = datetime.now(UTC) - _MARGIN
    await _list(bench)
    made = [await _fact(bench) for _ in range(_FEW)]
    never = await bench.fresh()
    for since in (None, began):
        shown = await _list(bench, since=since)
        for effect_id, external_id in made:
            there = shown.of(effect_id)
            seen = f"the lookup finds {external_id!r}, and the list has {there} under its effect"
            expect(there == [external_id], seen)
        expect(not shown.of(never.id), "an effect that was never sent is listed")


async def listing_end(bench: Bench) -> None:
    """More than one page."""
    bench.over_http()
    asked = 0
    for _ in range(_FEW):
        await _fact(bench)
    before = len(bench.requests)
    whole = await _list(bench)
    pages = len(bench.requests) - before
    known = bench.seen.external_ids.items()
    missing = [one for one, external_id in known if external_id not in whole.of(one)]
    expect(not missing, f"{len(missing)} of {len(known)} facts that were made are not listed")
    if pages <= 1:
        raise NotTried(
            "one request lists all that was made; give the trial's outside smaller pages"
        )

    def later(request: bytes) -> bool:
        nonlocal asked
        del request
        asked += 1
        return asked > 1

    with bench.fault(Substitute(error(503), forwarded=False), on=later):
        shown = await bench.listing()
    _gives_nothing(shown, "whose second page cannot be had")


async def listing_down(bench: Bench) -> None:
    """An outside that cannot be listed has no list, and not an empty one."""
    bench.through()
    await _list(bench)
    async with bench.unreachable():
        _gives_nothing(await bench.listing(), "that refuses connections")
    for what, fault in troubles(bench).items():
        with bench.fault(fault, on="any"):
            _gives_nothing(await bench.listing(), f"that {what}")


async def _list(bench: Bench, *, since: datetime | None = None) -> Shown:
    """The list. A connection of the pool may have been cut by the check before, so twice."""
    if not bench.opened.lists:
        raise NotTried("the adapter has no listing")
    shown = await bench.listing(since=since)
    if shown.facts is None:
        shown = await bench.listing(since=since)
    expect(shown.facts is not None, f"a plain listing comes to {shown.told}")
    return shown


async def _fact(bench: Bench) -> tuple[str, str]:
    """A fact that is visible: its effect's id and the outside's."""
    sent, _ = await bench.made()
    if bench.declared.lookup is not None:
        return sent.id, (await bench.found(sent)).receipt.external_id
    if sent.id not in bench.seen.external_ids:
        raise NotTried("what was accepted cannot be asked for")
    return sent.id, bench.seen.external_ids[sent.id]


def _gives_nothing(shown: Shown, what: str) -> None:
    seen = (
        f"an outside {what} came to {shown.told}; a part of a list proves nothing: raise LookupDown"
    )
    expect(shown.facts is None, seen)


CHECKS: Final = (
    Check("listing", "the list has each fact once, and the one that the lookup finds", listing),
    Check("listing_end", "a listing is read to its end, page by page", listing_end),
    Check("listing_down", "what cannot be listed to its end is not listed", listing_down),
)
