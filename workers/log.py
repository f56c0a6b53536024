"""What a worker writes to standard error: a line for people, or as JSON with every id that is known."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, cast

from opentelemetry import trace
from temporalio import activity
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.effect import EffectRow

_LINE: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
# The words of the ledger's columns, so that a line is found by what stands there.
IDS: Final = (
    *("task_id", "message_id", "effect_id", "kind", "partition", "state", "attempt"),
    *("lease_owner", "lease_version", "error_class", "rule", "trace_id"),
)
# Under what the Temporal SDK hangs its own ids on lines of workflows and activities.
_TEMPORAL: Final = ("temporal_workflow", "temporal_activity")


def begin(level: str, shape: Literal["text", "json"]) -> None:
    """Write this process's log from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if shape == "json" else logging.Formatter(_LINE))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def about(row: EffectRow) -> dict[str, object]:
    """The ids of an effect, to hang on a line about it (``extra``)."""
    ids = {name: getattr(row, name) for name in IDS if hasattr(row, name)}
    return {**ids, "state": row.state.value, "rule": row.evidence.rule}


class JsonLine(logging.Formatter):
    """A line as one JSON object: ``at``, ``level``, ``logger``, ``message``, the ids, ``error``."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_of_temporal(record.__dict__),
            **_of_here(),
        }
        given = {name: record.__dict__[name] for name in IDS if record.__dict__.get(name)}
        told.update(given)
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def _of_temporal(record: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in _TEMPORAL:
        hung = record.get(name)
        if isinstance(hung, dict):
            ids = cast("dict[str, object]", hung)
            run_id = ids.get("run_id") or ids.get("workflow_run_id")
            found |= {"task_id": ids.get("workflow_id"), "run_id": run_id}
    by_core = getattr(record.get("temporal_log"), "fields", None)
    if isinstance(by_core, dict) and "run_id" in by_core:
        found["run_id"] = cast("dict[str, object]", by_core)["run_id"]
    return found


def _in_a_callback() -> bool:
    try:
        return asyncio.current_task() is None
    except RuntimeError:  # a thread without a loop
        return False


def _of_here() -> dict[str, object]:
    """What the place where the line is written knows."""
    found: dict[str, object] = {}
    if (
        _in_a_callback()
    ):  # of a connection, say, which remembers who opened it and is no part of that
        return found
    if activity.in_activity():
        info = activity.info()
        found = {
            "task_id": info.workflow_id,
            "run_id": info.workflow_run_id,
            "activity": info.activity_type,
        }
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        found["trace_id"] = f"{span.trace_id:032x}"
    return found
