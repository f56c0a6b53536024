"""Adapters that are wrong in one way each; but for that they are the one of the tutorial."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta

import aiohttp
import httpx
from letters import Letters, Options

from ascertain.adapters import saying
from ascertain.adapters.sending import Phase, Sending
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Absent, Found, Several
from ascertain.errors import LookupDown


class Repeats(Letters):
    """Tries again by itself when no answer comes."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type != "unknown":
            return came_to
        return await super().perform(call, FreePermit())


class FreePermit:
    def check(self):
        pass


class Redirected(Letters):
    """Sends with a client that follows redirects."""

    async def perform(self, call, permit):
        permit.check()
        request = self.request("POST", call, content=call.frozen)
        async with (
            aiohttp.ClientSession() as session,
            session.post(str(request.url), data=call.frozen, headers=request.headers) as answer,
        ):
            text = await answer.content.read(1 << 20)
        if answer.status != 201:
            return saying.lost("status", "not created")
        return saying.settled(
            Receipt(external_id=httpx.Response(200, content=text).json()["id"]), ""
        )


class NeverLeft(Letters):
    """Takes every fault of the network for 'never left us'."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "unknown" and came_to.evidence.source == "phase":
            return saying.unsent("network", "the network failed")
        return came_to


class Believes(Letters):
    """Takes any success status for a fact."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "unknown" and came_to.error_class == "success_without_proof":
            return saying.settled(Receipt(external_id=call.effect.effect_id), "HTTP 200")
        return came_to


class GivesUp(Letters):
    """Takes a gateway's error for a refusal."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "unknown" and came_to.error_class == "http_504":
            return saying.refused("gateway", "the gateway gave up")
        return came_to


class Unpermitted(Letters):
    """Never asks for its permit."""

    async def perform(self, call, permit):
        return await super().perform(call, FreePermit())


class Blocks(Letters):
    """Holds its event loop up when it is asked to do it again."""

    held = False

    async def perform(self, call, permit):
        if call.attempt == 2 and not self.held:
            self.held = True
            time.sleep(2.5)  # noqa: ASYNC251 - that is the fault
        return await super().perform(call, permit)


class Exits(Letters):
    """Ends its process when an answer is odd."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "unknown" and came_to.error_class == "success_without_proof":
            os._exit(70)
        return came_to


class Overreads(Letters):
    """Reads the whole answer, whatever its size."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.evidence.body.get("truncated"):
            self.read = b"x" * (32 << 20)
        return came_to


class Tells(Letters):
    """Freezes its secret."""

    def prepare(self, effect):
        return super().prepare(effect)[:-1] + b', "token": "tok_s3cret"}'


class Asks(Letters):
    """Makes a request while it freezes."""

    def prepare(self, effect):
        httpx.get(f"{self.options.base_url}/facts", timeout=30)
        return super().prepare(effect)


class Optimist(Letters):
    """Takes what never left for done."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "not_done":
            return saying.settled(Receipt(external_id=call.effect.effect_id), "surely")
        return came_to


class Patient(Letters):
    """Waits as long as it is told to."""

    async def perform(self, call, permit):
        came_to = await super().perform(call, permit)
        if came_to.type == "unknown" and came_to.error_class == "http_429":
            wait = timedelta(seconds=999_999)
            return saying.unsent("throttled", "slowed", retry_after=wait)
        return came_to


class Mixes(Letters):
    """Keeps the effect that it works on in itself."""

    async def perform(self, call, permit):
        self.call = call
        await asyncio.sleep(0.1)
        return await super().perform(self.call, permit)


class Remembers(Letters):
    """Knows only of what its own process has done."""

    def __init__(self, *given):
        super().__init__(*given)
        self.done = set()

    async def perform(self, call, permit):
        self.done.add(call.effect.effect_id)
        return await super().perform(call, permit)

    async def lookup(self, call, *, within):
        if call.effect.effect_id in self.done:
            return await super().lookup(call, within=within)
        return Absent()


class Renames(Letters):
    """Finds a fact under another id than it settled with."""

    async def lookup(self, call, *, within):
        found = await super().lookup(call, within=within)
        if isinstance(found, Found):
            return Found(receipt=Receipt(external_id=call.effect.effect_id))
        return found


class Denies(Letters):
    """Takes an outside that cannot be asked for one that has nothing."""

    async def lookup(self, call, *, within):
        try:
            return await super().lookup(call, within=within)
        except LookupDown:
            return Absent()


class First(Letters):
    """Takes the first of several."""

    async def lookup(self, call, *, within):
        found = await super().lookup(call, within=within)
        if isinstance(found, Several):
            return Found(receipt=Receipt(external_id=found.external_ids[0]))
        return found


class Uncompared(Letters):
    """Does not look at what it finds."""

    async def lookup(self, call, *, within):
        found = await super().lookup(call, within=within)
        if found.type == "differs":
            return Found(receipt=Receipt(external_id=found.external_id))
        return found


class Causes(Letters):
    """Asks by sending."""

    async def lookup(self, call, *, within):
        found = await super().lookup(call, within=within)
        if isinstance(found, Absent):
            exchange = await self.wire.exchange(
                self.request("POST", call, content=call.frozen), within=within, sending=Sending()
            )
            if exchange.phase is Phase.ANSWERED:
                return await super().lookup(call, within=within)
        return found


def create(kind, options, secrets):
    """The adapter that its options name."""
    chosen = dict(options)
    made = globals()[chosen.pop("wrong")]
    return made(Options.model_validate(chosen), secrets)
