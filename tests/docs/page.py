"""Whoever follows a page: types its commands in their order and sees what it says that they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from tests.docs.blocks import Block, blocks
from tests.waiting import wait_until

WITHIN_S = 200


class Typist(Protocol):
    """Somebody with a shell."""

    async def type(self, command: str) -> str:
        """Run a command and give what it printed.

        Raises:
            AssertionError: It ended with another code than 0.
        """


async def follow(page: Path, typist: Typist) -> None:
    """Type every shell block, and see the lines of a text block that follows one."""
    found = blocks(page)
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.language != "sh":
            continue
        said = ""
        for command in block.commands:
            if command != "./run dev":
                said += await _typed(typist, command)
        if following is not None and following.language == "text":
            await _shows(typist, block, following, said)


async def _typed(typist: Typist, command: str) -> str:
    """What a command prints. One that comes too early is given again, as a person would."""
    failed: list[str] = []

    async def once() -> str | None:
        try:
            return await typist.type(command) or " "
        except AssertionError as error:
            failed[:] = [str(error)]
            return None

    try:
        return await wait_until(once, WITHIN_S, what=command)
    except AssertionError as error:
        raise AssertionError(f"{error}; {''.join(failed)}") from None


async def _shows(typist: Typist, block: Block, expected: Block, said: str) -> None:
    """The lines of the page stand in what was printed; the last command is given until they do."""
    patterns = [_pattern(line) for line in expected.text.splitlines()]
    text = said

    async def shown() -> bool:
        nonlocal text
        if not all(pattern.search(text) for pattern in patterns):
            text = said + await typist.type(block.commands[-1])
        return all(pattern.search(text) for pattern in patterns)

    try:
        await wait_until(shown, WITHIN_S, what=expected.text)
    except AssertionError as error:
        raise AssertionError(f"{error}; it printed {text}") from None


def _pattern(line: str) -> re.Pattern[str]:
    """A line of a page: ``…`` is anything, and so is the width of a space."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in line.split("…")]
    return re.compile(r".*".join(parts) if len(parts) > 1 else rf"{parts[0]}")
