"""Rows together with their trails, page by page."""

from __future__ import annotations

import pytest

from ascertain.contracts.effect import TERMINAL, State
from ascertain.ledger.audit import verify_chain
from ascertain.ports import EffectFilter, Ledger
from tests.ledger.steps import in_state

OPEN = frozenset(State) - TERMINAL


async def filled(ledger: Ledger) -> None:
    for number, state in enumerate((State.SETTLED, State.UNKNOWN, State.QUARANTINED, State.CLEAR)):
        await in_state(ledger, state, f"{number}")


@pytest.mark.parametrize("states", [None, OPEN, frozenset({State.UNKNOWN})])
async def test_pages_follow_each_other_and_leave_nothing_out(either: Ledger, states) -> None:
    await filled(either)
    seen: list[str] = []
    after = ""
    while page := await either.trails(EffectFilter(states=states, limit=1), after=after):
        assert len(page) == 1
        after = page[-1].row.effect_id
        seen.append(after)
    whole = await either.effects(EffectFilter(states=states))
    assert seen == sorted(row.effect_id for row in whole)
    assert seen


async def test_a_row_and_its_trail_fit_together(either: Ledger) -> None:
    await filled(either)
    for trail in await either.trails(EffectFilter()):
        verify_chain(trail.events, trail.row)
        assert tuple(trail.events) == tuple(await either.audit(trail.row.effect_id))
