"""Every reference adapter at its real counterpart, as the conformance kit tries it, for whole deployments."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ascertain.contracts.effect import State
from ascertain.testing.conformance.reply import reply
from ascertain.testing.conformance.trial import opened
from ascertain.testing.fault import predicate
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.protocol.kinds import POLICY
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from contextlib import AsyncExitStack

    from pydantic import JsonValue

    from ascertain.testing.conformance import Trial
    from ascertain.testing.fault import Fault, FaultRule
    from tests.protocol.deployment import Deployment

C = TypeVar("C")
T = TypeVar("T")

READS = (b"GET ", b"HEAD ")
# A permit that does not run out on a busy machine; doubt ends it at once.
PATIENT = {"lease": 10, "budget": 30, "retry_base": 0.2, "retry_cap": 1, "ask_cap": 1}


@dataclass(frozen=True)
class Placed:
    """One adapter, and the outside that it reaches through a proxy.

    Attributes:
        proxy: None where nothing goes over a socket.
        table: Of the kind in the deployment file.
    """

    kind: str
    trial: Trial
    proxy: FaultProxy | None
    table: dict[str, Any]
    secrets: dict[str, str]

    @property
    def http(self) -> bool:
        return (self.trial.outside or "").startswith("http:")

    def serve(
        self,
        deployment: Deployment,
        kind: str = "",
        *,
        options: dict[str, Any] | None = None,
        policy: dict[str, Any] | None = None,
        **semantics: Any,
    ) -> None:
        """Add the kind to the deployment file, under its own name or, changed, under another one."""
        declared = {"in_flight_max": 1, **self.table.get("semantics", {}), **semantics}
        served = {
            **self.table,
            "options": {**self.table["options"], **(options or {})},
            # TOML knows no null: a key that lives for no time is none.
            "semantics": {name: 0 if to is None else to for name, to in declared.items()},
            "policy": {**POLICY, **PATIENT, **(policy or {})},
        }
        deployment.settings["kinds"][kind or self.kind] = served
        for name, value in self.secrets.items():
            deployment._environment[f"ASCERTAIN_SECRET_{name}"] = value

    async def facts(self, effect: str) -> int:
        assert self.trial.facts is not None
        return await self.trial.facts(effect)

    def strike(self, fault: Fault, effect: str = "", *, times: int | None = 1) -> FaultRule:
        """A fault for what makes this effect's fact; over HTTP its id stands in the request."""
        assert self.proxy is not None
        return self.proxy.inject(fault, match=self._of(effect, self.makes), times=times)

    def blind(self, fault: Fault, effect: str = "", *, times: int | None = None) -> FaultRule:
        """A fault for what asks for it."""
        assert self.proxy is not None
        asks = lambda request: request.startswith(READS)  # noqa: E731
        return self.proxy.inject(fault, match=self._of(effect, asks), times=times)

    def makes(self, request: bytes) -> bool:
        if self.trial.makes is not None:
            return predicate(self.trial.makes)(request)
        return not request.startswith(READS)

    def _of(self, effect: str, sort: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        return lambda request: sort(request) and (not self.http or effect.encode() in request)


async def placed(stack: AsyncExitStack, kind: str, given: object) -> Placed:
    """Open a trial and put a proxy before its outside."""
    trial = await stack.enter_async_context(opened(given))
    proxy, url = None, ""
    if trial.outside is not None:
        place = urlsplit(trial.outside)
        assert place.hostname is not None
        assert place.port is not None
        protocol = "http" if place.scheme == "http" else "bytes"
        # One that nobody else is given while it refuses connections.
        port = free_port()
        proxy = await stack.enter_async_context(
            FaultProxy(place.hostname, place.port, protocol=protocol, port=port)
        )
        url = place._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
    return Placed(kind, trial, proxy, dict(trial.kind(url)), dict(trial.secrets(url)))


class Street:
    """A deployment with a worker that serves all of them, and where its tasks stand."""

    def __init__(self, deployment: Deployment, outsides: dict[str, Placed], numbers: Iterator[int]):
        self.deployment = deployment
        self.outsides = outsides
        self._numbers = numbers

    def task(self) -> tuple[str, str]:
        """The id of a task that was never heard of, and of its effect."""
        task = f"case-{next(self._numbers)}"
        return task, self.deployment.effect(task)

    async def submit(self, name: str, task: str, *, kind: str = "", **content: Any) -> str:
        """Start it with an input of its own, or with this one."""
        at = self.outsides[name]
        given = content or at.trial.input(next(self._numbers))
        step = {"name": "do", "kind": kind or at.kind, "input": given}
        return await self.deployment.submit(task, step)

    async def ended(self, name: str, effect: str) -> tuple[State, int]:
        """Where it came to rest, and how many facts there are then."""
        return (await ended(self.deployment, effect)).state, await self.outsides[name].facts(effect)

    async def asked_in_vain(self, effect: str) -> None:
        """Wait until it is in doubt and its outside could not be asked."""
        row = await self.deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)

        async def noticed() -> bool:
            return row.kind in {one.kind for one in await self.deployment.ledger.outages()}

        await wait_until(noticed, 80, what="an outage")
        assert (await self.deployment.row(effect)).state is State.UNKNOWN


async def ended(deployment: Deployment, effect: str) -> Any:
    """Its row, once nothing moves it any more but a person."""
    rest = {State.SETTLED, State.QUARANTINED, State.REFUSED}
    return await deployment.wait_for_row(effect, lambda row: row.state in rest)


DONE = (State.SETTLED, 1)
PERSON = (State.QUARANTINED, 1)
FOUND = ["claim", "doubt", "find"]
AGAIN = ["claim", "doubt", "find_absent", "claim", "settle"]
# Who can be asked; one of each sort.
ASKED = ("stripe", "object", "sql")


def said(status: int, content: JsonValue) -> bytes:
    """A whole reply with JSON."""
    return reply(status, json.dumps(content).encode(), {"Content-Type": "application/json"})


async def all_of(cases: Iterable[C], one: Callable[[C], Awaitable[T]]) -> dict[C, T]:
    """What came of each, all at once."""
    return dict(zip(cases, await asyncio.gather(*map(one, cases)), strict=True))
