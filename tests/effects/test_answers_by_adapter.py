"""What an answer proves, or its absence, on the adapters that people use, at their real counterparts."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.conformance.reply import error, success
from ascertain.testing.fault import CutReply, DropReply, DropRequest, Substitute
from tests.effects.outsides import AGAIN, ASKED, DONE, FOUND, PERSON, all_of, said

if TYPE_CHECKING:
    pass

LOST = DropReply("reset")
LARGE = 5 << 20


@pytest.mark.parametrize(
    ("fault", "moves"),
    [(LOST, FOUND), (DropRequest("reset"), AGAIN)],
    ids=["done", "never arrived"],
)
async def test_a_lost_answer_is_found_and_what_never_arrived_is_sent_once_more(
    street, fault, moves
):
    async def one(name):
        task, effect = street.task()
        rule = street.outsides[name].strike(fault, effect)
        await street.submit(name, task)
        assert (await street.deployment.result(task)).outcome is TaskOutcome.DONE
        assert rule.fired == 1
        return await street.ended(name, effect), await street.deployment.moves(effect)

    assert await all_of(ASKED, one) == dict.fromkeys(ASKED, (DONE, moves))


async def test_what_never_left_is_sent_without_a_question_once_the_outside_is_there(street):
    names = ("stripe", "generate", "webhook", "smtp", "sql")

    async def one(name):
        task, effect = street.task()
        at = street.outsides[name]
        await at.proxy.refuse()
        await at.proxy.cut()
        await street.submit(name, task)
        row = await street.deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
        await at.proxy.heal()
        assert row.evidence.source == "phase", row.evidence
        ended = await street.ended(name, effect)
        return ended, {"doubt", "find_absent"} & set(await street.deployment.moves(effect))

    assert await all_of(names, one) == dict.fromkeys(names, (DONE, set()))


async def test_a_gateway_that_gave_up_is_doubt_and_is_asked_or_a_person_is(street):
    async def one(case):
        name, status = case
        task, effect = street.task()
        street.outsides[name].strike(Substitute(error(status)), effect)
        await street.submit(name, task)
        return await street.ended(name, effect)

    ends = {"stripe": DONE, "object": DONE, "generate": PERSON, "webhook": PERSON}
    cases = list(product(ends, (408, 499, 502, 503, 504)))
    assert await all_of(cases, one) == {case: ends[case[0]] for case in cases}


async def test_who_is_slowed_down_waits_a_sane_time_and_is_done_once(street):
    waits = ("-5", "0.493", "soon", "999999")

    async def one(name, wait):
        task, effect = street.task()
        slowed = Substitute(error(429, {"Retry-After": wait}), forwarded=False)
        street.outsides[name].strike(slowed, effect)
        await street.submit(name, task)
        deployment = street.deployment
        if wait == "999999":
            row = await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
            return timedelta(0) < row.retry_at - row.now < timedelta(hours=1)
        assert await street.ended(name, effect) == DONE
        return await deployment.moves(effect) == ["claim", "clear", "claim", "settle"]

    asked = [("stripe", wait) for wait in waits]
    assert all(await asyncio.gather(*(one(*each) for each in asked)))


async def test_a_model_that_is_busy_has_taken_nothing_and_is_asked_again(street):
    task, effect = street.task()
    busy = Substitute(error(429, {"Retry-After": "0.493"}), forwarded=False)
    street.outsides["generate"].strike(busy, effect)
    await street.submit("generate", task)
    assert await street.ended("generate", effect) == DONE
    assert await street.deployment.moves(effect) == ["claim", "clear", "claim", "accept", "find"]


async def test_a_success_status_without_its_proof_settles_nothing(street):
    failed = success(b'{"error": {"code": "internal"}}')
    answers = {
        "error in the body": Substitute(failed),
        "and nothing done": Substitute(failed, forwarded=False),
        "cut off": CutReply(keep_bytes=-1),
        "empty": Substitute(success(b"")),
    }

    async def one(case):
        name, what = case
        task, effect = street.task()
        street.outsides[name].strike(answers[what], effect)
        await street.submit(name, task)
        return *(await street.ended(name, effect)), await street.deployment.moves(effect)

    found = await all_of(list(product(("stripe", "generate"), answers)), one)
    nothing = "and nothing done"
    for what in answers:
        moves = AGAIN if what == nothing else FOUND
        assert found["stripe", what] == (*DONE, moves), what
        person = (State.QUARANTINED, int(what != nothing), ["claim", "doubt", "quarantine"])
        assert found["generate", what] == person, what


async def test_accepted_work_that_is_not_known_yet_is_waited_for_and_never_bought_twice(street):
    task, effect = street.task()
    unknown = said(404, {"error": {"code": "not_found"}})
    early = street.outsides["generate"].blind(Substitute(unknown, forwarded=False), times=1)
    await street.submit("generate", task)
    assert await street.ended("generate", effect) == DONE
    assert early.fired == 1
    assert await street.deployment.moves(effect) == ["claim", "accept", "find"]


async def test_an_answer_too_large_to_keep_settles_once_by_a_lookup_or_by_its_status(street):
    large = {
        "stripe": success(json.dumps({"id": "x" * LARGE}).encode()),
        "webhook": success(b"x" * LARGE, "text/plain"),
    }

    async def one(name):
        task, effect = street.task()
        street.outsides[name].strike(Substitute(large[name]), effect)
        await street.submit(name, task)
        result = await street.deployment.result(task)
        assert len(result.model_dump_json()) < 10_000
        return await street.ended(name, effect), await street.deployment.moves(effect)

    assert await all_of(large, one) == {
        "stripe": (DONE, FOUND),
        "webhook": (DONE, ["claim", "settle"]),
    }


async def test_a_generation_too_large_to_keep_goes_to_a_person_and_is_not_bought_again(street):
    task, effect = street.task()
    answer = {"id": "resp", "status": "completed", "output": "x" * (2 << 20)}
    street.outsides["generate"].blind(Substitute(said(200, answer), forwarded=False), times=1)
    await street.submit("generate", task)
    assert await street.ended("generate", effect) == PERSON
    row = await street.deployment.row(effect)
    assert "max_body_bytes" in row.evidence.detail
    assert row.job_id is not None
