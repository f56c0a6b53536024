"""The page about writing an adapter is typed by a newcomer who has nothing but that page."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ascertain.contracts.measured import Measured
from ascertain.settings import load
from tests.adapters.calls import GivenSecrets
from tests.docs.blocks import ROOT, blocks
from workers.registry import build_kinds

# Processes of its own and dozens of attempts: a busy machine needs its time.
pytestmark = pytest.mark.timeout(600)

PAGE = ROOT / "docs" / "how-to" / "adapter.md"
TEMPLATE = ROOT / "examples" / "adapter"


def typed(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_page_shows_stands_in_the_adapter_that_is_copied():
    written = "".join(file.read_text() for file in TEMPLATE.glob("*.py"))
    written = written.replace("  # noqa: ANN401 - the fixture's", "")
    shown = [block.text for block in blocks(PAGE) if block.language == "python"]
    # Blocks are shown without the indentation of what they stand in.
    bare = "\n".join(line.strip() for line in written.splitlines())
    assert len(shown) == 6
    for text in shown:
        assert "\n".join(line.strip() for line in text.splitlines()) in bare, text


def test_a_newcomer_copies_tries_measures_and_serves_an_adapter(tmp_path, monkeypatch):
    shutil.copytree(TEMPLATE, tmp_path / "examples" / "adapter")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    run = tmp_path / "run"
    run.write_text(f'#!/bin/sh\nexec {ROOT}/.venv/bin/ascertain "$@"\n')
    run.chmod(0o755)
    commands = [b.text for b in blocks(PAGE) if b.language == "sh"]
    assert "1 passed" in typed("\n".join(commands), tmp_path)

    mine = tmp_path / "letters"
    (mine / "ascertain.toml").write_text(next(b.text for b in blocks(PAGE) if b.language == "toml"))
    monkeypatch.chdir(mine)
    monkeypatch.syspath_prepend(str(mine))
    kind = build_kinds(load(), GivenSecrets())["letter.post"]
    assert kind.semantics == kind.adapter.semantics
    measured = Measured.model_validate_json((mine / "letters.json").read_text())
    assert (measured.failed, measured.key_honoured, measured.compares_bodies) == ((), True, True)
