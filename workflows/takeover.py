"""How a task hears a person's commands: each is applied once, and a repeat gets its first answer."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from ascertain.contracts import names
    from ascertain.contracts.command import Action, Command, CommandAnswer, Freed
    from ascertain.contracts.fault import faults

from workflows.answered import Answers
from workflows.argument import decoded
from workflows.content import admit_input, decision_about, effect_of

if TYPE_CHECKING:
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.task import StepResult, Task
    from workflows.course import Course
    from workflows.effect import Pursuit
    from workflows.view import View

# The shortest timer: what came before it is on record when it fires.
AT_ONCE = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Meant:
    """A command and the effect that it is for, whatever the task has come to when it is decided."""

    given: Command
    effect: Effect
    pursuit: Pursuit

    @property
    def command(self) -> Command:
        """It names the effect."""
        return self.given.model_copy(update={"effect_id": self.effect.effect_id})

    @property
    def recognisable(self) -> Command:
        """The same with a request id by which the ledger knows its repeat.

        It is made of what was given: a reset, which gives it again, may have another effect open.
        """
        if self.given.request_id:
            return self.command
        digest = hashlib.sha256(self.given.model_dump_json().encode()).hexdigest()
        return self.command.model_copy(update={"request_id": f"own-{digest[:32]}"})


class Takeover:
    """The commands to one task, one after the other.

    Each is for the open effect of the task's course, or for a settled step that is to be taken back.
    """

    def __init__(self, course: Course, view: View) -> None:
        self.answers: Answers[CommandAnswer] = Answers()
        self._course = course
        self._view = view
        self._deciding = asyncio.Lock()

    def admit(self, content: object) -> None:
        """Let in what can be decided, or was decided before; a ValueError is a sentence for its sender."""
        given = _command(content)
        if self._course.task is not None and self._answered_before(given) is None:
            self._admitted(given)

    async def answer(self, content: object, *, on_record: bool) -> CommandAnswer:
        """Decide a command, or say in one sentence why it is not applied.

        Args:
            content: What somebody gave.
            on_record: Whether the server has it for good. What is decided before can be lost with this
                worker, though it was applied.
        """
        try:
            given = _command(content)
            if self._course.task is None and workflow.patched(names.HEARS_FROM_THE_FIRST):
                # It came with the first words of this history, before what an earlier one gave over was read.
                await workflow.wait_condition(lambda: self._course.task is not None)
            before = self._answered_before(given)
            if before is not None:
                return before
            meant = self._admitted(given)
            if not on_record and workflow.patched(names.DECIDES_ON_RECORD):
                await workflow.sleep(AT_ONCE)
            return await self._decide(meant)
        except ValueError as error:
            return CommandAnswer(applied=False, message=str(error))

    def _answered_before(self, given: Command) -> CommandAnswer | None:
        """What this very request was answered when it came first, whatever it would come to now.

        A ValueError says that its id was another command's.
        """
        before = self.answers.before(given.request_id) or self.answers.before(_pending(given))
        if before is not None and not before.is_for(given):
            used = f"{before.action or 'a command'} of {before.effect_id}"
            if before.action is given.action and given.effect_id in {None, before.effect_id}:
                used += " with other content"
            msg = f"request id {given.request_id} was used for {used}; give another"
            raise ValueError(msg)
        return before

    def _admitted(self, given: Command) -> Meant:
        """The command with the effect that it means, or a ValueError as a sentence for its sender."""
        pursuit, task = self._course.pursuit, self._course.task
        if pursuit is None or task is None:
            msg = "the task has no open effect now, so there is nothing to decide"
            raise ValueError(msg)
        effect = pursuit.effect
        if given.action is Action.UNDO:
            done = self._to_take_back(task, given)
            step = next(step for step in task.steps if step.name == done.step)
            effect = effect_of(task, step).model_copy(update={"effect_id": done.effect_id})
        if given.effect_id not in {None, effect.effect_id}:
            msg = f"the open effect is {effect.effect_id}, not {given.effect_id}"
            raise ValueError(msg)
        if (given.action is Action.AMEND) != (given.input is not None):
            msg = "amend, and nothing else, needs input: the whole new input of the effect"
            raise ValueError(msg)
        if given.input is not None:
            admit_input(task, pursuit.effect, given.input)
        return Meant(given, effect, pursuit)

    def _to_take_back(self, task: Task, command: Command) -> StepResult:
        """The settled step that an undo means; a ValueError if there is none, or more than one."""
        ending = self._course.ending
        if ending is not None:
            msg = f"the task is {ending}, and its steps are taken back already or not at all"
            raise ValueError(msg)
        free = self._course.undoable(task)
        meant = [done for done in free if command.effect_id in {None, done.effect_id}]
        if len(meant) == 1:
            return meant[0]
        if command.effect_id in {done.effect_id for done in self._course.ordered_back()}:
            msg = f"that {command.effect_id} is taken back was ordered already"
            raise ValueError(msg)
        names = ", ".join(f"{done.step} ({done.effect_id})" for done in free) or "none"
        msg = f"name by effect_id one settled step that declares an undo and still has it: {names}"
        raise ValueError(msg)

    async def _decide(self, meant: Meant) -> CommandAnswer:
        command, effect = meant.command, meant.effect
        async with self._deciding:
            repeated = self._answered_before(command)
            if repeated is not None:
                return repeated
            if command.action is Action.UNDO:
                return await self._order_undo(meant)
            if not self._pursues(effect) and not workflow.patched(names.DECIDES_ON_RECORD):
                message = f"{command.action} refused: {command.effect_id} was closed meanwhile"
                return CommandAnswer(applied=False, message=message)
            # Also where the task has gone on: it may have been applied before a worker was killed.
            told = await meant.pursuit.decide(decision_about(effect, meant.recognisable))
            answer = _about(command, told)
            self._remember(effect.step, command, answer)
            # If it was applied, the ledger says so.
            looks = answer.in_doubt and workflow.patched(names.LOOKS_AFTER_LOST_DECISION)
            if answer.applied or looks:
                meant.pursuit.wake()
            for freed in answer.freed:
                await self._free(freed, command)
            return answer

    def _pursues(self, effect: Effect) -> bool:
        pursuit = self._course.pursuit
        return pursuit is not None and pursuit.effect.effect_id == effect.effect_id

    async def _free(self, freed: Freed, command: Command) -> None:
        """What has lost its only candidates by this decision does not exist: say so where it is decided."""
        denial = Command(
            action=Action.DENY,
            operator=command.operator,
            reason=f"by the same decision: its candidate was tied to {command.effect_id}",
            version=freed.version,
            effect_id=freed.effect_id,
            request_id=f"tied-{command.effect_id}",
        )
        told = denial.model_dump(mode="json", exclude_none=True)
        other = workflow.get_external_workflow_handle(freed.task_id)
        try:
            await other.signal(names.TAKEOVER, told)
        except FailureError as error:
            why = f"{freed.effect_id} of task {freed.task_id} could not be told: {error}"
            self._view.note("", "deny", why)

    async def _order_undo(self, meant: Meant) -> CommandAnswer:
        course, command = self._course, meant.command
        over = course.pursuit is None and not workflow.patched(names.DECIDES_ON_RECORD)
        if over or course.task is None:
            return CommandAnswer(applied=False, message="undo refused: the task is over")
        try:
            done = self._to_take_back(course.task, command)
        except ValueError as error:
            return CommandAnswer(applied=False, message=f"undo refused: {error}")
        ordered = decision_about(meant.effect, meant.recognisable)
        told = await meant.pursuit.decide(ordered, here=True)
        answer = _about(command, told)
        self._remember(done.step, command, answer)
        if answer.applied:
            course.order_back(done.step)
            # What was open when it came may be closed; earlier releases woke that all the same.
            (course if workflow.patched(names.DECIDES_ON_RECORD) else meant.pursuit).wake()
        return answer

    def _remember(self, step: str, command: Command, answer: CommandAnswer) -> None:
        self._view.note(step, command.action.value, answer.message)
        if answer.pending:
            self._view.wait_for_second(step, command, answer)
        if not command.request_id:
            return
        if answer.applied:
            self.answers.keep(command.request_id, answer)
        elif answer.pending and workflow.patched(names.KNOWS_WHO_WAITS):
            self.answers.keep(_pending(command), answer)


def _command(content: object) -> Command:
    """What somebody gave, or a ValueError whose text is one sentence for its sender."""
    try:
        return Command.model_validate(decoded(content))
    except ValidationError as error:
        raise ValueError(f"not a takeover command: {faults(error)}") from None


def _about(command: Command, told: CommandAnswer) -> CommandAnswer:
    """An answer that says what it is for, so that another command under its id is no repeat."""
    return told.model_copy(update={"action": command.action, "content": command.content})


def _pending(command: Command) -> str:
    """Where an answer is kept that is no other person's, and of no other version."""
    return f"{command.request_id} {command.version} {command.operator}"
