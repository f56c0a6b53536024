from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import typer

from ascertain.cli import story
from ascertain.cli.program import build
from ascertain.contracts.finding import Several
from tests.cli import reference
from tests.cli.cases import Night, lost

AGAIN = "write the pages anew with: python -m tests.cli.reference"


def test_the_page_about_the_command_line_says_what_the_command_says():
    assert (reference.DOCS / "cli.md").read_text() == reference.command_line(), AGAIN


def test_the_page_about_exit_codes_says_what_the_code_does():
    assert (reference.DOCS / "exit-codes.md").read_text() == reference.exit_codes(), AGAIN


async def cases():
    """Cases that lead to every kind of advice."""
    night = Night()
    await night.attempt(lost())
    yield await night.known()
    yield await night.known("TERMINATED")
    yield replace(await night.known(None), exit_code=6)
    yield await night.known(doing="held")
    night.later(60)
    await night.finding(Several(external_ids=("a", "b")))
    yield await night.known(doing="quarantined")


async def test_every_command_that_is_advised_is_one_that_can_be_given():
    group = typer.main.get_command(build())
    advised = [item async for known in cases() for item in story.tell(known).safe_next]
    for item in advised:
        program, name, *words = shlex.split(item.command)
        assert program == "ascertain"
        group.commands[name].make_context(name, words)
    assert {shlex.split(item.command)[1] for item in advised} == {
        *("worker", "submit", "resume", "reconcile", "takeover", "sweep", "doctor")
    }


async def test_a_command_that_cannot_be_given_would_be_noticed():
    group = typer.main.get_command(build())
    with pytest.raises(typer.TyperException):
        group.commands["takeover"].make_context("takeover", ["t", "take"])
