"""Faults are told in words for people, and never with what was given."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ascertain.contracts.command import Command
from ascertain.contracts.fault import WORDS, faults
from ascertain.contracts.replay import Selection
from ascertain.contracts.task import Task
from ascertain.contracts.value import StrictValue
from ascertain.settings import Settings
from tests.adapters.forms import every_form, wrong_values

STEP = {"name": "a", "kind": "x.y"}
TASK = {"task_id": "t", "kind": "k", "steps": [STEP]}
COMMAND = {"action": "take", "operator": "ada", "reason": "x", "version": 1}
KIND = {"adapter": "http"}


@pytest.mark.parametrize(
    ("form", "value", "told"),
    [
        (Task, {}, "task_id: is missing; kind: is missing; steps: is missing"),
        (Task, {**TASK, "colour": 1}, "colour: there is no such field"),
        (Task, {**TASK, "task_id": 7}, "task_id: must be text"),
        (Task, {**TASK, "kind": "Ä" * 9}, "kind: must have the form ^[a-z]"),
        (Task, {**TASK, "kind": "k" * 65}, "kind: must have at most 64 characters"),
        (Task, {**TASK, "steps": []}, "steps: must not be empty"),
        (Task, {**TASK, "steps": "none"}, "steps: must be a list"),
        (Task, {**TASK, "steps": [STEP] * 51}, "steps: must have at most 50 entries"),
        (Task, {**TASK, "steps": [STEP, STEP]}, "task: step names must be distinct; used"),
        (Task, {**TASK, "steps": [{**STEP, "input": 1}]}, "steps.0.input: must be an object"),
        (Task, {**TASK, "steps": [1]}, "steps.0: must be an object"),
        (Task, {**TASK, "undo_on_cancel": "often"}, "undo_on_cancel: must be true or false"),
        (Command, {**COMMAND, "action": "destroy"}, "action: must be one of 'take', 'confirm'"),
        (Selection, {"states": ["SETTLED"]}, "states.0: must be one of 'QUARANTINED' or 'UNKNOWN'"),
        (Command, {**COMMAND, "version": 0}, "version: must be at least 1"),
        (Command, {**COMMAND, "version": "one"}, "version: must be a whole number"),
        (Command, {**COMMAND, "reason": " "}, "reason: must not be empty"),
        (
            Settings,
            {"kinds": {"a": {**KIND, "policy": {"lease": "soon"}}}},
            "kinds.a.policy.lease: must be a length of time: a number of seconds, or ISO 8601",
        ),
        (Settings, {"ledger": {"connections": 1000}}, "connections: must be at most 100"),
        (Settings, {"kinds": {"a": 1}}, "kinds.a: must be an object"),
    ],
)
def test_a_fault_is_told_with_its_field_in_plain_words(form: type[StrictValue], value, told):
    with pytest.raises(ValidationError) as caught:
        form.model_validate(value)
    said = faults(caught.value, "task")
    assert told in said
    assert "Input should" not in said


def test_of_many_faults_the_first_are_told_and_the_others_counted():
    with pytest.raises(ValidationError) as caught:
        Task.model_validate({**TASK, **dict.fromkeys(("a", "b", "c", "d", "e"), "secret")})
    said = faults(caught.value)
    assert said.endswith(" (and 2 more)")
    assert "secret" not in said


def test_a_list_with_a_wrong_entry_is_not_called_empty():
    with pytest.raises(ValidationError) as caught:
        Task.model_validate({**TASK, "steps": [{**STEP, "name": "Place"}]})
    assert faults(caught.value) == "steps.0.name: must have the form ^[a-z0-9][a-z0-9_-]{0,39}$"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"kind": {}}, "kind: there is no such field (did you mean kinds?)"),
        (
            {"ledger": {"colour": 1}},
            "ledger.colour: there is no such field (there are: connections, url)",
        ),
        (
            {"kinds": {"a.b": {**KIND, "policy": {"budgt": 1}}}},
            'kinds."a.b".policy.budgt: there is no such field (did you mean budget?)',
        ),
        (
            {"kinds": {"a": {**KIND, "policy": {"four_eyes": {"abov": 1}}}}},
            "kinds.a.policy.four_eyes.abov: there is no such field (did you mean above?)",
        ),
        (
            {"breakers": [{"lag": 1, "probs": 2}]},
            "breakers.0.probs: there is no such field (did you mean probes?)",
        ),
        ({"kinds": {"No Kind": KIND}}, 'kinds."No Kind": must have the form ^[a-z]'),
    ],
)
def test_a_field_that_is_not_there_is_told_with_the_one_that_was_meant(value, told):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(value)
    assert told in faults(caught.value, form=Settings)


def test_no_fault_that_a_person_can_make_is_told_in_the_validators_own_words():
    told: dict[str, str] = {}
    for form in every_form():
        for value in wrong_values(form):
            try:
                form.model_validate(value)
            except ValidationError as error:
                told |= {fault["type"]: fault["msg"] for fault in error.errors()}
    assert {kind: words for kind, words in told.items() if kind not in WORDS} == {}
    assert len(told) > 20
