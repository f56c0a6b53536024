"""What a claim is answered, by the store and by its twin."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ascertain.contracts.claim import (
    Busy,
    Conflict,
    Granted,
    Paused,
    Refused,
    Settled,
    TakenOver,
    Unresolved,
    Verdict,
)
from ascertain.contracts.effect import ABSENT_KEYED, Evidence, State
from ascertain.contracts.gate import GateChange
from ascertain.errors import CommandRefused
from ascertain.ledger.decision import FOREVER
from ascertain.machine import Move
from ascertain.ports import EffectFilter, Ledger
from tests.ledger.conftest import T0, Clock
from tests.ledger.steps import (
    LEASE,
    PERSON,
    effect,
    granted,
    in_state,
    moved,
    not_done,
    receipt,
    request,
    settled,
    standing,
    unknown,
    verdict,
)

SECOND = timedelta(seconds=1)


def close(partition: str, request_id: str = "r1", *, paused: bool = True) -> GateChange:
    return GateChange(
        partition=partition, paused=paused, by="alice", reason="incident", request_id=request_id
    )


async def test_the_first_claim_is_granted_and_stores_what_will_be_sent(either: Ledger) -> None:
    answer = await either.claim(request(resend_for=timedelta(hours=1), trace_id="t"))
    assert isinstance(answer, Granted)
    assert (answer.lease.attempt, answer.lease.lease_version) == (1, 1)
    row = answer.row
    assert row == await standing(either)
    assert row.state is State.IN_FLIGHT
    assert row.frozen == b'{"amount":7}'
    assert (row.lease_until, row.first_sent_at) == (T0 + LEASE, T0)
    assert row.resend_until == T0 + timedelta(hours=1)


async def test_what_others_may_have_sent_before_counts_as_first_sent_then(either: Ledger) -> None:
    for name, sent_from in (("1", T0 - timedelta(days=3)), ("2", T0 + timedelta(days=3))):
        await granted(either, name, sent_from=sent_from)
        assert (await standing(either, name)).first_sent_at == min(T0, sent_from)


async def test_another_fingerprint_is_a_conflict_whatever_the_state(either: Ledger) -> None:
    await in_state(either, State.SETTLED)
    answer = await either.claim(request(fingerprint="e" * 64))
    assert answer == Conflict(stored="f" * 64, offered="e" * 64)


async def test_what_is_settled_is_answered_with_its_receipt(either: Ledger) -> None:
    await in_state(either, State.SETTLED)
    answer = await either.claim(request(owner="another"))
    assert isinstance(answer, Settled)
    assert answer.receipt == receipt()


@pytest.mark.parametrize("state", [State.REFUSED, State.ABANDONED, State.SUPERSEDED])
async def test_what_is_closed_without_a_fact_is_never_claimed_again(
    either: Ledger, state: State
) -> None:
    await in_state(either, state)
    assert isinstance(await either.claim(request()), Refused)


async def test_what_a_person_took_over_is_theirs(either: Ledger) -> None:
    row = await in_state(either, State.TAKEN_OVER)
    assert await either.claim(request()) == TakenOver("alice", row)


async def test_a_claim_whose_answer_was_lost_is_granted_again_to_its_owner_alone(
    either: Ledger, clock: Clock
) -> None:
    first = await either.claim(request(owner="w/1"))
    await clock.advance(SECOND)
    again = await either.claim(request(owner="w/1"))
    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert again.lease == first.lease
    assert again.row.version == 1
    busy = await either.claim(request(owner="w/2"))
    assert isinstance(busy, Busy)
    assert busy.until == T0 + LEASE
    assert len(await either.audit("ef1-1")) == 1


async def test_a_claim_past_its_lease_is_fenced_and_unresolved_even_for_its_owner(
    either: Ledger, clock: Clock
) -> None:
    await granted(either)
    await clock.advance(LEASE)
    answer = await either.claim(request())
    assert isinstance(answer, Unresolved)
    assert (answer.row.state, answer.row.lease_version) == (State.UNKNOWN, 2)
    assert answer.row.attempt == 1


@pytest.mark.parametrize("state", [State.UNKNOWN, State.ACCEPTED, State.QUARANTINED])
async def test_nothing_is_claimed_while_an_earlier_attempt_is_unresolved(
    either: Ledger, state: State
) -> None:
    row = await in_state(either, state)
    answer = await either.claim(request(owner="another"))
    assert answer == Unresolved(row)


async def test_what_is_proven_not_done_is_claimed_again_with_a_new_number(either: Ledger) -> None:
    await in_state(either, State.CLEAR)
    answer = await either.claim(request(frozen=b"other bytes", owner="w/2"))
    assert isinstance(answer, Granted)
    assert (answer.lease.attempt, answer.lease.lease_version) == (2, 2)
    assert answer.row.frozen == b'{"amount":7}'


async def test_the_budget_counts_granted_claims_and_then_quarantines(either: Ledger) -> None:
    for _ in range(2):
        lease = await granted(either, budget=2)
        await either.record(lease, not_done())
    answer = await either.claim(request(budget=2))
    assert isinstance(answer, Unresolved)
    assert (answer.row.state, answer.row.error_class) == (State.QUARANTINED, "budget")
    assert "2 attempts" in answer.row.evidence.detail


async def test_a_retry_that_a_person_orders_begins_a_new_budget(either: Ledger) -> None:
    await either.record(await granted(either, budget=1), not_done())
    stopped = await either.claim(request(budget=1))
    assert isinstance(stopped, Unresolved)
    said = verdict(State.CLEAR, evidence=PERSON)
    row = await moved(either.decide("ef1-1", stopped.row.version, Move.DENY, said, "alice"))
    assert row.budget_from == 1
    assert isinstance(await either.claim(request(budget=1)), Granted)


async def test_a_resend_is_granted_only_if_the_whole_lease_lies_before_the_keys_end(
    either: Ledger, clock: Clock
) -> None:
    life = timedelta(seconds=60)
    lease = await granted(either, resend_for=life)
    await either.record(lease, unknown())
    assert isinstance(await either.claim(request(resend_for=life)), Unresolved)
    await clock.set(T0 + timedelta(seconds=55))
    answer = await either.claim(request(resend=True, resend_for=life))
    assert isinstance(answer, Granted)
    assert (answer.row.lease_until, answer.row.resend_until) == (
        T0 + timedelta(seconds=60),
        T0 + timedelta(seconds=60),
    )
    await either.record(answer.lease, unknown())
    await clock.advance(timedelta(microseconds=1))
    assert isinstance(await either.claim(request(resend=True, resend_for=life)), Unresolved)


@pytest.mark.parametrize("life", [None, timedelta(minutes=5)])
async def test_a_promise_that_is_shorter_by_now_reaches_what_was_sent_under_a_longer_one(
    either: Ledger, clock: Clock, life: timedelta | None
) -> None:
    for name in ("asked", "keyed"):
        lease = await granted(either, name, resend_for=timedelta(hours=24))
        doubt = await moved(either.record(lease, unknown()))
    clear = Verdict(State.CLEAR, Evidence(source="lookup", rule=ABSENT_KEYED))
    await moved(either.converge(doubt.effect_id, doubt.version, clear, "reconcile"))
    await clock.advance(timedelta(minutes=10))
    for name in ("asked", "keyed"):
        today = request(name, resend=True, resend_for=life)
        assert isinstance(await either.claim(today), Unresolved)
        longer = request(name, resend=True, resend_for=timedelta(hours=48))
        assert isinstance(await either.claim(longer), Granted)


async def test_a_resent_permit_is_never_renewed_past_the_keys_end(
    either: Ledger, clock: Clock
) -> None:
    life = timedelta(seconds=10)
    await either.record(await granted(either, resend_for=life), unknown())
    answer = await either.claim(request(resend=True, resend_for=life))
    assert isinstance(answer, Granted)
    await moved(either.renew(answer.lease, timedelta(seconds=10)))
    await clock.advance(SECOND)
    refused = await either.renew(answer.lease, timedelta(seconds=10))
    assert refused.row is not None
    assert refused.row.lease_until == T0 + timedelta(seconds=10)


async def test_for_ever_reads_as_a_time_that_can_be_compared_and_moved(
    either: Ledger, clock: Clock
) -> None:
    await either.record(await granted(either, resend_for=timedelta.max), unknown())
    row = await standing(either)
    assert row.resend_until == FOREVER
    assert row.now + timedelta(days=36_500) < FOREVER
    assert type(row).model_validate_json(row.model_dump_json()) == row
    await clock.advance(timedelta(days=3650))
    again = request(resend=True, resend_for=timedelta.max)
    assert isinstance(await either.claim(again), Granted)


async def test_a_late_receipt_keeps_a_clear_effect_from_being_done_again(
    either: Ledger, clock: Clock
) -> None:
    zombie = await granted(either, owner="zombie")
    await clock.advance(LEASE)
    fenced = await either.claim(request())
    assert isinstance(fenced, Unresolved)
    absent = verdict(State.CLEAR)
    clear = await moved(either.converge("ef1-1", fenced.row.version, absent, "reconcile"))
    await either.record(zombie, settled())
    assert await either.claim(request()) == Unresolved(clear)
    found = verdict(State.SETTLED)
    await moved(either.converge("ef1-1", clear.version, found, "reconcile"))


async def test_a_closed_gate_stops_dispatch_and_nothing_is_stored(either: Ledger) -> None:
    gate = await either.set_gate(close("p"))
    answer = await either.claim(request())
    assert answer == Paused("p", gate.since, "alice", "incident")
    assert await either.inspect("ef1-1") is None
    assert isinstance(await either.claim(request("2", effect=effect("2", partition="q"))), Granted)


async def test_a_closed_gate_stops_the_next_attempt_and_the_resend(either: Ledger) -> None:
    clear = await in_state(either, State.CLEAR)
    await either.record(await granted(either, "2", resend_for=timedelta.max), unknown())
    await either.set_gate(close("*"))
    assert isinstance(await either.claim(request()), Paused)
    again = request("2", resend=True, resend_for=timedelta.max)
    assert isinstance(await either.claim(again), Paused)
    assert await standing(either) == clear


@pytest.mark.parametrize("state", [State.UNKNOWN, State.ACCEPTED, State.QUARANTINED])
async def test_a_closed_gate_never_stops_asking(either: Ledger, state: State) -> None:
    row = await in_state(either, state)
    await either.set_gate(close("p"))
    assert await either.claim(request()) == Unresolved(row)


async def test_the_gate_of_all_partitions_closes_each(either: Ledger) -> None:
    await either.set_gate(close("*"))
    answer = await either.claim(request())
    assert isinstance(answer, Paused)
    assert answer.partition == "*"
    await either.set_gate(close("*", "r2", paused=False))
    assert isinstance(await either.claim(request()), Granted)


async def test_a_gate_request_is_applied_once_however_late_its_repeat_comes(
    either: Ledger, clock: Clock
) -> None:
    first = await either.set_gate(close("p", "pause-1"))
    await clock.advance(timedelta(days=400))
    opened = await either.set_gate(close("p", "resume-1", paused=False))
    repeated = await either.set_gate(close("p", "pause-1"))
    assert (first.paused, first.already_applied) == (True, False)
    assert repeated == opened.model_copy(update={"already_applied": True})
    assert isinstance(await either.claim(request()), Granted)


@pytest.mark.parametrize(
    ("partition", "paused", "was"),
    [("p", True, "resume of partition p"), ("q", False, "resume of partition p")],
)
async def test_another_gate_request_under_a_used_id_is_refused_and_moves_nothing(
    either: Ledger, partition: str, paused: bool, was: str
) -> None:
    await either.set_gate(close(partition, "closes"))
    await either.set_gate(close("p", "s", paused=False))
    before = await either.gates()
    with pytest.raises(CommandRefused, match=f"request id s was used for {was}; "):
        await either.set_gate(close(partition, "s", paused=paused))
    assert await either.gates() == before


async def test_closing_a_closed_gate_keeps_since_when_and_by_whom(
    either: Ledger, clock: Clock
) -> None:
    first = await either.set_gate(close("p", "r1"))
    await clock.advance(SECOND)
    again = close("p", "r2").model_copy(update={"by": "bob"})
    assert await either.set_gate(again) == first


async def test_only_gates_that_were_ever_closed_are_listed(either: Ledger) -> None:
    await either.set_gate(close("a", "r1", paused=False))
    await either.set_gate(close("b", "r2"))
    await either.set_gate(close("b", "r3", paused=False))
    assert [(gate.partition, gate.paused) for gate in await either.gates()] == [("b", False)]


async def test_a_second_live_effect_of_a_step_is_a_conflict(either: Ledger) -> None:
    await in_state(either, State.CLEAR)
    amended = effect("1b", task_id="task-1", revision=1)
    again = request("1b", effect=amended, fingerprint="e" * 64)
    assert await either.claim(again) == Conflict(stored="f" * 64, offered="e" * 64)
    assert await either.inspect("ef1-1b") is None
    row = await standing(either)
    said = verdict(State.SUPERSEDED, evidence=PERSON)
    await moved(either.decide("ef1-1", row.version, Move.SUPERSEDE, said, "alice"))
    assert isinstance(await either.claim(again), Granted)


async def test_a_new_attempt_forgets_the_dead_job_and_a_resend_keeps_it(either: Ledger) -> None:
    job = verdict(State.ACCEPTED, job_id="job-9")
    await either.record(await granted(either), unknown())
    row = await moved(either.converge("ef1-1", 2, job, "reconcile"))
    stopped = verdict(State.QUARANTINED)
    row = await moved(either.converge("ef1-1", row.version, stopped, "reconcile"))
    assert row.job_id == "job-9"
    said = verdict(State.CLEAR, evidence=PERSON)
    await moved(either.decide("ef1-1", row.version, Move.DENY, said, "alice"))
    answer = await either.claim(request())
    assert isinstance(answer, Granted)
    assert answer.row.job_id is None


async def test_effects_are_listed_by_what_they_are_newest_state_first(
    either: Ledger, clock: Clock
) -> None:
    for name, state in [("1", State.UNKNOWN), ("2", State.SETTLED), ("3", State.UNKNOWN)]:
        await clock.advance(SECOND)
        await in_state(either, state, name)

    async def names(**which: object) -> list[str]:
        return [row.effect_id for row in await either.effects(EffectFilter(**which))]  # type: ignore[arg-type]

    assert await names() == ["ef1-3", "ef1-2", "ef1-1"]
    assert await names(states=frozenset({State.UNKNOWN})) == ["ef1-3", "ef1-1"]
    assert await names(states=frozenset({State.SETTLED})) == ["ef1-2"]
    assert await names(task_id="task-1") == ["ef1-1"]
    assert await names(partition="nowhere") == []
    assert await names(limit=1) == ["ef1-3"]


KEY_LIFE = timedelta(minutes=10)


async def absent_by_its_key(either: Ledger) -> None:
    doubt = await moved(either.record(await granted(either, resend_for=KEY_LIFE), unknown()))
    clear = Verdict(State.CLEAR, Evidence(source="lookup", rule=ABSENT_KEYED, detail="absent"))
    await moved(either.converge(doubt.effect_id, doubt.version, clear, "reconcile"))


@pytest.mark.parametrize(("waited", "expected"), [(10, Granted), (3600, Unresolved)])
async def test_an_absence_that_rests_on_the_key_is_claimed_only_while_the_key_protects(
    either: Ledger, clock: Clock, waited: int, expected: type
) -> None:
    await absent_by_its_key(either)
    await clock.advance(timedelta(seconds=waited))
    assert isinstance(await either.claim(request(resend_for=KEY_LIFE)), expected)


async def test_a_claim_that_rests_on_the_key_says_so_and_is_never_renewed_past_its_end(
    either: Ledger, clock: Clock
) -> None:
    await absent_by_its_key(either)
    answer = await either.claim(request(resend_for=KEY_LIFE))
    assert isinstance(answer, Granted)
    assert answer.row.evidence.rule == ABSENT_KEYED
    assert (await either.audit("ef1-1"))[-1].evidence == answer.row.evidence
    await moved(either.renew(answer.lease, KEY_LIFE))
    await clock.advance(SECOND)
    refused = await either.renew(answer.lease, KEY_LIFE)
    assert refused.row is not None
    assert refused.row.lease_until == T0 + KEY_LIFE


async def test_what_is_not_due_yet_is_claimed_by_nobody_however_often_it_is_woken(
    either: Ledger, clock: Clock
) -> None:
    row = await moved(either.record(await granted(either), not_done(), retry_in=SECOND))
    await clock.set(T0 + SECOND - timedelta(microseconds=1))
    early = await either.claim(request(owner="w/2"))
    assert early == Unresolved(row.model_copy(update={"now": clock.now}))
    assert [event.move for event in await either.audit("ef1-1")] == ["claim", "clear"]
    await clock.set(T0 + SECOND)
    assert isinstance(await either.claim(request(owner="w/2")), Granted)
