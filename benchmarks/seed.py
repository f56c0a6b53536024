"""A ledger that has been used for long, made at once: rows as real claims and records leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Iterator

# Triggers and CHECKs of moves are passed by: the rows are copies of one that went through them. Ids come
# sorted, which makes the indexes faster to build and no smaller. Every row has other ids, and so has its
# trail, whose hashes are random: nothing here reads them.
_PASSED_BY: Final = "set session_replication_role = replica"
_COLUMNS: Final = """
select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attname <> all ($2::text[])
"""
_EFFECTS: Final = """
insert into ascertain.effects (effect_id, task_id, external_id, receipt, state_since, {columns})
select
    'ef1-' || lpad(to_hex(n), 32, '0'), 'seed-' || n, case when receipt is not null then 'seed-' || n end,
    receipt || jsonb_build_object('external_id', 'seed-' || n), state_since - n * interval '1 second',
    {columns}
from ascertain.effects
cross join generate_series($2::bigint, $3::bigint) as n
where effect_id = $1
"""
_TRAILS: Final = """
insert into ascertain.audit_events (effect_id, hash, {columns})
select 'ef1-' || lpad(to_hex(n), 32, '0'), sha256(int8send(n * 2 + seq)), {columns}
from generate_series($2::bigint, $3::bigint) as n
cross join ascertain.audit_events
where effect_id = $1
order by n, seq
"""
_SETTLED: Final = "vacuum (analyze) ascertain.effects, ascertain.audit_events"
_EFFECTS_OWN: Final = ("effect_id", "task_id", "external_id", "receipt", "state_since")
_TRAILS_OWN: Final = ("effect_id", "hash")
_PIECE: Final = 100_000


async def seed(database: str, effect_id: str, rows: int) -> None:
    """Put so many effects, each with its trail, beside one that stands as they shall.

    Args:
        database: Of a migrated ledger; as a superuser, for triggers are passed by.
        effect_id: Is copied.
        rows: How many copies.
    """
    connection = await asyncpg.connect(database, ssl=False)
    try:
        await connection.execute(_PASSED_BY)
        effects = await connection.fetchval(_COLUMNS, "ascertain.effects", list(_EFFECTS_OWN))
        trails = await connection.fetchval(_COLUMNS, "ascertain.audit_events", list(_TRAILS_OWN))
        for first, last in _pieces(rows):
            await connection.execute(_EFFECTS.format(columns=effects), effect_id, first, last)
            await connection.execute(_TRAILS.format(columns=trails), effect_id, first, last)
        await connection.execute(_SETTLED)
    finally:
        await connection.close()


def _pieces(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(1, rows + 1, _PIECE):
        yield first, min(first + _PIECE - 1, rows)
