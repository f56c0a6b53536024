from __future__ import annotations

from datetime import timedelta

import pytest

from activities.pure import unclaimed
from activities.serving import Served
from ascertain.contracts import outcome
from ascertain.contracts.effect import Effect, Evidence, Receipt
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.ports import Kind

EFFECT = Effect(
    effect_id="ef1-a", task_id="task-1", step="do", kind="toy.sum", partition="p", input={}
)
PURE = Semantics(pure=True, max_duration=timedelta(seconds=5))
SEEN = Evidence(source="answer", rule="proof")


class Sums:
    semantics = PURE

    def __init__(self, came_to):
        self._came_to = came_to

    def prepare(self, effect):
        return b"{}"

    async def perform(self, call, permit):
        permit.check()
        await permit.renew()
        permit.heartbeat("half")
        if isinstance(self._came_to, BaseException):
            raise self._came_to
        return self._came_to


async def tried(came_to):
    heard = []
    served = Served(Kind("toy.sum", PURE, Policy(), None), Sums(came_to))
    return await unclaimed(served, EFFECT, heard.append), heard


async def test_what_settles_needs_no_claim():
    settled = outcome.Settled(receipt=Receipt(external_id="x"), evidence=SEEN)
    done, heard = await tried(settled)
    assert done is not None
    assert done.receipt.external_id == "x"
    assert heard == ["half"]


@pytest.mark.parametrize(
    "came_to",
    [
        outcome.Refused(error_class="no", evidence=SEEN),
        outcome.NotDone(error_class="no", evidence=SEEN),
        ValueError(),
        SystemExit(1),
        None,
    ],
)
async def test_whatever_does_not_settle_is_tried_again_under_a_claim(came_to):
    done, _ = await tried(came_to)
    assert done is None


def test_pure_is_harmless():
    assert PURE.resend_for == timedelta.max
