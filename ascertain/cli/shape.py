"""Values of ours as JSON documents and tables."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ascertain import keys
from ascertain.cli import output, wording
from ascertain.cli.gate_command import EVERY
from ascertain.contracts.effect import State
from ascertain.contracts.gate import Position

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ascertain.cli.advice import Advice
    from ascertain.cli.known import Known, KnownEffect, Run
    from ascertain.contracts.gate import Gate
    from ascertain.contracts.outage import Outage
    from ascertain.contracts.task import TaskResult


def print_result(result: TaskResult) -> None:
    """Print what became of a task and of each of its effects."""
    output.line(f"Task {result.task_id}: {result.outcome}.")
    done = (*result.steps, *result.undone)
    if not done:
        return
    back = {undo.step for undo in result.undone if undo.state is State.SETTLED}
    output.table(
        ("step", "state", "exists as", "why", "effect"),
        [
            (
                step.step,
                step.state.value,
                step.receipt.external_id if step.receipt is not None else "",
                "taken back" if keys.undo_step(step.step) in back else step.reason,
                step.effect_id,
            )
            for step in done
        ],
    )


def known_document(known: Known, safe_next: Sequence[Advice]) -> dict[str, object]:
    """Everything that is known of a task."""
    return {
        "task_id": known.task_id,
        "at": known.at.isoformat(),
        "workflow": _run_document(known.run) if known.run is not None else None,
        "status": known.status.model_dump(mode="json") if known.status is not None else None,
        "result": known.result.model_dump(mode="json") if known.result is not None else None,
        "failure": known.failure or None,
        "effects": [
            effect_document(effect)
            | {"input": known.input_of(effect)}
            | _undo_document(known, effect)
            for effect in known.effects
        ],
        "not_asked": list(known.gaps),
        "safe_next": advice_document(safe_next),
    }


def advice_document(safe_next: Sequence[Advice]) -> list[object]:
    """What is safe next."""
    return [
        {
            "action": item.action.value if item.action is not None else None,
            "command": item.command,
            "meaning": item.meaning,
        }
        for item in safe_next
    ]


def effect_document(effect: KnownEffect) -> dict[str, object]:
    """A ledger row with its trail; of the frozen bytes only how many they are, and their digest."""
    row = effect.row
    shown: dict[str, object] = row.model_dump(mode="json", exclude={"frozen", "now"})
    return shown | {
        "read_at": row.now.isoformat(),
        "frozen_bytes": len(row.frozen),
        "frozen_sha256": hashlib.sha256(row.frozen).hexdigest(),
        "audit": [event.model_dump(mode="json") for event in effect.trail],
    }


def _undo_document(known: Known, effect: KnownEffect) -> dict[str, object]:
    """By which effect it is taken back, or was."""
    undo = known.undo_of(effect)
    if undo is None:
        return {"undo": None}
    return {"undo": {"effect_id": undo.row.effect_id, "state": undo.row.state.value}}


def gate_document(gate: Gate, now: datetime) -> dict[str, object]:
    """A gate as it stands, and how much of it is open."""
    stands: dict[str, object] = {"position": gate.position(now), "share": gate.share(now)}
    return gate.model_dump(mode="json") | stands


def position_words(gate: Gate, now: datetime) -> str:
    """How a gate stands, in a few words."""
    position = gate.position(now)
    if position is not Position.OPENING or gate.ramp_until is None:
        return position
    return f"{position} until {wording.moment(gate.ramp_until)}, {gate.share(now):.0%} now"


def gate_words(gate: Gate, now: datetime) -> str:
    """A gate in one sentence."""
    which = f"Partition {gate.partition}"
    if gate.partition == EVERY:
        which = "Every partition" if gate.paused else "The gate of all partitions"
    comma = "," if gate.position(now) is Position.OPENING else ""
    said = wording.sentence(
        f"{which} is {position_words(gate, now)}{comma} since {wording.moment(gate.since)}, by {gate.by}",
        gate.reason,
    )
    if gate.rule is None or gate.probe_from is None:
        return said
    return f"{said} It lets {gate.probes} claims through to probe from {wording.clock(gate.probe_from)} on."


def outage_documents(outages: Sequence[Outage]) -> list[object]:
    """The outsides that cannot be asked."""
    return [outage.model_dump(mode="json") for outage in outages]


def outage_words(outage: Outage) -> str:
    """The one notice for all that waits for an outside that cannot be asked."""
    return wording.sentence(f"{outage.partition}: {outage.words}", outage.reason)


def _run_document(run: Run) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "state": run.state,
        "kind": run.kind,
        "partition": run.partition,
        "started_at": run.started_at.isoformat(),
        "closed_at": run.closed_at.isoformat() if run.closed_at is not None else None,
    }
