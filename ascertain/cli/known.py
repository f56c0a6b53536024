"""What could be found out about one task: from its workflow, its worker and the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ascertain import keys, policy
from ascertain.cli.advice import HELD
from ascertain.cli.gate_command import EVERY
from ascertain.cli.wording import NOTE, REFUSED_WRITE, UNSENDABLE
from ascertain.contracts.command import Action
from ascertain.contracts.effect import (
    ABSENT_KEYED,
    BUDGET,
    UNRESOLVED,
    AuditEvent,
    EffectRow,
    State,
)
from ascertain.contracts.gate import Gate
from ascertain.contracts.outage import CANNOT, Outage
from ascertain.contracts.status import TaskStatus
from ascertain.contracts.task import Task, TaskOutcome, TaskResult
from ascertain.contracts.value import JsonObject
from ascertain.ledger.gate import stops
from ascertain.machine import Move

RUNNING = "RUNNING"
# Ends that say nothing of the effects: the same task may be started again, and begins by asking.
CUT_SHORT = frozenset({"FAILED", "TERMINATED", "TIMED_OUT"})

# Moves after which no more and no less is known of the attempts than before.
_KNOWN_AS_BEFORE = frozenset({NOTE, REFUSED_WRITE, Move.TAKE})

OPEN = UNRESOLVED | {State.CLEAR}


@dataclass(frozen=True, slots=True)
class Run:
    """The newest run of the task's workflow, as the server describes it.

    Attributes:
        state: ``RUNNING``, ``COMPLETED``, ``FAILED``, ``CANCELED``, ``TERMINATED`` or ``TIMED_OUT``.
    """

    run_id: str
    state: str
    kind: str
    partition: str
    started_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KnownEffect:
    """One effect as the ledger has it, with its audit trail, oldest event first."""

    row: EffectRow
    trail: tuple[AuditEvent, ...]

    @property
    def open(self) -> bool:
        """Whether it can still move."""
        return self.row.state in OPEN

    @property
    def ordered_back(self) -> bool:
        """Whether a person ordered that it be taken back."""
        return any(
            told.move == NOTE
            and told.evidence.source == "person"
            and told.evidence.rule == Action.UNDO
            for told in self.trail
        )

    @property
    def proven_absent(self) -> bool:
        """Whether its attempts are used up, or a person took it so, and each provably did nothing."""
        if any(told.move == REFUSED_WRITE and told.receipt is not None for told in self.trail):
            return False
        moves = [told for told in self.trail if told.move not in _KNOWN_AS_BEFORE]
        pairs = [*pairwise(moves)]
        if not pairs:
            return False
        proof, stop = pairs[-1]
        used_up = stop.move == Move.QUARANTINE and stop.evidence.rule == BUDGET
        # Absence that was concluded because a key protects is no proof once nothing is sent under it.
        return used_up and stop.from_state is State.CLEAR and proof.evidence.rule != ABSENT_KEYED


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that is known of a task at one moment.

    Attributes:
        run: None: the server does not have it (any more), or could not be asked.
        status: None: no worker answered, or the workflow is gone.
        result: Of a task that is over, read from its history.
        failure: Why its workflow failed, from its history; empty if it did not.
        turned_away: Whether it failed for its content: that is no task, or of a step not what its id
            stands for.
        task: As it was started, from its history; None where that is gone or cannot be read.
        effects: In the order of their first claim.
        gaps: One sentence for each part that could not be asked.
        outages: The outsides that cannot be asked now, as far as the ledger knows.
        gates: Of all partitions, as far as the ledger knows.
        exit_code: Of a part that is there and could not be asked; 0: all that is known stands here.
        at: When it was asked, by our clock.
    """

    task_id: str
    at: datetime
    run: Run | None = None
    status: TaskStatus | None = None
    result: TaskResult | None = None
    failure: str = ""
    turned_away: bool = False
    task: Task | None = None
    effects: tuple[KnownEffect, ...] = ()
    gaps: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    gates: tuple[Gate, ...] = ()
    exit_code: int = 0

    @property
    def running(self) -> bool:
        """Whether a workflow pursues the task now."""
        return self.run is not None and self.run.state == RUNNING

    @property
    def orphaned(self) -> bool:
        """Whether an effect can still move and nobody pursues it; False where that cannot be told."""
        if self.run is None and self.gaps:
            return False
        gone = self.run is None or self.run.state in CUT_SHORT
        return gone and any(effect.open for effect in self.effects)

    @property
    def sweepable(self) -> bool:
        """Whether a sweep finds what nobody pursues: Temporal knows the task, and its effect is in doubt."""
        return self.run is not None and any(e.row.state in UNRESOLVED for e in self.effects)

    def askable(self, effect_id: str) -> bool | None:
        """Whether the outside can be asked for an effect; None where no worker told."""
        opened = self.status.open if self.status is not None else None
        if opened is None or opened.effect_id != effect_id or opened.standing is None:
            return None
        return opened.standing.askable

    @property
    def gives_up(self) -> bool:
        """Whether its open step is not done any more once it is known not to exist: undos alone still are."""
        opened = self.status.open if self.status is not None else None
        if self.status is None or opened is None or opened.step.endswith(keys.UNDO_SUFFIX):
            return False
        return self.status.cancelling or any(effect.ordered_back for effect in self.effects)

    @property
    def askable_again(self) -> bool:
        """Whether its outside, which its own last question could not reach, has answered somebody since."""
        opened = self.status.open if self.status is not None else None
        if opened is None or CANNOT not in opened.reason or self.exit_code:
            return False
        waits = (e.row for e in self.effects if e.row.effect_id == opened.effect_id)
        down = {(outage.partition, outage.kind) for outage in self.outages}
        asked = {State.UNKNOWN, State.ACCEPTED}
        return any(row.state in asked and (row.partition, row.kind) not in down for row in waits)

    @property
    def held_by(self) -> tuple[str, ...]:
        """Which gates keep it from going on, that of every partition (``*``) first; empty if it is not held.

        As the ledger has them now: since the task looked, one may have been opened and another closed.
        """
        opened = self.status.open if self.status is not None else None
        if opened is None or opened.doing != HELD:
            return ()
        own = {gate.partition: gate for gate in self.gates}
        known = [own[name] for name in (EVERY, self.partition) if name in own]
        met = [gate for gate in known if stops(gate, opened.effect_id, self.at)]
        shut = [gate for gate in met if gate.paused]
        return tuple(gate.partition for gate in shut or met) or (opened.gate or self.partition,)

    def undo_of(self, effect: KnownEffect) -> KnownEffect | None:
        """The effect that takes this one back, or did; None: there is none."""
        step = keys.undo_step(effect.row.step)
        undos = (each for each in self.effects if each.row.step == step)
        return next((each for each in undos if each.row.state is not State.SUPERSEDED), None)

    def input_of(self, effect: KnownEffect) -> JsonObject | None:
        """What an effect was asked for with; None: what tells it is not known.

        The task tells it of what it began with, and of an effect that came instead of another that other one.
        """
        if effect.row.revision:
            before = (e.row for e in self.effects if e.row.superseded_by == effect.row.effect_id)
            return next(filter(None, map(policy.amended_input, before)), None)
        if self.task is None:
            return None
        row = effect.row
        for step in self.task.steps:
            for name, each in ((step.name, step), (keys.undo_step(step.name), step.undo)):
                # A task that was turned away has other content than what its id stands for.
                if each is not None and row.step == name:
                    same = keys.fingerprint(each.kind, each.input) == row.fingerprint
                    return each.input if same else None
        return None

    @property
    def unsendable(self) -> str | None:
        """The step that was refused because no request can be made of its input; None: there is none."""
        found = (e.row.step for e in self.effects if e.row.error_class == UNSENDABLE)
        return next(found, None)

    @property
    def outcome(self) -> TaskOutcome | None:
        """How the task ended; None while it runs, or where nobody could tell."""
        if self.result is not None:
            return self.result.outcome
        return self.status.outcome if self.status is not None else None

    @property
    def kind(self) -> str:
        """The task's kind; empty where nobody could tell."""
        if self.status is not None:
            return self.status.kind
        return self.run.kind if self.run is not None else ""

    @property
    def partition(self) -> str:
        """The task's partition; empty where nobody could tell."""
        if self.status is not None:
            return self.status.partition
        if self.run is not None and self.run.partition:
            return self.run.partition
        return self.effects[0].row.partition if self.effects else ""
