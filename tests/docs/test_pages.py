"""What the pages say is typed and run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from ascertain.cli.program import build
from ascertain.cli.replay import OUTLOOKS
from ascertain.contracts.replay import Result
from ascertain.settings import Settings
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tests.docs.page import follow
from tests.docs.reader import Reader

# Read in this order beside one stack; each page's commands work after those before it.
TYPED = (
    "docs/tutorial.md",
    "docs/how-to/takeover.md",
    "docs/how-to/incident.md",
    "docs/how-to/census.md",
    "docs/how-to/archive.md",
    "docs/how-to/upgrade.md",
    "docs/how-to/restore.md",
)
# Whose commands take minutes or make files of the repository anew: tests of their own run the same.
ELSEWHERE = {
    "README.md": "test_readme.py",
    "README.zh-CN.md": "test_readme.py",
    "CONTRIBUTING.md": "test_pages.py",
    "docs/how-to/adapter.md": "../conform/test_tutorial.py",
    "docs/how-to/deploy.md": "../deploy/test_compose.py",
    "docs/how-to/drill.md": "../drill",
    "docs/how-to/import.md": "../cli/test_import.py",
    "docs/how-to/plain-temporal.md": "../protocol/test_plain_temporal.py",
    "docs/how-to/processes.md": "../deploy/test_processes.py",
    "docs/reference/start-contract.md": "../cli/test_any_language.py",
    "docs/explanation/proof.md": "../drill/test_explorer.py",
}
# Whose addresses and ids are the reader's own: it is tried that the command takes them.
PARSED = (
    "docs/how-to/bulk.md",
    "docs/how-to/command-adapter.md",
    "docs/how-to/encryption.md",
    "docs/how-to/messages.md",
    "docs/how-to/observe.md",
    "docs/how-to/outbox.md",
    "docs/how-to/smtp-adapter.md",
)
# With examples in a language that nothing here runs: what the page says of its being run by hand.
BY_HAND = {"docs/reference/start-contract.md": "Run once with `@temporalio/client` "}


@pytest.fixture(scope="module")
async def reader():
    data = Path(tempfile.mkdtemp(prefix="ascertain-pages-"))
    home = Path(tempfile.mkdtemp(prefix="ascertain-home-"))
    before = archives()
    async with Reader(data, home) as reader:
        await reader.start("./run dev")
        yield reader
    shutil.rmtree(data)
    shutil.rmtree(home)
    for written in archives() - before:
        written.unlink()


def archives() -> set[Path]:
    """What incidents of a stack that was started in this checkout have written."""
    return set((ROOT / "snapshots").glob("*.zip"))


@pytest.mark.timeout(600)  # dozens of commands, each a process of its own
@pytest.mark.parametrize("page", TYPED)
async def test_the_commands_of_a_page_do_what_it_says(reader, page):
    await follow(ROOT / page, reader)


def test_every_page_with_commands_is_typed_by_somebody():
    with_commands = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if any(block.language == "sh" for block in blocks(page))
    }
    assert with_commands == {*TYPED, *ELSEWHERE, *PARSED}


@pytest.mark.parametrize("page", PARSED)
def test_a_command_for_somebody_elses_place_is_one_that_can_be_given(page):
    group: Any = typer.main.get_command(build())
    found = [c for b in blocks(ROOT / page) if b.language == "sh" for c in b.commands]
    given = [shlex.split(c.partition(" > ")[0]) for c in found if c.startswith("./run ")]
    assert given
    for _, *words in given:
        command = group
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)


def test_the_page_about_incidents_has_every_word_that_a_replay_says():
    page = (ROOT / "docs/how-to/incident.md").read_text()
    for outlook, words in OUTLOOKS.items():
        assert f"| {words} (`{outlook}`) |" in page
    for result in Result:
        assert f"| `{result}` |" in page


def test_every_block_is_what_it_says_it_is():
    for page in PAGES:
        for block in blocks(page):
            match block.language:
                case "toml":
                    _is_deployment(block)
                case "python":
                    compile(block.text, block.page, "exec", dont_inherit=True, flags=0x2000)
                case "json":
                    json.loads(block.text)
                case "js":
                    assert BY_HAND[block.page] in page.read_text()
                case "sh" | "text" | "mermaid" | "sql" | "":
                    pass
                case other:
                    pytest.fail(f"{block.page} has a block of {other!r}, which nobody checks")


def _is_deployment(block: Block) -> None:
    found = tomllib.loads(block.text)
    if not {"kinds", "breakers"} & set(found):
        return
    for kind in found.get("kinds", {}).values():
        kind.setdefault("adapter", "http")  # an excerpt
    Settings.model_validate(found)


def test_the_site_builds_without_a_fault_and_loads_nothing_from_elsewhere(tmp_path):
    for name in ("docs", "zensical.toml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    done = subprocess.run(
        [ROOT / ".venv/bin/zensical", "build", "--clean", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = list((tmp_path / "site").rglob("*.html"))
    assert len(made) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in made:
        loaded = re.findall(
            r"<(?:script|img|link)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", page.read_text()
        )
        assert [where for where in loaded if "rel=canonical" not in where] == [], page


def test_a_page_that_stands_in_no_list_would_be_noticed():
    listed = set(re.findall(r'= "([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in there if not page.startswith("adr/")} == listed
