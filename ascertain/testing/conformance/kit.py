"""The conformance kit: tries an adapter in all the ways in which a worker and an outside can go wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.measured import Measured
from ascertain.testing.conformance import (
    answer_check,
    attempt_check,
    batch_check,
    key_check,
    listing_check,
    lookup_check,
    process_check,
    time_check,
)
from ascertain.testing.conformance.bench import open_bench
from ascertain.testing.conformance.report import Line, Report, Result
from ascertain.testing.conformance.seat import Ended, Stuck
from ascertain.testing.conformance.trial import opened
from ascertain.testing.conformance.verdict import Failed, NotTried, Unworkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ascertain.testing.conformance.bench import Bench
    from ascertain.testing.conformance.check import Check

CHECKS: Final = (
    *attempt_check.CHECKS,
    *lookup_check.CHECKS,
    *key_check.CHECKS,
    *answer_check.CHECKS,
    *process_check.CHECKS,
    *batch_check.CHECKS,
    *listing_check.CHECKS,
    *time_check.CHECKS,
)
# An adapter that ends its process so often is not given another one.
_ENDS: Final = 2
_SECRET_LENGTH: Final = 4
_PLAIN: Final = "settle"


def _nobody(line: Line) -> None:
    del line


async def conform(
    given: object, on_line: Callable[[Line], None] = _nobody, checks: Sequence[Check] = CHECKS
) -> Report:
    """Try an adapter.

    Args:
        given: A ``Trial``, or a function without arguments that gives one or opens one (an asynchronous
            context manager).
        on_line: Called with each check as it ends.
        checks: Only these, in their order; nothing is measured but what they see.

    Raises:
        InvalidSettings: The trial is wrong or its adapter cannot be opened; says what.
    """
    async with opened(given) as trial, open_bench(trial) as bench:
        lines: list[Line] = []
        ends: list[str] = []
        for check in checks:
            lines.append(await _tried(bench, check, ends))
            on_line(lines[-1])
        for line in (_process(ends), _event_loop(bench), _secrets(bench)):
            lines.append(line)
            on_line(line)
        return Report(bench.declared, _measured(bench, lines), tuple(lines))


async def _tried(bench: Bench, check: Check, ends: list[str]) -> Line:
    if bench.unworkable:
        why = "a plain attempt does not work yet; mend `settle` first"
        return Line(check.name, check.rule, Result.NOT_TRIED, why)
    if len(ends) >= _ENDS:
        why = f"its process was lost {_ENDS} times before"
        return Line(check.name, check.rule, Result.NOT_TRIED, why)
    try:
        await check.run(bench)
    except NotTried as why:
        return Line(check.name, check.rule, Result.NOT_TRIED, str(why))
    except Failed as seen:
        bench.unworkable = check.name == _PLAIN and isinstance(seen, Unworkable)
        return Line(check.name, check.rule, Result.FAILED, str(seen))
    except (Ended, Stuck) as lost:
        ends.append(f"{check.name}: {lost}")
        await bench.seat.kill()
        await bench.seat.start()
        return Line(check.name, check.rule, Result.NOT_TRIED, str(lost))
    return Line(check.name, check.rule, Result.HELD)


def _process(ends: list[str]) -> Line:
    rule = "the adapter never ends its process, and always comes back"
    return _judged("process", rule, ends[0] if ends else "")


def _event_loop(bench: Bench) -> Line:
    rule = "the adapter never holds up the event loop"
    held = bench.seat.held
    seen = f"held up for {held[0].for_s:.1f} s and more at {held[0].where}" if held else ""
    return _judged("event_loop", rule, seen)


def _secrets(bench: Bench) -> Line:
    """What goes into a task's history or the ledger; an exception's text goes nowhere."""
    rule = "no secret gets into frozen bytes, outcomes or findings"
    values = [value for value in bench.seat.secrets.values() if len(value) >= _SECRET_LENGTH]
    leaked = any(value in said for value in values for said in bench.seat.kept_words())
    return _judged("secrets", rule, "the adapter said a secret of the trial" if leaked else "")


def _judged(name: str, rule: str, seen: str) -> Line:
    return Line(name, rule, Result.FAILED if seen else Result.HELD, seen)


def _measured(bench: Bench, lines: list[Line]) -> Measured:
    seen = bench.seen
    return Measured(
        kind=bench.trial.name,
        adapter=bench.chosen.adapter,
        measured_at=datetime.now(UTC),
        failed=tuple(line.name for line in lines if line.result is Result.FAILED),
        key_honoured=seen.key_honoured,
        key_honoured_for=_length(seen.key_honoured_for_s),
        key_forgotten_after=_length(seen.key_forgotten_after_s),
        compares_bodies=seen.compares_bodies,
        lookup_finds=seen.lookup_finds,
        lag=_length(seen.lag_s),
        in_flight=_length(seen.in_flight_s),
    )


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=round(seconds, 3))
