"""Settled effects in few bytes: they protect and prove as before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import pytest

from ascertain.contracts.claim import Conflict, Granted, Settled, Stale, Taken
from ascertain.contracts.effect import State
from ascertain.ledger.audit import verify_chain
from ascertain.ledger.model import ModelLedger
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ledger.statement import statement
from ascertain.ledger.write import json_of
from ascertain.machine import Move
from ascertain.ports import EffectFilter
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    SEEN,
    effect,
    granted,
    moved,
    not_done,
    receipt,
    request,
    settled,
    standing,
    unknown,
    verdict,
)
from tests.waiting import wait_until

DAY = timedelta(days=1)
BLOCKED = """
    select count(*) from pg_stat_activity where $1::integer = any (pg_blocking_pids(pid))
"""
T = TypeVar("T")
REFUSED = asyncpg.IntegrityConstraintViolationError


async def archived(ledger: PostgresLedger, name: str = "1", **changes: Any) -> None:
    """An effect that is settled and archived."""
    lease = await granted(ledger, name, **changes)
    await moved(ledger.record(lease, settled(f"fact-{name}", body={"amount": 7})))
    assert (await ledger.upkeep.archive(timedelta(0))).archived == 1


async def count(admin: asyncpg.Connection, table: str) -> int:
    return await admin.fetchval(f"select count(*) from ascertain.{table}")  # noqa: S608 - ours


async def test_what_a_person_confirmed_is_nobody_s_once_it_is_archived(
    ledger: PostgresLedger, clock: Clock
) -> None:
    model = ModelLedger(clock)
    for each in (ledger, model):
        row = await moved(each.record(await granted(each), not_done()))
        row = await moved(
            each.decide("ef1-1", row.version, Move.TAKE, verdict(State.TAKEN_OVER), "alice")
        )
        await moved(
            each.decide("ef1-1", row.version, Move.CONFIRM, verdict(State.SETTLED), "alice")
        )
    await ledger.upkeep.archive(timedelta(0))
    await model.archive(timedelta(0))
    rows = [(await standing(each)).model_dump() for each in (ledger, model)]
    assert rows[0] == rows[1]
    assert rows[0]["taken_by"] is None


async def test_what_is_submitted_again_gets_its_first_result_and_is_not_begun_anew(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await archived(ledger)
    assert (await count(admin, "effects"), await count(admin, "archived_effects")) == (0, 1)
    answer = await ledger.claim(request())
    assert isinstance(answer, Settled)
    assert answer.receipt == receipt("fact-1", body={"amount": 7})
    (told,) = await ledger.claim_many([request()])
    assert isinstance(told, Settled)
    assert told.receipt == answer.receipt


async def test_other_content_under_an_archived_id_step_or_task_is_a_conflict(
    ledger: PostgresLedger,
) -> None:
    first = effect("1", task_fingerprint="t" * 64)
    await archived(ledger, effect=first)
    other = await ledger.claim(request(fingerprint="g" * 64))
    assert other == Conflict(stored="f" * 64, offered="g" * 64)
    renamed = first.model_copy(update={"effect_id": "ef1-other", "revision": 1})
    assert isinstance(await ledger.claim(request(effect=renamed)), Conflict)
    changed = first.model_copy(
        update={"effect_id": "ef1-2", "step": "more", "task_fingerprint": "u" * 64}
    )
    assert await ledger.claim(request(effect=changed)) == Conflict("t" * 64, "u" * 64)
    assert await ledger.claim_many([request(effect=changed), request(effect=renamed)]) == [None] * 2
    further = first.model_copy(update={"effect_id": "ef1-3", "step": "more"})
    assert isinstance(await ledger.claim(request(effect=further)), Granted)
    assert isinstance(await ledger.withdraw(first, "f" * 64, "worker"), Stale)
    assert isinstance(await ledger.withdraw(first, "g" * 64, "worker"), Conflict)


async def test_an_archived_fact_proves_no_second_effect(ledger: PostgresLedger) -> None:
    await archived(ledger)
    lease = await granted(ledger, "2")
    assert await ledger.record_many([(lease, settled("fact-1"))]) == frozenset()
    taken = await ledger.record(lease, settled("fact-1"))
    assert isinstance(taken, Taken)
    assert (taken.external_id, taken.effect_id) == ("fact-1", "ef1-1")
    doubted = await moved(ledger.record(lease, unknown()))
    again = verdict(State.SETTLED, receipt=receipt("fact-1"))
    assert isinstance(await ledger.converge("ef1-2", doubted.version, again, "r"), Taken)
    assert await ledger.proved("toy.fact", ["fact-1", "fact-2"]) == {"fact-1"}


async def test_every_read_shows_an_archived_effect_with_its_whole_trail(
    ledger: PostgresLedger,
) -> None:
    await archived(ledger)
    row = await standing(ledger)
    assert (row.state, row.external_id, row.attempt, row.frozen) == (
        State.SETTLED,
        "fact-1",
        1,
        b"",
    )
    for which in (EffectFilter(task_id="task-1"), EffectFilter(), EffectFilter(kind="toy.fact")):
        assert [found.effect_id for found in await ledger.effects(which)] == ["ef1-1"]
    trail = await ledger.audit("ef1-1")
    assert [event.move for event in trail] == ["claim", "settle"]
    verify_chain(trail, row)
    assert [known.row.effect_id for known in await ledger.trails(EffectFilter())] == ["ef1-1"]
    verified = [found.effect_id async for found, _ in ledger.upkeep.trails()]
    assert verified == ["ef1-1"]
    pages = [page async for page in ledger.upkeep.settled("toy.fact", None, timedelta(0))]
    assert pages == [{"ef1-1": "fact-1"}]
    assert (await ledger.upkeep.standing(["ef1-1"]))["ef1-1"].state is State.SETTLED


async def test_a_late_write_to_an_archived_effect_is_kept_as_evidence(
    ledger: PostgresLedger,
) -> None:
    lease = await granted(ledger)
    await moved(ledger.record(lease, settled("fact-1")))
    await ledger.upkeep.archive(timedelta(0))
    again = await ledger.record(lease, settled("fact-1"))
    assert not isinstance(again, Stale)  # a repeat of what stands is no news
    late = await ledger.record(lease, settled("fact-2"))
    assert isinstance(late, Stale)
    assert isinstance(await ledger.renew(lease, DAY), Stale)
    await ledger.note("ef1-1", "census", verdict(State.CLEAR).evidence)
    moves = [event.move for event in await ledger.audit("ef1-1")]
    assert moves == ["claim", "settle", "refused_write", "refused_write", "note"]
    verify_chain(await ledger.audit("ef1-1"), await standing(ledger))


async def test_only_what_has_been_settled_for_long_is_archived_and_a_dry_run_moves_nothing(
    ledger: PostgresLedger, admin: asyncpg.Connection, clock: Clock
) -> None:
    await moved(ledger.record(await granted(ledger, "1"), settled("fact-1")))
    await moved(ledger.record(await granted(ledger, "2"), not_done()))
    await clock.advance(DAY)
    await moved(ledger.record(await granted(ledger, "3"), settled("fact-3")))
    page = await ledger.upkeep.archive(DAY, moves=False)
    assert (page.seen, page.archived, await count(admin, "archived_effects")) == (3, 1, 0)
    assert (await ledger.upkeep.archive(DAY)).archived == 1
    assert (await ledger.upkeep.archive(DAY)).archived == 0
    assert await count(admin, "effects") == 2
    assert isinstance(await ledger.claim(request("1")), Settled)


async def test_it_goes_page_by_page_and_two_at_once_archive_each_effect_once(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    for number in range(25):
        name = f"{number:02}"
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))

    async def all_pages() -> int:
        moved_, after = 0, ""
        while True:
            page = await ledger.upkeep.archive(timedelta(0), after=after, limit=4)
            moved_, after = moved_ + page.archived, page.last
            if page.seen < 4:
                return moved_

    assert sum(await asyncio.gather(all_pages(), all_pages())) == 25
    assert (await count(admin, "effects"), await count(admin, "archived_effects")) == (0, 25)


async def test_claims_that_come_while_it_is_archived_find_it_settled(
    ledger: PostgresLedger,
) -> None:
    for number in range(10):
        name = str(number)
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))
        answers = await asyncio.gather(
            *(ledger.claim(request(name)) for _ in range(4)),
            ledger.upkeep.archive(timedelta(0)),
            *(ledger.claim(request(name)) for _ in range(4)),
        )
        claims = [*answers[:4], *answers[5:]]
        assert {type(answer) for answer in claims} == {Settled}


async def while_it_is_archived(
    ledger: PostgresLedger, admin: asyncpg.Connection, asked: Coroutine[None, None, T]
) -> T:
    """What a statement comes to that begins while an archive has moved the rows and not committed yet."""
    async with admin.transaction():
        await admin.fetch("select * from ascertain.archive_page('', interval '0', 100, true)")
        asking = asyncio.create_task(asked)
        mine = await admin.fetchval("select pg_backend_pid()")

        async def blocked() -> bool:
            return bool(await admin.fetchval(BLOCKED, mine))

        await wait_until(blocked, what="a statement that waits for the archive")
    return await asking


async def test_a_chunk_that_waits_for_an_archive_begins_nothing_anew(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await moved(ledger.record(await granted(ledger, "1"), settled("fact-1")))
    chunk = ledger.claim_many([request("1"), request("2")])
    answers = await while_it_is_archived(ledger, admin, chunk)
    assert not isinstance(answers[0], Granted)
    assert await count(admin, "effects where task_id = 'task-1'") == 0


async def test_a_claim_that_waits_for_an_archive_finds_it_settled(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await moved(ledger.record(await granted(ledger, "1"), settled("fact-1")))
    answer = await while_it_is_archived(ledger, admin, ledger.claim(request("1")))
    assert isinstance(answer, Settled)


async def test_a_proof_that_waits_for_an_archive_proves_no_second_effect(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await moved(ledger.record(await granted(ledger, "1"), settled("fact-1")))
    lease = await granted(ledger, "2")
    answer = await while_it_is_archived(ledger, admin, ledger.record(lease, settled("fact-1")))
    assert isinstance(answer, Taken)


async def test_a_late_receipt_that_waits_for_an_archive_is_kept_as_evidence(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    lease = await granted(ledger, "1")
    await moved(ledger.record(lease, settled("fact-1")))
    late = await while_it_is_archived(ledger, admin, ledger.record(lease, settled("fact-2")))
    assert isinstance(late, Stale)
    assert late.row is not None
    trail = await ledger.audit("ef1-1")
    assert [told.receipt for told in trail if told.move == "refused_write"] == [receipt("fact-2")]
    verify_chain(trail, await standing(ledger))


async def test_two_who_tell_the_trail_of_what_is_archived_at_once_both_stand_on_it(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await archived(ledger)
    async with admin.transaction():
        await admin.fetch(statement("note"), "ef1-1", "first", json_of(SEEN))
        noting = asyncio.create_task(ledger.note("ef1-1", "second", SEEN))
        mine = await admin.fetchval("select pg_backend_pid()")
        await wait_until(lambda: admin.fetchval(BLOCKED, mine), what="a second note that waits")
    await noting
    trail = await ledger.audit("ef1-1")
    assert [told.actor for told in trail[-2:]] == ["first", "second"]
    verify_chain(trail, await standing(ledger))


@pytest.mark.parametrize(
    "change",
    [
        "delete from ascertain.effects where effect_id = 'ef1-2'",
        "update ascertain.archived_effects set external_id = 'x'",
        "delete from ascertain.archived_effects",
        "truncate ascertain.archived_effects",
        """insert into ascertain.archived_effects
            select effect_id || 'x', task_id || 'x', message_id, step, revision, kind, partition,
                settled_at, version, attempt, lease_version, first_sent_at, fingerprint, task_fingerprint,
                receipt, external_id || 'x', happened_at, trace_id, created_at, archived_at
            from ascertain.archived_effects""",
    ],
)
async def test_the_database_archives_only_what_is_settled_and_lets_nothing_of_it_go(
    ledger: PostgresLedger, admin: asyncpg.Connection, change: str
) -> None:
    await archived(ledger)
    await granted(ledger, "2")
    with pytest.raises(REFUSED):
        await admin.execute(change)
