"""Everything Ascertain raises, in one tree.

::

    AscertainError
    ├── InputError            refused at the door, nothing stored, never retried
    │   ├── InvalidTask       ids, sizes, numbers, duplicate step names
    │   ├── UnknownKind       no deployment serves this kind of effect
    │   └── Conflict          the same id with other content
    ├── CommandRefused        a person's command was not applied; says why
    ├── Unavailable           a part cannot be reached now; retried with back-off
    │   ├── LedgerDown
    │   ├── LookupDown
    │   ├── OutboxDown
    │   └── TemporalDown
    ├── SetupError            the deployment is wrong; retrying will not help
    │   ├── InvalidSettings
    │   ├── MissingSecret
    │   └── WrongSchema
    ├── NotFound              no such task or effect
    │   └── AlreadyOver       it is over, so it cannot be told anything any more
    ├── TaskEnded             its workflow ended without a result: cancelled, terminated or failed
    ├── BrokenChain           an audit trail is not what was written
    ├── Unlisted              this kind's adapter cannot list what exists outside
    └── PermitLost            the claim no longer permits sending; nothing was sent

"Unknown" is not in this tree: that something may or may not exist outside is a value.
Messages say what happened, to which id, and what to do next; they never hold a secret.
"""

from __future__ import annotations

from typing import ClassVar, Final

# What a worker does about a part that is down. A command ends instead, and says other words here.
BY_ITSELF: Final = "; tried again by itself"


class AscertainError(Exception):
    """Root of the tree.

    Attributes:
        code: Stable word for machines; part of ``--json`` output.
        exit_code: What the command line exits with.
        retried: Whether Ascertain tries again by itself.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retried: ClassVar[bool] = False


class InputError(AscertainError):
    """The request is wrong and nothing of it was stored."""

    code = "invalid_input"
    exit_code = 2


class InvalidTask(InputError):
    """A task breaks a rule of the door: ids, sizes, numbers, duplicate step names."""

    code = "invalid_task"


class UnknownKind(InputError):
    """No deployment serves this kind of effect."""

    code = "unknown_kind"


class Conflict(InputError):
    """The same id was used before with other content; the first content stands."""

    code = "conflict"
    exit_code = 3


class CommandRefused(AscertainError):
    """A person's command was not applied; the message says what stands in its way."""

    code = "command_refused"
    exit_code = 4


class NotFound(AscertainError):
    """There is no such task or effect."""

    code = "not_found"
    exit_code = 5


class AlreadyOver(NotFound):
    """The task, stream, replay or incident is over; nothing can be told it any more."""

    code = "already_over"
    exit_code = 4


class TaskEnded(AscertainError):
    """The task's workflow ended without a result: cancelled, terminated or failed."""

    code = "task_ended"
    exit_code = 8


class BrokenChain(AscertainError):
    """An audit trail is not what was written: an event was changed, removed, added or moved.

    Attributes:
        effect_id: Whose trail.
        seq: The first event that does not fit; one past the last event if the end is missing.
    """

    code = "broken_chain"
    exit_code = 12

    def __init__(self, effect_id: str, seq: int, why: str) -> None:
        super().__init__(f"the audit trail of {effect_id} is broken at event {seq}: {why}")
        self.effect_id = effect_id
        self.seq = seq


class Unlisted(AscertainError):
    """The adapter of this kind cannot list what exists outside, so there is no census of it."""

    code = "unlisted"


class Unavailable(AscertainError):
    """A part cannot be reached now. Asked again later, slower.

    Attributes:
        part: What cannot be reached, in a word for messages.
    """

    code = "unavailable"
    exit_code = 6
    retried = True
    part: ClassVar[str] = "part"


class LedgerDown(Unavailable):
    """The ledger did not answer: whatever was written may or may not be committed."""

    code = "ledger_down"
    part = "ledger"


class OutboxDown(Unavailable):
    """The database with a service's outbox did not answer."""

    code = "outbox_down"
    part = "outbox"


class LookupDown(Unavailable):
    """The outside cannot be asked now. Says nothing about the effect."""

    code = "lookup_down"


class TemporalDown(Unavailable):
    """The Temporal server did not answer."""

    code = "temporal_down"


class SetupError(AscertainError):
    """The deployment is wrong; retrying will not help."""

    code = "setup"
    exit_code = 7


class InvalidSettings(SetupError):
    """The deployment file or the environment is wrong; the message names the key."""

    code = "invalid_settings"


class MissingSecret(SetupError):
    """A secret that an adapter names is not in the worker's environment or files."""

    code = "missing_secret"


class WrongSchema(SetupError):
    """The ledger's schema is older or newer than this code; says which command mends it."""

    code = "wrong_schema"


class PermitLost(AscertainError):
    """The claim no longer permits sending: it ran out, was used, or was fenced. Nothing was sent."""

    code = "permit_lost"
