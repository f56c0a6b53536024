"""A worker as any other, but dressed with the drill's points: ``python -m drill.worker [QUEUE...]``."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from ascertain import settings
from ascertain.cli import last_word
from drill import clock
from drill.points import dress
from drill.protection import strip
from workers.serve import serve
from workers.worker import Role

if TYPE_CHECKING:
    from activities.serving import Serving


def main() -> int:
    """Serve all queues, or those that are named, until stopped; says on standard output when it polls."""
    clock.set_wrong()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    role = Role(tuple(sys.argv[1:]) or None)
    asyncio.run(serve(settings.load(), role, on_ready=_say, dress=_dress))
    return 0


def _dress(serving: Serving) -> Serving:
    return dress(strip(serving))


def _say(line: str) -> None:
    sys.stdout.write(f"ready: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(last_word(main))
