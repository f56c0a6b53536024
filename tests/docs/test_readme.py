from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from starter.demo.compare import What
from starter.demo.due import dues
from starter.demo.payment import load
from tests.docs.blocks import ROOT, blocks
from tests.docs.reader import Reader

README = ROOT / "README.md"

# What a reader of the page sees; everything else must just work.
SEEN = {
    "./run submit examples/first.json --wait": ("Task first-1: DONE.",),
    "./run explain first-1": ("It was sent once and never repeated.",),
    "./run list --quarantined": ("lost-1",),
    "./run explain lost-1": ("waits for a person to decide", "nothing proves that attempt 1"),
    ".venv/bin/temporal workflow list": ("lost-1",),
    ".venv/bin/temporal workflow query": ("QUARANTINED",),
}
# Run by tests of their own, for they take minutes (or are what runs this).
ELSEWHERE = {"./run demo", "./run demo --naive", "./run examples", "./run test"}


@pytest.mark.timeout(400)  # a dozen commands, each a process of its own
async def test_with_only_the_readme_a_task_settles_is_found_and_is_taken_over(
    server_directory, tmp_path
):
    typed: list[str] = []
    async with Reader(server_directory, tmp_path) as reader:
        for block in blocks(README):
            if block.language == "python":
                assert "outcome=<TaskOutcome.DONE" in await reader.python(block.text)
                continue
            assert block.language == "sh", block
            for command in block.commands:
                if command in ELSEWHERE:
                    continue
                typed.append(command)
                if command == "./run dev":
                    await reader.start(command)
                    continue
                seen = next(
                    (words for begin, words in SEEN.items() if command.startswith(begin)), None
                )
                await (reader.see(command, *seen) if seen else reader.type(command))
        await _is_in_the_web_ui(reader, "first-1")
        told = await reader.type("./run explain lost-1")
        assert "ada confirmed that it exists as fact-000002: it is in the list." in told
        facts = await _facts(reader)
        assert sorted(fact.get("text", "") for fact in facts) == [
            "did this arrive?",
            "hello, world outside",
            "paid",
        ]
    assert any("takeover" in command and "temporal" in command for command in typed)


async def _is_in_the_web_ui(reader: Reader, task_id: str) -> None:
    """The page is a program that asks this address of the same server."""
    async with httpx.AsyncClient(base_url=reader.ui_url) as browser:
        page = await browser.get(f"/namespaces/default/workflows/{task_id}")
        assert page.status_code == 200
        asked = await browser.get(f"/api/v1/namespaces/default/workflows/{task_id}")
        assert (
            asked.json()["workflowExecutionInfo"]["status"] == "WORKFLOW_EXECUTION_STATUS_COMPLETED"
        )


async def _facts(reader: Reader) -> list[dict[str, Any]]:
    async with httpx.AsyncClient() as browser:
        return (await browser.get(f"{reader.outside_url}/facts")).json()["data"]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readme_counts_what_the_demo_lists(page):
    asked = dues(load(), "default")
    there = [due.what for due in asked if due.exists]
    text = (ROOT / page).read_text()
    assert sum(not due.exists for due in asked) == 9  # in words there
    for count in (len(load()), len(there), there.count(What.CHARGE), there.count(What.REFUND)):
        assert re.search(rf"\b{count}\b", text, re.ASCII), count


def test_the_chinese_readme_has_the_very_same_commands_and_program():
    def of(page: str) -> list[tuple[str, list[str]]]:
        found = blocks(ROOT / page)
        return [(b.language, b.commands if b.language == "sh" else [b.text]) for b in found]

    assert of("README.zh-CN.md") == of("README.md")
