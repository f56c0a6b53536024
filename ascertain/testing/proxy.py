"""A TCP proxy that breaks connections at the worst moments.

Put it before any server. The case it exists for: the outside has done the work and its answer gets
lost::

    async with FaultProxy("127.0.0.1", outside.port) as proxy:
        proxy.inject(DropReply("reset"), match=rb"POST /facts", times=1)
        ...  # the client sees a reset; the fact exists

With ``protocol="http"`` (HTTP/1.1 without TLS) it knows where requests and replies end, so a fault
strikes whole exchanges also on reused connections. With ``protocol="bytes"`` it serves everything else,
such as PostgreSQL and SMTP.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, assert_never

from ascertain.testing.byte_link import ByteLink
from ascertain.testing.fault import (
    BlackHole,
    Delay,
    DropReply,
    Ending,
    Fault,
    FaultRule,
    Match,
    Pass,
    predicate,
)
from ascertain.testing.http_link import HttpLink
from ascertain.testing.link import Link, Stream

Protocol = Literal["http", "bytes"]


class FaultProxy:
    """Forwards a loopback port to a target, but for the faults it is told; ``async with`` runs it.

    Faults for single requests are injected as rules, of which the oldest one that fits applies. The
    commands (``drop_replies``, ``black_hole``, ``delay``, ``cut``, ``refuse``) hold for everything until
    ``heal``, and go before the rules.

    Args:
        port: 0 takes a free one.
        seed: Of the dice for rules with a probability: the same seed, the same faults.
        on_request: Called with the bytes of each request, or of each piece of one, before any fault.

    Attributes:
        injected: What was really done, by the kind of fault.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        *,
        protocol: Protocol = "http",
        port: int = 0,
        seed: int = 0,
        on_request: Callable[[bytes], None] | None = None,
    ) -> None:
        self._target = (target_host, target_port)
        self._protocol: Protocol = protocol
        self._port = port
        self._dice = random.Random(seed)  # noqa: S311 - repeatable faults, nothing secret
        self._on_request = on_request
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], Link] = {}
        self._rules: list[FaultRule] = []
        self._standing: Fault = Pass()
        self._counted = asyncio.Condition()
        self._failure: BaseException | None = None
        self.injected: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        return self._port

    @property
    def url(self) -> str:
        """Its address for HTTP, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.refuse()
        await self.cut()
        tasks = list(self._links)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None and exc is None:
            msg = "a link of the fault proxy broke"
            raise RuntimeError(msg) from self._failure

    def inject(
        self, fault: Fault, *, match: Match = None, times: int | None = None, probability: float = 1
    ) -> FaultRule:
        """Add a rule behind the others.

        Args:
            fault: What is done.
            match: A regular expression searched in the request's bytes (head and body), or a function of
                them; None fits every request.
            times: For the next so many that fit; None: for all.
            probability: 0 to 1, of each one that fits.

        Returns:
            The rule; ``fired`` tells how often it was applied, ``withdraw`` takes it back.
        """
        rule = FaultRule(fault, predicate(match), times, probability)
        self._rules.append(rule)
        return rule

    def withdraw(self, rule: FaultRule) -> None:
        """Take a rule back."""
        self._rules.remove(rule)

    async def drop_replies(self, how: Ending = "reset") -> None:
        """Forward every request and let no answer back, also of what is under way."""
        self._standing = DropReply(how)

    async def black_hole(self) -> None:
        """Accept connections, forward nothing and say nothing."""
        self._standing = BlackHole()

    async def delay(self, *, request_s: float = 0, reply_s: float = 0) -> None:
        """Make everything slower."""
        self._standing = Delay(request_s, reply_s)

    async def cut(self) -> None:
        """Reset every open connection, now."""
        for link in self._links.values():
            link.cut()

    async def refuse(self) -> None:
        """Refuse new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def heal(self) -> None:
        """Take back every command and every rule, and listen again. What is broken stays broken."""
        self._standing = Pass()
        self._rules.clear()
        if self._server is None:
            await self._listen()

    async def wait_injected(self, kind: str, count: int = 1, *, within_s: float = 40) -> None:
        """Wait until so many faults of a kind were done.

        Raises:
            TimeoutError: There were fewer within ``within_s``.
        """
        try:
            async with asyncio.timeout(within_s), self._counted:
                await self._counted.wait_for(lambda: self.injected[kind] >= count)
        except TimeoutError:
            msg = f"{self.injected[kind]} of {count} {kind} within {within_s} s"
            raise TimeoutError(msg) from None

    @property
    def standing(self) -> Fault:
        """The fault that holds for everything now."""
        return self._standing

    def pick(self, request: bytes) -> Fault:
        """The fault of this request; uses up its rule."""
        if self._on_request is not None:
            self._on_request(request)
        if not isinstance(self._standing, Pass):
            return self._standing
        for rule in self._rules:
            if rule.takes(request, self._dice):
                return rule.fault
        return Pass()

    async def count(self, fault: Fault) -> None:
        """A fault was really done."""
        async with self._counted:
            self.injected[fault.kind] += 1
            self._counted.notify_all()

    async def connect(self) -> Stream:
        """A new connection to the target.

        Raises:
            OSError: There is none to be had.
        """
        return Stream(*await asyncio.open_connection(*self._target))

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Stream(reader, writer)
        match self._protocol:
            case "http":
                link: Link = HttpLink(client, self)
            case "bytes":
                link = ByteLink(client, self)
            case _:
                assert_never(self._protocol)
        task = asyncio.get_running_loop().create_task(link.run())
        self._links[task] = link
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        link = self._links.pop(task)
        if task.cancelled() or task.exception() is not None:
            link.cut()
        if not task.cancelled():
            self._failure = self._failure or task.exception()
