"""A toy outside world: a real HTTP server that keeps its own books.

It does what its knobs say (``ascertain.testing.knob``): commits never, now or later; replies, goes
silent, cuts or resets; honours keys or not; shows facts late. In a test::

    async with Outside() as outside:
        ...  # POST {outside.url}/facts
        assert len(outside.books.facts_of("invoice-1")) == 1

As a process of its own: ``python -m ascertain.testing.outside --port 8080 --books books.jsonl``; its
knobs are then set by ``ascertain.testing.control.OutsideControl``.

``POST /facts`` · ``PUT /facts/{reference}`` (``If-None-Match: *``) · ``DELETE /facts/{id}`` (an undo, a
fact of its own) · ``GET /facts?key=&reference=&amount=&cursor=&limit=`` · ``GET /facts/{id or
reference}`` · ``GET /jobs/{id}``
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Self, TypeVar

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from ascertain.testing.batch_api import BatchApi
from ascertain.testing.books import Books
from ascertain.testing.control_api import ControlApi
from ascertain.testing.delivery import Courier
from ascertain.testing.knob import Knobs, Rule
from ascertain.testing.lookup_api import LookupApi
from ascertain.testing.provider import Provider
from ascertain.testing.rulebook import Rulebook
from ascertain.testing.submit_api import SubmitApi

ReadT = TypeVar("ReadT")

_MAX_BODY_BYTES = 64 * 1024 * 1024


class Outside:
    """The toy outside world on a loopback port; ``async with`` starts and stops it.

    Args:
        knobs: How it behaves; rules over them are added by ``rules`` or over HTTP.
        books: A file of JSON lines that keeps the books; what it holds is read first.
        port: 0 takes a free one.

    Attributes:
        books: What was received, what exists, what was asked.
        rules: The default knobs and the rules.
    """

    def __init__(
        self,
        knobs: Knobs | None = None,
        *,
        books: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._host = host
        self._port = port
        self.books = Books(books)
        self.rules = Rulebook(knobs or Knobs())
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        return self._port

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://{self._host}:{self._port}"

    async def __aenter__(self) -> Self:
        self._courier = Courier()
        self._provider = Provider(self.books)
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._courier.stop()
        self._provider.forget()
        if self._runner is not None:
            await self._runner.cleanup()
        self.books.close()

    def reset(self) -> None:
        """Empty books, no rules, default knobs."""
        self._provider.forget()
        self.books.clear()
        self.rules.clear()
        self.rules.knobs = Knobs()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        single = SubmitApi(self.books, self.rules, self._provider, self._courier)
        single.add_routes(app)
        BatchApi(single, self._courier).add_routes(app)
        LookupApi(self.books, self.rules, self._provider, self._courier).add_routes(app)
        ControlApi(self.books, self.rules, self._provider, self.reset).add_routes(app)
        return app


async def _serve(options: argparse.Namespace, knobs: Knobs, rules: list[Rule]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.with_parent:
        loop.add_reader(sys.stdin.fileno(), _at_end_of_input, stop)
    host, port, books = options.host, options.port, options.books
    async with Outside(knobs, books=books, host=host, port=port) as outside:
        for rule in rules:
            outside.rules.add(rule)
        # Whoever started the process waits for this line; there is no need to poll the port.
        sys.stdout.write(f"listening on {outside.url}\n")
        sys.stdout.flush()
        await stop.wait()


def _at_end_of_input(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def main() -> None:
    """Run the toy outside world until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m ascertain.testing.outside")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one and prints it")
    parser.add_argument("--books", type=Path, help="JSON lines; read at the start, then added to")
    parser.add_argument("--knobs", type=Path, help="JSON file of the default knobs")
    parser.add_argument("--rules", type=Path, help="JSON file: a list of rules over the knobs")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    knobs = _read(parser, "--knobs", options.knobs, TypeAdapter(Knobs), Knobs())
    rules: list[Rule] = _read(parser, "--rules", options.rules, TypeAdapter(list[Rule]), [])
    asyncio.run(_serve(options, knobs, rules))


def _read(
    parser: argparse.ArgumentParser,
    option: str,
    file: Path | None,
    form: TypeAdapter[ReadT],
    default: ReadT,
) -> ReadT:
    if file is None:
        return default
    try:
        return form.validate_json(file.read_bytes())
    except (OSError, ValidationError) as problem:
        parser.error(f"{option} {file}: {problem}")


if __name__ == "__main__":
    main()
