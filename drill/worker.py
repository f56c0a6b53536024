"""A worker as any other, but dressed with the drill's points: ``python -m drill.worker``."""

from __future__ import annotations

import asyncio
import logging
import sys

from ascertain import settings
from drill.points import dress
from workers.serve import serve
from workers.worker import Role


def main() -> None:
    """Serve until stopped; says on standard output when it polls."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(serve(settings.load(), Role(), on_ready=_say, dress=dress))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
