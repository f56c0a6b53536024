"""How a task hears a person's commands: each is applied once, and a repeat gets its first answer."""

from __future__ import annotations

import asyncio
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
    from ascertain.contracts.task import StepResult, Task
    from workflows.course import Course
    from workflows.view import View


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

    async def answer(self, content: object) -> CommandAnswer:
        """Decide a command, or say in one sentence why it is not applied."""
        try:
            given = _command(content)
            if self._course.task is None and workflow.patched(names.HEARS_FROM_THE_FIRST):
                # It came with the first words of this history, before what an earlier one gave over was read.
                await workflow.wait_condition(lambda: self._course.task is not None)
            return self._answered_before(given) or await self._decide(self._admitted(given))
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

    def _admitted(self, given: Command) -> Command:
        """The command for the effect that it means, or a ValueError as a sentence for its sender."""
        pursuit, task = self._course.pursuit, self._course.task
        if pursuit is None or task is None:
            msg = "the task has no open effect now, so there is nothing to decide"
            raise ValueError(msg)
        meant = pursuit.effect.effect_id
        if given.action is Action.UNDO:
            meant = self._to_take_back(task, given).effect_id
        if given.effect_id not in {None, meant}:
            msg = f"the open effect is {meant}, not {given.effect_id}"
            raise ValueError(msg)
        if (given.action is Action.AMEND) != (given.input is not None):
            msg = "amend, and nothing else, needs input: the whole new input of the effect"
            raise ValueError(msg)
        if given.input is not None:
            admit_input(task, pursuit.effect, given.input)
        # A command that waits its turn is for this effect, whatever the task has come to by then.
        return given.model_copy(update={"effect_id": meant})

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

    async def _decide(self, command: Command) -> CommandAnswer:
        async with self._deciding:
            repeated = self._answered_before(command)
            if repeated is not None:
                return repeated
            if command.action is Action.UNDO:
                return await self._order_undo(command)
            pursuit = self._course.pursuit
            if pursuit is None or pursuit.effect.effect_id != command.effect_id:
                message = f"{command.action} refused: {command.effect_id} was closed meanwhile"
                return CommandAnswer(applied=False, message=message)
            told = await pursuit.decide(decision_about(pursuit.effect, command))
            answer = _about(command, told)
            self._remember(pursuit.effect.step, command, answer)
            # If it was applied, the ledger says so.
            looks = answer.in_doubt and workflow.patched(names.LOOKS_AFTER_LOST_DECISION)
            if answer.applied or looks:
                pursuit.wake()
            for freed in answer.freed:
                await self._free(freed, command)
            return answer

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

    async def _order_undo(self, command: Command) -> CommandAnswer:
        pursuit, task = self._course.pursuit, self._course.task
        if pursuit is None or task is None:
            return CommandAnswer(applied=False, message="undo refused: the task is over")
        try:
            done = self._to_take_back(task, command)
        except ValueError as error:
            return CommandAnswer(applied=False, message=f"undo refused: {error}")
        step = next(step for step in task.steps if step.name == done.step)
        taken = effect_of(task, step).model_copy(update={"effect_id": done.effect_id})
        told = await pursuit.decide(decision_about(taken, command), here=True)
        answer = _about(command, told)
        self._remember(done.step, command, answer)
        if answer.applied:
            self._course.order_back(done.step)
            pursuit.wake()
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
