"""What a person tells a task: one JSON object that names operator, reason and expected version."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from ascertain.contracts.directive import Standing
from ascertain.contracts.effect import Receipt
from ascertain.contracts.value import EffectId, JsonObject, StrictValue, TaskId, Value, Words

# Of the hexadecimal digits of a digest: it is kept for each answer, and tells slips apart, not forgeries.
_DIGITS: Final = 12


def _or_none(given: str) -> str | None:
    """An empty one, as of an unset variable, is none."""
    return given or None


class Action(StrEnum):
    """What a takeover command does.

    ``take`` own it · ``confirm`` it exists · ``deny`` it does not exist · ``retry`` reconcile, then go
    on · ``amend`` it provably does not exist, and is done with a new input instead · ``abandon`` give it
    up · ``undo`` take back a settled step · ``release`` hand it back to automation, beginning with a
    lookup.
    """

    TAKE = "take"
    CONFIRM = "confirm"
    DENY = "deny"
    RETRY = "retry"
    AMEND = "amend"
    ABANDON = "abandon"
    UNDO = "undo"
    RELEASE = "release"


class Command(StrictValue):
    """A takeover command, the same as signal and as update.

    Attributes:
        action: What to do.
        operator: Who says so. A signal from the Web UI carries no identity, so it stands here.
        reason: Why; kept in the audit trail.
        version: The version of the effect that the operator looked at; a stale one is refused.
        effect_id: Which effect; left out: the open one, or for ``undo`` the only step that can be undone.
        input: For ``amend``: the whole new input of the effect.
        receipt: For ``confirm``: the evidence that it exists, if the operator has it.
        evidence: For ``deny`` and ``confirm``: what the operator saw, small.
        override: Apply although a lookup contradicts, or could not be made. Recorded as such.
        request_id: Repeats with the same id are applied once.
    """

    action: Action
    operator: Words
    reason: Words
    version: Annotated[int, Field(ge=1)]
    effect_id: EffectId | None = None
    receipt: Receipt | None = None
    input: JsonObject | None = None
    evidence: JsonObject = Field(default_factory=dict)
    override: bool = False
    request_id: (
        Annotated[str, StringConstraints(max_length=100), AfterValidator(_or_none)] | None
    ) = None

    @property
    def content(self) -> str:
        """A short digest of what is asked for, whoever says it and in whatever words.

        Not of version and override: what was applied once is not asked for anew by looking again.
        """
        asked = self.model_dump(mode="json", include={"receipt", "input"})
        written = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()[:_DIGITS]


class Freed(Value):
    """Another effect that a decision leaves without a fact that could be its own."""

    task_id: TaskId
    effect_id: EffectId
    version: int


class CommandAnswer(Value):
    """Whether a command was applied, and what stands now.

    Attributes:
        pending: Not applied yet, but on record: the same command of a second person applies it.
        in_doubt: Not known to be applied: the answer that would have told was lost.
        freed: For ``confirm``: effects whose only candidates prove others now.
        action: What was decided; None: answered by an earlier release, or not decided at all.
        content: The digest of what was asked for: with another one it is no repeat; None as above.
    """

    applied: bool
    message: str
    pending: bool = False
    in_doubt: bool = False
    freed: tuple[Freed, ...] = ()
    effect_id: EffectId | None = None
    standing: Standing | None = None
    action: Action | None = None
    content: str | None = None

    def is_for(self, command: Command) -> bool:
        """Whether it may be what this very command was answered when it came first."""
        same_effect = (
            None in {command.effect_id, self.effect_id} or command.effect_id == self.effect_id
        )
        same_content = self.content in {None, command.content}
        return self.action in {None, command.action} and same_effect and same_content
