"""The program of the media example: draws a poster, and tells how far it is."""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import sys
from html import escape
from pathlib import Path

LINES = 5


def main(title: str, output: str) -> None:
    """Draw it line by line."""
    drawn: list[str] = []
    for line in range(1, LINES + 1):
        drawn.append(
            f'<text x="10" y="{20 * line}" opacity="{line / LINES}">{escape(title)}</text>'
        )
        sys.stdout.write(f"drawn {line} of {LINES}\n")
        sys.stdout.flush()
    Path(output).write_text(f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
