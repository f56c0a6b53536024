"""The whole case of a task in plain words: what is known, from what, why it was or was not repeated.

Pure: what is known goes in, lines come out. Read by somebody at three in the morning who has never seen
this task, so every sentence stands alone and says what is proved, never what is likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.cli import advice, shape, standing, wording
from ascertain.cli.gate_command import EVERY
from ascertain.cli.text import counted, plain
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import UNRESOLVED, State
from ascertain.contracts.task import TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from ascertain.cli.known import Known, KnownEffect, Run
    from ascertain.contracts.status import OpenEffect, TaskStatus

# What the status calls an effect that is being done right now.
BUSY: Final = "perform"

_OUTCOMES: Final = {
    TaskOutcome.DONE: "is done: every step exists outside",
    TaskOutcome.REFUSED: "was refused: the outside said no to a step",
    TaskOutcome.ABANDONED: "was given up by a person",
    TaskOutcome.CANCELLED: "was cancelled",
}
_ENDS: Final = {
    "COMPLETED": "is over",
    "FAILED": "failed",
    "CANCELED": "was cancelled",
    "TERMINATED": "was ended from outside",
    "TIMED_OUT": "was ended by the server's time-out",
}
# What happens by itself, by whether the outside can be asked; None: nobody could tell.
_QUARANTINED: Final = {
    True: "The outside is still asked, slowly; a fact that turns up settles it.",
    False: (
        "Nothing happens by itself: the outside cannot be asked. Only an answer of a worker that comes late "
        "settles it."
    ),
    None: "Where the outside can be asked it still is, slowly; a fact that turns up settles it.",
}
_DOUBT: Final = {
    True: "It is asked for again by itself, less often the longer it takes.",
    False: (
        "The outside cannot be asked. The same bytes are sent again while a key protects that; else a person "
        "has to decide."
    ),
    None: "It is followed up by itself, less often the longer it takes.",
}


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading and its sentences."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """The case of one task.

    Attributes:
        headline: One sentence that may be all that is read.
    """

    headline: str
    chapters: tuple[Chapter, ...]
    safe_next: tuple[advice.Advice, ...]

    def lines(self) -> list[str]:
        """The story as text, one line each."""
        told = [self.headline]
        for chapter in self.chapters:
            told += ["", chapter.title, *(f"  {line}" for line in chapter.lines)]
        told += ["", "What is safe next"]
        if not self.safe_next:
            told.append("  Nothing needs to be done.")
        for item in self.safe_next:
            told += [f"  {item.command}", f"      {item.meaning}"]
        return told


def tell(known: Known, program: str = "ascertain") -> Story:
    """The story of a task.

    Args:
        known: What could be found out.
        program: How the reader calls the command.
    """
    about = tuple(_task(known))
    chapters = [Chapter("The task", about)] if about else []
    chapters += [Chapter(_title(effect), tuple(_effect(known, effect))) for effect in known.effects]
    if known.gaps:
        chapters.append(Chapter("What could not be asked", tuple(map(plain, known.gaps))))
    return Story(headline(known), tuple(chapters), advice.safe_next(known, program))


def headline(known: Known) -> str:
    """Where the task stands, in one sentence."""
    return f"Task {known.task_id} {_standing(known)}."


def _standing(known: Known) -> str:
    if known.run is None:
        return _without_run(known)
    if not known.running:
        return _ended(known, known.run)
    if known.status is None:
        return "is running, but no worker answers for it, so it stands still"
    return _at(known, known.status)


def _without_run(known: Known) -> str:
    if any(effect.open for effect in known.effects):
        if known.gaps:
            return "has an effect that is not resolved, and whether somebody pursues it cannot be asked"
        return "has an effect that is not resolved, and nobody pursues it any more"
    return "is over, as far as the ledger knows" if known.effects else "left nothing in the ledger"


def _ended(known: Known, run: Run) -> str:
    if known.outcome is TaskOutcome.REFUSED and known.unsendable is not None:
        return f"was refused: nothing can be sent for step {known.unsendable}, and nothing was"
    if known.outcome is not None:
        return _OUTCOMES[known.outcome]
    how = _ENDS.get(run.state, f"ended as {run.state}")
    if known.failure:
        how = f"{how}: {plain(known.failure).rstrip('.')}"
    if any(effect.open for effect in known.effects):
        return f"{how} while an effect of it is not resolved"
    return how


def _at(known: Known, status: TaskStatus) -> str:
    opened = status.open
    if status.outcome is not None:
        return f"{_OUTCOMES[status.outcome]}, and takes back what had been done"
    if opened is None:
        return "has just begun"
    step = f"step {opened.step}"
    if opened.doing == advice.HELD:
        return f"waits before {step}{_gated(known, opened.turn_at)}"
    if opened.error_class == UNSERVED:
        return f"waits at {step}, because no worker knows kind {opened.kind} or takes its work"
    state = opened.standing.state if opened.standing is not None else None
    match state:
        case State.QUARANTINED:
            return f"waits for a person to decide about {step}"
        case State.TAKEN_OVER:
            return f"is in the hands of a person, who took over {step}"
        case State.UNKNOWN | State.ACCEPTED | State.IN_FLIGHT:
            return f"is finding out whether {step} happened"
        case State.CLEAR if opened.standing and opened.standing.error_class == wording.DENIED:
            return f"will try {step} again, because a person stated that it did not happen"
        case State.CLEAR:
            return f"will try {step} again, because it provably did not happen"
        case _:
            return f"is at {step}" if opened.doing == BUSY else f"waits at {step}"


def _gated(known: Known, turn_at: datetime | None) -> str:
    if turn_at is not None:
        every = EVERY in known.held_by
        which = "the gate of every partition" if every else f"its partition {known.partition}"
        return f" for its turn at {wording.moment(turn_at)}: {which} is opening"
    gates = [
        "every partition" if gate == EVERY else f"its partition {gate}" for gate in known.held_by
    ]
    alone = len(gates) == 1
    return f", because {' and '.join(gates)} {'is paused' if alone else 'are paused'}"


def _task(known: Known) -> Iterable[str]:
    status = known.status
    if known.kind:
        yield f"Its kind is {known.kind}, its partition {known.partition}."
    yield from _run(known)
    yield from closed_gates(known)
    if status is None:
        return
    yield from _bounds(status)
    if status.open is not None:
        yield from _open_effect(status.open, known)
        if known.askable_again:
            yield "Meanwhile it could be asked for another task; this one asks at its next turn."
    for pending in status.pending_commands:
        at = wording.clock(pending.at)
        yield wording.sentence(f"A command waits for a second person since {at}", pending.detail)
    for refused in status.refused_commands:
        said = wording.sentence(
            f"A command was not applied at {wording.clock(refused.at)}", refused.detail
        )
        yield said


def closed_gates(known: Known) -> Iterable[str]:
    """The gates that keep what is open from being done, unless its workflow tells so itself."""
    opened = known.status.open if known.status is not None else None
    held = opened is not None and opened.doing == advice.HELD
    if held or not any(effect.open for effect in known.effects):
        return
    for gate in known.gates:
        if gate.paused and gate.partition in {known.partition, EVERY}:
            yield (
                f"{shape.gate_words(gate, known.at)} A person can decide all the same; what that lets go on "
                "is sent once the gate opens."
            )


def _run(known: Known) -> Iterable[str]:
    run = known.run
    if run is None and not known.gaps:
        yield "Temporal has no workflow of it: a stream carried it, or it ended longer ago than is kept."
    if run is not None:
        yield f"It was started at {wording.moment(run.started_at)}."
        if run.closed_at is not None:
            yield f"Its workflow ended at {wording.moment(run.closed_at)} ({run.state})."


def _bounds(status: TaskStatus) -> Iterable[str]:
    if status.deadline is not None:
        yield f"Its deadline is {wording.moment(status.deadline)}; from then on it begins nothing."
    if status.cancelling:
        yield "No new step starts, and what is open is ascertained first: it is cancelled or late."


def _open_effect(opened: OpenEffect, known: Known) -> Iterable[str]:
    standing = opened.standing
    rows = (effect.row for effect in known.effects if effect.row.effect_id == opened.effect_id)
    row = next((row for row in rows if standing is not None and row.state is standing.state), None)
    # The task counts from when it first met the state; the effect may have left it since, and come back.
    since = wording.moment(opened.since if row is None else row.state_since)
    yield wording.sentence(
        f"It has been at step {opened.step} like this since {since}", opened.reason
    )
    if standing is not None and standing.conclusive_at is not None:
        at = standing.conclusive_at
        if at > known.at:
            yield f"That the outside does not show it proves nothing before {wording.moment(at)}."


def _title(effect: KnownEffect) -> str:
    row = effect.row
    times = counted(row.revision, "time", "times")
    amended = f", input amended {times}" if row.revision else ""
    return f"Step {row.step}: {row.state} (effect {row.effect_id}, {row.kind}{amended})"


def _effect(known: Known, effect: KnownEffect) -> Iterable[str]:
    row = effect.row
    yield standing.sentence(known, effect)
    for other in known.effects:
        if other.row.superseded_by == row.effect_id:
            yield f"It replaces {other.row.effect_id}, whose input was amended and which is never done."
    if row.revision and (given := wording.content(known.input_of(effect))):
        yield f"Its new input is {plain(given)}"
    since, how_long = wording.moment(row.state_since), wording.age(row.now - row.state_since)
    yield f"It has been so since {since}, which is {how_long}."
    for told in effect.trail:
        yield f"{wording.clock(told.at)}  {wording.event(told)}"
        yield from (f"{'':14}{line}" for line in wording.seen(told))
    if effect.open and row.resend_until is not None:
        yield wording.key_life(row, row.resend_until)
    yield from standing.repeats(effect)
    yield from _by_itself(known, effect)


def _by_itself(known: Known, effect: KnownEffect) -> Iterable[str]:
    """What happens next without anybody."""
    row = effect.row
    if not effect.open:
        return
    if not known.running:
        if known.sweepable and row.state in UNRESOLVED:
            yield "No workflow pursues this effect now, until a sweep takes it up again and has it asked for."
        elif known.run is not None or not known.gaps:
            yield "Nothing happens by itself: no workflow pursues this effect now."
        return
    if effect.proven_absent and known.askable(row.effect_id) is False:
        yield "Nothing happens by itself: a person decides."
    elif row.state is State.QUARANTINED:
        yield _QUARANTINED[known.askable(row.effect_id)]
    elif row.state is State.CLEAR and row.retry_at is not None and row.retry_at > row.now:
        yield f"It is tried again {_in(row.retry_at - row.now)}."
    elif row.state in {State.UNKNOWN, State.ACCEPTED, State.IN_FLIGHT}:
        yield _DOUBT[known.askable(row.effect_id)]


def _in(wait: timedelta) -> str:
    return f"in {wording.age(wait)}"
