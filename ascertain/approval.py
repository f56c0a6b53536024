"""Which re-sends that a person orders need a second person, and who was the first. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from ascertain import keys
from ascertain.contracts.command import Action
from ascertain.contracts.effect import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from ascertain.contracts.command import Command
    from ascertain.contracts.effect import AuditEvent
    from ascertain.contracts.semantics import FourEyes
    from ascertain.contracts.value import JsonObject

# After one of these the effect may be sent again. What a release leads to, automation does by itself.
RESENDS: Final = frozenset({Action.DENY, Action.RETRY, Action.AMEND})
ASKED: Final = "second_person"


def needs_second(command: Command, sends: JsonObject, limit: FourEyes | None) -> str | None:
    """Why a second person must give the same command; None if one is enough.

    Args:
        command: What the person says.
        sends: The input that would be sent: for an amendment the new one.
        limit: The kind's rule; None: there is none.
    """
    if limit is None or command.action not in RESENDS:
        return None
    number = _number(sends, limit.field)
    if number is None:
        return f"its input has no number at {limit.field}, so nobody can say that it is small"
    if number > limit.above:
        return f"{limit.field} is {number:g}, above {limit.above:g}"
    return None


def request(command: Command, why: str) -> Evidence:
    """What the audit trail keeps of a command that waits for a second person."""
    body: JsonObject = {
        "command": _essence(command),
        "request_id": command.request_id,
        "seen": command.evidence,
    }
    detail = (
        f"{command.operator}: {command.action}, {command.reason} (waits for a second person: {why})"
    )
    return Evidence(source="person", rule=ASKED, detail=detail, body=body)


def first_person(command: Command, trail: Iterable[AuditEvent]) -> AuditEvent | None:
    """The same command as another person gave it for the very same version, if one did."""
    return next((event for event in requests(command, trail) if not said_by(command, event)), None)


def requests(command: Command, trail: Iterable[AuditEvent]) -> list[AuditEvent]:
    """The same command as it stands in the trail, by whomever."""
    wanted = _essence(command)
    return [
        event
        for event in trail
        if event.evidence.rule == ASKED and event.evidence.body.get("command") == wanted
    ]


def said_by(command: Command, event: AuditEvent) -> bool:
    """Whether the same person gave both. Case and space make nobody a second person."""
    return _person(command.operator) == _person(event.actor)


def _person(name: str) -> str:
    return "".join(name.split()).casefold()


def _essence(command: Command) -> JsonObject:
    """What two persons must agree on."""
    new = None if command.input is None else hashlib.sha256(keys.canonical(command.input))
    return {
        "action": command.action.value,
        "version": command.version,
        "override": command.override,
        "input_sha256": None if new is None else new.hexdigest(),
    }


def _number(sends: JsonObject, field: str) -> int | float | None:
    value: JsonValue = sends
    for name in field.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
