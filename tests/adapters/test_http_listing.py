"""A listing is read to its end, or it says nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ascertain.adapters.http import create
from ascertain.contracts import finding
from ascertain.errors import LookupDown
from ascertain.ports import Call
from ascertain.testing.knob import Answer, Knobs, LookupKnobs, Rule
from ascertain.testing.outside import Outside
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.raw_server import Peer, raw_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ascertain.adapters.declared import DeclaredAdapter

KIND = "note.create"
OURS = effect(KIND, {"amount": 5})
REQUEST = {
    "method": "POST",
    "url": "/facts",
    "json": {"reference": "{effect_id}", "amount": "{input.amount}"},
}
PROOF = {"external_id": "id", "equals": {"reference": "{effect_id}"}}
LISTING: dict[str, Any] = {
    "by": "listing",
    "lag": "PT0S",
    "url": "/facts",
    "items": "data",
    "match": {"reference": "{effect_id}"},
    "external_id": "id",
}
BY_CURSOR = {"param": "cursor", "next": "cursor"}
BY_LAST_ITEM = {"param": "cursor", "last_item": "id", "more": "has_more"}
BY_NUMBER = {"param": "page", "first_page": 1}


@contextlib.asynccontextmanager
async def adapter_at(
    base: str, paging: dict[str, Any] | None, **lookup: Any
) -> AsyncIterator[DeclaredAdapter]:
    form = {k: v for k, v in (LISTING | {"paging": paging} | lookup).items() if v is not None}
    options = {"base_url": base, "request": REQUEST, "proof": PROOF, "lookup": form}
    adapter = create(KIND, options, GivenSecrets())
    try:
        yield adapter
    finally:
        await adapter.aclose()


async def ask(adapter: DeclaredAdapter, within: timedelta = WITHIN) -> finding.Finding:
    return await adapter.lookup(call(OURS, adapter.prepare(OURS)), within=within)


async def commit(adapter: DeclaredAdapter, count: int) -> None:
    for number in range(count):
        other = effect(KIND, {"amount": 5}, task=f"other-{number}")
        await adapter.perform(call(other, adapter.prepare(other)), GivenPermit())


async def test_a_fact_on_the_last_of_many_pages_is_found():
    async with (
        Outside(Knobs(lookup=LookupKnobs(page_size=3))) as outside,
        adapter_at(outside.url, BY_CURSOR) as adapter,
    ):
        await commit(adapter, 10)
        assert isinstance(await ask(adapter), finding.Absent)
        await adapter.perform(call(OURS, adapter.prepare(OURS)), GivenPermit())
        assert isinstance(await ask(adapter), finding.Found)


async def test_a_listing_that_breaks_off_is_not_absent():
    async with (
        Outside(Knobs(lookup=LookupKnobs(page_size=3))) as outside,
        adapter_at(outside.url, BY_CURSOR) as adapter,
    ):
        await commit(adapter, 10)
        broken = LookupKnobs(reply=Answer(status=503), page_size=3)
        outside.rules.add(Rule(attempt=3, lookup=broken))
        with pytest.raises(LookupDown, match="HTTP 503"):
            await ask(adapter)


async def test_a_later_page_that_is_gone_is_not_absent():
    async with (
        Outside(Knobs(lookup=LookupKnobs(page_size=3))) as outside,
        adapter_at(outside.url, BY_CURSOR, absent=[404]) as adapter,
    ):
        await commit(adapter, 10)
        outside.rules.add(
            Rule(attempt=3, lookup=LookupKnobs(reply=Answer(status=404), page_size=3))
        )
        with pytest.raises(LookupDown, match="HTTP 404"):
            await ask(adapter)


async def test_a_listing_that_lasts_too_long_is_not_absent():
    slow = LookupKnobs(page_size=1, reply=Answer(after_s=0.1))
    async with (
        Outside(Knobs(lookup=slow)) as outside,
        adapter_at(outside.url, BY_CURSOR) as adapter,
    ):
        await commit(adapter, 20)
        with pytest.raises(LookupDown):
            await ask(adapter, within=timedelta(seconds=0.5))


async def test_a_fact_that_fits_but_does_not_name_the_effect_is_for_a_person():
    async with (
        Outside() as outside,
        adapter_at(outside.url, BY_CURSOR, match={"amount": "{input.amount}"}) as adapter,
    ):
        assert isinstance(await ask(adapter), finding.Absent)
        await commit(adapter, 1)
        found = await ask(adapter)
        assert isinstance(found, finding.Unknowable)
        assert found.candidates == (outside.books.facts[0].id,)


@contextlib.asynccontextmanager
async def listing(
    pages: Callable[[dict[str, list[str]]], Any],
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server whose page is a function of the query."""
    asked: list[str] = []

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).line.split(" ")[1]
            asked.append(target)
            body = json.dumps(pages(parse_qs(urlsplit(target).query))).encode()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    async with raw_server(script) as server:
        yield server.url("").rstrip("/"), asked


def item(number: int) -> dict[str, Any]:
    return {"id": f"f{number}", "reference": OURS.effect_id if number == 7 else "other"}


def by_last_item(query: dict[str, list[str]]) -> Any:
    after = int(query.get("cursor", ["f-1"])[0][1:])
    page = [item(number) for number in range(after + 1, min(after + 4, 10))]
    return {"data": page, "has_more": after + 4 < 10}


def by_number(query: dict[str, list[str]]) -> Any:
    first = 3 * (int(query["page"][0]) - 1)
    return {"data": [item(number) for number in range(first, min(first + 3, 10))]}


@pytest.mark.parametrize(
    ("pages", "paging", "requests"), [(by_last_item, BY_LAST_ITEM, 4), (by_number, BY_NUMBER, 5)]
)
async def test_other_ways_of_paging_are_read_to_the_end(
    pages: Any, paging: dict[str, Any], requests: int
):
    async with listing(pages) as (url, asked), adapter_at(url, paging) as adapter:
        found = await ask(adapter)
        assert isinstance(found, finding.Found)
        assert found.receipt.external_id == "f7"
        assert len(asked) == requests


@pytest.mark.parametrize(
    ("answer", "paging", "words"),
    [
        ({"data": [], "cursor": "again"}, BY_CURSOR, "circle"),
        ({"data": [{"id": "f1"}], "has_more": True}, BY_LAST_ITEM, "circle"),
        ({"data": [], "cursor": ["no", "cursor"]}, BY_CURSOR, "not say from where"),
        ({"data": [], "has_more": True}, BY_LAST_ITEM, "not say from where"),
        ({"data": [{"id": "f1"}]}, BY_LAST_ITEM, "whether it is all"),
        ({"data": [{"id": "f1"}]}, BY_NUMBER | {"max_pages": 4}, "longer than 4 pages"),
        ({"data": {"id": "f1"}, "cursor": None}, BY_CURSOR, "no list at data"),
        ({"data": [{"reference": OURS.effect_id}], "cursor": None}, BY_CURSOR, "no id at id"),
        ([], BY_CURSOR, "no list at data"),
        (None, BY_CURSOR, "not JSON"),
    ],
)
async def test_a_listing_that_does_not_end_well_says_nothing(
    answer: Any, paging: dict[str, Any], words: str
):
    async with listing(lambda _: answer) as (url, _), adapter_at(url, paging) as adapter:
        with pytest.raises(LookupDown, match=words):
            await ask(adapter)


ONE: dict[str, Any] = {
    "by": "key",
    "url": "/facts/{effect_id}",
    "items": None,
    "differs": {"sha256": "{body_sha256}"},
}


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ({"reference": OURS.effect_id, "sha256": "same"}, finding.Found),
        ({"reference": OURS.effect_id, "sha256": "other"}, finding.Differs),
        ({"reference": "somebody else's", "sha256": "same"}, finding.Differs),
    ],
)
async def test_what_stands_at_our_address_is_compared(fact: dict[str, Any], kind: type):
    adapter_digest: list[str] = []

    def pages(query: dict[str, list[str]]) -> Any:
        digest = adapter_digest[0] if fact["sha256"] == "same" else fact["sha256"]
        return fact | {"id": "f1", "sha256": digest}

    async with listing(pages) as (url, _), adapter_at(url, None, **ONE) as adapter:
        body = json.loads(adapter.prepare(OURS))["body"]
        adapter_digest.append(hashlib.sha256(body.encode()).hexdigest())
        assert isinstance(await ask(adapter), kind)


async def test_a_lookup_asks_since_the_first_possible_send_where_that_was_before_it_was_prepared():
    """A ledger that was restored prepares anew what may have been sent long ago."""
    params = {"since": "{since}", "unix": "{since_unix}"}
    async with (
        listing(lambda _: {"data": [], "cursor": None}) as (url, asked),
        adapter_at(url, BY_CURSOR, params=params) as adapter,
    ):
        for first in (datetime(2026, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)):
            call = Call(OURS, adapter.prepare(OURS), 1, first_sent_at=first)
            await adapter.lookup(call, within=timedelta(seconds=5))
        since = [parse_qs(urlsplit(one).query) for one in asked]
        assert [query["since"] for query in since] == [
            ["2025-12-31T23:00:00+00:00"],
            ["1970-01-01T00:00:00+00:00"],
        ]
        assert [query["unix"] for query in since] == [["1767222000"], ["0"]]


async def test_a_lookup_can_ask_since_the_effect_was_prepared():
    params = {"since": "{since}", "unix": "{since_unix}"}
    async with (
        listing(lambda _: {"data": [], "cursor": None}) as (url, asked),
        adapter_at(url, BY_CURSOR, params=params) as adapter,
    ):
        prepared = json.loads(adapter.prepare(OURS))["prepared_at"]
        await ask(adapter)
        query = parse_qs(urlsplit(asked[0]).query)
        assert 0 <= int(query["unix"][0]) - (prepared - 3600) <= 5
        assert query["since"][0].endswith("+00:00")
