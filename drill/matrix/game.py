"""One drill from what was chosen to its results."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

from drill.matrix.board import Board
from drill.stack import run_folder, servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill.matrix.board import Choice
    from drill.matrix.result import Result


async def matrix(choice: Choice, tell: Callable[[str], None]) -> list[Result]:
    """Start the servers, play every chosen row, and stop the servers.

    The run's folder stays if something is not as it must be.

    Raises:
        SetupError: A server cannot run here; the message names its log.
    """
    folder = run_folder("ascertain-drill-")
    logging.basicConfig(filename=folder / "drill.log", level=logging.WARNING)
    tell(f"{sum(len(choice.cells(row)) for row in choice.rows)} cells; logs in {folder}")
    async with servers(folder) as stack:
        results = await Board(stack, choice, tell).run()
    if all(result.ok for result in results):
        shutil.rmtree(folder, ignore_errors=True)
    return results
