"""Events as a consumer sees them, with the libraries that consumers use."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import Webhook

from ascertain.adapters.webhook import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings, InvalidTask, PermitLost
from starter.process import free_port
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.consumer import OTHER, SIGNING, Consumer, consumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ascertain.adapters.webhook import WebhookAdapter
    from ascertain.contracts.effect import Effect

KIND = "order.notify"
INPUT = {
    "type": "com.example.order.paid",
    "subject": "order-7",
    "time": "2026-01-02T03:04:05Z",
    "data": {"total": 1999, "who": "Ännchen"},
}
WHAT = effect(KIND, INPUT)
INSTANT = datetime(2026, 1, 2, tzinfo=UTC)


@asynccontextmanager
async def telling(
    url: str, secrets: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[WebhookAdapter]:
    given = {"url": url, "source": "https://shop.example.com", "sign": ["secret:HOOK"]}
    known = {"HOOK": SIGNING, "NEXT": OTHER} if secrets is None else secrets
    adapter = create(KIND, {**given, **options}, GivenSecrets(known))
    try:
        yield adapter
    finally:
        await adapter.aclose()


@pytest.fixture
async def told() -> AsyncIterator[Consumer]:
    async with consumer() as told:
        yield told


async def perform(adapter: WebhookAdapter, what: Effect = WHAT) -> outcome.Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def test_a_consumer_reads_a_signed_event_that_carries_the_effects_id(told: Consumer):
    async with telling(told.url) as adapter:
        came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Settled)
    assert came_to.receipt.external_id == WHAT.effect_id
    (event,) = told.events
    assert event["id"] == WHAT.effect_id
    assert event["source"] == "https://shop.example.com"
    assert (event["type"], event["subject"]) == (INPUT["type"], "order-7")
    assert event["time"] == "2026-01-02T03:04:05+00:00"
    assert event.data == INPUT["data"]
    assert told.headers[0]["webhook-id"] == WHAT.effect_id


async def test_both_secrets_sign_while_consumers_change_over(told: Consumer):
    told.secret = OTHER
    async with telling(told.url, sign=["secret:HOOK", "secret:NEXT"]) as adapter:
        assert isinstance(await perform(adapter), outcome.Settled)
    assert told.of(WHAT.effect_id) == 1


async def test_every_attempt_tells_the_same_event_under_a_signature_of_its_moment(told: Consumer):
    told.status = 500
    async with telling(told.url) as adapter:
        frozen = adapter.prepare(effect(KIND, {"type": "x"}))
        for attempt in (1, 2):
            await adapter.perform(call(WHAT, frozen, attempt=attempt), GivenPermit())
    first, second = told.events
    assert first["id"] == second["id"]
    assert first["time"] == second["time"]


def test_the_signature_is_that_of_the_specification():
    signed = Webhook(SIGNING).sign("ef1-x", INSTANT, "{}")
    adapter = create(
        KIND,
        {"url": "http://h", "source": "s", "sign": ["secret:HOOK"]},
        GivenSecrets({"HOOK": SIGNING}),
    )
    headers = adapter._headers("ef1-x", int(INSTANT.timestamp()), b"{}")
    assert headers["webhook-signature"] == signed


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, outcome.Settled),
        (202, outcome.Settled),
        (204, outcome.Settled),
        (302, outcome.Unknown),
        (401, outcome.NotDone),
        (409, outcome.Unknown),
        (410, outcome.Refused),
        (429, outcome.Unknown),
        (500, outcome.Unknown),
        (503, outcome.NotDone),
    ],
)
async def test_what_a_consumers_answer_means(told: Consumer, status: int, kind: type):
    told.status = status
    later = [{"status": [503], "means": "refused_before_work"}]
    async with telling(told.url, answers=later) as adapter:
        came_to = await perform(adapter)
    assert type(came_to) is kind
    assert SIGNING not in came_to.model_dump_json()


async def test_what_never_left_us_is_not_done(told: Consumer):
    async with telling(f"http://127.0.0.1:{free_port()}") as adapter:
        assert isinstance(await perform(adapter), outcome.NotDone)
    for secrets in ({}, {"HOOK": "whsec_no base64"}):
        async with telling(told.url, secrets) as adapter:
            assert isinstance(await perform(adapter), outcome.NotDone)
    async with telling(told.url) as adapter:
        with pytest.raises(PermitLost):
            await adapter.perform(call(WHAT, adapter.prepare(WHAT)), GivenPermit(lost=True))
    assert told.events == []


async def test_a_consumer_cannot_be_asked_and_nothing_is_promised_for_it():
    async with telling("http://h") as adapter:
        found = await adapter.lookup(call(WHAT, b""), within=WITHIN)
        assert isinstance(found, finding.Unknowable)
        assert adapter.semantics.lookup is None
        assert adapter.semantics.resend_for is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"type": ""},
        {"type": "a\nb"},
        {"type": "x", "id": "mine"},
        {"type": "x", "time": "soon"},
    ],
)
async def test_input_that_makes_no_event_is_refused(content: dict[str, Any]):
    async with telling("http://h") as adapter:
        with pytest.raises(InvalidTask):
            adapter.prepare(effect(KIND, content))


@pytest.mark.parametrize(
    "changes", [{"sign": []}, {"sign": ["whsec_xyz"]}, {"url": "ftp://h"}, {"url": "http://u:p@h"}]
)
def test_a_deployment_that_cannot_work_is_refused_when_it_is_read(changes: dict[str, Any]):
    given = {"url": "http://h", "source": "s", "sign": ["secret:HOOK"], **changes}
    with pytest.raises(InvalidSettings):
        create(KIND, given, GivenSecrets())
