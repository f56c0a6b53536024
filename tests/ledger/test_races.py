"""Many at once: one is granted, one fact proves one effect, and what waited sees what was committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from ascertain.contracts.claim import Busy, Conflict, Granted, Moved, Paused, Taken, Unresolved
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.ledger.audit import verify_chain
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from tests.ledger.steps import (
    SEEN,
    effect,
    granted,
    in_state,
    not_done,
    request,
    settled,
    standing,
    unknown,
    verdict,
)
from tests.waiting import wait_until

CROWD = 50
# Longer than any crowd takes on a busy machine, so that no claim is met past its lease by chance.
LONG = timedelta(minutes=10)
ROUNDS = 6


@pytest.fixture
async def crowded(database: str) -> AsyncIterator[PostgresLedger]:
    """A ledger over so many connections that statements really meet."""
    opened = await open_ledger(database, connections=30, timeout_s=30, command_timeout_s=30)
    yield opened
    await opened.aclose()


@pytest.fixture
async def psql(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def waiting(psql: asyncpg.Connection, kind: str) -> bool:
    """Whether a statement of the ledger waits for a lock of this kind."""
    return await psql.fetchval(
        "select exists (select from pg_stat_activity where application_name = 'ascertain' "
        "and datname = current_database() and wait_event_type = 'Lock' and wait_event = any ($1))",
        [kind] if kind == "advisory" else ["transactionid", "tuple"],
    )


async def test_of_many_first_claims_one_is_granted(crowded: PostgresLedger) -> None:
    for number in range(ROUNDS):
        name = str(number)
        answers = await asyncio.gather(
            *(
                crowded.claim(request(name, owner=f"w/{owner}", lease=LONG))
                for owner in range(CROWD)
            )
        )
        won = [answer for answer in answers if isinstance(answer, Granted)]
        assert len(won) == 1
        lost = [answer for answer in answers if not isinstance(answer, Granted)]
        assert {type(answer) for answer in lost} == {Busy}
        assert len(await crowded.audit(f"ef1-{name}")) == 1


async def test_of_many_next_claims_one_is_granted(crowded: PostgresLedger) -> None:
    lease = await granted(crowded, lease=LONG)
    for number in range(ROUNDS):
        await crowded.record(lease, not_done())
        answers = await asyncio.gather(
            *(
                crowded.claim(request(owner=f"w/{owner}", budget=99, lease=LONG))
                for owner in range(CROWD)
            )
        )
        (won,) = [answer for answer in answers if isinstance(answer, Granted)]
        assert won.lease.attempt == won.lease.lease_version == number + 2
        lease = won.lease
    verify_chain(await crowded.audit("ef1-1"), await standing(crowded))


async def test_of_many_resends_one_is_granted(crowded: PostgresLedger) -> None:
    await crowded.record(await granted(crowded, resend_for=timedelta.max), unknown())
    question = {"resend": True, "resend_for": timedelta.max, "lease": LONG}
    asked = [request(owner=f"w/{owner}", **question) for owner in range(CROWD)]
    answers = await asyncio.gather(*map(crowded.claim, asked))
    assert sum(isinstance(answer, Granted) for answer in answers) == 1


async def test_many_who_meet_a_claim_past_its_lease_fence_it_once(
    crowded: PostgresLedger, psql: asyncpg.Connection
) -> None:
    await granted(crowded)
    await psql.execute(
        "set session_replication_role = replica;"
        "update ascertain.effects set lease_until = now() - interval '1 second'"
    )
    answers = await asyncio.gather(
        *(crowded.claim(request(owner=f"w/{owner}")) for owner in range(CROWD))
    )
    assert all(isinstance(answer, Unresolved) for answer in answers)
    assert [event.move for event in await crowded.audit("ef1-1")] == ["claim", "fence"]


async def test_of_many_effects_with_one_fact_one_is_settled(crowded: PostgresLedger) -> None:
    leases = [await granted(crowded, str(number)) for number in range(20)]
    written = await asyncio.gather(
        *(crowded.record(lease, settled("the one fact")) for lease in leases)
    )
    (winner,) = [answer.row.effect_id for answer in written if isinstance(answer, Moved)]
    losers = [answer for answer in written if isinstance(answer, Taken)]
    assert {answer.effect_id for answer in losers} == {winner}
    assert len(losers) == 19


async def test_of_two_revisions_of_a_step_one_is_live(crowded: PostgresLedger) -> None:
    for number in range(ROUNDS):
        task = f"task-{number}"
        revisions = [
            effect(f"{number}-{revision}", task_id=task, revision=revision) for revision in range(9)
        ]
        answers = await asyncio.gather(
            *(crowded.claim(request(effect=revision)) for revision in revisions)
        )
        assert sum(isinstance(answer, Granted) for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 8


async def test_writes_that_meet_leave_one_unbroken_chain(crowded: PostgresLedger) -> None:
    lease = await granted(crowded)
    await crowded.record(lease, not_done())
    await asyncio.gather(
        *(crowded.note("ef1-1", f"r/{number}", SEEN) for number in range(CROWD)),
        *(crowded.record(lease, settled(f"fact-{number}")) for number in range(CROWD)),
        *(crowded.claim(request(owner=f"w/{number}")) for number in range(CROWD)),
    )
    trail = await crowded.audit("ef1-1")
    assert len(trail) >= 2 * CROWD + 2
    verify_chain(trail, await standing(crowded))


async def test_a_claim_that_waited_sees_the_late_receipt_that_was_committed_meanwhile(
    crowded: PostgresLedger, psql: asyncpg.Connection, database: str
) -> None:
    row = await in_state(crowded, State.CLEAR)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select from ascertain.effects for update")
        claim = asyncio.create_task(crowded.claim(request(owner="w/2")))
        await wait_until(lambda: waiting(psql, "row"))
        await other.execute(
            "insert into ascertain.audit_events (effect_id, move, actor, version, lease_version, "
            "attempt, evidence, receipt, at) values ('ef1-1', 'refused_write', 'zombie', 2, 1, 1, "
            "'{}', '{}', now())"
        )
    await other.close()
    answer = await claim
    assert isinstance(answer, Unresolved)
    assert answer.row.version == row.version


async def test_a_claim_that_waited_sees_the_pause_that_was_committed_meanwhile(
    crowded: PostgresLedger, psql: asyncpg.Connection, database: str
) -> None:
    await in_state(crowded, State.CLEAR)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select from ascertain.effects for update")
        claim = asyncio.create_task(crowded.claim(request(owner="w/2")))
        await wait_until(lambda: waiting(psql, "row"))
        await crowded.set_gate(pause("p"))
    await other.close()
    assert isinstance(await claim, Paused)


async def test_a_pause_waits_for_the_claims_that_missed_it_and_for_no_others(
    crowded: PostgresLedger, psql: asyncpg.Connection, database: str
) -> None:
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select ascertain.closed_gate('p')")
        change = asyncio.create_task(crowded.set_gate(pause("p")))
        await wait_until(lambda: waiting(psql, "advisory"))
        elsewhere = effect("2", partition="q")
        assert isinstance(await crowded.claim(request("2", effect=elsewhere)), Granted)
        assert not change.done()
    await other.close()
    assert (await change).paused


async def test_a_claim_that_waited_judges_by_the_row_as_it_was_left(
    crowded: PostgresLedger, psql: asyncpg.Connection, database: str
) -> None:
    lease = await granted(crowded)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select from ascertain.effects for update")
        record = asyncio.create_task(crowded.record(lease, unknown()))
        await wait_until(lambda: waiting(psql, "row"))
        claim = asyncio.create_task(crowded.claim(request(owner="w/2")))
        found = asyncio.create_task(
            crowded.converge("ef1-1", 1, verdict(State.QUARANTINED), "reconcile")
        )
        await wait_until(lambda: all_wait(psql, 3))
    await other.close()
    assert isinstance(await record, Moved)
    assert not isinstance(await claim, Granted)
    assert not isinstance(await found, Moved)
    trail = await crowded.audit("ef1-1")
    verify_chain(trail, await standing(crowded))
    times = [event.at for event in trail]
    assert times == sorted(times)


async def test_a_chunk_that_is_asked_for_again_while_its_first_try_is_under_way_is_granted_once(
    crowded: PostgresLedger, psql: asyncpg.Connection, database: str
) -> None:
    asked = [request(name, owner="w", lease=LONG) for name in ("1", "2")]
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select ascertain.lock_gate('p')")
        tries = [asyncio.create_task(crowded.claim_many(asked)) for _ in range(2)]
        await wait_until(lambda: all_wait(psql, 2))
    await other.close()
    first, second = await asyncio.gather(*tries)
    leases = [
        [told.lease for told in each if isinstance(told, Granted)] for each in (first, second)
    ]
    assert leases[0] == leases[1]
    assert [lease.effect_id for lease in leases[0]] == ["ef1-1", "ef1-2"]
    assert [len(await crowded.audit(lease.effect_id)) for lease in leases[0]] == [1, 1]


async def test_one_gate_request_that_is_sent_many_times_at_once_is_applied_once(
    crowded: PostgresLedger,
) -> None:
    gates = await asyncio.gather(*(crowded.set_gate(pause("p")) for _ in range(20)))
    assert sum(not gate.already_applied for gate in gates) == 1
    assert all(gate.paused for gate in gates)


async def all_wait(psql: asyncpg.Connection, count: int) -> bool:
    return count == await psql.fetchval(
        "select count(*) from pg_stat_activity where application_name = 'ascertain' "
        "and datname = current_database() and wait_event_type = 'Lock'"
    )


def pause(partition: str) -> GateChange:
    return GateChange(
        partition=partition, paused=True, by="alice", reason="incident", request_id="pause-1"
    )
