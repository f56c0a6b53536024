"""What an activity tells the workflow to do next. The workflow obeys and knows no policy."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from ascertain.contracts.effect import Receipt, State
from ascertain.contracts.outcome import Outcome
from ascertain.contracts.value import EffectId, JsonObject, Value

# Nobody who knows the kind of effect takes its work now.
UNSERVED: Final = "unserved"


class Standing(Value):
    """What is known of an effect, for the status query and the Web UI.

    Attributes:
        conclusive_at: From when an empty lookup proves that it does not exist.
        act_from: Nobody should act before: what was sent can still take effect. None: at once.
        safe_next: The commands that a person may give then.
        askable: Whether the outside can be asked for it at all.
    """

    state: State
    version: int
    attempt: int
    lease_version: int
    error_class: str | None = None
    external_id: str | None = None
    job_id: str | None = None
    reason: str = ""
    conclusive_at: datetime | None = None
    act_from: datetime | None = None
    safe_next: tuple[str, ...] = ()
    askable: bool = True


class Unrecorded(Value):
    """An attempt's outcome that the ledger could not take; Temporal's history carries it.

    Attributes:
        retry_in: How long after it is recorded the next attempt has to wait, if it was not done.
    """

    lease_version: int
    attempt: int
    owner: str
    outcome: Outcome
    retry_in: timedelta | None = None


class _Directive(Value):
    """What every directive says beside its own.

    Attributes:
        error_class: Why the effect waits although nothing of it is in doubt: ``UNSERVED``.
    """

    reason: str = ""
    standing: Standing | None = None
    error_class: str | None = None


class Done(_Directive):
    """The effect exists.

    Attributes:
        ordered_back: It existed before it was asked for, and a person had ordered that it be taken back.
    """

    type: Literal["done"] = "done"
    receipt: Receipt
    ordered_back: bool = False


class Refused(_Directive):
    """The effect is closed without a fact: refused or abandoned."""

    type: Literal["refused"] = "refused"
    state: State = State.REFUSED


class Superseded(_Directive):
    """A person replaced its input: perform the effect that has the new one."""

    type: Literal["superseded"] = "superseded"
    by: EffectId
    revision: int
    input: JsonObject


class RetryIn(_Directive):
    """Perform again after ``delay``."""

    type: Literal["retry_in"] = "retry_in"
    delay: timedelta


class ReconcileIn(_Directive):
    """Ask outside after ``delay``; nothing else may be done before."""

    type: Literal["reconcile_in"] = "reconcile_in"
    delay: timedelta
    unrecorded: Unrecorded | None = None


class Held(_Directive):
    """A gate is closed to the effect. Look again after ``delay`` or when told to resume.

    Attributes:
        partition: Whose gate; ``*``: that of every partition.
        turn_at: When its turn comes, if the gate opens little by little.
    """

    type: Literal["held"] = "held"
    partition: str
    delay: timedelta
    turn_at: datetime | None = None


class Quarantined(_Directive):
    """Automation has stopped doing. It asks again, slowly; a person may decide."""

    type: Literal["quarantined"] = "quarantined"
    ask_again_in: timedelta | None = None


class TakenOver(_Directive):
    """A named person owns it; automation neither does nor decides."""

    type: Literal["taken_over"] = "taken_over"
    by: str
    ask_again_in: timedelta | None = None


class RunQueued(_Directive):
    """Run on the kind's own task queue, as a heart-beating activity."""

    type: Literal["run_queued"] = "run_queued"
    task_queue: str
    start_to_close: timedelta
    heartbeat: timedelta


class Conflicting(_Directive):
    """The same effect_id stands in the ledger with other content; never a second fact."""

    type: Literal["conflicting"] = "conflicting"


Directive = Annotated[
    Done
    | Refused
    | Superseded
    | RetryIn
    | ReconcileIn
    | Held
    | Quarantined
    | TakenOver
    | RunQueued
    | Conflicting,
    Field(discriminator="type"),
]
