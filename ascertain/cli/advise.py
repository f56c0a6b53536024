"""``ascertain advise``: lease, horizon and alert from what was measured, never below what is declared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ascertain.cli import output, place
from ascertain.cli.wording import age
from ascertain.contracts.semantics import Semantics
from ascertain.errors import AscertainError
from ascertain.ports import Kind, Measured, Spread
from ascertain.wait import longest_legal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ascertain.cli.place import Place
    from ascertain.settings import KindSettings

# What a share of one in a thousand is read from must be some thousands.
ENOUGH: Final = 3000
LEASE_MAX: Final = timedelta(minutes=1)
_ROOM: Final = 2
_ALERT_ROOM: Final = 3
_NOTHING: Final = Spread()


@dataclass(frozen=True, slots=True)
class Advice:
    """What one kind should be set to, and from what.

    Attributes:
        lease: ``policy.lease``.
        horizon: ``semantics.in_flight_max`` and ``lag`` together: when absence becomes conclusive.
        alert: How long an effect may stand in flight or in doubt before somebody is told.
        reasons: Why a value differs from what is declared.
    """

    measured: Measured
    declared: Kind
    lease: timedelta
    horizon: timedelta
    alert: timedelta
    reasons: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether one in a thousand could be seen."""
        return self.measured.attempts.count >= ENOUGH


def advise(measured: Measured, kind: Kind) -> Advice:
    """Values for a kind: at least what it declares, and more where that was not enough."""
    lease, why_lease = _lease(measured, kind)
    horizon, why_horizon = _horizon(measured, kind)
    legal, stood = longest_legal(kind), _ALERT_ROOM * measured.stood.p999
    why_alert = "one effect in a thousand stands longer than is declared" if stood > legal else ""
    reasons = tuple(why for why in (why_lease, why_horizon, why_alert) if why)
    return Advice(measured, kind, lease, horizon, max(legal, stood), reasons)


def _lease(measured: Measured, kind: Kind) -> tuple[timedelta, str]:
    """A short call sends within its duration; long work renews its permit, so only lost ones tell."""
    now = kind.policy.lease
    if measured.unsent:
        return min(_ROOM * now, LEASE_MAX), f"{measured.unsent} permits ran out before a call left"
    if kind.queue is not None:
        return now, ""
    needed = max(kind.semantics.max_duration, _ROOM * measured.attempts.p999)
    if needed <= now:
        return now, ""
    return min(needed, LEASE_MAX), "one call in a thousand, or a legal one, may still be sending"


def _horizon(measured: Measured, kind: Kind) -> tuple[timedelta, str]:
    """How late a fact was found says when it was asked for; only one that was denied proves it too short."""
    declared = kind.semantics.in_flight_max + kind.semantics.lag
    if measured.denied is None:
        return declared, ""
    why = f"a fact was found {age(measured.denied)} later that had been taken for proven absent"
    return max(declared, _ROOM * measured.denied), why


async def run(most: int, config: Path | None, *, as_json: bool) -> None:
    """Print the advice for every kind of the deployment file.

    Raises:
        LedgerDown: The ledger does not answer.
    """
    where = place.find(config)
    async with where.ledger() as ledger:
        measured = {one.kind: one for one in await ledger.upkeep.measured(most)}
    advice = [
        advise(measured.get(name) or _unmeasured(name), await _kind(name, chosen, where))
        for name, chosen in sorted(where.settings.kinds.items())
    ]
    if as_json:
        output.document({"kinds": [_document(one) for one in advice]})
    else:
        _print(advice)


def _unmeasured(name: str) -> Measured:
    return Measured(name, 0, _NOTHING, _NOTHING, _NOTHING)


async def _kind(name: str, chosen: KindSettings, where: Place) -> Kind:
    """The kind with its adapter's own declaration where that can be read here, else the file's alone."""
    settings = where.settings.model_copy(update={"kinds": {name: chosen}})
    try:
        if find_spec("workers") is not None:
            secrets = import_module("workers.secret").ProcessSecrets()
            built: Kind = import_module("workers.registry").build_kinds(settings, secrets)[name]
            if built.adapter is not None:
                await built.adapter.aclose()
            return built
    except AscertainError as error:
        output.note(f"Of {name} only what the deployment file declares is known here: {error}")
    semantics = Semantics.model_validate(chosen.semantics)
    return Kind(name, semantics, chosen.policy, None, settings.task_queue)


def _print(advice: Sequence[Advice]) -> None:
    heads = ("kind", "effects", "attempts", "p50", "p99.9", "longest", "found late, p99.9")
    output.table((*heads, "lease", "horizon", "alert after", ""), [_cells(one) for one in advice])
    output.lines(f"{one.measured.kind}: {reason}" for one in advice for reason in one.reasons)
    if not all(one.enough for one in advice):
        output.line(
            f"few: of fewer than {ENOUGH} attempts, one in a thousand says little; the declared values count."
        )


def _cells(one: Advice) -> tuple[str, ...]:
    measured, attempts = one.measured, one.measured.attempts
    times = (attempts.half, attempts.p999, attempts.longest, measured.lateness.p999)
    policy, semantics = one.declared.policy, one.declared.semantics
    return (
        measured.kind,
        str(measured.effects),
        str(attempts.count),
        *(_time(length) for length in times),
        _change(policy.lease, one.lease),
        _change(semantics.in_flight_max + semantics.lag, one.horizon),
        _change(longest_legal(one.declared), one.alert),
        "" if one.enough else "few",
    )


def _time(length: timedelta) -> str:
    return f"{length.total_seconds():.3g} s"


def _change(now: timedelta, then: timedelta) -> str:
    return _time(now) if now == then else f"{_time(now)} -> {_time(then)}"


def _document(one: Advice) -> dict[str, object]:
    measured, policy = one.measured, one.declared.policy
    semantics = one.declared.semantics
    return {
        "kind": measured.kind,
        "effects": measured.effects,
        "enough": one.enough,
        "measured": {
            "attempts": _spread(measured.attempts),
            "lateness": _spread(measured.lateness),
            "stood": _spread(measured.stood),
            "permits_lost_unsent": measured.unsent,
            "denied_seconds": measured.denied.total_seconds() if measured.denied else None,
        },
        "declared": _values(
            policy.lease, semantics.in_flight_max + semantics.lag, longest_legal(one.declared)
        ),
        "advised": _values(one.lease, one.horizon, one.alert),
        "reasons": list(one.reasons),
    }


def _values(lease: timedelta, horizon: timedelta, alert: timedelta) -> dict[str, float]:
    names: Iterable[tuple[str, timedelta]] = (
        ("lease_seconds", lease),
        ("horizon_seconds", horizon),
        ("alert_seconds", alert),
    )
    return {name: length.total_seconds() for name, length in names}


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "count": spread.count,
        "p50_seconds": spread.half.total_seconds(),
        "p99_seconds": spread.p99.total_seconds(),
        "p999_seconds": spread.p999.total_seconds(),
        "longest_seconds": spread.longest.total_seconds(),
    }
