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
from ascertain.errors import InvalidSettings
from ascertain.settings import KindSettings
from ascertain.testing.conformance.message import Opening, Order, Reply
from ascertain.testing.conformance.seat import Seat
from ascertain.testing.fault import predicate
from ascertain.testing.proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.semantics import Semantics
    from ascertain.testing.conformance.trial import Trial
    from ascertain.testing.fault import Fault

LOOKUP_S: Final = 5.0
_POLL_S: Final = 0.05
_TRIES: Final = 3
_LATE: Final = (
    "a fact that exists is not found; the last answer: {said}. If it shows later than {within:g} s, "
    "declare a `lag`, or raise the trial's `patience` to have it measured"
)
_READS: Final = (b"GET ", b"HEAD ")


class Failed(Exception):
    """The check does not hold; says what was seen."""


class Unworkable(Failed):
    """Not even a plain attempt settles, so that nothing else can be tried."""


class NotTried(Exception):
    """The check cannot be made here; says why."""


def expect(holds: bool, seen: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Let the check fail unless it holds."""
    if not holds:
        raise Failed(seen)


@dataclass(frozen=True)
class Sent:
    """An effect with its frozen bytes."""

    effect: Effect
    frozen: str
    job_id: str | None = None

    @property
    def id(self) -> str:
        """The effect's id."""
        return self.effect.effect_id


@dataclass(frozen=True)
class Attempted:
    """What one attempt came to.

    Attributes:
        said: The outcome's type; ``raised`` for an exception, ``permit_lost`` for that one.
        requests: What the proxy saw meanwhile.
    """

    said: str
    outcome: Outcome | None
    reply: Reply
    requests: tuple[bytes, ...]

    @property
    def doubted(self) -> bool:
        """Whether it is UNKNOWN: the adapter says so, or says nothing that counts."""
        return self.said in {"unknown", "raised"}

    @property
    def told(self) -> str:
        """In words."""
        word = getattr(self.outcome, "error_class", "")
        more = f" ({word})" if word else f" ({self.reply.raised})" if self.reply.raised else ""
        return f"{self.said}{more}"


@dataclass(frozen=True)
class Looked:
    """What one lookup came to; ``raised`` for any exception: LookupDown, to a worker."""

    said: str
    finding: Finding | None
    reply: Reply


@dataclass
class Seen:
    """What was measured on the way; None: not yet, or not to be measured."""

    key_honoured: bool | None = None
    key_honoured_for_s: float | None = None
    key_forgotten_after_s: float | None = None
    compares_bodies: bool | None = None
    lookup_finds: bool | None = None
    lag_s: float | None = None


@dataclass
class Bench:
    """One trial under way; ``open_bench`` makes it.

    Attributes:
        declared: The semantics of the adapter and of the trial's table.
        proxy: None where nothing goes over a socket.
        http: Whether the proxy knows requests and answers.
        unworkable: Whether not even a plain attempt settles.
    """

    trial: Trial
    chosen: KindSettings
    seat: Seat
    proxy: FaultProxy | None
    http: bool
    declared: Semantics
    requests: list[bytes]
    seen: Seen = field(default_factory=Seen)
    unworkable: bool = False
    _number: int = 0
    _run: str = field(default_factory=lambda: secrets.token_hex(3))

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
        reply = await self.seat.obey(Order(id=0, do="prepare", effect=effect), LOOKUP_S)
        if reply.frozen is None:
            raise Failed(f"prepare raised {reply.raised}: {reply.text}")
        return Sent(effect, reply.frozen)

    async def fresh(self) -> Sent:
        """A new effect, ready to be sent."""
        return await self.prepare(self.effect())

    async def perform(self, sent: Sent, *, attempt: int = 1, lost: bool = False) -> Attempted:
        """One attempt, as a worker makes it."""
        before = len(self.requests)
        order = Order(
            id=0, do="perform", effect=sent.effect, frozen=sent.frozen, attempt=attempt, lost=lost
        )
        reply = await self.seat.obey(order, self.declared.max_duration.total_seconds())
        said: str = "raised" if reply.outcome is None else reply.outcome.type
        if reply.raised == "PermitLost":
            said = "permit_lost"
        return Attempted(said, reply.outcome, reply, tuple(self.requests[before:]))

    async def lookup(self, sent: Sent) -> Looked:
        """One question."""
        order = Order(
            id=0,
            do="lookup",
            effect=sent.effect,
            frozen=sent.frozen,
            job_id=sent.job_id,
            within_s=LOOKUP_S,
        )
        reply = await self.seat.obey(order, LOOKUP_S)
        said = "raised" if reply.finding is None else reply.finding.type
        return Looked(said, reply.finding, reply)

    async def made(self) -> tuple[Sent, Attempted]:
        """A fact that exists, or work that was accepted.

        A connection of the pool may have been cut by the check before; that costs an attempt its answer.
        """
        tried = None
        for _ in range(_TRIES):
            sent = await self.fresh()
            tried = await self.perform(sent)
            if isinstance(tried.outcome, Settled):
                return sent, tried
            if isinstance(tried.outcome, Accepted):
                return Sent(sent.effect, sent.frozen, tried.outcome.job_id), tried
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
    def fault(self, fault: Fault, *, on: Literal["making", "any"] = "making") -> Generator[None]:
        """The fault, for every request of that sort, as long as it lasts."""
        proxy = self.through()
        rule = proxy.inject(fault, match=self.makes if on == "making" else None)
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
        declared = await seat.start()
        yield Bench(trial, chosen, seat, proxy, http, declared, requests)


def _proxy(outside: str, on_request: Callable[[bytes], None], *, http: bool) -> FaultProxy:
    place = urlsplit(outside)
    if place.scheme not in {"http", "tcp"} or place.hostname is None or place.port is None:
        raise InvalidSettings(f"outside {outside!r} must be http://host:port or tcp://host:port")
    protocol: Literal["http", "bytes"] = "http" if http else "bytes"
    return FaultProxy(place.hostname, place.port, protocol=protocol, on_request=on_request)
