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
from ascertain.contracts.claim import ClaimRequest, Granted, Moved, Verdict
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
_SIZES: Final = """
select
    pg_total_relation_size('ascertain.effects') as rows,
    pg_total_relation_size('ascertain.audit_events') as trails,
    pg_total_relation_size('ascertain.archived_effects') as archived
"""
_PAGES: Final = 20
_PAGE: Final = 1000
_LISTS: Final = 10
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
    folder: Path,
    sizes: Sequence[int],
    effects: int,
    quarantined: int,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Fill the ledgers, measure in turns, and give the result.

    Each round claims and settles one effect in every ledger, and reads each now and then, so all sizes meet
    the same weather. At the end some pages of each are archived.

    Args:
        folder: For the servers' data.
        sizes: Settled rows; a ledger without any is measured beside them.
        effects: Are settled in each.
        quarantined: So many wait for a person, in a ledger of their own, and are listed by their cause.
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
        begun = [await _sizes(one) for one in aged]
        for number in range(effects):
            tell(f"effect {number + 1} of {effects}")
            for one in aged:
                await _turn(one, number)
        costs = [await _costs(one, was, effects) for one, was in zip(aged, begun, strict=True)]
        tell(f"filling a ledger with {quarantined:,} quarantined effects")
        waiting = await _waiting(postgres, quarantined)
    found = {f"{one.rows}": _told(one, cost) for one, cost in zip(aged, costs, strict=True)}
    words = [
        "./run bench scale",
        *(f"--rows {rows}" for rows in sizes),
        f"--effects {effects} --quarantined {quarantined}",
    ]
    return {
        "command": " ".join(words),
        **machine.circumstances(before),
        "scale": found,
        "quarantined": {"effects": quarantined, **waiting},
        "aims": {f"{rows:,} / 0": [_aim(found, f"{rows}")] for rows in sizes},
    }


@asynccontextmanager
async def _opened(postgres: EmbeddedPostgres, name: str, rows: int) -> AsyncGenerator[Aged]:
    database = await postgres.create_database(f"ledger_{name}")
    await migrate(database)
    ledger = await open_ledger(database, connections=1)
    try:
        yield Aged(rows, ledger, database)
    finally:
        await ledger.aclose()


@asynccontextmanager
async def _filled(postgres: EmbeddedPostgres, rows: int) -> AsyncGenerator[Aged]:
    async with _opened(postgres, f"{rows}", rows) as aged:
        first = await _begun(aged.ledger, "first")
        await aged.ledger.record(first.lease, _settled("first"))
        if rows:
            await seed(aged.database, first.lease.effect_id, rows)
        for number in range(_OPEN):
            opened = await _begun(aged.ledger, f"open-{number}")
            await aged.ledger.record(opened.lease, Unknown(error_class="reset", evidence=_RESET))
        for number in range(_WARM):
            await _turn(aged, -1 - number)
        aged.took.clear()
        yield aged


async def _waiting(postgres: EmbeddedPostgres, rows: int) -> dict[str, Any]:
    """What it takes to list so many effects that wait for a person, one by one and by their cause."""
    async with _opened(postgres, "quarantined", 0) as aged:
        begun = await _begun(aged.ledger, "first")
        lost = Unknown(error_class="reset", evidence=_RESET)
        written = await aged.ledger.record(begun.lease, lost)
        if not isinstance(written, Moved):
            raise TypeError(f"it was not recorded: {written}")
        stop = Verdict(State.QUARANTINED, _RESET, error_class="no_lookup")
        effect_id = begun.lease.effect_id
        await aged.ledger.converge(effect_id, written.row.version, stop, "benchmark")
        await seed(aged.database, effect_id, rows)
        page = EffectFilter(states=frozenset({State.QUARANTINED}))
        for _ in range(_LISTS):
            await aged.timed("one_page", aged.ledger.effects(page))
            await aged.timed("by_cause", aged.ledger.upkeep.quarantined())
    return _told(aged, {})


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


async def _sizes(aged: Aged) -> Mapping[str, int]:
    connection = await asyncpg.connect(aged.database, ssl=False)
    try:
        found = await connection.fetchrow(_SIZES)
    finally:
        await connection.close()
    return {} if found is None else dict(found)


async def _costs(aged: Aged, begun: Mapping[str, int], effects: int) -> dict[str, int]:
    """Bytes of an effect with its trail and their indexes, before it is archived and after."""
    grown = await _sizes(aged)
    row, trail = ((grown[of] - begun[of]) / effects for of in ("rows", "trails"))
    archived = await _archive(aged)
    kept = (await _sizes(aged))["archived"] - begun["archived"]
    return {
        "bytes_per_effect": round(row + trail),
        "archived_bytes_per_effect": round(kept / archived + trail),
    }


async def _archive(aged: Aged) -> int:
    """Archive some pages; gives back how many effects that were."""
    archived, after = 0, ""
    for _ in range(_PAGES):
        page = await aged.timed(
            "archive", aged.ledger.upkeep.archive(timedelta(0), after=after, limit=_PAGE)
        )
        archived, after = archived + page.archived, page.last
        if page.seen < _PAGE:
            break
    return archived


def _told(aged: Aged, cost: Mapping[str, int]) -> dict[str, Any]:
    return {
        **cost,
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
