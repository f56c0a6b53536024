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
REPLAY_WORKFLOW: Final = "Replay"
INCIDENT_WORKFLOW: Final = "Incident"
TASK_QUEUE: Final = "ascertain"

PERFORM: Final = "perform"
RECONCILE: Final = "reconcile"
DECIDE: Final = "decide"
REST: Final = "rest"
SWEEP: Final = "sweep"
CARRY: Final = "carry"
SET_GATE: Final = "set_gate"
CENSUS: Final = "census"
REPLAY_SELECT: Final = "replay_select"
REPLAY_ASK: Final = "replay_ask"
REPLAY_ACT: Final = "replay_act"
INCIDENT_PAUSE: Final = "incident_pause"
INCIDENT_SNAPSHOT: Final = "incident_snapshot"
INCIDENT_RECONCILE: Final = "incident_reconcile"
INCIDENT_RESUME: Final = "incident_resume"

TAKEOVER: Final = "takeover"
PAUSE: Final = "pause"
RESUME: Final = "resume"
REPLAY_ASKED: Final = "replay_asked"
APPROVE: Final = "approve"
CLOSE: Final = "close"
RECONCILE_NOW: Final = "reconcile_now"
PROCEED: Final = "proceed"
# The type of the failure by which an update answers that a command was not applied.
COMMAND_REFUSED: Final = "CommandRefused"

FEED: Final = "feed"

STATUS: Final = "status"
TIMELINE: Final = "timeline"

# Changes of the workflow that a recorded history may be older than.
WITHDRAWS: Final = "withdraws"
LOOKS_AFTER_LOST_DECISION: Final = "looks_after_lost_decision"
GIVES_WAY: Final = "gives_way"
HEARS_FROM_THE_FIRST: Final = "hears_from_the_first"
KNOWS_WHO_WAITS: Final = "knows_who_waits"
HEARS_TO_THE_LAST: Final = "hears_to_the_last"
LOOKS_AFTER_REST: Final = "looks_after_rest"
RECORDS_FIRST: Final = "records_first"
REMEMBERS_AMENDMENTS: Final = "remembers_amendments"
REMEMBERS_UNDO: Final = "remembers_undo"
HEARS_CANCEL_FIRST: Final = "hears_cancel_first"
TELLS_WORDS_APART: Final = "tells_words_apart"
KEEPS_RATE: Final = "keeps_rate"
DECIDES_ON_RECORD: Final = "decides_on_record"
OUTLIVES_A_LOST_TURN: Final = "outlives_a_lost_turn"
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
# Stands on a stream: how many tasks each of its chunks holds.
MEMO_CHUNK: Final = "chunk"
# Stands on a further run of a task: when the first one was started.
MEMO_BEGUN_AT: Final = "begun_at"
# What persons replaced the inputs of its steps by; further runs are given it.
MEMO_AMENDED: Final = "amended"
# Stands once a person had a step taken back, with which: no further run begins another.
MEMO_GIVEN_UP: Final = "given_up"
# Stands on a run that begins nothing new; told to proceed, the run becomes the task's own.
MEMO_ONLY_ASCERTAINS: Final = "only_ascertains"


def schedule_of(what: str, task_queue: str) -> str:
    """The id of the schedule that begins each ``SWEEP`` or ``CENSUS`` of a task queue's deployment."""
    return f"{what}-{task_queue}"


def queue_of(kind: str, task_queue: str) -> str:
    """The task queue of a kind whose work is long, in the deployment of a task queue."""
    return f"{task_queue}-{kind}"
