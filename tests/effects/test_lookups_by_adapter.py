"""What keys and lookups prove on the adapters that people use, at their real counterparts."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest

from ascertain.contracts.census import Discord
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.conformance.reply import error, reply, success
from ascertain.testing.fault import DropReply, OnReply, Substitute
from tests.adapters.object_store import SIGNED
from tests.effects.outsides import AGAIN, ASKED, DONE, FOUND, PERSON, all_of, said
from tests.protocol.test_census import taken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pydantic import JsonValue

    from ascertain.testing.fault import ReplyFault

LOST = DropReply("reset")
NOTHING_LISTED = success(b'{"object": "list", "data": [], "has_more": false}')
NO_SUCH_KEY = reply(404, b"<Error><Code>NoSuchKey</Code></Error>", {"Content-Type": "text/xml"})
RECORD = "insert into ascertain_effects (effect_id, request_sha256) values ($1, $2)"


@pytest.fixture
async def bank(street) -> AsyncIterator[asyncpg.Connection]:
    """The target database of ``sql`` itself."""
    url = street.outsides["sql"].secrets["BANK"]
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


def listed(change: Callable[[JsonValue], None]) -> Substitute:
    """The outside's own JSON answer, of which something is changed."""

    def changed(whole: bytes) -> bytes:
        answer = json.loads(whole.partition(b"\r\n\r\n")[2])
        change(answer)
        return said(200, answer)

    return Substitute(changed)


async def test_a_second_attempt_that_meets_our_own_object_is_looked_up_and_settled(street):
    at, (task, effect) = street.outsides["object"], street.task()
    puts = at.strike(LOST, effect)
    again = []

    def shows_none(request: bytes) -> bool:
        """Until a second attempt has been made."""
        if effect.encode() not in request:
            return False
        if at.makes(request) and puts.fired:
            again.append(request)
        return request.startswith(b"GET") and not again

    at.proxy.inject(Substitute(NO_SUCH_KEY, forwarded=False), match=shows_none)
    await street.submit("object", task)
    assert await street.ended("object", effect) == DONE
    assert await street.deployment.moves(effect) == [*AGAIN[:-1], "doubt", "find"]


async def test_another_object_of_that_name_goes_to_a_person_with_both_digests(street):
    at, (task, effect) = street.outsides["object"], street.task()
    path = f"/outside/{effect}"
    foreign = b"somebody else's"
    async with httpx.AsyncClient(base_url=at.trial.outside, headers=SIGNED) as books:
        (await books.put(path, content=foreign)).raise_for_status()
        await street.submit("object", task)
        assert await street.ended("object", effect) == PERSON
        assert (await books.get(path)).content == foreign
    row = await street.deployment.row(effect)
    assert row.error_class == "differs"
    assert row.evidence.body["expected"]["sha256"] != row.evidence.body["found"]["sha256"]


async def test_a_record_of_another_change_goes_to_a_person_with_both_digests(street, bank):
    task, effect = street.task()
    await bank.execute(RECORD, effect, "0" * 64)
    await street.submit("sql", task)
    assert await street.ended("sql", effect) == (State.QUARANTINED, 0)
    row = await street.deployment.row(effect)
    assert row.error_class == "differs"
    assert row.evidence.body["found"] == {"sha256": "0" * 64}
    assert row.evidence.body["expected"] != row.evidence.body["found"]


async def test_a_key_that_holds_another_request_or_is_in_use_is_looked_up_and_never_replaced(
    street,
):
    reasons = {
        "key_reused": said(400, {"error": {"type": "idempotency_error"}}),
        "in_progress": said(409, {"error": {"code": "idempotency_key_in_use"}}),
    }

    async def one(reason):
        task, effect = street.task()
        street.outsides["stripe"].strike(Substitute(reasons[reason]), effect)
        await street.submit("stripe", task)
        assert await street.ended("stripe", effect) == DONE
        doubt = (await street.deployment.ledger.audit(effect))[1]
        return doubt.evidence.rule, await street.deployment.moves(effect)

    assert await all_of(reasons, one) == {reason: (reason, FOUND) for reason in reasons}


async def test_a_consumer_whose_key_is_in_use_is_told_again_under_the_same_id(street):
    task, effect = street.task()
    rule = street.outsides["webhook"].strike(Substitute(said(409, {})), effect)
    await street.submit("webhook", task, kind="order.repeat")
    assert await street.ended("webhook", effect) == (State.SETTLED, 2)
    assert rule.fired == 1
    assert await street.deployment.moves(effect) == ["claim", "doubt", "resend", "settle"]


async def test_a_key_that_protects_no_more_is_not_used_and_a_lookup_or_a_person_tells(street):
    async def asked():
        task, effect = street.task()
        at = street.outsides["stripe"]
        at.strike(LOST, effect)
        down = at.blind(Substitute(error(503), forwarded=False))
        await street.submit("stripe", task, kind="short.charge")
        await street.deployment.wait_for_row(effect, lambda row: row.now > row.resend_until)
        at.proxy.withdraw(down)
        return await street.ended("stripe", effect), await street.deployment.moves(effect)

    async def told():
        task, effect = street.task()
        lost = street.outsides["webhook"].strike(LOST, effect, times=None)
        await street.submit("webhook", task, kind="order.short")
        state, facts = await street.ended("webhook", effect)
        assert (await street.deployment.row(effect)).error_class == "key_expired"
        assert facts == lost.fired
        return state

    found, state = await asyncio.gather(asked(), told())
    assert (found, state) == ((DONE, FOUND), State.QUARANTINED)


async def test_an_empty_answer_within_the_lag_proves_nothing(street):
    hidden = {
        "stripe": ("late.charge", NOTHING_LISTED),
        "object": ("late.publish", NO_SUCH_KEY),
    }

    async def one(name):
        kind, nothing = hidden[name]
        task, effect = street.task()
        at = street.outsides[name]
        at.strike(LOST, effect)
        # A listing is of everybody's; an object has the effect's id in its name.
        empty = at.blind(
            Substitute(nothing, forwarded=False), effect if name == "object" else "", times=2
        )
        await street.submit(name, task, kind=kind)
        ended = await street.ended(name, effect)
        return ended, await street.deployment.moves(effect), empty.fired

    assert await all_of(hidden, one) == dict.fromkeys(hidden, (DONE, FOUND, 2))


async def test_while_an_outside_cannot_be_asked_its_effect_stays_in_doubt(street):
    async def one(name):
        at, (task, effect) = street.outsides[name], street.task()

        async def goes_away(request: bytes) -> ReplyFault:
            """The fact is there; from now on nobody gets through."""
            del request
            await at.proxy.refuse()
            await at.proxy.cut()
            return LOST

        at.strike(OnReply(goes_away), effect)
        await street.submit(name, task)
        await street.asked_in_vain(effect)
        await at.proxy.heal()
        return await street.ended(name, effect), await street.deployment.moves(effect)

    assert await all_of(ASKED, one) == dict.fromkeys(ASKED, (DONE, FOUND))


async def test_a_fact_whose_name_two_effects_share_proves_one_and_the_other_goes_to_a_person(
    street,
):
    shared = {
        "object": ("shared.publish", {"text": "same"}, "differs"),
        "command": ("shared.transcode", {"words": "same"}, "unknowable"),
    }

    async def one(name):
        kind, content, _ = shared[name]
        (first, _), (second, effect) = street.task(), street.task()
        await street.submit(name, first, kind=kind, **content)
        assert (await street.deployment.result(first)).outcome is TaskOutcome.DONE
        await street.submit(name, second, kind=kind, **content)
        state, _ = await street.ended(name, effect)
        why = (await street.deployment.row(effect)).error_class
        return state, why, await street.outsides[name].facts("same")

    expected = {name: (State.QUARANTINED, why, 1) for name, (_, _, why) in shared.items()}
    assert await all_of(shared, one) == expected


async def test_what_is_not_final_closes_nothing_and_what_changes_later_is_a_discrepancy(street):
    at, (task, effect) = street.outsides["stripe"], street.task()

    def status(value):
        def change(answer):
            # A list, or the one that is asked for once its own id is known.
            for one in answer.get("data", [answer]):
                if one["metadata"].get("effect_id") == effect:
                    one["status"] = value

        return listed(change)

    at.strike(LOST, effect)
    worked_on = at.blind(status("processing"), times=2)
    await street.submit("stripe", task)
    assert await street.ended("stripe", effect) == DONE
    assert worked_on.fired == 2
    reversed_ = at.blind(status("canceled"))
    (report,) = await taken(street.deployment, at.kind)
    at.proxy.withdraw(reversed_)
    told = {(one.discord, one.effect_id) for one in report.discrepancies}
    assert (Discord.CHANGED, effect) in told
    assert (await street.deployment.row(effect)).state is State.SETTLED
    assert await at.facts(effect) == 1
