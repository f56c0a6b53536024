"""A worker of Ascertain as any other: ``python -m benchmarks.ascertain_worker``."""

from __future__ import annotations

import asyncio
import logging
import sys

from ascertain import settings
from benchmarks.ready import say_ready
from workers.serve import serve
from workers.worker import Role


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(serve(settings.load(), Role(), on_ready=say_ready))


if __name__ == "__main__":
    main()
