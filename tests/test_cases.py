"""The table of cases names tests, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from importlib.metadata import entry_points
from pathlib import Path

from ascertain.kind import GROUP

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "explanation" / "cases.md"
ROW = re.compile(
    r"^\| (?P<case>\S[^|]*) \| (?P<seen>\S[^|]*) \| (?P<adapters>\S[^|]*) \| (?P<tests>`[^|]*`) \|$",
    re.MULTILINE,
)
FEWEST = 30
NO_ADAPTERS = "any"
OWN = "own"


def defined() -> set[str]:
    """``file.py::name`` of every test function."""
    return {
        f"{path.relative_to(ROOT / 'tests')}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_the_table_of_cases_names_is_there():
    rows = list(ROW.finditer(TABLE.read_text("utf-8")))
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row["tests"])}
    assert len(rows) >= FEWEST
    assert named - defined() == set()


def test_what_adapters_have_a_part_in_is_tried_on_two_of_them_at_least():
    known = {entry.name for entry in entry_points(group=GROUP)} | {OWN}
    named = [row["adapters"].split(", ") for row in ROW.finditer(TABLE.read_text("utf-8"))]
    tried = [set(names) for names in named if names != [NO_ADAPTERS]]
    assert all(len(names) > 1 and names <= known for names in tried), tried
    assert len(tried) > len(named) / 2
