"""A run's result as JSON: what is committed, and what tables are made from."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from benchmarks import machine, summary
from benchmarks.peer import presence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.ledger_cost import LedgerCost
    from benchmarks.measure import Measured
    from benchmarks.plan import Contender, Load, Plan

_DIGITS: Final = 4


def as_json(
    plan: Plan, measured: Measured, costs: Mapping[Contender, LedgerCost], load_before: float
) -> dict[str, Any]:
    """The whole result, rounded to what can be meant.

    Args:
        plan: What was run.
        measured: What was seen.
        costs: Of the sides with a database.
        load_before: The machine's load average before the run: others may have been at work on it.
    """
    found = {
        "command": plan.command,
        "server": plan.store.value,
        "rounds": plan.rounds,
        **machine.circumstances(load_before, presence.versions(plan.contenders)),
        "idle_cpu_ms_per_s": {
            side: {part: spent * 1000 for part, spent in parts.items()}
            for side, parts in measured.idle.items()
        },
        "sides": {side: _side(plan, measured, costs, side) for side in plan.contenders},
        "ratios": {" / ".join(pair): _ratios(plan, measured, *pair) for pair in _compared(plan)},
        "aims": {" / ".join(pair): _aims(plan, measured, *pair) for pair in _compared(plan)},
    }
    return {key: _rounded(value) for key, value in found.items()}


def _side(
    plan: Plan, measured: Measured, costs: Mapping[Contender, LedgerCost], side: Contender
) -> dict[str, Any]:
    cost = costs.get(side)
    return {
        "history_events": measured.events.get(side),
        "database": None if cost is None else asdict(cost),
        "loads": {load.name: _figures(measured, side, load) for load in plan.loads},
    }


def _figures(measured: Measured, side: Contender, load: Load) -> dict[str, Any]:
    batches = summary.batches_of(measured, side, load)
    return {"tasks": batches[0].tasks, **asdict(summary.figures(batches))}


def _compared(plan: Plan) -> list[tuple[Contender, Contender]]:
    return [pair for pair in summary.LIMITS if set(pair) <= set(plan.contenders)]


def _ratios(plan: Plan, measured: Measured, ours: Contender, theirs: Contender) -> dict[str, Any]:
    by_load: dict[str, Any] = {}
    for load in plan.loads:
        pair = (summary.batches_of(measured, side, load) for side in (ours, theirs))
        by_load[load.name] = asdict(summary.ratios(*pair))
    return by_load


def _aims(
    plan: Plan, measured: Measured, ours: Contender, theirs: Contender
) -> list[dict[str, Any]]:
    found = summary.aims(measured, plan.loads, ours, theirs)
    return [{**asdict(aim), "met": aim.met} for aim in found]


def _rounded(value: Any) -> Any:  # noqa: ANN401  # JSON of any shape
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        pairs = cast("dict[object, Any]", value).items()
        return {str(key): _rounded(inner) for key, inner in pairs}
    if isinstance(value, list):
        return list(map(_rounded, value))  # pyright: ignore[reportUnknownArgumentType]
    return value
