"""``ascertain schema``: what another language needs to start a task and to read what became of it."""

from __future__ import annotations

from typing import Final

from ascertain.cli import output
from ascertain.contracts import names
from ascertain.contracts.command import Command
from ascertain.contracts.task import Task, TaskResult

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def show() -> None:
    """Print the start contract as one JSON document."""
    output.document(start_contract())


def start_contract() -> dict[str, object]:
    """Names, attributes and JSON schemas, from the contracts themselves."""
    return {
        "workflow_type": names.TASK_WORKFLOW,
        "workflow_id": "the task's task_id",
        "task_queue": names.TASK_QUEUE,
        "search_attributes": {
            **dict.fromkeys(names.KEYWORD_ATTRIBUTES, "Keyword"),
            **dict.fromkeys(names.DATETIME_ATTRIBUTES, "Datetime"),
        },
        "memo": {names.MEMO_FINGERPRINT: "optional", names.MEMO_MESSAGE_ID: "optional"},
        "nexus": {"service": names.NEXUS_SERVICE, "operation": names.NEXUS_TASK},
        "queries": [names.STATUS, names.TIMELINE],
        "signals": [names.TAKEOVER, names.RECONCILE_NOW, names.RESUME],
        "updates": [names.TAKEOVER],
        "argument": {"$schema": _DIALECT, **Task.model_json_schema()},
        "result": {"$schema": _DIALECT, **TaskResult.model_json_schema()},
        "command": {"$schema": _DIALECT, **Command.model_json_schema()},
    }
