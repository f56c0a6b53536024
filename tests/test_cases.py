"""The table of cases names tests, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "explanation" / "cases.md"
ROW = re.compile(
    r"^\| (?P<case>\S[^|]*) \| (?P<seen>\S[^|]*) \| (?P<tests>`[^|]*`) \|$", re.MULTILINE
)
FEWEST = 30


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
