"""What a claim, a settle and the reads of operators cost in ledgers of different size."""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg

from ascertain import keys
from ascertain.contracts.claim import ClaimRequest, Granted
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.outcome import Outcome, Settled, Unknown
from ascertain.contracts.task import Step, Task
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ports import EffectFilter, Page
from benchmarks import machine
from benchmarks.seed import seed
from starter.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

AnswerT = TypeVar("AnswerT")

_KIND: Final = "fact.create"
_OPEN: Final = 200
_WARM: Final = 50
_MS: Final = 1000
_MOST_P99: Final = 1.3
_SIZE: Final = """
select pg_total_relation_size('ascertain.effects') + pg_total_relation_size('ascertain.audit_events')
"""
_ANSWER: Final = Evidence(
    source="answer",
    rule="proof",
    detail="proved by the answer (HTTP 201)",
    body={"status": 201, "sha256": "0" * 64},
)
_RESET: Final = Evidence(source="phase", rule="left_no_answer", detail="reset")
_FROZEN: Final = (
    b'{"version":1,"method":"POST","url":"http://127.0.0.1:8080/facts","headers":[["content-type",[{"text":'
    b'"application/json"}]],["idempotency-key",[{"text":"ef1-abcdefghijklmnopqrstuvwxyz234567"}]]],"body":'
    b'"{\\"amount\\":1,\\"reference\\":\\"ef1-abcdefghijklmnopqrstuvwxyz234567\\"}"}'
)
# What operators and the sweep read, by the name that results have for it.
READS: Final[dict[str, Callable[[PostgresLedger], Awaitable[object]]]] = {
    "sweep": lambda ledger: ledger.quiet(Page(State.UNKNOWN, timedelta(0))),
    "list": lambda ledger: ledger.effects(EffectFilter(states=frozenset({State.UNKNOWN}))),
    "partitions": lambda ledger: ledger.partitions(),
    "metrics": lambda ledger: ledger.upkeep.tallies(),
    "one_task": lambda ledger: ledger.effects(EffectFilter(task_id="seed-1")),
}


@dataclass(frozen=True, slots=True)
class Aged:
    """A ledger that holds so many settled effects, and what was measured in it, in seconds."""

    rows: int
    ledger: PostgresLedger
    database: str
    took: dict[str, list[float]] = field(default_factory=dict)

    async def timed(self, what: str, doing: Awaitable[AnswerT]) -> AnswerT:
        """Do it and keep how long it took."""
        begun = perf_counter()
        told = await doing
        self.took.setdefault(what, []).append(perf_counter() - begun)
        return told


async def measure(
    folder: Path, sizes: Sequence[int], effects: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Fill the ledgers, measure in turns, and give the result.

    Each round claims and settles one effect in every ledger, and reads each now and then, so all sizes meet
    the same weather.

    Args:
        folder: For the servers' data.
        sizes: Settled rows; a ledger without any is measured beside them.
        effects: Are settled in each.
        tell: Is told what comes next.
    """
    before = machine.load_average()
    async with AsyncExitStack() as closing:
        postgres = EmbeddedPostgres(folder / "postgres")
        closing.push_async_callback(postgres.stop)
        await postgres.start()
        aged: list[Aged] = []
        for rows in (0, *sizes):
            tell(f"filling a ledger with {rows:,} effects")
            aged.append(await closing.enter_async_context(_filled(postgres, rows)))
        sizes_before = [await _size(one) for one in aged]
        for number in range(effects):
            tell(f"effect {number + 1} of {effects}")
            for one in aged:
                await _turn(one, number)
        grown = [await _size(one) - first for one, first in zip(aged, sizes_before, strict=True)]
    found = {
        f"{one.rows}": _told(one, bytes_ / effects) for one, bytes_ in zip(aged, grown, strict=True)
    }
    words = ["./run bench scale", *(f"--rows {rows}" for rows in sizes), f"--effects {effects}"]
    return {
        "command": " ".join(words),
        "machine": machine.machine(),
        "load_average": {"before": before, "after": machine.load_average()},
        "versions": machine.versions(),
        "scale": found,
        "aims": {f"{rows:,} / 0": [_aim(found, f"{rows}")] for rows in sizes},
    }


@asynccontextmanager
async def _filled(postgres: EmbeddedPostgres, rows: int) -> AsyncGenerator[Aged]:
    database = await postgres.create_database(f"ledger_{rows}")
    await migrate(database)
    ledger = await open_ledger(database, connections=1)
    try:
        first = await _begun(ledger, "first")
        await ledger.record(first.lease, _settled("first"))
        if rows:
            await seed(database, first.lease.effect_id, rows)
        for number in range(_OPEN):
            opened = await _begun(ledger, f"open-{number}")
            await ledger.record(opened.lease, Unknown(error_class="reset", evidence=_RESET))
        aged = Aged(rows, ledger, database)
        for number in range(_WARM):
            await _turn(aged, -1 - number)
        aged.took.clear()
        yield aged
    finally:
        await ledger.aclose()


async def _turn(aged: Aged, number: int) -> None:
    name = f"task-{number}"
    granted = await aged.timed("claim", _begun(aged.ledger, name))
    await aged.timed("settle", aged.ledger.record(granted.lease, _settled(name)))
    if number % 10 == 0:
        for name, read in READS.items():
            await aged.timed(name, read(aged.ledger))


async def _begun(ledger: PostgresLedger, task_id: str) -> Granted:
    step = Step(name="create", kind=_KIND, input={"amount": 1})
    task = Task(task_id=task_id, kind="benchmark", steps=(step,))
    effect = keys.effect_of("default", task, step)
    answer = await ledger.claim(
        ClaimRequest(
            effect=effect,
            fingerprint=keys.fingerprint(effect.kind, effect.input),
            frozen=_FROZEN,
            owner="host-of-a-worker:12345/0123456789ab",
            lease=timedelta(seconds=5),
            budget=5,
        )
    )
    if not isinstance(answer, Granted):
        raise TypeError(f"{task_id}: {answer}")
    return answer


def _settled(name: str) -> Outcome:
    receipt = Receipt(external_id=f"fact-{name}", body={"id": f"fact-{name}"}, digest="0" * 64)
    return Settled(receipt=receipt, evidence=_ANSWER)


async def _size(aged: Aged) -> int:
    connection = await asyncpg.connect(aged.database, ssl=False)
    try:
        size: int = await connection.fetchval(_SIZE)
    finally:
        await connection.close()
    return size


def _told(aged: Aged, bytes_per_effect: float) -> dict[str, Any]:
    return {
        "bytes_per_effect": round(bytes_per_effect),
        **{
            what: {
                "p50_ms": float(f"{statistics.median(took) * _MS:.3g}"),
                "p99_ms": float(f"{_p99(took) * _MS:.3g}"),
            }
            for what, took in aged.took.items()
        },
    }


def _p99(took: Sequence[float]) -> float:
    """The nearest rank: a time that one of them took."""
    return sorted(took)[-(-len(took) * 99 // 100) - 1]


def _aim(found: Mapping[str, Any], rows: str) -> dict[str, Any]:
    measured = found[rows]["claim"]["p99_ms"] / found["0"]["claim"]["p99_ms"]
    return {
        "what": "claim p99",
        "wanted": _MOST_P99,
        "measured": float(f"{measured:.3g}"),
        "at_least": False,
        "met": measured <= _MOST_P99,
    }
