"""The protocol with one rule taken away, many times over: each walk must find a counter-example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import State
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Case
from drill.explorer import broken_ledger as broken
from drill.explorer.activity import ASKER
from drill.explorer.hand import Working
from drill.explorer.page import PERSON
from drill.explorer.protocol import REAL, Protocol, Rules
from drill.explorer.setting import SMALL, Scale, settings, ticks
from drill.explorer.story import story_of
from drill.explorer.told import Came, of_effect, result
from drill.explorer.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from ascertain.contracts.semantics import Semantics
    from drill.explorer.setting import Setting
    from drill.explorer.story import Story
    from drill.explorer.told import Result

LONG_AGO: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule taken away.

    Attributes:
        name: In few words, what is done wrong.
        where: The class of outside in which it shows.
        rules: The protocol's parts, one of them swapped.
        declared: What the adapter declares, perhaps falsely.
    """

    name: str
    where: str
    rules: Rules = REAL
    declared: Callable[[Semantics], Semantics] | None = None

    def setting(self, scale: Scale = SMALL) -> Setting:
        """The world in which it is walked."""
        setting = settings(scale)[self.where]
        if self.declared is None:
            return setting
        return replace(setting, semantics=self.declared(setting.semantics))


@dataclass(frozen=True, slots=True)
class Caught:
    """What came of a mutant; ``story`` is None if the walk found nothing wrong."""

    mutant: Mutant
    states: int
    story: Story | None


def hunt(mutant: Mutant, scale: Scale = SMALL) -> Caught:
    """Walk a mutant until it is caught."""
    with Protocol(mutant.setting(scale), mutant.rules) as protocol:
        walked = walk(protocol)
        story = None if walked.fault is None else story_of(protocol, walked)
        return Caught(mutant, len(walked.worlds), story)


def _ledger(name: str, where: str, ledger: type[ModelLedger]) -> Mutant:
    return Mutant(name, where, Rules(ledger=ledger))


def _working(name: str, where: str, working: Working) -> Mutant:
    return Mutant(name, where, Rules(working=working))


def _seen(name: str, where: str, change: Callable[[Case], Case], reader: str = ASKER) -> Mutant:
    def seen(case: Case, who: str) -> Case:
        return change(case) if who == reader else case

    return Mutant(name, where, Rules(seen=seen))


def _leased_until(case: Case, shift: timedelta) -> Case:
    row = case.row
    return replace(case, row=row.model_copy(update={"lease_until": row.lease_until - shift}))


def _absent_at_once(case: Case) -> Case:
    return _leased_until(case, LONG_AGO) if case.row.state is State.UNKNOWN else case


def _sent_at_the_claim(case: Case) -> Case:
    return _leased_until(case, ticks(SMALL.lease)) if case.row.state is State.UNKNOWN else case


def _denied_before_the_horizon(case: Case) -> Case:
    quiet = case.row.now >= case.row.lease_until + ticks(SMALL.in_flight)
    return _leased_until(case, ticks(SMALL.lag)) if quiet else case


def _open_to_be_taken(case: Case) -> Case:
    if case.row.state is not State.IN_FLIGHT:
        return case
    return _leased_until(
        replace(case, row=case.row.model_copy(update={"state": State.UNKNOWN})), LONG_AGO
    )


def _as_if_nobody_let_go(case: Case) -> Case:
    evidence = case.row.evidence.model_copy(update={"rule": "earlier"})
    return replace(case, row=case.row.model_copy(update={"evidence": evidence}))


def _only_attempt(case: Case) -> Case:
    return replace(case, row=case.row.model_copy(update={"attempt": 1}))


def _without_late(case: Case) -> Case:
    return Case(case.row, ())


def _as_heard(heard: Result, *, rests: str) -> Result:
    del rests
    return heard


def _unclear_is_not_done(heard: Result, *, rests: str) -> Result:
    said = of_effect(heard, rests=rests)
    return result(Came.NOT_DONE) if said.came is Came.UNKNOWN else said


def _accepted_is_done(heard: Result, *, rests: str) -> Result:
    said = of_effect(heard, rests=rests)
    return result(Came.SETTLED, 0) if said.came is Came.ACCEPTED else said


def _with(**changes: object) -> Callable[[Semantics], Semantics]:
    return lambda semantics: semantics.model_copy(update=changes)


_KEY_PLUS: Final = ticks(SMALL.key + SMALL.in_flight)

MUTANTS: Final = (
    _ledger("a claim is granted beside an open one", "keyed", broken.OpenClaimIgnored),
    _ledger("a claim is granted on top of a doubt", "asked", broken.DoubtIgnored),
    _ledger("a claim does not raise lease_version", "asked", broken.ClaimKeepsNumber),
    _ledger("a fence does not raise lease_version", "asked", broken.FenceKeepsNumber),
    _ledger("a claim is fenced before its lease is over", "asked", broken.EarlyFence),
    _ledger("a record is taken whatever its lease_version", "keyed", broken.RecordIgnoresNumber),
    _ledger("a conclusion is taken whatever its version", "asked", broken.ConvergeIgnoresVersion),
    _ledger("anybody decides on what is taken over", "neither", broken.DecideIgnoresOwner),
    _ledger("the gate is not read by the claim", "neither", broken.GateIgnored),
    _ledger("the gate is not read by a renewal", "neither", broken.GateIgnoredByRenewal),
    _ledger("a claim does not wait for its turn", "neither", broken.TurnIgnored),
    _ledger("the budget is not read by the claim", "neither", broken.BudgetIgnored),
    _ledger("a late receipt is thrown away", "neither", broken.LateReceiptsForgotten),
    _ledger("a cancelled task leaves no trace", "neither", broken.WithdrawalsForgotten),
    _ledger("one fact may prove two effects", "shared", broken.FactsShared),
    _working("a permit is good for two calls", "neither", Working(once=False)),
    _working("a permit does not end with its lease", "neither", Working(ends=False)),
    _working(
        "a permit counts from the last time that it was asked for",
        "neither",
        Working(from_first_ask=False),
    ),
    _working("a permit outlives its attempt", "neither", Working(ends_with_attempt=False)),
    _working("a re-send that did nothing counts as not done", "keyed", Working(says=_as_heard)),
    _working("an unclear answer counts as not done", "neither", Working(says=_unclear_is_not_done)),
    _working("202 counts as done", "jobs", Working(says=_accepted_is_done)),
    _seen("an empty lookup is conclusive at once", "asked", _absent_at_once),
    _seen("the last possible send is taken to be the claim", "asked", _sent_at_the_claim),
    _seen("an earlier attempt's failure is believed", "jobs", _only_attempt),
    _seen("what a person did by hand is not waited for", "asked", _as_if_nobody_let_go),
    _seen("late receipts are not read", "neither", _without_late),
    _seen("a person denies before the horizon", "asked", _denied_before_the_horizon, PERSON),
    Mutant(
        "what is in flight may be taken over",
        "neither",
        Rules(
            ledger=broken.TakesInFlight,
            seen=lambda case, who: _open_to_be_taken(case) if who == PERSON else case,
        ),
    ),
    Mutant("the lag is not counted", "asked", declared=_with(lag=timedelta(0))),
    Mutant(
        "the time in flight is not counted", "asked", declared=_with(in_flight_max=timedelta(0))
    ),
    Mutant("a re-send is allowed after the key", "keyed", declared=_with(idempotent_for=LONG_AGO)),
    Mutant(
        "the key's margin does not cover the time in flight",
        "keyed",
        declared=_with(idempotent_for=_KEY_PLUS),
    ),
)
