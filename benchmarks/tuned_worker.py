"""A worker of Ascertain of which one thing is otherwise: ``python -m benchmarks.tuned_worker``.

The product has no switch for most of it, and shall have none: the worker is changed from outside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

from temporalio.worker import Worker

from ascertain import settings
from benchmarks.durable import LEVER_VARIABLE
from benchmarks.lever import WORKERS
from benchmarks.ready import say_ready
from workers import bytecode, serve as served, worker as workers


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    lever = WORKERS[os.environ[LEVER_VARIABLE]]

    # Arguments of a worker that runs workflows; the one of a queue of effects knows none of them.
    def tuned(*arguments: Any, **ours: Any) -> Worker:  # noqa: ANN401  # the SDK's own
        return Worker(*arguments, **{**ours, **lever.worker})

    def leave(*packages: str) -> None:
        """What ``keep`` would keep is read whenever it is imported."""

    setattr(workers, Worker.__name__, tuned)
    if lever.reads_anew:
        setattr(bytecode, bytecode.keep.__name__, leave)
    if lever.collects_after is not None:
        served.COLLECT_AFTER = lever.collects_after
    asyncio.run(served.serve(settings.load(), lever.role, on_ready=say_ready, dress=lever.dress))


if __name__ == "__main__":
    main()
