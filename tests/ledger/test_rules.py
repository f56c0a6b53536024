"""The rules of an effect's life, held by the database itself against whoever has psql."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import asyncpg
import pytest

from ascertain.contracts.claim import Moved, Stale, Taken
from ascertain.contracts.effect import TERMINAL, State
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.machine import Move, legal_pairs
from ascertain.ports import Ledger
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    LEASE,
    PERSON,
    accepted,
    effect,
    granted,
    in_state,
    moved,
    not_done,
    receipt,
    settled,
    standing,
    unknown,
    verdict,
)

REFUSED = asyncpg.IntegrityConstraintViolationError
# Everything a move needs but the state itself, so that only the pair of states can be what is wrong.
MOVE = """
update ascertain.effects set
    state = $1, version = version + 1, evidence_version = version + 1,
    lease_version = lease_version + ($1 = 'IN_FLIGHT' and state <> 'IN_FLIGHT')::integer,
    attempt = attempt + ($1 = 'IN_FLIGHT' and state <> 'IN_FLIGHT')::integer,
    lease_until = case when $1 = 'UNKNOWN' then least(lease_until, ascertain.clock()) else lease_until end,
    receipt = case when $1 = 'SETTLED' then '{"external_id": "x"}'::jsonb else receipt end,
    external_id = case when $1 = 'SETTLED' then 'x' else external_id end,
    job_id = 'job', taken_by = 'alice'
where effect_id = 'ef1-1'
"""


@pytest.mark.parametrize("start", State)
async def test_the_database_allows_exactly_the_moves_of_the_machine(
    ledger: PostgresLedger, admin: asyncpg.Connection, start: State
) -> None:
    allowed = set()
    await in_state(ledger, start)
    await admin.execute(
        "set session_replication_role = replica;"
        "update ascertain.effects set resend_until = 'infinity';"
        "set session_replication_role = origin"
    )
    for end in State:
        refused = await refusal(admin, end)
        assert refused in {None, "effects_move"}
        if refused is None:
            allowed.add((start, end))
    renewal = {(State.IN_FLIGHT, State.IN_FLIGHT)} if start is State.IN_FLIGHT else set()
    assert allowed == {pair for pair in legal_pairs() if pair[0] is start} | renewal


async def refusal(admin: asyncpg.Connection, end: State) -> str | None:
    """The constraint that refuses the move to a state; None if it is allowed. Nothing is kept."""
    transaction = admin.transaction()
    await transaction.start()
    try:
        await admin.execute(MOVE, end)
    except REFUSED as error:
        return error.constraint_name
    finally:
        await transaction.rollback()
    return None


async def test_the_database_knows_exactly_the_states_of_the_contract(
    admin: asyncpg.Connection,
) -> None:
    text = await admin.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'effects_state_known'"
    )
    assert {word for word in text.split("'") if word.isupper()} == {state.value for state in State}


@pytest.mark.parametrize(
    ("state", "change", "constraint"),
    [
        (State.UNKNOWN, "state = 'SETTLED', version = version + 1", "effects_move"),
        (State.UNKNOWN, "state = 'CLEAR', version = version + 1", "effects_move"),
        (
            State.UNKNOWN,
            "state = 'SETTLED', version = version + 1, evidence_version = version + 1",
            "effects_settled_has_receipt",
        ),
        (
            State.UNKNOWN,
            (
                "state = 'SETTLED', version = version + 1, evidence_version = version + 1, "
                "receipt = '{}', external_id = 'x'"
            ),
            "effects_settled_has_receipt",
        ),
        (State.UNKNOWN, "error_class = 'x'", "effects_move"),
        (State.UNKNOWN, "state = 'CLEAR', evidence_version = version", "effects_move"),
        (
            State.QUARANTINED,
            "state = 'TAKEN_OVER', version = version + 1, evidence_version = version + 1",
            "effects_taken_over_has_taker",
        ),
        (
            State.UNKNOWN,
            "state = 'ACCEPTED', version = version + 1, evidence_version = version + 1",
            "effects_accepted_has_job",
        ),
        (
            State.UNKNOWN,
            "state = 'CLEAR', version = version + 1, evidence_version = version + 1, evidence = '{}'",
            "effects_evidence_names_rule",
        ),
        (
            State.CLEAR,
            "state = 'QUARANTINED', version = version + 2, evidence_version = version + 2",
            "effects_move",
        ),
        (
            State.CLEAR,
            (
                "state = 'QUARANTINED', version = version + 1, evidence_version = version + 1, "
                "lease_version = 0"
            ),
            "effects_move",
        ),
        (
            State.CLEAR,
            (
                "state = 'QUARANTINED', version = version + 1, evidence_version = version + 1, "
                "attempt = 0"
            ),
            "effects_move",
        ),
        (
            State.CLEAR,
            (
                "state = 'IN_FLIGHT', version = version + 1, evidence_version = version + 1, "
                "attempt = attempt + 1"
            ),
            "effects_move",
        ),
        (
            State.CLEAR,
            (
                "state = 'IN_FLIGHT', version = version + 1, evidence_version = version + 1, "
                "lease_version = lease_version + 1"
            ),
            "effects_move",
        ),
        (
            State.UNKNOWN,
            (
                "state = 'IN_FLIGHT', version = version + 1, evidence_version = version + 1, "
                "attempt = attempt + 1, lease_version = lease_version + 1"
            ),
            "effects_move",
        ),
        (
            State.IN_FLIGHT,
            "state = 'UNKNOWN', version = version + 1, evidence_version = version + 1",
            "effects_move",
        ),
        (
            State.IN_FLIGHT,
            "lease_version = lease_version + 1, version = version + 1",
            "effects_move",
        ),
    ],
)
async def test_a_manual_update_that_breaks_a_rule_is_refused(
    ledger: PostgresLedger,
    admin: asyncpg.Connection,
    state: State,
    change: str,
    constraint: str,
) -> None:
    before = await in_state(ledger, state)
    with pytest.raises(REFUSED) as caught:
        await admin.execute(f"update ascertain.effects set {change}")  # noqa: S608  # ours
    assert caught.value.constraint_name == constraint
    assert await standing(ledger) == before


async def test_a_manual_update_that_brings_evidence_is_a_move(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await in_state(ledger, State.UNKNOWN)
    await admin.execute(
        "update ascertain.effects set state = 'CLEAR', version = version + 1, "
        "evidence_version = version + 1, evidence = $1",
        PERSON.model_dump_json(),
    )
    assert (await standing(ledger)).evidence == PERSON


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize("change", ["version = version + 1", "error_class = 'x'", "trace_id = 'y'"])
async def test_a_terminal_row_never_changes(
    ledger: PostgresLedger, admin: asyncpg.Connection, state: State, change: str
) -> None:
    before = await in_state(ledger, state)
    with pytest.raises(REFUSED, match="is final"):
        await admin.execute(f"update ascertain.effects set {change}")  # noqa: S608  # ours
    assert await standing(ledger) == before


@pytest.mark.parametrize(
    "change",
    [
        "effect_id = 'ef1-2'",
        "task_id = 'other'",
        "step = 'other'",
        "revision = 1",
        "kind = 'other'",
        "partition = 'other'",
        "message_id = 'other'",
        "fingerprint = 'other'",
        "frozen = 'other'",
        "first_sent_at = now()",
        "created_at = now()",
        "resend_until = 'infinity'",
    ],
)
async def test_what_was_claimed_never_changes(
    ledger: PostgresLedger, admin: asyncpg.Connection, change: str
) -> None:
    await in_state(ledger, State.IN_FLIGHT)
    with pytest.raises(REFUSED, match="never changes"):
        await admin.execute(f"update ascertain.effects set version = version + 1, {change}")  # noqa: S608  # ours


@pytest.mark.parametrize("statement", ["delete from", "truncate"])
@pytest.mark.parametrize("table", ["effects", "audit_events"])
async def test_nothing_is_ever_forgotten(
    ledger: PostgresLedger, admin: asyncpg.Connection, statement: str, table: str
) -> None:
    await in_state(ledger, State.SETTLED)
    with pytest.raises(REFUSED, match="is refused"):
        await admin.execute(f"{statement} ascertain.{table}")
    assert len(await ledger.audit("ef1-1")) == 2


async def test_an_effect_begins_in_flight_and_nowhere_else(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await in_state(ledger, State.SETTLED)
    copy = (
        "create temp table copied as select * from ascertain.effects;"
        "update copied set effect_id = 'ef1-9', task_id = 'task-9', external_id = 'fact-9';"
        "insert into ascertain.effects select * from copied"
    )
    with pytest.raises(REFUSED, match="begins IN_FLIGHT"):
        await admin.execute(copy)


@pytest.mark.parametrize(
    ("column", "given", "fits"),
    [
        ("effect_id", "Az09._-", True),
        ("effect_id", "e" * 64, True),
        ("effect_id", "e" * 65, False),
        ("effect_id", "", False),
        ("effect_id", "e/1", False),
        ("effect_id", "e1\n", False),
        ("effect_id", "\u00e9", False),
        ("task_id", "Az09._:@/-", True),
        ("task_id", "t" * 128, True),
        ("task_id", "t" * 129, False),
        ("task_id", "", False),
        ("task_id", "-t", False),
        ("task_id", "t 1", False),
        ("task_id", "t1\n", False),
        ("task_id", "\u00e9", False),
    ],
)
async def test_the_database_takes_ids_of_their_shapes_and_no_others(
    ledger: PostgresLedger, admin: asyncpg.Connection, column: str, given: str, fits: bool
) -> None:
    await in_state(ledger, State.IN_FLIGHT)
    await admin.execute(
        "create temp table copied as select * from ascertain.effects;"
        "update copied set effect_id = 'ef1-9', task_id = 'task-9'"
    )
    await admin.execute(f"update copied set {column} = $1", given)  # noqa: S608  # ours
    added = admin.execute("insert into ascertain.effects select * from copied")
    with nullcontext() if fits else pytest.raises(REFUSED) as caught:
        await added
    assert fits or caught.value.constraint_name == f"effects_{column}_shape"


async def test_version_goes_up_by_one_with_every_move(either: Ledger, clock: Clock) -> None:
    lease = await granted(either)
    await either.renew(lease, LEASE)
    await either.record(lease, not_done())
    second = await granted(either)
    await clock.advance(LEASE)
    row = await standing(either)
    await either.fence("ef1-1", row.version, "sweep")
    await either.converge("ef1-1", row.version + 1, verdict(State.SETTLED), "reconcile")
    assert [event.version for event in await either.audit("ef1-1")] == [1, 2, 3, 4, 5, 6]
    assert second.lease_version == 2


async def test_a_fact_outside_proves_one_effect(either: Ledger) -> None:
    await in_state(either, State.SETTLED, "1")
    lease = await granted(either, "2")
    before = await standing(either, "2")
    taken = await either.record(lease, settled("fact-1"))
    assert taken == Taken("fact-1", "ef1-1", "task-1", before)
    assert await standing(either, "2") == before
    assert len(await either.audit("ef1-2")) == 1


async def test_a_fact_that_is_taken_settles_by_no_other_way_either(either: Ledger) -> None:
    await in_state(either, State.SETTLED, "1")
    row = await in_state(either, State.TAKEN_OVER, "2")
    proof = verdict(State.SETTLED, receipt=receipt("fact-1"), evidence=PERSON)
    said = await either.decide("ef1-2", row.version, Move.CONFIRM, proof, "alice")
    assert isinstance(said, Taken)
    row = await in_state(either, State.UNKNOWN, "3")
    found = await either.converge("ef1-3", row.version, proof, "reconcile")
    assert isinstance(found, Taken)
    assert found.effect_id == "ef1-1"


async def test_the_same_fact_of_another_kind_is_another_fact(either: Ledger) -> None:
    await in_state(either, State.SETTLED, "1")
    lease = await granted(either, "2", effect=effect("2", kind="toy.other"))
    assert isinstance(await either.record(lease, settled("fact-1")), Moved)


@pytest.mark.parametrize("state", [State.UNKNOWN, State.ACCEPTED, State.CLEAR])
async def test_doubt_alone_ends_the_lease(either: Ledger, clock: Clock, state: State) -> None:
    outcomes = {State.UNKNOWN: unknown(), State.ACCEPTED: accepted(), State.CLEAR: not_done()}
    lease = await granted(either)
    until = (await standing(either)).lease_until
    row = await moved(either.record(lease, outcomes[state]))
    assert row.lease_until == (row.now if state is State.UNKNOWN else until)


async def test_a_write_by_an_old_version_changes_nothing(either: Ledger) -> None:
    row = await in_state(either, State.UNKNOWN)
    for version in (row.version - 1, row.version + 1):
        found = await either.converge("ef1-1", version, verdict(State.CLEAR), "reconcile")
        assert found == Stale(row)
    assert len(await either.audit("ef1-1")) == row.version


async def test_what_is_taken_over_moves_by_who_took_it_alone(either: Ledger) -> None:
    row = await in_state(either, State.TAKEN_OVER)
    assert row.taken_by == "alice"
    for write in (
        either.decide("ef1-1", row.version, Move.RELEASE, verdict(State.UNKNOWN), "bob"),
        either.converge("ef1-1", row.version, verdict(State.SETTLED), "alice"),
    ):
        assert await write == Stale(row)
    released = await moved(
        either.decide("ef1-1", row.version, Move.RELEASE, verdict(State.UNKNOWN), "alice")
    )
    assert (released.state, released.taken_by) == (State.UNKNOWN, None)


@pytest.mark.parametrize(
    ("move", "state"), [(Move.CONFIRM, State.CLEAR), (Move.SETTLE, State.SETTLED)]
)
async def test_a_decision_that_no_person_can_make_is_refused_before_anything_is_asked(
    either: Ledger, move: Move, state: State
) -> None:
    row = await in_state(either, State.QUARANTINED)
    with pytest.raises(ValueError, match=r"does not lead to|not a person's move"):
        await either.decide("ef1-1", row.version, move, verdict(state), "alice")


async def test_confirming_needs_a_receipt(either: Ledger) -> None:
    row = await in_state(either, State.QUARANTINED)
    proof: Any = verdict(State.SETTLED, receipt=None)
    with pytest.raises(ValueError, match="needs a receipt"):
        await either.decide("ef1-1", row.version, Move.CONFIRM, proof, "alice")


@pytest.mark.parametrize("state", [State.UNKNOWN, State.QUARANTINED, State.TAKEN_OVER])
async def test_what_is_open_survives_a_restart_of_the_worker(
    timeless: str, ledger: PostgresLedger, state: State
) -> None:
    before = await in_state(ledger, state)
    await ledger.aclose()
    again = await open_ledger(timeless)
    try:
        assert await standing(again) == before
    finally:
        await again.aclose()
