"""Every name that stands in a running history, spelled once.

Moving code must never break a running workflow, so nothing here is derived from a module path.
"""

from __future__ import annotations

from typing import Final

TASK_WORKFLOW: Final = "Task"
SWEEP_WORKFLOW: Final = "Sweep"
STREAM_WORKFLOW: Final = "Stream"
GATE_WORKFLOW: Final = "Gate"
CENSUS_WORKFLOW: Final = "Census"
TASK_QUEUE: Final = "ascertain"

PERFORM: Final = "perform"
RECONCILE: Final = "reconcile"
DECIDE: Final = "decide"
SWEEP: Final = "sweep"
CARRY: Final = "carry"
SET_GATE: Final = "set_gate"
CENSUS: Final = "census"

TAKEOVER: Final = "takeover"
RESUME: Final = "resume"
RECONCILE_NOW: Final = "reconcile_now"
PROCEED: Final = "proceed"
# The type of the failure by which an update answers that a command was not applied.
COMMAND_REFUSED: Final = "CommandRefused"

FEED: Final = "feed"
PAUSE: Final = "pause"
CLOSE: Final = "close"

STATUS: Final = "status"
TIMELINE: Final = "timeline"

# Changes of the workflow that a recorded history may be older than.
WITHDRAWS: Final = "withdraws"
NEXUS_SERVICE: Final = "ascertain"
NEXUS_TASK: Final = "task"

TASK_KIND: Final = "TaskKind"
TASK_PARTITION: Final = "TaskPartition"
TASK_STATE: Final = "TaskState"
TASK_STATE_SINCE: Final = "TaskStateSince"
TASK_ERROR_CLASS: Final = "TaskErrorClass"

KEYWORD_ATTRIBUTES: Final = (TASK_KIND, TASK_PARTITION, TASK_STATE, TASK_ERROR_CLASS)
DATETIME_ATTRIBUTES: Final = (TASK_STATE_SINCE,)

MEMO_FINGERPRINT: Final = "fingerprint"
MEMO_MESSAGE_ID: Final = "message_id"
# Stands on a run that begins nothing new; told to proceed, the run becomes the task's own.
MEMO_ONLY_ASCERTAINS: Final = "only_ascertains"
