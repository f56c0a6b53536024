"""``ascertain relay``: start what services put into their outbox, and look after what cannot be started."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import option, output
from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ascertain.cli.place import Place
    from ascertain.service.queue import Queue
    from starter.relay import Pace, Relay, Tally

URL_VARIABLE: Final = "ASCERTAIN_OUTBOX_URL"
SERVICE: Final = "ascertain-relay"
_LISTED: Final = 1000

Url = Annotated[
    str | None,
    typer.Option(
        "--outbox", metavar="URL", help="The service's database; else $ASCERTAIN_OUTBOX_URL."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(relay)


def relay(  # noqa: PLR0913 - each is one option of the command
    *,
    outbox: Url = None,
    status: Annotated[
        bool, typer.Option("--status", help="Say how far the relays are behind, and stop.")
    ] = False,
    aside: Annotated[
        bool, typer.Option("--set-aside", help="List what could not be started and why, and stop.")
    ] = False,
    again: Annotated[
        list[int] | None,
        typer.Option(metavar="ENTRY", help="Put an entry back that was set aside, and stop."),
    ] = None,
    again_all: Annotated[
        bool, typer.Option("--again-all", help="Put back everything that was set aside, and stop.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Start what waits now, and stop.")] = False,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Most entries at a time.")] = 100,
    lease: Annotated[
        timedelta,
        typer.Option(
            parser=option.length,
            metavar="TIME",
            help="After how long another relay may take what this one has in hand.",
        ),
    ] = timedelta(seconds=30),
    keep: Annotated[
        timedelta,
        typer.Option(
            parser=option.length, metavar="TIME", help="How long started entries are kept."
        ),
    ] = timedelta(days=7),
    metrics: option.Metrics = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Start the tasks that services put into their outbox. Several at once share the work.

    Prints one line when it is ready. SIGTERM or Ctrl-C ends it cleanly; a killed one loses nothing. What
    cannot be started as it is, is set aside with the reason.
    """
    from ascertain.cli import place
    from ascertain.settings import named_address
    from starter.relay import Pace

    url = outbox or named_address(URL_VARIABLE)
    if not url:
        raise InvalidSettings(f"no outbox: say --outbox URL or set {URL_VARIABLE}")
    pace = Pace(batch=batch, lease=lease, keep=keep)
    if status:
        asyncio.run(_status(url, as_json=as_json))
    elif aside:
        asyncio.run(_list_aside(url, as_json=as_json))
    elif again or again_all:
        asyncio.run(_put_back(url, None if again_all else again, as_json=as_json))
    elif once:
        asyncio.run(_once(url, place.find(config), pace, as_json=as_json))
    else:
        asyncio.run(_relay(url, place.find(config), pace, metrics, as_json=as_json))


async def _once(url: str, where: Place, pace: Pace, *, as_json: bool) -> None:
    from workers.serve import stop_on_signals

    async with _working(url, where, pace) as working:
        await working.drain(stop_on_signals())
        _report(working.tally, as_json=as_json)


async def _relay(url: str, where: Place, pace: Pace, metrics: str | None, *, as_json: bool) -> None:
    from workers.serve import stop_on_signals
    from workers.watched import shown

    stop = stop_on_signals()
    async with shown(SERVICE, metrics) as exposition, _working(url, where, pace) as working:
        working.show()
        if exposition is not None:
            exposition.ready = True
        _ready(as_json=as_json)
        await working.run(stop)
        if not as_json:
            _report(working.tally, as_json=as_json)


@asynccontextmanager
async def _working(url: str, where: Place, pace: Pace) -> AsyncGenerator[Relay]:
    from ascertain import telemetry
    from ascertain.service.queue import Queue
    from starter.relay import Relay

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    telemetry.install(SERVICE)
    queue = await Queue.open(url, role="ascertain_relay")
    try:
        yield Relay(queue, await where.client(kinds=where.kinds), pace)
    finally:
        await queue.aclose()
        await asyncio.to_thread(telemetry.shutdown)


def _ready(*, as_json: bool) -> None:
    line = f"relay {os.getpid()} starts what is put into the outbox"
    if as_json:
        output.json_line({"ready": line})
    else:
        output.line(f"ready: {line}")
    output.flush()


def _report(tally: Tally, *, as_json: bool) -> None:
    if as_json:
        output.document(asdict(tally))
        return
    output.line(
        f"{tally.started} started, {tally.duplicate} were started already, {tally.set_aside} set aside"
    )


async def _opened(url: str) -> Queue:
    from ascertain.service.queue import Queue

    return await Queue.open(url, connections=1)


async def _status(url: str, *, as_json: bool) -> None:
    queue = await _opened(url)
    try:
        lag, started = await queue.lag(), await queue.count_started()
    finally:
        await queue.aclose()
    if as_json:
        shown = asdict(lag) | {"lag": lag.lag.total_seconds(), "started": started}
        output.document(shown | {"kept": lag.waiting + lag.set_aside + started})
        return
    output.line(f"{lag.waiting} waiting ({lag.in_hand} in hand), the oldest for {lag.lag}")
    output.line(f"{started} started and still kept")
    output.line(f"{lag.set_aside} set aside" + ("; see --set-aside" if lag.set_aside else ""))


async def _list_aside(url: str, *, as_json: bool) -> None:
    queue = await _opened(url)
    try:
        found = await queue.aside(_LISTED)
    finally:
        await queue.aclose()
    if as_json:
        times = ("put_at", "set_aside_at")
        shown = [
            asdict(entry) | {name: getattr(entry, name).isoformat() for name in times}
            for entry in found
        ]
        output.document({"entries": shown})
        return
    output.table(
        ("entry", "task", "put at", "reason"),
        [(str(e.entry_id), e.task_id, f"{e.put_at:%Y-%m-%d %H:%M:%S}", e.reason) for e in found],
    )


async def _put_back(url: str, entries: list[int] | None, *, as_json: bool) -> None:
    queue = await _opened(url)
    try:
        back = await queue.try_again(entries)
    finally:
        await queue.aclose()
    if as_json:
        output.document({"entries": list(back)})
    else:
        output.line(f"{len(back)} put back")
