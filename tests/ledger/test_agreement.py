"""The store and its pure twin do the same, whatever is asked of them in whatever order."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ascertain.contracts import outcome
from ascertain.contracts.breaker import Rule, Trip
from ascertain.contracts.claim import ClaimRequest, Granted, Lease, Verdict
from ascertain.contracts.effect import ABSENT_KEYED, TERMINAL, EffectRow, Evidence, Receipt, State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.gate import GateChange
from ascertain.errors import CommandRefused, InputError, NotFound
from ascertain.ledger.audit import verify_chain
from ascertain.ledger.gate import turn_of
from ascertain.ledger.model import ModelLedger
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ledger.write import FOUND, of_outcome
from ascertain.machine import ACTOR, TABLE, Actor, Move
from ascertain.ports import EffectFilter, Ledger, Page
from tests.ledger.conftest import FORGET, T0, Clock
from tests.ledger.steps import effect

EFFECTS = {
    made.effect_id: made
    for made in (
        effect("a"),
        effect("a-amended", task_id="task-a", revision=1),
        effect("b", partition="q", message_id="m-1"),
        effect("c", kind="toy.other"),
    )
}
EFFECT_IDS = st.sampled_from(sorted(EFFECTS))
OWNERS = st.sampled_from(["w/1", "w/2"])
PEOPLE = st.sampled_from(["alice", "bob"])
SECONDS = st.sampled_from([0.0, 0.000001, 1.0, 4.999999, 5.0, 5.000001, 12.5, 86_400.0, 9e6])
LENGTHS = SECONDS.map(lambda count: timedelta(seconds=count))
OPTIONAL_LENGTHS = st.none() | LENGTHS
SPANS = LENGTHS | LENGTHS.map(operator.neg)
TEXTS = st.sampled_from(["", "plain", "é \u2028 \x7f \x01", "nul \x00 and \\u0000", "\\", '"'])
BODIES = st.dictionaries(
    st.sampled_from(["a", "bb", "é", "zz", ""]),
    st.none()
    | st.booleans()
    | st.sampled_from(
        [0, -1, 2**60, 1.5, -0.0, 1e22, 1e-7, 1.0, "text", "n\x00l", [1, [None]], {}]
    ),
    max_size=3,
)
EVIDENCE = st.builds(
    Evidence,
    source=st.sampled_from(["answer", "lookup", "person"]),
    rule=st.sampled_from(["status", ABSENT_KEYED]),
    detail=TEXTS,
    body=BODIES,
)
HAPPENED = st.sampled_from([None, T0, T0.replace(tzinfo=None), T0.astimezone()])
RECEIPTS = st.builds(
    Receipt,
    external_id=st.sampled_from(["fact-1", "fact-2", "fact-3", "fact-4", "fact-5", "f\x00"]),
    happened_at=HAPPENED,
    body=BODIES,
    digest=st.none() | st.just("d" * 64),
)
CLASSES = st.sampled_from(["reset", "declined"])
JOBS = st.sampled_from(["job-1", "job-2"])
OUTCOMES = st.one_of(
    st.builds(outcome.Settled, receipt=RECEIPTS, evidence=EVIDENCE),
    st.builds(outcome.Accepted, job_id=JOBS, evidence=EVIDENCE),
    st.builds(outcome.Refused, error_class=CLASSES, evidence=EVIDENCE),
    st.builds(outcome.NotDone, error_class=CLASSES, evidence=EVIDENCE),
    st.builds(outcome.NotDone, error_class=CLASSES, evidence=EVIDENCE),
    st.builds(outcome.Unknown, error_class=CLASSES, evidence=EVIDENCE),
    st.builds(outcome.Unknown, error_class=CLASSES, evidence=EVIDENCE),
)
ENDINGS = st.one_of(
    st.builds(outcome.Settled, receipt=RECEIPTS, evidence=EVIDENCE),
    st.builds(outcome.Refused, error_class=CLASSES, evidence=EVIDENCE),
)
FINDINGS = st.sampled_from(sorted(FOUND))
DECISIONS = st.sampled_from(sorted(move for move, actor in ACTOR.items() if actor is Actor.PERSON))


@st.composite
def verdicts(draw: st.DrawFn, states: st.SearchStrategy[State]) -> Verdict:
    state = draw(states)
    proof = RECEIPTS if state is State.SETTLED else st.none() | RECEIPTS
    return Verdict(
        state,
        draw(EVIDENCE),
        receipt=draw(proof),
        error_class=draw(st.none() | CLASSES),
        job_id=draw(JOBS if state is State.ACCEPTED else st.none() | JOBS),
        retry_at_in=draw(OPTIONAL_LENGTHS),
        superseded_by=draw(st.sampled_from([None, "a-amended"])),
    )


@st.composite
def requests(draw: st.DrawFn) -> ClaimRequest:
    begun_at = draw(st.sampled_from([None, T0, T0 + timedelta(days=500)]))
    return ClaimRequest(
        effect=EFFECTS[draw(EFFECT_IDS)].model_copy(update={"begun_at": begun_at}),
        fingerprint=draw(st.sampled_from(["f", "f", "f", "f", "f", "g"])),
        frozen=draw(st.sampled_from([b"", b"one", b"two\x00"])),
        owner=draw(OWNERS),
        lease=draw(st.sampled_from([timedelta(seconds=5), timedelta(seconds=1)])),
        budget=draw(st.sampled_from([1, 2, 3, 5])),
        resend_for=draw(
            st.sampled_from([None, timedelta(0), timedelta(seconds=20), timedelta.max])
        ),
        resend=draw(st.booleans()),
        trace_id=draw(st.sampled_from([None, "t1", ""])),
    )


class Twins(RuleBasedStateMachine):
    """Every operation is asked of both; every answer and every trace is compared."""

    loop: asyncio.AbstractEventLoop
    store: PostgresLedger
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.model = ModelLedger(self.clock)
        self.leases: list[Lease] = []
        self.touched: set[str] = set()

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    def both(self, ask: Callable[[Ledger], Awaitable[Any]], effect_id: str | None = None) -> Any:
        theirs, ours = self.run(attempt(ask, self.store)), self.run(attempt(ask, self.model))
        assert theirs == ours
        if effect_id is not None:
            self.touched.add(effect_id)
        return ours

    def version(self, effect_id: str, offset: int) -> int:
        row = self.model.snapshot().rows.get(effect_id)
        return (row.version if row is not None else 1) + offset

    @initialize()
    def begin(self) -> None:
        self.run(self.clock.connection.execute(FORGET))
        self.clock.now = T0

    @rule(length=LENGTHS)
    def time_passes(self, length: timedelta) -> None:
        if length.days <= 1 or self.clock.now < T0 + timedelta(days=400):
            self.run(self.clock.advance(length))

    @rule(request=requests())
    def claim(self, request: ClaimRequest) -> None:
        before = self.model.snapshot().rows.get(request.effect.effect_id)
        answer = self.both(lambda ledger: ledger.claim(request), request.effect.effect_id)
        if isinstance(answer, Granted):
            assert before is None or before.retry_at is None or before.retry_at <= self.clock.now
            self.leases.append(answer.lease)

    @rule(
        asked=st.lists(requests(), min_size=1, max_size=4, unique_by=lambda r: r.effect.effect_id)
    )
    def claim_many(self, asked: list[ClaimRequest]) -> None:
        first = asked[0]
        alike = [replace(one, owner=first.owner, trace_id=first.trace_id) for one in asked]
        answers = self.both(lambda ledger: ledger.claim_many(alike))
        self.touched.update(one.effect.effect_id for one in alike)
        self.leases += [answer.lease for answer in answers if isinstance(answer, Granted)]

    @rule(data=st.data(), count=st.integers(1, 3), ends=st.lists(ENDINGS, min_size=3, max_size=3))
    def record_many(self, data: st.DataObject, count: int, ends: list[Any]) -> None:
        leases = {
            lease.effect_id: lease
            for lease in (self.a_lease(data, late=True) for _ in range(count))
        }
        told = list(zip(leases.values(), ends, strict=False))
        self.both(lambda ledger: ledger.record_many(told))
        self.touched.update(leases)

    @rule(data=st.data(), came_to=OUTCOMES, retry_in=OPTIONAL_LENGTHS, late=st.booleans())
    def record(
        self, data: st.DataObject, came_to: Any, retry_in: timedelta | None, late: bool
    ) -> None:
        lease = self.a_lease(data, late=late)
        self.both(lambda ledger: ledger.record(lease, came_to, retry_in=retry_in), lease.effect_id)

    @rule(data=st.data(), extend=LENGTHS, late=st.booleans())
    def renew(self, data: st.DataObject, extend: timedelta, late: bool) -> None:
        lease = self.a_lease(data, late=late)
        self.both(lambda ledger: ledger.renew(lease, extend), lease.effect_id)

    @rule(effect_id=EFFECT_IDS, print_of=st.sampled_from(["f", "f", "f", "g"]), by=PEOPLE)
    def withdraw(self, effect_id: str, print_of: str, by: str) -> None:
        if self.leases:  # an effect that is closed at once tells little of what else may be done
            made = EFFECTS[effect_id]
            self.both(lambda ledger: ledger.withdraw(made, print_of, by), effect_id)

    @rule(effect_id=EFFECT_IDS, offset=st.sampled_from([0, 0, 0, -1]), by=PEOPLE)
    def fence(self, effect_id: str, offset: int, by: str) -> None:
        version = self.version(effect_id, offset)
        self.both(lambda ledger: ledger.fence(effect_id, version, by), effect_id)

    @rule(effect_id=EFFECT_IDS, offset=st.sampled_from([0, 0, 0, 1]), found=verdicts(FINDINGS))
    def converge(self, effect_id: str, offset: int, found: Verdict) -> None:
        version = self.version(effect_id, offset)
        self.both(lambda ledger: ledger.converge(effect_id, version, found, "r"), effect_id)

    @rule(
        effect_id=EFFECT_IDS,
        offset=st.sampled_from([0, 0, 0, 0, -1]),
        move=DECISIONS,
        by=PEOPLE,
        data=st.data(),
    )
    def decide(self, effect_id: str, offset: int, move: Move, by: str, data: st.DataObject) -> None:
        version = self.version(effect_id, offset)
        target = st.sampled_from(sorted(set(TABLE[move].values())))
        said = data.draw(verdicts(target))
        self.both(lambda ledger: ledger.decide(effect_id, version, move, said, by), effect_id)

    @rule(
        effect_id=EFFECT_IDS,
        offset=st.sampled_from([0, 0, 0, -1]),
        denial=st.none() | verdicts(st.just(State.CLEAR)),
        amended=verdicts(st.just(State.SUPERSEDED)),
        by=PEOPLE,
    )
    def amend(
        self, effect_id: str, offset: int, denial: Verdict | None, amended: Verdict, by: str
    ) -> None:
        version = self.version(effect_id, offset)
        self.both(lambda ledger: ledger.amend(effect_id, version, denial, amended, by), effect_id)

    @rule(
        partition=st.sampled_from(["p", "q", "*"]),
        paused=st.booleans(),
        by=PEOPLE,
        request_id=st.integers(1, 20).map(str),
        ramp=st.sampled_from([None, timedelta(microseconds=7), timedelta(days=7)]),
    )
    def gate(
        self, partition: str, paused: bool, by: str, request_id: str, ramp: timedelta | None
    ) -> None:
        change = GateChange(
            partition=partition,
            paused=paused,
            by=by,
            reason="nul \x00",
            request_id=request_id,
            ramp=None if paused else ramp,
        )
        self.both(lambda ledger: ledger.set_gate(change))

    @rule(
        effect_id=EFFECT_IDS,
        partition=st.sampled_from(["p", "q", "*"]),
        early=st.sampled_from([timedelta(0), timedelta.resolution]),
    )
    def a_turn_comes(self, effect_id: str, partition: str, early: timedelta) -> None:
        gate = self.model.snapshot().gates.get(partition)
        if gate is not None and gate.ramp_until is not None:
            at = turn_of(effect_id, gate.since, gate.ramp_until) - early
            self.run(self.clock.set(max(self.clock.now, at)))

    @rule(
        partition=st.sampled_from(["p", "q"]),
        counted_for=LENGTHS,
        probes=st.sampled_from([1, 2]),
        probe_after=st.sampled_from([timedelta(microseconds=1), timedelta(seconds=5)]),
        lasts=st.booleans(),
    )
    def trip(self, **fields: Any) -> None:
        made = Trip(rule=Rule.LAG, reason="too late \x00", **fields)
        self.both(lambda ledger: ledger.trip(made))

    @rule(request_id=st.integers(1, 3).map(str), lasts=st.none() | SPANS, ago=SPANS)
    def raise_epoch(self, request_id: str, lasts: timedelta | None, ago: timedelta) -> None:
        if len(self.leases) < 4:  # what is forgotten at once tells little of what else may be done
            return
        now = self.clock.now
        until = None if lasts is None else now + lasts
        asked = EpochRequest(
            since=now - ago, until=until, by="ada", reason="n\x00", request_id=request_id
        )
        self.both(lambda ledger: ledger.raise_epoch(asked))

    @rule(older_than=LENGTHS)
    def archive(self, older_than: timedelta) -> None:
        moved = self.run(self.store.upkeep.archive(older_than)).archived
        assert moved == self.run(self.model.archive(older_than))
        self.touched.update(EFFECTS)

    @rule(partition=st.sampled_from(["p", "q"]))
    def judge_probes(self, partition: str) -> None:
        self.both(lambda ledger: ledger.judge_probes(partition))

    @rule(
        partition=st.sampled_from(["p", "q"]),
        kind=st.sampled_from(["toy.fact", "toy.other"]),
        ends=st.booleans(),
    )
    def outage(self, partition: str, kind: str, ends: bool) -> None:
        if ends:
            self.both(lambda ledger: ledger.end_outage(partition, kind))
        else:
            self.both(lambda ledger: ledger.note_outage(partition, kind, "503"))

    @rule(data=st.data(), effect_id=EFFECT_IDS)
    def press_on(self, data: st.DataObject, effect_id: str) -> None:
        """Make moves that are legal now: chance alone seldom gets far."""
        for _ in range(data.draw(st.integers(1, 12))):
            row = self.model.snapshot().rows.get(effect_id)
            ends = data.draw(st.integers(0, 9)) == 9
            moves = legal(None if row is None else row.state, ends=ends)
            if not moves:
                return
            move = data.draw(st.sampled_from(moves))
            if row is None or move in {Move.CLAIM, Move.RESEND}:
                self.claim_for(move, effect_id, data)
            else:
                self.both(self.ready(move, row, data), effect_id)
                self.they_remember_the_same()

    def claim_for(self, move: Move, effect_id: str, data: st.DataObject) -> None:
        asked = replace(data.draw(requests()), effect=EFFECTS[effect_id], fingerprint="f", budget=9)
        self.claim(replace(asked, resend=move is Move.RESEND, resend_for=timedelta.max))

    def ready(
        self, move: Move, row: EffectRow, data: st.DataObject
    ) -> Callable[[Ledger], Awaitable[Any]]:
        """The call that makes a move from where the row stands; a fence is made due."""
        name, version = row.effect_id, row.version
        lease = Lease(name, row.lease_owner, row.lease_version, row.attempt)
        verdict = data.draw(verdicts(st.just(TABLE[move][row.state])))
        match ACTOR[move]:
            case Actor.OWNER if move is Move.RENEW:
                extend = data.draw(LENGTHS)
                return lambda ledger: ledger.renew(lease, extend)
            case Actor.OWNER:
                fitting = OUTCOMES.filter(lambda made: of_outcome(made, None).move is move)
                came_to = data.draw(fitting)
                return lambda ledger: ledger.record(lease, came_to)
            case Actor.ANYONE:
                self.run(self.clock.set(max(self.clock.now, row.lease_until)))
                return lambda ledger: ledger.fence(name, version, "r")
            case Actor.RECONCILE:
                return lambda ledger: ledger.converge(name, version, verdict, "r")
            case Actor.PERSON:
                by = row.taken_by or "alice"
                return lambda ledger: ledger.decide(name, version, move, verdict, by)

    @rule(effect_id=EFFECT_IDS, seen=EVIDENCE)
    def note(self, effect_id: str, seen: Evidence) -> None:
        self.both(lambda ledger: ledger.note(effect_id, "r", seen), effect_id)

    @rule(
        states=st.none() | st.frozensets(st.sampled_from(State), min_size=1),
        partition=st.sampled_from([None, "p"]),
        task_id=st.sampled_from([None, "task-a"]),
        kind=st.sampled_from([None, "toy.fact"]),
        limit=st.sampled_from([1, 100]),
    )
    def look(self, **which: Any) -> None:
        self.both(lambda ledger: ledger.effects(EffectFilter(**which)))

    @rule(
        state=st.sampled_from(State),
        older_than=st.sampled_from([timedelta(0), timedelta(seconds=5)]),
        after=st.none() | st.tuples(st.just(T0), EFFECT_IDS),
        limit=st.sampled_from([1, 100]),
    )
    def look_for_quiet_ones(self, **page: Any) -> None:
        self.both(lambda ledger: ledger.quiet(Page(**page)))

    @invariant()
    def they_remember_the_same(self) -> None:
        self.both(lambda ledger: ledger.gates())
        self.both(lambda ledger: ledger.partitions())
        self.both(lambda ledger: ledger.doubts())
        self.both(lambda ledger: ledger.outages())
        for effect_id in sorted(self.touched):
            case = self.both(lambda ledger, which=effect_id: ledger.inspect(which))
            trail = self.both(lambda ledger, which=effect_id: ledger.audit(which))
            verify_chain(trail, case.row if case is not None else None)
        self.touched.clear()

    def a_lease(self, data: st.DataObject, *, late: bool) -> Lease:
        """One that stands or stood; the latest ones more often."""
        if not self.leases:
            return Lease(data.draw(EFFECT_IDS), "w/0", 1, 1)
        chosen = self.leases if late else self.leases[-2:]
        return data.draw(st.sampled_from(chosen))


def legal(state: State | None, *, ends: bool) -> list[Move]:
    return [
        move
        for move in Move
        if state in TABLE[move] and (ends or TABLE[move][state] not in TERMINAL)
    ]


async def attempt(ask: Callable[[Ledger], Awaitable[Any]], ledger: Ledger) -> Any:
    try:
        answer = await ask(ledger)
    except (CommandRefused, InputError, NotFound, ValueError) as error:
        return type(error)
    return list(answer) if isinstance(answer, list | tuple) else answer


@pytest.mark.timeout(600)
def test_the_store_and_its_twin_agree_on_every_answer_and_every_trace(timeless: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        Twins.loop = loop
        Twins.clock = Clock(loop.run_until_complete(asyncpg.connect(timeless)))
        Twins.store = loop.run_until_complete(open_ledger(timeless, connections=1))
        run_state_machine_as_test(
            Twins,
            settings=settings(
                max_examples=100,
                stateful_step_count=50,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        loop.run_until_complete(Twins.store.aclose())
        loop.run_until_complete(Twins.clock.connection.close())
        loop.close()
