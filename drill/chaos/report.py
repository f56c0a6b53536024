"""What a chaos run came to: faults by kind, and the outside's books against what was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascertain.census import upper_bound
from ascertain.contracts.effect import State
from drill.acceptance import Expectation, faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from drill.acceptance import Trace
    from drill.chaos.plan import Blow, ChaosPlan, Errand


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """The result of a run.

    Attributes:
        tasks: How many were acknowledged.
        effects: How many of them have a fact outside.
        faults: What was really done to them, by kind.
        duplicates: Tasks with more than one fact.
        lost: Tasks that were acknowledged and have no fact, or none that is recorded as settled.
        decided: How many decisions a person made.
        by_hand: How many effects a person made by hand after a takeover.
        complaints: A sentence for everything else that is not as it must be.
    """

    seed: int
    seconds: float
    tasks: int
    effects: int
    faults: Mapping[str, int]
    duplicates: int
    lost: int
    decided: int
    by_hand: int
    complaints: tuple[str, ...]

    @property
    def injected(self) -> int:
        """All faults together."""
        return sum(self.faults.values())

    @property
    def upper_bound(self) -> float:
        """Of the rate of duplicates, with 95 % confidence."""
        return upper_bound(self.duplicates, self.effects)

    @property
    def ok(self) -> bool:
        """Nothing twice, nothing lost, and nothing else to complain of."""
        return not (self.duplicates or self.lost or self.complaints)

    def document(self) -> dict[str, object]:
        """For machines."""
        return {
            "seed": self.seed,
            "seconds": self.seconds,
            "tasks": self.tasks,
            "effects": self.effects,
            "faults_injected": self.injected,
            "faults": dict(self.faults),
            "decided_by_a_person": self.decided,
            "made_by_hand": self.by_hand,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "duplicate_rate_upper_95": self.upper_bound,
            "complaints": list(self.complaints),
            "ok": self.ok,
        }

    def lines(self) -> Iterable[str]:
        """For people."""
        yield f"seed {self.seed}, {self.seconds:g} s: {self.tasks} tasks, {self.injected} faults"
        for name, count in sorted(self.faults.items(), key=lambda pair: -pair[1]):
            yield f"  {count:6}  {name}"
        yield f"decisions by a person: {self.decided}; effects made by hand: {self.by_hand}"
        yield f"duplicates: {self.duplicates}, at most {self.upper_bound:.4%} (95 %); lost: {self.lost}"
        yield from self.complaints
        yield "Everything came right." if self.ok else "This is NOT as it should be."


def judge(
    plan: ChaosPlan,
    traces: Sequence[tuple[Errand, Trace, int]],
    *,
    blows: Mapping[Blow, int],
    decided: int,
    by_hand: int,
    complaints: Iterable[str],
) -> ChaosReport:
    """Compare.

    Args:
        plan: What was planned.
        traces: Each acknowledged task with what is known of it, and how often it was asked about.
        blows: What was done to processes, gates and tasks.
        decided: How many decisions a person made.
        by_hand: How many effects a person made by hand.
        complaints: What else went wrong.
    """
    sentences = list(complaints)
    for errand, trace, _ in traces:
        expected = Expectation(message_id=f"message-{errand.number}")
        sentences += [f"{errand.task_id}: {fault}" for fault in faults(trace, expected)]
    return ChaosReport(
        seed=plan.seed,
        seconds=plan.seconds,
        tasks=len(traces),
        effects=sum(bool(trace.facts) for _, trace, _ in traces),
        faults={**_troubles(traces), **{blow.value: count for blow, count in blows.items()}},
        duplicates=sum(len(trace.facts) > 1 for _, trace, _ in traces),
        lost=sum(_lost(trace) for _, trace, _ in traces),
        decided=decided,
        by_hand=by_hand,
        complaints=tuple(sentences),
    )


def _lost(trace: Trace) -> bool:
    return not trace.facts or trace.row is None or trace.row.state is not State.SETTLED


def _troubles(traces: Sequence[tuple[Errand, Trace, int]]) -> Counter[str]:
    """The troubles that were really met: each request of an effect used up one."""
    met: Counter[str] = Counter()
    for errand, trace, lookups in traces:
        met.update(trouble.value for trouble in errand.troubles[: len(trace.submits)])
        met["lookup answered 503"] += min(errand.lookups_down, lookups)
    return met
