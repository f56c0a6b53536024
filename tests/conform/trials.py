"""The adapters that come with Ascertain, each on trial at a real counterpart."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx

from ascertain.adapters.target import STATEMENTS
from ascertain.testing.conformance import Trial
from ascertain.testing.knob import Dedupe, Knobs, LookupKnobs
from ascertain.testing.outside import Outside
from tests.adapters.consumer import SIGNING, consumer
from tests.adapters.localstripe_process import localstripe
from tests.adapters.mail_server import mail_server
from tests.adapters.model_api import model_api
from tests.adapters.notes import FACTS, OPTIONS
from tests.adapters.object_store import IDS, object_store

MAKES = str(Path(__file__).parents[1] / "adapters" / "makes.py")
KEY = "sk_test_s3cret"


def port_of(url):
    return urlsplit(url).port


SMALL_PAGES = LookupKnobs(page_size=5)
CENSUS = {name: OPTIONS["lookup"][name] for name in ("url", "items", "paging", *FACTS)}
del CENSUS["differs"]
BATCH = {"url": "/batches", "body": "items", "items": "results"}


@asynccontextmanager
async def http():
    async with Outside(Knobs(dedupe=Dedupe(by="key_and_body"), lookup=SMALL_PAGES)) as outside:

        async def facts(effect_id):
            return len(outside.books.facts_of(effect_id))

        yield Trial(
            kind=lambda url: {
                "adapter": "http",
                "options": {**OPTIONS, "base_url": url, "timeout": 2, "census": CENSUS},
                "semantics": {"idempotent_for": "PT24H", "compares_bodies": True},
            },
            secrets=lambda _: {"KEY": KEY},
            input=lambda number: {"text": "hello", "amount": number},
            outside=outside.url,
            facts=facts,
        )


@asynccontextmanager
async def http_in_batches():
    """One request cannot carry the keys of many, so there is none."""
    request = {name: OPTIONS["request"][name] for name in ("method", "url", "json")}
    batch = {**BATCH, "effect_id": "reference", "status": "code"}
    async with http() as trial:
        yield replace(
            trial,
            kind=lambda url: {
                "adapter": "http",
                "options": {
                    **trial.kind(url)["options"],
                    "request": request,
                    "batch": batch,
                },
            },
        )


@asynccontextmanager
async def stripe():
    """localstripe ignores keys, so none is declared."""
    async with (
        localstripe() as shop,
        httpx.AsyncClient(base_url=shop, headers={"Authorization": f"Bearer {KEY}"}) as books,
    ):

        async def facts(effect_id):
            listed = (await books.get("/v1/payment_intents", params={"limit": 1000})).json()["data"]
            return sum(one["metadata"].get("effect_id") == effect_id for one in listed)

        yield Trial(
            kind=lambda url: {
                "adapter": "stripe",
                "options": {"api_base": url, "api_key": "secret:KEY", "timeout": 2},
                "semantics": {"idempotent_for": None, "compares_bodies": False, "lag": 0},
            },
            secrets=lambda _: {"KEY": KEY},
            input=lambda number: {
                "amount": 1000 + number,
                "currency": "EUR",
                "payment_method": "pm_card_visa",
            },
            outside=shop,
            facts=facts,
            name="stripe.charge",
        )


@asynccontextmanager
async def smtp():
    async with mail_server() as server:

        async def facts(effect_id):
            return server.mails_of(effect_id)

        yield Trial(
            kind=lambda url: {
                "adapter": "smtp",
                "options": {
                    "host": "127.0.0.1",
                    "port": port_of(url),
                    "sender": "shop@example.com",
                    "encryption": "none",
                    "timeout": 2,
                },
            },
            input=lambda number: {
                "to": ["ann@example.org"],
                "subject": f"mail {number}",
                "text": "Hello",
            },
            outside=f"tcp://127.0.0.1:{server.port}",
            makes=rb"(^|\n)\.\r\n$",
            facts=facts,
        )


@asynccontextmanager
async def s3():
    async with object_store() as store:

        async def facts(effect_id):
            return (await store.names()).count(effect_id)

        yield Trial(
            kind=lambda url: {
                "adapter": "object",
                "options": {**store.options(port_of(url)), "key": "{effect_id}", "timeout": 2},
            },
            secrets=lambda _: IDS,
            input=lambda number: {"text": f"object {number}"},
            outside=store.url,
            facts=facts,
            proof="status",
        )


def folder(place):
    async def facts(effect_id):
        return len(list(place.glob(effect_id)))

    return Trial(
        kind=lambda _: {
            "adapter": "object",
            "options": {"url": f"file://{place}", "key": "{effect_id}"},
        },
        input=lambda number: {"text": f"object {number}"},
        facts=facts,
    )


def sql(url):
    @asynccontextmanager
    async def opened():
        books = await asyncpg.connect(url)
        await books.execute("create table notes (reference text, text text)")
        await books.execute(STATEMENTS["create_table"])

        async def facts(effect_id):
            return await books.fetchval(
                "select count(*) from notes where reference = $1", effect_id
            )

        yield Trial(
            kind=lambda _: {
                "adapter": "sql",
                "options": {
                    "url": "secret:BANK",
                    "timeout": 2,
                    "statements": [
                        {
                            "sql": "insert into notes values ($1, $2)",
                            "parameters": ["{effect_id}", "{input.text}"],
                        }
                    ],
                },
            },
            secrets=lambda address: {
                "BANK": url.replace(f":{port_of(url)}/", f":{port_of(address)}/")
            },
            input=lambda number: {"text": f"note {number}"},
            outside=f"tcp://127.0.0.1:{port_of(url)}",
            makes=rb"COMMIT",
            facts=facts,
        )
        await books.close()

    return opened


def command(place):
    async def facts(effect_id):
        return len(list(place.glob(f"{effect_id}.txt")))

    return Trial(
        kind=lambda _: {
            "adapter": "command",
            "options": {
                "program": [sys.executable, MAKES, "{input.words}", "{output}", "no"],
                "output": "made.txt",
                "publish": {"url": f"file://{place}", "key": "{effect_id}.txt"},
            },
        },
        input=lambda number: {"words": f"picture {number}"},
        facts=facts,
        compares=False,
    )


def generate(place):
    @asynccontextmanager
    async def opened():
        async with model_api() as api:

            async def facts(effect_id):
                billed = (one["metadata"].get("effect_id") for one in api.billed)
                return list(billed).count(effect_id)

            yield Trial(
                kind=lambda url: {
                    "adapter": "generate",
                    "options": {
                        "base_url": url,
                        "api_key": "secret:KEY",
                        "request": {"model": "m-1", "input": "{input.prompt}"},
                        "publish": {"url": f"file://{place}"},
                        "timeout": 2,
                        "wire": {"max_body_bytes": 1 << 20},
                    },
                },
                secrets=lambda _: {"KEY": KEY},
                input=lambda number: {"prompt": f"poem {number}"},
                outside=api.url,
                facts=facts,
                compares=False,
            )

    return opened


@asynccontextmanager
async def webhook():
    async with consumer() as told:

        async def facts(effect_id):
            return told.of(effect_id)

        yield Trial(
            kind=lambda url: {
                "adapter": "webhook",
                "options": {
                    "url": url,
                    "source": "https://shop.example.com",
                    "sign": ["secret:HOOK"],
                    "timeout": 2,
                },
            },
            secrets=lambda _: {"HOOK": SIGNING},
            input=lambda number: {"type": "com.example.order.paid", "data": {"number": number}},
            outside=told.url,
            facts=facts,
            proof="status",
        )


def compute():
    return Trial(
        kind=lambda _: {
            "adapter": "compute",
            "options": {"function": "tests.adapters.formula:double"},
        },
        input=lambda number: {"number": number},
    )
