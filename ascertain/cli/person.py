"""``ascertain takeover``: a person's command, given for exactly what that person looked at."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import typer
from pydantic import ValidationError

from ascertain.cli import option, output, place, wording
from ascertain.cli.carried import commanding
from ascertain.cli.failure import AwaitsSecond, Declined, InDoubt
from ascertain.contracts.command import Action, Command
from ascertain.contracts.fault import faults
from ascertain.errors import AlreadyOver, CommandRefused, NotFound, TemporalDown

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.cli.place import Place
    from ascertain.client import Client
    from ascertain.contracts.command import CommandAnswer
    from ascertain.contracts.effect import State
    from ascertain.contracts.status import TaskStatus
    from ascertain.contracts.value import JsonObject

_ANSWER_WITHIN_S: Final = 30


@dataclass(frozen=True, slots=True)
class Order:
    """A takeover command as it was typed."""

    action: str
    operator: str
    reason: str
    version: int | None = None
    effect_id: str | None = None
    external_id: str | None = None
    new_input: str | None = None
    evidence: str | None = None
    override: bool = False
    request_id: str | None = None

    def command(self) -> Command:
        """The command that is sent.

        Raises:
            BadParameter: A part of it is not what a command takes.
        """
        receipt = {"external_id": self.external_id} if self.external_id is not None else None
        typed = {
            "action": self.action,
            "operator": self.operator,
            "reason": self.reason,
            "version": self.version,
            "effect_id": self.effect_id,
            "receipt": receipt,
            "input": _input(self.new_input),
            "evidence": _object("--evidence", self.evidence) or {},
            "override": self.override,
            "request_id": option.request_id(self.request_id),
        }
        try:
            return Command.model_validate(typed)
        except ValidationError as error:
            raise typer.BadParameter(faults(error)) from None


@dataclass(frozen=True, slots=True)
class Seen:
    """The effect that a command is about, as it stood when the person was shown it."""

    step: str
    effect_id: str
    state: State
    version: int
    since: datetime
    reason: str = ""


async def takeover(
    task_id: str, order: Order, config: Path | None, *, sure: bool, as_json: bool
) -> None:
    """Give the command, after showing what it is about unless the person said which version.

    Raises:
        CommandRefused: It was not applied; says what stands in its way.
        AwaitsSecond: It is on record, and a second person has to say the same.
        InDoubt: It is not known whether it is applied.
        NotFound: There is no such task; ``AlreadyOver``: it is over.
        BadParameter: Nobody said for which version, and nobody can be asked; or an option does not fit the
            action.
    """
    if order.external_id is not None and order.action != Action.CONFIRM:
        raise typer.BadParameter(
            f"--external-id would be passed over by {order.action}: confirm takes it"
        )
    if order.version is None and as_json:
        raise typer.BadParameter("with --json the --version that was looked at must be given")
    where = place.find(config)
    client = await where.client()
    async with commanding(client, where, task_id):
        answer = await _answer(where, client, task_id, order, sure=sure)
    if answer.pending:
        raise AwaitsSecond(f"task {task_id}: {answer.message}", answer.model_dump(mode="json"))
    if answer.in_doubt:
        raise InDoubt(f"task {task_id}: {answer.message}", answer.model_dump(mode="json"))
    if not answer.applied:
        raise Declined(f"task {task_id}: {answer.message}", answer.model_dump(mode="json"))
    if as_json:
        output.document(answer.model_dump(mode="json"))
    else:
        output.line(wording.sentence(f"Task {task_id}", answer.message))


async def _answer(
    where: Place, client: Client, task_id: str, order: Order, *, sure: bool
) -> CommandAnswer:
    before = None
    if order.version is None and order.request_id is not None:
        # What it was applied to may be closed, and another effect open: the answer is looked for first.
        before = await client.answered_before(task_id, replace(order, version=1).command())
    if order.version is None and before is None:
        undo = order.action == Action.UNDO
        seen = await (_settled(where, client, task_id, order) if undo else _open(client, task_id))
        order = replace(order, version=seen.version, effect_id=order.effect_id or seen.effect_id)
        if not sure:
            _confirm(task_id, order, seen)
    return before or await _give(client, task_id, order.command())


async def _status(client: Client, task_id: str) -> TaskStatus:
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await client.status(task_id)
    except TimeoutError:
        raise _unanswered(task_id) from None
    except NotFound as error:
        raise NotFound(f"there is no task {task_id}") from error


async def _open(client: Client, task_id: str) -> Seen:
    """The effect that the task is at, which every command but ``undo`` is about."""
    status = await _status(client, task_id)
    opened = status.open
    if opened is None and status.outcome is not None:
        raise AlreadyOver(f"task {task_id} is {status.outcome}, so there is nothing to decide")
    if opened is None:
        raise CommandRefused(f"task {task_id} has no open effect, so there is nothing to decide")
    if opened.standing is None:
        raise CommandRefused(
            f"step {opened.step} is not in question now ({opened.reason or opened.doing}), so there is "
            "nothing to decide; cancel the task if it is not wanted any more"
        )
    state, version = opened.standing.state, opened.standing.version
    return Seen(opened.step, opened.effect_id, state, version, opened.since, opened.reason)


async def _settled(where: Place, client: Client, task_id: str, order: Order) -> Seen:
    """The one settled step that can be taken back; its version stands in the ledger alone."""
    undoable = (await _status(client, task_id)).undoable
    able = [done for done in undoable if order.effect_id in {None, done.effect_id}]
    if len(able) != 1:
        steps = ", ".join(f"{done.step} ({done.effect_id})" for done in undoable)
        which = f"say which by --effect: {steps}" if steps else "there is none"
        why = "undo is about one settled step that declares an undo and still has it"
        raise CommandRefused(f"task {task_id}: {why}; {which}")
    async with where.ledger() as ledger:
        case = await ledger.inspect(able[0].effect_id)
    if case is None:
        raise NotFound(f"the ledger does not know effect {able[0].effect_id} of task {task_id}")
    row = case.row
    return Seen(row.step, row.effect_id, row.state, row.version, row.state_since)


def _confirm(task_id: str, order: Order, seen: Seen) -> None:
    output.note(f"Task {task_id}, step {seen.step}, effect {seen.effect_id}")
    said = f"  {seen.state}, version {seen.version}, since {wording.moment(seen.since)}"
    output.note(wording.sentence(said, seen.reason))
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm: say --yes, or which --version")
    if not typer.confirm(f"{order.action} it as {order.operator}?", err=True):
        raise CommandRefused(f"you said no, so nothing was done about task {task_id}")


async def _give(client: Client, task_id: str, command: Command) -> CommandAnswer:
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await client.takeover(task_id, command)
    except TimeoutError:
        raise _unanswered(task_id, command.request_id) from None


def _unanswered(task_id: str, request_id: str | None = None) -> TemporalDown:
    silence = f"no worker answered for task {task_id} within {_ANSWER_WITHIN_S} s"
    if request_id is None:
        return TemporalDown(f"{silence}, so nothing was decided: start one with `ascertain worker`")
    return TemporalDown(
        f"{silence}, so it is not known whether the command is applied: start one with `ascertain worker` "
        f"and give the command again with --request-id {request_id}, which is applied once"
    )


def _input(text: str | None) -> JsonObject | None:
    if text is None or not text.startswith("@"):
        return _object("--input", text)
    try:
        return _object("--input", Path(text[1:]).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--input {text} cannot be read: {error}") from None


def _object(option: str, text: str | None) -> JsonObject | None:
    if text is None:
        return None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{option} must be a JSON object")
    return cast("JsonObject", value)
