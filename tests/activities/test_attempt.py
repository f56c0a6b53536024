from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.dispatch import dispatch, put_in_doubt
from activities.reconcile import Reconcile
from activities.serving import Served, Serving
from ascertain.contracts import claim, directive, finding, outcome
from ascertain.contracts.effect import ABSENT_KEYED, Effect, Evidence, Receipt, State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.gate import GateChange
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.work import Work
from ascertain.errors import InvalidTask, LedgerDown
from ascertain.keys import fingerprint
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from ascertain.ports import Kind

EFFECT = Effect(
    effect_id="ef1-a", task_id="task-1", step="do", kind="toy.fact", partition="p", input={}
)
ANSWER = Evidence(source="answer", rule="proof")
SETTLED = outcome.Settled(receipt=Receipt(external_id="fact-1"), evidence=ANSWER)


DOUBT = outcome.Unknown(error_class="answer_lost", evidence=ANSWER)


def request_of(serving, kind):
    return claim.ClaimRequest(
        effect=EFFECT,
        fingerprint=fingerprint(EFFECT.kind, EFFECT.input),
        frozen=b"sent once",
        owner=serving.identity,
        lease=kind.policy.lease,
        budget=kind.policy.budget,
        resend_for=kind.semantics.resend_for,
    )


class SlowLedger(ModelLedger):
    """A ledger whose writes take as long as the test wants."""

    def __init__(self) -> None:
        super().__init__(lambda: datetime.now(UTC))
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def record(self, lease, outcome, *, retry_in=None):
        self.asked.set()
        await self.answers.wait()
        return await super().record(lease, outcome, retry_in=retry_in)


class ToyAdapter:
    """An outside that answers when the test lets it."""

    semantics = Semantics()

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.answers = asyncio.Event()

    def prepare(self, effect):
        return b"{}"

    async def perform(self, call, permit):
        permit.check()
        self.called.set()
        await self.answers.wait()
        return SETTLED


@pytest.fixture
async def ledger() -> SlowLedger:
    return SlowLedger()


@pytest.fixture
async def adapter() -> ToyAdapter:
    return ToyAdapter()


@pytest.fixture
async def attempt(ledger, adapter) -> asyncio.Task:
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    return asyncio.create_task(dispatch(serving, Served(kind, adapter), EFFECT))


async def cancel(attempt, ledger) -> None:
    """Cancel, and let the ledger answer only when the loop has nothing else to do."""
    attempt.cancel()
    await ledger.asked.wait()
    await asyncio.wait([attempt], timeout=0.05)
    assert not attempt.done(), "it gave up although the ledger had not answered"
    ledger.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await attempt


async def state(ledger) -> State:
    case = await ledger.inspect(EFFECT.effect_id)
    return case.row.state


async def test_what_the_outside_answered_is_recorded_although_the_attempt_is_cancelled_meanwhile(
    attempt, ledger, adapter
):
    adapter.answers.set()
    await ledger.asked.wait()
    await cancel(attempt, ledger)
    assert await state(ledger) is State.SETTLED


async def test_an_attempt_that_is_cancelled_while_it_is_outside_is_recorded_as_doubt(
    attempt, ledger, adapter
):
    await adapter.called.wait()
    await cancel(attempt, ledger)
    assert await state(ledger) is State.UNKNOWN


async def test_what_a_hanging_ledger_does_not_take_is_given_to_the_history(attempt, adapter):
    adapter.answers.set()
    following = await attempt
    assert isinstance(following, directive.ReconcileIn)
    assert following.unrecorded is not None
    assert following.unrecorded.outcome == SETTLED


class ForgetfulLedger(ModelLedger):
    """A ledger whose first answer is lost, for longer than the lease."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.lost = False
        super().__init__(lambda: self.now)

    async def claim(self, request):
        answer = await super().claim(request)
        if not self.lost:
            self.lost = True
            self.now += request.lease * 2
            raise LedgerDown("no answer")
        return answer


async def test_a_claim_whose_answer_came_after_its_lease_was_never_used(adapter):
    ledger = ForgetfulLedger()
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    following = await dispatch(serving, Served(kind, adapter), EFFECT)
    assert isinstance(following, directive.RetryIn)
    assert await state(ledger) is State.CLEAR
    assert not adapter.called.is_set()


async def test_a_later_attempt_of_what_can_be_asked_for_is_asked_for_though_its_claim_was_never_used(
    adapter,
):
    """The absence of the one before it may have rested on a key that protects no more."""
    adapter.semantics = Semantics(lookup=LookupBy.KEY)
    ledger = ForgetfulLedger()
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    ledger.lost = True
    first = await ledger.claim(request_of(serving, kind))
    prepared = await ledger.record(
        first.lease, outcome.NotDone(error_class="throttled", evidence=ANSWER)
    )
    assert prepared.row.state is State.CLEAR
    ledger.lost = False
    await dispatch(serving, Served(kind, adapter), EFFECT)
    assert await state(ledger) is State.UNKNOWN
    assert not adapter.called.is_set()


async def test_a_claim_that_is_given_back_leaves_an_absence_that_rests_on_the_key_as_it_was(
    adapter,
):
    adapter.semantics = Semantics(lookup=LookupBy.KEY, idempotent_for=timedelta(hours=1))
    ledger = ModelLedger(lambda: datetime.now(UTC))
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    first = await ledger.claim(request_of(serving, kind))
    doubt = (await ledger.record(first.lease, DOUBT)).row
    keyed = Evidence(source="lookup", rule=ABSENT_KEYED)
    await ledger.converge(doubt.effect_id, doubt.version, claim.Verdict(State.CLEAR, keyed), "w")
    await put_in_doubt(serving, Served(kind, adapter), EFFECT)
    row = (await ledger.inspect(EFFECT.effect_id)).row
    assert (row.state, row.attempt, row.evidence.rule) == (State.CLEAR, 2, ABSENT_KEYED)


class TakenLedger(ForgetfulLedger):
    """While its answer is lost, a person takes the effect over and then gives it back."""

    async def claim(self, request):
        if self.lost:
            row = (await super().claim(request)).row
            for move, state in ((Move.TAKE, State.TAKEN_OVER), (Move.RETRY, State.UNKNOWN)):
                said = claim.Verdict(state, Evidence(source="person", rule=move.value))
                row = (await self.decide(row.effect_id, row.version, move, said, "alice")).row
        return await super().claim(request)


async def test_a_claim_after_which_a_person_may_have_done_it_by_hand_stays_in_doubt(adapter):
    ledger = TakenLedger()
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    await dispatch(serving, Served(kind, adapter), EFFECT)
    assert await state(ledger) is State.UNKNOWN
    assert not adapter.called.is_set()


class ChangedAdapter(ToyAdapter):
    """An adapter of a later release, which cannot prepare what an earlier one has sent."""

    def prepare(self, effect):
        raise InvalidTask("the template wants more than this input has")


async def test_bytes_that_were_sent_once_are_used_though_a_later_release_cannot_make_them(adapter):
    ledger = ModelLedger(lambda: datetime.now(UTC))
    adapter.semantics = Semantics(idempotent_for=timedelta(hours=1))
    kind = Kind("toy.fact", adapter.semantics, Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    first = await ledger.claim(request_of(serving, kind))
    await ledger.record(first.lease, DOUBT)
    changed = ChangedAdapter()
    changed.answers.set()
    following = await dispatch(serving, Served(kind, changed), EFFECT, resend=True)
    assert isinstance(following, directive.Done)


class WorkingAdapter(ToyAdapter):
    """An adapter that works long before it sends, and asks for its permit right there."""

    def __init__(self) -> None:
        super().__init__()
        self.working = asyncio.Event()
        self.sent = False

    async def perform(self, call, permit):
        self.working.set()
        await self.answers.wait()
        await permit.renew()
        permit.check()
        self.sent = True
        return SETTLED


def working(ledger, adapter, *, semantics=Semantics(), policy=Policy()):  # noqa: B008  # frozen values
    kind = Kind("toy.fact", semantics, policy, adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    return asyncio.create_task(dispatch(serving, Served(kind, adapter), EFFECT))


async def test_an_attempt_that_is_cancelled_before_its_call_left_is_known_not_to_exist(ledger):
    adapter = WorkingAdapter()
    attempt = working(ledger, adapter, policy=Policy(queue="slow"))
    await adapter.working.wait()
    await cancel(attempt, ledger)
    row = (await ledger.inspect(EFFECT.effect_id)).row
    assert (row.state, row.error_class, row.evidence.source) == (State.CLEAR, "never_left", "phase")
    assert not adapter.sent


async def test_an_attempt_whose_time_is_over_before_its_call_left_is_known_not_to_exist():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), WorkingAdapter()
    brief = Semantics(max_duration=timedelta(milliseconds=50))
    await working(ledger, adapter, semantics=brief)
    row = (await ledger.inspect(EFFECT.effect_id)).row
    assert (row.state, row.error_class) == (State.CLEAR, "never_left")


async def test_a_permit_is_not_renewed_while_its_partition_is_paused():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), WorkingAdapter()
    attempt = working(ledger, adapter)
    await adapter.working.wait()
    closing = GateChange(partition="p", paused=True, by="ada", reason="incident", request_id="r")
    await ledger.set_gate(closing)
    adapter.answers.set()
    following = await attempt
    row = (await ledger.inspect(EFFECT.effect_id)).row
    assert isinstance(following, directive.RetryIn)
    assert (row.state, row.error_class) == (State.CLEAR, "permit_lost")
    assert "paused by ada: incident" in row.evidence.detail
    assert not adapter.sent


async def test_an_outcome_that_the_history_carried_still_waits_as_long_as_the_outside_asked():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), ToyAdapter()
    kind = Kind("toy.fact", Semantics(lookup=LookupBy.KEY), Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    lease = (await ledger.claim(request_of(serving, kind))).lease
    throttled = outcome.NotDone(error_class="throttled", evidence=ANSWER)
    unrecorded = directive.Unrecorded(
        lease_version=lease.lease_version,
        attempt=lease.attempt,
        owner=lease.owner,
        outcome=throttled,
        retry_in=timedelta(minutes=7),
    )
    work = Work(effect=EFFECT, unrecorded=unrecorded)
    answer = await ActivityEnvironment().run(Reconcile(serving).reconcile, work)
    assert isinstance(answer.directive, directive.RetryIn)
    assert answer.directive.delay > timedelta(minutes=6)


async def test_an_outcome_that_the_history_carried_is_recorded_by_a_worker_that_lacks_its_kind():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), ToyAdapter()
    kind = Kind("toy.fact", Semantics(), Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    lease = (await ledger.claim(request_of(serving, kind))).lease
    unrecorded = directive.Unrecorded(
        lease_version=lease.lease_version,
        attempt=lease.attempt,
        owner=lease.owner,
        outcome=SETTLED,
    )
    lacking = ActivityEnvironment()
    lacking.info = replace(lacking.info, is_local=True)
    work = Work(effect=EFFECT, unrecorded=unrecorded)
    answer = await lacking.run(Reconcile(Serving(ledger, {}, "worker:2")).reconcile, work)
    assert isinstance(answer.directive, directive.RunQueued)
    assert await state(ledger) is State.SETTLED


class AskedAdapter(ToyAdapter):
    """An adapter that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = []

    async def lookup(self, call, *, within):
        self.asked.append(call)
        return finding.Absent()


async def test_a_lookup_is_told_since_when_there_may_be_something_to_be_found():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), AskedAdapter()
    backup = datetime.now(UTC) - timedelta(days=2)
    told = EpochRequest(since=backup, by="ada", reason="the disk broke", request_id="epoch-1")
    await ledger.raise_epoch(told)
    kind = Kind("toy.fact", Semantics(lookup=LookupBy.LISTING), Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    await dispatch(serving, Served(kind, adapter), EFFECT)
    await ActivityEnvironment().run(Reconcile(serving).reconcile, Work(effect=EFFECT))
    assert [call.first_sent_at for call in adapter.asked] == [backup]


@pytest.mark.parametrize("kinds", [True, False])
async def test_a_task_of_other_content_learns_nothing_of_the_effect_that_has_its_id(kinds):
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), ToyAdapter()
    kind = Kind("toy.fact", Semantics(lookup=LookupBy.KEY), Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    lease = (await ledger.claim(request_of(serving, kind))).lease
    await ledger.record(lease, SETTLED)
    other = Work(effect=EFFECT.model_copy(update={"input": {"amount": 2}}))
    asking = Reconcile(serving if kinds else Serving(ledger, {}, "worker:2"))
    answer = await ActivityEnvironment().run(asking.reconcile, other)
    assert isinstance(answer.directive, directive.Conflicting)


async def test_what_was_taken_over_is_looked_at_again_also_while_nobody_serves_its_kind():
    ledger, adapter = ModelLedger(lambda: datetime.now(UTC)), ToyAdapter()
    kind = Kind("toy.fact", Semantics(), Policy(), adapter)
    serving = Serving(ledger, {"toy.fact": kind}, "worker:1")
    lease = (await ledger.claim(request_of(serving, kind))).lease
    row = (await ledger.record(lease, DOUBT)).row
    said = Evidence(source="person", rule="take")
    owned = claim.Verdict(State.TAKEN_OVER, said)
    await ledger.decide(row.effect_id, row.version, Move.TAKE, owned, "ada")
    gone = Reconcile(Serving(ledger, {}, "worker:2"))
    answer = await ActivityEnvironment().run(gone.reconcile, Work(effect=EFFECT))
    assert isinstance(answer.directive, directive.TakenOver)
    assert answer.directive.ask_again_in is not None


async def test_a_worker_that_was_frozen_while_it_recorded_records_when_it_thaws(
    adapter, monkeypatch
):
    monkeypatch.setattr("activities.attempt.LEDGER_TRY", timedelta(milliseconds=20))
    monkeypatch.setattr("activities.attempt.LEDGER_WITHIN", timedelta(milliseconds=40))
    ledger = FreezingLedger(lambda: datetime.now(UTC))
    adapter.answers.set()
    following = await working(ledger, adapter)
    assert isinstance(following, directive.Done)
    assert await state(ledger) is State.SETTLED


class FreezingLedger(ModelLedger):
    """Its worker stands still in the first record, for longer than it would have gone on trying."""

    frozen = False

    async def record(self, lease, outcome, *, retry_in=None):
        if not self.frozen:
            self.frozen = True
            thaws_at = time.monotonic() + 0.1
            while time.monotonic() < thaws_at:
                pass  # nothing else runs in this process meanwhile
            await asyncio.wait([asyncio.create_task(super().inspect(lease.effect_id))])
        return await super().record(lease, outcome, retry_in=retry_in)
