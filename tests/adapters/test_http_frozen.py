"""What is frozen, what is sent of it, and what never stands in either."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from ascertain.adapters.http import create
from ascertain.contracts import outcome
from ascertain.errors import InvalidTask, LookupDown, PermitLost
from ascertain.testing.knob import Answer, Knobs, SubmitKnobs
from tests.adapters.calls import KEY, WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.notes import EFFECT, INPUT, KIND, OPTIONS, adapter_for, perform

if TYPE_CHECKING:
    from ascertain.adapters.declared import DeclaredAdapter
    from ascertain.testing.outside import Outside


async def test_a_lost_permit_sends_nothing(outside: Outside, adapter: DeclaredAdapter):
    permit = GivenPermit(lost=True)
    with pytest.raises(PermitLost):
        await adapter.perform(call(EFFECT, adapter.prepare(EFFECT)), permit)
    assert permit.checks == 1
    assert len(outside.books.submits) == 0


async def test_the_frozen_bytes_are_sent_whatever_the_input_is_now(
    outside: Outside, adapter: DeclaredAdapter
):
    frozen = adapter.prepare(EFFECT)
    later = effect(KIND, INPUT | {"text": "changed"})
    assert adapter.prepare(later) != frozen
    await adapter.perform(call(later, frozen), GivenPermit())
    assert outside.books.facts[0].content["text"] == "hello"


async def test_preparing_again_gives_the_same_bytes(adapter: DeclaredAdapter):
    assert adapter.prepare(EFFECT) == adapter.prepare(EFFECT)


async def test_a_missing_value_refuses_the_effect_before_it_is_sent(adapter: DeclaredAdapter):
    with pytest.raises(InvalidTask, match=r"input\.amount is missing"):
        adapter.prepare(effect(KIND, {"text": "x"}))


async def test_a_request_beyond_the_limit_is_refused(adapter: DeclaredAdapter):
    with pytest.raises(InvalidTask, match="at most 262144"):
        adapter.prepare(effect(KIND, INPUT | {"text": "x" * 300_000}))


async def test_the_secret_is_in_no_frozen_bytes_and_in_nothing_that_is_said(outside: Outside):
    echo = Answer(status=402, body={"error": {"code": f"bad key {KEY}"}})
    outside.rules.knobs = Knobs(submit=SubmitKnobs(commit="never", reply=echo))
    async with adapter_for(outside) as adapter:
        frozen = adapter.prepare(EFFECT)
        came_to = await adapter.perform(call(EFFECT, frozen), GivenPermit())
    assert KEY.encode() not in frozen
    assert KEY not in came_to.model_dump_json()
    assert "bad key [secret]" in came_to.evidence.detail


async def test_a_task_cannot_name_a_secret(outside: Outside):
    request = OPTIONS["request"] | {"headers": {"X-Note": "{input.text}"}}
    async with adapter_for(outside, request=request) as adapter:
        what = effect(KIND, INPUT | {"text": "secret:KEY"})
        frozen = adapter.prepare(what)
        assert b'"secret":"KEY"' in frozen  # the deployment's own header
        assert frozen.count(b'"secret":') == 1


@pytest.mark.parametrize("text", ["a\r\nX-Other: b", "a\n", "a\0"])
async def test_a_task_cannot_add_a_header(outside: Outside, text: str):
    request = OPTIONS["request"] | {"headers": {"X-Note": "note: {input.text}"}}
    async with adapter_for(outside, request=request) as adapter:
        with pytest.raises(InvalidTask, match="fits into no header"):
            adapter.prepare(effect(KIND, INPUT | {"text": text}))


async def test_a_missing_secret_sends_nothing_and_says_which(outside: Outside):
    options = copy.deepcopy(OPTIONS) | {"base_url": outside.url}
    adapter = create(KIND, options, GivenSecrets({}))
    came_to = await adapter.perform(call(EFFECT, adapter.prepare(EFFECT)), GivenPermit())
    with pytest.raises(LookupDown, match="KEY is missing"):
        await adapter.lookup(call(EFFECT, adapter.prepare(EFFECT)), within=WITHIN)
    await adapter.aclose()
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "missing_secret"
    assert len(outside.books.submits) == 0


async def test_an_undo_refers_to_what_it_undoes(outside: Outside, adapter: DeclaredAdapter):
    done = await perform(adapter)
    assert isinstance(done, outcome.Settled)
    changes = {
        "request": {"method": "DELETE", "url": "/facts/{undoes.external_id}"},
        "proof": {"external_id": "id", "equals": {"deletes": "{undoes.external_id}"}},
        "lookup": None,
        "job": None,
    }
    async with adapter_for(outside, **changes) as undo:
        what = effect("note.delete", {}, undoes=done.receipt.external_id)
        came_to = await undo.perform(call(what, undo.prepare(what)), GivenPermit())
        assert isinstance(came_to, outcome.Settled)
        with pytest.raises(InvalidTask, match=r"undoes\.external_id is missing"):
            undo.prepare(effect("note.delete", {}))
