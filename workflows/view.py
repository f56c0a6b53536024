"""What people see of a task: status, timeline, search attributes, current details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import SearchAttributeKey

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import directive, names
    from ascertain.contracts.status import OpenEffect, TimelineEntry

if TYPE_CHECKING:
    from ascertain.contracts.command import Command, CommandAnswer
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.task import TaskOutcome

STATE = SearchAttributeKey.for_keyword(names.TASK_STATE)
SINCE = SearchAttributeKey.for_datetime(names.TASK_STATE_SINCE)
ERROR_CLASS = SearchAttributeKey.for_keyword(names.TASK_ERROR_CLASS)

RUNNING = "RUNNING"
HELD = "HELD"
WAITING = "WAITING"

# What some commands need besides; words in capitals are to be filled in.
MORE = {
    "confirm": ', "receipt": {"external_id": "ID"}',
    "amend": ', "input": {"ALL": "THAT IS SENT"}',
}

# Enough for a night's story; the ledger's audit trail has the whole one.
TIMELINE_KEPT = 60


class View:
    """The task as it is shown. A smooth task writes nothing but its result."""

    def __init__(self) -> None:
        self.open: OpenEffect | None = None
        self.refused: list[TimelineEntry] = []
        self.pending: list[TimelineEntry] = []
        self.entries: list[TimelineEntry] = []
        self.state = RUNNING
        self._labelled = False

    def begin(self, effect: Effect) -> None:
        """The task is at this effect now."""
        self.open = OpenEffect(
            step=effect.step,
            effect_id=effect.effect_id,
            kind=effect.kind,
            doing="perform",
            since=workflow.now(),
        )

    def follow(self, effect: Effect, following: Directive) -> None:
        """Show a directive; label the task for search when it leaves the happy path or changes state."""
        state = state_of(following)
        self._note(effect.step, following.type, following.reason)
        before = self.open
        since = before.since if before is not None and state == self.state else workflow.now()
        self.open = OpenEffect(
            step=effect.step,
            effect_id=effect.effect_id,
            kind=effect.kind,
            doing=following.type,
            reason=following.reason,
            since=since,
            standing=following.standing,
        )
        if _version(before) != _version(self.open):
            self.pending = []
        if isinstance(following, directive.Done | directive.RunQueued):
            return
        error_class = following.standing.error_class if following.standing else None
        self._label(state, error_class)
        self._show()

    def refuse(self, step: str, what: str, why: str) -> None:
        """Remember a command that was sent as a signal and not applied."""
        entry = TimelineEntry(at=workflow.now(), step=step, what=what, detail=why)
        self.refused = [*self.refused, entry][-TIMELINE_KEPT:]
        self._note(step, what, why)
        self._show()

    def wait_for_second(self, step: str, command: Command, answer: CommandAnswer) -> None:
        """Remember a command that the same one of a second person applies, until the effect moves."""
        what, detail = command.action.value, f"{command.operator}: {answer.message}"
        entry = TimelineEntry(at=workflow.now(), step=step, what=what, detail=detail)
        self.pending = [*self.pending, entry][-TIMELINE_KEPT:]
        self._show()

    def note(self, step: str, what: str, detail: str) -> None:
        """Add a line to the timeline."""
        self._note(step, what, detail)

    def close(self, outcome: TaskOutcome) -> None:
        """The task is over; a task that had been labelled is labelled with its outcome."""
        self.open = None
        if self._labelled:
            self._label(outcome.value, None)
            workflow.set_current_details(f"**{outcome.value}**")
        self.state = outcome.value

    def _show(self) -> None:
        """What the Web UI shows; a smooth task has nothing to be told."""
        if self.open is None or not self._labelled:
            return
        told = [details(self.open, self.state)]
        told += [_paragraph("Waits for a second person", entry) for entry in self.pending[-3:]]
        told += [_paragraph("Not applied", entry) for entry in self.refused[-3:]]
        workflow.set_current_details("\n\n".join(told))

    def _note(self, step: str, what: str, detail: str) -> None:
        entry = TimelineEntry(at=workflow.now(), step=step, what=what, detail=detail)
        self.entries = [*self.entries, entry][-TIMELINE_KEPT:]

    def _label(self, state: str, error_class: str | None) -> None:
        if self._labelled and state == self.state:
            return
        self.state = state
        self._labelled = True
        cause = (
            ERROR_CLASS.value_unset() if error_class is None else ERROR_CLASS.value_set(error_class)
        )
        workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType]  # the SDK's generic
            [STATE.value_set(state), SINCE.value_set(workflow.now()), cause]
        )


def _version(opened: OpenEffect | None) -> int | None:
    return opened.standing.version if opened is not None and opened.standing else None


def _paragraph(what: str, entry: TimelineEntry) -> str:
    return f"**{what}** ({entry.at:%Y-%m-%d %H:%M:%S} UTC): {entry.detail}"


def state_of(following: Directive) -> str:
    """The task's state while it follows a directive."""
    if following.standing is not None:
        return following.standing.state.value
    match following:
        case directive.Held():
            return HELD
        case directive.RunQueued() | directive.Superseded():
            return RUNNING
        case _:
            return WAITING


def details(effect: OpenEffect, state: str) -> str:
    """Markdown for the Web UI: what is known, what is asked, what a person can safely do."""
    standing = effect.standing
    lines = [
        f"### {effect.step}: {state}",
        "",
        f"{effect.reason or 'no reason given'}",
        "",
        f"- effect `{effect.effect_id}` of kind `{effect.kind}`",
        f"- in this state since {effect.since:%Y-%m-%d %H:%M:%S} UTC",
    ]
    if standing is None:
        return "\n".join(lines)
    lines.append(f"- attempt {standing.attempt}, version {standing.version}")
    if standing.job_id:
        lines.append(f"- the outside calls it `{standing.job_id}`")
    if standing.conclusive_at:
        lines.append(f"- an empty lookup is conclusive from {standing.conclusive_at:%H:%M:%S} UTC")
    if standing.safe_next:
        when = f"from {standing.act_from:%H:%M:%S} UTC" if standing.act_from else "now"
        lines += ["", f"Safe {when}, as signal or update `takeover`:", ""]
        lines += [_command(action, effect, standing.version) for action in standing.safe_next]
    return "\n".join(lines)


def _command(action: str, effect: OpenEffect, version: int) -> str:
    """Names the effect too: a version says which move was looked at, not of which step."""
    body = (
        f'{{"action": "{action}", "effect_id": "{effect.effect_id}", "version": {version}, '
        f'"operator": "YOU", "reason": "WHY"{MORE.get(action, "")}}}'
    )
    task_id = workflow.info().workflow_id
    return (
        f"- {action}: `temporal workflow update execute --workflow-id {task_id} "
        f"--name {names.TAKEOVER} --input '{body}'`"
    )
