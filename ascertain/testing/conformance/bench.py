"""Where an adapter is tried: its process, the proxy before its outside, and the outside's books."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from ascertain import keys
from ascertain.contracts.effect import Effect
from ascertain.contracts.fault import faults
from ascertain.contracts.finding import Found
from ascertain.contracts.outcome import Accepted, Settled
from ascertain.errors import InvalidSettings, Unlisted
from ascertain.settings import KindSettings
from ascertain.testing.conformance.message import Opening, Order, Sent
from ascertain.testing.conformance.seat import Seat
from ascertain.testing.conformance.seen import Attempted, Looked, Seen, Shown
from ascertain.testing.conformance.verdict import Failed, NotTried, Unworkable, expect
from ascertain.testing.fault import predicate
from ascertain.testing.proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence
    from datetime import datetime

    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.semantics import Semantics
    from ascertain.testing.conformance.message import Opened, Reply
    from ascertain.testing.conformance.trial import Trial
    from ascertain.testing.fault import Fault

LOOKUP_S: Final = 5.0
_LISTING_S: Final = 20.0
_POLL_S: Final = 0.05
_TRIES: Final = 3
_LATE: Final = (
    "a fact that exists is not found; the last answer: {said}. If it shows later than {within:g} s, "
    "declare a `lag`, or raise the trial's `patience` to have it measured"
)
_READS: Final = (b"GET ", b"HEAD ")


@dataclass
class Bench:
    """One trial under way; ``open_bench`` makes it.

    Attributes:
        opened: What the adapter is, by its own word and the trial's table.
        proxy: None where nothing goes over a socket.
        http: Whether the proxy knows requests and answers.
        unworkable: Whether not even a plain attempt settles.
    """

    trial: Trial
    chosen: KindSettings
    seat: Seat
    proxy: FaultProxy | None
    http: bool
    opened: Opened
    requests: list[bytes]
    seen: Seen = field(default_factory=Seen)
    unworkable: bool = False
    _number: int = 0
    _run: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def declared(self) -> Semantics:
        """The semantics of the adapter and of the trial's table."""
        return self.opened.semantics

    def through(self) -> FaultProxy:
        """The proxy, where there is one."""
        if self.proxy is None:
            raise NotTried("the trial names no outside that a proxy could be put before")
        return self.proxy

    def over_http(self) -> FaultProxy:
        """The proxy, where it speaks HTTP."""
        proxy = self.through()
        if not self.http:
            raise NotTried("the outside does not speak HTTP")
        return proxy

    def makes(self, request: bytes) -> bool:
        """Whether these bytes make a fact."""
        if self.trial.makes is not None:
            return predicate(self.trial.makes)(request)
        return self.http and not request.startswith(_READS)

    def needs_making_request(self) -> None:
        """Go on only where it is known which request makes the fact."""
        self.through()
        if not self.http and self.trial.makes is None:
            raise NotTried("the trial does not say which bytes make the fact (`makes`)")

    def effect(self) -> Effect:
        """An effect that was never heard of."""
        self._number += 1
        task = f"conform-{self._run}-{self._number}"
        return Effect(
            effect_id=keys.effect_id("conform", task, "step", 0),
            task_id=task,
            step="step",
            kind=self.trial.name,
            partition="conform",
            input=self.trial.input(self._number),
        )

    async def prepare(self, effect: Effect) -> Sent:
        """Freeze its bytes."""
        reply = await self.seat.obey(Order(do="prepare", sent=(Sent(effect=effect),)), LOOKUP_S)
        if reply.frozen is None:
            raise Failed(f"prepare raised {reply.raised}: {reply.text}")
        return Sent(effect=effect, frozen=reply.frozen)

    async def fresh(self) -> Sent:
        """A new effect, ready to be sent."""
        return await self.prepare(self.effect())

    async def perform(self, sent: Sent, *, attempt: int = 1, lost: bool = False) -> Attempted:
        """One attempt, as a worker makes it."""
        before = len(self.requests)
        reply = await self._attempt(Order(do="perform", sent=(sent,), attempt=attempt, lost=lost))
        return Attempted.of(reply.outcome, reply, self.requests[before:])

    async def perform_many(self, sent: Sequence[Sent], *, lost: bool = False) -> list[Attempted]:
        """One call for all of them, as a worker makes it."""
        before = len(self.requests)
        reply = await self._attempt(Order(do="perform_many", sent=tuple(sent), lost=lost))
        came_to: Sequence[Outcome | None] = reply.outcomes or [None] * len(sent)
        if reply.outcomes is not None:
            seen = f"perform_many gave {len(came_to)} outcomes of {len(sent)} effects"
            expect(len(came_to) == len(sent), seen)
        return [Attempted.of(each, reply, self.requests[before:]) for each in came_to]

    async def _attempt(self, order: Order) -> Reply:
        reply = await self.seat.obey(order, self.declared.max_duration.total_seconds())
        if isinstance(reply.outcome, Settled | Accepted):
            self.seen.quickest_s = min(reply.took_s, self.seen.quickest_s or reply.took_s)
        return reply

    async def lookup(self, sent: Sent) -> Looked:
        """One question."""
        reply = await self.seat.obey(Order(do="lookup", sent=(sent,), within_s=LOOKUP_S), LOOKUP_S)
        said = "raised" if reply.finding is None else reply.finding.type
        return Looked(said, reply.finding, reply)

    async def listing(self, *, since: datetime | None = None) -> Shown:
        """The outside's whole list.

        Raises:
            NotTried: This kind is not declared so that it could be listed.
        """
        order = Order(do="listing", within_s=_LISTING_S, since=since)
        reply = await self.seat.obey(order, _LISTING_S)
        if reply.raised == Unlisted.__name__:
            raise NotTried(reply.text)
        return Shown(reply.listed, reply)

    async def made(self) -> tuple[Sent, Attempted]:
        """A fact that exists, or work that was accepted.

        A connection of the pool may have been cut by the check before; that costs an attempt its answer.
        """
        tried = None
        for _ in range(_TRIES):
            sent = await self.fresh()
            tried = await self.perform(sent)
            if isinstance(tried.outcome, Settled):
                self.seen.external_ids[sent.id] = tried.outcome.receipt.external_id
                return sent, tried
            if isinstance(tried.outcome, Accepted):
                return sent.model_copy(update={"job_id": tried.outcome.job_id}), tried
        where = (
            ""
            if self.proxy
            else "; the trial names no outside, so `kind` must know the address itself"
        )
        raise Unworkable(f"a plain attempt comes to {tried.told if tried else 'nothing'}{where}")

    async def found(self, sent: Sent) -> Found:
        """Ask until it is found, within the declared lag and the trial's patience."""
        within = self.declared.lag + self.trial.patience
        said = "nothing"
        try:
            async with asyncio.timeout(within.total_seconds() + LOOKUP_S):
                while True:
                    looked = await self.lookup(sent)
                    said = looked.said
                    if isinstance(looked.finding, Found):
                        return looked.finding
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise Failed(_LATE.format(said=said, within=within.total_seconds())) from None

    async def facts(self, effect_id: str, *, at_least: int = 0) -> int:
        """How many facts the outside's books have; waits for the first ones as long as is patient."""
        books = self.trial.facts
        if books is None:
            raise NotTried("the outside's books cannot be read (the trial has no `facts`)")
        deadline = asyncio.get_running_loop().time() + self.trial.patience.total_seconds()
        while (count := await books(effect_id)) < at_least:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_POLL_S)
        return count

    @contextlib.contextmanager
    def fault(
        self, fault: Fault, *, on: Literal["making", "any"] | Callable[[bytes], bool] = "making"
    ) -> Generator[None]:
        """The fault, for every request of that sort, as long as it lasts."""
        proxy = self.through()
        sorts = {"making": self.makes, "any": None}
        rule = proxy.inject(fault, match=sorts[on] if isinstance(on, str) else on)
        try:
            yield
        finally:
            proxy.withdraw(rule)

    @contextlib.asynccontextmanager
    async def unreachable(self) -> AsyncGenerator[None]:
        """The outside refuses connections as long as it lasts."""
        proxy = self.through()
        await proxy.refuse()
        await proxy.cut()
        try:
            yield
        finally:
            await proxy.heal()


@contextlib.asynccontextmanager
async def open_bench(trial: Trial) -> AsyncGenerator[Bench]:
    """Put the proxy before the outside and start the adapter's process.

    Raises:
        InvalidSettings: The trial's table or its adapter is wrong; says what.
    """
    requests: list[bytes] = []
    async with contextlib.AsyncExitStack() as stack:
        proxy, url = None, ""
        http = trial.outside is not None and urlsplit(trial.outside).scheme == "http"
        if trial.outside is not None:
            proxy = await stack.enter_async_context(
                _proxy(trial.outside, requests.append, http=http)
            )
            url = urlsplit(trial.outside)._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
        try:
            chosen = KindSettings.model_validate(dict(trial.kind(url)))
        except ValidationError as error:
            raise InvalidSettings(f"the trial's kind: {faults(error)}") from None
        opening = Opening(kind=trial.name, chosen=chosen, secrets=dict(trial.secrets(url)))
        seat = await stack.enter_async_context(Seat(opening))
        opened = await seat.start()
        yield Bench(trial, chosen, seat, proxy, http, opened, requests)


def _proxy(outside: str, on_request: Callable[[bytes], None], *, http: bool) -> FaultProxy:
    place = urlsplit(outside)
    if place.scheme not in {"http", "tcp"} or place.hostname is None or place.port is None:
        raise InvalidSettings(f"outside {outside!r} must be http://host:port or tcp://host:port")
    protocol: Literal["http", "bytes"] = "http" if http else "bytes"
    return FaultProxy(place.hostname, place.port, protocol=protocol, on_request=on_request)
