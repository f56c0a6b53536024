"""``ascertain consume``: start the tasks that come as messages."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from ascertain.cli import option, output
from ascertain.errors import InvalidSettings, SetupError

URL_VARIABLE: Final = "ASCERTAIN_RABBITMQ_URL"
SERVICE: Final = "ascertain-consumer"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(consume)


def consume(
    *,
    queue: Annotated[str, typer.Option(metavar="NAME", help="A queue whose messages are tasks.")],
    rabbitmq: Annotated[
        str | None,
        typer.Option(metavar="URL", help="amqp:// or amqps://; else $ASCERTAIN_RABBITMQ_URL."),
    ] = None,
    prefetch: Annotated[int, typer.Option(min=1, max=1000, help="Most messages in hand.")] = 32,
    metrics: option.Metrics = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Start the tasks that come as messages of RabbitMQ; a message is acknowledged once its task is started.

    Prints one line when it is ready. What can never be a task goes to the queue NAME.refused with the reason.
    """
    from ascertain.settings import named_address

    url = rabbitmq or named_address(URL_VARIABLE)
    if not url:
        raise InvalidSettings(f"no broker: say --rabbitmq URL or set {URL_VARIABLE}")
    if find_spec("aio_pika") is None:
        raise SetupError("the broker's client is not installed: pip install 'ascertain[rabbitmq]'")
    asyncio.run(_consume(url, queue, prefetch, metrics, config, as_json=as_json))


async def _consume(
    url: str,
    queue: str,
    prefetch: int,
    metrics: str | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    from ascertain import telemetry
    from ascertain.cli import place
    from starter.consumer import consume as run
    from workers.serve import stop_on_signals
    from workers.watched import shown

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    telemetry.install(SERVICE)
    where = place.find(config)

    def on_ready() -> None:
        if exposition is not None:
            exposition.ready = True
        line = f"consumer {os.getpid()} starts what comes to {queue}"
        if as_json:
            output.json_line({"ready": line})
        else:
            output.line(f"ready: {line}")
        output.flush()

    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, telemetry.shutdown)
        exposition = await stack.enter_async_context(shown(SERVICE, metrics))
        client = await where.client(kinds=where.kinds)
        await run(url, queue, client, stop_on_signals(), prefetch=prefetch, on_ready=on_ready)
