"""The audit trail cannot be changed, and whoever changes it all the same is found out."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest
from hypothesis import given, settings, strategies as st
from pydantic_core import from_json

from ascertain.contracts.effect import State
from ascertain.errors import BrokenChain
from ascertain.ledger.audit import jsonb_text, verify_chain
from ascertain.ledger.postgres import PostgresLedger
from ascertain.machine import Move
from tests.ledger.steps import (
    ANSWER,
    PERSON,
    granted,
    moved,
    not_done,
    settled,
    standing,
    unknown,
    verdict,
)

# Integers beyond a double stay exact on both sides, floats are what Python reads back.
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


async def told(ledger: PostgresLedger) -> None:
    """Write a trail of five events with everything that an event can hold."""
    lease = await granted(ledger)
    await ledger.record(lease, unknown())
    row = await moved(ledger.converge("ef1-1", 2, verdict(State.CLEAR), "reconcile"))
    await ledger.record(lease, settled("late", body={"b": 1.50, "aa": {"é": [1e22, None]}}))
    said = verdict(State.TAKEN_OVER, evidence=PERSON)
    await ledger.decide("ef1-1", row.version, Move.TAKE, said, "alice")


async def test_a_trail_that_was_written_verifies(ledger: PostgresLedger) -> None:
    await told(ledger)
    trail = await ledger.audit("ef1-1")
    assert [event.seq for event in trail] == [1, 2, 3, 4, 5]
    verify_chain(trail, await standing(ledger))


@pytest.mark.parametrize("statement", ["update", "delete", "truncate"])
async def test_the_trail_is_append_only(
    ledger: PostgresLedger, admin: asyncpg.Connection, statement: str
) -> None:
    await told(ledger)
    text = {
        "update": "update ascertain.audit_events set actor = 'nobody'",
        "delete": "delete from ascertain.audit_events",
        "truncate": "truncate ascertain.audit_events",
    }[statement]
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await admin.execute(text)
    assert len(await ledger.audit("ef1-1")) == 5


@pytest.mark.parametrize(
    "tampering",
    [
        "update ascertain.audit_events set actor = 'nobody' where seq = 2",
        'update ascertain.audit_events set evidence = \'{"source": "person", "rule": "x"}\' where seq = 2',
        "update ascertain.audit_events set receipt = null where seq = 4",
        "update ascertain.audit_events set at = at + interval '1 microsecond' where seq = 2",
        "update ascertain.audit_events set move = 'clear' where seq = 2",
        "update ascertain.audit_events set to_state = 'CLEAR' where seq = 2",
        "update ascertain.audit_events set lease_version = 9 where seq = 2",
        "update ascertain.audit_events set hash = sha256('forged') where seq = 2",
        "delete from ascertain.audit_events where seq = 2",
        "delete from ascertain.audit_events where seq = 1",
        (
            "update ascertain.audit_events set seq = seq + 1000; "
            "update ascertain.audit_events set seq = seq - 1001 where seq > 1001; "
            "delete from ascertain.audit_events where seq > 1000"
        ),
        (
            "update ascertain.audit_events set seq = 15 - seq where seq in (2, 3);"
            "update ascertain.audit_events set seq = seq - 10 where seq > 10"
        ),
    ],
)
async def test_a_superuser_who_changes_the_trail_is_found_out(
    ledger: PostgresLedger, admin: asyncpg.Connection, tampering: str
) -> None:
    await told(ledger)
    await admin.execute(
        f"set session_replication_role = replica; {tampering}; set session_replication_role = origin"
    )
    with pytest.raises(BrokenChain) as caught:
        verify_chain(await ledger.audit("ef1-1"))
    assert caught.value.effect_id == "ef1-1"
    assert caught.value.seq <= 4


async def test_a_cut_end_and_a_change_without_an_event_show_against_the_row(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await told(ledger)
    row = await standing(ledger)
    cut = (await ledger.audit("ef1-1"))[:-1]
    verify_chain(cut)
    with pytest.raises(BrokenChain, match="ends at version 3"):
        verify_chain(cut, row)
    await admin.execute(
        "update ascertain.effects set state = 'UNKNOWN', version = version + 1, "
        "evidence_version = version + 1"
    )
    with pytest.raises(BrokenChain, match="stands at version 5"):
        verify_chain(await ledger.audit("ef1-1"), await standing(ledger))


async def test_a_trail_of_another_effect_is_not_taken_for_it(ledger: PostgresLedger) -> None:
    await granted(ledger, "1")
    await granted(ledger, "2")
    with pytest.raises(BrokenChain, match="event 1 of ef1-2"):
        verify_chain(await ledger.audit("ef1-2"), await standing(ledger, "1"))


async def test_what_the_database_cannot_hold_is_kept_as_far_as_it_can_be(
    ledger: PostgresLedger,
) -> None:
    odd = {"nul": "a\0b", "escaped": "\\u0000", "line": "\u2028"}
    told_of = ANSWER.model_copy(update={"body": odd, "detail": "\0"})
    lease = await granted(ledger)
    row = await moved(ledger.record(lease, not_done().model_copy(update={"evidence": told_of})))
    assert row.evidence.body == {**odd, "nul": "a\ufffdb"}
    assert row.evidence.detail == "\ufffd"
    verify_chain(await ledger.audit("ef1-1"), row)


def test_the_text_that_is_hashed_is_the_one_that_the_database_makes(timeless: str) -> None:
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(timeless))

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(JSON_VALUES)
    def same(value: object) -> None:
        asked = connection.fetchval("select $1::jsonb::text", json.dumps(value, ensure_ascii=False))
        text = loop.run_until_complete(asked)
        assert jsonb_text(from_json(text)) == text

    try:
        same()
    finally:
        loop.run_until_complete(connection.close())
        loop.close()
