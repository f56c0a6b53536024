"""What the explorer tells of a worker's steps is what the real activities do, on every page it knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from temporalio.testing import ActivityEnvironment

from activities.decide import Decide
from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain.contracts.command import Action
from ascertain.contracts.effect import RESTS_ON_KEY, State
from ascertain.contracts.work import Work
from ascertain.errors import LedgerDown
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from ascertain.ports import Kind
from drill.explorer.activity import (
    ABSENT,
    DOWN,
    FAILED,
    FINDINGS,
    FOUND,
    Fence,
    Resend,
    decision_of,
    finding_of,
)
from drill.explorer.page import (
    EFFECT,
    NOW,
    later,
    memory_of,
    page_of,
)
from drill.explorer.protocol import Protocol
from drill.explorer.setting import settings, ticks
from drill.explorer.told import Came, of_effect, result
from drill.explorer.walk import walk

CLASSES = settings()
ALL = ["asked-keyed", "asked", "asked-at-once", "keyed", "neither", "jobs", "shared"]


class Answering:
    """An adapter that uses its permit, comes to one result, and is asked with one finding."""

    def __init__(self, setting, came=Came.SETTLED, found=DOWN):
        self.semantics = setting.semantics
        self.calls = 0
        self._came = came
        self._found = found

    def prepare(self, effect):
        return b"bytes"

    async def perform(self, call, permit):
        permit.check()
        self.calls += 1
        if self._came is Came.UNKNOWN:
            raise RuntimeError("nobody classified this")
        return result(self._came, 0 if self._came is Came.SETTLED else None).outcome()

    async def lookup(self, call, *, within):
        return finding_of(self._found)

    async def aclose(self):
        pass


class Forgetful(ModelLedger):
    """A ledger that commits the first claim and loses its answer."""

    lost = False

    def when_lost(self):
        """Let time pass, for example."""

    async def claim(self, request):
        answer = await super().claim(request)
        if not self.lost:
            self.lost = True
            self.when_lost()
            raise LedgerDown("the answer is lost")
        return answer


def now():
    return NOW


def serving_of(setting, ledger, adapter):
    kind = Kind(EFFECT.kind, setting.semantics, setting.policy, adapter)
    return Serving(ledger, {kind.name: kind}, "asker")


@pytest.fixture(scope="module")
def run():
    """Runs one activity to its end."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:

        def to_its_end(activity, argument):
            async def running():
                return await ActivityEnvironment().run(activity, argument)

            return runner.run(running())

        yield to_its_end


@pytest.fixture(scope="module", params=ALL)
def known(request):
    """The protocol of one class, and the pages that a walk of it comes upon early."""
    setting = CLASSES[request.param]
    with Protocol(replace(setting, renews=False)) as protocol:
        walked = walk(protocol, limit=700)
        yield protocol, tuple(dict.fromkeys(world.page for world in walked.worlds))


def called(book, page, came, *, resend=False):
    """The explorer's steps of one undisturbed call, and whether it leaves."""
    change = book.claim(page, shut=False, mine=False, resend=resend)
    if not change.granted:
        return change.page, False
    rests = change.page.rule if change.page.rule in RESTS_ON_KEY else ""
    heard = of_effect(result(came, 0 if came is Came.SETTLED else None), rests=rests)
    recorded = book.record(change.page, heard, fresh=True)
    if recorded.taken:
        doubt = result(Came.UNKNOWN, error="fact_taken")
        recorded = book.record(change.page, doubt, fresh=True)
    return recorded.page, True


def asked(protocol, page, found):
    """The explorer's steps of one undisturbed reconcile."""
    book, activities = protocol.book, protocol.activities
    asks, plan = activities.reads(page)
    if isinstance(plan, Fence):
        return asked(protocol, book.fence(page, fresh=True).page, found)
    if isinstance(plan, Resend):
        return called(book, page, Came.SETTLED, resend=True)[0]
    plan = activities.finds(page, found) if asks else plan
    if plan is None:
        return page
    change = book.converge(page, plan, fresh=True)
    second = activities.finds_taken(page, FOUND[0]) if change.taken else None
    return book.converge(page, second, fresh=True).page if second is not None else change.page


@pytest.mark.parametrize("came", list(Came))
def test_an_undisturbed_call_ends_where_the_real_one_does(known, run, came):
    protocol, pages = known
    for page in pages:
        adapter = Answering(protocol.setting, came)
        ledger = ModelLedger(now, memory_of(page))
        serving = serving_of(protocol.setting, ledger, adapter)
        run(Perform(serving).perform, Work(effect=EFFECT))
        end = page_of(ledger.snapshot()), adapter.calls == 1
        assert end == called(protocol.book, page, came), page


@pytest.mark.parametrize("found", FINDINGS)
def test_an_undisturbed_reconcile_ends_where_the_real_one_does(known, run, found):
    protocol, pages = known
    for page in pages:
        adapter = Answering(protocol.setting, found=found)
        ledger = ModelLedger(now, memory_of(page))
        serving = serving_of(protocol.setting, ledger, adapter)
        run(Reconcile(serving).reconcile, Work(effect=EFFECT))
        end = page_of(ledger.snapshot())
        assert end == (None if page is None else asked(protocol, page, found)), page


def written(book, page, decided):
    if decided.move is Move.SUPERSEDE:
        return book.amend(page, decided.denial, decided.conclusion, fresh=True).page
    return book.decide(page, decided.move, decided.conclusion, fresh=True).page


@pytest.mark.parametrize("override", [False, True])
@pytest.mark.parametrize("action", list(Action))
def test_a_command_ends_where_the_real_one_does(known, run, action, override):
    protocol, pages = known
    fact = 0 if action is Action.CONFIRM else None
    for page in filter(None, pages):
        for found in (FOUND[0], ABSENT, FAILED) if protocol.truth.lag is not None else (DOWN,):
            ledger = ModelLedger(now, memory_of(page))
            serving = serving_of(protocol.setting, ledger, Answering(protocol.setting, found=found))
            decision = decision_of(action, override=override, fact=fact)
            run(Decide(serving).decide, decision)
            decided = protocol.activities.commands(
                page, found, action, override=override, fact=fact
            )
            end = page
            if decided is not None:
                end = written(protocol.book, page, decided)
            assert page_of(ledger.snapshot()) == end, (page, found)


def test_a_claim_whose_answer_was_lost_is_handed_out_again_and_once(known, run):
    protocol, pages = known
    book = protocol.book
    granted = [page for page in pages if called(book, page, Came.SETTLED)[1]]
    assert granted
    for page in granted[:10]:
        adapter = Answering(protocol.setting)
        ledger = Forgetful(now, memory_of(page))
        serving = serving_of(protocol.setting, ledger, adapter)
        run(Perform(serving).perform, Work(effect=EFFECT))
        first = book.claim(page, shut=False, mine=False, resend=False).page
        again = book.claim(first, shut=False, mine=True, resend=False)
        assert again.granted
        assert again.page is first
        assert adapter.calls == 1
        assert page_of(ledger.snapshot()) == called(book, page, Came.SETTLED)[0]


@pytest.mark.parametrize("came", list(Came))
def test_a_question_asked_by_sending_again_ends_where_the_real_one_does(known, run, came):
    protocol, pages = known
    asking = [page for page in pages if page and isinstance(reading(protocol, page), Resend)]
    assert bool(asking) == (protocol.setting.name == "keyed")
    for page in asking:
        ledger = ModelLedger(now, memory_of(page))
        adapter = Answering(protocol.setting, came)
        serving = serving_of(protocol.setting, ledger, adapter)
        run(Reconcile(serving).reconcile, Work(effect=EFFECT))
        end = page_of(ledger.snapshot()), adapter.calls == 1
        assert end == called(protocol.book, page, came, resend=True), page


def reading(protocol, page):
    return protocol.activities.reads(page)[1]


def test_a_claim_that_was_fenced_before_its_answer_came_is_cleared_as_the_real_one_is(known, run):
    protocol, _ = known
    book, lease = protocol.book, protocol.setting.scale.lease
    clock = [NOW]
    ledger = Forgetful(lambda: clock[0], memory_of(None))
    ledger.when_lost = lambda: clock.append(clock.pop() + ticks(lease))
    adapter = Answering(protocol.setting)
    run(Perform(serving_of(protocol.setting, ledger, adapter)).perform, Work(effect=EFFECT))
    page = book.claim(None, shut=False, mine=False, resend=False).page
    for _ in range(lease):
        page = later(page, protocol.truth, lease)
    page = book.claim(page, shut=False, mine=True, resend=False).page
    page = book.converge(page, protocol.activities.was_unused(page), fresh=True).page
    row = ledger.snapshot().rows[EFFECT.effect_id]
    assert (row.state, row.attempt) == (page.state, page.tries) == (State.CLEAR, 1)
    assert adapter.calls == 0
