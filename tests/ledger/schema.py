"""The ledger's schema as text, to compare.

After a new migration: ``python -m tests.ledger.schema URL > tests/ledger/schema.txt``, and review it.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg

PARTS = {
    "columns": """
        select format('%s.%s %s%s%s', table_name, column_name, data_type,
            case is_nullable when 'NO' then ' not null' else '' end,
            coalesce(' default ' || column_default, ''))
        from information_schema.columns where table_schema = 'ascertain'
        order by table_name, ordinal_position""",
    "constraints": """
        select format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        from pg_constraint where connamespace = 'ascertain'::regnamespace and contype <> 'n'
        order by conrelid::regclass::text, conname""",
    "indexes": """
        select indexdef from pg_indexes where schemaname = 'ascertain' order by indexname""",
    "triggers": """
        select pg_get_triggerdef(oid) from pg_trigger
        where not tgisinternal and tgrelid::regclass::text like 'ascertain.%' order by tgrelid, tgname""",
    "views": """
        select format('%s %s', viewname, definition) from pg_views
        where schemaname = 'ascertain' order by viewname""",
    "functions": """
        select pg_get_functiondef(oid) from pg_proc
        where pronamespace = 'ascertain'::regnamespace order by proname""",
}


async def describe(connection: asyncpg.Connection) -> str:
    """Everything in the schema, in a fixed order."""
    lines = []
    for part, query in PARTS.items():
        lines.append(f"-- {part}")
        lines += [record[0].rstrip() for record in await connection.fetch(query)]
    return "\n".join(lines) + "\n"


async def main(url: str) -> None:
    connection = await asyncpg.connect(url)
    sys.stdout.write(await describe(connection))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
