"""An adapter that breaks its contract in the way that its options say."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta

import aiohttp

from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.finding import Absent, Found
from ascertain.contracts.outcome import Settled
from ascertain.contracts.semantics import LookupBy, Semantics

PROOF = Evidence(source="answer", rule="proof")
SECRET = "sk-never-shown"


class OddError(BaseException):
    """What no adapter should raise."""


class OddAdapter:
    """Makes its fact as it should, and goes wrong before or after."""

    semantics = Semantics(
        lookup=LookupBy.REFERENCE,
        in_flight_max=timedelta(seconds=1),
        max_duration=timedelta(seconds=2),
    )

    def __init__(self, way, url):
        self._way = way
        self._url = url

    def prepare(self, effect):
        if self._way == "prepare raises":
            raise KeyError(SECRET)
        if self._way == "prepares text":
            return "text"
        size = 300_000 if self._way == "prepares too much" else 10
        return b"x" * size

    async def perform(self, call, permit):
        first = call.attempt == 1
        if self._way == "blocks the loop before" and first:
            time.sleep(2.5)  # noqa: ASYNC251 - that is the fault
        if self._way == "kills its worker every time":
            os._exit(70)
        permit.check()
        reference = call.effect.effect_id
        body = {"reference": reference, "amount": 1}
        async with (
            aiohttp.ClientSession(headers={"Idempotency-Key": reference}) as session,
            session.post(f"{self._url}/facts", json=body) as answer,
        ):
            fact = await answer.json()
        return self._go_wrong(fact["id"], first)

    def _go_wrong(self, fact, first):
        """What comes after the fact is made."""
        match self._way:
            case "raises no Exception":
                raise OddError(SECRET)
            case "cancels itself":
                raise asyncio.CancelledError(SECRET)
            case "exits":
                raise SystemExit(SECRET)
            case "raises at length":
                raise RuntimeError("x" * 3_000_000)
            case "gives nothing":
                return None
            case "blocks the loop after":
                time.sleep(2.5)
            case "kills its worker" if first:
                os._exit(70)
        return self._told(fact)

    def _told(self, fact):
        match self._way:
            case "tells too much":
                body, seen = {"id": fact, "page": "x" * 5_000_000}, {"page": "x" * 3_000_000}
                evidence = Evidence(source="answer", rule="proof", body=seen)
                return Settled(receipt=Receipt(external_id=fact, body=body), evidence=evidence)
            case "tells what cannot be written":
                body, seen = {"half": "\ud83d", "id": fact}, "\ud83d" * 9999
                evidence = Evidence(source="answer", rule="proof", detail=seen)
                return Settled(receipt=Receipt(external_id=fact, body=body), evidence=evidence)
            case "names what cannot be written":
                return Settled(receipt=Receipt(external_id="\ud83d"), evidence=PROOF)
        return Settled(receipt=Receipt(external_id=fact), evidence=PROOF)

    async def lookup(self, call, *, within):
        params = {"reference": call.effect.effect_id}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}/facts", params=params) as answer,
        ):
            facts = (await answer.json())["data"]
        return Found(receipt=Receipt(external_id=facts[0]["id"])) if facts else Absent()

    async def aclose(self):
        pass


def create(kind, options, secrets):
    return OddAdapter(options["way"], options["url"])
