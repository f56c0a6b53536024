"""The explorer walks the real core, and notices every rule that is taken away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drill.explorer.promise import PROMISES, cost

ROOT = Path(__file__).parents[2]
WALKED_WHOLE = ("asked", "asked-at-once", "keyed", "neither", "jobs", "shared")
WIDE = ("asked-keyed", "insisting", "insisting-keyed")
FEW = 50_000


def explored(*arguments: str) -> dict:
    """What the explorer says of itself as a command; it ends with 1 if a rule does not hold."""
    command = [sys.executable, "-m", "drill.explorer", *arguments, "--json"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


@pytest.mark.parametrize("which", WALKED_WHOLE)
def test_no_interleaving_of_all_breaks_a_rule(which):
    (walked,) = explored("--class", which)["Every class of outside"]
    assert walked["story"] is None
    assert walked["complete"]


@pytest.mark.parametrize("which", WIDE)
def test_no_interleaving_within_reach_breaks_a_rule(which):
    (walked,) = explored("--class", which, "--states", str(FEW))["Every class of outside"]
    assert walked["story"] is None
    assert walked["states"] >= FEW


def test_a_fact_that_shows_later_than_declared_is_never_doubled_where_the_key_is_honoured():
    late = next(each for each in PROMISES if "shows" in each.name)
    found = cost(late, "asked-keyed", people=False)
    assert found.story is None
    assert found.states > FEW


def test_each_rule_that_is_taken_away_is_noticed():
    mutants = explored("--mutants")["Every rule taken away once"]
    assert len(mutants) > 10
    assert [mutant["mutant"] for mutant in mutants if mutant["story"] is None] == []
