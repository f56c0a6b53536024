"""The alert rules by promtool's own tests, and that none of them is left without one, or without words."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from tests.protocol.prometheus import program

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "ascertain.rules.yml"
TESTS = RULES.with_name("ascertain.rules.test.yml")
FIRED = re.compile(r'alertname="(\w+)"')

pytestmark = pytest.mark.prometheus


def alerts() -> dict[str, dict[str, str]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["annotations"] for rule in group["rules"]}


async def promtool(*words: object) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        await program("promtool"),
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode()


async def test_the_alerts_fire_on_their_conditions_and_only_on_them():
    code, told = await promtool("test", "rules", TESTS)
    assert code == 0, told


def test_every_alert_is_one_that_fires_in_those_tests_and_that_the_page_explains():
    page = (ROOT / "docs" / "how-to" / "observe.md").read_text()
    assert set(FIRED.findall(TESTS.read_text())) == set(alerts())
    for name, words in alerts().items():
        assert f"### {name}\n" in page
        assert words["runbook"] == f"docs/how-to/observe.md#{name.lower()}"
        assert f"| [{name}](#{name.lower()}) | " in page


async def test_an_alert_that_never_fires_would_be_noticed(tmp_path):
    deaf = RULES.read_text().replace('{state=~"paused|half-open"}', '{state="shut"}')
    (tmp_path / RULES.name).write_text(deaf)
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    code, told = await promtool("test", "rules", tmp_path / TESTS.name)
    assert code == 1
    assert "AscertainPartitionPaused" in told
