"""The tutorial's letters in bundles, with a list of all of them: one that is right, and wrong ones."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
from letters import Answer, Letters, Options

from ascertain.adapters import batch, place, saying, template
from ascertain.adapters.batch import BatchForm
from ascertain.adapters.sending import Phase, Sending
from ascertain.adapters.throttle import Throttle
from ascertain.contracts.effect import Receipt
from ascertain.errors import LookupDown
from ascertain.ports import Listed

FORM = BatchForm(
    url=template.parse("/batches"),
    items=place.parse("results"),
    effect_id=place.parse("reference"),
    status=place.parse("code"),
)


class Bundles(Letters):
    """Sends letters in bundles, and lists them."""

    batch_max = 4

    async def perform_many(self, calls, permits):
        exchange = await self.bundle(calls, permits)
        ids = [call.effect.effect_id for call in calls]
        now = datetime.now(UTC)
        return batch.judge_many(exchange, FORM, ids, lambda _: Answer(), Throttle(), now=now)

    async def bundle(self, calls, permits):
        def check_all():
            for permit in permits:
                permit.check()

        content = b'{"items": [' + b",".join(call.frozen for call in calls) + b"]}"
        request = httpx.Request("POST", f"{self.options.base_url}/batches", content=content)
        within = self.options.timeout
        return await self.wire.exchange(request, within=within, sending=Sending(check_all))

    async def listing(self, *, since, within):
        cursor = ""
        while cursor is not None:
            letters, cursor = await self.page(cursor, within)
            yield [self.shown(letter) for letter in letters]

    async def page(self, cursor, within):
        params = {"cursor": cursor} if cursor else {}
        request = httpx.Request("GET", f"{self.options.base_url}/facts", params=params)
        exchange = await self.wire.exchange(request, within=within)
        answer = exchange.json() if exchange.phase is Phase.ANSWERED else None
        if exchange.status != httpx.codes.OK or not isinstance(answer, dict):
            raise LookupDown(f"the letters cannot be listed (HTTP {exchange.status})")
        return answer["data"], answer["cursor"]

    def shown(self, letter):
        return Listed(letter["id"], letter["reference"], stands=letter["status"] == "succeeded")


class OneForAll(Bundles):
    """Takes the first item of the answer for everybody's."""

    async def perform_many(self, calls, permits):
        came_to = await super().perform_many(calls, permits)
        return [came_to[0] for _ in came_to]


class Uneven(Bundles):
    """Asks for one permit only."""

    async def bundle(self, calls, permits):
        return await super().bundle(calls, permits[:1])


class Separate(Bundles):
    """Makes a request for each."""

    async def perform_many(self, calls, permits):
        return [await self.perform(*each) for each in zip(calls, permits, strict=True)]


class Generous(Bundles):
    """Takes the success of the whole for that of each."""

    async def perform_many(self, calls, permits):
        came_to = await super().perform_many(calls, permits)
        return [
            saying.settled(Receipt(external_id=call.effect.effect_id), "HTTP 207")
            if one.type == "unknown" and one.error_class == "not_mentioned"
            else one
            for call, one in zip(calls, came_to, strict=True)
        ]


class Strict(Bundles):
    """Takes the refusal of the whole for that of each."""

    async def perform_many(self, calls, permits):
        came_to = await super().perform_many(calls, permits)
        return [
            saying.refused("batch", "the batch was refused")
            if one.type == "unknown" and one.error_class == "batch_refused"
            else one
            for one in came_to
        ]


class Hopeless(Bundles):
    """Takes a batch whose answer is lost for one that was never sent."""

    async def perform_many(self, calls, permits):
        came_to = await super().perform_many(calls, permits)
        return [
            saying.unsent("network", "the network failed")
            if one.type == "unknown" and one.evidence.source == "phase"
            else one
            for one in came_to
        ]


class Missing(Bundles):
    """Forgets one of the outcomes."""

    async def perform_many(self, calls, permits):
        return (await super().perform_many(calls, permits))[1:]


class FirstPage(Bundles):
    """Lists what is on the first page."""

    async def listing(self, *, since, within):
        letters, _ = await self.page("", within)
        yield [self.shown(letter) for letter in letters]


class HalfList(Bundles):
    """Takes a page that cannot be had for the end."""

    async def page(self, cursor, within):
        try:
            return await super().page(cursor, within)
        except LookupDown:
            return [], None


class Nameless(Bundles):
    """Lists facts under other ids than the lookup gives."""

    def shown(self, letter):
        return Listed(f"letter/{letter['id']}", letter["reference"], stands=True)


def create(kind, options, secrets):
    """The adapter that its options name."""
    chosen = dict(options)
    made = globals()[chosen.pop("wrong")]
    return made(Options.model_validate(chosen), secrets)
