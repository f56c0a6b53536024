"""The ledger's schema: forward only, safe to run twice at once, and checked before it is used.

A ``pre`` file may run while the previous release still works on the schema; a ``post`` file runs once
that release is gone. What was applied is kept with its digest: an applied file is never edited.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import asyncpg

from ascertain.errors import InvalidSettings, WrongSchema
from ascertain.ledger.session import FAULTS, Session, connect, no_answer, place
from ascertain.ledger.statement import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_FILE: Final = re.compile(r"(\d{4})_(pre|post)_\w+\.sql")


class Schema(StrEnum):
    """Whose tables: the ledger's, or those in a service's own database. Both may stand in one."""

    LEDGER = "ledger"
    SERVICE = "service"


class Kind(StrEnum):
    """When a file may run: before or after a release rolls out."""

    PRE = "pre"
    POST = "post"


_COMMAND: Final = {
    Schema.LEDGER: "ascertain migrate",
    Schema.SERVICE: "ascertain migrate --outbox URL",
}
_ROLES: Final = {
    Schema.LEDGER: ("ascertain_worker", "ascertain_operator", "ascertain_reader"),
    Schema.SERVICE: ("ascertain_service", "ascertain_relay"),
}
# What whoever works needs to write, by role; ``role.sql`` grants it. Without it, work would be taken to fail.
NEEDED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "ascertain_worker": {
        "audit_events": ("insert",),
        **dict.fromkeys(
            (
                "effects",
                "gates",
                "gate_requests",
                "deliveries",
                "replay_items",
                "outages",
                "epochs",
                "censuses",
            ),
            ("insert", "update"),
        ),
    },
    "ascertain_relay": {"outbox_entries": ("select", "update", "delete")},
}
_FEW: Final = 3


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the schema's history."""

    name: str
    kind: Kind
    text: str

    @property
    def sha256(self) -> str:
        """The digest by which an edited file is told."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def migrations(schema: Schema = Schema.LEDGER) -> tuple[Migration, ...]:
    """Every migration of this release, in order.

    Raises:
        ValueError: A file's name is not ``0001_pre_words.sql``, or a number stands twice.
    """
    found: list[Migration] = []
    for file in sorted(resources.files(f"ascertain.{schema}.migrations").iterdir(), key=str):
        if not file.name.endswith(".sql"):
            continue
        name = _FILE.fullmatch(file.name)
        if name is None or any(other.name[:4] == name[1] for other in found):
            raise ValueError(
                f"{file.name} is no name for a migration, or its number is used already"
            )
        found.append(Migration(file.name, Kind(name[2]), file.read_text("utf-8")))
    return tuple(found)


async def migrate(
    url: str, kinds: Collection[Kind] = frozenset(Kind), schema: Schema = Schema.LEDGER
) -> list[str]:
    """Bring a schema up to this release.

    Args:
        url: ``postgresql://...``, of an account that may create a schema.
        kinds: ``PRE`` alone before a release rolls out; everything once the old one is gone.
        schema: Whose tables stand there.

    Returns:
        The names of the files that were applied now, in order.

    Raises:
        WrongSchema: An applied file was edited, or one is left out that must come first.
        LedgerDown: Nobody answers there.
        InvalidSettings: The address, the account or the database's name is wrong.
    """
    connection = await connect(url)
    try:
        # Held until the connection ends; a second migrator waits here and finds nothing left to do.
        await connection.execute(statement("lock_migrations"))
        await connection.execute(statement("create_migrations"))
        applied = _applied(await connection.fetch(statement("applied_migrations")), schema)
        todo = _pending(migrations(schema), applied, kinds)
        for migration in todo:
            async with connection.transaction():
                await connection.execute(migration.text)
                await connection.execute(
                    statement("record_migration"),
                    _prefix(schema) + migration.name,
                    migration.sha256,
                )
        return [migration.name for migration in todo]
    except FAULTS as error:
        raise no_answer(url, error) from error
    finally:
        connection.terminate()


async def grant_roles(url: str, schema: Schema = Schema.LEDGER) -> tuple[str, ...]:
    """Make the roles of least privilege and grant each what it needs; again and again is safe.

    Args:
        url: ``postgresql://...``, of the account that owns the schema and may create roles.
        schema: Whose tables stand there; they are migrated already.

    Returns:
        The names of the roles.

    Raises:
        LedgerDown: Nobody answers there.
        InvalidSettings: The address, the account or the database's name is wrong, or the account may not.
    """
    connection = await connect(url)
    try:
        await connection.execute(statement("lock_migrations"))
        await connection.execute(statement("grant_roles", f"ascertain.{schema}.sql"))
        return _ROLES[schema]
    except asyncpg.InsufficientPrivilegeError as error:
        raise InvalidSettings(
            f"the account at {place(url)} may not make roles ({error}): use the schema's owner, "
            "with CREATEROLE"
        ) from error
    except FAULTS as error:
        raise no_answer(url, error) from error
    finally:
        connection.terminate()


async def check(ledger: str | Session, schema: Schema = Schema.LEDGER) -> None:
    """See that the schema is one that this release can work on.

    Args:
        ledger: Its address, or a session on it.
        schema: Whose tables stand there.

    Raises:
        WrongSchema: It is older, newer, or not what this release's files say; says what mends it.
        LedgerDown: Nobody answers there.
        InvalidSettings: The address, the account or the database's name is wrong.
    """
    if isinstance(ledger, str):
        session = await Session.open(ledger, connections=1, timeout_s=10, command_timeout_s=10)
        try:
            await check(session, schema)
        finally:
            await session.aclose()
        return
    try:
        applied = _applied(await ledger.fetch(statement("applied_migrations")), schema)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
        raise WrongSchema(f"the {schema} has no schema yet: run `{_COMMAND[schema]}`") from error
    _check(migrations(schema), applied, schema)


async def check_role(session: Session, url: str, role: str) -> None:
    """See that the account may do what a role does.

    Args:
        session: On a schema that was checked.
        url: Its address.
        role: ``ascertain_worker`` or ``ascertain_relay``.

    Raises:
        InvalidSettings: It may not; says what grants it.
        Unavailable: Nobody answers there.
    """
    needed = [(table, right) for table, all_ in NEEDED[role].items() for right in all_]
    tables, rights = zip(*needed, strict=True)
    missing = await session.fetch(statement("missing_grants"), tables, rights)
    if missing:
        account = missing[0]["account"]
        owner = next(of for of, roles in _ROLES.items() if role in roles)
        what = ", ".join(f"{lacks['privilege']} on {lacks['relation']}" for lacks in missing[:_FEW])
        raise InvalidSettings(
            f"the account {account} at {place(url)} may not do the work of {role} (it lacks {what}): the "
            f"owner says `grant {role} to {account}`; `{_COMMAND[owner]} --roles` makes the role "
            "and is given again after each migration"
        )


def _prefix(schema: Schema) -> str:
    return "" if schema is Schema.LEDGER else f"{schema}/"


def _applied(records: Sequence[asyncpg.Record], schema: Schema) -> dict[str, str]:
    """What was applied of this schema: the other one may stand in the same database."""
    named = {str(record["name"]): str(record["sha256"]) for record in records}
    prefix = _prefix(schema)
    return {
        name.removeprefix(prefix): sha256
        for name, sha256 in named.items()
        if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
    }


def _check(
    known: Sequence[Migration], applied: Mapping[str, str], schema: Schema = Schema.LEDGER
) -> None:
    """Judge what was applied. Pending ``post`` files and unknown ``pre`` ones belong to a roll-out."""
    _refuse_edited(known, applied)
    missing = [
        migration.name
        for migration in known
        if migration.kind is Kind.PRE and migration.name not in applied
    ]
    if missing:
        raise WrongSchema(
            f"the {schema}'s schema is older than this release ({', '.join(missing)} not applied): "
            f"run `{_COMMAND[schema]}`"
        )
    names = {migration.name for migration in known}
    foreign = [name for name in applied if name not in names and f"_{Kind.POST}_" in name]
    if foreign:
        raise WrongSchema(
            f"the {schema}'s schema is newer than this release ({', '.join(foreign)} was applied): "
            "install the release that it belongs to"
        )


def _pending(
    known: Sequence[Migration], applied: Mapping[str, str], kinds: Collection[Kind]
) -> list[Migration]:
    _refuse_edited(known, applied)
    pending = [migration for migration in known if migration.name not in applied]
    chosen = [migration for migration in pending if migration.kind in kinds]
    skipped = [migration for migration in pending if migration.kind not in kinds]
    if chosen and skipped and skipped[0].name < chosen[-1].name:
        raise WrongSchema(
            f"{skipped[0].name} must be applied before {chosen[-1].name}: "
            "run `ascertain migrate` for both kinds"
        )
    return chosen


def _refuse_edited(known: Sequence[Migration], applied: Mapping[str, str]) -> None:
    for migration in known:
        if applied.get(migration.name, migration.sha256) != migration.sha256:
            raise WrongSchema(
                f"{migration.name} is not the file that was applied: restore it, and put what is new "
                "into a migration of its own, then run `ascertain migrate`"
            )
