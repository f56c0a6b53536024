"""A worker of a later release: ``python -m tests.protocol.later_worker [QUEUE...]``."""

from __future__ import annotations

import workers.worker
from drill import worker
from tests.protocol.later_workflow import LaterTaskWorkflow

if __name__ == "__main__":
    workers.worker.TaskWorkflow = LaterTaskWorkflow  # type: ignore[misc]
    worker.main()
