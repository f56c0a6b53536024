"""What a person can safely do next about a task, each with the exact command. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.cli.gate_command import EVERY
from ascertain.cli.text import plain
from ascertain.cli.wording import sentence
from ascertain.contracts.command import Action
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.policy import HANDS_ON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from ascertain.cli.known import Known
    from ascertain.contracts.directive import Standing
    from ascertain.contracts.status import OpenEffect

INCOMPLETE: Final = (
    "That is not the whole case: what could not be asked may know of something that is open."
)

# What the status calls waiting for a closed gate, and going on after a while.
HELD: Final = "held"
RETRYING: Final = "retry_in"
ASKING: Final = "reconcile_in"
_SHOWN: Final = 500


# With the question first, for it can do no harm, and giving up last.
ORDER: Final = (
    Action.TAKE,
    Action.RETRY,
    Action.CONFIRM,
    Action.DENY,
    Action.AMEND,
    Action.UNDO,
    Action.RELEASE,
    Action.ABANDON,
)

MEANING: Final[Mapping[Action, str]] = {
    Action.TAKE: "It is yours: automation neither does nor decides anything until you release it.",
    Action.RETRY: (
        "Ask the outside, then go on by the rules. The right choice if you do not know either."
    ),
    Action.CONFIRM: (
        "You know that it exists, and have its id. The outside is asked first, and must not contradict."
    ),
    Action.DENY: (
        "You know that it does not exist. The outside is asked first; then it is done again."
    ),
    Action.AMEND: (
        "You know that it does not exist, and its input was wrong. The outside is asked first; then it is "
        "done with the new input and never with the old one."
    ),
    Action.UNDO: "Take it back by the undo that its step declares; no further step begins.",
    Action.RELEASE: "Hand it back to automation, which begins by asking.",
    Action.ABANDON: "Give it up: the task ends without it. What exists outside stays there.",
}

# The same for an outside that cannot be asked, where these differ.
UNASKABLE: Final[Mapping[Action, str]] = {
    Action.RETRY: (
        "Let automation try: it reads answers that came late, and sends the same bytes again while a key "
        "protects that. Without either it comes back to a person."
    ),
    Action.CONFIRM: (
        "You know that it exists, and have its id. The outside cannot be asked, so your word counts."
    ),
    Action.DENY: (
        "You know that it does not exist. The outside cannot be asked, so on your word it is done again."
    ),
    Action.AMEND: (
        "You know that it does not exist, and its input was wrong. The outside cannot be asked, so say what "
        "shows it; then it is done with the new input and never with the old one."
    ),
    Action.RELEASE: "Hand it back to automation, which reads answers that came late.",
}


# ... and of a task that does nothing new any more, whatever its outside can be asked.
GIVEN_UP: Final[Mapping[Action, str]] = {
    Action.DENY: (
        "You know that it does not exist. {asked} it is closed and not done again, for its task is cancelled "
        "or being taken back."
    ),
    Action.AMEND: (
        "You know that it does not exist, and its input was wrong. {asked} it is closed, and not done with "
        "the new input either, for its task is cancelled or being taken back: deny says the same."
    ),
}
# ... and of a run that only finds out what an ended one had begun.
_ONLY_ASCERTAINED: Final = (
    "Submit the task again first: this run only finds out what an ended one began, and does "
    "nothing again."
)
_HAS_IT_DONE: Final = frozenset({Action.DENY, Action.RETRY, Action.AMEND})
_ASKED_FIRST: Final = "The outside is asked first; then"
_NOT_ASKED: Final = "The outside cannot be asked, so on your word"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that may be done now.

    Attributes:
        command: Ready to be pasted; words in capitals are to be filled in.
        action: The takeover action that it is, if it is one.
        needless: Whether the task goes on without it, which nobody should miss who reads commands alone.
    """

    command: str
    meaning: str
    action: Action | None = None
    needless: bool = False


def safe_next(known: Known, program: str = "ascertain") -> tuple[Advice, ...]:
    """What is safe now; empty if there is nothing to do.

    Args:
        known: The task.
        program: How the reader calls the command.
    """
    return (*_safe(known, program), *_look_again(known, program))


def obstacle(known: Known) -> str:
    """Why a worker could not do its part, so that the task does not go on; empty if there is nothing."""
    opened = known.status.open if known.status is not None else None
    if opened is None or opened.standing is not None or opened.error_class == UNSERVED:
        return ""
    # What comes too late for its deadline waits a moment and is cancelled: nothing is in its way.
    late = known.status is not None and known.status.cancelling
    blocked = opened.doing == ASKING or (opened.doing == RETRYING and not late)
    return plain(opened.reason)[:_SHOWN] if blocked else ""


def _look_again(known: Known, program: str) -> Iterable[Advice]:
    doctor, missing = f"{program} doctor", obstacle(known)
    if known.exit_code:
        gone = " ".join(sentence(gap) for gap in known.gaps)
        why = (
            f"{INCOMPLETE} Bring it back: {gone} This says what is wrong with it; then give the same command "
            "again."
        )
        yield Advice(doctor, why)
    elif missing:
        why = (
            f"A worker could not do its part: {sentence(missing)} Once that is over or mended, the task goes "
            "on by itself. This looks at every part from here; a worker's own account may be another."
        )
        yield Advice(doctor, why)


def _of_turned_away(known: Known) -> str:
    """A step may have been done before another one met other content."""
    begun = ", ".join(each.row.step for each in known.effects if known.input_of(each) is not None)
    if begun:
        return (
            f"What it was started with was begun: {begun}, as told above. Submit only what is left to do, "
            "put right, under a new task_id."
        )
    return (
        "Nothing was done for what it was started with. If that is wanted, submit it, put right, under a new "
        "task_id."
    )


def _safe(known: Known, program: str) -> tuple[Advice, ...]:
    if known.running:
        return tuple(_while_running(known, program))
    if known.orphaned:
        return tuple(_orphaned(known, program))
    if known.turned_away:
        return (Advice(f"{program} submit FILE", _of_turned_away(known)),)
    if known.outcome is TaskOutcome.REFUSED and known.unsendable is not None:
        why = (
            f"Correct the input of step {known.unsendable}, and submit it under a new task_id: under its "
            "own the task stays refused."
        )
        return (Advice(f"{program} submit FILE", why),)
    return ()


def _orphaned(known: Known, program: str) -> Iterable[Advice]:
    if known.sweepable:
        why = "Have it asked for now, as the schedule's sweeps do sooner or later. It begins nothing new."
        yield Advice(f"{program} sweep", why)
    why = "Or submit the same task again: it begins by asking, and then goes on."
    if not known.sweepable:
        why = "Nobody pursues this task any more. Submit the same task again: it begins by asking."
    yield Advice(f"{program} submit FILE", why)


def _while_running(known: Known, program: str) -> Iterable[Advice]:
    status = known.status
    if status is None:
        why = "No worker answers, so the task stands still and no command is applied. Start one."
        yield Advice(f"{program} worker", why)
        return
    opened = status.open
    if opened is None:
        return
    yield from _in_the_way(opened, known, program)
    if opened.standing is None:
        return
    task = shlex.quote(known.task_id)
    askable, by = opened.standing.askable, _in_hands_of(opened.effect_id, known)
    if askable:
        yield Advice(f"{program} reconcile {task}", "Ask the outside now instead of later.")
    for action, when in _actions(opened.standing, known.at):
        which = f"--effect {opened.effect_id} --version {opened.standing.version}"
        if action is Action.CONFIRM:
            which += " --external-id ID"
        if action is Action.AMEND:
            which += " --input JSON" if askable else " --input JSON --evidence JSON"
        command = f'{program} takeover {task} {action} {which} --reason "WHY"{by}'
        meaning = _meaning(action, known, askable=askable)
        if when is not None:
            meaning = f"{meaning} {too_early(when)}"
        yield Advice(command, meaning, action)
    yield from _undoing(known, program)


def _meaning(action: Action, known: Known, *, askable: bool) -> str:
    if known.gives_up and action in GIVEN_UP:
        return GIVEN_UP[action].format(asked=_ASKED_FIRST if askable else _NOT_ASKED)
    meaning = MEANING[action] if askable else UNASKABLE.get(action, MEANING[action])
    only_ascertains = known.status is not None and known.status.only_ascertains
    return (
        f"{meaning} {_ONLY_ASCERTAINED}" if only_ascertains and action in _HAS_IT_DONE else meaning
    )


def _in_hands_of(effect_id: str, known: Known) -> str:
    """Whoever took an effect over is the one who may decide; a command of anybody else is refused."""
    rows = (effect.row for effect in known.effects if effect.row.effect_id == effect_id)
    taken_by = next((row.taken_by for row in rows if row.state is State.TAKEN_OVER), None)
    return f" --operator {shlex.quote(taken_by)}" if taken_by else ""


def _undoing(known: Known, program: str) -> Iterable[Advice]:
    """Which settled steps a person may have taken back; only the task knows which declare an undo."""
    status = known.status
    for done in () if status is None else status.undoable:
        row = next((e.row for e in known.effects if e.row.effect_id == done.effect_id), None)
        if row is None:
            continue
        which = f"--effect {done.effect_id} --version {row.version}"
        command = f'{program} takeover {shlex.quote(known.task_id)} undo {which} --reason "WHY"'
        yield Advice(command, f"Step {done.step}: {MEANING[Action.UNDO]}", Action.UNDO)


def _in_the_way(opened: OpenEffect, known: Known, program: str) -> Iterable[Advice]:
    """What keeps it waiting although nothing of it is in doubt."""
    if opened.doing == HELD:
        for gate in known.held_by:
            which = "the gate of every partition" if gate == EVERY else "the gate"
            why = f"Open {which} again, once the reason for the pause is gone."
            if opened.turn_at is not None:
                why = f"Nothing needs to be done: it goes on at its turn. Or open {which} for all at once."
            name = "--all" if gate == EVERY else shlex.quote(gate)
            yield Advice(f"{program} resume {name}", why, needless=opened.turn_at is not None)
    if opened.error_class != UNSERVED:
        return
    why = (
        f"Nobody takes work of kind {opened.kind} now: start a worker whose deployment file has the kind "
        "and that serves its task queue; `doctor` says who serves what. The task then goes on by itself."
    )
    yield Advice(f"{program} doctor", why)
    if opened.standing is None:
        why = "Or give the task up: this step was never begun, so the task ends at once."
        yield Advice(f"{program} cancel {shlex.quote(known.task_id)}", why)


def too_early(when: datetime) -> str:
    """What to know before a command that lets somebody act."""
    return f"Not before {when:%Y-%m-%d %H:%M:%S} UTC: what was sent can still take effect."


def _actions(standing: Standing, now: datetime) -> Iterable[tuple[Action, datetime | None]]:
    """What a person may do, and from when; None is now."""
    start = standing.act_from
    early = start if start is not None and start > now else None
    for action in ORDER:
        if action.value in standing.safe_next:
            yield action, early if action in HANDS_ON else None
