"""What people see of a task: status, timeline, search attributes, current details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import SearchAttributeKey

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import directive, names
    from ascertain.contracts.continuation import Shown
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
        self._since = workflow.now()
        self._error_class: str | None = None
        self._labelled = False
        self._resumes = False

    def shown(self) -> Shown:
        """What a new history of the same task is given over."""
        return Shown(
            state=self.state,
            since=self._since,
            error_class=self._error_class,
            labelled=self._labelled,
            entries=tuple(self.entries),
            refused=tuple(self.refused),
            pending=tuple(self.pending),
        )

    def resume(self, shown: Shown) -> None:
        """Go on as an earlier history left off, in the middle of an effect."""
        self.state, self._since = shown.state, shown.since
        self._error_class, self._labelled = shown.error_class, shown.labelled
        self.entries, self.refused = list(shown.entries), list(shown.refused)
        self.pending = list(shown.pending)
        self._resumes = True

    def begin(self, effect: Effect) -> None:
        """The task is at this effect now; what it was labelled with is of an earlier one."""
        if not self._resumes:
            self._enter(RUNNING, None)
            self._since = workflow.now()
        self._resumes = False
        self.open = OpenEffect(
            step=effect.step,
            effect_id=effect.effect_id,
            kind=effect.kind,
            doing="perform",
            since=self._since,
        )

    def follow(self, effect: Effect, following: Directive) -> None:
        """Show a directive; label the task for search when it leaves the happy path or changes state."""
        self._note(effect.step, following.type, following.reason)
        before = self.open
        error_class = _error_class(following)
        if not isinstance(following, directive.Done):
            self._enter(state_of(following), error_class)
        held = following if isinstance(following, directive.Held) else None
        self.open = OpenEffect(
            step=effect.step,
            effect_id=effect.effect_id,
            kind=effect.kind,
            doing=following.type,
            reason=following.reason,
            since=self._since,
            error_class=error_class,
            standing=following.standing,
            turn_at=held.turn_at if held is not None else None,
            gate=held.partition if held is not None else None,
        )
        if _version(before) != _version(self.open):
            self.pending = []
        self._show()

    def refuse(self, step: str, what: str, why: str) -> None:
        """Remember a command that was sent as a signal and not applied."""
        entry = TimelineEntry(at=workflow.now(), step=step, what=what, detail=why)
        self.refused = [*self.refused, entry][-TIMELINE_KEPT:]
        self._note(step, what, why)
        self._show()

    def wait_for_second(self, step: str, command: Command, answer: CommandAnswer) -> None:
        """Remember a command that the same one of a second person applies, until the effect moves.

        The same person's, given again, is no other one: case and space make nobody a second person.
        """
        what, detail = command.action.value, f"{command.operator}: {answer.message}"
        if any(_same(what, detail, told) for told in self.pending):
            return
        entry = TimelineEntry(at=workflow.now(), step=step, what=what, detail=detail)
        self.pending = [*self.pending, entry][-TIMELINE_KEPT:]
        self._show()

    def note(self, step: str, what: str, detail: str) -> None:
        """Add a line to the timeline."""
        self._note(step, what, detail)

    def close(self, outcome: TaskOutcome) -> None:
        """The task is over; a task that had been labelled is labelled with its outcome, and why."""
        self.open = None
        same = outcome.value == self.state
        self._enter(outcome.value, self._error_class if same else None, label=self._labelled)
        if self._labelled:
            workflow.set_current_details(f"**{outcome.value}**")

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

    def _enter(self, state: str, error_class: str | None, *, label: bool = True) -> None:
        """Be in this state from now on; written for search once the task has left the happy path."""
        changed = state != self.state
        if not changed and error_class == self._error_class:
            return
        self.state, self._error_class = state, error_class
        if changed:
            self._since = workflow.now()
        if not label:
            return
        self._labelled = True
        cause = (
            ERROR_CLASS.value_unset() if error_class is None else ERROR_CLASS.value_set(error_class)
        )
        workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType]  # the SDK's generic
            [STATE.value_set(state), SINCE.value_set(self._since), cause]
        )


def _version(opened: OpenEffect | None) -> int | None:
    return opened.standing.version if opened is not None and opened.standing else None


def _same(what: str, detail: str, told: TimelineEntry) -> bool:
    said, before = ("".join(words.split()).casefold() for words in (detail, told.detail))
    return what == told.what and said == before


def _paragraph(what: str, entry: TimelineEntry) -> str:
    return f"**{what}** ({entry.at:%Y-%m-%d %H:%M:%S} UTC): {entry.detail}"


def _error_class(following: Directive) -> str | None:
    """Why it waits now, or else what is known of the effect."""
    if following.error_class is not None or following.standing is None:
        return following.error_class
    return following.standing.error_class


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
        lines += [_command(action, effect, standing) for action in standing.safe_next]
    return "\n".join(lines)


def _command(action: str, effect: OpenEffect, standing: directive.Standing) -> str:
    """Names the effect too: a version says which move was looked at, not of which step."""
    more = MORE.get(action, "")
    if action == "amend" and not standing.askable:
        more += ', "evidence": {"WHAT": "YOU SAW"}'
    body = (
        f'{{"action": "{action}", "effect_id": "{effect.effect_id}", "version": {standing.version}, '
        f'"operator": "YOU", "reason": "WHY"{more}}}'
    )
    task_id = workflow.info().workflow_id
    return (
        f"- {action}: `temporal workflow update execute --workflow-id {task_id} "
        f"--name {names.TAKEOVER} --input '{body}'`"
    )
