"""The code blocks of the pages, and what a reader of a page does with them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block: continued lines are one, comments and functions' bodies too."""
        lines = re.sub(r"\\\n\s*", " ", self.text).splitlines()
        joined: list[str] = []
        for line in lines:
            bare = re.sub(r"\s{2,}#.*$", "", line)
            if not bare.strip() or bare.startswith("#"):
                continue
            if joined and _is_open(joined[-1]):
                joined[-1] += "\n" + bare
            else:
                joined.append(bare)
        return joined


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    name = str(page.relative_to(ROOT))
    return [
        Block(name, found["language"], dedent(found["text"]))
        for found in _FENCE.finditer(page.read_text())
    ]


def _is_open(command: str) -> bool:
    """Whether a quoted word, a pipe or a function goes on in the next line."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    if command.rstrip().endswith("|"):
        return True
    return "() {" in command and command.count("{") > command.count("}")
