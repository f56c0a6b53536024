"""``ascertain conform``: a table or one document, and an exit code that tells."""

from __future__ import annotations

import json

import pytest

from ascertain.cli.program import run
from ascertain.contracts.measured import Measured
from ascertain.testing.conformance import Trial
from tests.conform import trials
from tests.conform.test_wrong_adapters import KEYLESS, trial

# Processes of its own and dozens of attempts: a busy machine needs its time.
pytestmark = pytest.mark.timeout(600)

PLACE = "tests.conform.test_command"

computation = trials.compute
greedy = trial("Letters", KEYLESS)
nothing = 7
no_adapter = Trial(kind=lambda _: {"adapter": "fax"}, input=lambda number: {"number": number})
no_table = Trial(kind=lambda _: {"adaptor": "fax"}, input=lambda number: {"number": number})
no_proxy = Trial(kind=lambda _: {}, input=lambda _: {}, outside="https://letters.example.com")


def test_an_adapter_that_passes_is_told_as_a_table_and_ends_with_0(capsys):
    assert run(["conform", f"{PLACE}:computation"]) == 0
    out = capsys.readouterr().out
    assert "flood" in out
    assert out.endswith("nothing failed\n")


def test_an_adapter_that_fails_ends_with_1_and_its_contract_says_what_was_measured(
    capsys, tmp_path
):
    file = tmp_path / "letters.json"
    assert run(["conform", f"{PLACE}:greedy", "--json", "--write", str(file)]) == 1
    told = json.loads(capsys.readouterr().out)
    results = {check["name"]: check["result"] for check in told["checks"]}
    assert (told["ok"], results["key"], results["settle"]) == (False, "failed", "held")
    measured = Measured.model_validate_json(file.read_text())
    assert measured.model_dump(mode="json") == told["measured"]
    assert measured.key_honoured is False
    assert measured.unfit == ()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no_such_module:x", "No module named 'no_such_module'"),
        (f"{PLACE}:no_such_name", "no_such_name"),
        (f"{PLACE}:nothing", "is no Trial and opens none: it gives int"),
        ("conform", "MODULE:TRIAL"),
        (f"{PLACE}:no_adapter", "cannot be opened: InvalidSettings"),
        (f"{PLACE}:no_table", "the trial's kind: adapter: is missing"),
        (f"{PLACE}:no_proxy", "must be http://host:port or tcp://host:port"),
    ],
)
def test_a_trial_that_is_not_there_ends_with_7_and_says_so(place, why, capsys):
    assert run(["conform", place]) == 7
    assert why in capsys.readouterr().err
